"""The run log: one row per (run, step), one column per observable, and what is known of the runs.

log = RunLog.read("runs/quick/logs")        # a file, a folder or a glob, of any known format
log.panel("test_acc").values                # float64 [runs, checkpoints]
log.write("all_runs.parquet")
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from gmb_hf.runs.columns import float_column
from gmb_hf.runs.columns import KEYS
from gmb_hf.runs.columns import RUN
from gmb_hf.runs.columns import STEP
import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from gmb_hf.runs import metadata as meta
from gmb_hf.runs.columns import check_seeds
from gmb_hf.runs.columns import typed_columns
from gmb_hf.runs.columns import OnDuplicate
from gmb_hf.runs.columns import order_rows
from gmb_hf.runs.columns import RawTable
from gmb_hf.runs.columns import Wanted
from gmb_hf.runs.columns import find_step
from gmb_hf.errors import choose
from pathlib import Path
from gmb_hf.runs.readers import read_sources
from gmb_hf.runs.readers import keep_last_rows
from gmb_hf.errors import InputError
from gmb_hf.errors import positive_int
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field
from gmb_hf.fingerprints import ContentHash
from gmb_hf.fingerprints import item_hash
from gmb_hf.runs.columns import missing_column
from gmb_hf.errors import repeated
import re
from functools import cached_property
import pyarrow.parquet as pq
from numpy.typing import ArrayLike
from gmb_hf.files import atomic_path
from gmb_hf.runs.columns import bare_runs
from gmb_hf.runs.columns import filled
from gmb_hf.runs.columns import require_rows
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.panel import prefix_mask
from gmb_hf.runs.columns import rectangle
from gmb_hf.errors import unknown
from typing import Literal
from gmb_hf.runs.metadata import DIFFERS
from gmb_hf.fingerprints import SHOWN
from gmb_hf.fingerprints import FingerprintMismatchError


def join_pieces(table: pa.Table) -> pa.Table:
    """The table with the pieces of a row put together.

    Args:
        table: typed columns, its rows in the order in which they were logged.
    """
    start = _starts(table)
    if len(start) == table.num_rows:
        return table
    sizes = np.diff(np.append(start, table.num_rows))
    group = np.repeat(np.arange(len(start)), sizes)
    names = [name for name in table.column_names if name not in KEYS]
    clash = np.zeros(len(start), dtype=bool)
    adds = np.zeros(table.num_rows, dtype=bool)
    filled = {name: np.asarray(pc.is_valid(table[name]), dtype=bool) for name in names}
    for name, held in filled.items():
        values = float_column(table[name])
        low = np.minimum.reduceat(np.where(held, values, np.inf), start)
        high = np.maximum.reduceat(np.where(held, values, -np.inf), start)
        clash |= low < high
        adds |= held & (np.add.reduceat(held, start, dtype=np.int64)[group] == 1)
    joined = ~clash & (sizes > 1) & np.logical_and.reduceat(adds, start)
    if not joined.any():
        return table
    # A joined row stands where its last piece stood; each cell comes from the piece that has it.
    rows = np.arange(table.num_rows)
    last = np.append(start[1:], table.num_rows) - 1
    kept = rows[~joined[group] | (rows == last[group])]
    columns = {}
    for name in table.column_names:
        source = kept
        if name in filled:
            at = np.maximum.reduceat(np.where(filled[name], rows, -1), start)
            source = np.where(joined[group[kept]] & (at[group[kept]] >= 0), at[group[kept]], kept)
        columns[name] = table[name].take(pa.array(source))
    return pa.table(columns, metadata=table.schema.metadata)


def _starts(table: pa.Table) -> NDArray[np.int64]:
    """Where rows of another run or step than the row before begin."""
    step = np.asarray(table[STEP])
    codes = np.asarray(pc.dictionary_encode(table[RUN].combine_chunks()).indices)
    changes = (np.diff(step) != 0) | (np.diff(codes) != 0)
    return np.flatnonzero(np.append(True, changes)) if len(step) else np.zeros(0, dtype=np.int64)


# Ordered rows with what is known of them: what a run log is made of, and made from.


@dataclasses.dataclass(frozen=True)
class Part:
    """Rows in order: runs by name, steps increasing.

    Attributes:
        table: columns `run` (string), `step` (int64), `seed` (int64, if known), then float64.
        runs: R run names in natural order.
        lengths: rows of each run, int64 [R].
        origin: where the rows came from, for messages.
        metadata: a JSON object about the runs.
        dropped: run -> rows dropped because a restart logged their step again.
        aside: column -> why it is no observable.
        notes: what to know of how the files were read.
    """

    table: pa.Table
    runs: tuple[str, ...]
    lengths: NDArray[np.int64]
    origin: str
    metadata: Mapping[str, Any]
    dropped: Mapping[str, int]
    aside: Mapping[str, str]
    notes: tuple[str, ...]

    def with_rows(self, table: pa.Table, *, note: str = "") -> Part:
        """The part with only some of its rows, in their order."""
        runs, lengths = _lengths(table)
        return dataclasses.replace(
            self,
            table=table,
            runs=runs,
            lengths=lengths,
            dropped={run: count for run, count in self.dropped.items() if run in runs},
            notes=(*self.notes, note) if note else self.notes,
        )


def order_raw(
    raw: RawTable, wanted: Wanted, *, run_name: str | None, on_duplicate: OnDuplicate
) -> Part:
    """Type the columns of a raw table, put pieces of rows together, and order the rows.

    Raises:
        InputError: a missing column, a wrong cell, steps out of order, or a run with two seeds.
    """
    choose("on_duplicate", on_duplicate, ("last", "keep", "sort"))
    table, aside = typed_columns(raw, wanted, run_name=run_name)
    if on_duplicate == "last":
        table = join_pieces(table)
    encoded = pc.dictionary_encode(table["run"].combine_chunks())
    codes = np.asarray(encoded.indices, dtype=np.int64)
    names = encoded.dictionary.to_pylist()
    check_seeds(table, codes, names, raw.where)
    steps = np.asarray(table["step"])
    order = order_rows(codes, names, steps, on_duplicate=on_duplicate, where=raw.where)
    held = raw.table.schema.metadata or {}
    step = find_step(raw.names, wanted.step, raw.where)
    guessed = () if step == wanted.step else (f"The steps are the column {step!r}.",)
    return Part(
        table if order.rows is None else table.take(pa.array(order.rows)),
        order.runs,
        order.lengths,
        raw.where,
        meta.from_json(held.get(meta.METADATA_KEY), raw.where),
        _sum([meta.from_json(held.get(meta.DROPPED_KEY), raw.where), order.dropped]),
        aside,
        (*raw.notes, *guessed),
    )


def join_parts(parts: Sequence[Part], origin: str) -> Part:
    """One part from several with distinct runs.

    What the metadata of all of them agree on is kept, what differs is listed under "differs". A
    column that some lack is empty in their runs; one that is set aside in some is set aside.
    """
    if len(parts) == 1:
        return parts[0]
    aside = {name: why for part in parts for name, why in part.aside.items()}
    table = pa.concat_tables([part.table for part in parts], promote_options="default")
    table = table.drop_columns([name for name in table.column_names if name in aside])
    names = [run for part in parts for run in part.runs]
    lengths = np.concatenate([part.lengths for part in parts])
    codes = np.repeat(np.arange(len(names)), lengths)
    # Each part has been through the rule of repeated steps already.
    steps = np.asarray(table["step"])
    order = order_rows(codes, names, steps, on_duplicate="sort", where=origin)
    return Part(
        table if order.rows is None else table.take(pa.array(order.rows)),
        order.runs,
        order.lengths,
        origin,
        meta.merge([dict(part.metadata) for part in parts]),
        _sum(part.dropped for part in parts),
        aside,
        tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _lengths(table: pa.Table) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The runs of ordered rows, and how many rows each has."""
    encoded = pc.dictionary_encode(table["run"].combine_chunks())
    codes = np.asarray(encoded.indices, dtype=np.int64)
    return tuple(encoded.dictionary.to_pylist()), np.bincount(codes).astype(np.int64)


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for run, count in part.items():
            total[run] = total.get(run, 0) + count
    return total


