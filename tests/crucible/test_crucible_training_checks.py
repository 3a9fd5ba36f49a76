"""Exposure and guardrails: the spec's example to the digit, and every line between two levels."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson

from gmb_hf.base.errors import InputError
from gmb_hf.crucible.exposure import (
    Level,
    Pool,
    PoolExposure,
    check_fingerprints,
    check_frozen_tier3,
    check_organic,
    check_pools,
    check_q10_margin,
    dilution_status,
    expected_exposures,
    worst,
)


def check_dilution(expected):
    pool = PoolExposure("legacy", 1, 1.0, expected, expected, 0, 0, dilution_status(expected))
    return check_pools([pool])[0]


TRAINING = {"steps": 10_000, "batch_size": 32, "probability": 0.10}


def test_the_example_of_the_specification():
    pools = [Pool("legacy", 454, 0.75), Pool("organic", 100, 0.25)]
    legacy, organic = expected_exposures(**TRAINING, pools=pools)
    assert legacy.draws == 24_000
    assert f"{legacy.expected:.1f}" == "52.9"
    assert legacy.status == "healthy"
    assert (organic.draws, organic.expected) == (8000, 80.0)
    # By the definition of a quantile, the first count whose probability reaches it.
    for share, count in ((0.05, legacy.low), (0.95, legacy.high)):
        assert poisson.cdf(count - 1, legacy.expected) < share
        assert poisson.cdf(count, legacy.expected) >= share


@pytest.mark.parametrize(
    ("expected", "status"),
    [
        (50, "healthy"),
        (math.nextafter(50, 0), "warning"),
        (30, "warning"),
        (math.nextafter(30, 0), "critical"),
        (10, "critical"),
        (math.nextafter(10, 0), "severe"),
        (0, "severe"),
    ],
)
def test_dilution_thresholds(expected, status):
    assert dilution_status(expected) == status
    order = {"healthy": 0, "warning": 1, "critical": 2, "severe": 3}
    assert check_dilution(expected).level == order[status]


def test_an_empty_pool_gives_its_draws_to_the_others():
    pools = [Pool("legacy", 100, 0.5), Pool("organic", 0, 0.2), Pool("new", 50, 0.3)]
    found = expected_exposures(**TRAINING, pools=pools)
    assert [item.name for item in found] == ["legacy", "organic", "new"]
    assert [item.ratio for item in found] == [pytest.approx(0.625), 0.0, pytest.approx(0.375)]
    empty = found[1]
    assert (empty.expected, empty.low, empty.high, empty.status) == (None,) * 4
    assert [finding.check for finding in check_pools(found)] == ["dilution"] * 2


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 9)), min_size=1, max_size=5),
    st.integers(1, 10_000),
    st.floats(0, 1),
)
def test_exposures_are_the_formula_and_no_draw_is_lost(given_pools, steps, probability):
    total = sum(weight for _, weight in given_pools)
    if not sum(weight for size, weight in given_pools if size):
        return
    pools = [
        Pool(str(place), size, weight / total) for place, (size, weight) in enumerate(given_pools)
    ]
    found = expected_exposures(steps=steps, batch_size=8, probability=probability, pools=pools)
    everything = steps * 8 * probability
    assert math.fsum(item.draws for item in found) == pytest.approx(everything)
    filled = math.fsum(pool.ratio for pool in pools if pool.size)
    for pool, item in zip(pools, found, strict=True):
        if pool.size:
            expected = everything * (pool.ratio / filled) / pool.size
            assert item.expected == pytest.approx(expected)
            assert item.low <= item.expected + 1
            assert item.low <= item.high


def test_no_draws_are_no_exposures():
    training = {**TRAINING, "probability": 0.0}
    (found,) = expected_exposures(**training, pools=[Pool("legacy", 4, 1.0)])
    assert (found.expected, found.low, found.high, found.status) == (0.0, 0, 0, "severe")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"batch_size": 1.5}, "batch_size must be a whole number"),
        ({"probability": 1.5}, r"probability must be a number in \[0, 1\]"),
        ({"probability": math.nan}, r"probability must be a number in \[0, 1\]"),
        ({"pools": []}, "no pools given"),
        ({"pools": [Pool("", 1, 1.0)]}, "a pool has no name"),
        ({"pools": [Pool("a", 1, 0.5)]}, "ratios of the pools add up to 0.5, not to 1"),
        ({"pools": [Pool("a", 1, 0.5), Pool("a", 2, 0.5)]}, "pool 'a' is given twice"),
        ({"pools": [Pool("a", -1, 1.0)]}, "pool 'a': size must be a whole number of at least 0"),
        ({"pools": [Pool("a", 1, -0.5), Pool("b", 1, 1.5)]}, "pool 'a': ratio must be a number"),
        ({"pools": [Pool("a", 0, 1.0)]}, "every pool that is drawn from is empty"),
    ],
)
def test_trainings_that_cannot_be(changes, message):
    with pytest.raises(InputError, match=message):
        expected_exposures(**{**TRAINING, "pools": [Pool("a", 1, 1.0)], **changes})


def test_ratios_of_ten_tenths_add_up():
    pools = [Pool(str(place), 10, 0.1) for place in range(10)]
    assert len(expected_exposures(**TRAINING, pools=pools)) == 10


@pytest.mark.parametrize(
    ("before", "after", "level"),
    [
        (0.92, 0.90, Level.OK),  # exactly two points are not more than two
        (0.92, 0.899, Level.CRITICAL),
        (0.90, 0.95, Level.OK),
        (None, 0.9, Level.WARNING),
        (0.9, None, Level.WARNING),
    ],
)
def test_frozen_tier3(before, after, level):
    assert check_frozen_tier3(before, after).level == level


@pytest.mark.parametrize(
    ("before", "after", "level"),
    [
        (0.10, 0.05, Level.OK),
        (0.10, 0.049, Level.WARNING),
        (-0.1, -0.2, Level.WARNING),
        (-0.2, 0.1, Level.OK),
        (None, None, Level.WARNING),
    ],
)
def test_q10_margin(before, after, level):
    assert check_q10_margin(before, after).level == level


@pytest.mark.parametrize(
    ("frozen", "organic", "level"),
    [
        ((0.8, 0.9), (0.7, 0.6), Level.WARNING),
        ((0.9, 0.8), (0.7, 0.6), Level.OK),
        ((0.8, 0.8), (0.7, 0.6), Level.OK),
        ((0.8, 0.9), (0.6, 0.6), Level.OK),
        ((0.8, None), (0.6, 0.6), Level.WARNING),
    ],
)
def test_organic_against_frozen(frozen, organic, level):
    assert check_organic(frozen, organic).level == level


def test_a_fingerprint_mismatch_is_severe():
    assert check_fingerprints([]).level == Level.OK
    found = check_fingerprints(["seed is 1 here and 2 there"])
    assert found.level == Level.SEVERE
    assert found.to_dict()["level"] == "SEVERE"


def test_the_worst_of_findings():
    assert worst([]) == Level.OK
    assert worst([check_dilution(60), check_dilution(20), check_dilution(40)]) == Level.CRITICAL


@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan])
def test_rates_that_are_none(wrong):
    with pytest.raises(InputError, match=r"a pass rate must be in \[0, 1\]"):
        check_frozen_tier3(wrong, 0.5)
    with pytest.raises(InputError, match=r"a pass rate must be in \[0, 1\]"):
        check_organic((0.5, wrong), (0.5, 0.5))


def test_margins_and_exposures_that_are_none():
    with pytest.raises(InputError, match="q10 margin: needs finite numbers"):
        check_q10_margin(math.inf, 0.5)
    with pytest.raises(InputError, match="expected exposures must be a number of at least 0"):
        dilution_status(-1.0)
