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
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from gmb_hf.files import atomic_path
from gmb_hf.runs import metadata as meta
from gmb_hf.runs.assemble import read_parts
from gmb_hf.runs.columns import float_column, missing_column
from gmb_hf.runs.complete import bare_runs, filled, require_rows
from gmb_hf.runs.fingerprint import content_hash
from gmb_hf.runs.order import OnDuplicate
from gmb_hf.runs.panel import Panel, prefix_mask
from gmb_hf.runs.part import Part, join_parts, order_raw
from gmb_hf.runs.raw import KEYS, RawTable, Wanted
from gmb_hf.runs.rectangle import rectangle
from gmb_hf.validation import InputError, unknown


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