# Everything that a user names, as one part: runs of many files, and charts of the same runs.


def read_parts(
    sources: str | Path | Sequence[str | Path],
    wanted: Wanted,
    *,
    on_duplicate: OnDuplicate,
    last_rows: int | None,
) -> Part:
    """Read and join what `sources` name; `RunLog.read` says what the arguments mean.

    Raises:
        InputError: a file is wrong, or a run is in two of them.
    """
    parts: list[Part] = []
    charts: list[Part] = []
    for source, raw in read_sources(sources, wanted):
        if last_rows is not None:
            count = positive_int("last_rows", last_rows)
            raw = keep_last_rows(raw, count, run_column=wanted.run)
        # A chart may lack a column that another one has.
        asked = dataclasses.replace(wanted, columns=None) if raw.chart else wanted
        part = order_raw(raw, asked, run_name=source.run_name, on_duplicate=on_duplicate)
        (charts if raw.chart else parts).append(part)
    if charts:
        parts.append(_join_charts(charts, wanted))
    home: dict[str, str] = {}
    for part in parts:
        for run in part.runs:
            other = home.setdefault(run, part.origin)
            if other != part.origin:
                raise InputError(
                    f"run {run!r} is in two files, {other} and {part.origin}; leave one out, or "
                    "give the runs different names"
                )
    named = isinstance(sources, (str, Path))
    return join_parts(parts, str(sources) if named else f"{len(parts)} files")


