"""The reference's settings, its published values as defaults."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from gmb_hf.benchmark.diagnostics import effective_support, tie_dominance
from gmb_hf.benchmark.scores import Scores
from gmb_hf.documents import Record
from gmb_hf.errors import InputError, fraction, positive_int
from gmb_hf.runs.panel import Panel


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
    fpr_targets: tuple[float, ...] = (0.01, 0.05, 0.10)
    thresholds: tuple[float, ...] | None = None
    fpr_eps: float = 0.01
    fpr_floor_max: float = 0.20
    min_targets_ok: int = 2
    event_count_min: int = 30
    lead_time_target: int = 200

    def __post_init__(self) -> None:
        for name in ("w_jump", "horizon", "smoothing", "lead_time_target"):
            positive_int(name, getattr(self, name))
        if positive_int("hold_k", self.hold_k) < 2:
            raise InputError(
                "hold_k must be at least 2: the level must hold for a later checkpoint, got 1"
            )
        for name in ("delta_jump", "theta_floor", "delta_back"):
            if not math.isfinite(getattr(self, name)):
                raise InputError(f"{name} must be a finite number, got {getattr(self, name)}")
        if self.delta_back < 0:
            raise InputError(f"delta_back must not be negative, got {self.delta_back:g}")
        for target in self.fpr_targets:
            fraction("fpr_targets", target)
        if len(set(self.fpr_targets)) < len(self.fpr_targets):
            raise InputError("fpr_targets names a rate twice; name each once")
        self._check_thresholds()

    def _check_thresholds(self) -> None:
        if self.thresholds is None:
            if not self.fpr_targets:
                raise InputError("fpr_targets is empty; name at least one rate, or thresholds")
            return
        if not self.thresholds:
            raise InputError("thresholds is empty; name at least one, or leave it out")
        for threshold in self.thresholds:
            if not math.isfinite(threshold):
                raise InputError(f"thresholds must be finite numbers, got {threshold}")
        given, wanted = len(self.thresholds), len(self.fpr_targets)
        if wanted and given != wanted:
            raise InputError(
                f"thresholds names {given} and fpr_targets {wanted}; give one threshold for each "
                "target, or leave fpr_targets out"
            )

    @property
    def least_rows(self) -> int:
        """The fewest rows of a run in which an event can be found and the score be smoothed."""
        return max(self.w_jump + 2, self.smoothing)

    def plain(self) -> dict[str, object]:
        """The settings as a results file holds them."""
        held = dataclasses.asdict(self)
        return {key: list(v) if isinstance(v, tuple) else v for key, v in held.items()}


def explain_settings(settings: CompatSettings) -> tuple[str, ...]:
    """What was computed, a sentence for each choice."""
    event = (
        f"Event: the first checkpoint at which the mean of {settings.metric} over "
        f"{settings.w_jump} checkpoints has risen by {settings.delta_jump:g} in {settings.w_jump} "
        f"checkpoints, is at least {settings.theta_floor:g}, and falls back by no more than "
        f"{settings.delta_back:g} within {settings.hold_k} checkpoints."
    )
    labels = (
        f"A window is positive in the {settings.horizon:,} steps up to t*, t* included; every "
        "other window is negative, also after the event."
    )
    protocol = "Protocol: compat, the reference implementation's own computation."
    if settings.smoothing == 1:
        return protocol, event, labels
    return protocol, event, labels, f"Score: its mean over {settings.smoothing} checkpoints."


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
    found = np.full(metric.n_runs, np.nan)
    for run, length in enumerate(metric.lengths):
        at = jump(metric.values[run, :length], settings)
        if at is not None:
            found[run] = metric.steps[run, at]
    return found


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
    """Refuse a value that is not finite: the reference has no rule for one.

    Raises:
        InputError: run and step are named.
    """
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
    such a score do not add up to 1.

    Args:
        positive: bool [N], in order of time.
        values: float64 [N].
    """
    hits = _ranked(positive, values)
    n_pos = int(hits.sum())
    n_neg = len(hits) - n_pos
    if not n_pos or not n_neg:
        return None
    true = np.concatenate([[0.0], np.cumsum(hits) / n_pos, [1.0]])
    false = np.concatenate([[0.0], np.cumsum(~hits) / n_neg, [1.0]])
    return float(np.trapezoid(true, false))


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

    Both sides are sorted once and counted by bisection: O((N + K) log N) for N windows and K
    candidates. The reference counts all windows anew for each candidate, O(N K).

    Args:
        positive: bool [N]; at least one window is negative.
        values: float64 [N], finite.
        targets: F rates.

    Returns:
        Thresholds [F] and rates [F].
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


