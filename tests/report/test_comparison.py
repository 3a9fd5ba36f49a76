"""Two evaluations side by side: what changed, and whether the numbers compare at all."""

from __future__ import annotations

import copy
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evaluation_builders import results

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.results import Results
from gmb_hf.report.compare import (
    Pair,
    ResultsComparison,
    compare,
    count_changes,
    verdict,
    write_comparison,
)

NAMES = ["csd_lag1", "vei", "clock"]
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def first() -> Results:
    return results(NAMES, n_runs=40)


def changed(original: Results, change: Change) -> Results:
    plain = copy.deepcopy(original.plain())
    change(plain)
    return Results.parse(plain, where="test")


def foreign(original: Results, change: Change = lambda plain: None) -> Results:
    """The same file without fingerprints."""

    def strip(plain: dict[str, Any]) -> None:
        del plain["x_provenance"], plain["x_prereg"]
        for item in plain["indicators"]:
            item["x_alarm_eligible"] = False
        change(plain)

    return changed(original, strip)


def pair(found: ResultsComparison, name: str, quantity: str) -> Pair:
    return next(item for item in found.indicators if item.name == name).values[quantity]


def test_a_file_is_comparable_with_itself_and_nothing_changed(first: Results) -> None:
    found = compare(first, first)
    assert found.comparable is True
    assert not any(item.changed for item in found.indicators)
    assert verdict(found) == "Comparable: the same judged data and the same preregistration."
    assert count_changes(found) == "0 of 3 indicators differ, 0 in their label."


def test_what_changed_is_marked_and_comes_first(first: Results) -> None:
    def change(plain: dict[str, Any]) -> None:
        item = plain["indicators"][1]
        item["layer_A"]["auc"] += 0.01
        item["label"] = "INCONCLUSIVE"
        item["x_alarm_eligible"] = False
        item["layer_B"]["achieved"][1]["achieved"] = 0.06  # at the primary target, .05
        item["layer_C"]["at_fpr"][0]["coverage"] = 0.99  # at another target
        item["x_p_adjusted"] = None
        item["x_first_alarm"]["at_budget"][0]["detection_rate"] = 0.5
        item["x_first_alarm"]["at_budget"][1]["timely_rate"] = 0.5  # at another budget

    found = compare(first, changed(first, change))
    assert [item.name for item in found.indicators] == ["vei", "csd_lag1", "clock"]
    assert found.target == 0.05
    assert pair(found, "vei", "AUC").changed
    assert pair(found, "vei", "FPR").b == 0.06
    assert pair(found, "vei", "label").b == "INCONCLUSIVE"
    assert not pair(found, "vei", "coverage").changed
    point = first.indicators[1].point(0.05)
    assert point is not None
    # The raw one, in place of the adjusted.
    assert pair(found, "vei", "p_by_windows").b == point.x_p_value
    assert (found.budget, pair(found, "vei", "detection_rate").b) == (0.05, 0.5)
    assert not pair(found, "vei", "timely_rate").changed
    assert count_changes(found) == "1 of 3 indicators differ, 1 in their label."


def test_files_without_first_alarms_are_compared_by_windows_alone(first: Results) -> None:
    def strip(plain: dict[str, Any]) -> None:
        for item in plain["indicators"]:
            item |= {"x_first_alarm": None, "x_alarm_eligible": False}

    windows = changed(first, strip)
    alone = list(compare(windows, windows).indicators[0].values)
    assert alone[:3] == ["label", "FPR", "coverage"]
    assert "detection_rate" not in alone
    beside = compare(windows, first)
    assert pair(beside, "vei", "detection_rate").a is None
    assert pair(beside, "vei", "detection_rate").b is not None


def test_a_rounding_error_is_no_change() -> None:
    assert not Pair(0.1 + 0.2, 0.3).changed
    assert Pair(0.3, 0.3001).changed
    assert Pair(None, 0.3).changed
    assert not Pair(None, None).changed


def test_indicators_of_one_file_only(first: Results) -> None:
    def rename(plain: dict[str, Any]) -> None:
        plain["indicators"][0]["name"] = "new"

    found = compare(first, changed(first, rename))
    only = {item.name: item.only_in for item in found.indicators}
    assert only == {"csd_lag1": "A", "new": "B", "vei": None, "clock": None}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda p: p["x_provenance"].update(evaluation_fingerprint="cd" * 32),
            "they differ in their judged data ({} and cdcdcdcdcdcdcdcd)",
        ),
        (
            lambda p: p["x_prereg"]["labels"]["positive_window"].update(horizon_steps=201),
            "they differ in their preregistration (",
        ),
    ],
)
def test_other_runs_or_another_design_do_not_compare(
    first: Results, change: Change, words: str
) -> None:
    found = compare(first, changed(first, change))
    assert found.comparable is False
    assert first.x_provenance is not None
    judged = str(first.x_provenance.evaluation_fingerprint)[:16]
    assert words.format(judged) in verdict(found)


