"""Metadata: canonical JSON, and what several logs agree on."""

from __future__ import annotations

import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.runs.metadata import from_json, merge, to_json


def test_the_same_metadata_gives_the_same_bytes() -> None:
    one, two = {"b": 1, "a": [1.5, None]}, {"a": [1.5, None], "b": 1}
    assert to_json(one, "x") == to_json(two, "x")
    assert from_json(to_json(one, "x"), "x") == two
    assert from_json(None, "x") == {}


def test_merge_keeps_what_is_equal_and_lists_what_differs() -> None:
    shards = [
        {"task": "sub", "config": {"lr": 0.1, "seeds": [0, 1]}, "note": "first"},
        {"task": "sub", "config": {"lr": 0.1, "seeds": [2, 3]}},
    ]
    assert merge(shards) == {
        "task": "sub",
        "config": {"lr": 0.1},
        "differs": {"config.seeds": [[0, 1], [2, 3]], "note": ["first", None]},
    }


def test_merge_of_merged_logs_loses_nothing() -> None:
    parts = [{"task": "sub", "seed": seed} for seed in (0, 1, 2)]
    left = merge([merge(parts[:2]), parts[2]])
    right = merge([parts[0], merge(parts[1:])])
    assert left == merge(parts) == {"task": "sub", "differs": {"seed": [0, 1, 2]}}
    assert sorted(right["differs"]["seed"]) == [0, 1, 2]
    assert merge([left, left]) == left


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), object()])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"out\.parquet: metadata cannot be written"):
        to_json({"x": value}, "out.parquet")


@pytest.mark.parametrize("raw", [b"{", b"[1]"])
def test_foreign_metadata_is_refused(raw: bytes) -> None:
    with pytest.raises(InputError, match=r"a\.parquet: its metadata:? is not"):
        from_json(raw, "a.parquet")
