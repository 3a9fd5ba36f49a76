"""Intervals over runs: exactness of the weights, of the quantiles and of the binomial bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from gmb_hf.base.stats import (
    exact_binomial,
    percentile_interval,
    quantile_intervals,
    ratio_interval,
    resamples,
)


def test_a_resample_draws_as_many_runs_as_there_are() -> None:
    weights = resamples(7, 500, seed=1)
    assert weights.shape == (500, 7)
    assert (weights.sum(axis=1) == 7).all()
    assert np.array_equal(weights, resamples.__wrapped__(7, 500, seed=1))
    assert not np.array_equal(weights, resamples(7, 500, seed=2))


def test_the_ratio_of_each_resample() -> None:
    weights = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    interval = ratio_interval(np.array([1.0, 3.0]), np.array([2.0, 4.0]), weights)
    assert interval is not None
    low, high = np.quantile([0.5, 4 / 6, 0.75], [0.025, 0.975])
    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert interval.method == "run bootstrap"


def test_resamples_without_a_denominator_do_not_count() -> None:
    weights = np.array([[2.0, 0.0], [0.0, 2.0]])
    interval = ratio_interval(np.array([0.0, 3.0]), np.array([0.0, 4.0]), weights)
    assert interval is not None
    assert (interval.low, interval.high) == (0.75, 0.75)
    assert ratio_interval(np.zeros(2), np.zeros(2), weights) is None


def test_the_interval_has_its_level() -> None:
    # Mean of 200 run rates with known spread: half-width 1.96 sd / sqrt(n).
    rates = np.random.default_rng(0).exponential(size=200)
    interval = ratio_interval(rates, np.ones(200), resamples(200, 2000, seed=0))
    assert interval is not None
    half = 1.96 * rates.std() / np.sqrt(200)
    assert (interval.high - interval.low) / 2 == pytest.approx(half, rel=0.05)


def test_quantiles_are_those_of_the_resample_written_out() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=9)
    weights = np.vstack([rng.integers(0, 4, size=(50, 9)), np.zeros((1, 9))]).astype(float)
    found = quantile_intervals(values, (0.05, 0.5, 0.75), weights)
    written = [np.repeat(values, row.astype(int)) for row in weights[:-1]]
    for quantile, draws in zip((0.05, 0.5, 0.75), found, strict=True):
        assert draws == pytest.approx([np.quantile(one, quantile) for one in written])


def test_no_draws_no_interval() -> None:
    assert percentile_interval(np.zeros(0)) is None


@pytest.mark.parametrize(("k", "n"), [(0, 1), (0, 40), (3, 40), (40, 40), (5, 7)])
def test_exact_binomial_equals_scipy(k: int, n: int) -> None:
    expected = binomtest(k, n).proportion_ci(0.95, method="exact")
    interval = exact_binomial(k, n)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
