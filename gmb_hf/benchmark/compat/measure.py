"""One score through the reference's computation: per run, pooled, and at each threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.compat.diagnostics import effective_sample_size
from gmb_hf.benchmark.compat.ranking import average_precision, roc_auc
from gmb_hf.benchmark.compat.settings import CompatSettings
from gmb_hf.benchmark.compat.thresholds import false_positive_rates, nearest_thresholds
from gmb_hf.benchmark.compat.windows import pooled, positive_windows
from gmb_hf.benchmark.diagnostics import effective_support, tie_dominance
from gmb_hf.benchmark.record import Record
from gmb_hf.benchmark.scores import Scores
from gmb_hf.validation import InputError

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
