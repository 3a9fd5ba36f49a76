"""Weights & Biases: the CSV that a chart exports, and a run's history.

A chart's export is wide: `Step`, then for each run `NAME - METRIC`, `NAME - METRIC__MIN` and
`NAME - METRIC__MAX`. Where minimum and maximum differ the chart has averaged several values, which
is said. A history (`run.history()`, `run.scan_history()`) is long, one run a file: `_step`,
`_runtime`, `_timestamp`, then the metrics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gmb_hf.runs.raw import RUN, STEP, RawTable, Wanted, find_step
from gmb_hf.validation import InputError

_LOW, _HIGH = "__MIN", "__MAX"
_BETWEEN = " - "
_BOOKS = ("_runtime", "_timestamp", "_step")


def is_chart(names: Sequence[str]) -> bool:
    """Whether these are columns of a chart's export."""
    return bool(_series(names))


def is_history(names: Sequence[str]) -> bool:
    """Whether these are columns of a run's history."""
    return "_runtime" in names and ("_step" in names or "_timestamp" in names)


def from_history(raw: RawTable, wanted: Wanted) -> RawTable:
    """The metrics of a run, its clocks set aside.

    Raises:
        InputError: the export has no column of steps.
    """
    step = _step(raw, wanted, "_step")
    books = {
        name: f"{raw.where}: column {name!r} is W&B's own clock, no observable"
        for name in _BOOKS
        if name in raw.names and name != step
    }
    return dataclasses.replace(raw, aside={**raw.aside, **books})


def from_chart(raw: RawTable, wanted: Wanted) -> RawTable:
    """A row per run and step from a row per step; steps at which a run has nothing are left out.

    Raises:
        InputError: the export has no column of steps.
    """
    step = _step(raw, wanted, "Step")
    series = _series(raw.names)
    table = raw.table
    if not table.num_rows:
        empty = {RUN: pa.array([], pa.string()), STEP: pa.array([], pa.int64())}
        return dataclasses.replace(raw, table=pa.table(empty), names=(RUN, STEP))
    parts, origins = [], []
    for run, metrics in series.items():
        columns = {metric: table[column] for metric, column in metrics.items()}
        logged = np.logical_or.reduce([_filled(column) for column in columns.values()])
        rows = np.flatnonzero(logged)
        if not len(rows):
            raise InputError(f"{raw.where}: run {run!r} has no value; leave it out of the chart")
        part = pa.table({step: table[step], **columns}).take(pa.array(rows))
        parts.append(part.add_column(0, RUN, pa.repeat(pa.scalar(run), len(rows))))
        origins.append(rows)
    joined = pa.concat_tables(parts, promote_options="default")
    origin = np.concatenate(origins)
    return dataclasses.replace(
        raw,
        table=joined,
        names=tuple(joined.column_names),
        place=lambda row: raw.place(int(origin[row])),
        notes=(*raw.notes, *_averaged(raw, series)),
        chart=True,
    )


def _series(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Run -> metric -> column, of the columns that have a minimum and a maximum beside them."""
    held = set(names)
    found: dict[str, dict[str, str]] = {}
    for name in names:
        run, between, metric = name.rpartition(_BETWEEN)
        if between and metric and {name + _LOW, name + _HIGH} <= held and metric not in _BOOKS:
            found.setdefault(run, {})[metric] = name
    return found


def _step(raw: RawTable, wanted: Wanted, usual: str) -> str:
    step = find_step(raw.names, wanted.step, raw.where)
    if step not in raw.names:
        raise InputError(
            f"{raw.where}: this W&B export has no column {step!r} and no {usual!r}; export it "
            f"again over steps, or name its column of steps with --step-column; its first column "
            f"is {raw.names[0]!r}"
        )
    return step


def _filled(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    filled = pc.is_valid(column)
    if pa.types.is_string(column.type):
        filled = pc.and_(filled, pc.not_equal(pc.utf8_trim_whitespace(column), ""))
    return np.asarray(filled, dtype=bool)


def _averaged(raw: RawTable, series: Mapping[str, Mapping[str, str]]) -> list[str]:
    columns = [column for metrics in series.values() for column in metrics.values()]
    cells = 0
    for column in columns:
        differ = pc.not_equal(raw.table[column + _LOW], raw.table[column + _HIGH])
        cells += pc.sum(differ).as_py() or 0
    if not cells:
        return []
    return [
        f"{raw.where}: W&B averaged several values in {cells} cells of this chart (their __MIN "
        "and __MAX differ); export each run's history for what was logged."
    ]
