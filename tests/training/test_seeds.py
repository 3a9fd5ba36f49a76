"""Seeds as people write them."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.training import config as module
from gmb_hf.training.config import MAX_SEED, format_seeds, parse_seeds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", (7,)),
        ("0:3", (0, 1, 2)),
        ("5,1,2", (5, 1, 2)),
        ("0:2,100:102", (0, 1, 100, 101)),
        (" 1 , 4:6 ", (1, 4, 5)),
        ("4294967295", (2**32 - 1,)),
    ],
)
def test_parse(text, expected):
    assert parse_seeds(text) == expected


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [([], ""), ([3], "3"), ([3, 1, 2, 9], "1:4,9"), ([0, 1], "0:2"), ([0, 2, 4], "0,2,4")],
)
def test_format(seeds, expected):
    assert format_seeds(seeds) == expected


@given(st.sets(st.integers(0, 200), min_size=1) | st.sets(st.integers(0, MAX_SEED - 1), min_size=1))
def test_what_is_formatted_parses_to_the_same_seeds_sorted(seeds):
    assert parse_seeds(format_seeds(list(seeds))) == tuple(sorted(seeds))


@given(st.permutations(range(12)))
def test_the_order_written_is_kept(seeds):
    assert list(parse_seeds(",".join(map(str, seeds)))) == seeds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "seeds '': '' is no seed; write a number, a range such as 0:32, or several with"),
        ("1,,2", "seeds '1,,2': '' is no seed"),
        ("a", "seeds 'a': 'a' is no seed"),
        ("1.5", "'1.5' is no seed"),
        ("0:", "'0:' is no seed"),
        (":3", "':3' is no seed"),
        ("0:3:2", "'0:3:2' is no seed"),
        ("0-3", "'0-3' is no seed"),
        ("5:5", "'5:5' is empty; a:b runs from a to b - 1"),
        ("9:3", "'9:3' is empty"),
        ("-1", "'-1' is out of range; seeds are 0 to 2.32 - 1"),
        ("4294967296", "'4294967296' is out of range"),
        ("1,2,1", "seeds '1,2,1': 1 is given twice; give each seed once"),
        ("0:5,3", "3 is given twice"),
        ("0:4000000000", "more than 1,000,000 seeds; give fewer"),
        ("0:600000,600000:1200000", "more than 1,000,000 seeds"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(InputError, match=message):
        parse_seeds(text)


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(module).failed == 0
