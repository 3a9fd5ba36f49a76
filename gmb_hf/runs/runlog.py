"""The run log: one row per (run, step), one column per observable, and what is known of the runs.

log = RunLog.read("runs/quick/logs")        # a file, a folder or a glob, of any known format
log.panel("test_acc").values                # float64 [runs, checkpoints]
log.write("all_runs.parquet")
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from gmb_hf.files import atomic_path
from gmb_hf.runs import metadata as meta
from gmb_hf.runs.columns import check_seeds, float_column, missing_column, typed_columns
from gmb_hf.runs.fingerprint import content_hash
from gmb_hf.runs.joining import add_counts, join_pieces
from gmb_hf.runs.order import OnDuplicate, order_rows
from gmb_hf.runs.panel import Panel, prefix_mask
from gmb_hf.runs.raw import KEYS, RawTable, Wanted, find_step
from gmb_hf.runs.reading import read_sources
from gmb_hf.runs.rectangle import rectangle
from gmb_hf.runs.tail import keep_last_rows
from gmb_hf.validation import InputError, choose, positive_int, unknown


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

    def __init__(
        self,
        table: pa.Table,
        metadata: Mapping[str, Any] | None = None,
        *,
        dropped_duplicates: Mapping[str, int] | None = None,
        set_aside: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        on_duplicate: OnDuplicate = "last",
        origin: str = "run log",
    ) -> None:
        """Order a table whose columns are typed already; `from_table` takes any table."""
        choose("on_duplicate", on_duplicate, ("last", "keep", "sort"))
        if on_duplicate == "last":
            table = join_pieces(table)
        encoded = pc.dictionary_encode(table["run"].combine_chunks())
        codes = np.asarray(encoded.indices, dtype=np.int64)
        names = encoded.dictionary.to_pylist()
        check_seeds(table, codes, names, origin)
        order = order_rows(
            codes, names, np.asarray(table["step"]), on_duplicate=on_duplicate, where=origin
        )
        plain = table.replace_schema_metadata(None)
        self.table: pa.Table = plain if order.rows is None else plain.take(pa.array(order.rows))
        self.metadata: dict[str, Any] = dict(metadata or {})
        self.dropped_duplicates = add_counts([dropped_duplicates or {}, order.dropped])
        self.set_aside = dict(set_aside or {})
        self.notes = tuple(dict.fromkeys(notes))
        self.origin = origin
        self._runs = order.runs
        self._lengths = order.lengths

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
        home: dict[str, Path] = {}
        parts = []
        wanted = Wanted(step_column, run_column, None if columns is None else tuple(columns))
        for source, raw in read_sources(sources, wanted):
            if last_rows is not None:
                count = positive_int("last_rows", last_rows)
                raw = keep_last_rows(raw, count, run_column=run_column)
            part = cls._from_raw(raw, wanted, run_name=source.run_name, on_duplicate=on_duplicate)
            for run in part.runs:
                if run in home:
                    raise InputError(
                        f"run {run!r} is in two files, {home[run]} and {source.place}; leave one "
                        "out, or give the runs different names"
                    )
                home[run] = source.place
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        shown = sources if isinstance(sources, (str, Path)) else f"{len(parts)} files"
        return cls._join(parts, str(shown))

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
        log = cls._from_raw(raw, wanted, run_name=run_name, on_duplicate=on_duplicate)
        if metadata is not None:
            log.metadata = dict(metadata)
        return log

    @classmethod
    def _from_raw(
        cls, raw: RawTable, wanted: Wanted, *, run_name: str | None, on_duplicate: OnDuplicate
    ) -> RunLog:
        typed, aside = typed_columns(raw, wanted, run_name=run_name)
        step = find_step(raw.names, wanted.step, raw.where)
        guessed = [f"The steps are the column {step!r}."] if step != wanted.step else []
        held = raw.table.schema.metadata or {}
        return cls(
            typed,
            meta.from_json(held.get(meta.METADATA_KEY), raw.where),
            dropped_duplicates=meta.from_json(held.get(meta.DROPPED_KEY), raw.where),
            set_aside=aside,
            notes=[*raw.notes, *guessed],
            on_duplicate=on_duplicate,
            origin=raw.where,
        )

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
        return cls._join(logs, logs[0].origin if len(logs) == 1 else f"{len(logs)} run logs")

    @classmethod
    def _join(cls, logs: Sequence[RunLog], origin: str) -> RunLog:
        aside = {name: why for log in logs for name, why in log.set_aside.items()}
        table = pa.concat_tables([log.table for log in logs], promote_options="default")
        return cls(
            table.drop_columns([name for name in table.column_names if name in aside]),
            meta.merge([log.metadata for log in logs]),
            dropped_duplicates=add_counts([log.dropped_duplicates for log in logs]),
            set_aside=aside,
            notes=[note for log in logs for note in log.notes],
            on_duplicate="keep",  # each part has been through the rule already
            origin=origin,
        )

    @property
    def runs(self) -> tuple[str, ...]:
        """Run names in natural order (seed_2 before seed_10)."""
        return self._runs

    @property
    def observables(self) -> tuple[str, ...]:
        """The columns that `panel` takes."""
        return tuple(name for name in self.table.column_names if name not in KEYS)

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
        if column in self.set_aside:
            raise InputError(self.set_aside[column])
        if column not in self.observables:
            raise missing_column(column, self.observables, self.origin)
        cells = self.table[column]
        if cells.null_count:
            full = np.asarray(pc.is_valid(cells), dtype=np.int64)
            bare = np.flatnonzero(np.add.reduceat(full, self._starts) == 0)
            if len(bare):
                more = f" (and {len(bare) - 1} more)" if len(bare) > 1 else ""
                raise InputError(
                    f"{self.origin}: column {column!r} has no value in run "
                    f"{self._runs[bare[0]]!r}{more}; leave the run out or choose another column"
                )
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
        kept = {self._runs[row] for row in rows}
        return RunLog(
            table,
            self.metadata,
            dropped_duplicates={k: n for k, n in self.dropped_duplicates.items() if k in kept},
            set_aside=self.set_aside,
            notes=self.notes,
            on_duplicate="keep",
            origin=self.origin,
        )

    def fingerprint(self) -> str:
        """SHA-256 (64 hex digits) of the content: runs, steps, seeds and every observable's bits.

        Independent of file format, row groups, order of rows and columns, and metadata; -0.0 counts
        as 0.0, and an empty cell as NaN.
        """
        return content_hash(self.table, self._runs, self._lengths)

    def write(self, path: str | Path) -> Path:
        """Write one Parquet file, atomically; the same run log gives the same bytes.

        Raises:
            InputError: the disk is full, or the place cannot be written to.
        """
        held = {meta.METADATA_KEY: meta.to_json(self.metadata, str(path))}
        if self.dropped_duplicates:
            held[meta.DROPPED_KEY] = meta.to_json(dict(self.dropped_duplicates), str(path))
        table = self.table.combine_chunks().replace_schema_metadata(held)
        with atomic_path(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")
        return Path(path)

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
