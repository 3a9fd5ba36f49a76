"""Layer C: what an alarm at a given budget is worth (spec 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.nulls import Null, risk_set_null, shift_null
from gmb_hf.benchmark.operationality import false_alarms
from gmb_hf.benchmark.scores import Scores, Windows
from gmb_hf.documents import Record
from gmb_hf.stats import (
    Interval,
    exact_binomial,
    percentile_interval,
    quantile_intervals,
    ratio_interval,
    resamples,
)


@dataclass(frozen=True)
class Episodes(Record):
    """Episodes by the label of the window in which they begin.

    Attributes:
        true: begun in a positive window: the event follows within the horizon.
        false: begun in a negative window.
        between: begun between safe gap and horizon, which counts neither way.
    """

    true: int
    false: int
    between: int

    @property
    def labelled(self) -> int:
        """Episodes that count."""
        return self.true + self.false

    @property
    def precision(self) -> float | None:
        """Share of the labelled episodes that are true (PPV); None without any."""
        return self.true / self.labelled if self.labelled else None


def count_episodes(
    scores: Scores, windows: Windows, alarms: NDArray[np.bool_], refractory: int
) -> Episodes:
    """Count the episodes between burn-in and t*.

    An episode begins at an alarm that comes at least `refractory` steps after the beginning of
    the episode before; alarms in between belong to that one.
    """
    begins = episode_starts(scores.steps, alarms & windows.monitored, refractory)
    true, false = int((begins & windows.positive).sum()), int((begins & windows.negative).sum())
    return Episodes(true, false, int(begins.sum()) - true - false)


def episode_starts(
    steps: NDArray[np.int64], alarms: NDArray[np.bool_], refractory: int
) -> NDArray[np.bool_]:
    """Which alarms begin an episode, bool [R, T]; all runs advance together."""
    begins = np.zeros_like(alarms)
    free_from = np.full(len(steps), np.iinfo(np.int64).min)
    for column in np.flatnonzero(alarms.any(axis=0)):
        now = steps[:, column]
        begins[:, column] = alarms[:, column] & (now >= free_from)
        free_from = np.where(begins[:, column], now + refractory, free_from)
    return begins


# Coverage .3 of 10 events must reach a minimum of .3.
_SLACK = 1e-12
_TAILS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class OperatingPoint(Record):
    """One operating point. Leads are in steps and censored at the horizon.

    Attributes:
        fpr: the target false positive rate.
        threshold: as in layer B.
        coverage, coverage_interval: share of events with an alarm in a positive window.
        n_events, n_covered: what it is a share of.
        n_too_early: events without a single positive window; they count as uncovered.
        lead_time_median, lead_time_iqr, lead_time_q05, lead_time_q95: of t* - (first alarm in the
            horizon), over covered events; iqr is q75 - q25. None where nothing is covered.
        lead_time_success, lead_time_success_interval: share of events warned of at least the lead
            time target ahead.
        lead_time_interval: of the median; `lead_time_intervals` has those of the others by name.
        lead_times: every lead, in the order of the runs.
        n_censored: leads whose alarm already stood when the horizon began: the true lead is longer.
        false_alarms_per_run: alarmed negative windows per run that has any negatives.
        false_alarms_per_10k_steps: the same per 10,000 steps of negative windows.
        time_in_warning: share of windows between burn-in and t* that alarm.
        episodes, episode_precision: alarms counted as an operator meets them, begun in a positive
            or negative window, and the share begun in a positive one.
        episodes_between: episodes begun in the gap between the labels, which count neither way.
        shift_null, risk_set_null, p_value: chance at the same cost; p is the larger of the two.
    """

    fpr: float
    threshold: float
    coverage: float | None
    coverage_interval: Interval | None
    n_events: int
    n_covered: int
    n_too_early: int
    lead_time_median: float | None
    lead_time_iqr: float | None
    lead_time_q05: float | None
    lead_time_q95: float | None
    lead_time_success: float | None
    lead_time_success_interval: Interval | None
    lead_time_interval: Interval | None
    lead_time_intervals: Mapping[str, Interval]
    lead_times: tuple[float, ...]
    n_censored: int
    false_alarms_per_run: float | None
    false_alarms_per_10k_steps: float | None
    time_in_warning: float | None
    episodes: int
    episode_precision: float | None
    episodes_between: int
    shift_null: Null | None
    risk_set_null: Null | None
    p_value: float | None

    @property
    def by_chance(self) -> float | None:
        """The coverage that the harder of the two nulls gives; None without events."""
        nulls = [null for null in (self.shift_null, self.risk_set_null) if null is not None]
        return max((null.mean_coverage for null in nulls), default=None)


@dataclass(frozen=True)
class LayerC(Record):
    """Utility at every target; the verdict reads the primary point."""

    points: tuple[OperatingPoint, ...]
    primary: OperatingPoint


def layer_c(judgement: Judgement) -> LayerC:
    """Coverage, leads, alarm burden and chance nulls at every operating point."""
    points = tuple(operating_point(judgement, f) for f in judgement.prereg.fpr_targets)
    primary = next(point for point in points if point.fpr == judgement.prereg.primary_fpr)
    return LayerC(points, primary)


@dataclass(frozen=True, eq=False)
class Warned:
    """Which events were warned of at one operating point, and how early.

    Attributes:
        covered: bool [R].
        lead: float64 [R], steps from the first alarm in the horizon to t*; NaN if not covered.
        censored: bool [R], the alarm stands in the first positive window.
    """

    covered: NDArray[np.bool_]
    lead: NDArray[np.float64]
    censored: NDArray[np.bool_]


def warnings_at(judgement: Judgement, target: float) -> Warned:
    """The first alarm within each event's horizon."""
    scores, positive = judgement.evaluation, judgement.windows.positive
    early = judgement.alarms(target) & positive
    covered = np.asarray(early.any(axis=1))
    at = early.argmax(axis=1)
    lead = np.where(covered, scores.event_step - scores.steps[np.arange(len(at)), at], np.nan)
    censored = np.asarray(covered & (at == positive.argmax(axis=1)))
    return Warned(covered, lead, censored)


