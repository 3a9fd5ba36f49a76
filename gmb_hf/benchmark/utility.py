"""Layer C: what an alarm at a given budget is worth (spec 4.3)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import AllowInfNan, Field, FiniteFloat

from gmb_hf.base.documents import Count, Many, Number, OpenSection
from gmb_hf.base.stats import (
    IntervalRecord,
    exact_binomial,
    percentile_interval,
    quantile_intervals,
    ratio_interval,
    resamples,
)
from gmb_hf.benchmark.calibration import Judgement, per_run
from gmb_hf.benchmark.nulls import NullsRecord, chance, largest_p
from gmb_hf.benchmark.operationality import false_alarms
from gmb_hf.benchmark.records import NO_EVENT, NO_NEGATIVE, WhyNull

# Coverage .3 of 10 events must reach a minimum of .3.
_SLACK = 1e-12
_TAILS = (0.05, 0.25, 0.5, 0.75, 0.95)
_NO_EVENT, _NO_NEGATIVE = WhyNull(NO_EVENT), WhyNull(NO_NEGATIVE)
_NO_WARNING = WhyNull(
    lambda point: "no event was warned of at this target" if point.x_n_events else NO_EVENT
)


class UtilityRecord(OpenSection):
    """The fields of an operating point but those of the nulls."""

    fpr: FiniteFloat  # the target
    coverage: Annotated[Number, _NO_EVENT]  # share of events with an alarm in a positive window
    # Of t* - (first alarm in the horizon) over covered events; iqr is q75 - q25.
    lead_time_median: Annotated[Number, _NO_WARNING]
    lead_time_iqr: Annotated[Number, _NO_WARNING]
    # Share of events warned of at least the lead time target ahead.
    lead_time_success: Annotated[Number, _NO_EVENT]
    x_threshold: Annotated[float, AllowInfNan(True)] | None = None  # as in layer B
    x_coverage_interval: Annotated[IntervalRecord | None, _NO_EVENT] = None
    x_n_events: Count | None = None
    x_n_covered: Count | None = None
    x_n_too_early: Count | None = None  # without a single positive window: uncovered
    x_lead_time_q05: Annotated[Number, _NO_WARNING] = None
    x_lead_time_q95: Annotated[Number, _NO_WARNING] = None
    x_lead_time_interval: Annotated[IntervalRecord | None, _NO_WARNING] = None  # of the median
    x_lead_time_intervals: dict[str, IntervalRecord] = Field(default_factory=dict)
    x_lead_time_success_interval: Annotated[IntervalRecord | None, _NO_EVENT] = None
    x_lead_times: Many[FiniteFloat] = ()  # every lead, in the order of the runs
    # Leads whose alarm already stood when the horizon began: the true lead is longer.
    x_n_censored: Count | None = None
    # Alarmed negative windows per run that has any, and per 10,000 steps of negative windows.
    x_false_alarms_per_run: Annotated[Number, _NO_NEGATIVE] = None
    x_false_alarms_per_10k_steps: Annotated[Number, _NO_NEGATIVE] = None
    # Share of windows between burn-in and t* that alarm.
    x_time_in_warning: Annotated[Number, WhyNull("no window lies between burn-in and t*")] = None
    # Episodes begun in a positive or negative window, the share begun in a positive one (the event
    # follows within the horizon), and those begun in the gap between, which count neither way.
    x_episodes: Count | None = None
    x_episode_precision: Annotated[Number, WhyNull("there is no alarm episode")] = None
    x_episodes_between: Count | None = None


class OperatingPointRecord(NullsRecord, UtilityRecord):
    """What an alarm at one target rate is worth; times in steps."""


class LayerCRecord(OpenSection):
    """Utility at the operating points."""

    at_fpr: Many[OperatingPointRecord]

    def at(self, fpr: float) -> OperatingPointRecord:
        """The operating point at one target rate."""
        return next(point for point in self.at_fpr if point.fpr == fpr)


def episode_starts(
    steps: NDArray[np.int64], alarms: NDArray[np.bool_], refractory: int
) -> NDArray[np.bool_]:
    """Which alarms begin an episode, bool [R, T]; all runs advance together.

    An episode begins at an alarm that comes at least `refractory` steps after the beginning of the
    episode before; alarms in between belong to that one.
    """
    begins = np.zeros_like(alarms)
    free_from = np.full(len(steps), np.iinfo(np.int64).min)
    for column in np.flatnonzero(alarms.any(axis=0)):
        now = steps[:, column]
        begins[:, column] = alarms[:, column] & (now >= free_from)
        free_from = np.where(begins[:, column], now + refractory, free_from)
    return begins


def layer_c(judgement: Judgement) -> LayerCRecord:
    """Coverage, leads, alarm burden and chance nulls at every target."""
    targets = judgement.design.fpr_targets
    return LayerCRecord(at_fpr=tuple(operating_point(judgement, target) for target in targets))


class Warned(NamedTuple):
    """Which events were warned of at one operating point, and how early."""

    covered: NDArray[np.bool_]  # of each run
    lead: NDArray[np.float64]  # steps from the first alarm in the horizon to t*; NaN: not covered
    censored: NDArray[np.bool_]  # the alarm stands in the first positive window


@per_run
def warnings_at(judgement: Judgement, target: float) -> Warned:
    """The first alarm within each event's horizon."""
    scores, positive = judgement.evaluation, judgement.windows.positive
    early = judgement.alarms(target) & positive
    covered = np.asarray(early.any(axis=1))
    at = early.argmax(axis=1)
    lead = np.where(covered, scores.event_step - scores.steps[np.arange(len(at)), at], np.nan)
    censored = np.asarray(covered & (at == positive.argmax(axis=1)))
    return Warned(covered, lead, censored)


