"""How often each item of a pool is expected to be seen in a training, and whether that suffices.

Spec: Crucible metrics, "Exposure Probability & Dilution Detection".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.stats import poisson

from gmb_hf.benchmark.record import Record
from gmb_hf.validation import InputError, fraction, positive_int

Status = Literal["healthy", "warning", "critical", "severe"]

# Least expected exposures of each status (spec, "Dilution Warning Thresholds").
_LEAST: tuple[tuple[float, Status], ...] = ((50, "healthy"), (30, "warning"), (10, "critical"))
_RANGE = (0.05, 0.95)


@dataclass(frozen=True)
class Pool:
    """Items among which draws are spread evenly.

    Attributes:
        name: such as "legacy".
        size: how many items; 0 is allowed, its draws go to the other pools.
        ratio: share of the draws that goes to this pool.
    """

    name: str
    size: int
    ratio: float


@dataclass(frozen=True)
class PoolExposure(Record):
    """What one pool will see.

    Attributes:
        name, size: those of the pool.
        ratio: its share of the draws after empty pools gave theirs away.
        draws: expected draws from the pool.
        expected: expected exposures of each item; None where the pool is empty.
        low, high: 5% and 95% quantile of an item's exposures, which are Poisson.
        status: by the spec's thresholds on `expected`; None where the pool is empty.
    """

    name: str
    size: int
    ratio: float
    draws: float
    expected: float | None
    low: int | None
    high: int | None
    status: Status | None


def expected_exposures(
    *, steps: int, batch_size: int, probability: float, pools: Sequence[Pool]
) -> list[PoolExposure]:
    """Exposures per item, pool by pool, all of them: steps x batch x probability x ratio / size.

    Args:
        steps: training steps.
        batch_size: slots in a batch.
        probability: that a slot is filled from these pools (the spec's p_tier3).
        pools: their ratios must add up to 1.

    Raises:
        InputError: a number out of range, ratios that do not add up to 1, a name that occurs
            twice, or no pool with items.

    >>> pools = [Pool("legacy", 454, 0.75), Pool("organic", 1200, 0.25)]
    >>> legacy, _ = expected_exposures(steps=10_000, batch_size=32, probability=0.1, pools=pools)
    >>> legacy.draws, round(legacy.expected, 1), legacy.status
    (24000.0, 52.9, 'healthy')
    """
    positive_int("steps", steps)
    positive_int("batch_size", batch_size)
    fraction("probability", probability, closed=True)
    _check(pools)
    filled = math.fsum(pool.ratio for pool in pools if pool.size)
    if not filled:
        raise InputError("every pool that is drawn from is empty; nothing would be seen")
    # Ratios stay as they are where no pool is empty: 0.75 / (0.75 + 0.25) may differ from 0.75.
    given_away = any(pool.ratio and not pool.size for pool in pools)
    found = []
    for pool in pools:
        ratio = 0.0 if not pool.size else pool.ratio / filled if given_away else pool.ratio
        draws = steps * batch_size * probability * ratio
        found.append(_exposure(pool, ratio, draws))
    return found


def dilution_status(expected: float) -> Status:
    """healthy from 50 expected exposures, warning from 30, critical from 10, else severe.

    >>> [dilution_status(value) for value in (50, 49.9, 10, 0)]
    ['healthy', 'warning', 'critical', 'severe']
    """
    if not expected >= 0 or math.isinf(expected):
        raise InputError(f"expected exposures must be a number of at least 0, got {expected!r}")
    return next((status for least, status in _LEAST if expected >= least), "severe")


def _exposure(pool: Pool, ratio: float, draws: float) -> PoolExposure:
    if not pool.size:
        return PoolExposure(pool.name, 0, ratio, draws, None, None, None, None)
    expected = draws / pool.size
    # Of the mean 0, which is certain, scipy's quantile is -1 below the first step.
    low, high = (int(poisson.ppf(share, expected)) if expected else 0 for share in _RANGE)
    status = dilution_status(expected)
    return PoolExposure(pool.name, pool.size, ratio, draws, expected, low, high, status)


def _check(pools: Sequence[Pool]) -> None:
    if not pools:
        raise InputError("no pools given; name at least one, such as legacy")
    for name, count in Counter(pool.name for pool in pools).items():
        if count > 1:
            raise InputError(f"pool {name!r} is given twice")
    for pool in pools:
        if not pool.name:
            raise InputError("a pool has no name; give it one, such as legacy")
        if isinstance(pool.size, bool) or not isinstance(pool.size, int) or pool.size < 0:
            raise InputError(
                f"pool {pool.name!r}: size must be a whole number of at least 0, got {pool.size!r}"
            )
        fraction("ratio", pool.ratio, where=f"pool {pool.name!r}", closed=True)
    total = math.fsum(pool.ratio for pool in pools)
    if not math.isclose(total, 1.0, rel_tol=1e-9):
        raise InputError(f"the ratios of the pools add up to {total:g}, not to 1")