def _join_charts(charts: Sequence[Part], wanted: Wanted) -> Part:
    """Charts joined by run and step; no two of them may hold one column of one run."""
    home: dict[tuple[str, str], str] = {}
    for chart in charts:
        for run in chart.runs:
            for column in set(chart.table.column_names).difference(KEYS):
                other = home.setdefault((run, column), chart.origin)
                if other != chart.origin:
                    raise InputError(
                        f"run {run!r} is in two files with column {column!r}, {other} and "
                        f"{chart.origin}; leave one out, or give the runs different names"
                    )
    if len(charts) == 1:
        table, origin = charts[0].table, charts[0].origin
    else:
        origin = f"{len(charts)} charts"
        table = pa.concat_tables([chart.table for chart in charts], promote_options="default")
        # What belongs to one step comes together, and is then a row in pieces.
        table = table.sort_by([(RUN, "ascending"), (STEP, "ascending")])
    raw = RawTable(
        table,
        origin,
        lambda row: f"row {row + 1}",
        tuple(table.column_names),
        aside={name: why for chart in charts for name, why in chart.aside.items()},
        notes=tuple(dict.fromkeys(note for chart in charts for note in chart.notes)),
    )
    asked = Wanted(columns=wanted.columns)
    return order_raw(raw, asked, run_name=None, on_duplicate="last")


# What a run log is known by: a hash of its content, not of the bytes of a file.


def content_hash(table: pa.Table) -> str:
    """SHA-256 (64 hex digits) of a table with `run`, `step` and columns of numbers.

    The rows of a run stand together, its steps rise.
    """
    runs = RunItems()
    for batch in table.to_batches():
        runs.add(batch)
    found = ContentHash()
    for digest in runs.finish():
        found.add_hash(digest)
    return found.hexdigest()


@dataclass
class _Run:
    """One run as far as it has been read."""

    name: str
    rows: int = 0
    columns: dict[str, Any] = field(default_factory=dict)  # name -> running SHA-256
    filled: set[str] = field(default_factory=set)


