"""Over seeds and between models: intervals, tests, and the frontier."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from crucible_oracles import mean
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binomtest, permutation_test, t, ttest_1samp

from gmb_hf.base.errors import InputError
from gmb_hf.base.stats import (
    aggregate,
    hierarchical_bootstrap,
    holm,
    mcnemar,
    meets_separation_rule,
    paired_permutation,
)
from gmb_hf.crucible.pareto import dominance_probability, pareto_frontier

bits = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)
points = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=15)


def rows(pairs) -> list[dict[str, float]]:
    return [
        {"name": str(place), "frozen_tier3": x / 4, "organic_holdout": y / 4}
        for place, (x, y) in enumerate(pairs)
    ]


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8))
def test_aggregate_is_the_student_interval_of_scipy(values):
    assume(np.std(values) > 1e-6)
    found = aggregate(values)
    theirs = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (found.ci_low, found.ci_high) == (
        pytest.approx(theirs.low, abs=1e-9),
        pytest.approx(theirs.high, abs=1e-9),
    )
    centre = mean(values)
    spread = math.sqrt(sum((value - centre) ** 2 for value in values) / (len(values) - 1))
    assert found.mean == pytest.approx(centre)
    assert found.std == pytest.approx(spread)
    assert (found.min, found.max, found.n_seeds) == (min(values), max(values), len(values))
    normal = aggregate(values, method="normal")
    assert normal.ci_high - normal.mean == pytest.approx(1.96 * spread / math.sqrt(len(values)))


def test_one_seed_has_no_interval():
    found = aggregate([0.5])
    assert (found.std, found.ci_low, found.ci_high) == (None, None, None)
    assert (found.mean, found.n_seeds) == (0.5, 1)


def test_the_normal_interval_of_three_seeds_covers_about_81_percent():
    # Its reach in standard errors is 1.96, whose probability is Student's with two degrees.
    assert 1 - 2 * t.sf(1.96, 2) == pytest.approx(0.81, abs=0.005)
    draws = np.random.default_rng(0).normal(size=(4000, 3))
    reach = 1.96 * draws.std(axis=1, ddof=1) / math.sqrt(3)
    assert (np.abs(draws.mean(axis=1)) <= reach).mean() == pytest.approx(0.81, abs=0.02)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "no seeds to aggregate"),
        ([0.5, None], "value of seed number 2 is None"),
        ([math.nan], "value of seed number 1 is nan"),
    ],
)
def test_seeds_without_a_value_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        aggregate(values)


def test_an_unknown_interval_is_refused():
    with pytest.raises(InputError, match="method 'student' is unknown; known: normal, t"):
        aggregate([0.5], method="student")


def test_the_two_point_rule_is_of_three_seeds():
    assert meets_separation_rule([0.80, 0.81, 0.82], [0.82, 0.83, 0.84]) is True
    assert meets_separation_rule([0.80, 0.81, 0.82], [0.81, 0.82, 0.83]) is False
    assert meets_separation_rule([0.80, 0.81], [0.9, 0.9]) is None


@given(bits)
def test_mcnemar_is_the_exact_binomial_test(pairs):
    first, second = zip(*pairs, strict=True)
    found = mcnemar(first, second)
    b = sum(one and not other for one, other in pairs)
    c = sum(other and not one for one, other in pairs)
    assert (found.only_first, found.only_second) == (b, c)
    expected = binomtest(b, b + c).pvalue if b + c else 1.0
    assert found.p_value == pytest.approx(expected)


def test_mcnemar_needs_passes():
    with pytest.raises(InputError, match="McNemar's test needs passes"):
        mcnemar([0.5, 1], [0, 1])


@pytest.mark.parametrize("n", [2, 3, 8, 12])
def test_few_pairs_have_the_p_value_of_scipy(n: int) -> None:
    first, second = np.random.default_rng(n).normal(size=(2, n))
    # Signs by pairs, the sum's size as statistic; scipy takes all 2^n where so many are asked for.
    expected = permutation_test(
        (second - first,),
        lambda x, axis: np.abs(x.sum(axis)),
        permutation_type="samples",
        vectorized=True,
        alternative="greater",
        n_resamples=2**n,
    )
    assert paired_permutation(first, second).p_value == pytest.approx(expected.pvalue, rel=1e-12)


def test_permutation_p_value_is_the_exact_one_of_few_pairs_and_near_it_of_more():
    first = np.zeros(10)
    second = np.array([0.5, 0.25, -0.125, 1, 0.5, -0.25, 0.75, 0.5, 0.125, 0.0])
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, second, strict=True)))
        for signs in itertools.product((-1, 1), repeat=10)
    ]
    exact = mean([total >= abs(second.sum()) for total in sums])
    found = paired_permutation(first, second)
    assert found.difference == pytest.approx(second.mean())
    assert found.p_value == pytest.approx(exact, rel=1e-12)
    assert found.permutations == 2**9 - 1  # the pair without a difference has no sign
    drawn = paired_permutation(first, second, permutations=500)
    assert drawn.permutations == 500
    assert drawn.p_value == pytest.approx(exact, abs=0.03)


def test_permutation_counts_the_observed_labelling():
    found = paired_permutation(np.zeros(50), np.ones(50), permutations=99)
    assert found.p_value == 1 / 100
    # The p-value is b + 1 over m + 1 for a whole b.
    noise = np.random.default_rng(0).normal(size=50)
    p_value = paired_permutation(np.zeros(50), noise, permutations=99).p_value
    assert p_value * 100 == pytest.approx(round(p_value * 100))


def test_equal_models_do_not_differ():
    values = np.random.default_rng(0).normal(size=30)
    assert paired_permutation(values, values, permutations=99).p_value == 1.0
    found = hierarchical_bootstrap([values, values], [values, values], draws=100)
    assert (found.difference, found.ci_low, found.ci_high) == (0.0, 0.0, 0.0)


def test_permutation_does_not_depend_on_the_size_of_its_chunks(monkeypatch):
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, 40))
    whole = paired_permutation(first, second, permutations=500)
    monkeypatch.setattr("gmb_hf.base.stats._CHUNK", 40)
    assert paired_permutation(first, second, permutations=500) == whole


def test_permutation_keeps_its_level():
    rng = np.random.default_rng(2)
    p_values = [
        paired_permutation(*rng.normal(size=(2, 12)), permutations=199, seed=seed).p_value
        for seed in range(400)
    ]
    assert mean([value <= 0.05 for value in p_values]) == pytest.approx(0.05, abs=0.03)


def test_bootstrap_over_seeds_and_items_covers_the_truth():
    rng = np.random.default_rng(3)
    covered = []
    for draw in range(150):
        item = rng.normal(size=60)  # what is hard for one seed is hard for all
        first = item + rng.normal(size=(8, 1)) * 0.1 + rng.normal(size=(8, 60)) * 0.3
        gain = rng.normal(0.2, 0.2, size=60)
        second = item + gain + rng.normal(size=(8, 1)) * 0.1 + rng.normal(size=(8, 60)) * 0.3
        found = hierarchical_bootstrap(first, second, draws=300, seed=draw)
        covered.append(found.ci_low <= 0.2 <= found.ci_high)
    assert mean(covered) > 0.88


def test_seeds_widen_the_bootstrap_interval():
    rng = np.random.default_rng(4)
    first = np.tile(rng.normal(size=100), (4, 1))
    alike = hierarchical_bootstrap(first, first + 0.1)
    spread = hierarchical_bootstrap(first, first + np.array([[0.4], [0.0], [0.1], [-0.1]]))
    assert alike.ci_low == pytest.approx(0.1)
    assert spread.difference == pytest.approx(0.1)
    assert spread.ci_low < 0 < spread.ci_high


@pytest.mark.parametrize("test", [paired_permutation, mcnemar])
@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1, 0], [1], r"one number per item for both models, got \(2,\) and \(1,\)"),
        ([], [], "needs at least one item"),
        ([1, math.nan], [1, 0], "needs finite numbers"),
    ],
)
def test_pairs_that_are_none(test, first, second, message):
    with pytest.raises(InputError, match=message):
        test(first, second)


def test_bootstrap_needs_the_same_items():
    with pytest.raises(InputError, match=r"on the same items, got \(2, 3\) and \(2, 4\)"):
        hierarchical_bootstrap(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(InputError, match="finite"):
        hierarchical_bootstrap([[math.nan]], [[1.0]])


def test_a_seed_below_zero_is_refused():
    for call in (
        lambda: paired_permutation([1.0], [2.0], seed=-1),
        lambda: hierarchical_bootstrap([[1.0]], [[2.0]], seed=-1),
        lambda: dominance_probability((np.ones(1),) * 2, (np.ones(1),) * 2, seed=-1),
    ):
        with pytest.raises(InputError, match="seed must be a whole number of at least 0, got -1"):
            call()


def test_holm_adjusts_a_sweep():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


@given(points)
def test_the_frontier_is_the_published_loop(pairs):
    results = rows(pairs)
    expected = [
        one
        for one in results
        if not any(
            other["frozen_tier3"] >= one["frozen_tier3"]
            and other["organic_holdout"] >= one["organic_holdout"]
            and (
                other["frozen_tier3"] > one["frozen_tier3"]
                or other["organic_holdout"] > one["organic_holdout"]
            )
            for other in results
        )
    ]
    assert pareto_frontier(results) == expected


def test_duplicates_on_the_frontier_are_kept():
    results = rows([(1, 1), (1, 1), (0, 0)])
    assert pareto_frontier(results) == results[:2]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"name": "b", "frozen_tier3": 0.5}, r"result 1 \(b\): organic_holdout .* it is missing"),
        ({"frozen_tier3": None, "organic_holdout": 1}, "result 1: frozen_tier3 .* it is None"),
        ({"frozen_tier3": math.nan, "organic_holdout": 1}, "result 1: frozen_tier3 .* it is nan"),
        ({"frozen_tier3": "1", "organic_holdout": 1}, "result 1: frozen_tier3 .* it is '1'"),
        ({"frozen_tier3": True, "organic_holdout": 1}, "result 1: frozen_tier3 .* it is True"),
    ],
)
def test_a_result_without_a_number_is_refused(row, message):
    with pytest.raises(InputError, match=message):
        pareto_frontier([*rows([(1, 1)]), row])


def test_dominance_is_sure_where_every_item_says_so():
    better, worse = np.ones(20), np.zeros(20)
    assert dominance_probability((better, worse), (better, worse), draws=50) == 1.0
    assert dominance_probability((worse, better), (better, worse), draws=50) == 0.0
    assert dominance_probability((better, better), (worse, worse), draws=50) == 0.0


def test_dominance_probability_is_that_of_the_resamples():
    # One frozen item of three is gained: it is drawn at least once with 1 - (2/3)**3.
    gained, none = (np.array([1, 0, 0]), np.zeros(3)), (np.ones(4), np.ones(4))
    found = dominance_probability(gained, none, draws=20_000, seed=1)
    assert found == pytest.approx(1 - (2 / 3) ** 3, abs=0.01)


def test_dominance_needs_paired_items():
    with pytest.raises(InputError, match="frozen: 2 items against 3"):
        dominance_probability((np.ones(2), np.ones(3)), (np.ones(2), np.ones(2)))
    with pytest.raises(InputError, match="organic: no items"):
        dominance_probability((np.ones(2), np.ones(2)), (np.ones(0), np.ones(0)))
