"""Margins: how much closer the positive is than the hardest negative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.record import Record
from gmb_hf.crucible.similarities import Similarities

QUANTILES = (0.10, 0.50, 0.90)


@dataclass(frozen=True)
class MarginStats(Record):
    """Margins of many items; every statistic is None where there is no item.

    Attributes:
        mean_margin, mean_danger: means; danger is minus the margin.
        q10_margin, median_margin, q90_margin: quantiles, linear between order statistics.
        pass_rate: share of margins above 0.
        tie_rate: share of margins of exactly 0, which do not pass.
        n: how many items.
        n_skipped: how many were left out because they had no negatives.
    """

    mean_margin: float | None
    mean_danger: float | None
    q10_margin: float | None
    median_margin: float | None
    q90_margin: float | None
    pass_rate: float | None
    tie_rate: float | None
    n: int
    n_skipped: int = 0


def margins(similarities: Similarities) -> NDArray[np.float64]:
    """sim(anchor, positive) - max over negatives of sim(anchor, negative), float64 [N].

    Spec: Crucible metrics, "Margin".
    """
    return similarities.of_positive - similarities.hardest_negative


def dangers(similarities: Similarities) -> NDArray[np.float64]:
    """Minus the margin, float64 [N]; above 0 a negative is closer than the positive.

    Spec: Crucible metrics, "Danger Score".
    """
    return similarities.hardest_negative - similarities.of_positive


def summarize(margin: NDArray[np.float64], *, n_skipped: int = 0) -> MarginStats:
    """The statistics of given margins [N]."""
    n = len(margin)
    if not n:
        return MarginStats(None, None, None, None, None, None, None, 0, n_skipped)
    q10, median, q90 = np.quantile(margin, QUANTILES).tolist()
    mean = float(margin.mean())
    return MarginStats(
        mean_margin=mean,
        mean_danger=0.0 - mean,  # never -0.0
        q10_margin=q10,
        median_margin=median,
        q90_margin=q90,
        pass_rate=float((margin > 0).mean()),
        tie_rate=float((margin == 0).mean()),
        n=n,
        n_skipped=n_skipped,
    )


def margin_stats(similarities: Similarities) -> MarginStats:
    """Margins summed up.

    >>> found = Similarities.of_lists([[0.75, 0.5], [0.25, 0.5, 0.125]], [0, 0])
    >>> stats = margin_stats(found)
    >>> stats.pass_rate, stats.mean_margin, stats.n
    (0.5, 0.0, 2)
    """
    return summarize(margins(similarities), n_skipped=similarities.n_skipped)
