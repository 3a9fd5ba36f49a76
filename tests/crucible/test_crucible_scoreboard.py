"""Scoreboards, their header, and what may be compared."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from crucible_oracles import Item, flat, items, linear_quantile, mean
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.crucible.compare import FingerprintMismatchError, compare_scoreboards, mismatches
from gmb_hf.crucible.margins import TIERS, margins, ranks
from gmb_hf.crucible.scoreboard import EvalHeader, Scoreboard, make_scoreboard

ABOUT = {
    "source_hash": "ab" * 32,
    "content_hash": "cd" * 32,
    "seed": 42,
    "version": "v23",
    "checkpoint_path": "runs/model",
}
MARGINS = [0.5, -0.25, 0.0, 1.0]
RANKS = [1, 2, 1, 1]
LABELS = ["tier1_easy", "tier3_adversarial", "tier3_adversarial", "tier1_easy"]


def board(**changes) -> Scoreboard:
    return make_scoreboard(MARGINS, RANKS, LABELS, **{**ABOUT, **changes})


def test_the_header_by_hand():
    header = board().eval_header
    assert header.fingerprint == "abababababababab|42|4"
    assert header.line == "EVAL_FINGERPRINT: abababababababab|42|4"
    assert header.source_hash == "ab" * 32
    assert header.tier_distribution == {
        "tier1_easy": 2,
        "tier2_robust": 0,
        "tier3_adversarial": 2,
    }


def test_an_empty_tier_is_null_never_zero():
    empty = json.loads(json.dumps(board().to_dict()))["by_tier"]["tier2_robust"]
    assert (empty.pop("n"), empty.pop("correct")) == (0, 0)
    assert set(empty.values()) == {None}


def test_fields_are_those_of_the_specification():
    plain = board().to_dict()
    assert [key for key in plain if not key.startswith("x_")] == [
        "eval_header",
        "overall",
        "by_tier",
        "timestamp",
        "checkpoint_path",
    ]
    assert list(plain["overall"]) == [
        "n",
        "correct",
        "accuracy",
        "pass_rate",
        "mean_margin",
        "median_margin",
        "q10_margin",
        "q90_margin",
        "mean_rank",
    ]
    assert list(plain["eval_header"]) == [
        "fingerprint",
        "source_hash",
        "content_hash",
        "seed",
        "item_count",
        "tier_distribution",
        "version",
    ]
    assert plain["timestamp"].endswith("+00:00")


@given(items, st.data())
def test_statistics_are_the_formulas_tier_by_tier(drawn: list[Item], data):
    labels = [data.draw(st.sampled_from(TIERS)) for _ in drawn]
    found = flat(drawn)
    made = make_scoreboard(margins(found), ranks(found).strict, labels, **ABOUT)
    for name in TIERS:
        mine = [one for one, label in zip(drawn, labels, strict=True) if label == name]
        stats = made.by_tier[name]
        assert (stats.n, stats.correct) == (len(mine), sum(one.margin > 0 for one in mine))
        if not mine:
            continue
        scale = max(1.0, *(abs(one.margin) for one in mine))
        near = [one.margin for one in mine]
        assert stats.accuracy == stats.pass_rate == stats.correct / stats.n
        assert stats.mean_margin == pytest.approx(mean(near), abs=1e-12 * scale)
        assert stats.q10_margin == pytest.approx(linear_quantile(near, 0.1), abs=1e-12 * scale)
        assert stats.mean_rank == pytest.approx(mean([one.strict for one in mine]))


def test_a_file_gives_the_same_scoreboard(tmp_path):
    made = board(scores="scores.parquet", n_skipped=3)
    assert Scoreboard.read(made.write(tmp_path / "board.json")) == made


def test_without_tiers_there_is_only_the_whole():
    made = make_scoreboard(MARGINS, RANKS, **ABOUT)
    assert made.by_tier == made.eval_header.tier_distribution == {}
    assert made.overall.pass_rate == 0.5


def test_a_scoreboard_of_the_reference_is_read(tmp_path):
    plain = board().to_dict()
    header = plain["eval_header"]
    header |= {"source_hash": "a1b2c3d4e5f6g7h8", "fingerprint": "a1b2c3d4e5f6g7h8|42|4"}
    del header["content_hash"]
    plain = {key: value for key, value in plain.items() if not key.startswith("x_")}
    path = tmp_path / "old.json"
    path.write_text(json.dumps(plain))
    assert Scoreboard.read(path).eval_header.content_hash is None


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("overall", "n"), 5, "overall.*is not correct / n|overall.n is 5, item_count is 4"),
        (("overall", "correct"), 9, "9 of 4 items cannot be correct"),
        (("overall", "accuracy"), 0.75, "accuracy 0.75 is not correct / n, 2/4"),
        (("overall", "accuracy"), None, "accuracy must be null exactly where n is 0"),
        (("by_tier", "tier2_robust", "accuracy"), 0.0, "must be null exactly where n is 0"),
        (("eval_header", "fingerprint"), "x|1|2", "fingerprint 'x.1.2' must be 'abab"),
        (("eval_header", "tier_distribution", "tier1_easy"), 3, "adds up to 5, not to 4"),
        (("eval_header", "tier_distribution"), {"tier1": 4}, "Did you mean 'tier1_easy'"),
        (("eval_header", "version"), "", "version"),
        (("eval_header", "source_hash"), "ab", "source_hash"),
        (("timestamp",), "yesterday", "timestamp 'yesterday' is no ISO 8601 time"),
        (("overall", "mean_margn"), 1.0, "mean_margn is unknown; did you mean mean_margin"),
    ],
)
def test_a_scoreboard_that_contradicts_itself_is_refused(tmp_path, where, value, message):
    plain = board().to_dict()
    place = plain
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    path = tmp_path / "board.json"
    path.write_text(json.dumps(plain))
    with pytest.raises(InputError, match=message):
        Scoreboard.read(path)


def test_a_moved_item_between_tiers_is_noticed(tmp_path):
    plain = board().to_dict()
    plain["eval_header"]["tier_distribution"] = dict(zip(TIERS, (1, 1, 2), strict=True))
    path = tmp_path / "board.json"
    path.write_text(json.dumps(plain))
    with pytest.raises(InputError, match=r"by_tier holds .* tier_distribution says"):
        Scoreboard.read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ('{"a": 1, "a": 2}', "key 'a' is given twice"),
        ('{"a": NaN}', "NaN is no number"),
        ("[]", "must be a mapping"),
        ("{}", "eval_header is required"),
    ],
)
def test_what_is_no_scoreboard_is_refused(tmp_path, text, message):
    path = tmp_path / "board.json"
    path.write_text(text)
    with pytest.raises(InputError, match=f"board.json: .*{message}"):
        Scoreboard.read(path)


def test_what_no_scoreboard_is_made_of():
    with pytest.raises(InputError, match="differ in length"):
        make_scoreboard(MARGINS, RANKS[:2], **ABOUT)
    with pytest.raises(InputError, match=r"tier 'tier4' is unknown; known: tier1_easy"):
        make_scoreboard([1.0], [1], ["tier4"], **ABOUT)
    with pytest.raises(InputError, match="a margin is not finite"):
        make_scoreboard([math.nan], [1], **ABOUT)
    with pytest.raises(InputError, match="version"):
        make_scoreboard([1.0], [1], **{**ABOUT, "version": ""})


def test_differences_are_new_less_old():
    better = make_scoreboard([0.5, 0.25, 0.0, 1.0], [1, 1, 1, 1], LABELS, **ABOUT)
    found = compare_scoreboards(board(), better)
    assert found.comparable
    assert found.overall["pass_rate"] == 0.25
    assert found.by_tier["tier3_adversarial"]["pass_rate"] == 0.5
    assert found.by_tier["tier3_adversarial"]["mean_rank"] == -0.5
    assert found.by_tier["tier2_robust"]["pass_rate"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"content_hash": "ee" * 32}, "content hash is cdcdcdcdcdcdcdcd here and eeeeeeeeeeeeeeee"),
        ({"content_hash": None, "source_hash": "ef" * 32}, "file hash is abab.* and efef"),
        ({"seed": 7}, "seed is 42 here and 7 there"),
        ({"version": "v24"}, "version is v23 here and v24 there"),
    ],
)
def test_different_data_are_not_compared(changes, message):
    with pytest.raises(FingerprintMismatchError, match=message):
        compare_scoreboards(board(), board(**changes))
    found = compare_scoreboards(board(), board(**changes), allow_fingerprint_mismatch=True)
    assert found.comparable is False
    assert found.to_dict()["comparable"] is False
    assert len(found.mismatches) == 1


def test_other_tiers_are_other_conditions():
    other = make_scoreboard(MARGINS, RANKS, ["tier1_easy"] * 4, **ABOUT)
    with pytest.raises(FingerprintMismatchError, match="2/0/2 items here and 4/0/0 there"):
        compare_scoreboards(board(), other)


def test_a_reformatted_file_is_the_same_data():
    assert compare_scoreboards(board(), board(source_hash="ef" * 32)).comparable


def test_a_scoreboard_without_tiers_is_compared_as_a_whole():
    found = compare_scoreboards(board(), make_scoreboard(MARGINS, RANKS, **ABOUT))
    assert found.comparable
    assert found.by_tier == {}


def test_hashes_compare_as_far_as_both_are_stored():
    header = board(content_hash=None).eval_header
    short = EvalHeader.of(**{**header.model_dump(exclude={"fingerprint"}), "source_hash": "ab" * 8})
    assert mismatches(header, short) == []


def test_a_mismatch_is_a_value_error_of_one_line():
    with pytest.raises(ValueError, match="cannot be compared") as caught:
        compare_scoreboards(board(), board(seed=1))
    assert "\n" not in str(caught.value)


def test_numbers_of_any_array_type_are_taken():
    made = make_scoreboard(np.array(MARGINS), np.array(RANKS), np.array(LABELS), **ABOUT)
    assert made.overall == board().overall