class RunItems:
    """Collects the items of a run log from batches of its rows, in constant memory for each run."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self._open: _Run | None = None

    def add(self, batch: pa.RecordBatch, *, where: str = "run log") -> None:
        """Take the next rows; a run may go on from one batch to the next.

        Raises:
            InputError: a column is named twice, `run` is not there or another column holds no
                numbers, or the rows of a run do not stand together.
        """
        if not batch.num_rows:
            return
        _check_columns(batch.schema, where)
        names = batch["run"]
        codes = np.asarray(pc.dictionary_encode(names).indices)
        starts = np.append(0, np.flatnonzero(np.diff(codes)) + 1)
        columns = {name: _canonical(batch[name]) for name in batch.schema.names if name != "run"}
        for start, stop in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            self._extend(names[int(start)].as_py(), columns, int(start), int(stop), where)

    def finish(self) -> Iterator[bytes]:
        """The items' hashes, 32 bytes each, when all rows have been taken."""
        self._close()
        yield from self._digests.values()

    def _extend(
        self, name: str, columns: dict[str, NDArray[np.float64]], start: int, stop: int, where: str
    ) -> None:
        if self._open is None or self._open.name != name:
            self._close()
            if name in self._digests:
                raise InputError(f"{where}: the rows of run {name!r} do not stand together")
            self._open = _Run(name)
        run = self._open
        for column, values in columns.items():
            part = values[start:stop]
            if column not in run.columns:
                run.columns[column] = hashlib.sha256()
            run.columns[column].update(part.tobytes())
            if not np.isnan(part).all():
                run.filled.add(column)
        run.rows += stop - start

    def _close(self) -> None:
        """A column in which the run has no value is not there: others may have brought it."""
        if self._open is None:
            return
        run, self._open = self._open, None
        columns = {name: run.columns[name].hexdigest() for name in run.filled}
        self._digests[run.name] = item_hash({"run": run.name, "rows": run.rows, "columns": columns})


def _check_columns(schema: pa.Schema, where: str) -> None:
    twice = repeated(schema.names)
    if twice is not None:
        raise InputError(f"{where}: column {twice!r} stands twice")
    if "run" not in schema.names:
        raise missing_column("run", schema.names, where)
    for column in schema:
        number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if column.name != "run" and not number:
            raise InputError(f"{where}: column {column.name!r} holds {column.type}, not numbers")


