"""How many held-out runs a supporting verdict takes, by formulas (no simulation).

What `strict` asks of a score that is good is counted requirement by requirement; the chance that
all hold at once is taken as the product over independent parts:

- Events. Each run has one with probability r: exact binomial.
- Coverage. Of e events Binomial(e, C) are covered; the lower end of the 95% interval must reach
  the minimum, and, where a chance coverage is given, the count must exceed what chance reaches in
  a share alpha / (candidates) of the draws (Holm's first step). Exact binomials, and the bootstrap
  interval is the binomial's own. Under a null whose chances differ between events the count
  varies less than the binomial: this asks for a little too much.
- Budgets. Thresholds are conformal over the calibration runs, so that on runs of the same system
  the promise holds unless held-out runs refute it: it takes runs enough for a finite threshold. By
  runs, the chance of being refuted is counted; by windows it is not.

Not counted: the median lead and the robustness family. Runs that end without an event are taken
as negatives like the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, bdtrik, betaincinv, betaln, ndtr

from gmb_hf.base.stats import IntervalRecord
from gmb_hf.core.thresholds import (
    effective_budget,
    promise,
    runs_advised,
    runs_needed,
    runs_to_promise,
    shown_line,
)

_SLACK = 1e-9  # K / alpha of round numbers is a whole number that floats may miss from above


def draws_needed(candidates: int, alpha: float) -> int:
    """Draws of a null below which no p-value survives Holm's adjustment over the candidates.

    The least p-value is 1/(1 + draws), and the first of K candidates is multiplied by K: it takes
    K/alpha - 1 draws, e.g. 19 for one candidate at .05 and 599 for thirty.
    """
    return math.ceil(candidates / alpha - _SLACK) - 1


_TAIL = 0.025  # of the 95% interval, on either side
_MOST_RUNS = 100_000
_SPARSE_EVENTS = 1e-12  # probabilities below this are left out of sums
_KEPT = 20_000  # answers that a search asks for again


@dataclass(frozen=True)
class Goal:
    """What a verdict must show, and how surely.

    Attributes:
        targets: false positive rates that are budgets. primary: the one of the verdict.
        coverage_min: least coverage at the primary target.
        event_count_min: least number of held-out events.
        candidates: scores in the lock, controls not counted.
        alpha: level of the test against chance.
        power: probability of a supporting verdict, if the score is as good as assumed.
    """

    targets: tuple[float, ...] = (0.05,)
    primary: float = 0.05
    coverage_min: float = 0.30
    event_count_min: int = 30
    candidates: int = 1
    alpha: float = 0.05
    power: float = 0.80


@dataclass(frozen=True)
class Assumed:
    """What is supposed about the score and its runs.

    Attributes:
        coverage: true share of events that it covers at the rate that the budget buys.
        event_share: share of runs that have an event.
        negative_share: share of runs that have negative windows.
        chance: coverage that chance gives at the same cost; None leaves the test out.
    """

    coverage: float
    event_share: float
    negative_share: float
    chance: float | None = None


@dataclass(frozen=True)
class Row:
    """What one number of calibration runs asks for.

    Attributes:
        calibration: explore runs with negative windows, m.
        explore: explore runs to train, so that m of them have some with the wanted power.
        budgets: target -> expected false positive rate; 0 where no threshold is finite.
        coverage: what is assumed at the primary target's rate.
        held_out: held-out runs to train; None where no number reaches the power.
    """

    calibration: int
    explore: int
    budgets: Mapping[float, float]
    coverage: float
    held_out: int | None

    @property
    def total(self) -> int | None:
        """All runs to train."""
        return None if self.held_out is None else self.explore + self.held_out


@dataclass(frozen=True)
class Plan:
    """Runs to train before a verdict can be expected.

    Attributes:
        goal: what the verdict must show.
        assumed: what is supposed, at the chosen row.
        rows: by calibration runs, ascending.
        chosen: the row with the fewest runs in all among those that keep 80% of the primary
            budget; None where none of them reaches the power.
        alone: held-out runs that each requirement takes by itself, at the chosen row (else at the
            last); None where no number of runs meets it.
        null_draws: least draws of each null, by Holm over the candidates.
    """

    goal: Goal
    assumed: Assumed
    rows: tuple[Row, ...]
    chosen: Row | None
    alone: Mapping[str, int | None]
    null_draws: int
    by_runs: RunsPlan | None = None


def plan(goal: Goal, assumed: Callable[[int], Assumed]) -> Plan:
    """Explore and held-out runs for a verdict of the wanted power.

    Args:
        goal: what must be shown.
        assumed: calibration runs -> what is supposed at the rate that so many buy.
    """
    needed, advised = runs_needed(goal.primary), runs_advised(goal.primary)
    sizes = sorted({needed, 2 * needed, advised, 2 * advised, 4 * advised, 8 * advised})
    supposed = {m: assumed(m) for m in sizes}
    rows = tuple(_row(goal, supposed[m], m) for m in sizes)
    enough = [row for row in rows if row.calibration >= advised and row.total is not None]
    chosen = min(enough, key=lambda row: row.total or 0, default=None)
    last = (chosen or rows[-1]).calibration
    alone, draws = _alone(goal, supposed[last]), draws_needed(goal.candidates, goal.alpha)
    return Plan(goal, supposed[last], rows, chosen, alone, draws)


# Runs as units: what the first alarm of a score takes.


@dataclass(frozen=True)
class RunsGoal:
    """What a verdict by runs must show, and how surely.

    Attributes:
        budget: share of runs that may have a false alarm; the one that decides.
        calibration: whether the expected share keeps it, or its 90% bound (see `promise`).
        detection_min: least detection rate: share of events that the first alarm detects.
        event_count_min, candidates, alpha, power: as in `Goal`.
    """

    budget: float = 0.05
    calibration: str = "marginal"
    detection_min: float = 0.30
    event_count_min: int = 30
    candidates: int = 1
    alpha: float = 0.05
    power: float = 0.80

    @property
    def line(self) -> float:
        """The highest share of runs that meets the budget where it must be shown."""
        return shown_line(self.budget)


@dataclass(frozen=True)
class RunsAssumed:
    """What is supposed of the first alarms of a score.

    Attributes:
        detection: true detection rate.
        event_share, negative_share: as in `Assumed`.
        chance: detection rate of a chance baseline of the same cost; None leaves the test out.
    """

    detection: float
    event_share: float
    negative_share: float
    chance: float | None = None


@dataclass(frozen=True)
class RunsRow:
    """What one number of calibration runs asks for, and what it promises.

    Attributes:
        calibration, explore: as in `Row`.
        expected, upper: the mean of the true false-alarm rate, and its 90% bound.
        detection: the detection rate that is assumed at that cost.
        held_out: held-out runs of the lock's own system; None where no number reaches the power.
        transfer: the same of another system, where the rate must be shown.
    """

    calibration: int
    explore: int
    expected: float
    upper: float
    detection: float
    held_out: int | None
    transfer: int | None

    @property
    def total(self) -> int | None:
        """All runs to train for a verdict about the lock's own system."""
        return None if self.held_out is None else self.explore + self.held_out


