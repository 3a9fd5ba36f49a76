"""The first alarm in plain loops, one run and one checkpoint after another.

Written from the rules alone, to compare `gmb_hf.core.first_alarm` with: nothing of it is
imported here. Probabilities are exact sums, thresholds use fractions, and nothing is vectorised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from scipy.special import betaincinv

MARGINAL, CONDITIONAL = "marginal", "conditional"


@dataclass(frozen=True)
class Run:
    """One run: its checkpoints, its score there, and its event, if it had one."""

    steps: Sequence[float]
    scores: Sequence[float]
    event: float | None = None


@dataclass(frozen=True)
class Rules:
    """The windows, in steps; `w_event` is how far an event looks ahead."""

    horizon: float
    gap: float
    w_event: float
    burn_in: float = 0

    def last_negative(self, run: Run) -> float:
        """The last step at which an alarm is false."""
        if run.event is None:
            return run.steps[-1] - self.w_event - self.gap
        return run.event - self.gap

    def monitored(self, run: Run) -> list[tuple[float, float]]:
        """Step and score of the checkpoints at which an alarm counts, in order."""
        found = []
        for step, score in zip(run.steps, run.scores, strict=True):
            if step < self.burn_in or not math.isfinite(score):
                continue
            if run.event is None and step > self.last_negative(run):
                continue
            if run.event is not None and step >= run.event:
                continue
            found.append((step, score))
        return found

    def negatives(self, run: Run) -> list[float]:
        """The scores at which an alarm is false."""
        return [s for step, s in self.monitored(run) if step <= self.last_negative(run)]


# Outcomes (point 1).


class Outcome(NamedTuple):
    """What the first alarm of a run is: `step` is None where there is none."""

    name: str
    step: float | None


def outcome(rules: Rules, run: Run, threshold: float) -> Outcome:
    """One of false_alarm, early, timely, miss before an event; correct_rejection without one."""
    for step, score in rules.monitored(run):
        if score < threshold:
            continue
        if step <= rules.last_negative(run):
            return Outcome("false_alarm", step)
        assert run.event is not None
        return Outcome("timely" if run.event - step <= rules.horizon else "early", step)
    return Outcome("correct_rejection" if run.event is None else "miss", None)


# Budgets (points 2 and 3).


def run_maximum(rules: Rules, run: Run) -> float | None:
    """The greatest negative score; None for a run without negative windows."""
    negatives = rules.negatives(run)
    return max(negatives) if negatives else None


def rank(budget: float, n_runs: int, calibration: str = MARGINAL) -> int | None:
    """Which of the runs' maxima, in ascending order, the threshold lies above; None: none."""
    if calibration == MARGINAL:
        k = math.ceil((1 - Fraction(str(budget))) * (n_runs + 1))
        return k if k <= n_runs else None
    for k in range(1, n_runs + 1):
        if betaincinv(n_runs + 1 - k, k, 0.9) <= budget:
            return k
    return None


def threshold(maxima: Sequence[float | None], budget: float, calibration: str = MARGINAL) -> float:
    """Just above the k-th smallest of the maxima."""
    known = sorted(value for value in maxima if value is not None)
    k = rank(budget, len(known), calibration)
    return math.inf if k is None else math.nextafter(known[k - 1], math.inf)


def promised(budget: float, n_runs: int, calibration: str = MARGINAL) -> tuple[float, float]:
    """Mean and 90% quantile of the rate of a lock; (0, 0) where its threshold is infinite."""
    k = rank(budget, n_runs, calibration)
    if k is None:
        return 0.0, 0.0
    return (n_runs + 1 - k) / (n_runs + 1), float(betaincinv(n_runs + 1 - k, k, 0.9))


# Gate B (point 4).


def exact_interval(count: int, n: int) -> tuple[float, float]:
    """The two-sided exact 95% interval of a share."""
    low = _solve(lambda p: _at_least(count, n, p), 0.025) if count else 0.0
    high = _solve(lambda p: 1 - _at_least(count + 1, n, p), 0.025) if count < n else 1.0
    return low, high


def _at_least(count: int, n: int, p: float) -> float:
    """P(Binomial(n, p) >= count)."""
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(count, n + 1))


def _solve(chance: Callable[[float], float], level: float) -> float:
    """Where a monotone chance crosses a level, by bisection."""
    low, high = 0.0, 1.0
    rising = chance(high) > chance(low)
    for _ in range(50):
        middle = (low + high) / 2
        if (chance(middle) < level) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def is_met(budget: float, n_false: int, n_runs: int, *, shown: bool) -> bool:
    """Whether a finite threshold keeps the budget, by promise or by proof."""
    low, high = exact_interval(n_false, n_runs)
    if shown:
        return high <= budget + min(0.05, budget / 2)
    return not low > budget


# Chance baselines (point 5).


def hazard(lengths: Sequence[int], share: float) -> float:
    """The hazard at which runs with that many negatives have that expected share of alarms."""
    if share == 1:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        expected = sum(1 - (1 - middle) ** n for n in lengths) / len(lengths)
        if expected < share:
            low = middle
        else:
            high = middle
    return low


