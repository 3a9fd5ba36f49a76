"""Copied runs: runs are exchangeable units only where they are different runs.

A run that stands twice counts twice: sixteen runs four times each pass for sixty-four, and a budget
of false alarms that was found on copies is broken by the first new run. Two runs are **copies**
where the metric and every score column have equal values at the steps that both have, and **near
copies** where the metric and a score move alike, checkpoint by checkpoint, or where more than half
of the rows are equal.

Of explore runs a lock keeps marks, by which held-out runs that are copies of them are known under
any name, cut short, or rounded. Near copies cannot be told by marks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.runs.panel import Panel

NEAR = 0.999
"""Near copies are those whose differences from checkpoint to checkpoint correlate above this."""

_FEWEST_VALUES = 4  # distinct values: a jump from 0 to 1 at one step is no proof of anything
_ENOUGH_VALUES = 16  # with so many it is one, whatever other columns say
_ROUNDING = 1e-6  # of a column's range: what is closer was copied and written anew
_MOST_ALIKE = 64  # runs that share a row; with more it says little
_BLOCK = 2048  # runs at a time, so that 10,000 of them take a tenth of their matrix of pairs
_MARKS, _FEWEST_MARKS = 10, 3  # steps of a run that are marked, and that must agree
_SCALE, _DIGITS = 1e-3, 5  # of marks: values below this hardly count; decimals

Others = Callable[[], Iterable[Panel]]
"""What else is known of the runs; asked for where it is needed."""


@dataclass(frozen=True)
class NearCopies:
    """Pairs of runs that move alike.

    Attributes:
        pairs: their names.
        runs: how many runs there are in all.
    """

    pairs: tuple[tuple[str, str], ...]
    runs: int

    def note(self) -> str:
        """What a reader must know of them; empty where there are none."""
        if not self.pairs:
            return ""
        of = len({run for pair in self.pairs for run in pair})
        (one, other), *_ = self.pairs
        return (
            f"Near copies: {of} of {self.runs} runs move like another one ({one!r} and {other!r}: "
            f"the metric and a score correlate above {NEAR:g} from checkpoint to checkpoint, or "
            "more than half of the rows are equal). If they are one training, every number here "
            "counts it more than once."
        )


def refuse_copies(
    metric: Sequence[Panel], scores: Sequence[Panel], others: Others = tuple, *, where: str
) -> NearCopies:
    """Refuse runs that stand twice, and find those that nearly do.

    Args:
        metric: what events are found in; empty where events are given.
        scores: every column that scores are computed from.
        others: what else is known of the runs, which tells apart those of few values.
        where: the log, for messages.

    Raises:
        InputError: two runs are copies; both are named.
    """
    known = [*metric, *scores]
    if not known or known[0].n_runs < 2:
        return NearCopies((), known[0].n_runs if known else 0)
    runs = known[0].runs
    telling = [*metric, *filter(_differs_among_runs, scores)]
    pairs = list(_equal_pairs(known, telling, others))
    near: list[tuple[int, int]] = []
    alike = (*_moving_alike(metric, scores), *_sharing_rows(known, telling))
    for i, j, proven in dict.fromkeys(alike):
        if _are_equal(known, i, j):  # which was looked at above
            continue
        if _are_equal(known, i, j, within=_ROUNDING):
            pairs.append((i, j))
        elif proven:
            near.append((i, j))
    if pairs:
        (i, j), copied = pairs[0], len({second for _, second in pairs})
        more = f" (and {copied - 1} more such copies)" if copied > 1 else ""
        names = ", ".join(dict.fromkeys(panel.name for panel in known[:3]))
        names += ", ..." if len(known) > 3 else ""
        what = f"runs {runs[i]!r} and {runs[j]!r} are equal in {names} at every shared step{more}"
        hint = "a copy is no further run: leave one of each out, or train it from another seed"
        raise InputError.at(where, "copied_runs", f"{what}; {hint}", run=runs[j])
    return NearCopies(tuple((runs[i], runs[j]) for i, j in near), len(runs))


def _equal_pairs(
    known: Sequence[Panel], telling: Sequence[Panel], others: Others
) -> Iterator[tuple[int, int]]:
    """Each run that is a copy, after the first run that it is a copy of.

    `telling` are those of the known columns that say something of a run. Equal runs share every
    row, their rarest one too, so that only runs which share that one need be compared.
    """
    clock = known[0]
    order, begins, counts = _rows_by_content(clock, known)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.repeat(np.arange(len(counts)), counts)
    run_of = np.repeat(np.arange(clock.n_runs), clock.lengths)
    shared = counts[place]
    starts = np.cumsum(clock.lengths) - clock.lengths
    rarest = np.minimum.reduceat(shared, starts)
    found: set[int] = set()
    for run in np.flatnonzero(rarest > 1).tolist():
        own = slice(starts[run], starts[run] + clock.lengths[run])
        content = place[own][np.argmin(shared[own])]
        alike = run_of[order[begins[content] : begins[content] + counts[content]]]
        for other in alike[:_MOST_ALIKE].tolist():
            pair = (min(run, other), max(run, other))
            if run == other or pair[1] in found:
                continue
            if _are_copies(known, telling, others, *pair):
                found.add(pair[1])
                yield pair


def _sharing_rows(
    known: Sequence[Panel], telling: Sequence[Panel]
) -> Iterator[tuple[int, int, bool]]:
    """Pairs of runs of which more than half of the rows are equal: copies with other rows between.

    Rows that more than two runs share say little, and so do values that hardly vary.
    """
    clock = known[0]
    order, begins, counts = _rows_by_content(clock, known)
    run_of = np.repeat(np.arange(clock.n_runs), clock.lengths)
    first = begins[counts == 2]
    pairs = np.sort(np.stack([run_of[order[first]], run_of[order[first + 1]]], axis=1), axis=1)
    found, rows = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0, return_counts=True)
    for (i, j), equal in zip(found.tolist(), rows.tolist(), strict=True):
        if 2 * equal <= min(clock.lengths[i], clock.lengths[j]):
            continue
        at = _shared_steps(clock, i, j)
        same = [panel.values[i, at[0]] for panel in telling]
        if max((len(np.unique(values)) for values in same), default=0) >= _ENOUGH_VALUES:
            yield i, j, True


def _rows_by_content(
    clock: Panel, known: Sequence[Panel]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The rows of all runs in an order that groups equal ones; where each group begins; its size.

    Within a group the runs are in order.
    """
    rows = _row_hashes(clock, known)
    order = np.argsort(rows, kind="stable")
    begins = np.flatnonzero(np.diff(rows[order], prepend=~rows[order[:1]]))
    return order, begins, np.diff(begins, append=len(rows))