@dataclass(frozen=True)
class RunsPlan:
    """Runs to train before a verdict by runs can be expected.

    Attributes:
        goal: what the verdict must show.
        assumed: what is supposed, at the chosen row (else at the last).
        rows: by calibration runs, ascending.
        chosen: the row with the fewest runs in all among those whose 90% bound is at most twice
            the budget; None where none of them reaches the power.
        alone: held-out runs that each requirement takes by itself, at the row of `assumed`.
    """

    goal: RunsGoal
    assumed: RunsAssumed
    rows: tuple[RunsRow, ...]
    chosen: RunsRow | None
    alone: Mapping[str, int | None]


_TIMES = (1, 2, 3, 5, 10, 20)  # the least number of calibration runs


def plan_by_runs(goal: RunsGoal, assumed: Callable[[int], RunsAssumed]) -> RunsPlan:
    """Explore and held-out runs for a verdict by runs of the wanted power.

    Args:
        goal: what must be shown.
        assumed: calibration runs -> what is supposed at the cost that so many buy.
    """
    least = runs_to_promise(goal.budget, goal.calibration) + 1
    supposed = {times * least - 1: assumed(times * least - 1) for times in _TIMES}
    rows = tuple(_runs_row(goal, one, m) for m, one in supposed.items())
    sure = [row for row in rows if row.upper <= 2 * goal.budget and row.total is not None]
    chosen = min(sure, key=lambda row: row.total or 0, default=None)
    m = (chosen or rows[-1]).calibration
    one = supposed[m]
    beside = replace(goal, event_count_min=1, detection_min=0.0)
    powers: dict[str, Callable[[int], float]] = {
        f"{goal.event_count_min} events": lambda n: _at_least(
            goal.event_count_min, n, one.event_share
        ),
        f"detection rate surely at least {goal.detection_min:g}": lambda n: power_of_detection(
            replace(goal, event_count_min=1), replace(one, chance=None), n
        ),
    }
    if one.chance is not None:
        powers[f"better than chance ({one.chance:.2f})"] = partial(power_of_detection, beside, one)
    powers[f"in a transfer: false alarms surely in at most {goal.line:g} of runs"] = lambda n: (
        power_of_rate(goal, m, math.floor(n * one.negative_share), shown=True)
    )
    alone = {name: _fewest(power, goal.power) for name, power in powers.items()}
    return RunsPlan(goal, one, rows, chosen, alone)


