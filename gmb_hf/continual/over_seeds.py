"""One number per seed, with both intervals of its mean, and variants compared on equal seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.intervals import holm, percentile_interval, resamples
from gmb_hf.benchmark.record import Record
from gmb_hf.crucible.aggregate import aggregate
from gmb_hf.crucible.significance import paired_permutation

LEAST_SEEDS = 3
"""Fewer have no interval: at two, Student's quantile is 12.7 and a bootstrap sees three means."""

BASELINE = "dense"
_DRAWS = 2000


@dataclass(frozen=True)
class OverSeeds(Record):
    """A number over seeds.

    Attributes:
        mean, std, min, max: of the seeds' values; std with ddof 1, None for one seed.
        n_seeds: how many.
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
    known = len(array) >= LEAST_SEEDS
    # Sums round; a mean of resamples is never outside of the values themselves.
    drawn = (
        percentile_interval(
            np.clip(resamples(len(array), _DRAWS, 0) @ array / len(array), array.min(), array.max())
        )
        if known
        else None
    )
    return OverSeeds(
        mean=stats.mean,
        std=stats.std,
        min=stats.min,
        max=stats.max,
        n_seeds=stats.n_seeds,
        t_low=stats.ci_low if known else None,
        t_high=stats.ci_high if known else None,
        bootstrap_low=drawn.low if drawn else None,
        bootstrap_high=drawn.high if drawn else None,
        values=tuple(array.tolist()),
    )


@dataclass(frozen=True)
class Difference(Record):
    """A quantity of one variant less that of another, on the seeds that both have.

    Attributes:
        quantity: its name.
        variant, baseline: of whom less whom.
        seeds: those that both have.
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


def differences(
    quantity: str, variants: Mapping[str, BySeed], baseline: str, *, seed: int = 0
) -> list[Difference]:
    """Hold every variant against the baseline on shared seeds, Holm over the variants.

    Args:
        quantity: its name.
        variants: name -> the value of each seed; the baseline is one of them.
        baseline: its name.
        seed: of the sign flips.
    """
    return adjusted(
        [
            difference(quantity, (name, values), (baseline, variants[baseline]), seed=seed)
            for name, values in variants.items()
            if name != baseline
        ]
    )


def adjusted(family: Sequence[Difference]) -> list[Difference]:
    """The same differences with their p-values Holm-adjusted as one family.

    One without a test asks no question, and does not weigh on those that do.
    """
    tested = [pair.p_value for pair in family if pair.p_value is not None]
    after = iter(holm(tested))
    return [
        pair if pair.p_value is None else replace(pair, p_adjusted=next(after)) for pair in family
    ]


def default_baseline(variants: Iterable[str]) -> str:
    """`dense` where it is there, else the first."""
    names = list(variants)
    return BASELINE if BASELINE in names else names[0]


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
