"""Everything that a user names, as one part: runs of many files, and charts of the same runs.

A tracker exports what a chart shows, so that the accuracy of twenty runs is one file and their loss
another. Such exports are columns of one log; any other two files are different runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from gmb_hf.runs.order import OnDuplicate
from gmb_hf.runs.part import Part, join_parts, order_raw
from gmb_hf.runs.raw import KEYS, RUN, STEP, RawTable, Wanted
from gmb_hf.runs.reading import read_sources
from gmb_hf.runs.tail import keep_last_rows
from gmb_hf.validation import InputError, positive_int


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
