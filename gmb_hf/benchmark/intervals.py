"""Intervals whose unit is the run: windows of one run are no independent observations.

The run-cluster bootstrap resamples whole runs (Field and Welsh 2007, "Bootstrapping clustered
data"); a resample is a row of weights, the number of times that each run was drawn, so that every
statistic of all resamples is one matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from gmb_hf.benchmark.record import Record

LEVEL = 0.95
_BOOTSTRAP_STREAM = 1


@dataclass(frozen=True)
class Interval(Record):
    """An interval of confidence `level`; `method` is how it was found.

    Where both are named, the lower end is the bootstrap's and the upper one lies between the two.
    """

    low: float
    high: float
    level: float = LEVEL
    method: Literal["run bootstrap", "exact binomial", "run bootstrap and exact binomial"] = (
        "run bootstrap"
    )


@lru_cache(maxsize=4)
def resamples(n_runs: int, draws: int, seed: int) -> NDArray[np.float64]:
    """How often each run is in each bootstrap resample, float64 [draws, R], read-only.

    The same arguments give the same resamples, so that scores are compared on equal ones.
    """
    rng = np.random.default_rng([seed, _BOOTSTRAP_STREAM])
    share = np.full(n_runs, 1 / n_runs)
    weights = rng.multinomial(n_runs, share, size=draws).astype(np.float64)
    weights.setflags(write=False)
    return weights


def ratio_interval(
    numerator: NDArray[np.float64], denominator: NDArray[np.float64], weights: NDArray[np.float64]
) -> Interval | None:
    """Percentile interval of sum(numerator) / sum(denominator) over resampled runs.

    Args:
        numerator, denominator: one value per run, [R].
        weights: `resamples`, [draws, R].

    Returns:
        None where the denominator is 0 in every resample.
    """
    below = weights @ denominator
    defined = below > 0
    if not defined.any():
        return None
    return _percentiles((weights @ numerator)[defined] / below[defined])


def quantile_intervals(
    values: NDArray[np.float64], quantiles: tuple[float, ...], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """Each quantile of `values` [n] in every resample (weights [draws, n]) that is not empty.

    The linear quantile of numpy, of the resample written out: position (N - 1) q.
    """
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    upto = np.cumsum(weights[:, order], axis=1)
    upto = upto[upto[:, -1] > 0]
    found = []
    for quantile in quantiles:
        position = (upto[:, -1] - 1) * quantile
        floor = np.floor(position)
        low = ranked[(upto <= floor[:, None]).sum(axis=1)]
        high = ranked[(upto <= np.ceil(position)[:, None]).sum(axis=1)]
        found.append(low + (position - floor) * (high - low))
    return tuple(found)


def percentile_interval(draws: NDArray[np.float64]) -> Interval | None:
    """The central 95% of a bootstrap distribution; None where it is empty."""
    return _percentiles(draws) if len(draws) else None


def exact_binomial(successes: int, trials: int) -> Interval:
    """The Clopper-Pearson interval of a proportion (two-sided, 95%)."""
    tail, failures = (1 - LEVEL) / 2, trials - successes
    low = betaincinv(successes, failures + 1, tail) if successes else 0.0
    high = betaincinv(successes + 1, failures, 1 - tail) if failures else 1.0
    return Interval(float(low), float(high), method="exact binomial")


def runs_for_zero(line: float) -> int:
    """Runs without a single success after which the exact bound is at most `line`."""
    if line >= 1:
        return 1
    return math.ceil(math.log((1 - LEVEL) / 2) / math.log1p(-line))


def _percentiles(draws: NDArray[np.float64]) -> Interval:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(float(low), float(high))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment of one family of p-values (Holm 1979); None stays None.

    A candidate without a p-value (it met no event) still counts as one of the family.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    n = len(p_values)
    known = np.array([1.0 if p is None else p for p in p_values])
    order = np.argsort(known, kind="stable")
    stepped = np.maximum.accumulate(known[order] * np.arange(n, 0, -1))
    adjusted = np.empty(n)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [
        None if p is None else float(value) for p, value in zip(p_values, adjusted, strict=True)
    ]
