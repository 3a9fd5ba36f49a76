"""Tiers: the reference's rule, the frozen cutoffs, and what is refused."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.crucible.margins import TIERS, Tiers, assign_tiers, fit_tiers

ORIGIN = {"encoder": "model", "corpus_hash": "0" * 64}


def as_published(dangers: list[float], thresholds: tuple[float, float]) -> list[str]:
    """The algorithm of the spec, its index clipped."""
    ranked = sorted(dangers)
    t1_cutoff = ranked[min(int(len(dangers) * thresholds[0]), len(dangers) - 1)]
    t2_cutoff = ranked[min(int(len(dangers) * thresholds[1]), len(dangers) - 1)]
    return [
        TIERS[0] if danger <= t1_cutoff else TIERS[1] if danger <= t2_cutoff else TIERS[2]
        for danger in dangers
    ]


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=60),
    st.sampled_from([(0.7, 0.9), (0.5, 1.0), (0.1, 0.11)]),
)
def test_method_spec_is_the_published_algorithm(dangers, thresholds):
    tiers = fit_tiers(dangers, method="spec", thresholds=thresholds, **ORIGIN)
    assert assign_tiers(tiers, dangers).tolist() == as_published(dangers, thresholds)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 11, 100, 454, 1001, 3786])
def test_distinct_dangers_put_ceil_n_t_items_below_each_cutoff(n):
    dangers = np.random.default_rng(n).permutation(n) / n
    counts = fit_tiers(dangers, **ORIGIN).counts
    easy = math.ceil(n * Fraction(7, 10))
    robust = math.ceil(n * Fraction(9, 10)) - easy
    assert list(counts.values()) == [easy, robust, n - easy - robust]


def test_ten_items_by_both_methods():
    dangers = [value / 10 for value in range(10)]
    tiers = fit_tiers(dangers, **ORIGIN)
    assert (tiers.t1_cutoff, tiers.t2_cutoff) == (0.6, 0.8)
    assert tiers.counts == {"tier1_easy": 7, "tier2_robust": 2, "tier3_adversarial": 1}
    published = fit_tiers(dangers, method="spec", **ORIGIN)
    assert published.notes[0].startswith("tier3_adversarial holds none of the 10 items")
    assert (published.t1_cutoff, published.t2_cutoff) == (0.7, 0.9)


def test_a_tie_at_a_cutoff_goes_to_the_easier_tier():
    tiers = fit_tiers([0.0] * 9 + [1.0], **ORIGIN)
    assert tiers.notes[0].startswith("tier2_robust holds none")
    assert tiers.counts == {"tier1_easy": 9, "tier2_robust": 0, "tier3_adversarial": 1}


def test_assigning_never_fits_again():
    tiers = fit_tiers(np.arange(100) / 100, **ORIGIN)
    assert set(assign_tiers(tiers, [5.0, 6.0, 7.0])) == {"tier3_adversarial"}
    assert set(assign_tiers(tiers, [-1.0, 0.69])) == {"tier1_easy"}
    assert assign_tiers(tiers, []).tolist() == []


def test_tiers_survive_their_file(tmp_path):
    tiers = fit_tiers(np.random.default_rng(0).normal(size=50), **ORIGIN)
    assert Tiers.read(tiers.write(tmp_path / "tiers.json")) == tiers


@pytest.mark.parametrize("pair", [(0.9, 0.7), (0.7, 0.7), (0.0, 0.9), (0.7, 1.1), (math.nan, 0.9)])
def test_thresholds_out_of_order_are_refused(pair):
    with pytest.raises(InputError, match="thresholds must be two numbers with 0 < t1 < t2 <= 1"):
        fit_tiers([0.1, 0.2], thresholds=pair, **ORIGIN)


def test_three_thresholds_are_refused():
    with pytest.raises(InputError, match=r"two numbers.*got 0\.1, 0\.2, 0\.3"):
        fit_tiers([0.1, 0.2], thresholds=(0.1, 0.2, 0.3), **ORIGIN)


def test_dangers_that_say_nothing_are_refused():
    with pytest.raises(InputError, match="no items to fit tiers on"):
        fit_tiers([], **ORIGIN)
    with pytest.raises(InputError, match="danger of item 1 is nan"):
        fit_tiers([0.1, math.nan], **ORIGIN)
    with pytest.raises(InputError, match="must have one dimension"):
        fit_tiers([[0.1]], **ORIGIN)


def test_another_method_or_encoder_is_refused():
    with pytest.raises(InputError, match="method 'linear' is unknown"):
        fit_tiers([0.1], method="linear", **ORIGIN)
    tiers = fit_tiers(np.arange(10) / 10, **ORIGIN)
    with pytest.raises(InputError, match=r"fitted with encoder 'model'.*come from 'other'"):
        assign_tiers(tiers, [0.1], encoder="other")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t1_cutoff": 5.0}, "t1_cutoff 5.0 is above t2_cutoff"),
        ({"counts": {"tier1": 10}}, "tier 'tier1' is unknown.*Did you mean 'tier1_easy'"),
        ({"counts": {"tier1_easy": 3}}, "counts add up to 3, not to n, 10"),
        ({"thresholds": [0.9, 0.7]}, "0 < t1 < t2 <= 1"),
        ({"encodr": "x"}, "encodr is unknown; did you mean encoder"),
    ],
)
def test_a_spoiled_file_is_refused(tmp_path, change, message):
    path = fit_tiers(np.arange(10) / 10, **ORIGIN).write(tmp_path / "tiers.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=message):
        Tiers.read(path)
