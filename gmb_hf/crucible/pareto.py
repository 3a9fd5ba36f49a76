"""Retention against generalization: which configurations no other one beats.

Spec: Crucible metrics, "Pareto Analysis".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.crucible.seeds import generator
from gmb_hf.validation import InputError, positive_int

RETENTION, GENERALIZATION = "frozen_tier3", "organic_holdout"
_CHUNK = 2_000_000


def pareto_frontier(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The results that none dominates, in their order; equal ones are all kept.

    Args:
        results: each with the numbers `frozen_tier3` and `organic_holdout`; larger is better.

    Raises:
        InputError: a number is missing or not finite.

    >>> rows = [{"frozen_tier3": x, "organic_holdout": y} for x, y in [(1, 2), (2, 1), (1, 1)]]
    >>> pareto_frontier(rows) == rows[:2]
    True
    """
    first, second = coordinates(results)
    on = undominated(first, second)
    return [result for result, kept in zip(results, on.tolist(), strict=True) if kept]


def undominated(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of N points no other dominates, bool [N].

    A point dominates another if it is at least as good in both and better in one.
    """
    n = len(first)
    if not n:
        return np.zeros(0, dtype=bool)
    order = np.lexsort((-second, -first))
    x, y = first[order], second[order]
    # Within one x, only the best y can stay; it must also beat the best y of every larger x.
    begins = np.flatnonzero(np.append(True, x[1:] != x[:-1]))
    best = y[begins]
    before = np.append(-np.inf, np.maximum.accumulate(best)[:-1])
    group = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, n)))
    kept = np.zeros(n, dtype=bool)
    kept[order] = (y == best[group]) & (best > before)[group]
    return kept


def dominance_probability(
    frozen: tuple[NDArray[np.float64], NDArray[np.float64]],
    organic: tuple[NDArray[np.float64], NDArray[np.float64]],
    *,
    draws: int = 2000,
    seed: int = 0,
) -> float:
    """Share of bootstrap resamples of the items in which the first dominates the second.

    Args:
        frozen: outcome of each frozen item, [N], of the first and of the second configuration.
        organic: outcome of each organic item, [M], of both.
        draws: how many resamples; items are drawn in pairs.
        seed: of the resamples.
    """
    positive_int("draws", draws)
    rng = generator(seed, 0)
    retained = _resampled(*frozen, draws, rng, "frozen")
    general = _resampled(*organic, draws, rng, "organic")
    at_least = (retained >= 0) & (general >= 0)
    return float((at_least & ((retained > 0) | (general > 0))).mean())


def coordinates(
    results: Sequence[Mapping[str, Any]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`frozen_tier3` and `organic_holdout` of each result, float64 [N] each."""
    columns = []
    for key in (RETENTION, GENERALIZATION):
        for number, result in enumerate(results):
            value = result.get(key)
            good = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not good or not math.isfinite(value):  # type: ignore[arg-type]
                name = result.get("name")
                who = f"result {number}" + (f" ({name})" if name is not None else "")
                shown = repr(value) if key in result else "missing"
                raise InputError(f"{who}: {key} must be a finite number, it is {shown}")
        columns.append(np.array([result[key] for result in results], dtype=np.float64))
    return columns[0], columns[1]


def _resampled(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    draws: int,
    rng: np.random.Generator,
    what: str,
) -> NDArray[np.float64]:
    """Sum of the differences in each resample, float64 [draws]."""
    if len(first) != len(second):
        raise InputError(
            f"{what}: {len(first)} items against {len(second)}; the same items are needed"
        )
    n = len(first)
    if not n:
        raise InputError(f"{what}: no items")
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    step = max(1, _CHUNK // n)
    sums = [
        difference[rng.integers(n, size=(min(step, draws - start), n))].sum(axis=1)
        for start in range(0, draws, step)
    ]
    return np.concatenate(sums)