# One score through the reference's computation: per run, pooled, and at each threshold.


_PRIMARY = 0.05


@dataclass(frozen=True)
class RunRow(Record):
    """One run, as in the reference's table of diagnostics; None where a number does not exist.

    Attributes:
        run: its name.
        n_pos, n_neg: positive and negative windows.
        n_eff, n_eff_ratio: effective sample size of the negatives, and its share of n_neg.
        k_eff: exp(entropy of 50 equal-width bins) of the negatives.
        tie_dom: largest tie count / negatives at or above their 95th percentile.
        roc_auc, average_precision: ranking of the positives above the negatives.
    """

    run: str
    n_pos: int
    n_neg: int
    n_eff: float | None
    n_eff_ratio: float | None
    k_eff: float | None
    tie_dom: float | None
    roc_auc: float | None
    average_precision: float | None


@dataclass(frozen=True)
class AlarmPoint(Record):
    """What an alarm at one threshold does.

    Attributes:
        target: the target false positive rate; for a threshold without one, its achieved rate.
        threshold: an alarm is s >= threshold.
        achieved: share of all negative windows that alarm.
        n_events, n_covered: events, and those with an alarm in a positive window.
        coverage, abstain_rate: n_covered / n_events and the rest; None without events.
        lead_times: steps from the first alarm in the horizon to t*, in the order of the runs.
        lead_time_mean: their mean; None where nothing is covered.
    """

    target: float
    threshold: float
    achieved: float
    n_events: int
    n_covered: int
    coverage: float | None
    abstain_rate: float | None
    lead_times: tuple[float, ...]
    lead_time_mean: float | None


@dataclass(frozen=True, eq=False)
class Measured:
    """Everything that the reference measures of one score.

    Attributes:
        scores: what was measured.
        rows: one per run.
        auc, ap: over the pooled windows; None where a class is empty.
        points: one per threshold.
        negatives: the scores of all negative windows, ascending, float64 [N].
    """

    scores: Scores
    rows: tuple[RunRow, ...]
    auc: float | None
    ap: float | None
    points: tuple[AlarmPoint, ...]
    negatives: NDArray[np.float64]

    @property
    def primary(self) -> AlarmPoint:
        """The point that summaries speak of: the one whose target is nearest to .05."""
        return min(self.points, key=lambda point: abs(point.target - _PRIMARY))


