"""The first alarm, by runs, as results store it; `gmb_hf.core.first_alarm` has the method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AllowInfNan, Field, FiniteFloat

from gmb_hf.base.documents import Count, Many, Number, OpenSection
from gmb_hf.base.escape import p_value
from gmb_hf.base.stats import IntervalRecord, exact_binomial, median_interval
from gmb_hf.benchmark.baselines import BaselineRecord
from gmb_hf.benchmark.gates import SLACK, State, budget_state
from gmb_hf.benchmark.judgement import Basis, Judgement, Locked
from gmb_hf.benchmark.records import NO_EVENT, NO_NEGATIVE, WhyNull
from gmb_hf.benchmark.robustness import LayerDRecord
from gmb_hf.benchmark.scores import Scores
from gmb_hf.core.first_alarm import FirstAlarms
from gmb_hf.core.nulls import detects_more, labels_of
from gmb_hf.core.thresholds import promise, shown_line
from gmb_hf.design.candidates import LEARNED_METRIC

MEMORISATION = "steps_since_memorisation"
RIVALS = {"clock": "the clock", MEMORISATION: "steps since memorisation"}
"""Controls whose detection rate a score must exceed at the same budget, and their names."""

Rivals = Mapping[str, NDArray[np.bool_]]
"""Which events each control detects at the same budget, bool [R], by its name."""

_LEADS = ("lead_q05", "lead_q25", "lead_median", "lead_q75", "lead_q95")
_NO_EVENT, _NO_NEGATIVE = WhyNull(NO_EVENT), WhyNull(NO_NEGATIVE)
_NOT_DETECTED = WhyNull(lambda at: "no event was detected" if at.n_events else NO_EVENT)
_NO_PROMISE = WhyNull("the threshold is infinite, or not of one set of runs")


class FirstAlarmPointRecord(OpenSection):
    """What the first alarm at one budget of runs is worth; times in steps."""

    budget: FiniteFloat
    threshold: Annotated[float, AllowInfNan(True)]
    answer: Literal["THRESHOLD", "ABSTAIN"]
    # The true false-alarm rate of such thresholds: its mean, and a bound that nine in ten keep.
    expected: Annotated[Number, _NO_PROMISE]
    upper: Annotated[Number, _NO_PROMISE]
    # Over runs with negative windows.
    n_runs: Count
    n_false: Count
    false_alarm_rate: Annotated[Number, _NO_NEGATIVE]
    false_alarm_interval: Annotated[IntervalRecord | None, _NO_NEGATIVE] = None
    state: State  # of the budget, by `budget_state`
    few_runs: bool  # too few calibration runs for a finite threshold
    # Over runs with an event.
    n_events: Count
    n_detected: Count
    n_timely: Count
    n_early: Count
    n_false_before_event: Count
    n_missed: Count
    detection_rate: Annotated[Number, _NO_EVENT]
    detection_interval: Annotated[IntervalRecord | None, _NO_EVENT] = None
    timely_rate: Annotated[Number, _NO_EVENT]
    timely_interval: Annotated[IntervalRecord | None, _NO_EVENT] = None
    # Of t* - first alarm over detected events; the gap bounds it, the horizon does not.
    lead_median: Annotated[Number, _NOT_DETECTED] = None
    lead_q25: Annotated[Number, _NOT_DETECTED] = None
    lead_q75: Annotated[Number, _NOT_DETECTED] = None
    lead_q05: Annotated[Number, _NOT_DETECTED] = None
    lead_q95: Annotated[Number, _NOT_DETECTED] = None
    # From burn-in to a false alarm.
    steps_to_false_median: Annotated[Number, WhyNull("there is no false alarm")] = None
    # Runs without an event.
    n_event_free: Count
    n_event_free_false: Count
    # What chance detects at the same cost, and controls at the same budget, by name.
    baselines: dict[str, BaselineRecord] = Field(default_factory=dict)
    controls: dict[str, BaselineRecord] = Field(default_factory=dict)
    p_value: Annotated[Number, _NO_EVENT] = None  # the largest of the chance baselines'

    @property
    def early_rate(self) -> float | None:
        """The share of events that are detected before the horizon; None without events."""
        return self.n_early / self.n_events if self.n_events else None

    @property
    def miss_rate(self) -> float | None:
        """The share of events without an alarm before them; None without events."""
        return self.n_missed / self.n_events if self.n_events else None

    @property
    def beside(self) -> dict[str, BaselineRecord]:
        """Each chance baseline and control, by name."""
        return {**self.baselines, **self.controls}

    @property
    def chance(self) -> float | None:
        """The detection rate of the hardest chance baseline; None where there is none."""
        return max((one.detection_rate for one in self.baselines.values()), default=None)


class OtherEventRecord(OpenSection):
    """The same score before another event, by thresholds of its own, at the primary budget."""

    event: str
    at: FirstAlarmPointRecord


SeenBy = Literal["chance", "midpoint"]
_NONE_DETECTED = WhyNull("no event was detected")


class VisibleRecord(OpenSection):
    """The metric of the event at the first alarms, at the primary budget of runs."""

    metric: str
    # Over detected events: its quantiles at the first alarm.
    at_alarm_q05: Annotated[Number, _NONE_DETECTED] = None
    at_alarm_median: Annotated[Number, _NONE_DETECTED] = None
    at_alarm_q95: Annotated[Number, _NONE_DETECTED] = None
    # Up to this value of the metric nothing can be seen: twice chance, or half-way from the level
    # far before an event (the median over negative windows) to that of the event.
    line: FiniteFloat
    basis: SeenBy
    n_unseen: Count
    # Of all events, those that were detected while nothing could be seen.
    unseen: Annotated[Number, WhyNull(NO_EVENT)] = None

    @property
    def line_in_words(self) -> str:
        """What the line is."""
        return "above twice chance" if self.basis == "chance" else "half-way to the event"


class AheadRecord(OpenSection):
    """How many steps earlier first alarms come than those of another score, at the primary budget.

    A score that sees no label is foresight where it comes before `learned_metric`, which is what
    anybody has who looks at the metric of the event.
    """

    rival: str
    # Events that both detect, this score alone, the other one alone.
    n_both: Count
    n_alone: Count
    n_rival_alone: Count
    # Of the other's first alarm - this one's, over the events that both detect.
    median: Annotated[Number, WhyNull("no event was detected by both")] = None
    interval: Annotated[
        IntervalRecord | None, WhyNull("fewer than six events were detected by both")
    ] = None

    @property
    def earlier(self) -> bool:
        """Whether it is shown to come earlier: the whole interval lies above 0."""
        return self.interval is not None and self.interval.low is not None and self.interval.low > 0


class FirstAlarmRecord(OpenSection):
    """One score by runs: what its first alarm is worth at each budget, and its robustness."""

    basis: Basis
    calibration: Literal["marginal", "conditional"]
    p_adjusted: Annotated[Number, WhyNull(NO_EVENT)] = None  # Holm, over the candidates of the lock
    at_budget: Many[FirstAlarmPointRecord]
    robustness: LayerDRecord
    # At the primary budget, of each judged run in their order: its first alarm, null without one.
    alarm_steps: Many[FiniteFloat | None] = ()
    other_events: Many[OtherEventRecord] = ()
    visible: Annotated[
        VisibleRecord | None,
        WhyNull("the event is no level of a metric that is known at every checkpoint"),
    ] = None
    ahead: Annotated[
        AheadRecord | None,
        WhyNull(f"{LEARNED_METRIC} is not among the other scores, or keeps no budget"),
    ] = None

    def at(self, budget: float) -> FirstAlarmPointRecord:
        """The point at one budget."""
        return next(point for point in self.at_budget if point.budget == budget)


def measure(judgement: Judgement, budget: float, rivals: Rivals) -> FirstAlarmPointRecord:
    """What the first alarm at one budget is worth, as it is stored."""
    alarms, calibrated = judgement.first_alarms(budget), judgement.run_calibrated
    finite, n_events, n_runs = calibrated.finite(budget), alarms.n_events, alarms.n_runs
    promised = None
    if finite and calibrated.n_runs is not None and calibrated.method != "cross_run":
        promised = promise(budget, calibrated.n_runs, judgement.design.calibration)
    interval = exact_binomial(alarms.n_false, n_runs) if n_runs else None
    has_event = alarms.has_event
    false_before = int((alarms.false & has_event).sum())
    leads: dict[str, Any] = dict(zip(_LEADS, alarms.lead_quantiles(), strict=True))
    until = alarms.step[alarms.false] - judgement.design.burn_in
    return FirstAlarmPointRecord(
        budget=budget,
        threshold=calibrated.deployed[budget],
        answer="THRESHOLD" if finite else "ABSTAIN",
        expected=promised.expected if promised else None,
        upper=promised.upper if promised else None,
        n_runs=n_runs,
        n_false=alarms.n_false,
        false_alarm_rate=alarms.false_alarm_rate,
        false_alarm_interval=interval,
        state=run_budget_state(judgement, budget, interval),
        few_runs=not finite,
        n_events=n_events,
        n_detected=alarms.n_detected,
        n_timely=alarms.n_timely,
        n_early=alarms.n_detected - alarms.n_timely,
        n_false_before_event=false_before,
        n_missed=n_events - alarms.n_detected - false_before,
        detection_rate=alarms.detection_rate,
        detection_interval=exact_binomial(alarms.n_detected, n_events) if n_events else None,
        timely_rate=alarms.timely_rate,
        timely_interval=exact_binomial(alarms.n_timely, n_events) if n_events else None,
        **leads,
        steps_to_false_median=float(np.median(until)) if len(until) else None,
        n_event_free=int((~has_event).sum()),
        n_event_free_false=int((alarms.false & ~has_event).sum()),
        baselines={
            name: BaselineRecord(
                detection_rate=float(chances.mean()), p_value=alarms.p_values[name]
            )
            for name, chances in alarms.chances.items()
        },
        controls={
            name: BaselineRecord(
                detection_rate=float(detected[has_event].mean()),
                p_value=detects_more(alarms.detected, detected),
            )
            for name, detected in rivals.items()
            if n_events
        },
        p_value=alarms.p_value,
    )


def ahead_of(alarms: FirstAlarms, rival: FirstAlarms, name: str) -> AheadRecord:
    """How much earlier first alarms come than those of another score on the same runs."""
    mine, others = alarms.detected, rival.detected
    both = mine & others
    earlier = rival.step[both] - alarms.step[both]
    return AheadRecord(
        rival=name,
        n_both=int(both.sum()),
        n_alone=int((mine & ~others).sum()),
        n_rival_alone=int((others & ~mine).sum()),
        median=float(np.median(earlier)) if len(earlier) else None,
        interval=median_interval(earlier),
    )


def worth(at: FirstAlarmPointRecord, who: str = "it") -> str:
    """What a first alarm is worth, in a clause: detection, false alarms, the strongest baseline.

    The baseline is the chance baseline or control that detects most events at the same budget.
    """
    rate, lead = at.false_alarm_rate, at.lead_median
    kept = rate is None or rate <= at.budget + SLACK
    measured = "" if rate is None else f"{_with_ends(rate, at.false_alarm_interval)}, "
    share = at.detection_rate
    detected = "none" if share is None else _with_ends(share, at.detection_interval)
    text = (
        f"{who} detects {detected} of {at.n_events} event{'' if at.n_events == 1 else 's'} with a "
        f"median lead time of {0 if lead is None else lead:,.0f} steps; false alarms in "
        f"{at.n_false} of {at.n_runs} runs ({measured}budget {100 * at.budget:g}%"
        f"{'' if kept else ': compatible'})"
    )
    if not at.beside:
        return text
    names = {**labels_of("runs"), **RIVALS}
    name, best = max(at.beside.items(), key=lambda item: item[1].detection_rate)
    p = p_value(best.p_value)
    return (
        f"{text}; best chance baseline {best.detection_rate:.0%} ({names.get(name, name)}, p {p})"
    )


def _with_ends(rate: float, interval: IntervalRecord | None) -> str:
    ends = "" if interval is None else f" [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"
    return f"{rate:.0%}{ends}"


def run_budget_state(judgement: Judgement, budget: float, interval: IntervalRecord | None) -> State:
    """Whether a budget of runs holds; without a finite threshold nothing can be said."""
    if not judgement.run_calibrated.finite(budget):
        return "straddles"
    shown = judgement.basis != "promised"
    return budget_state(interval, budget=budget, line=shown_line(budget), shown=shown)


def clock_of(judgement: Judgement) -> Judgement | None:
    """The clock judged like the score; None where a lock would have to know its threshold."""
    source = judgement.source
    if isinstance(source, Locked) and source.runs is not None:
        return None
    if isinstance(source, Locked):
        source = None
    return Judgement(
        judgement.evaluation.clock(),
        source.clock() if isinstance(source, Scores) else source,
        judgement.design,
        basis=judgement.basis,
    )


def before_event(judgements: Mapping[str, Judgement]) -> dict[str, FirstAlarmPointRecord]:
    """Each score's first alarm at the primary budget, beside the controls among them."""
    budgets = {name: one.design.primary_run_budget for name, one in judgements.items()}
    detected: dict[str, FirstAlarms] = {
        name: judgements[name].first_alarms(budgets[name]) for name in RIVALS if name in judgements
    }
    return {
        name: measure(
            one,
            budgets[name],
            {rival: found.detected for rival, found in detected.items() if rival != name},
        )
        for name, one in judgements.items()
    }


def alarm_steps(alarms: FirstAlarms) -> tuple[float | None, ...]:
    """The first alarm of each run, None without one."""
    return tuple(None if math.isnan(step) else step for step in alarms.step.tolist())
