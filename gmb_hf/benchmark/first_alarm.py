"""The first alarm: what an operator who acts on it gets, counted by runs.

The specification counts false alarms by window. Whoever wires a score to an alarm lives in runs and
acts once, so the budget here is a share of runs. From the burn-in on, the first checkpoint before
t* with s >= tau is a run's first alarm:

- false: at or before t* - safe_gap; without an event, wherever a window is negative;
- early: inside the gap, before the horizon; timely: in [t* - H, t*); both are `warned`;
- missed: there is none. A run without an event and without a false alarm is quiet.

Blind alarms of the same cost stand beside every score: a constant hazard per checkpoint
(memoryless), the first alarm of another run that was at risk at t* (risk set), and the clock and
the steps since memorisation, which are calibrated like any score. `run_verdict.py` concludes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AllowInfNan, Field, FiniteFloat
from scipy.special import bdtrc

from gmb_hf.base.documents import Count, Measured, Number, OpenSection
from gmb_hf.base.stats import IntervalRecord, exact_binomial
from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.records import NO_EVENT, NO_NEGATIVE, WhyNull
from gmb_hf.design.design import Design
from gmb_hf.design.power import promise, shown_line

MEMORISATION = "steps_since_memorisation"
RIVALS = {"clock": "the clock", MEMORISATION: "steps since memorisation"}
"""Controls whose warned share a score must exceed at the same budget, and what they are called."""

State = Literal["met", "missed", "straddles"]
SLACK = 1e-12  # a share of .3 must reach a minimum of .3
_NO_EVENT, _NO_NEGATIVE = WhyNull(NO_EVENT), WhyNull(NO_NEGATIVE)
_NO_WARNING = WhyNull(lambda at: "no event was warned of" if at.n_events else NO_EVENT)
_TAILS = (0.05, 0.25, 0.5, 0.75, 0.95)

# What results.yaml stores.


class BlindRecord(OpenSection):
    """A blind alarm at the same cost."""

    warned: Measured  # expected share of events
    p_value: Measured  # exact probability that it warns of as many events as the score


class RivalRecord(OpenSection):
    """A control at the same budget, paired over events."""

    warned: Measured
    p_value: Measured  # McNemar's exact test, one-sided: the score warns of more


class FirstAlarmPointRecord(OpenSection):
    """What the first alarm at one budget of runs is worth; times in steps."""

    budget: FiniteFloat
    threshold: Annotated[float, AllowInfNan(True)]
    answer: Literal["THRESHOLD", "ABSTAIN"]
    # The true rate of such thresholds: its mean, and a bound that nine in ten keep.
    expected: Annotated[Number, WhyNull("the threshold is infinite, or not of one set of runs")]
    upper: Annotated[Number, WhyNull("the threshold is infinite, or not of one set of runs")]
    # Over runs with negative windows.
    n_runs: Count
    n_false: Count
    false_share: Annotated[Number, _NO_NEGATIVE]
    false_interval: Annotated[IntervalRecord | None, _NO_NEGATIVE] = None
    met: bool
    state: State
    few_runs: bool  # too few calibration runs for a finite threshold
    # Over runs with an event.
    n_events: Count
    n_warned: Count
    n_timely: Count
    n_early: Count
    n_false_before_event: Count
    n_missed: Count
    warned: Annotated[Number, _NO_EVENT]
    warned_interval: Annotated[IntervalRecord | None, _NO_EVENT] = None
    timely: Annotated[Number, _NO_EVENT]
    timely_interval: Annotated[IntervalRecord | None, _NO_EVENT] = None
    # Of t* - first alarm over warned events; the gap bounds it, the horizon does not.
    lead_median: Annotated[Number, _NO_WARNING] = None
    lead_q25: Annotated[Number, _NO_WARNING] = None
    lead_q75: Annotated[Number, _NO_WARNING] = None
    lead_q05: Annotated[Number, _NO_WARNING] = None
    lead_q95: Annotated[Number, _NO_WARNING] = None
    # From burn-in to a false alarm.
    steps_to_false_median: Annotated[Number, WhyNull("there is no false alarm")] = None
    # Runs without an event.
    n_event_free: Count
    n_event_free_false: Count
    memoryless: Annotated[BlindRecord | None, _NO_EVENT] = None
    risk_set: Annotated[BlindRecord | None, _NO_EVENT] = None
    p_value: Annotated[Number, _NO_EVENT] = None  # the larger of the two
    rivals: dict[str, RivalRecord] = Field(default_factory=dict)

    @property
    def early(self) -> float | None:
        """The share of events that were warned of before the horizon; None without events."""
        return self.n_early / self.n_events if self.n_events else None

    @property
    def missed(self) -> float | None:
        """The share of events without an alarm before them; None without events."""
        return self.n_missed / self.n_events if self.n_events else None

    @property
    def blind(self) -> dict[str, float]:
        """What each blind alarm and control warns of at this cost, a share of events, by name."""
        return {name: one.warned for name, one in self.comparisons.items()}

    @property
    def comparisons(self) -> dict[str, BlindRecord | RivalRecord]:
        """Each blind alarm and control that was measured, by name."""
        measured = {name: getattr(self, name) for name in BLIND} | self.rivals
        return {name: one for name, one in measured.items() if one is not None}


class OtherEventRecord(OpenSection):
    """The same score before another event, by thresholds of its own, at the primary budget."""

    event: str
    at: FirstAlarmPointRecord


# The first alarm of every run.


@dataclass(frozen=True, eq=False)
class FirstAlarms:
    """The first alarms of R runs at the thresholds of one budget.

    Attributes:
        budget: the share of runs that may have a false alarm.
        design: horizon, gap, burn-in and what must be reached.
        threshold: float64 [R], by which each run is judged.
        event_step, last_step: float64 [R], t* (NaN: none) and the end of each log.
        first: float64 [R], the first alarm from burn-in on, whatever comes later; NaN: none.
        n_negative: int64 [R], checkpoints at which an alarm is false.
        n_gap: int64 [R], monitored checkpoints after those, before t*.
        step: float64 [R], the first alarm among these; NaN: none.
        false, timely, warned: bool [R].
    """

    budget: float
    design: Design
    threshold: NDArray[np.float64]
    event_step: NDArray[np.float64]
    last_step: NDArray[np.float64]
    first: NDArray[np.float64]
    n_negative: NDArray[np.int64]
    n_gap: NDArray[np.int64]
    step: NDArray[np.float64]
    false: NDArray[np.bool_]
    timely: NDArray[np.bool_]
    warned: NDArray[np.bool_]

    @classmethod
    def of(cls, judgement: Judgement, budget: float) -> FirstAlarms:
        """Find them; a score that is not finite raises no alarm."""
        scores, windows, design = judgement.evaluation, judgement.windows, judgement.design
        threshold = judgement.run_calibrated.thresholds[budget]
        alarms = (scores.values >= threshold[:, None]) & np.isfinite(scores.values)
        step = first_step(scores.steps, alarms & windows.monitored)
        seen = scores.present & (scores.steps >= design.burn_in)
        # NaN without an event or without an alarm, which no comparison holds of.
        lead: NDArray[np.float64] = scores.event_step - step
        return cls(
            budget,
            design,
            threshold,
            scores.event_step,
            scores.last_step.astype(np.float64),
            first_step(scores.steps, alarms & seen),
            windows.negative.sum(axis=1),
            (windows.monitored & ~windows.negative).sum(axis=1),
            step,
            np.asarray((alarms & windows.negative).any(axis=1)),
            lead <= design.horizon,
            lead < design.safe_gap,
        )

    def select(self, rows: NDArray[Any]) -> FirstAlarms:
        """Those of some runs; thresholds stay."""
        arrays = {
            name: value[rows] for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        return FirstAlarms(self.budget, self.design, **arrays)

    @property
    def has_event(self) -> NDArray[np.bool_]:
        """Whether each run had an event, bool [R]."""
        return ~np.isnan(self.event_step)

    @property
    def n_events(self) -> int:
        """How many runs had one."""
        return int(self.has_event.sum())

    @property
    def n_runs(self) -> int:
        """How many runs have negative windows."""
        return int((self.n_negative > 0).sum())

    @property
    def n_false(self) -> int:
        """How many runs have a false alarm."""
        return int(self.false.sum())

    @property
    def n_warned(self) -> int:
        """How many events were warned of."""
        return int(self.warned.sum())

    @property
    def warned_share(self) -> float | None:
        """The share of events that were warned of; None without events."""
        return self.n_warned / self.n_events if self.n_events else None

    @property
    def timely_share(self) -> float | None:
        """The share of events that were warned of in time; None without events."""
        return int(self.timely.sum()) / self.n_events if self.n_events else None

    @property
    def false_share(self) -> float | None:
        """The share of runs with a false alarm; None where none has a negative window."""
        return self.n_false / self.n_runs if self.n_runs else None

    @property
    def blind_share(self) -> float | None:
        """The share that the harder of both blind alarms warns of; None without events."""
        return max((one.warned for one in self.blind.values()), default=None)

    @property
    def leads(self) -> NDArray[np.float64]:
        """Steps from the first alarm to t*, of the events that were warned of."""
        return (self.event_step - self.step)[self.warned]

    @property
    def outcomes(self) -> list[str]:
        """What became of each run: false, early, timely, missed or quiet."""
        found = np.where(self.has_event, "missed", "quiet").astype(object)
        for name, rows in ("early", self.warned), ("timely", self.timely), ("false", self.false):
            found[rows] = name
        return list(found)

    @cached_property
    def chances(self) -> dict[str, NDArray[np.float64]]:
        """Each event's chance to be warned of by each blind alarm; empty without events."""
        blind = BLIND if self.n_events else {}
        return {name: chances(self)[self.has_event] for name, chances in blind.items()}

    @cached_property
    def blind(self) -> dict[str, BlindRecord]:
        """Each blind alarm: what it warns of, and how probably of as many; empty without events."""
        tails = count_tails(list(self.chances.values()), [self.n_warned] * len(self.chances))
        return {
            name: BlindRecord(warned=float(each.mean()), p_value=tail)
            for (name, each), tail in zip(self.chances.items(), tails.tolist(), strict=True)
        }

    @property
    def p_value(self) -> float | None:
        """The larger of the blind alarms'; None without events."""
        return max((one.p_value for one in self.blind.values()), default=None)

    @property
    def false_interval(self) -> IntervalRecord | None:
        """Exact, of the share of runs with a false alarm; None without negative windows."""
        return exact_binomial(self.n_false, self.n_runs) if self.n_runs else None