@lru_cache(maxsize=_KEPT)
def power_of_detection(goal: RunsGoal, assumed: RunsAssumed, n: int) -> float:
    """Probability of enough events among n runs, and of enough of them detected.

    Of e events k are enough where the exact 95% interval of k/e begins at the minimum or above:
    P(Binomial(e, minimum) >= k) <= .025. Against baselines of equal chances the Poisson-binomial
    is Binomial(e, chance), which reaches k in a share alpha / candidates of draws at most (Holm's
    first step).
    """
    events, weight = _event_counts(goal.event_count_min, n, assumed.event_share)
    enough = np.zeros(len(events))
    if goal.detection_min:
        enough = _critical(events, goal.detection_min, _TAIL)
    if assumed.chance is not None:
        beyond = _critical(events, assumed.chance, goal.alpha / goal.candidates)
        enough = np.maximum(enough, beyond)
    return float((weight * bdtrc(enough - 1, events, assumed.detection)).sum())


@lru_cache(maxsize=_KEPT)
def power_of_rate(goal: RunsGoal, m: int, n: int, *, shown: bool = False) -> float:
    """Probability that the budget is met by n held-out runs with negative windows.

    The lock's true rate is Beta(m + 1 - k, k), so that the runs with a false alarm are
    beta-binomial. On the lock's own system the budget holds unless their exact interval lies above
    it; where it must be `shown`, the interval must end at the line or below, and the rate is taken
    to be the same there.
    """
    rank = promise(goal.budget, m, goal.calibration).rank
    if rank is None or n < 1:
        return 0.0
    if shown:
        # The most of n runs whose interval ends at the line: P(Binomial(n, line) <= c) <= .025.
        most = np.arange(n + 1)
        most = most[bdtr(most, n, goal.line) <= _TAIL]
        count = int(most[-1]) if len(most) else -1
    else:
        count = int(_critical(np.array([n]), goal.budget, _TAIL)[0]) - 1
    x, a, b = np.arange(count + 1), m + 1 - rank, rank
    log_ways = -np.log(n + 1) - betaln(n - x + 1, x + 1)
    return float(np.exp(log_ways + betaln(x + a, n - x + b) - betaln(a, b)).sum())


def power_by_runs(
    goal: RunsGoal, assumed: RunsAssumed, m: int, n: int, *, shown: bool = False
) -> float:
    """Probability of a supporting verdict by runs from m calibration and n held-out runs."""
    with_negatives = math.floor(n * assumed.negative_share)
    rate = power_of_rate(goal, m, with_negatives, shown=shown)
    return rate * power_of_detection(goal, assumed, n) if rate else 0.0


def _runs_row(goal: RunsGoal, assumed: RunsAssumed, m: int) -> RunsRow:
    found = promise(goal.budget, m, goal.calibration)
    held_out, transfer = (
        _fewest(partial(power_by_runs, goal, assumed, m, shown=shown), goal.power)
        for shown in (False, True)
    )
    return RunsRow(
        calibration=m,
        explore=runs_for(m, assumed.negative_share, goal.power),
        expected=found.expected,
        upper=found.upper,
        detection=assumed.detection,
        held_out=held_out,
        transfer=transfer,
    )