def measure(scores: Scores, settings: CompatSettings) -> Measured:
    """Measure one score, signed so that higher means higher risk.

    Raises:
        InputError: no run has a negative window.
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
    return Measured(
        scores=scores,
        rows=tuple(_row(scores, labels, run) for run in range(scores.n_runs)),
        auc=roc_auc(positive, values),
        ap=average_precision(positive, values),
        points=tuple(
            _point(scores, labels, float(target), float(tau), float(rate))
            for target, tau, rate in zip(targets, thresholds, rates, strict=True)
        ),
        negatives=np.sort(values[~positive]),
    )


def _row(scores: Scores, labels: NDArray[np.bool_], run: int) -> RunRow:
    there = scores.present[run]
    positive, values = labels[run, there], scores.values[run, there]
    negatives = values[~positive]
    n_eff = effective_sample_size(negatives)
    known = len(negatives) > 0
    return RunRow(
        run=scores.runs[run],
        n_pos=int(positive.sum()),
        n_neg=len(negatives),
        n_eff=n_eff,
        n_eff_ratio=None if n_eff is None else n_eff / len(negatives),
        k_eff=effective_support(negatives) if known else None,
        tie_dom=tie_dominance(negatives) if known else None,
        roc_auc=roc_auc(positive, values),
        average_precision=average_precision(positive, values),
    )


def _point(
    scores: Scores, positive: NDArray[np.bool_], target: float, threshold: float, achieved: float
) -> AlarmPoint:
    alarmed = positive & (scores.values >= threshold)
    covered = alarmed.any(axis=1)
    first = scores.steps[np.arange(scores.n_runs), alarmed.argmax(axis=1)]
    leads = (scores.event_step - first)[covered]
    n_events, n_covered = int(scores.has_event.sum()), int(covered.sum())
    return AlarmPoint(
        target=target,
        threshold=threshold,
        achieved=achieved,
        n_events=n_events,
        n_covered=n_covered,
        coverage=n_covered / n_events if n_events else None,
        abstain_rate=1 - n_covered / n_events if n_events else None,
        lead_times=tuple(leads.tolist()),
        lead_time_mean=float(leads.mean()) if n_covered else None,
    )


# What may be said of a score after the reference's computation: never that it may alarm.


PROTOCOL_REASON = "compat_protocol"
# .04 misses .05 by .010000000000000002: a tolerance of .01 must still hold.
_SLACK = 1e-12


@dataclass(frozen=True)
class Gate:
    """Layer B by the specification's rules, on the reference's numbers.

    Attributes:
        met: whether each target is met; empty where thresholds came without targets.
        fpr_min: the least achieved rate.
        controllable: enough targets are met; None without targets.
        floor: the least achieved rate is too high; None where thresholds were given, since what
            else the score could reach was not searched.
    """

    met: tuple[bool, ...]
    fpr_min: float
    controllable: bool | None
    floor: bool | None

    @property
    def passed(self) -> bool | None:
        """Controllable and without a floor; None where one of them is not known."""
        if self.controllable is None or self.floor is None:
            return None
        return self.controllable and not self.floor


@dataclass(frozen=True)
class CompatVerdict:
    """A label that is never SUPPORTED_FOR_ALARM, with its reasons and a sentence."""

    label: str
    reasons: tuple[str, ...]
    sentence: str


def gate(measured: Measured, settings: CompatSettings) -> Gate:
    """Whether a false-alarm budget can be set, in sample."""
    fpr_min = min(point.achieved for point in measured.points)
    searched = settings.thresholds is None
    met: tuple[bool, ...] = ()
    if settings.fpr_targets:
        met = tuple(
            abs(point.achieved - point.target) <= settings.fpr_eps + _SLACK
            for point in measured.points
        )
    return Gate(
        met=met,
        fpr_min=fpr_min,
        controllable=sum(met) >= settings.min_targets_ok if met else None,
        floor=fpr_min > settings.fpr_floor_max + _SLACK if searched else None,
    )


def conclude(measured: Measured, settings: CompatSettings) -> CompatVerdict:
    """Label one score.

    A failure in sample is a failure, so that layer B may fail. Success in sample proves nothing:
    what would be SUPPORTED_FOR_ALARM by the published rules is INCONCLUSIVE here.
    """
    found = gate(measured, settings)
    faults = _faults(measured, found, settings)
    n_events = measured.points[0].n_events
    if n_events < settings.event_count_min:
        few = f"{n_events} events are fewer than {settings.event_count_min}"
        return _verdict("INCONCLUSIVE", {"few_events": few, **faults}, settings)
    if faults:
        return _verdict("RANK_ONLY", faults, settings)
    return _verdict("INCONCLUSIVE", {}, settings)


def _faults(measured: Measured, found: Gate, settings: CompatSettings) -> dict[str, str]:
    """What stands against an alarm whatever the protocol: code -> clause."""
    faults = {}
    if found.floor:
        faults["fpr_floor"] = f"no threshold has a false positive rate below {found.fpr_min:.3f}"
    if found.controllable is False:
        faults["fpr_uncontrolled"] = (
            f"{sum(found.met)} of {len(found.met)} false-alarm budgets hold, "
            f"{settings.min_targets_ok} must"
        )
    if faults and (measured.auc is None or measured.auc <= 0.5):
        auc = "undefined" if measured.auc is None else f"{measured.auc:.2f}"
        faults["no_ranking_signal"] = (
            f"it does not rank the windows before an event higher (AUC {auc})"
        )
    return faults


def _verdict(label: str, reasons: dict[str, str], settings: CompatSettings) -> CompatVerdict:
    opening = "May not raise an alarm" if label == "RANK_ONLY" else "Not decided"
    source = (
        "measures thresholds on the windows that they come from"
        if settings.thresholds is None
        else "takes thresholds from outside"
    )
    protocol = (
        f"compat repeats the published computation, which {source} and tests nothing against "
        "chance, so it never supports an alarm (--protocol strict can)"
    )
    clauses = "; ".join([*reasons.values(), protocol])
    return CompatVerdict(label, (*reasons, PROTOCOL_REASON), f"{opening}: {clauses}.")
