"""Protocol `compat`: the reference implementation's computation, its quirks included.

It exists to reproduce published numbers. No other protocol imports a rule from here, and its
results never carry SUPPORTED_FOR_ALARM.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from gmb_hf.base.documents import OpenSection
from gmb_hf.base.errors import InputError, fraction, positive_int, repeated
from gmb_hf.benchmark.operationality import (
    AchievedRecord,
    DiagnosticsRecord,
    FloorRecord,
    LayerBRecord,
    effective_support,
    tie_dominance,
)
from gmb_hf.benchmark.prepare import namesakes, resolve
from gmb_hf.benchmark.ranking import LayerARecord
from gmb_hf.benchmark.records import INCONCLUSIVE, RANK_ONLY, Label
from gmb_hf.benchmark.results import TABLES, Results
from gmb_hf.benchmark.robustness import LayerDRecord
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.sections import CalibrationRecord
from gmb_hf.benchmark.utility import LayerCRecord, OperatingPointRecord
from gmb_hf.benchmark.verdict import IndicatorRecord, unranked
from gmb_hf.design.candidates import Candidate
from gmb_hf.design.ledger import panel_looks
from gmb_hf.indicators.catalogue import compute
from gmb_hf.runs.copies import refuse_copies
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog

# The reference's settings, its published values as defaults.

_TARGETS = (0.01, 0.05, 0.10)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompatSettings:
    """What the reference's evaluation depends on; the names are the reference's.

    Attributes:
        metric: the observable that carries the event.
        w_jump: checkpoints of the trailing mean of the metric, and over which it must rise.
        delta_jump: least rise of the smoothed metric.
        theta_floor: level that the smoothed metric must reach.
        delta_back: how far it may fall back within `hold_k` checkpoints, the present one included.
        hold_k: see `delta_back`.
        horizon: steps up to t* in which a window is positive.
        smoothing: checkpoints of a trailing mean over the score. 1, since a published score is
            smoothed (over 10 checkpoints) where it is made, not where it is judged.
        fpr_targets: target false positive rates; empty where thresholds are given without targets.
        thresholds: thresholds from outside, one per target where there are targets; None to
            search.
        fpr_eps, fpr_floor_max, min_targets_ok, event_count_min, lead_time_target: the
            specification's defaults; the label and `lead_time_success` depend on them.
        spelled: how messages call settings, where not by their names here.

    Raises:
        InputError: a setting is out of range.
    """

    metric: str = "test_acc"
    w_jump: int = 2
    delta_jump: float = 0.04
    theta_floor: float = 0.85
    delta_back: float = 0.03
    hold_k: int = 5
    horizon: int = 20_000
    smoothing: int = 1
    fpr_targets: tuple[float, ...] = _TARGETS
    thresholds: tuple[float, ...] | None = None
    fpr_eps: float = 0.01
    fpr_floor_max: float = 0.20
    min_targets_ok: int = 2
    event_count_min: int = 30
    lead_time_target: int = 200
    spelled: InitVar[Mapping[str, str] | None] = None

    @property
    def lead_target(self) -> int:
        """As a design has it."""
        return self.lead_time_target

    def __post_init__(self, spelled: Mapping[str, str] | None) -> None:
        say = {item.name: item.name for item in dataclasses.fields(self)} | {**(spelled or {})}
        for name in ("w_jump", "horizon", "smoothing", "lead_time_target"):
            positive_int(say[name], getattr(self, name))
        if positive_int(say["hold_k"], self.hold_k) < 2:
            raise InputError(
                f"{say['hold_k']} must be at least 2: the level must hold for a later checkpoint, "
                "got 1"
            )
        for name in ("delta_jump", "theta_floor", "delta_back"):
            if not math.isfinite(getattr(self, name)):
                raise InputError(f"{say[name]} must be a finite number, got {getattr(self, name)}")
        for target in self.fpr_targets:
            fraction(say["fpr_targets"], target)
        targets, outside, back = (say[it] for it in ("fpr_targets", "thresholds", "delta_back"))
        thresholds = self.thresholds or ()
        for threshold in thresholds:
            if not math.isfinite(threshold):
                raise InputError(f"{outside} must be finite numbers, got {threshold}")
        search, given, wanted = self.thresholds is None, len(thresholds), len(self.fpr_targets)
        faults = {
            f"{back} must not be negative, got {self.delta_back:g}": self.delta_back < 0,
            f"{targets} names a rate twice; name each once": len(set(self.fpr_targets)) < wanted,
            f"{targets} is empty; name at least one rate, or {outside}": search and not wanted,
            f"{outside} is empty; name at least one, or leave it out": not search and not given,
            f"{outside} names {given} and {targets} {wanted}; give one threshold for each "
            f"target, or leave {targets} out": not search and bool(wanted) and given != wanted,
        }
        for fault in (fault for fault, holds in faults.items() if holds):
            raise InputError(fault)

    @classmethod
    def asked(cls, **chosen: Any) -> CompatSettings:
        """The published settings but for what is chosen; thresholds alone have no targets."""
        targets = tuple(chosen.pop("fpr_targets", () if "thresholds" in chosen else _TARGETS))
        return cls(fpr_targets=targets, min_targets_ok=min(2, len(targets)), **chosen)

    @property
    def least_rows(self) -> int:
        """The fewest rows of a run in which an event can be found and the score be smoothed."""
        return max(self.w_jump + 2, self.smoothing)

    @property
    def source(self) -> Literal["in_sample", "given"]:
        """Where thresholds come from."""
        return "in_sample" if self.thresholds is None else "given"

    def plain(self) -> dict[str, object]:
        """The settings as a results file holds them."""
        held = dataclasses.asdict(self)
        return {key: list(v) if isinstance(v, tuple) else v for key, v in held.items()}


def explain_settings(settings: CompatSettings) -> tuple[str, ...]:
    """What was computed, a sentence for each choice."""
    sentences = (
        "Protocol: compat, the reference implementation's own computation.",
        f"Event: the first checkpoint at which the mean of {settings.metric} over "
        f"{settings.w_jump} checkpoints has risen by {settings.delta_jump:g} in {settings.w_jump} "
        f"checkpoints, is at least {settings.theta_floor:g}, and falls back by no more than "
        f"{settings.delta_back:g} within {settings.hold_k} checkpoints.",
        f"A window is positive in the {settings.horizon:,} steps up to t*, t* included; every "
        "other window is negative, also after the event.",
        f"Score: its mean over {settings.smoothing} checkpoints.",
    )
    return sentences if settings.smoothing > 1 else sentences[:-1]


# The reference's jump: the first checkpoint at which the smoothed metric has risen and holds.


def event_steps(metric: Panel, settings: CompatSettings) -> NDArray[np.float64]:
    """The step t* of each run's event, float64 [R], NaN where it has none.

    Raises:
        InputError: a metric that is not finite, or a run too short for an event.
    """
    refuse_gaps(metric, "metric")
    short = np.flatnonzero(metric.lengths < settings.least_rows)
    if len(short):
        run = int(short[0])
        raise InputError(
            f"run {metric.runs[run]!r} has {metric.lengths[run]} rows, but its event and the means "
            f"of these settings need at least {settings.least_rows}; leave the run out"
        )
    jumps = [jump(row[:n], settings) for row, n in zip(metric.values, metric.lengths, strict=True)]
    steps = zip(metric.steps, jumps, strict=True)
    return np.array([np.nan if at is None else float(row[at]) for row, at in steps])


def jump(values: NDArray[np.float64], settings: CompatSettings) -> int | None:
    """The checkpoint of the event in one run's metric [T], or None.

    It is the first i >= w_jump with smooth[i] - smooth[i - w_jump] >= delta_jump, smooth[i] >=
    theta_floor and min(smooth[i : i + hold_k]) >= smooth[i] - delta_back.
    """
    smooth = trailing_mean(values, settings.w_jump)
    ahead = np.concatenate([smooth, np.full(settings.hold_k - 1, np.inf)])
    lowest = sliding_window_view(ahead, settings.hold_k).min(axis=1)
    good = (smooth >= settings.theta_floor) & (lowest >= smooth - settings.delta_back)
    good[settings.w_jump :] &= smooth[settings.w_jump :] - smooth[: -settings.w_jump] >= (
        settings.delta_jump
    )
    good[: settings.w_jump] = False
    # Near the end the reference holds to what is left, but to one later checkpoint at least.
    good[-1] = False
    return int(good.argmax()) if good.any() else None


def trailing_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The mean over up to `window` checkpoints, the present one included, [T].

    The reference keeps one running sum, to which it adds the new value and from which it takes the
    old one. The rounding errors of that order are kept: they decide whether a rise of .04 is one.
    """
    if window == 1:
        return values.copy()
    terms = np.zeros(2 * len(values))
    terms[::2] = values
    terms[2 * window + 1 :: 2] = -values[:-window]
    sums = np.add.accumulate(terms)[1::2]
    return np.asarray(sums / np.minimum(np.arange(1, len(values) + 1), window))