def chance(
    judgement: Judgement, target: float, n_covered: int
) -> tuple[Null | None, Null | None, float | None]:
    """Both nulls and the p-value, the larger of the two; None without events."""
    shift = shift_null(judgement, target, n_covered)
    risk = risk_set_null(judgement, target, n_covered)
    if shift is None or risk is None:
        return None, None, None
    return shift, risk, max(shift.p_value, risk.p_value)


def shortfalls(
    judgement: Judgement,
    coverage: float | None,
    lead_median: float | None,
    p_value: float | None,
) -> tuple[str, ...]:
    """The reason codes for which an operating point is not materially useful; empty if it is.

    Coverage must reach its minimum, the median lead its own, and in `strict` the p-value (adjusted
    or not, as the caller has it) must not exceed alpha, split over the looks that are locked.
    """
    prereg = judgement.prereg
    found = []
    if coverage is None or coverage < prereg.coverage_min - _SLACK:
        found.append("coverage_low")
    if judgement.strict and (p_value is None or p_value > prereg.alpha_per_look):
        found.append("no_better_than_chance")
    if lead_median is None or lead_median < prereg.lead_time_median_min:
        found.append("lead_short")
    return tuple(found)


def operating_point(judgement: Judgement, target: float) -> OperatingPoint:
    """Everything layer C says about one target."""
    scores, windows, prereg = judgement.evaluation, judgement.windows, judgement.prereg
    warned = warnings_at(judgement, target)
    n_events, n_covered = judgement.n_events, int(warned.covered.sum())
    leads = warned.lead[warned.covered]
    success = warned.covered & (warned.lead >= prereg.lead_time_target)
    tails = np.quantile(leads, _TAILS) if len(leads) else None
    lead_intervals = _lead_intervals(judgement, warned)
    shift, risk, p_value = chance(judgement, target, n_covered)

    alarms = judgement.alarms(target)
    false, with_negatives = int(false_alarms(judgement, target).sum()), judgement.negatives.n_runs
    quiet_steps = _steps_of(judgement, windows.negative)
    monitored = int(windows.monitored.sum())
    episodes = count_episodes(scores, windows, alarms, prereg.episode_gap)
    return OperatingPoint(
        fpr=target,
        threshold=judgement.calibrated.deployed[target],
        coverage=_share(n_covered, n_events),
        coverage_interval=_share_interval(judgement, warned.covered),
        n_events=n_events,
        n_covered=n_covered,
        n_too_early=int((scores.has_event & ~windows.positive.any(axis=1)).sum()),
        lead_time_median=None if tails is None else float(tails[2]),
        lead_time_iqr=None if tails is None else float(tails[3] - tails[1]),
        lead_time_q05=None if tails is None else float(tails[0]),
        lead_time_q95=None if tails is None else float(tails[4]),
        lead_time_success=_share(int(success.sum()), n_events),
        lead_time_success_interval=_share_interval(judgement, success),
        lead_time_interval=lead_intervals.get("median"),
        lead_time_intervals=lead_intervals,
        lead_times=tuple(float(lead) for lead in leads),
        n_censored=int(warned.censored.sum()),
        false_alarms_per_run=_share(false, with_negatives),
        false_alarms_per_10k_steps=_share(10_000 * false, quiet_steps),
        time_in_warning=_share(int((alarms & windows.monitored).sum()), monitored),
        episodes=episodes.labelled,
        episode_precision=episodes.precision,
        episodes_between=episodes.between,
        shift_null=shift,
        risk_set_null=risk,
        p_value=p_value,
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _share_interval(judgement: Judgement, chosen: NDArray[np.bool_]) -> Interval | None:
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


def _lead_intervals(judgement: Judgement, warned: Warned) -> dict[str, Interval]:
    rows = np.flatnonzero(warned.covered)
    if not len(rows):
        return {}
    q05, q25, median, q75, q95 = quantile_intervals(
        warned.lead[rows], _TAILS, _weights(judgement)[:, rows]
    )
    draws = {"median": median, "iqr": q75 - q25, "q05": q05, "q95": q95}
    intervals = {name: percentile_interval(values) for name, values in draws.items()}
    return {name: interval for name, interval in intervals.items() if interval is not None}


def _weights(judgement: Judgement) -> NDArray[np.float64]:
    prereg = judgement.prereg
    return resamples(judgement.evaluation.n_runs, prereg.bootstrap_draws, prereg.seed)


def _steps_of(judgement: Judgement, chosen: NDArray[np.bool_]) -> int:
    """Steps that the chosen windows stand for: each reaches back to the checkpoint before it."""
    steps = judgement.evaluation.steps
    if steps.shape[1] < 2:
        return 0
    back = np.diff(steps, axis=1)
    reach = np.concatenate([back[:, :1], back], axis=1)
    return int(reach[chosen].sum())