def test_who_fixed_the_design_and_when_is_no_difference(first: Results) -> None:
    def later(plain: dict[str, Any]) -> None:
        plain["x_prereg"]["meta"].update(date_locked="2030-01-01", commit_hash="abc")
        plain["x_provenance"]["prereg_hash"] = "ef" * 32

    assert compare(first, changed(first, later)).comparable is True


def test_where_a_design_is_not_stored_its_hash_speaks(first: Results) -> None:
    def hash_only(plain: dict[str, Any]) -> None:
        del plain["x_prereg"]

    bare = changed(first, hash_only)
    assert compare(first, bare).comparable is True

    def another(plain: dict[str, Any]) -> None:
        plain["x_provenance"]["prereg_hash"] = "ef" * 32

    assert compare(first, changed(bare, another)).comparable is False


def test_without_fingerprints_nobody_can_tell(first: Results) -> None:
    found = compare(foreign(first), foreign(first))
    assert found.comparable is None
    assert "A and B have no fingerprint of the judged data" in verdict(found)
    assert "B has no fingerprint of the preregistration" in verdict(compare(first, foreign(first)))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("event.type", lambda p: p["event"].update(type="E_plateau")),
        ("event.t_event_by_seed", lambda p: p["event"]["t_event_by_seed"].update({"0": 7})),
        ("boundary.task", lambda p: p["boundary"].update(task="copy")),
        ("boundary.model", lambda p: p["boundary"].update(model="another")),
        ("boundary.seeds_eval", lambda p: p["boundary"].update(seeds_eval=[1])),
        ("x_protocol", lambda p: p.update(x_protocol="v0.4")),
    ],
)
def test_without_fingerprints_the_statements_speak(
    first: Results, field: str, change: Change
) -> None:
    found = compare(foreign(first), foreign(first, change))
    assert found.differences == (field,)
    assert compare(foreign(first), foreign(first)).differences == ()


def test_what_a_foreign_file_leaves_open_is_no_difference(first: Results) -> None:
    silent = foreign(first, lambda plain: plain["event"].update(t_event_by_seed={}))
    assert compare(foreign(first), silent).comparable is None


class TestFiles:
    """Markdown, CSV and JSON."""

    @pytest.fixture
    def found(self, first: Results) -> ResultsComparison:
        def change(plain: dict[str, Any]) -> None:
            plain["indicators"][0]["name"] = "new|one"
            plain["indicators"][1]["layer_A"]["auc"] = 0.123
            plain["indicators"][2]["layer_A"]["auc"] = None

        return compare(first, changed(first, change))

    def test_markdown(self, found: ResultsComparison, tmp_path: Path) -> None:
        text = write_comparison(found, "a_1.yaml", "b.yaml", tmp_path / "c.md").read_text()
        assert "A is a_1.yaml, B is b.yaml." in text
        assert "| indicator | label | detection rate | timely detection rate | false-al" in text
        assert "| false positive rate by windows | coverage by windows |" in text
        assert "→ **0.123** |" in text
        assert "→ **–** |" in text
        assert "new\\|one (only in B)" in text
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        assert len({line.replace("\\|", "").count("|") for line in rows}) == 1

    def test_csv_has_every_digit(self, found: ResultsComparison, tmp_path: Path) -> None:
        path = write_comparison(found, "a", "b", tmp_path / "c.csv")
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 4 * 14
        auc = {row["indicator"]: row for row in rows if row["quantity"] == "AUC"}
        assert auc["vei"]["B"] == "0.123"
        assert (auc["clock"]["B"], auc["clock"]["changed"]) == ("", "True")
        assert auc["new|one"]["only_in"] == "B"

    def test_json(self, found: ResultsComparison, tmp_path: Path) -> None:
        path = write_comparison(found, "a", "b", tmp_path / "c.json")
        plain = json.loads(path.read_text(encoding="utf-8"))
        assert (plain["a"], plain["comparable"], plain["target"]) == ("a", True, 0.05)
        item = next(item for item in plain["indicators"] if item["name"] == "vei")
        assert item["AUC"]["b"] == 0.123
        assert item["AUC"]["changed"]

    def test_another_ending(self, found: ResultsComparison, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"c\.txt: a comparison is written as \.md, \.csv"):
            write_comparison(found, "a", "b", tmp_path / "c.txt")