def _canonical(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """Float64 with one NaN and one zero, so that equal content has equal bytes.

    Steps and seeds go the same way: as float64 they are exact below 2**53.
    """
    values = float_column(pc.cast(column, pa.float64(), safe=False)) + 0.0
    return np.where(np.isnan(values), np.nan, values).astype("<f8")


class RunLog:
    """A table of observables by run and step, in order: runs by name, steps increasing.

    Build one with `read`, `from_table`, `from_arrays` or `concat`; all of them check and sort.

    Attributes:
        table: columns `run` (string), `step` (int64), `seed` (int64, if known), then float64.
        metadata: a JSON object about the runs (task, model, preset, versions).
        dropped_duplicates: run -> rows dropped because a restart logged their step again.
        set_aside: column -> why it is no observable (text, lists).
        notes: what to know of how the files were read, a sentence each.
        origin: where the rows came from, for messages.
    """

    def __init__(self, part: Part) -> None:
        """Wrap rows that are in order already."""
        self.table: pa.Table = part.table.replace_schema_metadata(None)
        self.metadata: dict[str, Any] = dict(part.metadata)
        self.dropped_duplicates = dict(part.dropped)
        self.set_aside = dict(part.aside)
        self.notes = part.notes
        self.origin = part.origin
        self._runs = part.runs
        self._lengths = part.lengths

    @classmethod
    def read(
        cls,
        sources: str | Path | Sequence[str | Path],
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
                trainings in its subfolders.
            step_column: its name in the files; for `step`, where a file has none, the one column
                of another known name is taken, which `notes` says.
            run_column: its name in the files. A file without it is one run, named by the file's
                stem; a training's state or event files are one run, named by its folder.
            columns: read these observables only; None reads every column of numbers.
            on_duplicate: "last" keeps the last row of a step that a restart logged again and counts
                the others in `dropped_duplicates`, and joins a step's row that was logged in
                pieces; "keep" keeps all rows; "sort" does too, and sorts rows that are out of
                order instead of refusing them.
            last_rows: read only so many rows at the end of each run's log, as it was written.

        Raises:
            InputError: nothing to read, a missing column, a cell that is no number (file and line
                are named), steps out of order, or one run in two files.
        """
        wanted = Wanted(step_column, run_column, None if columns is None else tuple(columns))
        return cls(read_parts(sources, wanted, on_duplicate=on_duplicate, last_rows=last_rows))

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
        """A run log from any table with a step column; see `read` for the arguments.

        `run_name` names the one run of a table that has no `run` column. Metadata that an earlier
        `write` left in the table is used where `metadata` is not given.
        """
        names = tuple(table.column_names)
        raw = RawTable(table, "run log", lambda row: f"row {row + 1}", names)
        wanted = Wanted(step_column, run_column, None if columns is None else tuple(columns))
        log = cls(order_raw(raw, wanted, run_name=run_name, on_duplicate=on_duplicate))
        if metadata is not None:
            log.metadata = dict(metadata)
        return log

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
        """A run log of R equally long runs from rectangles.

        Args:
            runs: R run names.
            steps: whole numbers, [T] (the same for all) or [R, T].
            observables: name -> values [R, T].
            seeds: R whole numbers, or None.
            metadata: a JSON object about the runs.

        Raises:
            InputError: a shape that differs, or steps out of order.
        """
        return cls.from_table(rectangle(runs, steps, observables, seeds), metadata=metadata or {})

    @classmethod
    def concat(cls, logs: Sequence[RunLog]) -> RunLog:
        """One run log from several with distinct runs.

        Metadata that all agree on is kept; what differs is listed under "differs". A column that
        some of them lack has no values in their runs.

        Raises:
            InputError: no logs, or a run that is in two of them.
        """
        if not logs:
            raise InputError("no run logs to join")
        seen: set[str] = set()
        for log in logs:
            twice = sorted(seen.intersection(log.runs))
            if twice:
                raise InputError(f"run {twice[0]!r} is in two of the run logs to join")
            seen.update(log.runs)
        return cls(join_parts([log._part for log in logs], f"{len(logs)} run logs"))

    @property
    def runs(self) -> tuple[str, ...]:
        """Run names in natural order (seed_2 before seed_10)."""
        return self._runs

    @property
    def observables(self) -> tuple[str, ...]:
        """The columns of numbers: `panel` takes those that every run has a value of."""
        return tuple(name for name in self.table.column_names if name not in KEYS)

    @property
    def shared_observables(self) -> tuple[str, ...]:
        """The observables that every run has a value of: runs may be of several versions."""

        def is_shared(name: str) -> bool:
            if not self.table[name].null_count:
                return True
            return not len(bare_runs(filled(self.table, [name]), self._starts))

        return tuple(filter(is_shared, self.observables))

    @cached_property
    def seeds(self) -> tuple[int | None, ...]:
        """Each run's seed: its `seed` column, else the digits that end its name, else None."""
        named = [re.search(r"[0-9]+$", run) for run in self._runs]
        found = [int(match.group()) if match else None for match in named]
        if "seed" in self.table.column_names:
            first = self.table["seed"].take(pa.array(self._starts)).to_pylist()
            found = [
                guess if seed is None else seed for seed, guess in zip(first, found, strict=True)
            ]
        return tuple(found)

    def panel(self, column: str) -> Panel:
        """One observable of all runs as a rectangle, NaN where a cell is empty.

        The column "step" gives the steps themselves as values.

        Raises:
            InputError: the column is missing (the nearest is named), holds no numbers, or has no
                value at all in some run.
        """
        if column == "step":
            clock = np.where(self._present, self._steps, np.nan)
            return Panel(column, self._runs, clock, self._steps, self._present)
        self._require(column)
        cells = self.table[column]
        if cells.null_count:
            has_value = filled(self.table, [column])
            require_rows(has_value, self._starts, self._runs, [column], self.origin)
        values = np.full(self._present.shape, np.nan)
        values[self._present] = float_column(cells)
        return Panel(column, self._runs, values, self._steps, self._present)

    def select(self, runs: Sequence[str]) -> RunLog:
        """The run log of these runs only.

        Raises:
            InputError: no run named, or an unknown one.
        """
        if not runs:
            raise InputError(f"{self.origin}: no runs selected")
        row_of = {run: i for i, run in enumerate(self._runs)}
        for run in runs:
            if run not in row_of:
                raise unknown("run", run, self._runs, where=self.origin)
        rows = sorted({row_of[run] for run in runs})
        table = pa.concat_tables(
            [self.table.slice(self._starts[row], self._lengths[row]) for row in rows]
        )
        return RunLog(self._part.with_rows(table))

    def complete(self, columns: Sequence[str]) -> RunLog:
        """The run log of those rows in which all these columns have a value.

        It is what makes columns comparable that were logged at different steps; `notes` says how
        many rows are left.

        Raises:
            InputError: a column is missing, or a run has no such row.
        """
        for column in columns:
            self._require(column)
        rows = filled(self.table, columns)
        if rows.all():
            return self
        for some in (*([column] for column in columns), columns):
            require_rows(filled(self.table, some), self._starts, self._runs, some, self.origin)
        names = " and ".join(columns)
        note = f"Kept are the {rows.sum()} of {len(rows)} rows in which {names} have a value."
        return RunLog(self._part.with_rows(self.table.filter(pa.array(rows)), note=note))

    def fingerprint(self) -> str:
        """SHA-256 (64 hex digits) of the content: runs, steps, seeds and every observable's bits.

        Independent of file format, row groups, order of rows and columns, and metadata; -0.0 counts
        as 0.0, an empty cell as NaN, and a column without a value in a run is no part of that run.
        """
        return content_hash(self.table)

    def write(self, path: str | Path) -> Path:
        """Write one Parquet file, atomically; the same run log gives the same bytes.

        Raises:
            InputError: the disk is full, or the place cannot be written to.
        """
        table = self.stored_table(where=str(path)).combine_chunks()
        with atomic_path(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")
        return Path(path)

    def stored_table(self, *, where: str = "run log") -> pa.Table:
        """The table with the metadata in its schema, as `write` stores it and `read` takes it."""
        held = {meta.METADATA_KEY: meta.to_json(self.metadata, where)}
        if self.dropped_duplicates:
            held[meta.DROPPED_KEY] = meta.to_json(dict(self.dropped_duplicates), where)
        return self.table.replace_schema_metadata(held)

    def _require(self, column: str) -> None:
        if column in self.set_aside:
            raise InputError(self.set_aside[column])
        if column not in self.observables:
            raise missing_column(column, self.observables, self.origin)

    @property
    def _part(self) -> Part:
        return Part(
            self.table,
            self._runs,
            self._lengths,
            self.origin,
            self.metadata,
            self.dropped_duplicates,
            self.set_aside,
            self.notes,
        )

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


# Columns that were logged at different steps, brought to the steps that they share.


def at_shared_steps(log: RunLog, columns: Sequence[str]) -> RunLog:
    """The rows in which all `columns` have a value if those are evenly spaced, else the log.

    Evenly spaced from end to end: no run may lose as much as one spacing at its beginning or end.
    What was left out, the log's `notes` say.

    Raises:
        InputError: a column is missing, or a run has no row in which all of them have a value.
    """
    part = log.complete(columns)
    if filled(log.table, columns).all():
        return log
    before, after = log.panel("step"), part.panel("step")
    try:
        spacing = after.cadence()
    except InputError:
        return log
    lost = np.maximum(after.first_step - before.first_step, before.last_step - after.last_step)
    return part if (lost < spacing).all() else log


# What of a run log came from the Hub: the runs themselves, and the data that they learned.


HUB = "hub"
What = Literal["data", "runs"]

_WHAT: tuple[What, ...] = ("data", "runs")
_KEYS = ("repo", "revision", "config", "fingerprint")


def about(what: What, sources: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """What metadata say of these sources."""
    return {HUB: {what: [dict(source) for source in sources]}}


def add_runs(log: RunLog, sources: Sequence[Mapping[str, str]]) -> None:
    """Note in the metadata of a log where its runs were pulled from."""
    held = log.metadata.get(HUB)
    kept = held if isinstance(held, dict) else {}
    log.metadata = {**log.metadata, HUB: {**kept, **about("runs", sources)[HUB]}}


def sources_of(log: RunLog) -> list[dict[str, str]]:
    """Each source once, as results have it: its entry, and `what` it is.

    Metadata is anybody's JSON: what has another form says nothing here.
    """
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for what in _WHAT:
        for source in _stated(log.metadata, what):
            if isinstance(source, dict) and all(isinstance(source.get(k), str) for k in _KEYS):
                values = {key: source[key] for key in _KEYS}
                found.setdefault((what, *values.values()), {"what": what, **values})
    return list(found.values())


def _stated(metadata: Mapping[str, Any], what: What) -> Iterator[Any]:
    """Where the parts of a log were joined, what each of them says."""
    held = metadata.get(HUB)
    lists = [held.get(what)] if isinstance(held, dict) else []
    differs = metadata.get(DIFFERS)
    if isinstance(differs, dict):
        for key in (f"{HUB}.{what}", HUB):
            said = differs.get(key)
            for one in said if isinstance(said, list) else ():
                lists.append(one.get(what) if isinstance(one, dict) else one)
    for entries in lists:
        if isinstance(entries, list):
            yield from entries


# What run logs say of the data that was learned and held out, held against each other.


# A loss is per token, so the tokenizer belongs to the data.
_STATED = {
    "task_fingerprint": "task",
    "config.texts.train_content_hash": "training text",
    "config.texts.test_content_hash": "held-out text",
    "config.texts.tokenizer_hash": "tokenizer",
}


def learned_data(log: RunLog) -> dict[str, set[str]]:
    """The fingerprints of each kind of data that the parts of a log name.

    Metadata is anybody's JSON: what has another form says nothing here.
    """
    found = {}
    for key, what in _STATED.items():
        said = {one for one in _learned_data_stated(log.metadata, key) if isinstance(one, str)}
        if said:
            found[what] = said
    return found


def mismatches(data: Mapping[str, Mapping[str, set[str]]], baseline: str) -> list[str]:
    """Each kind of data that differs between a variant and the baseline, or within a variant.

    Args:
        data: variant -> what its logs say, as `learned_data` gives it.
        baseline: one of the variants.
    """
    found = []
    for name, said in data.items():
        for what, own in said.items():
            others = data[baseline].get(what, own)
            if own != others or len(own) > 1:
                shown, beside = (" and ".join(h[:SHOWN] for h in sorted(s)) for s in (own, others))
                rest = "" if name == baseline else f", {beside} of {baseline}"
                found.append(f"{what}: fingerprint {shown} of {name}{rest}")
    return found


def refuse_mismatches(found: list[str], *, allowed: bool) -> list[str]:
    """The remarks that tables carry where different data are compared all the same.

    Raises:
        FingerprintMismatchError: it is not allowed.
    """
    if found and not allowed:
        raise FingerprintMismatchError(
            f"{found[0]}; only equal data compare (--allow-fingerprint-mismatch compares them all "
            "the same)"
        )
    return [f"NOT COMPARABLE: {one}" for one in found]


def _learned_data_stated(metadata: Mapping[str, Any], key: str) -> Iterator[Any]:
    """The value at a dotted key, or those of the parts that were joined."""
    differs = metadata.get(DIFFERS)
    parts = differs.get(key) if isinstance(differs, dict) else None
    if isinstance(parts, list):
        yield from parts
        return
    held: Any = metadata
    for name in key.split("."):
        held = held.get(name) if isinstance(held, dict) else None
    yield held
