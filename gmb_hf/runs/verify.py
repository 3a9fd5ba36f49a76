"""Checks of run logs before they are evaluated: remarks, and faults that need action.

A fault is what an evaluation refuses or what would make its result wrong; a restart that logged
some steps again, or columns that were logged at different steps, are remarks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from gmb_hf.base.errors import InputError
from gmb_hf.runs.columns import RUN, STEP, float_column
from gmb_hf.runs.copies import refuse_copies
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog, at_shared_steps


@dataclass(frozen=True)
class ColumnSummary:
    """One observable over all runs: how many cells hold a number, none, a NaN or an infinity.

    `low` and `high` are the least and the largest finite value, NaN where there is none.
    """

    name: str
    values: int
    empty: int
    nan: int
    infinite: int
    low: float
    high: float


@dataclass(frozen=True)
class Verification:
    """What was found.

    Attributes:
        steps: the first and the last step of any run.
        spacing: steps between checkpoints, as most of them have it; None where no run has two.
        columns: the observables that were looked at.
        fingerprint: of the run log, 64 hex digits.
        remarks: sentences that need no action.
        faults: one line each; empty where the logs may be judged.
    """

    runs: tuple[str, ...]
    rows: int
    steps: tuple[int, int]
    spacing: int | None
    columns: tuple[ColumnSummary, ...]
    fingerprint: str
    remarks: tuple[str, ...]
    faults: tuple[str, ...]


def verify(
    log: RunLog,
    columns: Sequence[str] = (),
    *,
    metric: str | None = None,
    whole: Callable[[], RunLog] | None = None,
) -> Verification:
    """Look at a run log before it is judged; a missing column is an `InputError`.

    Args:
        log: the runs.
        columns: the metric and the scores that are to be judged, at the steps that they share;
            none given, all of them are looked at, and an empty cell is no fault.
        metric: the one of them that shows the events; the first of `columns` by default.
        whole: reads the log with all its columns, where `log` has some of them: whether runs are
            copies is not decided by one column alone.
    """
    fingerprint = log.fingerprint()
    for column in columns:
        if column not in log.observables:
            log.panel(column)  # says what is there instead
    judged = log
    faults: list[str] = []
    try:
        judged = at_shared_steps(log, columns)
    except InputError as error:  # a run has no rows that would be judged
        faults.append(str(error))
    names = tuple(dict.fromkeys(columns)) or judged.observables
    clock = judged.panel("step")
    distances, counted = clock.spacings()
    lengths, counts = np.unique(distances[counted], return_counts=True)
    spacing = int(lengths[counts.argmax()]) if len(lengths) else None
    faults += _gaps(clock, spacing)
    looked = [_look_at(judged, name, required=bool(columns)) for name in names]
    faults += [fault for _, wrong in looked for fault in wrong]
    copied, near = _copies(judged, columns, metric or next(iter(columns), None), whole)
    faults += copied
    begin = clock.late_starts()
    remarks = [*judged.notes, *filter(None, [log.restarts, begin, near])]
    return Verification(
        runs=log.runs,
        rows=judged.table.num_rows,
        steps=(int(clock.first_step.min()), int(clock.last_step.max())),
        spacing=spacing,
        columns=tuple(summary for summary, _ in looked),
        fingerprint=fingerprint,
        remarks=tuple(remarks),
        faults=tuple(faults),
    )


USUAL_METRIC = "test_acc"
"""The metric of a design that names none."""

# Words of columns: of metrics that rise with an event, of held-out rows, and of what is no score.
_METRICS = r"acc|accuracy|exact.match|em|f1"
_HELD_OUT = r"test|val|valid|validation|eval|heldout"
_NO_SCORES = rf"epoch|lr|learning.rate|loss|runtime|samples|steps|time|timestamp|{_METRICS}"


@dataclass(frozen=True)
class Proposal:
    """What may be judged of a log, by the names and values of its columns where nobody named them.

    Attributes:
        metric: the column that shows the event; None where no name says which it may be.
        scores: those that were named, else the first that may be one; empty where none may.
        others: further columns that may be scores.
        spacing: steps between the checkpoints that metric and scores share, None where it varies.
        guessed: the columns among them that nobody named.
    """

    metric: str | None
    scores: tuple[str, ...]
    others: tuple[str, ...]
    spacing: int | None
    guessed: tuple[str, ...]


def propose(
    log: RunLog, metric: str | None = None, scores: Sequence[str] = (), *, of_metric: bool = True
) -> Proposal:
    """What may be judged: the columns that were named, and for others the likeliest of the log.

    A column may be a score if it varies, and has a finite value wherever the metric has one at
    shared checkpoints; the names of losses, accuracies and clocks come last. `of_metric`: whether
    the event is one of a metric.
    """
    named = [name for name in (metric, *scores) if name is not None]
    if metric is None and of_metric:
        metric = likely_metric(log, scores)
    fixed = [] if metric is None else [metric]
    found = [] if scores else [one for one in log.shared_observables if _may_be_score(log, one, fixed)]
    found.sort(key=lambda name: _has_word(_NO_SCORES, name))
    chosen = tuple(scores) or tuple(found[:1])
    judged = (*fixed, *chosen)
    return Proposal(
        metric=metric,
        scores=chosen,
        others=tuple(found[1:]),
        spacing=_spacing(log, judged),
        guessed=tuple(name for name in judged if name not in named),
    )


def likely_metric(log: RunLog, others: Sequence[str] = ()) -> str | None:
    """The column that by its name shows the event, none of `others`; None where no name says so."""
    known = [name for name in log.shared_observables if name not in others]
    metrics = sorted(known, key=lambda name: not _has_word(_HELD_OUT, name))
    usual = [name for name in metrics if name == USUAL_METRIC]
    return next(iter([*usual, *(one for one in metrics if _has_word(_METRICS, one))]), None)


def _has_word(words: str, name: str) -> bool:
    """Whether one of the words stands in a name between underscores, slashes, dots or hyphens."""
    return re.search(rf"(?:^|[^a-z0-9])(?:{words})(?:$|[^a-z0-9])", name.lower()) is not None


def _may_be_score(log: RunLog, name: str, fixed: Sequence[str]) -> bool:
    if name in fixed or _spacing(log, (*fixed, name)) is None:
        return False
    values = float_column(at_shared_steps(log, (*fixed, name)).table[name])
    return bool(np.isfinite(values).all() and values.min() < values.max())


def _spacing(log: RunLog, columns: Sequence[str]) -> int | None:
    try:
        return at_shared_steps(log, columns).panel("step").cadence()
    except InputError:
        return None


def _gaps(clock: Panel, spacing: int | None) -> list[str]:
    faults = []
    for row, run in enumerate(clock.runs):
        steps = clock.steps[row, : clock.lengths[row]]
        if len(steps) == 1:
            faults.append(f"run {run!r} has one checkpoint, at step {steps[0]}")
            continue
        distance = np.diff(steps)
        if len(distance) > 1:
            distance[0] = spacing or distance[0]
        wrong = np.flatnonzero(distance != spacing)
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        for at in wrong[:1]:
            what = f"step {steps[at + 1]} comes {distance[at]} after the one before it"
            faults.append(f"run {run!r}: {what}, not {spacing}{more}")
    return faults


def _look_at(log: RunLog, name: str, *, required: bool) -> tuple[ColumnSummary, list[str]]:
    """What a column holds, and its faults: an empty cell is one where it is required."""
    cells = log.table[name]
    values, empty = float_column(cells), np.asarray(pc.is_null(cells), dtype=bool)
    kinds = {"NaN": np.isnan(values) & ~empty, "infinite": np.isinf(values), "empty": empty}
    faults = []
    for kind, wrong in kinds.items():
        if wrong.any() and (required or kind != "empty"):
            share = "every cell" if wrong.all() else f"{wrong.sum()} of {len(wrong)} cells"
            run, step = (log.table[key][int(wrong.argmax())].as_py() for key in (RUN, STEP))
            what = f"column {name!r} is {kind} in {share}"
            faults.append(f"{what}, first in run {run!r} at step {step}")
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if len(finite) else (np.nan, np.nan)
    nan, infinite, missing = (int(wrong.sum()) for wrong in kinds.values())
    summary = ColumnSummary(name, len(finite), missing, nan, infinite, float(low), float(high))
    return summary, faults


def _copies(
    log: RunLog,
    columns: Sequence[str],
    metric: str | None,
    whole: Callable[[], RunLog] | None,
) -> tuple[list[str], str]:
    """Runs that are one run under two names, a fault, and those that may be, a remark.

    They would count as two. Scores that are equal beside an equal metric are proof enough, as they
    are for an evaluation; one column alone makes the whole rows be looked at.
    """
    try:
        try:
            return [], _near_copies(log, columns or log.observables, metric)
        except InputError:
            if len(columns) > 1:
                raise
            log = log if whole is None else whole()
            return [], _near_copies(log, log.observables, metric)
    except InputError as error:
        return [str(error)], ""


def _near_copies(log: RunLog, names: Iterable[str], metric: str | None) -> str:
    have = log.shared_observables
    metrics = [log.panel(metric)] if metric in have else []
    scores = [log.panel(name) for name in names if name in have and name != metric]
    others = (name for name in have if name not in names)
    near = refuse_copies(metrics, scores, lambda: map(log.panel, others), where=log.origin)
    return near.note() if metrics else ""
