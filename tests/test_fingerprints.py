"""Fingerprints: what changes them, what does not, and what they prove."""

from __future__ import annotations

import hashlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.base.fingerprints import (
    ContentHash,
    content_hash,
    fingerprint_line,
    item_hash,
    missing_items,
    source_hash,
)

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
scalars |= st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
objects = st.dictionaries(st.text(max_size=4), values, max_size=4)
sets = st.lists(objects, max_size=12)


def naive(items: list[dict]) -> str:
    """The definition, all at once."""
    hashes = sorted(
        hashlib.sha256(
            json.dumps(item, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        ).digest()
        for item in items
    )
    return hashlib.sha256(b"".join(hashes)).hexdigest()


def hashed(items: list[dict], in_memory: int = 1 << 20) -> ContentHash:
    found = ContentHash(in_memory=in_memory)
    found.extend(items)
    return found


def test_the_line_of_the_specification():
    line = fingerprint_line("a1b2c3d4e5f6g7h8", 42, 3786)
    assert line == "EVAL_FINGERPRINT: a1b2c3d4e5f6g7h8|42|3786"
    assert fingerprint_line("0123456789abcdef" * 4, 0, 1) == (
        "EVAL_FINGERPRINT: 0123456789abcdef|0|1"
    )


def test_source_hash_is_that_of_the_bytes(tmp_path):
    path = tmp_path / "eval.jsonl"
    path.write_bytes(b"abc")
    assert source_hash(path) == hashlib.sha256(b"abc").hexdigest()


def test_source_hash_of_nothing(tmp_path):
    with pytest.raises(InputError, match=r"none\.jsonl: there is no such file"):
        source_hash(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="this is a folder"):
        source_hash(tmp_path)


@given(sets, st.integers(1, 5), st.randoms())
def test_content_hash_is_its_definition_in_any_order_and_with_any_memory(items, in_memory, random):
    expected = naive(items)
    assert content_hash(items) == expected
    shuffled = random.sample(items, len(items))
    reordered = [dict(random.sample(sorted(item.items()), len(item))) for item in shuffled]
    assert hashed(reordered, in_memory).hexdigest() == expected


@given(sets, sets, st.integers(1, 4))
def test_appending_is_proved_by_the_item_hashes(old, more, in_memory):
    before, after = hashed(old, in_memory), hashed([*more, *old], in_memory)
    assert missing_items(before.item_hashes(), after.item_hashes()) == 0
    # An item given twice must be there twice.
    twice = hashed([*old, *old], in_memory)
    once = hashed(old, in_memory)
    assert missing_items(twice.item_hashes(), once.item_hashes()) == len(old)


def test_a_changed_item_is_missing():
    old, new = hashed([{"a": 1}, {"a": 2}]), hashed([{"a": 1}, {"a": 2.0}, {"a": 3}])
    assert missing_items(old.item_hashes(), new.item_hashes()) == 1


def test_two_readers_of_one_spilled_set():
    found = hashed([{"a": number} for number in range(9)], in_memory=2)
    one, other = found.item_hashes(), found.item_hashes()
    assert [next(one) for _ in range(9)] == [next(other) for _ in range(9)]


def test_whole_numbers_and_floats_differ_and_letters_stay_unicode():
    assert item_hash({"a": 1}) != item_hash({"a": 1.0})
    assert item_hash("é") == hashlib.sha256('"é"'.encode()).digest()


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), "\ud800", b"x"])
def test_what_is_no_json_is_refused(value):
    with pytest.raises(InputError, match="item 1: has no canonical JSON"):
        content_hash([{"a": 1}, {"a": value}])
