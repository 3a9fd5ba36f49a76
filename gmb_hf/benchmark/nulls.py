"""Chance nulls: what the same alarms would cover if they knew nothing of the event.

Coverage at a false-alarm budget is no evidence by itself: a score that alarms one window in
twenty covers many long horizons by luck. A null keeps the alarms and breaks their tie to t*. Nulls
are an open set: `@register_null(...)` above a function that gives the chances. Here are two:

(a) Shift: within each run, the alarms between burn-in and t* are rotated by a uniform offset. Rows
    before burn-in and after t* stay out, or the early transient and the alarms that follow an
    event would be rotated into the horizon.
(b) Risk set: each event's run is replaced by one drawn uniformly from the runs that were still
    event-free and logged at t*, itself included, in the same calendar window. It controls for
    training time, and a score that stays high after its own event is not punished.

Under a null, events are covered independently of each other, so that a draw needs each event's
chance of being covered and one uniform number. The chances themselves are exact counts.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.documents import Count, Measured, Number, OpenSection
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.calibration import Judgement, per_run
from gmb_hf.benchmark.operationality import extremes, run_rates
from gmb_hf.benchmark.records import NO_EVENT, NO_NEGATIVE, WhyNull
from gmb_hf.benchmark.scores import Scores
from gmb_hf.design.design import Design

_NO_EVENT = WhyNull(NO_EVENT)


class NullRecord(OpenSection):
    """What chance reaches at an equal false-alarm cost."""

    mean_coverage: Measured  # its exact mean
    p_value: Measured  # (1 + draws with at least the observed coverage) / (1 + draws)
    # Of the null's own alarms, counted as in layer B.
    fpr: Annotated[Number, WhyNull(NO_NEGATIVE)] = None
    draws: Count | None = None


class NullsRecord(OpenSection):
    """Every null at one operating point: one field for each, and the p-value of the layer.

    A null that is registered without a field here is stored as an extension of the same form,
    `x_<name>_null`; a field puts it into the published schema as well.
    """

    x_shift_null: Annotated[NullRecord | None, _NO_EVENT] = None
    x_risk_set_null: Annotated[NullRecord | None, _NO_EVENT] = None
    x_p_value: Annotated[Number, _NO_EVENT] = None  # the largest of the nulls'

    @property
    def nulls(self) -> dict[str, NullRecord]:
        """Each null that was measured, by name."""
        found = {}
        for key, value in self:
            if value is not None and key.startswith("x_") and key.endswith("_null"):
                known = isinstance(value, NullRecord)
                name = key.removeprefix("x_").removesuffix("_null")
                found[name] = value if known else NullRecord.parse(value, where=f"results: {key}")
        return found

    @property
    def by_chance(self) -> float | None:
        """The coverage that the hardest null gives; None where there is none."""
        return max((null.mean_coverage for null in self.nulls.values()), default=None)


Chances = Callable[[Judgement, float], tuple[NDArray[np.float64], float | None]]
"""Of a judgement that has events and a target rate: the chance of each event to be covered, float64
[R] (NaN without an event), and the false positive rate of the null's alarms."""


@dataclass(frozen=True)
class ChanceNull:
    """A registered null: its chances, in a few words what its alarms are (for legends), and the
    stream of its random numbers."""

    chances: Chances
    label: str
    stream: int


NULLS: dict[str, ChanceNull] = {}
"""Every registered null by name, in the order of tables, sentences and figures."""


def register_null(
    name: str, *, label: str, stream: int | None = None
) -> Callable[[Chances], Chances]:
    """Register a chance null, which every score must then beat: decorates its chances.

    Args:
        name: of its column and its field, an identifier.
        label: what its alarms are.
        stream: of its random numbers; by default one that follows from the name.
    """
    own = zlib.crc32(name.encode()) if stream is None else stream

    def register(chances: Chances) -> Chances:
        if not name.isidentifier():
            raise InputError(f"null {name!r}: the name must be letters, digits and _")
        if name in NULLS:
            raise InputError(f"null {name!r} is registered already; choose another name")
        for other, null in NULLS.items():
            if null.stream == own:
                raise InputError(f"null {name!r}: stream {own} is that of {other!r}; take another")
        NULLS[name] = ChanceNull(chances, label, own)
        return chances

    return register


