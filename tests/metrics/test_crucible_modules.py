"""The Crucible modules: the package's numbers, `evaluate`'s ways, each bad input."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.cli.crucible import scoreboard as scoreboard_command
from gmb_hf.crucible.calls import KEYWORDS, compare, exposure, margin, rank, scoreboard
from gmb_hf.crucible.scoreboard import Scoreboard

Load = Callable[[str], Any]
NAN = float("nan")

item = st.integers(2, 7).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-4, 4).map(lambda x: x / 8), min_size=n, max_size=n),
        st.integers(0, n - 1),
    )
)


@given(items=st.lists(item, min_size=1, max_size=12))
def test_margins_and_ranks_are_those_of_a_plain_loop(
    items: list[tuple[list[float], int]],
) -> None:
    predictions, references = [one[0] for one in items], [one[1] for one in items]
    expected, places, lowest = [], [], []
    for similarities, at in items:
        own = similarities[at]
        others = similarities[:at] + similarities[at + 1 :]
        expected.append(own - max(others))
        places.append(1 + sum(other > own for other in others))
        lowest.append(1 + sum(other >= own for other in others))
    n = len(items)

    found = margin(predictions, references, return_per_item=True)
    assert found["margins"] == expected
    assert found["n"] == n
    assert found["mean_margin"] == pytest.approx(sum(expected) / n)
    assert found["mean_danger"] == pytest.approx(-sum(expected) / n)
    assert found["pass_rate"] == sum(m > 0 for m in expected) / n
    assert found["tie_rate"] == sum(m == 0 for m in expected) / n
    assert found["median_margin"] == pytest.approx(float(np.median(expected)))

    found = rank(predictions, references, return_per_item=True, hits=[1, 2])
    assert (found["ranks"], found["ranks_pessimistic"]) == (places, lowest)
    assert found["mean_rank"] == pytest.approx(sum(places) / n)
    assert found["mrr"] == pytest.approx(math.fsum(1 / place for place in lowest) / n)
    assert found["hits@2"] == pytest.approx(sum(place <= 2 for place in lowest) / n)
    assert found["chance_pass_rate"] == pytest.approx(
        math.fsum(1 / len(similarities) for similarities in predictions) / n
    )


def case(n: int = 40) -> tuple[list[list[float]], list[int]]:
    rng = np.random.default_rng(2)
    rows = [rng.random(int(k)).tolist() for k in rng.integers(2, 9, size=n)]
    return rows, [int(rng.integers(len(row))) for row in rows]


def test_names_are_those_that_are_promised() -> None:
    assert list(margin(*case())) == [
        "mean_margin",
        "mean_danger",
        "q10_margin",
        "median_margin",
        "q90_margin",
        "pass_rate",
        "tie_rate",
        "n",
    ]
    assert list(rank(*case())) == [
        "mean_rank",
        "mean_rank_realistic",
        "mean_rank_pessimistic",
        "adjusted_mean_rank_index",
        "chance_pass_rate",
        "mrr",
        "hits@1",
        "hits@5",
    ]


@pytest.mark.parametrize("name", ["crucible_margin", "crucible_rank", "crucible_scoreboard"])
def test_chunks_equal_one_compute(load: Load, name: str) -> None:
    metric, (predictions, references) = load(name), case()
    settings = (
        {"version": "v1", "source_hash": "0123456789abcdef", "timestamp": "2026-01-01T00:00:00"}
        if name == "crucible_scoreboard"
        else {}
    )
    whole = metric.compute(predictions=predictions, references=references, **settings)
    for part in (slice(0, 7), slice(7, 8), slice(8, None)):
        metric.add_batch(predictions=predictions[part], references=references[part])
    assert metric.compute(**settings) == whole


def test_a_comparison_and_a_measurement_take_batches(load: Load) -> None:
    (first, at), rng = case(), np.random.default_rng(3)
    second = [(np.array(row) + rng.normal(0, 0.2, len(row))).tolist() for row in first]
    comparison = load("crucible_compare")
    assert comparison.module_type == "comparison"
    whole = comparison.compute(predictions1=first, predictions2=second, references=at)
    for part in (slice(0, 9), slice(9, None)):
        comparison.add_batch(
            predictions1=first[part], predictions2=second[part], references=at[part]
        )
    assert comparison.compute() == whole == compare(first, second, at)

    measurement = load("crucible_exposure")
    assert measurement.module_type == "measurement"
    training = {"steps": 10_000, "batch_size": 32, "probability": 0.1}
    pools = {"data": ["legacy", "organic"], "sizes": [454, 1200], "ratios": [0.75, 0.25]}
    whole = measurement.compute(**pools, **training)
    measurement.add_batch(**pools)
    assert measurement.compute(**training) == whole
    assert (whole["draws@legacy"], round(whole["expected@legacy"], 1)) == (24_000, 52.9)


def test_margin_and_rank_combine_without_renaming(load: Load) -> None:
    predictions, references = case()
    both = evaluate.combine([load("crucible_margin"), load("crucible_rank")])
    assert both.compute(predictions=predictions, references=references) == {
        **margin(predictions, references),
        **rank(predictions, references),
    }


def test_a_margin_of_a_billionth_survives_arrow(load: Load) -> None:
    metric = load("crucible_margin")
    metric.add_batch(predictions=[[0.5 + 1e-9, 0.5]], references=[0])
    assert metric.compute()["pass_rate"] == 1.0


def test_skipped_items_are_counted() -> None:
    found = margin([[0.5, 0.25], [0.5]], [0, 0], empty="skip")
    assert (found["n"], found["n_skipped"]) == (1, 1)
    assert rank([[0.5, 0.25], [0.5]], [0, 0], empty="skip")["n_skipped"] == 1


def write_eval(path: Path, tiers: bool = True) -> Path:
    names = ("tier1_easy", "tier3_adversarial", "tier1_easy")
    rows = [
        {
            "id": f"i{number}",
            "anchor": f"a{number}",
            "positive": "p",
            "negatives": ["n"],
            **({"tier": name} if tiers else {}),
        }
        for number, name in enumerate(names)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


SIMILARITIES = [[0.75, 0.5], [0.25, 0.5], [0.5, 0.125]]


def test_a_scoreboard_is_one_of_the_schema(tmp_path: Path) -> None:
    path = write_eval(tmp_path / "eval.jsonl")
    found = scoreboard(SIMILARITIES, [0, 0, 0], eval_file=path, version="v1", seed=42)
    parsed = Scoreboard.parse(found, where="here")
    assert parsed.eval_header.fingerprint.endswith("|42|3")
    assert parsed.eval_header.content_hash is not None
    assert parsed.eval_header.tier_distribution == {
        "tier1_easy": 2,
        "tier2_robust": 0,
        "tier3_adversarial": 1,
    }
    assert parsed.overall.correct == 2
    assert found["by_tier"]["tier2_robust"]["pass_rate"] is None
    json.dumps(found)
    without = write_eval(tmp_path / "plain.jsonl", tiers=False)
    assert scoreboard(SIMILARITIES, [0] * 3, eval_file=without, version="v1")["by_tier"] == {}
    # The command's own default, or the two would not be comparable.
    named = inspect.signature(scoreboard_command).parameters["seed"].default
    found = scoreboard(SIMILARITIES, [0, 0, 0], eval_file=path, version="v1")
    assert found["eval_header"]["seed"] == named


def test_tiers_have_tests_of_their_own() -> None:
    first, at = case()
    tiers = ["tier1_easy" if i % 2 else "tier3_adversarial" for i in range(len(first))]
    found = compare(first, [list(reversed(row)) for row in first], at, tiers=tiers)
    assert found["n"] == found["n@tier1_easy"] + found["n@tier3_adversarial"]
    for key in ("p_mcnemar", "p_permutation"):
        for at_tier in ("", "@tier1_easy", "@tier3_adversarial"):
            assert found[f"{key}_adjusted{at_tier}"] >= found[f"{key}{at_tier}"]
    assert "n@tier2_robust" not in found


POOLS = {"data": ["a", "b"], "sizes": [10, 20], "ratios": [0.5, 0.5]}
TRAINING = {"steps": 100, "batch_size": 8, "probability": 0.5}
OF = {"version": "v1", "source_hash": "0123456789abcdef"}
BAD: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "NaN": (margin, {"predictions": [[0.5, NAN]], "references": [0]}, "item 0: a similarity is"),
    "None": (
        rank,
        {"predictions": [[0.5, None]], "references": [0]},
        "item 0: a similarity is missing",
    ),
    "no negatives": (margin, {"predictions": [[0.5]], "references": [0]}, "item 0: no negatives"),
    "out of range": (
        rank,
        {"predictions": [[0.5, 0.1]], "references": [2]},
        "references, item 0: the index of the positive is out of range",
    ),
    "half an index": (
        margin,
        {"predictions": [[0.5, 0.1]], "references": [0.5]},
        "references, the index of the positive must be a whole number, got 0.5",
    ),
    "no index": (
        margin,
        {"predictions": [[0.5, 0.1]], "references": [None]},
        "the index of the positive must be a whole number, got None",
    ),
    "one number": (rank, {"predictions": 3, "references": [0]}, "predictions must be a list with"),
    "one place": (rank, {"predictions": [[1, 2]], "references": 0}, "references must be a list"),
    "one tier": (
        scoreboard,
        {"predictions": SIMILARITIES, "references": [0] * 3, "tiers": "tier1_easy", **OF},
        "tiers must be a list with one entry per item, got 'tier1_easy'",
    ),
    "other candidates": (
        compare,
        {"predictions1": [[1, 2]], "predictions2": [[1, 2, 3]], "references": [0]},
        "predictions2, item '0': 3 candidates, but 2 in predictions1",
    ),
    "ragged": (
        margin,
        {"predictions": [[0.5, 0.1]], "references": [0, 1]},
        "predictions holds 1 items, but references 2",
    ),
    "empty": (rank, {"predictions": [], "references": []}, "predictions is empty"),
    "missing": (rank, {"predictions": None, "references": [0]}, "predictions is missing"),
    "flat": (margin, {"predictions": [0.1, 0.2], "references": [0, 0]}, "got numbers; "),
    "duplicate ids": (
        margin,
        {"predictions": SIMILARITIES, "references": [0] * 3, "ids": ["a", "b", "a"]},
        "item 'a': the id occurs more than once",
    ),
    "unknown keyword": (
        margin,
        {"predictions": SIMILARITIES, "references": [0] * 3, "empties": "skip"},
        r"keyword 'empties' is unknown; .*Did you mean 'empty'",
    ),
    "unknown empty": (
        margin,
        {"predictions": SIMILARITIES, "references": [0] * 3, "empty": "drop"},
        "empty 'drop' is unknown",
    ),
    "hits": (rank, {"predictions": SIMILARITIES, "references": [0] * 3, "hits": 5}, "hits must be"),
    "no version": (
        scoreboard,
        {"predictions": SIMILARITIES, "references": [0] * 3, "source_hash": "0123456789abcdef"},
        "version is missing",
    ),
    "no evaluation set": (
        scoreboard,
        {"predictions": SIMILARITIES, "references": [0] * 3, "version": "v1"},
        "eval_file is missing",
    ),
    "unknown tier": (
        scoreboard,
        {"predictions": SIMILARITIES, "references": [0] * 3, "tiers": ["tier1"] * 3, **OF},
        "tier 'tier1' is unknown.*Did you mean 'tier1_easy'",
    ),
    "tiers too few": (
        compare,
        {
            "predictions1": SIMILARITIES,
            "predictions2": SIMILARITIES,
            "references": [0] * 3,
            "tiers": ["tier1_easy"],
        },
        "3 items but 1 tiers",
    ),
    "second model lacks an item": (
        compare,
        {"predictions1": SIMILARITIES, "predictions2": SIMILARITIES[:2], "references": [0] * 3},
        "predictions2 holds 2 items, but references 3",
    ),
    "ratios": (
        exposure,
        {**POOLS, **TRAINING, "ratios": [0.5, 0.6]},
        "the ratios of the pools add up to 1.1, not to 1",
    ),
    "pool twice": (exposure, {**POOLS, **TRAINING, "data": ["a", "a"]}, "pool 'a' is given twice"),
    "sizes too few": (exposure, {**POOLS, **TRAINING, "sizes": [1]}, "2 pools are named, but"),
    "half an item": (exposure, {**POOLS, **TRAINING, "sizes": [1.5, 2]}, "size must be a whole"),
    "no steps": (exposure, {**POOLS, "batch_size": 8, "probability": 0.5}, "steps is missing"),
}


@pytest.mark.parametrize(("metric", "call", "message"), BAD.values(), ids=BAD)
def test_bad_input(metric: Callable[..., Any], call: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        metric(**call)
    text = str(raised.value)
    assert "\n" not in text
    assert text.startswith(f"crucible_{metric.__name__}: ")
    assert re.search(rf"[^.?][.?] Right call: crucible_{metric.__name__}\.compute\(", text)


def test_an_evaluation_set_of_another_size_is_refused(tmp_path: Path) -> None:
    path = write_eval(tmp_path / "eval.jsonl")
    with pytest.raises(InputError, match="holds 3 items, predictions 2"):
        scoreboard(SIMILARITIES[:2], [0, 0], eval_file=path, version="v1")


def test_data_that_a_module_does_not_take_are_refused(load: Load) -> None:
    with pytest.raises(InputError, match="predictions is no data of this module; it takes data"):
        load("crucible_exposure").compute(predictions=[1], **POOLS, **TRAINING)


@pytest.mark.parametrize("name", KEYWORDS)
def test_wrong_keywords_do_not_cost_what_was_added(load: Load, name: str) -> None:
    with pytest.raises(InputError, match=f"^{name}: keyword 'seeed' is unknown"):
        load(name).check({"seeed": 1})
