"""Layer C: what an alarm at a given budget is worth (spec 4.3)."""

from __future__ import annotations

from typing import Annotated

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
from gmb_hf.benchmark import baselines
from gmb_hf.benchmark.baselines import DrawnBaselineRecord
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.records import NO_EVENT, NO_NEGATIVE, WhyNull
from gmb_hf.core.utility import WindowAlarms, episode_starts

_TAILS = (0.05, 0.25, 0.5, 0.75, 0.95)
_NO_EVENT, _NO_NEGATIVE = WhyNull(NO_EVENT), WhyNull(NO_NEGATIVE)
_NO_WARNING = WhyNull(
    lambda point: "no event was detected at this target" if point.x_n_events else NO_EVENT
)


class OperatingPointRecord(OpenSection):
    """What an alarm at one target rate is worth; times in steps."""

    fpr: FiniteFloat  # the target
    coverage: Annotated[Number, _NO_EVENT]  # share of events with an alarm in a positive window
    # Of t* - (first alarm in the horizon) over covered events; iqr is q75 - q25.
    lead_time_median: Annotated[Number, _NO_WARNING]
    lead_time_iqr: Annotated[Number, _NO_WARNING]
    # Share of events detected at least the lead time target ahead.
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
    # Alarms that already stood when the horizon began: the true lead time is longer.
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
    # What chance baselines detect at the same thresholds, by name, and the largest p-value.
    x_baselines: dict[str, DrawnBaselineRecord] = Field(default_factory=dict)
    x_p_value: Annotated[Number, _NO_EVENT] = None

    @property
    def chance(self) -> float | None:
        """The coverage of the hardest chance baseline; None where there is none."""
        return baselines.hardest(self.x_baselines)


class LayerCRecord(OpenSection):
    """Utility at the operating points."""

    at_fpr: Many[OperatingPointRecord]

    def at(self, fpr: float) -> OperatingPointRecord:
        """The operating point at one target rate."""
        return next(point for point in self.at_fpr if point.fpr == fpr)


def layer_c(judgement: Judgement) -> LayerCRecord:
    """Coverage, leads, alarm burden and chance nulls at every target."""
    targets = judgement.design.fpr_targets
    return LayerCRecord(at_fpr=tuple(operating_point(judgement, target) for target in targets))


def operating_point(judgement: Judgement, target: float) -> OperatingPointRecord:
    """Everything layer C says about one target."""
    scores, windows, design = judgement.evaluation, judgement.windows, judgement.design
    n_events, found = judgement.n_events, judgement.alarms(target)
    alarms = found.grid.alarm[found.rows]
    n_covered, leads = found.n_detected, found.lead[found.detected]
    success = found.detected & (found.lead >= design.lead_target)
    tails = np.quantile(leads, _TAILS).tolist() if len(leads) else None
    lead_intervals = _lead_intervals(judgement, found)
    false = int(found.n_false.sum())
    begins = episode_starts(scores.steps, alarms & windows.monitored, design.episode_gap)
    n_true = int((begins & windows.positive).sum())
    n_labelled = n_true + int((begins & windows.negative).sum())
    # A window stands for the steps back to the checkpoint before it; the first one, as the second.
    back = np.diff(scores.steps, axis=1)
    reach = np.concatenate([back[:, :1], back], axis=1)
    n_negative = int(reach[windows.negative[:, : reach.shape[1]]].sum()) if reach.size else 0
    beside = baselines.by_windows(judgement, target)
    return OperatingPointRecord(
        fpr=target,
        coverage=_share(n_covered, n_events),
        lead_time_median=tails[2] if tails else None,
        lead_time_iqr=tails[3] - tails[1] if tails else None,
        lead_time_success=_share(int(success.sum()), n_events),
        x_threshold=judgement.calibrated.deployed[target],
        x_coverage_interval=_share_interval(judgement, found.detected),
        x_n_events=n_events,
        x_n_covered=n_covered,
        x_n_too_early=int((scores.has_event & ~windows.positive.any(axis=1)).sum()),
        x_lead_time_q05=tails[0] if tails else None,
        x_lead_time_q95=tails[4] if tails else None,
        x_lead_time_interval=lead_intervals.get("median"),
        x_lead_time_intervals=lead_intervals,
        x_lead_time_success_interval=_share_interval(judgement, success),
        x_lead_times=tuple(leads.tolist()),
        x_n_censored=int(found.censored.sum()),
        x_false_alarms_per_run=_share(false, found.n_runs),
        x_false_alarms_per_10k_steps=_share(10_000 * false, n_negative),
        x_time_in_warning=_share(
            int((alarms & windows.monitored).sum()), int(windows.monitored.sum())
        ),
        x_episodes=n_labelled,
        x_episode_precision=_share(n_true, n_labelled),
        x_episodes_between=int(begins.sum()) - n_labelled,
        x_baselines=beside,
        x_p_value=baselines.largest_p(beside),
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


def _lead_intervals(judgement: Judgement, found: WindowAlarms) -> dict[str, IntervalRecord]:
    if not found.n_detected:
        return {}
    q05, q25, median, q75, q95 = quantile_intervals(found.lead, _TAILS, _weights(judgement))
    draws = {"median": median, "iqr": q75 - q25, "q05": q05, "q95": q95}
    intervals = {name: percentile_interval(values) for name, values in draws.items()}
    return {name: interval for name, interval in intervals.items() if interval is not None}


def _weights(judgement: Judgement) -> NDArray[np.float64]:
    design = judgement.design
    return resamples(judgement.n_runs, design.bootstrap_draws, design.seed)
