"""The reference's thresholds: the observed score whose false positive rate is nearest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


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
