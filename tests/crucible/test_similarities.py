"""Ragged items as flat arrays, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.crucible.margins import Similarities

LISTS = [[0.9, 0.2], [0.1, 0.5, 0.3]]


def test_lists_become_flat_arrays():
    found = Similarities.of_lists(LISTS, [0, 2], ["a", "b"])
    assert found.values.tolist() == [0.9, 0.2, 0.1, 0.5, 0.3]
    assert found.offsets.tolist() == [0, 2, 5]
    assert found.of_positive.tolist() == [0.9, 0.3]
    assert found.hardest_negative.tolist() == [0.2, 0.5]
    assert found.n_negatives.tolist() == [1, 2]
    assert found.names() == ("a", "b")


def test_float64_is_kept():
    found = Similarities.of_lists([[0.5 + 1e-9, 0.5]], [0])
    assert found.values.dtype == np.float64
    assert found.of_positive[0] - found.hardest_negative[0] == pytest.approx(1e-9, rel=1e-6)


def test_no_items_is_a_set_of_none():
    found = Similarities.of_lists([], [])
    assert found.n == 0
    assert found.hardest_negative.shape == (0,)


def test_items_without_negatives_are_skipped_on_request():
    found = Similarities.of_lists([[0.9], *LISTS, []], [0, 0, 2, 0], list("wxyz"), empty="skip")
    assert found.names() == ("x", "y")
    assert found.n_skipped == 2
    assert found.values.tolist() == [0.9, 0.2, 0.1, 0.5, 0.3]


def test_all_items_may_be_skipped():
    found = Similarities.of_lists([[0.9], [0.1]], [0, 0], empty="skip")
    assert (found.n, found.n_skipped) == (0, 2)


def test_skipped_items_leave_the_numbers_of_the_others():
    found = Similarities.of_lists([[0.9], [0.5, 0.1]], [0, 0], empty="skip")
    assert found.names() == ("1",)


@pytest.mark.parametrize(
    ("candidates", "positive", "ids", "message"),
    [
        ([[0.1, math.nan]], [0], ["a"], r"^item 'a': a similarity is missing or not finite"),
        (
            [[0.1, math.inf], [0.1, 0.2]],
            [0, 0],
            None,
            r"^item 0: a similarity is missing or not finite",
        ),
        ([[0.1, None]], [0], ["a"], r"^item 'a': a similarity is missing or not finite"),
        ([[0.1, "x"]], [0], None, r"^item 0: a similarity must be a number, got 'x'"),
        ([[1, 2], [0.1, "0.9"]], [0, 0], "ab", r"^item 'b': a similarity must be .*, got '0.9'"),
        ([[10**400, 0]], [0], None, r"^a similarity is too large for a number of 64 bits"),
        ([[True, False]], [0], None, r"^item 0: a similarity must be a number, got True"),
        ([[[1, 2], [3, 4]]], [0], None, r"^item 0: a similarity must be a number, got \[1, 2\]"),
        ([0.1, 0.2], [0, 0], None, r"^item 0: needs a list of similarities, got 0.1"),
        ([[0.1], [0.2, 0.3], []], [0, 0, 0], list("abc"), r"^items 'a', 'c': no negatives"),
        ([[0.1, 0.2]], [2], ["a"], r"^item 'a': the index of the positive is out of range"),
        ([[0.1, 0.2]], [-1], None, r"^item 0: the index of the positive is out of range"),
        ([[0.1, 0.2]], [0.5], None, r"index of the positive must be a whole number, got 0.5"),
        ([[0.1, 0.2]], [None], None, r"index of the positive must be a whole number, got None"),
        ([[0.1, 0.2]], [True], None, r"index of the positive must be a whole number, got True"),
        ([[0.1, 0.2]], [math.nan], None, r"positive must be a whole number, got nan"),
        ([[0.1, 0.2]], [0, 1], None, r"1 items have similarities but 2 have an index"),
        ([[0.1, 0.2]] * 2, [0, 1], ["a", "a"], r"^item 'a': the id occurs more than once"),
        ([[0.1, 0.2]] * 2, [0, 1], ["a"], r"2 items but 1 ids"),
    ],
)
def test_bad_items_are_named(candidates, positive, ids, message):
    with pytest.raises(InputError, match=message):
        Similarities.of_lists(candidates, positive, ids)


def test_an_input_error_is_a_value_error():
    with pytest.raises(ValueError, match="no negatives"):
        Similarities.of_lists([[0.1]], [0])


def test_a_repeated_id_is_refused_also_among_skipped_items():
    with pytest.raises(InputError, match="'a': the id occurs more than once"):
        Similarities.of_lists([[0.1], [0.1, 0.2]], [0, 0], ["a", "a"], empty="skip")


def test_many_bad_items_are_named_in_part():
    with pytest.raises(InputError, match=r"^items 0, 1, 2, 3, 4 and 2 more: no negatives"):
        Similarities.of_lists([[0.1]] * 7, [0] * 7)


@pytest.mark.parametrize(
    ("values", "offsets", "positive", "message"),
    [
        ([0.1, 0.2], [0, 2], [0, 0], "2 items need 3 offsets, got 2"),
        ([0.1, 0.2], [0, 3], [0], "offsets must rise from 0 to the number of similarities, 2"),
        ([0.1, 0.2], [1, 2], [0], "offsets must rise from 0"),
        ([0.1, 0.2, 0.3, 0.4], [0, 4, 2, 4], [0, 0, 0], "offsets must rise from 0"),
        ([[0.1, 0.2]], [0, 2], [0], "must each have one dimension"),
    ],
)
@pytest.mark.parametrize("empty", ["error", "skip"])
def test_arrays_that_do_not_fit_are_refused(values, offsets, positive, message, empty):
    with pytest.raises(InputError, match=message):
        Similarities.of_flat(values, offsets, positive, empty=empty)


def test_an_unknown_way_with_empty_items_is_refused():
    with pytest.raises(InputError, match=r"empty 'omit' is unknown; known: error, skip"):
        Similarities.of_lists(LISTS, [0, 0], empty="omit")
