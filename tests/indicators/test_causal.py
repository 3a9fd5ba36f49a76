"""Trailing statistics: hand-computed cases, then naive loops over every window."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gmb_hf.indicators import causal
from gmb_hf.indicators.causal import Values

values = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 3), st.integers(1, 14)),
    elements=st.floats(-100, 100, allow_subnormal=False).map(lambda x: round(x, 3)),
)
widths = st.integers(1, 16)


def naive(x: Values, width: int, statistic: Callable[[np.ndarray], float]) -> Values:
    """`statistic` of every trailing window, one window at a time."""
    return np.array(
        [[statistic(row[max(0, t - width + 1) : t + 1]) for t in range(len(row))] for row in x]
    )


def line_slope(window: np.ndarray) -> float:
    return float(np.polyfit(np.arange(len(window)), window, 1)[0]) if len(window) > 1 else 0.0


def residuals(window: np.ndarray) -> np.ndarray:
    t = np.arange(len(window))
    return window - np.polyval(np.polyfit(t, window, min(1, len(window) - 1)), t)


def test_hand_computed() -> None:
    x = np.array([[1.0, 3.0, 2.0, 6.0]])
    np.testing.assert_array_equal(causal.trailing_mean(x, 2), [[1, 2, 2.5, 4]])
    np.testing.assert_array_equal(causal.trailing_max(x, 2), [[1, 3, 3, 6]])
    np.testing.assert_array_equal(causal.trailing_min(x, 2), [[1, 1, 2, 2]])
    np.testing.assert_allclose(causal.trailing_variance(x, 3), [[0, 1, 2 / 3, 26 / 9]])
    np.testing.assert_allclose(causal.trailing_slope(x, 2), [[0, 2, -1, 4]])
    np.testing.assert_allclose(causal.trailing_slope(x, 3), [[0, 2, 0.5, 1.5]])
    np.testing.assert_array_equal(causal.lagged(x, 2), [[1, 1, 1, 3]])
    np.testing.assert_array_equal(causal.difference(x), [[0, 2, -1, 4]])
    np.testing.assert_array_equal(causal.difference(x, 2), [[0, 2, 1, 3]])
    np.testing.assert_array_equal(causal.running_max(x), [[1, 3, 3, 6]])
    np.testing.assert_array_equal(causal.running_min(-x), [[-1, -3, -3, -6]])
    np.testing.assert_array_equal(causal.counts(4, 3), [1, 2, 3, 3])
    np.testing.assert_allclose(causal.gain(-x, 2), [[0, 0, 0, 0]])
    np.testing.assert_allclose(causal.gain(x, 1), [[0, 2, 1, 5]])
    np.testing.assert_allclose(causal.log_floored(np.array([[0.0, 1.0]])), [[np.log(1e-12), 0]])


def test_what_a_line_leaves() -> None:
    x = np.array([[0.0, 1.0, 2.0, 3.0, 3.0]])  # a line, then a bend
    variance, correlation = causal.detrended_moments(x, 4)
    np.testing.assert_allclose(variance[0, :4], 0, atol=1e-25)
    np.testing.assert_array_equal(correlation[0, :4], 0)
    left = residuals(x[0, 1:])
    np.testing.assert_allclose(variance[0, 4], left.var())
    np.testing.assert_allclose(correlation[0, 4], (left[1:] * left[:-1]).sum() / (left**2).sum())


@given(values, widths)
def test_against_one_window_at_a_time(x: Values, width: int) -> None:
    pairs = [
        (causal.trailing_mean, np.mean),
        (causal.trailing_max, np.max),
        (causal.trailing_min, np.min),
        (causal.trailing_variance, np.var),
        (causal.trailing_slope, line_slope),
        (lambda y, w: causal.detrended_moments(y, w)[0], lambda window: residuals(window).var()),
    ]
    for fast, slow in pairs:
        np.testing.assert_allclose(fast(x, width), naive(x, width, slow), rtol=1e-9, atol=1e-8)


@given(values, st.integers(3, 8))
def test_autocorrelation_against_one_window_at_a_time(x: Values, width: int) -> None:
    def slow(window: np.ndarray) -> float:
        left = residuals(window)
        if len(window) < width or (left**2).sum() < 1e-9:
            return np.nan  # not defined, or too close to rounding to compare
        return float((left[1:] * left[:-1]).sum() / (left**2).sum())

    expected = naive(x, width, slow)
    found = causal.detrended_moments(x, width)[1]
    known = ~np.isnan(expected)
    np.testing.assert_allclose(found[known], expected[known], rtol=1e-6, atol=1e-9)
    assert np.isfinite(found).all()
    assert (found[:, : width - 1] == 0).all()


@given(values, st.integers(0, 16))
def test_lags_and_running_extremes(x: Values, lag: int) -> None:
    held = np.array([[row[max(t - lag, 0)] for t in range(len(row))] for row in x])
    np.testing.assert_array_equal(causal.lagged(x, lag), held)
    np.testing.assert_array_equal(causal.difference(x, lag), x - held)
    whole = x.shape[1]
    np.testing.assert_array_equal(causal.running_max(x), causal.trailing_max(x, whole))
    np.testing.assert_array_equal(causal.running_min(x), causal.trailing_min(x, whole))


@given(values)
def test_units_of_the_past_survive_a_change_of_scale(x: Values) -> None:
    for name in ("place", "deviations", "relative_difference"):
        found = STATISTICS[name](x, 3)
        assert np.isfinite(found).all()
        np.testing.assert_array_equal(STATISTICS[name](4 * x, 3), found)
    assert ((place := STATISTICS["place"](x, 3)) >= 0).all()
    assert (place <= 1).all()


@given(values)
def test_deviations_are_those_of_the_mean_and_sd_so_far(x: Values) -> None:
    sd = naive(x, x.shape[1], np.std)
    expected = (x - naive(x, x.shape[1], np.mean)) / np.where(sd > 0, sd, 1)
    clear = sd > 1e-3 * (1 + naive(x, x.shape[1], lambda w: np.abs(w).max()))
    found = causal.deviations_so_far(x)
    np.testing.assert_allclose(found[clear], expected[clear], rtol=1e-6, atol=1e-7)


STATISTICS = {
    "mean": causal.trailing_mean,
    "max": causal.trailing_max,
    "min": causal.trailing_min,
    "variance": causal.trailing_variance,
    "slope": causal.trailing_slope,
    "detrended_variance": lambda x, width: causal.detrended_moments(x, width)[0],
    "autocorrelation": lambda x, width: causal.detrended_moments(x, width)[1],
    "lagged": causal.lagged,
    "difference": causal.difference,
    "running_max": lambda x, width: causal.running_max(x),
    "running_min": lambda x, width: causal.running_min(x),
    "place": lambda x, width: causal.place_so_far(x),
    "deviations": lambda x, width: causal.deviations_so_far(x),
    "relative_difference": causal.relative_difference,
}


@pytest.mark.parametrize("name", STATISTICS)
def test_a_nan_spoils_only_the_windows_it_lies_in(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 30))
    x[0, 10] = np.nan
    found = STATISTICS[name](x, 4)
    assert np.isfinite(found[1]).all()
    assert np.isfinite(found[0, :10]).all()
    assert np.isfinite(found[0, 15:]).all()
    assert np.isnan(found[0, 10:15]).any()


@pytest.mark.parametrize("name", STATISTICS)
def test_a_run_has_the_same_bits_in_any_company(name: str) -> None:
    x = np.random.default_rng(1).standard_normal((7, 40)).cumsum(axis=1)
    whole = STATISTICS[name](x, 5)
    np.testing.assert_array_equal(STATISTICS[name](x[3:4], 5), whole[3:4])
    np.testing.assert_array_equal(STATISTICS[name](x[:, :17], 5), whole[:, :17])


@pytest.mark.parametrize("level", [0.1, 1e6, -3.3e-7])
def test_equal_values_have_no_variance_slope_or_correlation(level: float) -> None:
    x = np.full((1, 20), level)
    assert (causal.trailing_variance(x, 7) == 0).all()
    assert (causal.trailing_slope(x, 7) == 0).all()
    variance, correlation = causal.detrended_moments(x, 7)
    assert (variance == 0).all()
    assert (correlation == 0).all()


def test_a_small_variance_survives_a_large_level() -> None:
    x = 1e8 + np.random.default_rng(2).standard_normal((1, 50))
    np.testing.assert_allclose(
        causal.trailing_variance(x, 10), naive(x, 10, np.var), rtol=1e-6, atol=0
    )