def chance(judgement: Judgement, target: float, n_covered: int) -> dict[str, NullRecord]:
    """Every registered null at a target's thresholds, by name; empty without events.

    `n_covered` counts the events that the score covers there.
    """
    has_event = judgement.evaluation.has_event
    found = {}
    for name, null in NULLS.items() if judgement.n_events else ():
        chances, fpr = null.chances(judgement, target)
        found[name] = NullRecord(
            mean_coverage=float(chances[has_event].mean()),
            p_value=_p_value(judgement.design, null, chances, n_covered),
            fpr=fpr,
            draws=judgement.design.null_draws,
        )
    return found


def p_values(judgement: Judgement, target: float, n_covered: int) -> Iterator[float]:
    """The p-value of one null after the other: layer D stops at the first that is too large."""
    for null in NULLS.values():
        chances, _ = null.chances(judgement, target)
        yield _p_value(judgement.design, null, chances, n_covered)


def _p_value(
    design: Design, null: ChanceNull, chances: NDArray[np.float64], n_covered: int
) -> float:
    numbers = uniform_draws(len(chances), design.null_draws, design.seed, null.stream)
    covered = np.zeros(numbers.shape[1], dtype=np.int64)
    for start in range(0, len(chances), 255):
        # Comparisons with NaN, where there is no event, are False. Eight draws are added up at
        # once, each in its byte, which 255 runs cannot overflow.
        rows = slice(start, start + 255)
        hits = numbers[rows] < chances[rows, None].astype(np.float32)
        covered += hits.view(np.uint64).sum(axis=0).view(np.uint8)
    reached = int((covered[: design.null_draws] >= n_covered).sum())
    return (1 + reached) / (1 + design.null_draws)


def largest_p(nulls: Mapping[str, NullRecord]) -> float | None:
    """The p-value of the hardest null: a score must beat all of them; None without events."""
    return max((null.p_value for null in nulls.values()), default=None)


@register_null("shift", label="shifted in time", stream=2)
def _shifted(judgement: Judgement, target: float) -> tuple[NDArray[np.float64], float | None]:
    # A rotation lays every row on every place equally often.
    chances, alarmed = _rotated(judgement, target).T
    return chances, _mean_rate(judgement, alarmed)


@per_run
def _rotated(judgement: Judgement, target: float) -> NDArray[np.float64]:
    """Of each run, the chance to be covered and the share of the rows that alarm, [R, 2]."""
    alarms, rows = judgement.alarms(target), judgement.windows.monitored
    chances = shift_chances(alarms, rows, judgement.windows.positive.sum(axis=1))
    share = (alarms & rows).sum(axis=1) / np.maximum(rows.sum(axis=1), 1)
    return np.column_stack([chances, share])


@register_null("risk_set", label="another run at risk", stream=3)
def _at_risk(judgement: Judgement, target: float) -> tuple[NDArray[np.float64], float | None]:
    # The alarms are the observed ones, seen from other runs' events: the cost is the observed rate.
    fpr = _mean_rate(judgement, run_rates(judgement, target)[1])
    return risk_set_chances(judgement.evaluation, reach(judgement, target)), fpr


