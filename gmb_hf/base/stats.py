"""Statistics that more than one package needs.

Intervals whose unit is the run (run-cluster bootstrap, exact binomial), Holm's adjustment, paired
tests of two models on the same items, and summaries over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, betaincinv, stdtrit

from gmb_hf.base.documents import Measured, Number, OpenSection, Record
from gmb_hf.base.errors import InputError, choose, positive_int

LEVEL = 0.95
"""Confidence of every interval."""


MOST_DRAWS = 10**7
"""Resamples of items, or permutations, of one test."""


def generator(seed: int, stream: int) -> np.random.Generator:
    """The generator of a seed and a purpose, so that one seed can serve several purposes.

    Raises:
        InputError: a seed below 0.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    return np.random.default_rng([seed, stream])


# Intervals whose unit is the run: windows of one run are no independent observations. The
# run-cluster bootstrap resamples whole runs (Field and Welsh 2007, "Bootstrapping clustered data").
# A resample is a row of weights, the number of times that each run was drawn, so that every
# statistic of all resamples is one matrix product.

_CHUNK = 4_000_000  # numbers held at once
BOOTSTRAP, BINOMIAL, ORDER = "run bootstrap", "exact binomial", "order statistics"
_BOOTSTRAP_STREAM = 1


class IntervalRecord(OpenSection):
    """An interval around a measured number."""

    low: Measured
    high: Measured
    level: Number = 0.95
    method: str = ""


def _drawn(rng: np.random.Generator, n: int, draws: int) -> NDArray[np.int64]:
    """How often each of n is drawn in each resample of n with replacement, int64 [draws, n]."""
    return rng.multinomial(n, np.full(n, 1 / n), size=draws)


@lru_cache(maxsize=4)
def resamples(n_runs: int, draws: int, seed: int) -> NDArray[np.float64]:
    """How often each run is in each bootstrap resample, float64 [draws, R], read-only.

    The same arguments give the same resamples, so that scores are compared on equal ones.
    """
    drawn = _drawn(np.random.default_rng([seed, _BOOTSTRAP_STREAM]), n_runs, draws)
    weights = drawn.astype(np.float64)
    weights.setflags(write=False)
    return weights


def ratio_interval(
    numerator: NDArray[np.float64], denominator: NDArray[np.float64], weights: NDArray[np.float64]
) -> IntervalRecord | None:
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
    return percentile_interval((weights @ numerator)[defined] / below[defined])


