"""trackio: the Parquet of a project, and the CSV that its dashboard saves beside a chart.

Each call of `trackio.log` is a row (`run_name` or `run`, `step`, the metrics of that call), so that
what was logged at one step in two calls stands in two rows; those are joined like everybody's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gmb_hf.runs.raw import RUN, RawTable, Wanted
from gmb_hf.validation import InputError, repeated

_SERIES = "series_key"  # of the dashboard alone
_BOOKS = ("id", "run_id", "log_id", "space_id", _SERIES, "data_type", "timestamp", "time")
_NAME = "run_name"
_ID = "run_id"


def is_trackio(names: Sequence[str]) -> bool:
    """Whether these are columns of trackio's Parquet or of its dashboard's CSV."""
    held = set(names)
    return {_NAME, "step", "timestamp"} <= held or {RUN, _ID, _SERIES, "step"} <= held


def from_trackio(raw: RawTable, wanted: Wanted) -> RawTable:
    """A row per run and call of `log`, without trackio's own columns.

    Raises:
        InputError: two of its runs have one name.
    """
    named = _NAME if _NAME in raw.names else RUN
    if wanted.run == RUN and _ID in raw.names:
        _refuse_namesakes(raw, named)
    renamed = {named: RUN} if wanted.run == RUN else {}
    dropped = {*_BOOKS, _NAME, RUN} - {named, wanted.run, wanted.step}
    kept = [name for name in raw.names if name not in dropped]
    names = [renamed.get(name, name) for name in kept]
    table = raw.table.select(kept).rename_columns(names)
    chart = _SERIES in raw.names
    return dataclasses.replace(raw, table=table, names=tuple(names), chart=chart)


def _refuse_namesakes(raw: RawTable, named: str) -> None:
    pairs = raw.table.group_by([named, _ID]).aggregate([])
    names = pairs[named].to_pylist()
    twice = repeated(names)
    if twice is not None:
        raise InputError(
            f"{raw.where}: {names.count(twice)} runs have the name {twice!r}; tell them apart by "
            f"trackio's own number: --run-column {_ID}"
        )