def refuse_gaps(panel: Panel, kind: str) -> None:
    """Refuse a value that is not finite, by its run and step: the reference has no rule for it."""
    wrong = panel.present & ~np.isfinite(panel.values)
    if wrong.any():
        run, column = (int(i) for i in np.argwhere(wrong)[0])
        count = int(wrong[run].sum())
        which = "at every step" if count == panel.lengths[run] else f"at {count} steps"
        raise InputError(
            f"run {panel.runs[run]!r}, step {panel.steps[run, column]}: {kind} {panel.name!r} is "
            f"{panel.values[run, column]} ({which} of this run), and the reference has no rule for "
            "that; mend the column or leave the run out"
        )


# The reference's labels: every window counts.


def positive_windows(scores: Scores, horizon: int) -> NDArray[np.bool_]:
    """Which windows are positive, bool [R, T]; every other window that is there is negative.

    Two quirks: t* itself is positive (a warning then has a lead of 0), and all else is negative,
    the windows after the event included, with no safe gap. Alarms after t* thus count as false,
    and a score that stays high is punished for it. The specification ignores both kinds.
    """
    lead = scores.event_step[:, None] - scores.steps
    # Comparisons with NaN are False: a run without an event has no positives.
    return np.asarray(scores.present & (lead >= 0) & (lead <= horizon))