def first_step(steps: NDArray[np.int64], marked: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The step of the first marked checkpoint of each run, float64 [R]; NaN: none is."""
    if not steps.shape[1]:
        return np.full(len(steps), np.nan)
    column = marked.argmax(axis=1)
    rows = np.arange(len(steps))
    return np.where(marked[rows, column], steps[rows, column], np.nan)


# Blind alarms at the same cost, each event's chance to be warned of, float64 [R] (NaN: no event).


def memoryless(alarms: FirstAlarms) -> NDArray[np.float64]:
    """A constant hazard per monitored checkpoint, at the observed share of runs falsely alarmed.

    With n negative and g further monitored checkpoints an event is warned of with probability
    (1 - h)^n (1 - (1 - h)^g); h solves mean(1 - (1 - h)^n) = the observed share over runs with
    negative windows.
    """
    counts = alarms.n_negative[alarms.n_negative > 0].astype(np.float64)
    share = alarms.n_false / len(counts) if len(counts) else 0.0
    chances = np.full(len(alarms.step), np.nan)
    quiet, gap = alarms.n_negative[alarms.has_event], alarms.n_gap[alarms.has_event]
    if share == 1:
        # A certain alarm at the first checkpoint: only where nothing is negative it comes in time.
        chances[alarms.has_event] = (quiet == 0) & (gap > 0)
        return chances
    rate = 0.0  # -log(1 - h)
    if share:
        from scipy.optimize import brentq  # which half of the commands never need

        # The root for runs as short as the shortest; twice that has the other sign for certain.
        upper = -2 * math.log1p(-share) / counts.min()
        rate = brentq(
            lambda x: float(-np.expm1(-x * counts).mean()) - share, 0.0, upper, xtol=1e-15
        )
    chances[alarms.has_event] = np.exp(-rate * quiet) * -np.expm1(-rate * gap)
    return chances


def risk_set(alarms: FirstAlarms) -> NDArray[np.float64]:
    """The first alarm of a run drawn from those at risk at t*, in the same calendar window.

    At risk at t* are the run itself and every run without an event before t* that is logged up to
    t*. The chance is the share of them whose first alarm lies in (t* - safe_gap, t*). Counted by
    event time, in time R log R.
    """
    chances = np.full(len(alarms.step), np.nan)
    event = alarms.event_step[alarms.has_event]
    times, which = np.unique(event, return_inverse=True)
    ends = np.where(
        alarms.has_event, np.minimum(alarms.event_step, alarms.last_step), alarms.last_step
    )
    alarmed = ~np.isnan(alarms.first)
    begins = alarms.first[alarmed]
    # A first alarm at a warns of the events in (a, a + gap), while its run is at risk.
    upto = np.searchsorted(times, begins + alarms.design.safe_gap, side="left")
    upto = np.minimum(upto, np.searchsorted(times, ends[alarmed], side="right"))
    since = np.searchsorted(times, begins, side="right")
    opened = np.bincount(since, minlength=len(times) + 1)
    closed = np.bincount(np.maximum(upto, since), minlength=len(times) + 1)
    warned = np.cumsum(opened - closed)[which]
    size = (len(ends) - np.searchsorted(np.sort(ends), times))[which]
    # A run whose log ends before its event is in its own risk set all the same.
    own = alarms.last_step[alarms.has_event] < event
    size = size + own
    warned = warned + (own & alarms.warned[alarms.has_event])
    chances[alarms.has_event] = warned / np.maximum(size, 1)
    return chances


BLIND: dict[str, Callable[[FirstAlarms], NDArray[np.float64]]] = {
    "memoryless": memoryless,
    "risk_set": risk_set,
}
"""Blind alarms by the name of their field."""


def count_tails(
    chances: Sequence[NDArray[np.float64]], at_least: Sequence[int]
) -> NDArray[np.float64]:
    """P(X >= at_least) of sums of independent yes-or-no events: exact (Poisson-binomial).

    All sums advance together, event by event; an event that cannot be changes nothing.
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


def warns_more(score: NDArray[np.bool_], rival: NDArray[np.bool_]) -> float:
    """One-sided exact McNemar p: of the events that one alone warns of, as many are the score's."""
    only, others = int((score & ~rival).sum()), int((rival & ~score).sum())
    return float(bdtrc(only - 1, only + others, 0.5)) if only else 1.0


# The measure at one budget.

Rivals = Mapping[str, NDArray[np.bool_]]
"""Which events each rival warns of at the same budget, bool [R], by its name."""


def measure(judgement: Judgement, alarms: FirstAlarms, rivals: Rivals) -> FirstAlarmPointRecord:
    """What the first alarm at one budget is worth, as it is stored."""
    calibrated, n_events, n_runs = judgement.run_calibrated, alarms.n_events, alarms.n_runs
    threshold = calibrated.deployed[alarms.budget]
    finite = math.isfinite(threshold) and bool(np.isfinite(alarms.threshold).all())
    promised = None
    if finite and calibrated.n_runs is not None and calibrated.method != "cross_run":
        promised = promise(alarms.budget, calibrated.n_runs, alarms.design.calibration)
    interval, shown = alarms.false_interval, judgement.basis != "promised"
    state = gate(interval, alarms.budget, finite=finite, shown=shown)
    n_timely, has_event = int(alarms.timely.sum()), alarms.has_event
    false_before = int((alarms.false & has_event).sum())
    leads = np.quantile(alarms.leads, _TAILS).tolist() if alarms.n_warned else [None] * 5
    until = alarms.step[alarms.false] - alarms.design.burn_in
    return FirstAlarmPointRecord(
        budget=alarms.budget,
        threshold=threshold,
        answer="THRESHOLD" if finite else "ABSTAIN",
        expected=promised.expected if promised else None,
        upper=promised.upper if promised else None,
        n_runs=n_runs,
        n_false=alarms.n_false,
        false_share=alarms.false_share,
        false_interval=interval,
        met=state == "met",
        state=state,
        few_runs=not finite,
        n_events=n_events,
        n_warned=alarms.n_warned,
        n_timely=n_timely,
        n_early=alarms.n_warned - n_timely,
        n_false_before_event=false_before,
        n_missed=n_events - alarms.n_warned - false_before,
        warned=alarms.warned_share,
        warned_interval=exact_binomial(alarms.n_warned, n_events) if n_events else None,
        timely=alarms.timely_share,
        timely_interval=exact_binomial(n_timely, n_events) if n_events else None,
        lead_q05=leads[0],
        lead_q25=leads[1],
        lead_median=leads[2],
        lead_q75=leads[3],
        lead_q95=leads[4],
        steps_to_false_median=float(np.median(until)) if len(until) else None,
        n_event_free=int((~has_event).sum()),
        n_event_free_false=int((alarms.false & ~has_event).sum()),
        p_value=alarms.p_value,
        **alarms.blind,
        rivals={
            name: RivalRecord(
                warned=float(warned[has_event].mean()), p_value=warns_more(alarms.warned, warned)
            )
            for name, warned in rivals.items()
            if n_events
        },
    )


def gate(
    interval: IntervalRecord | None, budget: float, *, finite: bool = True, shown: bool
) -> State:
    """Whether a budget holds, by the interval of the share of runs with a false alarm.

    Held-out runs of the lock's own law can only refute its promise: it is met unless the exact
    interval lies wholly above the budget. Under another law the rate must be shown: met only if the
    interval's upper end is at most alpha + min(.05, alpha / 2). Without a finite threshold nothing
    can be said: more calibration runs would tell.
    """
    if not finite:
        return "straddles"
    if not shown:
        return "missed" if interval is not None and interval.low > budget + SLACK else "met"
    line = shown_line(budget) + SLACK
    if interval is None or interval.low <= line < interval.high:
        return "straddles"
    return "met" if interval.high <= line else "missed"


def first_alarms(judgement: Judgement) -> dict[float, FirstAlarms]:
    """The first alarms at every budget of runs of the design."""
    return {budget: FirstAlarms.of(judgement, budget) for budget in judgement.design.run_budgets}


def clock_of(judgement: Judgement) -> Judgement | None:
    """The clock judged like the score; None where a lock would have to know its threshold."""
    if judgement.run_thresholds is not None:
        return None
    explore = judgement.calibration
    return replace(
        judgement,
        evaluation=judgement.evaluation.clock(),
        calibration=None if explore is None else explore.clock(),
    )


def before_event(judgements: Mapping[str, Judgement]) -> dict[str, FirstAlarmPointRecord]:
    """Each score's first alarm at the primary budget, beside the rivals among them."""
    alarms = {
        name: FirstAlarms.of(one, one.design.primary_run_budget) for name, one in judgements.items()
    }
    rivals = {name: alarms[name].warned for name in RIVALS if name in alarms}
    return {
        name: measure(
            judgements[name], one, {rival: rivals[rival] for rival in rivals if rival != name}
        )
        for name, one in alarms.items()
    }


def shared_thresholds(
    maxima: Mapping[str, Sequence[float | None]], budget: float, calibration: str
) -> dict[str, float]:
    """Thresholds of several alarms that share one budget of runs, whichever of them comes first.

    Each explore run is as odd as its highest rank among the scores says. Thresholds lie just above
    the same rank q of every score: the least of two that are valid in finite samples. Conformal:
    with the k-th smallest of those highest ranks, q = that + 1, since a fresh run may shift each
    rank by one. Union: each of n alarms keeps budget / n.

    Args:
        maxima: of each score, its greatest negative score in every explore run; None: not known.
            Runs that one of them does not know are left out.
        budget: the share of runs.
        calibration: see `promise`.

    Returns:
        A threshold for each; +infinity where the runs are too few for so many alarms.
    """
    table = np.array([[np.nan if x is None else x for x in row] for row in maxima.values()], float)
    table = table[:, ~np.isnan(table).any(axis=0)]
    n_alarms, m = table.shape
    ordered = np.sort(table, axis=1)
    ranks = [
        np.searchsorted(row, own, side="right") for row, own in zip(ordered, table, strict=True)
    ]
    single = promise(budget, m, calibration).rank
    chosen = [promise(budget / n_alarms, m, calibration).rank or m + 1]
    if single is not None:
        chosen.append(int(np.sort(np.max(ranks, axis=0))[single - 1]) + (n_alarms > 1))
    rank = min(chosen)
    if rank > m:
        return dict.fromkeys(maxima, math.inf)
    taus = np.nextafter(ordered[:, rank - 1], math.inf).tolist()
    return dict(zip(maxima, taus, strict=True))
