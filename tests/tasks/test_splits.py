"""Splits and corrupted labels: counts, sides, and independence of the seeds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.task import corrupt, random_stream, split_indices, split_pairs, train_rows


def pairs(prime):
    a, b = np.divmod(np.arange(prime * prime), prime)
    return b * prime + a


def test_a_split_by_hand():
    # The documented values of numpy's frozen generator for seed 42.
    train, test = split_indices(6, 0.5, 42)
    assert train.tolist() == [0, 1, 5]
    assert test.tolist() == [2, 4, 3]
    assert train.dtype == np.int64


@pytest.mark.parametrize(
    ("n_rows", "fraction", "count"),
    [
        (9409, 0.5, 4704),
        (9409, 4000, 4000),
        (9409, 4000 / 9409, 4000),
        (100, 0.29, 29),
        (841, 0.6, 504),
        (2, 0.5, 1),
        (10, np.int64(3), 3),
    ],
)
def test_the_number_of_training_rows(n_rows, fraction, count):
    assert train_rows(n_rows, fraction) == count


@given(st.integers(2, 500), st.floats(0.01, 0.99), st.integers(0, 2**32 - 1))
def test_a_split_has_every_row_once(n_rows, fraction, seed):
    if not 0 < int(n_rows * fraction + 1e-9) < n_rows:
        with pytest.raises(InputError, match="both sides need at least one"):
            split_indices(n_rows, fraction, seed)
        return
    train, test = split_indices(n_rows, fraction, seed)
    assert len(train) == train_rows(n_rows, fraction)
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(n_rows))


@pytest.mark.parametrize("fraction", [0, 0.0, 1.0, 1.5, -0.1, True, "half", float("nan"), 10, -3])
def test_a_bad_fraction_is_refused(fraction):
    with pytest.raises(InputError, match="fraction"):
        split_indices(10, fraction, 0)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.0, "42", True, None])
def test_a_bad_seed_is_refused(seed):
    with pytest.raises(InputError, match=r"data_seed must be a whole number in \[0, 2\*\*32\)"):
        split_indices(10, 0.5, seed)


@given(st.sampled_from([2, 3, 5, 7, 13]), st.data())
def test_pairs_stay_together_and_the_count_is_exact(prime, data):
    partner = pairs(prime)
    count = data.draw(st.integers(1, prime * prime - 1))
    seed = data.draw(st.integers(0, 2**32 - 1))
    train, test = split_pairs(partner, count, seed)
    assert len(train) == count
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(prime * prime))
    assert set(partner[train]) == set(train)
    again, _ = split_pairs(partner, count, seed)
    assert np.array_equal(train, again)


def test_pairs_by_hand():
    # Modulo 2: rows 00, 01, 10, 11. Two training rows are the pair, or the two single rows.
    sides = {tuple(sorted(split_pairs(pairs(2), 2, seed)[0])) for seed in range(20)}
    assert sides == {(1, 2), (0, 3)}


def test_pairs_that_cannot_make_the_count_are_refused():
    with pytest.raises(InputError, match="cannot be made of whole pairs"):
        split_pairs(np.array([1, 0, 3, 2]), 3, 0)


@given(st.integers(2, 50), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_corrupted_answers_are_wrong_in_range_and_in_training_rows_only(n_answers, rate, seed):
    answers = np.arange(200) % n_answers
    train, _ = split_indices(200, 0.6, seed)
    noisy, mask = corrupt(answers, train, rate, n_answers, seed)
    assert mask.sum() == round(rate * len(train))
    assert np.array_equal(noisy != answers, mask)
    assert noisy.min() >= 0
    assert noisy.max() < n_answers
    assert set(np.flatnonzero(mask)) <= set(train)


def test_every_wrong_answer_is_drawn_alike():
    answers = np.zeros(60_000, dtype=np.int64)
    noisy, _ = corrupt(answers, np.arange(60_000), 1.0, 7, 5)
    shares = np.bincount(noisy, minlength=7) / 60_000
    assert shares[0] == 0
    assert np.allclose(shares[1:], 1 / 6, atol=0.01)


def test_corruption_leaves_its_input_and_the_split_alone():
    answers = np.arange(100) % 5
    before = answers.copy()
    train, _ = split_indices(100, 0.5, 3)
    corrupt(answers, train, 0.5, 5, 3)
    assert np.array_equal(answers, before)
    assert np.array_equal(train, split_indices(100, 0.5, 3)[0])


def test_a_bad_rate_is_refused():
    with pytest.raises(InputError, match=r"corruption_rate must be a number in \[0, 1\]"):
        corrupt(np.zeros(4, dtype=np.int64), np.arange(2), 1.2, 5, 0)


def test_streams_of_one_seed_differ():
    first = random_stream(7).permutation(50)
    assert not np.array_equal(first, random_stream(7, 1).permutation(50))
    assert np.array_equal(first, random_stream(7).permutation(50))