def pooled(
    positive: NDArray[np.bool_], scores: Scores
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """All windows of all runs in one row: whether positive [N], and the score [N].

    Runs follow one another by name as text (seed_10 before seed_2), the order in which the
    reference lists their folders. It matters for ties in the pooled ranking alone.
    """
    order = sorted(range(scores.n_runs), key=scores.runs.__getitem__)
    there = scores.present[order]
    return positive[order][there], scores.values[order][there]


# The reference's AUC and average precision, one window at a time.


def roc_auc(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> float | None:
    """Area under the ROC curve; None where a class is empty.

    The reference sorts by falling score with a stable sort and moves its threshold one window at a
    time, as if no scores were tied: among ties, the earlier window comes first. For a score with
    many ties that is far from the usual area (which counts a tie as half), and the two signs of
    such a score do not add up to 1. `positive` and `values` are [N], in order of time.
    """
    hits = _ranked(positive, values)
    n_pos = int(hits.sum())
    n_neg = len(hits) - n_pos
    if not n_pos or not n_neg:
        return None
    true, false = np.cumsum(hits) / n_pos, np.cumsum(~hits) / n_neg
    return float(np.trapezoid([0.0, *true, 1.0], [0.0, *false, 1.0]))


def average_precision(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> float | None:
    """Average precision in the same order of windows; None without a positive one."""
    hits = _ranked(positive, values)
    n_pos = int(hits.sum())
    if not n_pos:
        return None
    found = np.cumsum(hits)
    precision = found / np.arange(1, len(hits) + 1)
    gain = np.diff(found / n_pos, prepend=0.0)
    # Summed from left to right, as the reference does.
    return float(np.cumsum(precision * gain)[-1])


def _ranked(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(positive[np.argsort(-values, kind="stable")])


# The reference's thresholds: the observed score whose false positive rate is nearest.


def nearest_thresholds(
    positive: NDArray[np.bool_], values: NDArray[np.float64], targets: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The threshold for each target, and the false positive rate that it gives.

    An alarm is s >= tau. Two quirks. The candidates are the observed scores without +infinity, so
    that every threshold alarms somewhere: where the highest score is shared by 44% of the negative
    windows, so is every threshold's rate. And the scores of positive windows are candidates too.
    Of equally near candidates the one with the smaller rate is taken, of those the highest.

    Both sides are sorted once and counted by bisection, O((N + K) log N) for N windows and K
    candidates, where the reference counts all windows anew for each candidate.

    Of finite scores [N], at least one of a negative window: the thresholds [F] and rates [F].
    """
    candidates = np.unique(values)[::-1]
    rates = false_positive_rates(positive, values, candidates)
    chosen = [int(np.abs(rates - target).argmin()) for target in targets]
    # A reversed score of zeros is all -0.0, which is the same threshold and reads worse.
    return candidates[chosen] + 0.0, rates[chosen]


def false_positive_rates(
    positive: NDArray[np.bool_], values: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The share of negative windows at or above each threshold, pooled over runs."""
    negative = np.sort(values[~positive])
    alarmed = len(negative) - np.searchsorted(negative, thresholds, side="left")
    return np.asarray(alarmed / len(negative))


# The reference's effective sample size; its other diagnostics are those of every protocol.


def effective_sample_size(values: NDArray[np.float64]) -> float | None:
    """n / (1 + 2 sum of rho_k) of one run's negative windows, float64 [n]; None if all are equal.

    rho_k is the mean product of deviations at lag k over the variance; the sum stops at the first
    rho_k that is not positive. Quirks: the series is the score itself, not whether it alarms; the
    windows before and after the positives are taken for neighbours; and the mean over n - k
    products, without the usual shrinkage, makes late lags noisy.
    """
    n = len(values)
    deviations = values - values.mean() if n else values
    variance = float(np.mean(deviations * deviations)) if n else 0.0
    if variance <= 0.0:
        return None
    total = 0.0
    for lag in range(1, n):
        rho = float(np.mean(deviations[:-lag] * deviations[lag:])) / variance
        if rho <= 0.0:
            break
        total += rho
    return n / (1.0 + 2.0 * total)


# One score through the reference's computation: what may be said of it never is that it may alarm.

PROTOCOL_REASON = "compat_protocol"
_PRIMARY = 0.05
# .04 misses .05 by .010000000000000002: a tolerance of .01 must still hold.
_SLACK = 1e-12
_NO_EVENT = "no run has an event"
_NOT_COMPUTED = "compat repeats the reference, which does not compute it"
_NO_FAMILY = "the reference has no robustness family"

# Why fields may be null in this protocol; every other null was not computed.
_NULL_FIELDS = {
    "the windows are of one class only": "auc",
    "no window is positive": "ap",
    "no run has windows of both classes": "x_auc_run_mean x_auc_run_sd x_ap_run_mean x_ap_run_sd",
    "the run's windows are of one class only": "roc_auc",
    "no window of the run is positive": "average_precision",
    "the score is constant over the run's negative windows": "n_eff n_eff_ratio",
    "the run has no negative window": "k_eff tie_dom",
    "the score is constant over every run's negative windows": (
        "x_n_eff_ratio_mean x_n_eff_ratio_sd"
    ),
    "not declared": "family x_sees_test_labels",
    "thresholds were given without target rates": (
        "ok_targets controllability_pass x_state x_budget_used"
    ),
    "thresholds were given, and no other was searched": "fpr_floor_detected x_passed",
    "the highest negative score is not tied": "tied_value",
    _NO_EVENT: "coverage x_abstain_rate lead_time_success",
    _NO_FAMILY: "family_size pass_rate label_flip_rate x_central_label",
    "no number of runs makes compat decide for an alarm": "x_runs_to_settle",
}
_REASONS = {field: why for why, fields in _NULL_FIELDS.items() for field in fields.split()}
_LEADS = ("lead_time_median", "lead_time_iqr", "x_lead_time_mean")


def measure(scores: Scores, settings: CompatSettings) -> IndicatorRecord:
    """Measure one score, signed so that higher means higher risk.

    The record has the reference's thresholds as `x_thresholds` and its table of diagnostics, a row
    for each run, as `x_per_run`. Without a negative window there is an `InputError`.
    """
    labels = positive_windows(scores, settings.horizon)
    positive, values = pooled(labels, scores)
    if positive.all():
        raise InputError(
            f"score {scores.name!r}: no run has a negative window, since a horizon of "
            f"{settings.horizon} steps covers all of them; give longer runs or a shorter horizon"
        )
    if settings.thresholds is None:
        thresholds, rates = nearest_thresholds(positive, values, settings.fpr_targets)
    else:
        thresholds = np.asarray(settings.thresholds, dtype=np.float64)
        rates = false_positive_rates(positive, values, thresholds)
    targets = settings.fpr_targets or tuple(rates.tolist())
    at = list(zip(targets, thresholds.tolist(), rates.tolist(), strict=True))
    rows = [_row(scores, labels, run) for run in range(scores.n_runs)]
    both = [row for row in rows if row["roc_auc"] is not None]
    layer_a = LayerARecord(
        auc=roc_auc(positive, values),
        ap=average_precision(positive, values),
        **_spread(both, "roc_auc", "x_auc_run_mean", "x_auc_run_sd"),
        **_spread(both, "average_precision", "x_ap_run_mean", "x_ap_run_sd"),
        x_n_runs=len(both),
    )
    n_runs = sum(row["n_neg"] > 0 for row in rows)
    layer_b = _layer_b(at, np.sort(values[~positive]), n_runs, settings)
    points = tuple(_point(scores, labels, target, tau, settings) for target, tau, _ in at)
    label, reasons, sentence = _conclude(layer_a, layer_b, points[0].x_n_events or 0, settings)
    coverage = primary_point(points).coverage
    not_measured: dict[str, Any] = dict.fromkeys(("family_size", "pass_rate", "label_flip_rate"))
    extensions: dict[str, Any] = {"x_thresholds": thresholds.tolist(), "x_per_run": rows}
    return IndicatorRecord(
        name=scores.name,
        family=None,
        layer_A=layer_a,
        layer_B=layer_b,
        layer_C=LayerCRecord(at_fpr=points),
        layer_D=LayerDRecord(**not_measured, sensitivity_notes=f"not measured: {_NO_FAMILY}"),
        label=label,
        diagnostics=DiagnosticsRecord(
            **_spread(rows, "k_eff", "effective_support_size", "x_effective_support_size_sd"),
            **_spread(rows, "tie_dom", "tie_dominance", "x_tie_dominance_sd"),
            **_spread(rows, "n_eff_ratio", "x_n_eff_ratio_mean", "x_n_eff_ratio_sd"),
            comments="means over runs, as published; x_per_run has each run's",
            x_abstain_rate=None if coverage is None else 1 - coverage,
        ),
        x_alarm_eligible=False,
        x_reasons=reasons,
        x_sentence=sentence,
        **extensions,
    )


def primary_point(points: Sequence[OperatingPointRecord]) -> OperatingPointRecord:
    """The operating point whose target is nearest to .05, of which summaries speak."""
    return min(points, key=lambda point: abs(point.fpr - _PRIMARY))


def _row(scores: Scores, labels: NDArray[np.bool_], run: int) -> dict[str, Any]:
    """One run, as in the reference's table of diagnostics; None where a number does not exist."""
    there = scores.present[run]
    positive, values = labels[run, there], scores.values[run, there]
    negatives = values[~positive]
    n_eff = effective_sample_size(negatives)
    known = len(negatives) > 0
    return {
        "run": scores.runs[run],
        "n_pos": int(positive.sum()),
        "n_neg": len(negatives),
        "n_eff": n_eff,
        "n_eff_ratio": None if n_eff is None else n_eff / len(negatives),
        "k_eff": effective_support(negatives) if known else None,
        "tie_dom": tie_dominance(negatives) if known else None,
        "roc_auc": roc_auc(positive, values),
        "average_precision": average_precision(positive, values),
    }


def _layer_b(
    at: Sequence[tuple[float, float, float]],
    negatives: NDArray[np.float64],
    n_runs: int,
    settings: CompatSettings,
) -> LayerBRecord:
    """Layer B by the specification's rules, in sample, on the reference's numbers.

    `at` has target, threshold and rate of each operating point. Without targets nothing is met or
    missed; where thresholds were given there is no floor, since what else the score could reach
    was not searched.
    """
    achieved = []
    for target, tau, rate in at:
        kept: dict[str, Any] = {}
        if settings.fpr_targets:
            met = abs(rate - target) <= settings.fpr_eps + _SLACK
            state = "met" if met else "missed"
            kept = {"x_state": state, "x_budget_used": rate / target}
        kept |= {"x_achieved_pooled": rate, "x_threshold": tau, "x_answer": "THRESHOLD"}
        achieved.append(AchievedRecord(target=target, achieved=rate, **kept))
    ok_targets, controllable, floor, passed = None, None, None, None
    fpr_min = min(rate for _, _, rate in at)
    if settings.fpr_targets:
        ok_targets = sum(record.x_state == "met" for record in achieved)
        controllable = ok_targets >= settings.min_targets_ok
    if settings.thresholds is None:
        floor = fpr_min > settings.fpr_floor_max + _SLACK
        passed = bool(controllable) and not floor
    tied = int((negatives == negatives[-1]).sum())
    alarmed = np.unique(np.searchsorted(-negatives[::-1], -negatives, side="right"))
    reachable = alarmed / len(negatives)
    gaps = {repr(goal): float(np.abs(reachable - goal).min()) for goal in settings.fpr_targets}
    return LayerBRecord(
        targets=tuple(target for target, _, _ in at),
        achieved=tuple(achieved),
        ok_targets=ok_targets,
        fpr_min=fpr_min,
        controllability_pass=controllable,
        fpr_floor_detected=floor,
        x_decided_by="controllability_pass",
        x_passed=passed,
        x_floor_certificate=FloorRecord(
            f_min_pos=float(reachable[0]),
            gaps=dict(gaps),
            tied_value=float(negatives[-1]) + 0.0 if tied > 1 else None,
            tied_windows=tied,
        ),
        x_calibration=settings.source,
        x_n_runs=n_runs,
        x_n_windows=len(negatives),
        x_dropped_windows=0,
    )


def _point(
    scores: Scores,
    positive: NDArray[np.bool_],
    target: float,
    threshold: float,
    settings: CompatSettings,
) -> OperatingPointRecord:
    """What an alarm at one threshold does; `x_abstain_rate` and the mean lead are the reference's.

    Leads run from the first alarm in the horizon to t*, in the order of the runs.
    """
    alarmed = positive & (scores.values >= threshold)
    covered = alarmed.any(axis=1)
    first = scores.steps[np.arange(scores.n_runs), alarmed.argmax(axis=1)]
    leads = (scores.event_step - first)[covered]
    n_events, n_covered = int(scores.has_event.sum()), int(covered.sum())
    shares: dict[str, Any] = dict.fromkeys(("coverage", "lead_time_success", "x_abstain_rate"))
    if n_events:
        early = int((leads >= settings.lead_time_target).sum())
        coverage = n_covered / n_events
        shares = {"coverage": coverage, "x_abstain_rate": 1 - coverage}
        shares["lead_time_success"] = early / n_events
    times: dict[str, Any] = dict.fromkeys(_LEADS)
    if n_covered:
        low, median, high = np.quantile(leads, [0.25, 0.5, 0.75]).tolist()
        times = dict(zip(_LEADS, (median, high - low, float(leads.mean())), strict=True))
    return OperatingPointRecord(
        fpr=target,
        **shares,
        **times,
        x_threshold=threshold,
        x_n_events=n_events,
        x_n_covered=n_covered,
        x_n_too_early=0,  # t* itself is positive, so that no event is without a window
        x_lead_times=tuple(leads.tolist()),
    )


def _spread(rows: Sequence[Mapping[str, Any]], key: str, mean: str, sd: str) -> dict[str, Any]:
    """Mean and standard deviation by name; the latter over n, not n - 1, as the reference's is."""
    known = np.array([row[key] for row in rows if row[key] is not None])
    found = (float(known.mean()), float(known.std())) if len(known) else (None, None)
    return {mean: found[0], sd: found[1]}


def _conclude(
    layer_a: LayerARecord, layer_b: LayerBRecord, n_events: int, settings: CompatSettings
) -> tuple[Label, tuple[str, ...], str]:
    """Label, reason codes and sentence.

    A failure in sample is a failure. Success in sample proves nothing: what would be
    SUPPORTED_FOR_ALARM by the published rules is INCONCLUSIVE here.
    """
    faults = {}
    if layer_b.fpr_floor_detected:
        faults["windows_floor"] = (
            f"no threshold has a false positive rate below {layer_b.fpr_min:.3f}"
        )
    if layer_b.controllability_pass is False:
        held = f"{layer_b.n_met} of {len(layer_b.targets)} false-alarm budgets hold"
        faults["windows_uncontrolled"] = f"{held}, {settings.min_targets_ok} must"
    if faults and (layer_a.auc is None or layer_a.auc <= 0.5):
        faults["no_ranking_signal"] = unranked(layer_a)
    label, opening = INCONCLUSIVE, "Not decided"
    if n_events < settings.event_count_min:
        few = f"{n_events} events are fewer than {settings.event_count_min}"
        faults = {"few_events": few, **faults}
    elif faults:
        label, opening = RANK_ONLY, "May not raise an alarm"
    source = "takes thresholds from outside"
    if settings.thresholds is None:
        source = "measures thresholds on the windows that they come from"
    faults[PROTOCOL_REASON] = (
        f"compat repeats the published computation, which {source} and tests nothing against "
        "chance, so it never supports an alarm (--protocol strict can)"
    )
    return label, tuple(faults), f"{opening}: {'; '.join(faults.values())}."


def _why_null(record: OpenSection, field: str) -> str:
    if field in _LEADS:
        return "no event was detected" if getattr(record, "x_n_events", 0) else _NO_EVENT
    return _REASONS.get(field, _NOT_COMPUTED)


# A log through the reference's computation, and its results file.


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What the reference's computation gives: the scores as they were judged, and each run's event.

    `events` are steps, float64 [R], NaN where a run has none; `panel_looks` as of `Evaluation`.
    """

    results: Results
    scores: Mapping[str, Scores]
    events: NDArray[np.float64]
    log: RunLog
    settings: CompatSettings
    panel_looks: tuple[str, ...] = ()


def reproduce(
    log: RunLog,
    candidates: Sequence[Mapping[str, Any]],
    settings: CompatSettings,
    *,
    notes: Sequence[str] = (),
) -> Reproduction:
    """Put scores through the reference's computation.

    Where one score was judged, its extensions stand at the top of the results file too.

    Args:
        log: the runs, read with `on_duplicate="sort"`.
        candidates: the scores, as `own_score` gives them.
        settings: the reference's settings, stored as `x_compat`.
        notes: what a reader must know beside what is found here.

    Raises:
        InputError: a score is unknown or given twice, a value is not finite, a run is too short,
            no window is negative, two runs are copies, or as many have looked at these runs of
            a panel as may.
    """
    entries = [resolve(Candidate.parse(item, where="score"), log) for item in candidates]
    twice = repeated(entry.name for entry in entries)
    if twice is not None:
        raise InputError(f"score {twice!r} is given twice; name it once")
    metric = log.panel(settings.metric)
    needs = dict.fromkeys(need for entry in entries for need in entry.indicator.needs)
    columns = [log.panel(name) for name in needs if name != settings.metric]
    near = refuse_copies([metric], columns, where=log.origin)
    judge = {"x_compat": settings.plain(), "candidates": [dict(item) for item in candidates]}
    at_panels = panel_looks(judge, settings.metric, log)
    events = event_steps(metric, settings)
    scores, records = {}, []
    for entry in entries:
        panel = compute(log, entry.indicator, sign=entry.sign)
        refuse_gaps(panel, "score")
        scores[entry.name] = Scores.from_panel(panel, events).smooth(settings.smoothing)
        measured = measure(scores[entry.name], settings)
        said = entry.declared
        stated: dict[str, Any] = {"name": said.name, "family": said.family, "x_sign": said.sign}
        stated["x_sees_test_labels"] = said.sees_test_labels
        records.append(measured.model_copy(update=stated).explained(_why_null))
    results = Results.assemble(
        records,
        log,
        events.tolist(),
        design=None,
        calibration=CalibrationRecord(method=settings.source),
        notes=[
            *(*notes, *namesakes(entries, log), *_repeats(log)),
            *(*filter(None, [near.note()]), *at_panels.notes),
        ],
        summary={"x_event_count_min": settings.event_count_min, "x_n_too_early": 0},
        tables=TABLES
        | {f"x_{name}_path": f"tables/{name}.csv" for name in ("per_run", "tradeoff")},
        x_protocol="compat",
        x_compat=settings.plain(),
        **((records[0].model_extra or {}) if len(records) == 1 else {}),
    )
    at_panels.keep()  # before a result is seen
    return Reproduction(results, scores, events, log, settings, tuple(at_panels.notes))


def _repeats(log: RunLog) -> list[str]:
    """A note on steps that were logged twice: the reference keeps every row."""
    grid = log.panel("step")
    again = ((np.diff(grid.steps, axis=1) == 0) & grid.present[:, 1:]).sum(axis=1)
    runs = ", ".join(
        f"{run} ({count})" for run, count in zip(log.runs, again, strict=True) if count
    )
    note = f"{again.sum()} rows repeat a step and are kept, as the reference does: {runs}."
    return [note] if runs else []


def settings_of(results: Results) -> CompatSettings | None:
    """The settings that a results file of this protocol was made with; None for any other file."""
    held = (results.model_extra or {}).get("x_compat")
    if results.x_protocol != "compat" or not isinstance(held, dict):
        return None
    plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in held.items()}
    try:
        return CompatSettings(**plain)
    except TypeError as error:
        raise InputError(f"results: x_compat: {error}") from None