def runs_for(count: int, share: float, power: float) -> int:
    """The fewest runs of which `count`, with that probability, are of a kind that a `share` is."""
    return _fewest(lambda n: _at_least(count, n, share), power) or _MOST_RUNS


def power_of_coverage(goal: Goal, assumed: Assumed, n: int) -> float:
    """Probability of enough events, and of a coverage that is surely high enough, in n runs."""
    return _covered_surely(goal, assumed.event_share, assumed.coverage, assumed.chance, n)


@lru_cache(maxsize=_KEPT)
def _covered_surely(
    goal: Goal, event_share: float, coverage: float, chance: float | None, n: int
) -> float:
    events, weight = _event_counts(goal.event_count_min, n, event_share)
    passing = bdtrc(_least_covered(goal, chance, events) - 1, events, coverage)
    return float((weight * passing).sum())


def power_of(goal: Goal, assumed: Assumed, m: int, n: int) -> float:
    """Probability that the gates by windows are met, from m calibration and n held-out runs."""
    return power_of_coverage(goal, assumed, n) if m >= runs_needed(goal.primary) else 0.0


def _row(goal: Goal, assumed: Assumed, m: int) -> Row:
    return Row(
        calibration=m,
        explore=runs_for(m, assumed.negative_share, goal.power),
        budgets={target: effective_budget(target, m) for target in goal.targets},
        coverage=assumed.coverage,
        held_out=_fewest(lambda n: power_of(goal, assumed, m, n), goal.power),
    )


def _alone(goal: Goal, assumed: Assumed) -> dict[str, int | None]:
    """Held-out runs for each requirement by itself."""
    one_event, least = replace(goal, event_count_min=1), goal.event_count_min
    any_coverage, unchallenged = replace(one_event, coverage_min=0.0), replace(assumed, chance=None)

    powers: dict[str, Callable[[int], float]] = {
        f"{least} events": lambda n: _at_least(least, n, assumed.event_share),
        f"coverage surely at least {goal.coverage_min:g}": lambda n: power_of_coverage(
            one_event, unchallenged, n
        ),
    }
    if assumed.chance is not None:
        better = f"better than chance ({assumed.chance:.2f})"
        powers[better] = partial(power_of_coverage, any_coverage, assumed)
    return {name: _fewest(power, goal.power) for name, power in powers.items()}