def _row_hashes(clock: Panel, known: Sequence[Panel]) -> NDArray[np.uint64]:
    """A number for each row of all runs, equal where step and values are."""
    mixed = _mixed(clock.steps[clock.present].view(np.uint64))
    for panel in known:
        values = panel.values[panel.present] + 0.0  # -0.0 is 0.0
        values[np.isnan(values)] = np.nan  # and one NaN as good as another
        mixed = _mixed(mixed ^ values.view(np.uint64))
    return mixed


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits stirred, so that close numbers lie far apart (the finaliser of splitmix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def _are_copies(
    known: Sequence[Panel], telling: Sequence[Panel], others: Others, i: int, j: int
) -> bool:
    """Whether two runs are equal at the steps that both have, and that is no accident."""
    at = _shared_steps(known[0], i, j)

    def equal(panels: Iterable[Panel]) -> bool:
        return all(
            np.array_equal(panel.values[i, at[0]], panel.values[j, at[1]], equal_nan=True)
            for panel in panels
        )

    if not equal(known):
        return False
    distinct = max((len(np.unique(panel.values[i, at[0]])) for panel in telling), default=0)
    if distinct >= _ENOUGH_VALUES or distinct < _FEWEST_VALUES:
        return distinct >= _ENOUGH_VALUES
    return equal(others())


def _shared_steps(clock: Panel, i: int, j: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the steps that two runs share stand in each of them."""
    one, other = (clock.steps[run, : clock.lengths[run]] for run in (i, j))
    _, first, second = np.intersect1d(one, other, return_indices=True)
    return first, second


def _differs_among_runs(panel: Panel) -> bool:
    """Whether a column of scores is more than a function of the step, as a schedule is."""
    return bool((panel.present & panel.present[:1] & (panel.values != panel.values[:1])).any())


def _moving_alike(
    metric: Sequence[Panel], scores: Sequence[Panel]
) -> Iterator[tuple[int, int, bool]]:
    """Pairs of runs of which a score moves alike at the same steps, and whether the metric does.

    Where the metric of neither moves often enough to say, the pair is given too: smooth scores of
    two trainings may move alike.
    """
    clock, *_ = [*metric, *scores]
    telling = [panel for panel in scores if _differs_among_runs(panel)]
    for rows, places in _aligned(clock) if telling else ():
        units = [_moves(panel, rows, places) for panel in telling]
        leading = _moves(metric[0], rows, places) if metric else units[0]
        for i, j in _pairs_above(leading):
            if any(float(unit[i] @ unit[j]) > NEAR for unit in units):
                yield int(rows[i]), int(rows[j]), True
        (still,) = np.nonzero(~leading.any(axis=1))
        for i, j in _pairs_above(units[0][still]):
            yield int(rows[still[i]]), int(rows[still[j]]), False


def _pairs_above(units: NDArray[np.float32]) -> Iterator[tuple[int, int]]:
    """The rows i < j that correlate above `NEAR`."""
    for start in range(0, len(units), _BLOCK):
        alike = units[start : start + _BLOCK] @ units[start:].T > NEAR
        yield from map(tuple, (np.argwhere(np.triu(alike, 1)) + start).tolist())


def _aligned(clock: Panel) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Groups of runs and, of each of them, the places of the steps that all of a group have.

    They are the runs of one length, and all runs at the steps between the latest begin and the
    earliest end, should these be many.
    """
    lengths = np.unique(clock.lengths)
    for length in lengths.tolist():
        rows = np.flatnonzero(clock.lengths == length)
        if len(rows) > 1 and length > _FEWEST_VALUES:
            yield rows, np.broadcast_to(np.arange(length), (len(rows), length))
    if len(lengths) == 1:
        return
    first, last = clock.first_step.max(), clock.last_step.min()
    shared = clock.present & (clock.steps >= first) & (clock.steps <= last)
    width = int(shared[0].sum())
    if width > _ENOUGH_VALUES and (shared.sum(axis=1) == width).all():
        places = shared.argmax(axis=1)[:, None] + np.arange(width)
        steps = np.take_along_axis(clock.steps, places, axis=1)
        if (steps == steps[0]).all():
            yield np.arange(clock.n_runs), places


def _moves(panel: Panel, rows: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.float32]:
    """Differences between checkpoints, centred and of unit length: float32 [rows, places - 1].

    All zero where the column moves fewer times than proves anything.
    """
    steps = np.diff(np.take_along_axis(panel.values[rows], places, axis=1), axis=1)
    steps = np.where(np.isfinite(steps), steps, 0.0)
    moving = (steps != 0).sum(axis=1) >= _FEWEST_VALUES
    centred = steps - steps.mean(axis=1, keepdims=True)
    size = np.linalg.norm(centred, axis=1)
    usable = moving & (size > 0)
    found = np.zeros(steps.shape, dtype=np.float32)
    found[usable] = centred[usable] / size[usable, None]
    return found


def _are_equal(known: Sequence[Panel], i: int, j: int, *, within: float = 0.0) -> bool:
    """Whether two runs are equal at the steps that both have, within a share of the range."""
    at = _shared_steps(known[0], i, j)
    for panel in known:
        one, other = panel.values[i, at[0]], panel.values[j, at[1]]
        scale = np.nanmax(np.abs(panel.values[panel.present]), initial=0.0) if within else 0.0
        if not np.allclose(one, other, rtol=0.0, atol=within * scale, equal_nan=True):
            return False
    return True


# Explore runs among held-out ones: by both logs, or by what a lock keeps of the explore runs.


def joined(explore: Panel, judged: Panel) -> Panel:
    """The runs of both, those of the first named "explore ..."."""
    width = max(explore.values.shape[1], judged.values.shape[1])

    def both(field: str, empty: float) -> NDArray[Any]:
        parts = [getattr(panel, field) for panel in (explore, judged)]
        return np.concatenate(
            [
                np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=empty)
                for part in parts
            ]
        )

    return replace(
        judged,
        runs=(*(f"explore {run}" for run in explore.runs), *judged.runs),
        values=both("values", np.nan),
        steps=both("steps", 0),
        present=both("present", False),
    )


Marks = Mapping[int, float]
"""A number for some steps of a run, of which that of every other run differs."""


def marks_of(panels: Sequence[Panel]) -> list[Marks]:
    """The marks of each run; none of a run that is like another one at most steps."""
    clock, numbers = panels[0], _projected(panels)
    steps, values = clock.steps[clock.present], numbers[clock.present]
    order = np.lexsort((values, steps))
    close = (np.diff(steps[order]) == 0) & (np.diff(values[order]) < 2 * _tolerance(panels))
    unique = np.ones(len(steps), dtype=bool)
    unique[order[:-1][close]] = unique[order[1:][close]] = False
    telling = np.zeros(clock.present.shape, dtype=bool)
    telling[clock.present] = unique
    found: list[Marks] = []
    for row in range(clock.n_runs):
        places = np.flatnonzero(telling[row])
        if 2 * len(places) < clock.lengths[row] or len(places) < _FEWEST_MARKS:
            places = places[:0]
        chosen = np.linspace(0, len(places) - 1, min(_MARKS, len(places))).astype(int)
        picked = places[chosen]
        pairs = zip(clock.steps[row, picked].tolist(), numbers[row, picked].tolist(), strict=True)
        found.append({step: round(value, _DIGITS) for step, value in pairs})
    return found


def copied_from(panels: Sequence[Panel], marks: Sequence[Marks]) -> list[tuple[str, int]]:
    """Runs that are copies of marked ones, each with the place of the one that it is a copy of."""
    clock, numbers = panels[0], _projected(panels)
    steps = sorted({step for one in marks for step in one})
    own = np.full((clock.n_runs, len(steps)), np.nan)
    for column, step in enumerate(steps):
        rows, places = np.nonzero(clock.present & (clock.steps == step))
        own[rows, column] = numbers[rows, places]
    found: dict[str, int] = {}
    for place, one in enumerate(marks):
        marked = np.array([one.get(step, np.nan) for step in steps])
        apart = np.abs(own - marked)
        equal = (apart < _tolerance(panels)).sum(axis=1)
        for row in np.flatnonzero((equal >= _FEWEST_MARKS) & (equal == np.isfinite(apart).sum(1))):
            found.setdefault(clock.runs[row], place)
    return list(found.items())


def _projected(panels: Sequence[Panel]) -> NDArray[np.float64]:
    """One number for all columns at each checkpoint, float64 [R, T], whatever their order."""
    total = np.zeros(panels[0].values.shape)
    for panel in sorted(panels, key=lambda one: one.name):
        digest = hashlib.sha256(panel.name.encode()).digest()
        weight = 1 + int.from_bytes(digest[:4], "big") / 2**32
        total += weight * np.arcsinh(np.nan_to_num(panel.values) / _SCALE)
    return total


def _tolerance(panels: Sequence[Panel]) -> float:
    return float(2 * len(panels) * 10.0**-_DIGITS)
