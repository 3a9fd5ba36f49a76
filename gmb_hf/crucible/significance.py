"""Whether two models differ on the same items: tests that need no normal distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from gmb_hf.benchmark.intervals import holm as holm
from gmb_hf.benchmark.record import Record
from gmb_hf.crucible.seeds import generator
from gmb_hf.validation import InputError, positive_int

_CHUNK = 4_000_000
_LEVEL = 0.95
# Sums of one set of numbers in another order differ by rounding; they count as equal.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class McNemar(Record):
    """Exact McNemar test of paired passes.

    Attributes:
        only_first, only_second: items that just one of the two passes.
        p_value: two-sided; 1 where the two never differ.
    """

    only_first: int
    only_second: int
    p_value: float


@dataclass(frozen=True)
class Permutation(Record):
    """Paired permutation test of a mean difference.

    Attributes:
        difference: mean of second - first.
        p_value: (b + 1) / (m + 1), two-sided; b of m other choices of signs reach the difference.
        permutations: m.
    """

    difference: float
    p_value: float
    permutations: int


@dataclass(frozen=True)
class HierarchicalBootstrap(Record):
    """Difference of two models, each trained from several seeds.

    Attributes:
        difference: mean of second - first over seeds and items.
        ci_low, ci_high: 95% percentile interval.
        draws: how many resamples.
    """

    difference: float
    ci_low: float
    ci_high: float
    draws: int


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """Exact McNemar test (McNemar 1947, with binomial instead of chi-squared probabilities).

    Args:
        first, second: whether each model passes each item, bool [N].

    >>> mcnemar([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0]).p_value
    0.0625
    """
    a, b = checked_pairs(first, second)
    if not (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        raise InputError("McNemar's test needs passes: true and false, or 1 and 0")
    only_first, only_second = int((a > b).sum()), int((b > a).sum())
    n = only_first + only_second
    tail = float(bdtr(min(only_first, only_second), n, 0.5)) if n else 1.0
    return McNemar(only_first, only_second, min(1.0, 2 * tail))


def paired_permutation(
    first: ArrayLike, second: ArrayLike, *, permutations: int = 9999, seed: int = 0
) -> Permutation:
    """Sign flips of the paired differences: all there are where they are few, else random ones.

    The observed labelling counts as one of them, so that p is never 0 (Phipson and Smyth 2010).

    Args:
        first, second: a number per item and model, such as the margin, float64 [N].
        permutations: m, at most: k differences that are not 0 have 2^k - 1 other choices of signs.
        seed: of the random sign flips.

    >>> paired_permutation([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]).p_value
    0.25
    """
    positive_int("permutations", permutations)
    a, b = checked_pairs(first, second)
    difference = b - a
    n = len(difference)
    observed = float(np.abs(difference.sum()))
    line = observed - _ROUNDING * float(np.abs(difference).sum())
    moved = difference[difference != 0]  # the others contribute nothing, whatever their sign
    rng = generator(seed, 1)
    step = max(1, _CHUNK // max(1, len(moved)))
    others = 2 ** len(moved) - 1
    exact = others <= permutations
    permutations = min(others, permutations)
    reached = 0
    for start in range(0, permutations, step):
        stop = min(start + step, permutations)
        flips = (
            (np.arange(start + 1, stop + 1)[:, None] >> np.arange(len(moved))) & 1
            if exact
            else rng.integers(0, 2, size=(stop - start, len(moved)), dtype=np.int8)
        )
        sums = 2 * (flips @ moved) - moved.sum()
        reached += int((np.abs(sums) >= line).sum())
    p_value = (reached + 1) / (permutations + 1)
    return Permutation(float(difference.sum() / n), p_value, permutations)


def hierarchical_bootstrap(
    first: ArrayLike, second: ArrayLike, *, draws: int = 2000, seed: int = 0
) -> HierarchicalBootstrap:
    """Resample seeds, and items, and look at the difference of the means.

    Every seed is evaluated on the same items, so one resample of the items serves all seeds of both
    models: drawn anew within each seed, items would look like more items than there are.

    Args:
        first: a number per seed and item, float64 [S1, N].
        second: the same for the other model, on the same items, float64 [S2, N].
        draws: how many resamples.
        seed: of the resamples.
    """
    positive_int("draws", draws)
    a, b = (np.atleast_2d(np.asarray(given, dtype=np.float64)) for given in (first, second))
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or not a.size or not b.size:
        raise InputError(
            f"both models need [seeds, items] on the same items, got {a.shape} and {b.shape}"
        )
    _finite(a, b)
    n = a.shape[1]
    rng = generator(seed, 2)
    step = max(1, _CHUNK // n)
    found = []
    for start in range(0, draws, step):
        size = min(step, draws - start)
        difference = _mean_of_seeds(b, size, rng) - _mean_of_seeds(a, size, rng)
        items = rng.multinomial(n, np.full(n, 1 / n), size=size)
        found.append((difference * items).sum(axis=1) / n)
    low, high = np.quantile(np.concatenate(found), [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return HierarchicalBootstrap(float(b.mean() - a.mean()), float(low), float(high), draws)


def _mean_of_seeds(
    values: NDArray[np.float64], size: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Mean over resampled seeds of every item, float64 [size, N]."""
    n_seeds = len(values)
    weights = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=size)
    mean: NDArray[np.float64] = weights @ values / n_seeds
    return mean


def checked_pairs(
    first: ArrayLike, second: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A number per item for both models, float64 [N] each; an `InputError` for anything else."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise InputError(
            f"a paired test needs one number per item for both models, got {a.shape} and {b.shape}"
        )
    if not len(a):
        raise InputError("a paired test needs at least one item")
    _finite(a, b)
    return a, b


def _finite(*arrays: NDArray[np.float64]) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise InputError("a paired test needs finite numbers; leave out items without a value")
