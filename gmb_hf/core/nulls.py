"""Chance baselines: what alarms of the same cost would detect if they knew nothing of the event.

Detection at a false-alarm budget is no evidence by itself: a score that alarms in one window of
twenty covers many long horizons by luck. A baseline keeps the cost of the alarms and breaks their
tie to t*. Baselines are an open set for both units of counting: `@register_null(...)` above a
function that gives each event's chance. Here are three:

- `shift` (windows): within each run, the alarms between burn-in and t* are rotated by a uniform
  offset. Rows before burn-in and after t* stay out, or the early transient and the alarms that
  follow an event would be rotated into the horizon.
- `constant_hazard` (runs): an alarm of constant hazard per monitored checkpoint, at the observed
  share of runs with a false alarm.
- `risk_set` (both): each event's run is replaced by one drawn uniformly from the runs that were
  still event-free and logged at t*, itself included, in the same calendar window. It controls for
  training time, and a score that stays high after its own event is not punished.

Under a baseline, events are detected independently of each other, each with its own chance, so that
the number of them is Poisson-binomial.
"""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.core.windows import Windows

Unit = Literal["runs", "windows"]
"""What false alarms are counted by."""


@dataclass(frozen=True, eq=False)
class AlarmGrid:
    """Where the alarms of R runs lie, at one threshold for each run.

    Attributes:
        steps: int64 [R, T].
        alarm: bool [R, T], whether the score is at or over the threshold.
        windows: their labels.
        event_step, last_step: float64 [R], t* (NaN: no event), and the end of each log.
        horizon, safe_gap, burn_in: in steps.
    """

    steps: NDArray[np.int64]
    alarm: NDArray[np.bool_]
    windows: Windows
    event_step: NDArray[np.float64]
    last_step: NDArray[np.float64]
    horizon: float
    safe_gap: float
    burn_in: float

    @cached_property
    def n_negative(self) -> NDArray[np.int64]:
        """Negative windows of each run, int64 [R]."""
        return np.asarray(self.windows.negative.sum(axis=1, dtype=np.int64))

    @cached_property
    def n_gap(self) -> NDArray[np.int64]:
        """Monitored checkpoints of each run after its negatives, before t*, int64 [R]."""
        windows = self.windows
        return np.asarray((windows.monitored & ~windows.negative).sum(axis=1))

    @cached_property
    def n_false(self) -> NDArray[np.int64]:
        """Alarmed negative windows of each run, int64 [R]."""
        return np.asarray((self.alarm & self.windows.negative).sum(axis=1, dtype=np.int64))

    @cached_property
    def first(self) -> NDArray[np.float64]:
        """The first alarm of each run from burn-in on, whatever comes later; NaN: none."""
        return first_step(self.steps, self.alarm & (self.steps >= self.burn_in))

    @cached_property
    def first_monitored(self) -> NDArray[np.float64]:
        """The first alarm of each run among its monitored checkpoints, float64 [R]; NaN: none."""
        return first_step(self.steps, self.alarm & self.windows.monitored)

    @cached_property
    def first_in_horizon(self) -> NDArray[np.float64]:
        """The first alarm of each run in a positive window, float64 [R]; NaN: none."""
        return first_step(self.steps, self.alarm & self.windows.positive)

    @cached_property
    def at_risk_until(self) -> NDArray[np.float64]:
        """The event of each run, or the end of its log if that comes first, float64 [R]."""
        return np.fmin(self.event_step, self.last_step)

    @cached_property
    def rotated(self) -> NDArray[np.float64]:
        """Share of the rotations of each run's monitored rows that put an alarm into its horizon.

        float64 [R]. Of L offsets, those fail that lay all P positive places into one stretch of g
        rows between two alarms (around the end as well), which is g - P + 1 of them.
        """
        return shift_chances(self.alarm, self.windows.monitored, self.windows.positive.sum(axis=1))

    @cached_property
    def first_stretches(self) -> Stretches:
        """Which events the first alarm of each run would come ahead of, by less than the gap."""
        run = np.flatnonzero(~np.isnan(self.first))
        begin = self.first[run]
        # An alarm that is a whole gap ahead of the event is false: the stretch is open.
        end = np.nextafter(begin + self.safe_gap, -np.inf)
        return Stretches(run, begin, np.minimum(end, self.at_risk_until[run]), len(self.first))

    @cached_property
    def stretches(self) -> Stretches:
        """Which events any alarm of each run would cover: one at a, those in (a, a + horizon]."""
        alarms = self.alarm & (self.steps >= self.burn_in)
        run, column = np.nonzero(alarms & (self.steps < self.at_risk_until[:, None]))
        begin = self.steps[run, column].astype(np.float64)
        end = np.minimum(begin + self.horizon, self.at_risk_until[run])
        # An alarm within reach of the one before carries on its stretch.
        first, last = np.ones((2, len(run)), dtype=bool)
        first[1:] = last[:-1] = (run[1:] != run[:-1]) | (begin[1:] > end[:-1])
        return Stretches(run[first], begin[first], end[last], len(self.steps))


