"""Margins and ranks against the spec's formulas, scipy's ranks and scikit-learn's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from crucible_oracles import (
    Item,
    flat,
    items,
    linear_quantile,
    margin_stats_of,
    mean,
    rank_stats_of,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.metrics import label_ranking_average_precision_score

from gmb_hf.base.errors import InputError
from gmb_hf.crucible.margins import Similarities, margins, ranks

HAND = [Item([0.75, 0.5, 0.25], 0), Item([0.5, 0.25, 0.5], 1), Item([0.5, 0.5], 0)]
"""Margins .25, -.25 and 0; strict ranks 1, 3 and 1, pessimistic ones 1, 3 and 2."""


def test_margins_by_hand():
    found = margin_stats_of(flat(HAND))
    assert margins(flat(HAND)).tolist() == [0.25, -0.25, 0.0]
    assert found.to_dict() == {
        "mean_margin": 0.0,
        "mean_danger": 0.0,
        "q10_margin": pytest.approx(-0.2),
        "median_margin": 0.0,
        "q90_margin": pytest.approx(0.2),
        "pass_rate": pytest.approx(1 / 3),
        "tie_rate": pytest.approx(1 / 3),
        "n": 3,
        "n_skipped": 0,
    }
    assert math.copysign(1, found.mean_danger) == 1


def test_ranks_by_hand():
    found = rank_stats_of(flat(HAND))
    assert found.to_dict() == {
        "mean_rank": pytest.approx(5 / 3),
        "mean_rank_realistic": pytest.approx(5.5 / 3),
        "mean_rank_pessimistic": 2.0,
        # The realistic ranks exceed 1 by 0 + 2 + .5; by chance by (2 + 2 + 1) / 2.
        "adjusted_mean_rank_index": 0.0,
        "chance_pass_rate": pytest.approx((1 / 3 + 1 / 3 + 1 / 2) / 3),
        "mrr": pytest.approx((1 + 1 / 3 + 1 / 2) / 3),
        "hits@1": pytest.approx(1 / 3),
        "hits@5": 1.0,
        "n": 3,
        "n_skipped": 0,
    }


def test_a_margin_of_zero_fails_and_is_a_tie():
    found = margin_stats_of(Similarities.of_lists([[0.5, 0.5, 0.1]], [0]))
    assert (found.pass_rate, found.tie_rate) == (0.0, 1.0)


def test_without_items_every_statistic_is_none():
    empty = Similarities.of_lists([[0.1]], [0], empty="skip")
    margin, rank = margin_stats_of(empty).to_dict(), rank_stats_of(empty).to_dict()
    assert (margin.pop("n"), margin.pop("n_skipped")) == (0, 1)
    assert (rank.pop("n"), rank.pop("n_skipped")) == (0, 1)
    assert set(margin.values()) == set(rank.values()) == {None}


@given(items)
def test_margins_are_the_formula(drawn: list[Item]):
    similarities = flat(drawn)
    assert margins(similarities).tolist() == [one.margin for one in drawn]
    found, expected = margin_stats_of(similarities), [one.margin for one in drawn]
    scale = max(1.0, *map(abs, expected))
    assert found.mean_margin == pytest.approx(mean(expected), abs=1e-12 * scale)
    assert found.mean_danger == -found.mean_margin
    for name, share in (("q10_margin", 0.1), ("median_margin", 0.5), ("q90_margin", 0.9)):
        near = pytest.approx(linear_quantile(expected, share), abs=1e-12 * scale)
        assert getattr(found, name) == near
    assert found.pass_rate == pytest.approx(mean([value > 0 for value in expected]))
    assert found.tie_rate == pytest.approx(mean([value == 0 for value in expected]))
    assert found.n == len(drawn)


@given(items)
def test_ranks_are_the_formula_and_those_of_scipy(drawn: list[Item]):
    found = ranks(flat(drawn))
    assert found.strict.tolist() == [one.strict for one in drawn]
    assert found.pessimistic.tolist() == [one.pessimistic for one in drawn]
    for method, mine in (
        ("min", found.strict),
        ("average", found.realistic),
        ("max", found.pessimistic),
    ):
        theirs = [rankdata(-np.array(one.candidates), method)[one.positive] for one in drawn]
        assert mine.tolist() == theirs


@given(items)
def test_rank_statistics_are_the_formulas(drawn: list[Item]):
    similarities = flat(drawn)
    found = rank_stats_of(similarities, hits=(1, 3))
    realistic = [(one.strict + one.pessimistic) / 2 for one in drawn]
    by_chance = [1 + len(one.negatives) / 2 for one in drawn]
    index = 1 - (mean(realistic) - 1) / (mean(by_chance) - 1)
    assert found.mean_rank == pytest.approx(mean([one.strict for one in drawn]))
    assert found.mean_rank_realistic == pytest.approx(mean(realistic))
    assert found.adjusted_mean_rank_index == pytest.approx(index, abs=1e-12)
    chance = mean([1 / len(one.candidates) for one in drawn])
    assert found.chance_pass_rate == pytest.approx(chance)
    assert found.mrr == pytest.approx(mean([1 / one.pessimistic for one in drawn]))
    assert found.hits[3] == pytest.approx(mean([one.pessimistic <= 3 for one in drawn]))
    # An item passes if and only if its pessimistic rank is 1.
    assert found.hits[1] == margin_stats_of(similarities).pass_rate


@given(items)
def test_mrr_is_the_label_ranking_of_scikit_learn(drawn: list[Item]):
    # It takes rectangles of finite scores: candidates far below all others pad the short items.
    width = max(len(one.candidates) for one in drawn)
    scores = np.full((len(drawn), width), -1e12)
    labels = np.zeros((len(drawn), width), dtype=int)
    for row, one in enumerate(drawn):
        scores[row, : len(one.candidates)] = one.candidates
        labels[row, one.positive] = 1
    theirs = label_ranking_average_precision_score(labels, scores)
    assert rank_stats_of(flat(drawn)).mrr == pytest.approx(theirs)


@given(items, st.randoms())
def test_the_order_of_items_and_candidates_does_not_matter(drawn: list[Item], random):
    shuffled = []
    for one in random.sample(drawn, len(drawn)):
        places = random.sample(range(len(one.candidates)), len(one.candidates))
        candidates = [one.candidates[place] for place in places]
        shuffled.append(Item(candidates, places.index(one.positive)))
    before, after = flat(drawn), flat(shuffled)
    assert sorted(margins(before)) == sorted(margins(after))
    assert sorted(ranks(before).realistic) == sorted(ranks(after).realistic)


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_hits_need_a_whole_k(k):
    with pytest.raises(InputError, match="k of hits@k must be a whole number"):
        rank_stats_of(flat(HAND), hits=(k,))


def test_a_random_model_has_an_adjusted_index_near_zero_and_passes_by_chance():
    rng = np.random.default_rng(0)
    counts = rng.integers(2, 12, 20_000)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    found = Similarities.of_flat(rng.normal(size=counts.sum()), offsets, rng.integers(0, counts))
    stats = rank_stats_of(found)
    assert stats.adjusted_mean_rank_index == pytest.approx(0, abs=0.02)
    assert margin_stats_of(found).pass_rate == pytest.approx(stats.chance_pass_rate, abs=0.01)
