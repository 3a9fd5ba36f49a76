"""Whether scores are causal: the past of one that is stays when the future is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gmb_hf.indicators.registry import compute
from gmb_hf.runs import Panel, RunLog
from gmb_hf.workflows.candidates import Entry

_RUNS = 4
_CUTS = (1 / 16, 1 / 4, 1 / 2, 3 / 4, 15 / 16)  # of a run's checkpoints


def _empty_as_nan(log: RunLog) -> RunLog:
    """The log with NaN in its empty cells, so that a run may be cut before a score begins."""
    table = log.table
    for place, name in enumerate(table.column_names):
        if name in log.observables and table[name].null_count:
            table = table.set_column(place, name, pc.fill_null(table[name], np.nan))
    return RunLog.from_table(table)


def _computable(entry: Entry) -> list[Entry]:
    """The entry, or the members of an ensemble: a sum of causal scores is causal."""
    return [
        replace(member, indicator=replace(member.indicator, name=f"{entry.name}: {member.name}"))
        for member in entry.members
    ] or [entry]


def non_causal(entries: Sequence[Entry], log: RunLog) -> tuple[str, ...]:
    """The scores whose past changes when the future is cut off, on a few runs.

    Each run is cut at several of its checkpoints: what peeks at the largest value, say, is found
    only by a cut before it.
    """
    entries = [part for entry in entries for part in _computable(entry)]
    some = _empty_as_nan(log.select(log.runs[:_RUNS]))
    grid = some.panel("step")
    cadence = grid.cadence()

    def series(rows: RunLog, entry: Entry) -> Panel:
        parameters = {**entry.parameters, "sign": entry.sign, "cadence": cadence}
        return compute(rows, entry.indicator, **parameters)

    whole = {entry.name: series(some, entry) for entry in entries}
    found = set()
    for share in _CUTS:
        kept = np.maximum(grid.lengths * share, 1).astype(int)
        early = np.arange(grid.values.shape[1]) < kept[:, None]
        # The rows of a log stand run by run, as those of a panel do.
        cut = RunLog.from_table(some.table.filter(pa.array(early[grid.present])))
        for entry in entries:
            part = series(cut, entry)
            now, then = part.values, whole[entry.name].values[:, : part.values.shape[1]]
            same = np.isclose(now, then, rtol=1e-9, atol=1e-12, equal_nan=True)
            if not same[part.present].all():
                found.add(entry.name)
    return tuple(entry.name for entry in entries if entry.name in found)
