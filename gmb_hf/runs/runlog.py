"""The run log: one row per (run, step), one column per observable, and what is known of the runs.

log = RunLog.read("runs/quick/logs")        # a file, a folder or a glob, of any known format
log.panel("test_acc").values                # float64 [runs, checkpoints]
log.write("all_runs.parquet")
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from gmb_hf._lazy import from_above
from gmb_hf.base.errors import InputError, choose, positive_int, repeated
from gmb_hf.base.escape import cut, html_table
from gmb_hf.base.files import atomic_path
from gmb_hf.base.fingerprints import ContentHash, item_hash
from gmb_hf.runs import columns as cols
from gmb_hf.runs import metadata as meta
from gmb_hf.runs.columns import KEYS, RUN, STEP, OnDuplicate, RawTable, Wanted
from gmb_hf.runs.panel import Panel, prefix_mask
from gmb_hf.runs.readers import Sources, is_frame, keep_last_rows, read_sources

if TYPE_CHECKING:
    from pandas import DataFrame


class ReadOptions(TypedDict, total=False):
    """What `RunLog.read` can be told."""

    step_column: str
    run_column: str
    columns: Sequence[str] | None
    on_duplicate: OnDuplicate
    last_rows: int | None


def _names_a_dataset(sources: Any) -> bool:
    """Whether a frozen panel or a dataset of the Hub is among the sources."""
    given = [sources] if isinstance(sources, str) else sources
    if not isinstance(given, Sequence):
        return False
    return any(isinstance(one, str) and one.startswith((meta.PANEL, "hf://")) for one in given)


@dataclasses.dataclass(eq=False, repr=False)
class RunLog:
    """A table of observables by run and step, in order: runs by name, steps increasing.

    Build one with `read`, `from_table`, `from_arrays` or `concat`; all of them check and sort. Its
    rows never change: another table is another log.

    Attributes:
        table: columns `run` (string), `step` (int64), `seed` (int64, if known), then float64.
        origin: where the rows came from, for messages.
        metadata: a JSON object about the runs (task, model, preset, versions).
        dropped_duplicates: run -> rows dropped because a restart logged their step again.
        set_aside: column -> why it is no observable (text, lists).
        notes: what to know of how the files were read, a sentence each.
        rows_read: how many rows it had before `complete`; None where it is as it was read.
    """

    table: pa.Table
    origin: str = "run log"
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)
    dropped_duplicates: dict[str, int] = dataclasses.field(default_factory=dict)
    set_aside: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rows_read: int | None = None

    @classmethod
    def read(
        cls,
        sources: Sources | DataFrame,
        *,
        step_column: str = "step",
        run_column: str = "run",
        columns: Sequence[str] | None = None,
        on_duplicate: OnDuplicate = "last",
        last_rows: int | None = None,
    ) -> RunLog:
        """Read run logs from files of any known format, folders or globs, as one.

        Args:
            sources: what to read; a folder stands for the run log files directly in it, or for the
                trainings in its subfolders; `panel:NAME` and `hf://datasets/ORG/NAME@REV` are frozen
                panels and datasets of the Hub. Or a pandas DataFrame: what is named in its index is
                a column, NaN an empty cell, and without `run_column` it is one run, "run".
            step_column: its name in the files; for `step`, where a file has none, the one column
                of another known name is taken, which `notes` says.
            run_column: its name in the files; for `run`, where a file has none, the one column of
                another known name that has several runs in it is taken, which `notes` says. Any
                other file is one run, named by the file's stem; a training's state or event files
                are one run, named by its folder.
            columns: read these observables only; None reads every column of numbers.
            on_duplicate: "last" keeps the last row of a step that a restart logged again and counts
                the others in `dropped_duplicates`, a tenth of all rows at most, and merges rows of
                one step that were logged with different columns; "keep" keeps all rows; "sort" does
                too, and sorts rows that are out of order instead of refusing them.
            last_rows: read only so many rows at the end of each run's log, as it was written.

        Raises:
            InputError: nothing to read, a missing column, a cell that is no number (file and line
                are named), steps out of order, one run in two files, a file that is not as `write`
                left it, or steps logged again that another column tells apart (it is named), or
                more of them than restarts log.
        """
        if _names_a_dataset(sources):
            options: ReadOptions = {"step_column": step_column, "run_column": run_column}
            options |= {"columns": columns, "on_duplicate": on_duplicate, "last_rows": last_rows}
            found: RunLog = from_above("read_runs")(sources, **options)
            return found
        wanted = Wanted(step_column, run_column, None if columns is None else tuple(columns))
        logs: list[RunLog] = []
        charts: list[RunLog] = []
        dropped: Counter[str] = Counter()
        for run_name, raw in read_sources(sources, wanted):
            _check_checksum(raw)
            if last_rows is not None:
                run = cols.find_run(raw, wanted.run)
                raw = keep_last_rows(raw, positive_int("last_rows", last_rows), run)
            # A chart may lack a column that another one has.
            own = dataclasses.replace(wanted, columns=None) if raw.chart else wanted
            log = cls._from_raw(raw, own, run_name=run_name, on_duplicate=on_duplicate)
            (charts if raw.chart else logs).append(log)
            if not _has_checksum(raw):  # of another file, who wrote it has decided
                dropped.update(log.dropped_duplicates)
        if charts:
            logs.append(cls._join_charts(charts, wanted))
        _refuse_repeated_runs(logs)
        named = isinstance(sources, (str, Path))
        log = cls._join(logs, str(sources) if named else f"{len(logs)} files")
        cols.refuse_lost_rows(dropped, log.rows_by_run, log.origin)
        return log

    @classmethod
    def from_table(
        cls,
        table: pa.Table,
        *,
        metadata: Mapping[str, Any] | None = None,
        step_column: str = "step",
        run_column: str = "run",
        run_name: str | None = None,
        columns: Sequence[str] | None = None,
        on_duplicate: OnDuplicate = "last",
    ) -> RunLog:
        """A run log from any table with a step column; the arguments are those of `read`.

        `run_name` names the one run of a table that has no `run` column. Metadata that an earlier
        `write` left in the table is used where `metadata` is not given.
        """
        wanted = Wanted(step_column, run_column, None if columns is None else tuple(columns))
        raw = RawTable(table, "run log")
        log = cls._from_raw(raw, wanted, run_name=run_name, on_duplicate=on_duplicate)
        if not _has_checksum(raw):
            cols.refuse_lost_rows(log.dropped_duplicates, log.rows_by_run, log.origin)
        if metadata is not None:
            log.metadata = dict(metadata)
        return log

    @classmethod
    def from_pandas(cls, frame: DataFrame, **options: Unpack[ReadOptions]) -> RunLog:
        """A run log from a DataFrame with a row per checkpoint; the same as `read`.

        Args:
            frame: columns step, run and the observables; the first two may be its index.
            options: as `read` takes them.

        Raises:
            InputError: as `read`; the row is named.
        """
        if not is_frame(frame):
            what = f"from_pandas: a {type(frame).__name__} is no DataFrame"
            raise InputError(f"{what}; RunLog.read takes files, folders and globs", code="no_frame")
        return cls.read(frame, **options)

    def to_pandas(self) -> DataFrame:
        """The table as a DataFrame: a row per run and checkpoint, `run` and `step` its first
        columns, NaN where a cell is empty; `from_pandas` reads it back."""
        return self.table.to_pandas()

    @classmethod
    def from_arrays(
        cls,
        runs: Sequence[str],
        steps: ArrayLike,
        observables: Mapping[str, ArrayLike],
        *,
        seeds: Sequence[int] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> RunLog:
        """A run log of R runs, with R seeds if they are known, of T checkpoints each.

        `steps` are whole numbers, [T] (the same for all) or [R, T]; observables are [R, T].

        Raises:
            InputError: a shape that differs, or steps out of order.
        """
        grid = np.atleast_1d(np.asarray(steps))
        shape = (len(runs), grid.shape[-1])
        data: dict[str, Any] = {
            "run": np.repeat(np.asarray(runs, dtype=object), shape[1]),
            "step": np.broadcast_to(grid, shape).ravel(),
        }
        if seeds is not None:
            data["seed"] = np.repeat(np.asarray(seeds), shape[1])
        for name, values in observables.items():
            array = np.asarray(values, dtype=np.float64)
            if array.shape != shape:
                message = f"observable {name!r} has shape {array.shape}, expected {shape}"
                raise InputError(message, code="bad_shape", column=name)
            data[name] = array.ravel()
        return cls.from_table(pa.table(data), metadata=metadata or {})

    @classmethod
    def concat(cls, logs: Sequence[RunLog]) -> RunLog:
        """One run log from several with distinct runs.

        Metadata that all agree on is kept; what differs is listed under "differs". A column that
        some of them lack has no values in their runs; one that is set aside in some is set aside.

        Raises:
            InputError: no logs, or a run that is in two of them.
        """
        if not logs:
            raise InputError("no run logs to join", code="no_logs")
        if (twice := repeated(run for log in logs for run in log.runs)) is not None:
            message = f"run {twice!r} is in two of the run logs to join"
            raise InputError(message, code="run_in_two_files", run=twice)
        return cls._join(logs, f"{len(logs)} run logs")

    @classmethod
    def _from_raw(
        cls, raw: RawTable, wanted: Wanted, *, run_name: str | None, on_duplicate: OnDuplicate
    ) -> RunLog:
        """The log of a raw table: its columns typed, split rows merged, and rows in order."""
        choose("on_duplicate", on_duplicate, ("last", "keep", "sort"))
        run = cols.find_run(raw, wanted.run)
        step = cols.find_step(raw.names, wanted.step, raw.where)
        own = dataclasses.replace(wanted, run=run)
        table, aside = cols.typed_columns(raw, own, run_name=run_name)
        if on_duplicate != "keep":
            cols.refuse_hidden_runs(raw, table, step)
        if on_duplicate == "last":
            table = cols.merge_split_rows(table)
        cols.check_seeds(table, raw.where)
        table, dropped = cols.order_rows(table, on_duplicate=on_duplicate, where=raw.where)
        schema = raw.table.schema.metadata or {}
        notes = list(raw.notes)
        if step != wanted.step:
            notes.append(f"The steps are the column {step!r}.")
        if run != wanted.run:
            notes.append(f"The runs are named by the column {run!r}.")
        return cls(
            table.replace_schema_metadata(None),
            raw.where,
            meta.from_json(schema.get(meta.METADATA_KEY), raw.where),
            _sum([meta.from_json(schema.get(meta.DROPPED_KEY), raw.where), dropped]),
            aside,
            tuple(notes),
        )

    @classmethod
    def _join(cls, logs: Sequence[RunLog], origin: str) -> RunLog:
        """`concat` of logs whose runs are known to be distinct; one log alone stays as it is."""
        if len(logs) == 1:
            return logs[0]
        aside = {name: why for log in logs for name, why in log.set_aside.items()}
        table = pa.concat_tables([log.table for log in logs], promote_options="default")
        table = table.drop_columns([name for name in table.column_names if name in aside])
        # What to do with repeated steps was decided when each log was read.
        table, _ = cols.order_rows(table, on_duplicate="sort", where=origin)
        return cls(
            table,
            origin,
            meta.merge([log.metadata for log in logs]),
            _sum([log.dropped_duplicates for log in logs]),
            aside,
            tuple(dict.fromkeys(note for log in logs for note in log.notes)),
        )

    @classmethod
    def _join_charts(cls, charts: Sequence[RunLog], wanted: Wanted) -> RunLog:
        """Charts joined by run and step; no two of them may hold one column of one run."""
        _refuse_repeated_runs(charts, by_column=True)
        table = pa.concat_tables([chart.table for chart in charts], promote_options="default")
        raw = RawTable(
            # The rows of one step come together, and are then merged.
            table.sort_by([(RUN, "ascending"), (STEP, "ascending")]),
            charts[0].origin if len(charts) == 1 else f"{len(charts)} charts",
            aside={name: why for chart in charts for name, why in chart.set_aside.items()},
            notes=tuple(dict.fromkeys(note for chart in charts for note in chart.notes)),
        )
        known = Wanted(columns=wanted.columns)
        return cls._from_raw(raw, known, run_name=None, on_duplicate="last")

    def __repr__(self) -> str:
        steps = self.table[STEP]
        first, last = pc.min_max(steps).values() if len(steps) else (0, 0)
        names = [cut(name, 40) for name in self.observables[:6]]
        shown = ", ".join(names) + (", ..." if len(self.observables) > 6 else "")
        return (
            f"RunLog({len(self.runs)} runs, {len(steps)} rows, steps {first} to {last}, "
            f"{len(self.observables)} observables: {shown})"
        )

    def _repr_html_(self) -> str:
        """The first runs as a table, for a notebook."""
        clock = self.panel(STEP)
        columns = (self.runs, self.seeds, clock.lengths, clock.first_step, clock.last_step)
        rows = zip(*(column[:10] for column in columns), strict=True)
        names = ("run", "seed", "rows", "first step", "last step")
        return html_table(repr(self), names, rows, len(self.runs), "runs")

    @property
    def runs(self) -> tuple[str, ...]:
        """Run names in natural order (seed_2 before seed_10)."""
        return self._runs_and_lengths[0]

    @cached_property
    def observables(self) -> tuple[str, ...]:
        """The columns of numbers: `panel` takes those that every run has a value of."""
        return tuple(name for name in self.table.column_names if name not in KEYS)

    @property
    def rows_by_run(self) -> dict[str, int]:
        """How many rows each run has."""
        return dict(zip(self.runs, self._lengths.tolist(), strict=True))

    @property
    def restarts(self) -> str:
        """How many rows restarts logged again, as a sentence; empty where there are none."""
        if not self.dropped_duplicates:
            return ""
        dropped = sum(self.dropped_duplicates.values())
        rows = dropped + (self.rows_read or self.table.num_rows)
        runs = ", ".join(f"{run} ({count})" for run, count in self.dropped_duplicates.items())
        share = f"{dropped / rows:.1%} of {rows:,}"
        return f"{dropped:,} rows of restarted logs ({share}) were dropped: {runs}."

    @property
    def shared_observables(self) -> tuple[str, ...]:
        """The observables that every run has a value of: runs may be of several versions."""
        return tuple(
            name
            for name in self.observables
            if not self.table[name].null_count
            or not self._runs_without(cols.filled(self.table, [name]))
        )

    @cached_property
    def seeds(self) -> tuple[int | None, ...]:
        """Each run's seed: its `seed` column; else N of a name that is just `seed_N`; else None.

        Other digits in a name are no seed: `alpha-0` and `beta-0` are two runs.
        """
        stated = [re.fullmatch(r"seed[_-]?([0-9]{1,18})", run) for run in self.runs]
        found = [int(match[1]) if match else None for match in stated]
        if "seed" not in self.table.column_names:
            return tuple(found)
        first = self.table["seed"].take(pa.array(self._starts)).to_pylist()
        return tuple(
            named if seed is None else seed for seed, named in zip(first, found, strict=True)
        )

    def run_hashes(self, columns: Iterable[str]) -> tuple[str, ...]:
        """SHA-256 of each run's steps and these columns, whatever it is called.

        A run in which none of them moves could be any such run: its name is part of its hash.
        """
        known = tuple(sorted(set(columns).intersection(self.observables)))
        if known not in self._hashes:
            self._hashes[known] = tuple(self._hashes_of_runs(known))
        return self._hashes[known]

    @cached_property
    def _hashes(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        return {}

    def _hashes_of_runs(self, known: tuple[str, ...]) -> Iterator[str]:
        cells = {name: _canonical(self.table[name]) for name in (STEP, *known)}
        for run, start, rows in zip(self.runs, self._starts, self._lengths, strict=True):
            own = {name: values[start : start + rows].tobytes() for name, values in cells.items()}
            moves = any(own[name] != own[name][:8] * rows for name in known)
            item = {name: hashlib.sha256(content).hexdigest() for name, content in own.items()}
            yield item_hash([None if moves else run, item]).hex()

    def panel(self, column: str) -> Panel:
        """One observable of all runs, [R, T], NaN where a cell is empty.

        The column "step" gives the steps themselves as values.

        Raises:
            InputError: the column is missing (the nearest is named), holds no numbers, or has no
                value at all in some run.
        """
        if column == "step":
            clock = np.where(self._present, self._steps, np.nan)
            return Panel(column, self.runs, clock, self._steps, self._present)
        self._require(column)
        cells = self.table[column]
        if cells.null_count:
            self._require_values([column])
        values = np.full(self._present.shape, np.nan)
        values[self._present] = cols.float_column(cells)
        return Panel(column, self.runs, values, self._steps, self._present)

    def select(self, runs: Sequence[str]) -> RunLog:
        """The run log of these runs only.

        Raises:
            InputError: no run named, or an unknown one.
        """
        if not runs:
            raise InputError(f"{self.origin}: no runs selected")
        for run in runs:
            choose("run", run, self.runs, where=self.origin)
        wanted = set(runs)
        rows = np.repeat([run in wanted for run in self.runs], self._lengths)
        log = self.with_rows(self.table.filter(pa.array(rows)))
        log.rows_read = None
        return log

    def complete(self, columns: Sequence[str]) -> RunLog:
        """The run log of those rows in which all these columns have a value.

        It is what makes columns comparable that were logged at different steps; `notes` says how
        many rows are left.

        Raises:
            InputError: a column is missing, or a run has no such row.
        """
        for column in columns:
            self._require(column)
        rows = cols.filled(self.table, columns)
        if rows.all():
            return self
        for some in (*([column] for column in columns), columns):
            self._require_values(some)
        names = " and ".join(columns)
        note = f"Kept are the {rows.sum()} of {len(rows)} rows in which {names} have a value."
        log = self.with_rows(self.table.filter(pa.array(rows)), note)
        log.rows_read = self.rows_read or len(rows)
        return log

    def fingerprint(self) -> str:
        """SHA-256 (64 hex digits) of the content: runs, steps, seeds and every observable's bits.

        Independent of file format, row groups, order of rows and columns, and metadata; -0.0 counts
        as 0.0, an empty cell as NaN, and a column without a value in a run is no part of that run.
        """
        return self._fingerprint

    def write(self, path: str | Path, *, single: bool = False) -> Path:
        """Write one Parquet file, atomically; the same run log gives the same bytes.

        Its pages have checksums and its metadata a hash of all content, which `read` compares.
        With `single` observables are rounded to float32, in half the space and less.

        Raises:
            InputError: the disk is full, or the place cannot be written to.
        """
        table, options = self.stored_table(where=str(path)).combine_chunks(), dict[str, Any]()
        if single:
            doubles = [one.name for one in table.schema if pa.types.is_float64(one.type)]
            rounded = [pa.float32() if one.name in doubles else one.type for one in table.schema]
            fields = map(pa.field, table.column_names, rounded)
            table = table.cast(pa.schema(fields, metadata=table.schema.metadata))
            # The bytes of equal place in a row: exponents repeat, which compresses.
            others = [name for name in table.column_names if name not in doubles]
            # Panels are written once and kept for long: seconds for a twelfth of the space.
            options = {
                "use_byte_stream_split": doubles,
                "use_dictionary": others,
                "compression_level": 19,
            }
        about = {**table.schema.metadata, meta.CHECKSUM_KEY: _checksum(table)}
        table = table.replace_schema_metadata(about)
        with atomic_path(path) as temporary:
            pq.write_table(
                table, temporary, compression="zstd", write_page_checksum=True, **options
            )
        return Path(path)

    def stored_table(self, *, where: str = "run log") -> pa.Table:
        """The table with the metadata in its schema, as `write` stores it and `read` takes it."""
        held = {meta.METADATA_KEY: meta.to_json(self.metadata, where)}
        if self.dropped_duplicates:
            held[meta.DROPPED_KEY] = meta.to_json(dict(self.dropped_duplicates), where)
        return self.table.replace_schema_metadata(held)

    def _require(self, column: str) -> None:
        if column in self.set_aside:
            why = self.set_aside[column]
            raise InputError(why, code="not_numbers", where=self.origin, column=column)
        if column not in self.observables:
            raise cols.missing_column(column, self.observables, self.origin)

    def _require_values(self, columns: Sequence[str]) -> None:
        """Refuse a run without a single row in which all these columns have a value."""
        bare = self._runs_without(cols.filled(self.table, columns))
        if not bare:
            return
        run = f"{bare[0]!r}" + (f" (and {len(bare) - 1} more)" if len(bare) > 1 else "")
        names = " and ".join(map(repr, columns))
        what = (
            f"run {run} has no step at which {names} all have a value; log them at the same steps"
        )
        if len(columns) == 1:
            hint = "leave the run out or choose another column"
            what = f"column {names} has no value in run {run}; {hint}"
        at = {"run": bare[0], "column": " ".join(columns)}
        raise InputError.at(self.origin, "no_value", what, **at)

    def _runs_without(self, rows: NDArray[np.bool_]) -> list[str]:
        """The runs none of whose rows is among these, bool [N]."""
        bare = np.flatnonzero(np.add.reduceat(rows.astype(np.int64), self._starts) == 0)
        return [self.runs[run] for run in bare]

    def with_rows(self, table: pa.Table, *notes: str) -> RunLog:
        """The log with only some of its rows, in their order, and these notes besides its own."""
        log = dataclasses.replace(
            self, table=table, metadata=dict(self.metadata), notes=(*self.notes, *notes)
        )
        dropped = self.dropped_duplicates
        log.dropped_duplicates = {run: dropped[run] for run in dropped if run in log.runs}
        return log

    @cached_property
    def _fingerprint(self) -> str:
        return _content_hash(self.table)

    @cached_property
    def _runs_and_lengths(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        codes, names = cols.run_codes(self.table)
        return tuple(names), np.bincount(codes, minlength=len(names)).astype(np.int64)

    @property
    def _lengths(self) -> NDArray[np.int64]:
        """Rows of each run, int64 [R]."""
        return self._runs_and_lengths[1]

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum(self._lengths) - self._lengths

    @cached_property
    def _present(self) -> NDArray[np.bool_]:
        mask = prefix_mask(self._lengths)
        mask.flags.writeable = False  # shared by every panel of this log
        return mask

    @cached_property
    def _steps(self) -> NDArray[np.int64]:
        steps = np.zeros(self._present.shape, dtype=np.int64)
        steps[self._present] = np.asarray(self.table["step"])
        steps.flags.writeable = False
        return steps


def _content_hash(table: pa.Table) -> str:
    runs = RunItems()
    for batch in table.to_batches():
        runs.add(batch)
    found = ContentHash()
    for digest in runs.finish():
        found.add_hash(digest)
    return found.hexdigest()


def _checksum(table: pa.Table) -> bytes:
    """The hash of a stored table: of its rows and of what it says about them."""
    about = table.schema.metadata or {}
    keys = (meta.METADATA_KEY, meta.DROPPED_KEY)
    held = {str(key): hashlib.sha256(about[key]).hexdigest() for key in keys if key in about}
    return item_hash({"content": _content_hash(table), **held}).hex().encode()


def _has_checksum(raw: RawTable) -> bool:
    """Whether `RunLog.write` wrote it."""
    return meta.CHECKSUM_KEY in (raw.table.schema.metadata or {})


def _check_checksum(raw: RawTable) -> None:
    """Refuse a file that is not as `RunLog.write` left it, where all its columns were read."""
    held = (raw.table.schema.metadata or {}).get(meta.CHECKSUM_KEY)
    if held is None or len(raw.names) > raw.table.num_columns:
        return
    try:
        found = _checksum(raw.table)
    except InputError:  # a column of another name or kind
        found = None
    if found != held:
        what = "the content is not what gmb wrote (its hash differs): damaged, or changed; copy it"
        hint = "again, or write what was changed on purpose by RunLog.from_table(table).write(path)"
        raise raw.error("damaged", f"{what} {hint}")


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def _refuse_repeated_runs(logs: Sequence[RunLog], *, by_column: bool = False) -> None:
    """Refuse files that hold the same run, or `by_column` the same column of it."""
    home: dict[tuple[str, str | None], str] = {}
    for log in logs:
        for run, column in product(log.runs, log.observables if by_column else (None,)):
            other = home.setdefault((run, column), log.origin)
            if other != log.origin:
                what = f"run {run!r} is in two files" + (f" with column {column!r}" * by_column)
                hint = "leave one out, or give the runs different names"
                at = {"where": log.origin, "run": run, "column": column}
                message = f"{what}, {other} and {log.origin}; {hint}"
                raise InputError(message, code="run_in_two_files", **at)


def at_shared_steps(log: RunLog, columns: Sequence[str]) -> RunLog:
    """The rows in which all `columns` have a value if those are evenly spaced, else the log.

    Evenly spaced from end to end: no run may lose as much as one spacing at its beginning or end.
    What was left out, the log's `notes` say.

    Raises:
        InputError: a column is missing, or a run has no row in which all of them have a value.
    """
    shared = log.complete(columns)
    if cols.filled(log.table, columns).all():
        return log
    before, after = log.panel("step"), shared.panel("step")
    try:
        spacing = after.cadence()
    except InputError:
        return log
    lost = np.maximum(after.first_step - before.first_step, before.last_step - after.last_step)
    return shared if (lost < spacing).all() else log


class RunItems:
    """Collects the items of a run log from batches of its rows, in constant memory for each run."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self._name = ""
        self._rows = 0
        # Of the run under way: name -> SHA-256 so far.
        self._columns: defaultdict[str, Any] = defaultdict(hashlib.sha256)
        self._filled: set[str] = set()

    def add(self, batch: pa.RecordBatch, *, where: str = "run log") -> None:
        """Take the next rows; a run may go on from one batch to the next.

        Raises:
            InputError: a column is named twice, `run` is not there or another column holds no
                numbers, or the rows of a run do not stand together.
        """
        if not batch.num_rows:
            return
        _check_columns(batch.schema, where)
        runs = pc.dictionary_encode(batch["run"], null_encoding="encode")
        codes, names = np.asarray(runs.indices), runs.dictionary.to_pylist()
        starts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist()]
        columns = {name: _canonical(batch[name]) for name in batch.schema.names if name != "run"}
        held = {
            name: np.logical_or.reduceat(~np.isnan(values), starts)
            for name, values in columns.items()
        }
        for place, (start, stop) in enumerate(pairwise([*starts, batch.num_rows])):
            name = names[codes[start]]
            if not self._rows or name != self._name:
                self._close()
                if name in self._digests:
                    what = f"the rows of run {name!r} do not stand together"
                    raise InputError.at(where, "run_in_pieces", what, run=name)
                self._name = name
            self._rows += stop - start
            for column, values in columns.items():
                self._columns[column].update(values[start:stop])
                if held[column][place]:
                    self._filled.add(column)

    def finish(self) -> list[bytes]:
        """The items' hashes, 32 bytes each, when all rows have been taken."""
        self._close()
        return list(self._digests.values())

    def _close(self) -> None:
        """A column in which the run has no value is not there: others may have brought it."""
        if not self._rows:
            return
        columns = {name: self._columns[name].hexdigest() for name in self._filled}
        item = {"run": self._name, "rows": self._rows, "columns": columns}
        self._digests[self._name] = item_hash(item)
        self._rows, self._filled = 0, set()
        self._columns.clear()


def _check_columns(schema: pa.Schema, where: str) -> None:
    if (twice := repeated(schema.names)) is not None:
        what = f"column {twice!r} stands twice"
        raise InputError.at(where, "repeated_column", what, column=twice)
    if "run" not in schema.names:
        raise cols.missing_column("run", schema.names, where)
    for column in schema:
        number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if column.name != "run" and not number:
            what = f"column {column.name!r} holds {column.type}, not numbers"
            raise InputError.at(where, "not_numbers", what, column=column.name)


def _canonical(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """Float64 with one NaN and one zero, so that equal content has equal bytes.

    Steps and seeds go the same way: as float64 they are exact below 2**53.
    """
    values = cols.float_column(pc.cast(column, pa.float64(), safe=False)) + 0.0
    return np.where(np.isnan(values), np.nan, values).astype("<f8")