def constant_hazard(rules: Rules, runs: Sequence[Run], thresholds: Sequence[float]) -> list[float]:
    """The chance of each event to be detected by a constant hazard of the same cost."""
    lengths, n_false = [], 0
    for run, tau in zip(runs, thresholds, strict=True):
        if rules.negatives(run):
            lengths.append(len(rules.negatives(run)))
            n_false += outcome(rules, run, tau).name == "false_alarm"
    h = hazard(lengths, n_false / len(lengths)) if n_false else 0.0
    chances = []
    for run in runs:
        if run.event is None:
            continue
        silent, chance = 1.0, 0.0
        for step, _ in rules.monitored(run):
            if step > rules.last_negative(run):
                chance += silent * h
            silent *= 1 - h
        chances.append(chance)
    return chances


def risk_set(rules: Rules, runs: Sequence[Run], thresholds: Sequence[float]) -> list[float]:
    """The chance of each event to be detected by the first alarm of a run at risk at t*."""
    chances = []
    for own in runs:
        if own.event is None:
            continue
        at_risk, hits = 0, 0
        for run, tau in zip(runs, thresholds, strict=True):
            had_it_before = run.event is not None and run.event < own.event
            if run is not own and (had_it_before or run.steps[-1] < own.event):
                continue
            at_risk += 1
            for step, score in zip(run.steps, run.scores, strict=True):
                if step >= rules.burn_in and math.isfinite(score) and score >= tau:
                    hits += own.event - rules.gap < step < own.event
                    break
        chances.append(hits / at_risk)
    return chances


def tail(chances: Sequence[float], at_least: int) -> float:
    """P(at least so many of independent events), one event after another."""
    counts = [1.0]
    for p in chances:
        counts = [
            (counts[k] * (1 - p) if k < len(counts) else 0.0) + (counts[k - 1] * p if k else 0.0)
            for k in range(len(counts) + 1)
        ]
    return sum(counts[at_least:])


def mcnemar(score: Sequence[bool], rival: Sequence[bool]) -> float:
    """P(so many or more of the discordant events are the score's), each with chance 1/2."""
    mine = sum(a and not b for a, b in zip(score, rival, strict=True))
    n = sum(a != b for a, b in zip(score, rival, strict=True))
    return float(sum(Fraction(math.comb(n, k), 2**n) for k in range(mine, n + 1)))


# Utility (point 6): everything that stands in the record of one budget.


def quantile(values: Sequence[float], q: float) -> float:
    """Linear between the order statistics."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def measured(
    rules: Rules, runs: Sequence[Run], thresholds: Sequence[float]
) -> dict[str, float | int | tuple[float, float] | None]:
    """The numbers of one budget by the names of the record; intervals as (low, high)."""
    found = [outcome(rules, run, tau) for run, tau in zip(runs, thresholds, strict=True)]
    both = list(zip(runs, found, strict=True))
    of_events = [(run, one) for run, one in both if run.event is not None]
    of_free = [one for run, one in both if run.event is None]
    n_runs = sum(bool(rules.negatives(run)) for run in runs)
    n_false = sum(one.name == "false_alarm" for one in found)
    n_events = len(of_events)
    named = {
        name: sum(one.name == name for _, one in of_events)
        for name in ("timely", "early", "false_alarm", "miss")
    }
    hits = [(run, one) for run, one in of_events if one.name in ("timely", "early")]
    leads = [run.event - one.step for run, one in hits if run.event and one.step is not None]
    to_false = [
        one.step - rules.burn_in
        for one in found
        if one.name == "false_alarm" and one.step is not None
    ]
    detected = named["timely"] + named["early"]
    baselines = {
        "constant_hazard": constant_hazard(rules, runs, thresholds),
        "risk_set": risk_set(rules, runs, thresholds),
    }
    p_values = {name: tail(chances, detected) for name, chances in baselines.items()}
    record: dict[str, float | int | tuple[float, float] | None] = {
        "n_runs": n_runs,
        "n_false": n_false,
        "false_alarm_rate": n_false / n_runs if n_runs else None,
        "false_alarm_interval": exact_interval(n_false, n_runs) if n_runs else None,
        "n_events": n_events,
        "n_detected": detected,
        "n_timely": named["timely"],
        "n_early": named["early"],
        "n_false_before_event": named["false_alarm"],
        "n_missed": named["miss"],
        "detection_rate": detected / n_events if n_events else None,
        "detection_interval": exact_interval(detected, n_events) if n_events else None,
        "timely_rate": named["timely"] / n_events if n_events else None,
        "timely_interval": exact_interval(named["timely"], n_events) if n_events else None,
        "steps_to_false_median": quantile(to_false, 0.5) if to_false else None,
        "n_event_free": len(of_free),
        "n_event_free_false": sum(one.name == "false_alarm" for one in of_free),
        "p_value": max(p_values.values()) if n_events else None,
    }
    for name, q in {"median": 0.5, "q25": 0.25, "q75": 0.75, "q05": 0.05, "q95": 0.95}.items():
        record[f"lead_{name}"] = quantile(leads, q) if leads else None
    for name, chances in baselines.items():
        record[f"{name}.detection_rate"] = sum(chances) / n_events if n_events else None
        record[f"{name}.p_value"] = p_values[name] if n_events else None
    return record
