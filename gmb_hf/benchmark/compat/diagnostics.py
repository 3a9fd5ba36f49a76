"""The reference's effective sample size; its other diagnostics are those of every protocol."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


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