def shortfalls(
    judgement: Judgement, coverage: float | None, lead_median: float | None, p_value: float | None
) -> tuple[str, ...]:
    """The reason codes for which an operating point is not materially useful; empty if it is.

    Coverage must reach its minimum, the median lead its own, and in `strict` the p-value (adjusted
    or not, as the caller has it) must not exceed alpha, split over the looks that are locked.
    """
    design = judgement.design
    lucky = judgement.strict and (p_value is None or p_value > design.alpha_per_look)
    found = {
        "coverage_low": coverage is None or coverage < design.coverage_min - _SLACK,
        "no_better_than_chance": lucky,
        "lead_short": lead_median is None or lead_median < design.lead_least,
    }
    return tuple(reason for reason, holds in found.items() if holds)


def operating_point(judgement: Judgement, target: float) -> OperatingPointRecord:
    """Everything layer C says about one target."""
    scores, windows, design = judgement.evaluation, judgement.windows, judgement.design
    n_events, alarms = judgement.n_events, judgement.alarms(target)
    warned = warnings_at(judgement, target)
    n_covered, leads = int(warned.covered.sum()), warned.lead[warned.covered]
    success = warned.covered & (warned.lead >= design.lead_target)
    tails = np.quantile(leads, _TAILS).tolist() if len(leads) else None
    lead_intervals = _lead_intervals(judgement, warned)
    false = int(false_alarms(judgement, target).sum())
    begins = episode_starts(scores.steps, alarms & windows.monitored, design.episode_gap)
    n_true = int((begins & windows.positive).sum())
    n_labelled = n_true + int((begins & windows.negative).sum())
    # A window stands for the steps back to the checkpoint before it; the first one, as the second.
    back = np.diff(scores.steps, axis=1)
    reach = np.concatenate([back[:, :1], back], axis=1)
    quiet = int(reach[windows.negative[:, : reach.shape[1]]].sum()) if reach.size else 0
    nulls = chance(judgement, target, n_covered)
    return OperatingPointRecord(
        fpr=target,
        coverage=_share(n_covered, n_events),
        lead_time_median=tails[2] if tails else None,
        lead_time_iqr=tails[3] - tails[1] if tails else None,
        lead_time_success=_share(int(success.sum()), n_events),
        x_threshold=judgement.calibrated.deployed[target],
        x_coverage_interval=_share_interval(judgement, warned.covered),
        x_n_events=n_events,
        x_n_covered=n_covered,
        x_n_too_early=int((scores.has_event & ~windows.positive.any(axis=1)).sum()),
        x_lead_time_q05=tails[0] if tails else None,
        x_lead_time_q95=tails[4] if tails else None,
        x_lead_time_interval=lead_intervals.get("median"),
        x_lead_time_intervals=lead_intervals,
        x_lead_time_success_interval=_share_interval(judgement, success),
        x_lead_times=tuple(leads.tolist()),
        x_n_censored=int(warned.censored.sum()),
        x_false_alarms_per_run=_share(false, judgement.negatives.n_runs),
        x_false_alarms_per_10k_steps=_share(10_000 * false, quiet),
        x_time_in_warning=_share(
            int((alarms & windows.monitored).sum()), int(windows.monitored.sum())
        ),
        x_episodes=n_labelled,
        x_episode_precision=_share(n_true, n_labelled),
        x_episodes_between=int(begins.sum()) - n_labelled,
        x_p_value=largest_p(nulls),
        **{f"x_{name}_null": null for name, null in nulls.items()},
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _share_interval(judgement: Judgement, chosen: NDArray[np.bool_]) -> IntervalRecord | None:
    """The interval of the share of events that are `chosen`."""
    n_events, n_chosen = judgement.n_events, int(chosen.sum())
    if not n_events:
        return None
    if n_chosen in (0, n_events):
        # Every resample gives the same share; a run has one event at most, so this is exact.
        return exact_binomial(n_chosen, n_events)
    return ratio_interval(
        chosen.astype(np.float64),
        judgement.evaluation.has_event.astype(np.float64),
        _weights(judgement),
    )


def _lead_intervals(judgement: Judgement, warned: Warned) -> dict[str, IntervalRecord]:
    if not warned.covered.any():
        return {}
    q05, q25, median, q75, q95 = quantile_intervals(warned.lead, _TAILS, _weights(judgement))
    draws = {"median": median, "iqr": q75 - q25, "q05": q05, "q95": q95}
    intervals = {name: percentile_interval(values) for name, values in draws.items()}
    return {name: interval for name, interval in intervals.items() if interval is not None}


def _weights(judgement: Judgement) -> NDArray[np.float64]:
    design = judgement.design
    return resamples(judgement.evaluation.n_runs, design.bootstrap_draws, design.seed)
