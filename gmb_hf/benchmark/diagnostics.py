"""Diagnostics D1 to D5: why a false-alarm budget can or cannot be held.

D1 effective support, D2 the rates that thresholds can reach, D3 tie dominance, D4 effective
sample size, D5 abstain rate. All but the last look at negative windows only.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.records import NO_EVENT, NO_NEGATIVE, WhyNull
from gmb_hf.documents import Many, Number, OpenSection

_BINS = 50
_TAIL = 0.90
_TOP = 0.95
_CURVE = tuple(float(f) for f in np.round(np.geomspace(0.005, 0.5, 21), 4))
_NO_NEGATIVE = WhyNull(NO_NEGATIVE)
_CONSTANT = WhyNull("the score is constant over negative windows, or there are none")


class DiagnosticsRecord(OpenSection):
    """How much resolution and information the score has where it matters."""

    # D1: k_eff = exp(entropy of 50 equal-width bins).
    effective_support_size: Annotated[Number, _NO_NEGATIVE] = None
    # D3: largest tie count / windows, at or above the 95th percentile.
    tie_dominance: Annotated[Number, _NO_NEGATIVE] = None
    comments: str = ""  # on each of these that stands out
    # D1: perplexity of the exact values at or above the 90th percentile.
    x_tail_support_size: Annotated[Number, _NO_NEGATIVE] = None
    # D4: the smaller of n / design effect and Geyer's estimate within runs; the design effect is
    # the variance of the rate over run clusters / over independent windows.
    x_n_eff: Annotated[Number, _CONSTANT] = None
    x_design_effect: Annotated[Number, _CONSTANT] = None
    # D5: share of events without a warning at the primary operating point.
    x_abstain_rate: Annotated[Number, WhyNull(NO_EVENT)] = None
    # D2: (target, nearest rate of any finite threshold) on the held-out negatives.
    x_achievable: Many[Many[FiniteFloat]] = ()


def diagnose(judgement: Judgement, *, coverage: float | None) -> DiagnosticsRecord:
    """Diagnose the held-out negatives of a judgement; `coverage` is at the primary target."""
    abstain_rate = None if coverage is None else 1 - coverage
    negatives = judgement.negatives
    if not negatives.n_windows:
        return DiagnosticsRecord(comments="no negative windows", x_abstain_rate=abstain_rate)
    values = negatives.values
    n_eff, design_effect = effective_sample_size(judgement)
    ties = tie_dominance(values)
    comments = []
    if ties > 0.5:
        what = "of the highest twentieth of negatives share one score; no threshold can separate"
        comments.append(f"{ties:.0%} {what} them")
    if n_eff is None:
        comments.append("the score is constant over negatives, so n_eff does not exist")
    elif n_eff < 0.1 * (n := negatives.n_windows):
        comments.append(f"{n} negative windows are worth {n_eff:.0f} independent ones")
    return DiagnosticsRecord(
        effective_support_size=effective_support(values),
        tie_dominance=ties,
        comments="; ".join(comments),
        x_tail_support_size=tail_support(values),
        x_n_eff=n_eff,
        x_design_effect=design_effect,
        x_abstain_rate=abstain_rate,
        x_achievable=_achievable(judgement.achievable_rates),
    )


def effective_support(values: NDArray[np.float64]) -> float:
    """D1: exp(entropy in nats) of a histogram with 50 equal-width bins, between 1 and 50."""
    low, high = float(values.min()), float(values.max())
    if math.isinf(high - low):
        values, low, high = values / 2, low / 2, high / 2
    # As np.histogram, which refuses values that lie too close together for 50 distinct edges.
    bins = np.searchsorted(np.linspace(low, high, _BINS + 1), values, side="right") - 1
    return _perplexity(np.bincount(np.minimum(bins, _BINS - 1)))


def tail_support(values: NDArray[np.float64]) -> float:
    """D1: how many distinct values the highest tenth amounts to (perplexity of exact values)."""
    return _perplexity(_top_counts(values, _TAIL))


def tie_dominance(values: NDArray[np.float64]) -> float:
    """D3: the largest group of ties, as a share of the highest twentieth."""
    counts = _top_counts(values, _TOP)
    return float(counts.max() / counts.sum())


def effective_sample_size(judgement: Judgement) -> tuple[float | None, float | None]:
    """D4: independent windows that the negatives are worth, and the cluster design effect.

    What counts is whether a window exceeds the pooled (1 - f) quantile, f the primary target.
    Within runs: n / tau by Geyer's initial monotone sequence (1992, "Practical Markov chain Monte
    Carlo"). Between runs: the design effect. The smaller decides, and never more than n.

    Returns:
        (n_eff, design effect), None where every window exceeds or none does.
    """
    negative = judgement.windows.negative
    n = int(negative.sum())
    values = judgement.negatives.values
    exceeds = judgement.evaluation.values >= np.quantile(values, 1 - judgement.design.primary_fpr)
    exceeds &= negative
    share = exceeds.sum() / n
    if share in (0.0, 1.0):
        return None, None
    counts = negative.sum(axis=1)
    design = _design_effect(exceeds.sum(axis=1), counts, float(share))
    means = exceeds.sum(axis=1) / np.maximum(counts, 1)
    within = np.where(negative, exceeds - means[:, None], 0.0)
    inflation = max(autocorrelation_time(within), 1.0 if design is None else design)
    return n / max(inflation, 1.0), design


def autocorrelation_time(deviations: NDArray[np.float64]) -> float:
    """tau = 1 + 2 sum of autocorrelations, by the initial monotone sequence.

    Of deviations from each run's mean, float64 [R, T], 0 where there is no window; products are
    summed over runs.
    """
    width = deviations.shape[1]
    spectrum = np.fft.rfft(deviations, n=2 * width, axis=1)
    power = (spectrum * spectrum.conj()).real.sum(axis=0)
    products = np.fft.irfft(power, n=2 * width)[:width]
    if products[0] <= 0:
        return 1.0
    pairs = products[: width // 2 * 2].reshape(-1, 2).sum(axis=1) / products[0]
    below = np.flatnonzero(pairs <= 0)
    initial = pairs[: below[0]] if len(below) else pairs
    return max(float(2 * np.minimum.accumulate(initial).sum() - 1), 1.0)


def _design_effect(
    exceeding: NDArray[np.int64], counts: NDArray[np.int64], share: float
) -> float | None:
    clusters = int((counts > 0).sum())
    if clusters < 2:
        return None
    n = counts.sum()
    between = ((exceeding - share * counts) ** 2).sum() / n**2 * clusters / (clusters - 1)
    return float(between / (share * (1 - share) / n))


def _achievable(rates: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    after = np.clip(np.searchsorted(rates, _CURVE), 0, len(rates) - 1)
    before = np.maximum(after - 1, 0)
    below, above = np.abs(rates[before] - _CURVE), np.abs(rates[after] - _CURVE)
    nearer = np.where(below <= above, before, after)
    return tuple(zip(_CURVE, rates[nearer].tolist(), strict=True))


def _top_counts(values: NDArray[np.float64], quantile: float) -> NDArray[np.int64]:
    top = values[values >= np.quantile(values, quantile)]
    return np.asarray(np.unique(top, return_counts=True)[1])


def _perplexity(counts: NDArray[np.int64]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))
