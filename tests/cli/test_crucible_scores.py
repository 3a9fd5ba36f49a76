"""`gmb crucible score|tiers|scoreboard|compare` as a user types them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from command_line import gmb, refused
from crucible_builders import board, done, lines, write

TIERS = ["tier1_easy"] * 84 + ["tier2_robust"] * 24 + ["tier3_adversarial"] * 12


def follow(outcome):
    """Type what the command says to type next."""
    words = shlex.split(outcome.next_command)
    assert words[0] == "gmb"
    return done(gmb(*words[1:]))


def test_from_bundles_to_a_scoreboard_by_what_each_command_says(tmp_path):
    write(tmp_path / "bundles.jsonl", lines())
    scored = done(gmb("crucible", "score", "bundles.jsonl", "--out=scores.parquet"))
    assert "wrote   scores.parquet" in scored.out
    assert "120 items by unnamed: pass rate 0." in scored.out
    fitted = follow(scored)
    assert "84 tier1_easy, 24 tier2_robust, 12 tier3_adversarial" in fitted.out
    assigned = follow(fitted)
    assert "84 tier1_easy, 24 tier2_robust, 12 tier3_adversarial" in assigned.out
    tiered = [json.loads(line) for line in (tmp_path / "tiered.jsonl").read_text().splitlines()]
    assert [{**line, "tier": None} for line in tiered] == [
        {**line, "tier": None} for line in lines()
    ]
    rescored = follow(assigned)
    summed = follow(rescored)
    assert "EVAL_FINGERPRINT: " in summed.out
    made = json.loads((tmp_path / "scoreboard.json").read_text())
    assert made["eval_header"]["tier_distribution"] == {
        "tier1_easy": 84,
        "tier2_robust": 24,
        "tier3_adversarial": 12,
    }
    assert made["eval_header"]["item_count"] == made["overall"]["n"] == 120
    assert made["by_tier"]["tier3_adversarial"]["pass_rate"] == 0.0


def test_embeddings_score_as_well(tmp_path):
    write(tmp_path / "bundles.jsonl", lines(3))
    rows = 3 * 2 + sum(len(line["negatives"]) for line in lines(3))
    np.save("rows.npy", np.random.default_rng(0).normal(size=(rows, 4)))
    scored = done(
        gmb(
            "crucible", "score", "bundles.jsonl", "--embeddings", "rows.npy", "--out=scores.parquet"
        )
    )
    assert scored.out.startswith("3 items by unnamed")


def test_items_without_negatives(tmp_path):
    empty = {"id": "e", "anchor": "x", "positive": "y", "negatives": [], "similarities": [0.5]}
    write(tmp_path / "bundles.jsonl", [*lines(5), empty])
    message = refused("crucible", "score", "bundles.jsonl", "--out=scores.parquet")
    assert message.startswith("error: item 'e': no negatives; remove them, or have them left out")
    assert "--skip-empty" in message
    scored = done(gmb("crucible", "score", "bundles.jsonl", "--skip-empty", "--out=scores.parquet"))
    assert "note: 1 items without negatives were left out" in scored.out
    done(
        gmb(
            "crucible",
            "scoreboard",
            "--scores",
            "scores.parquet",
            "--eval-version",
            "v1",
            "--out=scoreboard.json",
        )
    )
    made = json.loads((tmp_path / "scoreboard.json").read_text())
    assert (made["x_n_skipped"], made["eval_header"]["item_count"]) == (1, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n", r"bundles.jsonl:1: is not JSON"),
        ('{"id": "a", "similarities": [NaN, 1]}\n', "bundles.jsonl:1: is not JSON: NaN is no num"),
        ('{"id": "a", "similarities": [1e999, 1]}\n', "item 'a': a similarity is missing or not"),
        ('{"id": 1, "similarities": [1, 2]}\n' * 2, "bundles.jsonl:2: id '1' is that of line 1"),
        (
            '{"anchor": "a", "positive": "b", "negatives": ["c"]}',
            "item '1' has texts and no similarities; give --encoder MODEL, or --embeddings FILE",
        ),
        ("", "bundles.jsonl: holds no bundles"),
    ],
)
def test_bundles_that_are_not_understood(tmp_path, text, message):
    (tmp_path / "bundles.jsonl").write_text(text)
    assert message in refused("crucible", "score", "bundles.jsonl", "--out=scores.parquet")
    assert not (tmp_path / "scores.parquet").exists()


def test_ways_of_scoring_that_cannot_be(tmp_path):
    write(tmp_path / "bundles.jsonl", lines(3))
    score = ("crucible", "score", "bundles.jsonl", "--out=scores.parquet")
    both = refused(*score, "--embeddings", "x.npy", "--encoder", "y")
    assert "--embeddings and --encoder exclude each other" in both
    assert "x.npy: there is no such file" in refused(*score, "--embeddings", "x.npy")
    assert "scores are written as .parquet" in refused(*score, "--out", "scores.csv")
    assert "none.jsonl: there is no such file" in refused(
        "crucible", "score", "none.jsonl", "--out=scores.parquet"
    )
    (tmp_path / "bare.jsonl").write_text('{"similarities": [1, 2]}')
    bare = refused(
        "crucible", "score", "bare.jsonl", "--embeddings", "x.npy", "--out=scores.parquet"
    )
    assert "bare.jsonl:1: item '1' has no texts to embed" in bare


def test_tiers_are_frozen(tmp_path):
    write(tmp_path / "bundles.jsonl", lines(20))
    done(gmb("crucible", "score", "bundles.jsonl", "--name", "m", "--out=scores.parquet"))
    fit = ("crucible", "tiers", "fit", "--out=tiers.json", "--scores", "scores.parquet")
    done(gmb(*fit))
    assert "tiers.json: tiers are frozen there already" in refused(*fit)
    done(gmb(*fit, "--force", "--method", "spec"))
    assert json.loads((tmp_path / "tiers.json").read_text())["method"] == "spec"
    out = ("--out", "other.json")
    swapped = refused(*fit, *out, "--thresholds", "0.9", "0.7")
    assert "thresholds must be two numbers with 0 < t1 < t2 <= 1, got 0.9, 0.7" in swapped
    assert "method 'specs' is unknown" in refused(*fit, *out, "--method", "specs")
    gone = refused("crucible", "tiers", "fit", "--scores", "gone.parquet", *out)
    assert "gone.parquet: there is no such file" in gone


def test_few_items_leave_a_tier_empty_and_say_so(tmp_path):
    write(tmp_path / "bundles.jsonl", lines(2))
    done(gmb("crucible", "score", "bundles.jsonl", "--out=scores.parquet"))
    fitted = done(gmb("crucible", "tiers", "fit", "--scores", "scores.parquet", "--out=tiers.json"))
    assert "note: tier3_adversarial holds none of the 2 items" in fitted.out


def test_tiers_belong_to_their_encoder_and_their_bundles(tmp_path):
    write(tmp_path / "bundles.jsonl", lines(20))
    done(gmb("crucible", "score", "bundles.jsonl", "--name", "m", "--out=scores.parquet"))
    done(gmb("crucible", "tiers", "fit", "--scores", "scores.parquet", "--out=tiers.json"))
    assign = ("crucible", "tiers", "assign", "--out=t.jsonl", "--tiers", "tiers.json", "--scores")
    done(gmb("crucible", "score", "bundles.jsonl", "--name", "n", "--out", "n.parquet"))
    other = refused(*assign, "n.parquet", "--bundles", "bundles.jsonl")
    assert "fitted with encoder 'm', these dangers come from 'n'" in other
    write(tmp_path / "changed.jsonl", lines(19))
    changed = refused(*assign, "scores.parquet", "--bundles", "changed.jsonl")
    assert "changed.jsonl: is not what was scored" in changed
    onto = refused(
        *assign, "scores.parquet", "--bundles", "bundles.jsonl", "--out", "bundles.jsonl"
    )
    assert "is a file that is read; write to another one" in onto


def test_texts_without_an_encoder_say_which_extra_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("gmb_hf.base.extras.find_spec", lambda _: None)
    (tmp_path / "b.jsonl").write_text('{"anchor": "a", "positive": "b", "negatives": ["c"]}')
    message = refused("crucible", "score", "b.jsonl", "--out=scores.parquet")
    assert "give --encoder MODEL (first pip install 'gmb-hf[encoders]'), or --embed" in message


def test_a_set_may_only_grow(tmp_path):
    few, more = write(tmp_path / "few.jsonl", lines(20)), write(tmp_path / "more.jsonl", lines(25))
    score = ("crucible", "score", more, "--name", "m", "--out=scores.parquet")
    done(gmb(*score, "--previous", few))
    message = refused("crucible", "score", few, "--previous", more, "--out=scores.parquet")
    assert "few.jsonl: 5 of the 25 items of " in message
    assert "are gone or changed (items 'q20', 'q21', 'q22'" in message
    # What an assignment left is an evaluation set, and is not replaced by another one.
    done(gmb("crucible", "tiers", "fit", "--scores", "scores.parquet", "--out=tiers.json"))
    assign = ("crucible", "tiers", "assign", "--out=tiered.jsonl", "--tiers", "tiers.json")
    assign = (*assign, "--scores", "scores.parquet")
    done(gmb(*assign, "--bundles", more))
    held = (tmp_path / "tiered.jsonl").read_bytes()
    done(gmb(*assign, "--bundles", more))
    done(gmb("crucible", "score", few, "--name", "m", "--out", "few.parquet"))
    message = refused(*assign[:-1], "few.parquet", "--bundles", few)
    assert "tiered.jsonl: 5 of the 25 items of tiered.jsonl are gone or changed" in message
    assert (tmp_path / "tiered.jsonl").read_bytes() == held


def scored(name: str, n: int, **how: object) -> str:
    """Item scores of the first n items, NAME.parquet."""
    write(Path(f"{name}.jsonl"), lines(n, **how))
    out = f"{name}.parquet"
    done(gmb("crucible", "score", f"{name}.jsonl", "--name", "m", "--out", out))
    return out


def summed(scores: str, out: str, version: str = "v1") -> tuple[str, ...]:
    return ("crucible", "scoreboard", "--scores", scores, "--eval-version", version, "--out", out)


def test_a_version_in_a_folder_may_only_grow(tmp_path):
    few, more = scored("few", 20), scored("more", 25)
    done(gmb(*summed(few, "first.json")))
    done(gmb(*summed(more, "second.json")))
    scored("fewer", 18)
    message = refused(*summed("fewer.parquet", "third.json"))
    assert message == (
        "error: first.json: 2 of its 20 items are gone or changed in fewer.parquet (items 'q18', "
        "'q19'); a set may only grow under one version (v1): keep them, or give another "
        "--eval-version"
    )
    assert not Path("third.json").exists()
    held = Path("first.json").read_bytes()
    assert "2 of its 20 items" in refused(*summed("fewer.parquet", "first.json"))
    assert Path("first.json").read_bytes() == held
    done(gmb(*summed(scored("another_model", 20, gain=0.2), "third.json")))  # the same items
    done(gmb(*summed("fewer.parquet", "fewer.json", "v2")))
    Path("elsewhere").mkdir()
    done(gmb(*summed("fewer.parquet", "elsewhere/fewer.json")))


def test_a_version_may_not_shrink_where_its_scores_were_written_over(tmp_path):
    done(gmb(*summed(scored("scores", 20), "scoreboard.json")))
    scored("scores", 18)
    for out in ("scoreboard.json", "other.json"):
        message = refused(*summed("scores.parquet", out))
        assert (
            "scoreboard.json: has 20 items, scores.parquet only 18; a set may only grow" in message
        )
    done(
        gmb(*summed(scored("another", 10), "another.json"))
    )  # nothing says that it is the same set


def test_another_set_may_stand_beside_one_of_the_same_version(tmp_path):
    done(gmb(*summed(scored("frozen", 20), "frozen.json")))
    organic = [{**line, "id": f"o{line['id']}"} for line in lines(10)]
    write(tmp_path / "organic.jsonl", organic)
    done(gmb("crucible", "score", "organic.jsonl", "--out", "organic.parquet"))
    Path("noise.json").write_text("{}")
    Path("broken.json").write_text("{")
    Path("folder.json").mkdir()
    done(gmb(*summed("organic.parquet", "organic.json")))
    boards = [Path(name).read_text() for name in ("frozen.json", "organic.json")]
    assert [re.findall(r'"item_count": (\d+)', board)[0] for board in boards] == ["20", "10"]


def test_tiers_in_a_file_are_checked(tmp_path):
    write(tmp_path / "bundles.jsonl", lines(2, tiers=["tier1_easy", "tier4"]))
    message = refused("crucible", "score", "bundles.jsonl", "--out=scores.parquet")
    assert "bundles.jsonl:2: tier 'tier4' is unknown; known: tier1_easy" in message


def test_a_scoreboard_needs_a_version(tmp_path):
    write(tmp_path / "bundles.jsonl", lines(3))
    done(gmb("crucible", "score", "bundles.jsonl", "--out=scores.parquet"))
    assert "--eval-version" in refused(
        "crucible", "scoreboard", "--scores", "scores.parquet", "--out=scoreboard.json"
    )
    scoreboard = ("crucible", "scoreboard", "--out=s.json", "--scores", "scores.parquet")
    assert "version" in refused(*scoreboard, "--eval-version", "")


def test_scores_that_are_none(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"no such thing")
    about = ("--eval-version", "v1")
    assert "x.parquet: is no Parquet file" in refused(
        "crucible", "scoreboard", "--scores", "x.parquet", *about, "--out=scoreboard.json"
    )


def test_two_models_on_the_same_items(tmp_path):
    old, new = (
        board(tmp_path, name, gain=gain, tiers=TIERS)
        for name, gain in (("old", 0.0), ("new", 0.15))
    )
    outcome = done(gmb("crucible", "compare", old, new, "--gate", "--out=comparison.json"))
    assert "wrote   comparison.json" in outcome.out
    found = json.loads((tmp_path / "comparison.json").read_text())
    assert found["comparable"] is True
    assert found["passes"] is True
    boards = [json.loads(path.read_text()) for path in (old, new)]
    rates = [one["overall"]["pass_rate"] for one in boards]
    assert found["overall"]["pass_rate"] == pytest.approx(rates[1] - rates[0])
    groups = [test["group"] for test in found["paired_tests"]]
    assert groups == ["overall", "tier1_easy", "tier2_robust", "tier3_adversarial"]
    assert found["paired_tests"][0]["permutation"]["p_value"] == 1 / 10_000
    assert found["paired_tests"][0]["permutation_adjusted"] <= 0.01


def test_the_gate_closes_when_frozen_tier3_falls(tmp_path):
    easy = list(reversed(TIERS))  # the tier of the hard ones holds items that can be lost
    old = board(tmp_path, "old", gain=0.0, tiers=easy)
    new = board(tmp_path, "new", gain=-0.3, tiers=easy)
    shown = done(gmb("crucible", "compare", old, new, "--out=comparison.json"))
    assert "CRITICAL" in shown.out
    assert "WARNING" in shown.out
    message = refused("crucible", "compare", old, new, "--gate", "--out=comparison.json", code=1)
    assert "the gate is closed: pass rate of frozen tier3 went from" in message
    assert (tmp_path / "comparison.json").exists()


def test_different_data_are_compared_on_request_only(tmp_path):
    old, grown = board(tmp_path, "old", n=30), board(tmp_path, "grown", n=40)
    message = refused("crucible", "compare", old, grown, "--out=comparison.json")
    assert "the scoreboards cannot be compared: the content hash is" in message
    assert "item_count is 30 here and 40 there" in message
    assert "the newer set was only appended to: all 30 older items are in it" in message
    shrunk = refused("crucible", "compare", grown, old, "--out=comparison.json")
    assert "10 of 40 older items are gone or were changed" in shrunk
    allow = "--allow-fingerprint-mismatch"
    shown = done(gmb("crucible", "compare", old, grown, allow, "--out=comparison.json"))
    assert "NOT COMPARABLE" in shown.out
    found = json.loads((tmp_path / "comparison.json").read_text())
    assert (found["comparable"], found["passes"]) == (False, False)
    assert found["paired_tests"] == []
    assert found["guardrails"][0]["level"] == "SEVERE"
    refused("crucible", "compare", old, grown, allow, "--gate", "--out=comparison.json", code=1)


def test_another_version_is_another_set(tmp_path):
    old, new = board(tmp_path, "old"), board(tmp_path, "new", version="v2", gain=0.1)
    message = refused("crucible", "compare", old, new)
    assert "the scoreboards cannot be compared: version is v1 here and v2 there" in message
    allow = "--allow-fingerprint-mismatch"
    assert "NOT COMPARABLE" in done(gmb("crucible", "compare", old, new, allow)).out
    refused("crucible", "compare", old, new, allow, "--gate", code=1)


def test_the_same_items_in_other_bytes_are_said_to_be_so(tmp_path):
    old, new = board(tmp_path, "old"), board(tmp_path, "new", gain=0.1)
    assert "same items in other bytes" in done(gmb("crucible", "compare", old, new)).out


def test_organic_performance_against_frozen(tmp_path):
    old, new = board(tmp_path, "old"), board(tmp_path, "new", gain=0.2)
    held: dict[str, object] = {"n": 50, "version": "organic-v1"}
    before, after = board(tmp_path, "before", **held), board(tmp_path, "after", gain=-0.2, **held)
    organic = ("--organic-before", before, "--organic-after", after)
    shown = done(gmb("crucible", "compare", old, new, *organic))
    assert "the frozen set may be learned by heart" in shown.out
    assert "go together" in refused("crucible", "compare", old, new, *organic[:2])


def test_without_their_item_scores_scoreboards_are_compared_as_they_are(tmp_path):
    old, new = board(tmp_path, "old"), board(tmp_path, "new", gain=0.1)
    (tmp_path / "old.parquet").unlink()
    shown = done(gmb("crucible", "compare", old, new))
    assert "no paired tests: the item scores behind the scoreboards are not there" in shown.out


def test_item_scores_that_changed_are_noticed(tmp_path):
    old, new = board(tmp_path, "old"), board(tmp_path, "new", gain=0.1)
    (tmp_path / "old.parquet").write_bytes((tmp_path / "new.parquet").read_bytes())
    message = refused("crucible", "compare", old, new)
    assert "old.parquet: has changed since" in message


@pytest.mark.parametrize("command", ["score", "scoreboard", "compare", "exposure", "mine"])
def test_help_of_each_command(command):
    assert "Usage: gmb crucible" in gmb("crucible", command, "--help").out