def quantile_intervals(
    values: NDArray[np.float64], quantiles: tuple[float, ...], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """Each quantile of `values` [n] in every resample (weights [draws, n]) that is not empty.

    NaN is no value. The linear quantile of numpy, of the resample written out: position (N - 1) q.
    """
    order = np.argsort(values, kind="stable")[: np.count_nonzero(~np.isnan(values))]
    ranked, n = values[order], len(order)
    found = []
    step = max(1, _CHUNK // max(1, n))
    for start in range(0, len(weights), step):
        upto = np.take(weights[start : start + step], order, axis=1)
        np.cumsum(upto, axis=1, out=upto)
        if not upto[:, -1].all():
            upto = upto[upto[:, -1] > 0]
        total = upto[:, -1].copy()
        # Rows one above the other, so that one search finds a place in each of them.
        row = np.arange(len(upto))
        base = row * (total.max(initial=0.0) + 1)
        upto += base[:, None]
        position = (total - 1) * np.array(quantiles)[:, None]
        floor = np.floor(position)
        low, high = (
            ranked[
                np.searchsorted(upto.ravel(), at + base, side="right") - np.arange(len(upto)) * n
            ]
            for at in (floor, np.ceil(position))
        )
        found.append(low + (position - floor) * (high - low))
    return tuple(np.concatenate(found, axis=1))


def percentile_interval(draws: NDArray[np.float64]) -> IntervalRecord | None:
    """The central 95% of a bootstrap distribution; None where it is empty."""
    if not len(draws):
        return None
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return IntervalRecord(low=float(low), high=float(high), method=BOOTSTRAP)


def exact_binomial(successes: int, trials: int) -> IntervalRecord:
    """The Clopper-Pearson interval of a proportion (two-sided, 95%)."""
    tail, failures = (1 - LEVEL) / 2, trials - successes
    low = betaincinv(successes, failures + 1, tail) if successes else 0.0
    high = betaincinv(successes + 1, failures, 1 - tail) if failures else 1.0
    return IntervalRecord(low=float(low), high=float(high), method=BINOMIAL)


def median_interval(values: NDArray[np.float64]) -> IntervalRecord | None:
    """Exact interval of a median between two order statistics; None for fewer than six values.

    Whatever the distribution, its median lies below the k-th smallest of n values where fewer than
    k of n fair coins show heads (Conover 1999, Practical Nonparametric Statistics, 3.2).
    """
    ordered, n = np.sort(np.asarray(values, dtype=np.float64)), len(values)
    beyond = int((bdtr(np.arange(n // 2 + 1), n, 0.5) <= (1 - LEVEL) / 2).sum())
    if not beyond:
        return None
    low, high = float(ordered[beyond - 1]), float(ordered[n - beyond])
    return IntervalRecord(low=low, high=high, level=LEVEL, method=ORDER)


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


# A metric over seeds.

IntervalMethod = Literal["t", "normal"]
_NORMAL = 1.96
_SEPARATION, _SEEDS = 0.02, 3


@dataclass(frozen=True)
class AggregateStats(Record):
    """A metric over seeds.

    Attributes:
        mean, std, min, max: of the seeds' values; std with ddof 1, None for one seed.
        ci_low, ci_high: 95% interval of the mean, by the method; None for one seed.
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
    for number, value in enumerate(values, start=1):
        if value is None or not math.isfinite(value):
            raise InputError(f"the value of seed number {number} is {value!r}; remove the seed")
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


# Whether two models differ on the same items: tests that need no normal distribution.

# Sums of one set of numbers in another order differ by rounding; they count as equal.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class McNemar(Record):
    """Exact McNemar test of paired passes: items that just one of the two passes.

    The p-value is two-sided, and 1 where the two never differ.
    """

    only_first: int
    only_second: int
    p_value: float


@dataclass(frozen=True)
class Permutation(Record):
    """Paired permutation test of a mean difference, second - first.

    The two-sided p-value is (b + 1) / (m + 1): b of m permutations, other choices of signs, reach
    the difference.
    """

    difference: float
    p_value: float
    permutations: int


@dataclass(frozen=True)
class HierarchicalBootstrap(Record):
    """Difference of two models, each trained from several seeds.

    It is the mean of second - first over seeds and items, with the 95% percentile interval of so
    many draws.
    """

    difference: float
    ci_low: float
    ci_high: float
    draws: int


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """Exact McNemar test (McNemar 1947, with binomial instead of chi-squared probabilities).

    `first` and `second`: whether each model passes each item, bool [N].

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

    Few pairs have the p-value of `scipy.stats.permutation_test`, which takes some 30 times as long
    for the thousands of items of an evaluation set.

    `first` and `second` have a number per item, such as the margin, float64 [N]; `permutations` are
    the most, since k differences that are not 0 have 2^k - 1 other choices of signs.

    >>> paired_permutation([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]).p_value
    0.25
    """
    positive_int("permutations", permutations, most=MOST_DRAWS)
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
        first, second: a number per seed and item of either model, float64 [S1, N] and [S2, N].
        draws, seed: of the resamples.
    """
    positive_int("draws", draws, most=MOST_DRAWS)
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
        # The mean over resampled seeds of every item, [size, N], for each of the models.
        after, before = (_drawn(rng, len(side), size) @ side / len(side) for side in (b, a))
        found.append(((after - before) * _drawn(rng, n, size)).sum(axis=1) / n)
    around = percentile_interval(np.concatenate(found))
    assert around is not None
    return HierarchicalBootstrap(float(b.mean() - a.mean()), around.low, around.high, draws)


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


# Variants compared on the seeds that they share.

LEAST_SEEDS = 3
"""Fewer have no interval: at two, Student's quantile is 12.7 and a bootstrap sees three means."""

BASELINE = "dense"
_DRAWS = 2000


@dataclass(frozen=True)
class OverSeeds(Record):
    """A number over seeds.

    Attributes:
        mean, std, min, max: of the seeds' values; std with ddof 1, None for one seed.
        t_low, t_high: 95% interval of the mean by Student's t; None below three seeds.
        bootstrap_low, bootstrap_high: the same by the percentile bootstrap over seeds.
        values: one per seed, in the order of the seeds.
    """

    mean: float
    std: float | None
    min: float
    max: float
    n_seeds: int
    t_low: float | None
    t_high: float | None
    bootstrap_low: float | None
    bootstrap_high: float | None
    values: tuple[float, ...]


def over_seeds(values: Sequence[float] | NDArray[np.float64]) -> OverSeeds:
    """Sum up one number per seed.

    Raises:
        InputError: no values, or one that is not finite.

    >>> found = over_seeds([1.0, 2.0, 3.0])
    >>> round(found.t_low, 3), found.bootstrap_low, over_seeds([1.0, 2.0]).t_low
    (-0.484, 1.0, None)
    """
    array = np.asarray(values, dtype=np.float64)
    stats = aggregate(array.tolist())
    known, drawn = len(array) >= LEAST_SEEDS, None
    if known:
        # Sums round; a mean of resamples is never outside of the values themselves.
        means = resamples(len(array), _DRAWS, 0) @ array / len(array)
        drawn = percentile_interval(np.clip(means, stats.min, stats.max))
    t_low, t_high = (stats.ci_low, stats.ci_high) if known else (None, None)
    low, high = (drawn.low, drawn.high) if drawn else (None, None)
    summary = (stats.mean, stats.std, stats.min, stats.max, stats.n_seeds)
    return OverSeeds(*summary, t_low, t_high, low, high, tuple(array.tolist()))


@dataclass(frozen=True)
class Difference(Record):
    """A quantity of one variant less that of another, the baseline, on the seeds that both have.

    Attributes:
        difference: over these seeds; None without one.
        p_value: sign-flip permutation test of the differences, two-sided; None below three seeds.
            Of n seeds it is at least 2 / 2^n, whatever the difference.
        p_adjusted: Holm-adjusted over the variants that are held against this baseline.
    """

    quantity: str
    variant: str
    baseline: str
    seeds: tuple[int, ...]
    difference: OverSeeds | None
    p_value: float | None
    p_adjusted: float | None


BySeed = Mapping[int, float]
"""Seed -> the value of a quantity."""


def differences(quantity: str, variants: Mapping[str, BySeed], baseline: str) -> list[Difference]:
    """Hold every variant (name -> values) against the baseline, one of them, on shared seeds.

    p-values are Holm-adjusted over the variants.
    """
    base = (baseline, variants[baseline])
    others = (pair for pair in variants.items() if pair[0] != baseline)
    return adjusted([difference(quantity, pair, base) for pair in others])


def adjusted(family: Sequence[Difference]) -> list[Difference]:
    """The same differences with their p-values Holm-adjusted as one family.

    One without a test asks no question, and does not weigh on those that do.
    """
    tested = [pair.p_value for pair in family if pair.p_value is not None]
    after = iter(holm(tested))
    return [
        pair if pair.p_value is None else replace(pair, p_adjusted=next(after)) for pair in family
    ]


def chosen_baseline(variants: Iterable[str], baseline: str | None = None) -> str:
    """The baseline, one of the variants; without one `dense` where it is there, else the first."""
    names = list(variants)
    if baseline is not None:
        return choose("variant", baseline, names)
    return BASELINE if BASELINE in names else names[0]


def few_seeds(seeds: Mapping[str, Sequence[int]]) -> list[str]:
    """A note of each variant that has too few seeds, from the seeds of every one."""
    return [
        f"{name} has {len(own)} of at least {LEAST_SEEDS} seeds: no interval, no test"
        for name, own in seeds.items()
        if len(own) < LEAST_SEEDS
    ]


def difference(
    quantity: str, variant: tuple[str, BySeed], baseline: tuple[str, BySeed], *, seed: int = 0
) -> Difference:
    """Hold one variant (name, values) against the baseline on shared seeds, not adjusted."""
    (name, values), (base_name, base) = variant, baseline
    shared = tuple(sorted(values.keys() & base.keys()))
    a, b = ([side[one] for one in shared] for side in (base, values))
    gaps = over_seeds(np.subtract(b, a)) if shared else None
    known = len(shared) >= LEAST_SEEDS
    p_value = paired_permutation(a, b, seed=seed).p_value if known else None
    return Difference(quantity, name, base_name, shared, gaps, p_value, None)