@dataclass(frozen=True, eq=False)
class Stretches:
    """When an event would be detected by the alarms of each of R runs.

    Attributes:
        run: int64 [N], the row of the run that each stretch of time belongs to.
        begin, end: float64 [N], an event in (begin, end] is detected; stretches do not overlap.
        n_runs: R.
    """

    run: NDArray[np.int64]
    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    n_runs: int

    def select(self, rows: NDArray[Any]) -> Stretches:
        """Those of some runs, renumbered in this order."""
        place = np.full(self.n_runs, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        run = place[self.run]
        kept = run >= 0
        return Stretches(run[kept], self.begin[kept], self.end[kept], len(rows))


@dataclass(frozen=True, eq=False, repr=False)
class Alarms(ABC):
    """The alarms of some runs, in one unit of counting: what a chance baseline is asked about.

    Attributes:
        grid: where the alarms of all runs lie.
        rows: int64 [R], which of its runs these are.
    """

    grid: AlarmGrid
    rows: NDArray[np.int64]
    unit: ClassVar[Unit]

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        steps: ArrayLike,
        event_step: ArrayLike,
        threshold: ArrayLike,
        windows: Windows,
        *,
        horizon: float,
        safe_gap: float,
        burn_in: float = 0,
        present: NDArray[np.bool_] | None = None,
    ) -> Self:
        """The alarms of every run; a score that is not finite raises none.

        Args:
            values: float [R, T], higher meaning higher risk.
            steps: int [R, T], or [T] where all runs have the same.
            event_step: float [R], t* in steps, NaN where a run had no event.
            threshold: one for all runs, or float [R].
            windows: `label_windows` of these runs.
            horizon, safe_gap, burn_in: in steps, as the windows have them.
            present: bool [R, T], which places hold a checkpoint; all, if not given.
        """
        score = np.asarray(values, dtype=np.float64)
        at = np.broadcast_to(np.asarray(steps), score.shape)
        there = np.ones(score.shape, dtype=bool) if present is None else present
        tau = np.broadcast_to(np.asarray(threshold, dtype=np.float64), len(score))[:, None]
        alarm = (score >= tau) & np.isfinite(score) & there
        event = np.asarray(event_step, dtype=np.float64)
        last = np.where(there, at, -1).max(axis=1, initial=-1).astype(np.float64)
        grid = AlarmGrid(at, alarm, windows, event, last, horizon, safe_gap, burn_in)
        return cls(grid, np.arange(len(score)))

    def select(self, rows: NDArray[Any]) -> Self:
        """Those of some of these runs; thresholds stay."""
        return type(self)(self.grid, self.rows[rows])

    def __repr__(self) -> str:
        found = f"{self.n_detected} of {self.n_events} events detected"
        return f"{type(self).__name__}({len(self.rows)} runs, {found})"

    @cached_property
    def event_step(self) -> NDArray[np.float64]:
        """t* of each run, float64 [R]; NaN: no event."""
        return self.grid.event_step[self.rows]

    @cached_property
    def has_event(self) -> NDArray[np.bool_]:
        """Whether each run had an event, bool [R]."""
        return ~np.isnan(self.event_step)

    @property
    def n_events(self) -> int:
        """How many runs had one."""
        return int(self.has_event.sum())

    @cached_property
    def n_negative(self) -> NDArray[np.int64]:
        """Negative windows of each run, int64 [R]."""
        return self.grid.n_negative[self.rows]

    @property
    def n_runs(self) -> int:
        """How many runs have negative windows."""
        return int((self.n_negative > 0).sum())

    @property
    @abstractmethod
    def detected(self) -> NDArray[np.bool_]:
        """Whether each run's event is detected, bool [R]; False without an event."""

    @property
    @abstractmethod
    def stretches(self) -> Stretches:
        """Which events the alarms of each run would detect."""

    @property
    def n_detected(self) -> int:
        """How many events are detected."""
        return int(self.detected.sum())

    @property
    def detection_rate(self) -> float | None:
        """The share of events that are detected; None without events."""
        return self.n_detected / self.n_events if self.n_events else None

    def of_runs(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Chances of events, float64 [E], as those of runs, float64 [R]; NaN without an event."""
        found = np.full(len(self.rows), np.nan)
        found[self.has_event] = chances
        return found

    @cached_property
    def chances(self) -> dict[str, NDArray[np.float64]]:
        """Each event's chance to be detected by each baseline of the unit; empty without events."""
        return {name: chances for name, (_, chances) in self.each_chance()}

    def each_chance(self) -> Iterator[tuple[str, tuple[ChanceNull, NDArray[np.float64]]]]:
        """One baseline after the other: its name, itself, and each event's chance, float64 [E]."""
        for name, null in NULLS.items():
            if self.n_events and self.unit in null.units:
                yield name, (null, null.chances(self)[self.has_event])


Chances = Callable[[Any], NDArray[np.float64]]
"""Of `Alarms` that have events: the chance of each run's event to be detected, float64 [R] (NaN
where there is none)."""


@dataclass(frozen=True)
class ChanceNull:
    """A registered baseline.

    Attributes:
        chances: gives the chances of events.
        label: what its alarms are, in a few words, for legends.
        units: the units of counting that it is a baseline of.
        stream: of its random numbers.
    """

    chances: Chances
    label: str
    units: tuple[Unit, ...]
    stream: int = field(repr=False)


NULLS: dict[str, ChanceNull] = {}
"""Every registered baseline by name, in the order of tables, sentences and figures."""

BOTH: tuple[Unit, ...] = ("runs", "windows")


def register_null(
    name: str, *, label: str, units: Sequence[Unit] = BOTH, stream: int | None = None
) -> Callable[[Chances], Chances]:
    """Register a chance baseline, which every score must then beat: decorates its chances.

    Args:
        name: of its column, an identifier.
        label: what its alarms are.
        units: which units of counting it is for; both unless said.
        stream: of its random numbers; by default one that follows from the name.

    Raises:
        InputError: the name is taken or no identifier, or the stream is another's.
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
        NULLS[name] = ChanceNull(chances, label, tuple(units), own)
        return chances

    return register


@register_null("constant_hazard", label="constant hazard", units=["runs"], stream=1)
def constant_hazard(alarms: Alarms) -> NDArray[np.float64]:
    """A constant hazard per monitored checkpoint, at the observed false-alarm rate.

    With n negative and g further monitored checkpoints an event is detected with probability
    (1 - h)^n (1 - (1 - h)^g); h solves mean(1 - (1 - h)^n) = the observed share over runs with
    negative windows.

    >>> from gmb_hf.core.first_alarm import first_alarms
    >>> from gmb_hf.core.windows import label_windows
    >>> steps, events = np.arange(0, 60, 10), np.array([50.0, 50.0, np.nan])
    >>> windows = label_windows(steps, events, horizon=20, safe_gap=30)
    >>> scores = [[0, 0, 0, 1, 1, 1], [0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
    >>> found = first_alarms(scores, steps, events, 1, windows, horizon=20, safe_gap=30)
    >>> constant_hazard(found).round(3).tolist(), risk_set(found).round(3).tolist()
    ([0.158, 0.158, nan], [0.333, 0.333, nan])
    """
    counts = alarms.n_negative[alarms.n_negative > 0].astype(np.float64)
    false = alarms.grid.n_false[alarms.rows] > 0
    share = int(false.sum()) / len(counts) if len(counts) else 0.0
    chances = np.full(len(alarms.rows), np.nan)
    negative = alarms.n_negative[alarms.has_event]
    gap = alarms.grid.n_gap[alarms.rows][alarms.has_event]
    if share == 1:
        # A certain alarm at the first checkpoint detects only where nothing is negative.
        chances[alarms.has_event] = (negative == 0) & (gap > 0)
        return chances
    rate = hazard_rate(counts, share) if share else 0.0
    chances[alarms.has_event] = np.exp(-rate * negative) * -np.expm1(-rate * gap)
    return chances


def hazard_rate(counts: NDArray[np.float64], share: float) -> float:
    """The rate x = -log(1 - h) at which mean(1 - exp(-x n)) over `counts` n > 0 is 0 < share < 1.

    Newton's method from 0: the mean is concave, so that its tangents meet `share` before it does,
    and the rate rises to the root. `scipy.optimize`, which has a solver, takes as long to load as a
    small evaluation takes to judge.
    """
    rate, step = 0.0, 1.0
    while step > 1e-12 * rate:  # the error is the square of it
        step = (share + np.expm1(-rate * counts).mean()) / (counts * np.exp(-rate * counts)).mean()
        rate += max(step, 0.0)
    return float(rate)


@register_null("shift", label="shifted in time", units=["windows"], stream=2)
def shifted(alarms: Alarms) -> NDArray[np.float64]:
    """The alarms of each run, rotated between burn-in and t* by a uniform offset.

    >>> from gmb_hf.core.utility import window_alarms
    >>> from gmb_hf.core.windows import label_windows
    >>> steps, events = np.arange(0, 60, 10), np.array([50.0, np.nan])
    >>> windows = label_windows(steps, events, horizon=20, safe_gap=30)
    >>> scores = [[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]]
    >>> shifted(window_alarms(scores, steps, events, 1, windows, horizon=20, safe_gap=30)).tolist()
    [0.6, nan]
    """
    return np.where(alarms.has_event, alarms.grid.rotated[alarms.rows], np.nan)


@register_null("risk_set", label="another run at risk", stream=3)
def risk_set(alarms: Alarms) -> NDArray[np.float64]:
    """Share of each event's risk set whose alarms would detect it, in the same calendar window.

    At risk at t* are the run itself and every run without an event before t* that is logged up to
    t*. All is counted by event time, in time linear in runs and stretches, but for sorting.
    """
    has_event, last = alarms.has_event, alarms.grid.last_step[alarms.rows]
    event, stretches = alarms.event_step[has_event], alarms.stretches
    times, which = np.unique(event, return_inverse=True)
    # Each of the stretches (begin, end] holds the times from one place in `times` to another.
    since = np.searchsorted(times, stretches.begin, side="right")
    upto = np.maximum(np.searchsorted(times, stretches.end, side="right"), since)
    opened, closed = (np.bincount(at, minlength=len(times) + 1) for at in (since, upto))
    detected = np.cumsum(opened - closed)[which]
    at_risk = np.sort(alarms.grid.at_risk_until[alarms.rows])
    size = (len(last) - np.searchsorted(at_risk, times))[which]
    # A run whose log ends before its event is in its own risk set all the same.
    cut = last[has_event] < event
    chances = np.full(len(last), np.nan)
    own = cut & alarms.detected[has_event]
    chances[has_event] = (detected + own) / np.maximum(size + cut, 1)
    return chances


def first_step(steps: NDArray[np.int64], marked: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The step of the first marked checkpoint of each run, float64 [R]; NaN: none is.

    >>> first_step(np.array([[0, 10, 20]]), np.array([[False, True, True]]))
    array([10.])
    """
    if not steps.shape[1]:
        return np.full(len(steps), np.nan)
    column = marked.argmax(axis=1)
    rows = np.arange(len(steps))
    return np.where(marked[rows, column], steps[rows, column], np.nan)


def shift_chances(
    alarms: NDArray[np.bool_], rows: NDArray[np.bool_], n_last: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Share of the rotations of each run's rows that put an alarm among the last `n_last`.

    Args:
        alarms: bool [R, T].
        rows: bool [R, T], the L rows of each run that are rotated.
        n_last: int [R], P, the number of places at the end that count.

    Returns:
        float64 [R].

    >>> shift_chances(np.array([[True, False, False, False]]), np.ones((1, 4), bool), np.array([1]))
    array([0.25])
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


# How probably a baseline detects as many events as the score: exactly, or by draws.


def count_tails(
    chances: Sequence[NDArray[np.float64]], at_least: Sequence[int]
) -> NDArray[np.float64]:
    """P(X >= at_least) of sums of independent yes-or-no events: exact (Poisson-binomial).

    All sums advance together, event by event; an event that cannot be changes nothing.

    >>> count_tails([np.array([0.5, 0.5])], [1])
    array([0.75])
    """
    needed = np.maximum(np.array(at_least, dtype=np.int64), 1)
    most, n_events = needed.max(initial=1), max(map(len, chances), default=0)
    # [..., k]: that most - k more are needed; the last column has got them all.
    state, table = np.zeros((len(chances), most + 1)), np.zeros((n_events, len(chances), 1))
    state[np.arange(len(chances)), most - needed] = 1.0
    for row, each in enumerate(chances):
        table[: len(each), row, 0] = each
    for seen, (chance, rest) in enumerate(zip(table, 1 - table, strict=True)):
        if seen % 100 == 0:  # a hundred events reach no further; what has faded to 0 stays so
            held = np.flatnonzero(state.any(axis=0))
            live = state[:, held[0] : held[-1] + 102]
        carried = live[:, :-1] * chance
        live[:, :-1] *= rest
        live[:, 1:] += carried
    return np.where(np.less(at_least, 1), 1.0, np.minimum(1.0, state[:, -1]))


def drawn_p_value(
    chances: NDArray[np.float64], at_least: int, *, draws: int, seed: int, stream: int
) -> float:
    """(1 + draws that detect `at_least` events) / (1 + draws), each event with its own chance.

    `chances` are float64 [R], NaN where there is no event.

    >>> drawn_p_value(np.array([0.0, 0.0, np.nan]), 1, draws=9, seed=0, stream=1)
    0.1
    """
    numbers = uniform_draws(len(chances), draws, seed, stream)
    detected = np.zeros(numbers.shape[1], dtype=np.int64)
    for start in range(0, len(chances), 255):
        # Comparisons with NaN, where there is no event, are False. Eight draws are added up at
        # once, each in its byte, which 255 runs cannot overflow.
        rows = slice(start, start + 255)
        hits = numbers[rows] < chances[rows, None].astype(np.float32)
        detected += hits.view(np.uint64).sum(axis=0).view(np.uint8)
    return (1 + int((detected[:draws] >= at_least).sum())) / (1 + draws)


@lru_cache(maxsize=8)
def uniform_draws(n_runs: int, draws: int, seed: int, stream: int) -> NDArray[np.float32]:
    """Uniform numbers on [0, 1), float32 [R, draws], read-only; ones fill up the last eight draws.

    The same arguments give the same numbers: scores, and the members of a family, are compared on
    equal draws.

    >>> uniform_draws(2, 5, 0, 1).shape
    (2, 8)
    """
    numbers = np.ones((n_runs, math.ceil(draws / 8) * 8), dtype=np.float32)
    rng = np.random.default_rng([seed, stream])
    numbers[:, :draws] = rng.random((draws, n_runs), dtype=np.float32).T
    numbers.setflags(write=False)
    return numbers


def detects_more(score: NDArray[np.bool_], rival: NDArray[np.bool_]) -> float:
    """One-sided exact McNemar p: of the events that one alone detects, as many are the score's.

    >>> detects_more(np.array([True, True, True]), np.array([False, False, False]))
    0.125
    """
    from scipy.special import bdtrc

    only, others = int((score & ~rival).sum()), int((rival & ~score).sum())
    return float(bdtrc(only - 1, only + others, 0.5)) if only else 1.0


def labels_of(unit: Unit) -> Mapping[str, str]:
    """The baselines of a unit: what each one's alarms are, by name.

    >>> labels_of("runs")["risk_set"]
    'another run at risk'
    """
    return {name: null.label for name, null in NULLS.items() if unit in null.units}
