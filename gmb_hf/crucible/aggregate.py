"""One number per seed, summed up over seeds.

Spec: Crucible metrics, "Aggregate Experiment Metrics". Its interval, 1.96 standard errors, covers
about 81% at three seeds, not 95%; Student's t is the default here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from gmb_hf.benchmark.record import Record
from gmb_hf.validation import InputError, choose

IntervalMethod = Literal["t", "normal"]
_NORMAL = 1.96
_SEPARATION, _SEEDS = 0.02, 3


@dataclass(frozen=True)
class AggregateStats(Record):
    """A metric over seeds.

    Attributes:
        mean, min, max: of the seeds' values.
        std: standard deviation, ddof 1; None for one seed.
        n_seeds: how many.
        ci_low, ci_high: 95% interval of the mean; None for one seed.
        method: "t" or "normal".
    """

    mean: float
    std: float | None
    min: float
    max: float
    n_seeds: int
    ci_low: float | None
    ci_high: float | None
    method: IntervalMethod = "t"


def aggregate(values: Sequence[float], *, method: IntervalMethod = "t") -> AggregateStats:
    """Mean, spread and 95% interval over seeds.

    Args:
        values: one per seed.
        method: "t" takes Student's quantile with n - 1 degrees of freedom, "normal" the spec's
            1.96.

    Raises:
        InputError: no values, or one that is missing or not finite.

    >>> found = aggregate([0.80, 0.82, 0.84])
    >>> round(found.mean, 2), round(found.std, 2), round(found.ci_high - found.mean, 4)
    (0.82, 0.02, 0.0497)
    """
    choose("method", method, ("t", "normal"))
    if not len(values):
        raise InputError("no seeds to aggregate; give at least one value")
    for place, value in enumerate(values):
        if value is None or not math.isfinite(value):
            raise InputError(f"the value of seed number {place + 1} is {value!r}; remove the seed")
    array = np.asarray(values, dtype=np.float64)
    n, mean = len(array), float(array.mean())
    low, high = float(array.min()), float(array.max())
    if n == 1:
        return AggregateStats(mean, None, low, high, 1, None, None, method)
    std = float(array.std(ddof=1))
    factor = _NORMAL if method == "normal" else float(stdtrit(n - 1, 0.975))
    reach = factor * std / math.sqrt(n)
    return AggregateStats(mean, std, low, high, n, mean - reach, mean + reach, method)


def meets_separation_rule(first: Sequence[float], second: Sequence[float]) -> bool | None:
    """Whether the means of three seeds each are 2 points apart; None for other numbers of seeds.

    The spec's rule of thumb for p < .05; whether it holds depends on the spread, which it does not
    look at. Report it beside the tests of `significance`.
    """
    if len(first) != _SEEDS or len(second) != _SEEDS:
        return None
    gap = abs(aggregate(first).mean - aggregate(second).mean)
    # A gap of exactly two points stays one in float64.
    return gap >= _SEPARATION or math.isclose(gap, _SEPARATION, rel_tol=1e-9)