def _least_covered(
    goal: Goal, chance: float | None, events: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The fewest covered events that reach the minimum surely, and beat chance, per event count."""
    # The bootstrap of k covered of e events ends at the lower quantile of Binomial(e, k/e): it
    # reaches j = ceil(e minimum) where P(Binomial(e, k/e) < j) <= .025.
    least = np.ceil(events * goal.coverage_min - 1e-9)
    share = np.where(least > 0, betaincinv(np.maximum(least, 1), events - least + 1, 1 - _TAIL), 0)
    covered = np.ceil(events * share - 1e-9)
    if chance is None:
        return np.asarray(covered)
    beyond_chance = _critical(events, chance, goal.alpha / goal.candidates)
    return np.asarray(np.maximum(covered, beyond_chance))


def _critical(events: NDArray[np.int64], chance: float, level: float) -> NDArray[np.float64]:
    """The fewest of e events that Binomial(e, chance) reaches with probability <= level."""
    least = np.ceil(bdtrik(1 - level, events, chance))
    # Inverted in floating point, the quantile may lie one too high.
    least -= bdtrc(least - 1, events, chance) <= level
    return np.asarray(least + 1)


@lru_cache(maxsize=512)
def _event_counts(
    least: int, n: int, share: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How many events, `least` at least, n runs may have, and the probability of each number."""
    events = np.arange(least, n + 1, dtype=np.int64)
    weight = np.asarray(bdtrc(events - 1, n, share) - bdtrc(events, n, share), dtype=np.float64)
    known = weight > _SPARSE_EVENTS
    return events[known], weight[known]


def _at_least(count: int, n: int, share: float) -> float:
    """P(Binomial(n, share) >= count)."""
    return float(bdtrc(count - 1, n, share)) if n >= count else 0.0


def _fewest(power: Callable[[int], float], wanted: float) -> int | None:
    """The fewest runs that reach a power; None where 100,000 do not."""
    high = 1
    while power(high) < wanted:
        high *= 2
        if high > _MOST_RUNS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= wanted else (middle, high)
    return high


# Of a rate that straddles a line on the judged runs: how many it takes until it clears the line, if
# it is a rate as these runs let one expect.

_SURELY = 0.9
_FARTHEST = 25  # times the runs; beyond, the estimate is a guess about a coin on its edge
_SIZES = np.exp(np.linspace(0, np.log(_FARTHEST), 163))  # a fiftieth apart
_QUANTILES = (np.arange(50) + 0.5) / 50
_HALF_WIDTH = 1.96  # of a 95% interval, in standard errors


def runs_to_settle(n_runs: int, trials: int, share: float, line: float) -> int | None:
    """Runs from which on the exact 95% interval of a share clears a line with probability .9.

    The runs that were judged are among them. What is not known of the true share is taken into
    account (Jeffreys' posterior), so that the interval may come to lie on either side of the line.
    None where 25 times the runs do not do.

    Args:
        n_runs: that were judged, and `trials` of which the share is one.
        share: as observed.
        line: that the interval straddles.

    >>> runs_to_settle(40, 40, 0.9, 0.8), runs_to_settle(40, 40, 0.0, 0.075)
    (597, 115)
    """
    runs = _more_runs(n_runs)
    sizes = np.floor(trials * runs / n_runs).astype(np.int64)
    seen, more = round(share * trials), sizes - trials
    rates = betaincinv(seen + 0.5, trials - seen + 0.5, _QUANTILES)[:, None]
    above = _critical(sizes, line, _TAIL) - seen  # further successes from which it lies above
    below = sizes - _critical(sizes, 1 - line, _TAIL) - seen  # and up to which it lies below
    high = np.where(above > 0, bdtrc(np.maximum(above, 1) - 1, more, rates), 1.0)
    low = np.where(below >= 0, bdtr(np.maximum(below, 0), more, rates), 0.0)
    return _lasting(runs, (high + low).mean(axis=0))


def runs_to_clear(
    n_runs: int, estimate: float, line: float, interval: IntervalRecord
) -> int | None:
    """The same of any estimate that straddles a line, by its interval and the normal distribution.

    Args:
        n_runs: that gave the interval.
        estimate: in it.
        line: in it.
    """
    width = interval.high - estimate if estimate < line else estimate - interval.low
    if not width:
        return None
    runs = _more_runs(n_runs)
    away, kept = abs(line - estimate) / width * _HALF_WIDTH, n_runs / runs
    reach, spread = _HALF_WIDTH * np.sqrt(kept), np.sqrt(1 - kept)
    return _lasting(runs, ndtr((away - reach) / spread) + ndtr((-away - reach) / spread))


def _more_runs(n_runs: int) -> NDArray[np.int64]:
    runs = np.unique(np.ceil(n_runs * _SIZES).astype(np.int64))
    return np.asarray(runs[runs > n_runs])


def _lasting(runs: NDArray[np.int64], power: NDArray[np.float64]) -> int | None:
    """The number of runs from which on the power is reached.

    It rises in teeth: what a number of runs reaches, a few more may not.
    """
    found = np.flatnonzero(np.logical_and.accumulate((power >= _SURELY)[::-1])[::-1])
    return int(runs[found[0]]) if len(found) else None


def runs_to_events(n_runs: int, n_events: int, least: int) -> int | None:
    """Runs that have `least` events with probability .9, where `n_events` of `n_runs` had one.

    None without an event.

    >>> runs_to_events(40, 20, 30), runs_to_events(20, 20, 30)
    (68, 31)
    """
    if not n_events:
        return None
    rates = betaincinv(n_events + 0.5, n_runs - n_events + 0.5, _QUANTILES)
    wanted = least - n_events

    def power(more: int) -> float:
        return float(bdtrc(wanted - 1, more, rates).mean()) if more >= wanted else 0.0

    more = _fewest(power, _SURELY)
    return None if more is None else n_runs + more