@dataclass(frozen=True, eq=False)
class Reach:
    """When an event would be covered by the alarms of each of R runs.

    Attributes:
        run: int64 [N], the row of the run that each stretch of time belongs to.
        begin, end: float64 [N], an event in (begin, end] is covered; stretches do not overlap.
        own: bool [R], whether its log ends before its own event, with an alarm in the horizon.
    """

    run: NDArray[np.int64]
    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    own: NDArray[np.bool_]

    def select(self, rows: NDArray[Any]) -> Reach:
        """That of some runs, renumbered in this order."""
        place = np.full(len(self.own), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        run = place[self.run]
        kept = run >= 0
        return Reach(run[kept], self.begin[kept], self.end[kept], self.own[rows])


@per_run
def reach(judgement: Judgement, target: float) -> Reach:
    """Of the alarms: one at a covers the events in (a, a + H] while its run is at risk."""
    scores, design = judgement.evaluation, judgement.design
    alarms = judgement.alarms(target) & (scores.steps >= design.burn_in)
    until = _at_risk_until(scores)
    run, column = np.nonzero(alarms & (scores.steps < until[:, None]))
    begin = scores.steps[run, column].astype(np.float64)
    end = np.minimum(begin + design.horizon, until[run])
    # An alarm within reach of the one before carries on its stretch.
    first, last = np.ones((2, len(run)), dtype=bool)
    first[1:] = last[:-1] = (run[1:] != run[:-1]) | (begin[1:] > end[:-1])
    # The own horizon is asked for only where a log ends before the event.
    own, cut = np.zeros(scores.n_runs, dtype=bool), scores.last_step < scores.event_step
    ahead = scores.event_step[cut, None] - scores.steps[cut]
    own[cut] = (alarms[cut] & (ahead <= design.horizon)).any(axis=1)
    return Reach(run[first], begin[first], end[last], own)


def _at_risk_until(scores: Scores) -> NDArray[np.float64]:
    """The event of each run, or the end of its log if that comes first, float64 [R]."""
    return np.where(
        scores.has_event, np.minimum(scores.event_step, scores.last_step), scores.last_step
    )


def risk_set_chances(scores: Scores, reach: Reach) -> NDArray[np.float64]:
    """Share of each event's risk set with an alarm in [t* - H, t*), from burn-in on.

    At risk at t* are the run itself and every run without an event before t* that is logged up to
    t*. All is counted by event time, in time linear in runs and stretches.

    Args:
        scores: R runs.
        reach: of their alarms.

    Returns:
        float64 [R], NaN where a run has no event.
    """
    has_event, last = scores.has_event, scores.last_step
    event = scores.event_step[has_event]
    times, which = np.unique(event, return_inverse=True)
    # Each of the stretches (begin, end] holds the times from one place in `times` to another.
    upto = [np.searchsorted(times, at, side="right") for at in (reach.begin, reach.end)]
    opened, closed = (np.bincount(at, minlength=len(times) + 1) for at in upto)
    covered = np.cumsum(opened - closed)[which]
    at_risk = np.sort(_at_risk_until(scores))
    size = (len(last) - np.searchsorted(at_risk, times))[which]
    # A run whose log ends before its event is in its own risk set all the same.
    cut = last[has_event] < event
    chances = np.full(len(last), np.nan)
    chances[has_event] = (covered + reach.own[has_event]) / (size + cut)
    return chances


def shift_chances(
    alarms: NDArray[np.bool_], rows: NDArray[np.bool_], n_last: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Share of the rotations of each run's rows that put an alarm among the last `n_last`.

    Args:
        alarms: bool [R, T].
        rows: bool [R, T], the L rows of each run that are rotated.
        n_last: int [R], P, the number of places at the end that count.

    Returns:
        float64 [R]. Of the L offsets, those fail that lay all P places into one stretch of g rows
        between two alarms (around the end as well), which is g - P + 1 of them.
    """
    length = rows.sum(axis=1)
    place = np.cumsum(rows, axis=1, dtype=np.int32) - 1
    run, column = np.nonzero(alarms & rows)
    place = place[run, column]
    following = np.append(place[1:], 0)
    if len(run):
        last = np.append(run[1:] != run[:-1], True)
        first = np.append(True, last[:-1])
        # The stretch after a run's last alarm goes on, past its end, to its first alarm.
        following[last] = place[first] + length[run[last]]
    stretch = following - place - 1
    failing = np.bincount(run, np.maximum(stretch - n_last[run] + 1, 0), len(length))
    never = np.bincount(run, minlength=len(length)) == 0
    chances = 1 - failing / np.maximum(length, 1)
    return np.where(never | (n_last == 0), 0.0, chances)


@lru_cache(maxsize=8)
def uniform_draws(n_runs: int, draws: int, seed: int, stream: int) -> NDArray[np.float32]:
    """Uniform numbers on [0, 1), float32 [R, draws], read-only; ones fill up the last eight draws.

    The same arguments give the same numbers: scores, and the members of a family, are compared on
    equal draws.
    """
    numbers = np.ones((n_runs, math.ceil(draws / 8) * 8), dtype=np.float32)
    rng = np.random.default_rng([seed, stream])
    numbers[:, :draws] = rng.random((draws, n_runs), dtype=np.float32).T
    numbers.setflags(write=False)
    return numbers


def _mean_rate(judgement: Judgement, rates: NDArray[np.float64]) -> float | None:
    """Mean of the runs' rates, over runs in `strict`, weighted by their windows in `v0.4`."""
    counts = extremes(judgement).counts
    if not counts.any():
        return None
    weights = (counts > 0).astype(np.float64) if judgement.strict else counts
    return float((rates * weights).sum() / weights.sum())
