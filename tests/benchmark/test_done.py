"""The definition of done (spec 7): each of its boxes can stay open, and says why."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.validation import Check, definition_of_done

Change = Callable[[dict[str, Any]], object]


def indicator(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "family": "dynamics",
        "layer_A": {"auc": 0.5, "ap": 0.1},
        "layer_B": {
            "targets": [0.05, 0.1],
            "achieved": [{"target": 0.05, "achieved": 0.05}, {"target": 0.1, "achieved": 0.1}],
            "ok_targets": 2,
            "fpr_min": 0.05,
            "controllability_pass": True,
            "fpr_floor_detected": False,
        },
        "layer_C": {
            "at_fpr": [
                {
                    "fpr": fpr,
                    "coverage": 0.5,
                    "lead_time_median": 100,
                    "lead_time_iqr": 10,
                    "lead_time_success": 0.5,
                }
                for fpr in (0.05, 0.1)
            ]
        },
        "layer_D": {"family_size": 1, "pass_rate": 1.0, "label_flip_rate": 0.0},
        "label": "RANK_ONLY",
    }


COMPLETE: dict[str, Any] = {
    "schema_version": "v0.4",
    "meta": {"run_id": "r", "date": "2026-01-27"},
    "boundary": {"task": "t", "model": "m"},
    "event": {"type": "E_jump"},
    "summary": {"n_seeds": 40, "n_events": 30},
    "indicators": [indicator("a"), indicator("b")],
    "tables": {"gate_summary_path": "tables/gate_summary.csv"},
    "x_calibration": {"method": "locked"},
    "x_provenance": {"package_version": "0", "python": "3", "lock_hash": "ab"},
}
BOXES = ("events", "layer B", "layer C", "table", "frozen")


def checks(change: Change = lambda plain: None, folder: Path | None = None) -> tuple[Check, ...]:
    plain = copy.deepcopy(COMPLETE)
    change(plain)
    return definition_of_done(Results.parse(plain, where="test"), folder)


def first(plain: dict[str, Any], layer: str) -> Any:
    return plain["indicators"][0][layer]


def test_a_complete_file_has_every_box_checked() -> None:
    found = checks()
    assert [check.passed for check in found] == [True] * 5
    assert found[0].detail == "30 events in 40 runs"
    assert found[2].detail == "2 of 2 indicators have them at 0.05, 0.1"


@pytest.mark.parametrize(
    ("box", "change", "detail"),
    [
        ("events", lambda p: p["summary"].update(n_events=29), "29 events in 40 runs"),
        ("events", lambda p: p["summary"].update(n_events=None), "an unknown number of events"),
        ("events", lambda p: p["summary"].update(x_event_count_min=31), "30 events in 40 runs"),
        (
            "layer B",
            lambda p: first(p, "layer_B")["achieved"][1].update(achieved=None),
            "1 of 2 indicators have an achieved rate at every target; missing: a",
        ),
        ("layer B", lambda p: first(p, "layer_B")["achieved"].pop(), "missing: a"),
        ("layer B", lambda p: first(p, "layer_B").update(targets=[], achieved=[]), "missing: a"),
        (
            "layer C",
            lambda p: first(p, "layer_C")["at_fpr"][0].update(coverage=None),
            "1 of 2 indicators have them at 0.05, 0.1; missing: a",
        ),
        (
            "layer C",
            lambda p: first(p, "layer_C")["at_fpr"][0].update(lead_time_median=None),
            "missing: a",
        ),
        ("layer C", lambda p: first(p, "layer_C")["at_fpr"].pop(), "missing: a"),
        (
            "layer C",
            lambda p: [item["layer_C"].update(at_fpr=[]) for item in p["indicators"]],
            "0 of 2 indicators have them at no point; missing: a, b",
        ),
        ("table", lambda p: p["tables"].update(gate_summary_path=None), "no path is given"),
        ("frozen", lambda p: p.pop("x_provenance"), "no lock: this evaluation is exploratory"),
        ("frozen", lambda p: p.update(x_calibration={"method": "cross_run"}), "no lock: this"),
    ],
)
def test_each_box_can_stay_open_and_alone(box: str, change: Change, detail: str) -> None:
    found = checks(change)
    assert [check.passed for check in found] == [name != box for name in BOXES]
    assert detail in found[BOXES.index(box)].detail


def test_without_indicators_nothing_is_reported() -> None:
    found = checks(lambda plain: plain.update(indicators=[]))
    assert [check.passed for check in found] == [True, False, False, True, True]


def test_zero_coverage_and_abstaining_are_full_reports() -> None:
    def never(plain: dict[str, Any]) -> None:
        for point in first(plain, "layer_C")["at_fpr"]:
            point.update(coverage=0.0, lead_time_median=None)
        first(plain, "layer_B")["achieved"][0].update(achieved=None, x_answer="ABSTAIN")

    assert all(check.passed for check in checks(never))


def test_the_preregistered_operating_points_are_asked_for() -> None:
    design = {
        "labels": {
            "positive_window": {"horizon_steps": 200},
            "negative_window": {"safe_gap_steps": 400},
        }
    }
    found = checks(lambda plain: plain.update(x_prereg=design))
    assert not found[2].passed
    assert found[2].detail == "0 of 2 indicators have them at 0.01, 0.05, 0.1; missing: a, b"


def test_the_table_is_looked_into_where_there_is_a_folder(tmp_path: Path) -> None:
    assert checks(folder=tmp_path)[3].detail == "tables/gate_summary.csv is not there"
    table = tmp_path / "tables" / "gate_summary.csv"
    table.parent.mkdir()
    table.write_text("indicator,AUC\na,0.5\n")
    assert checks(folder=tmp_path)[3] == Check(
        "A single summary table exists", False, "tables/gate_summary.csv lacks b"
    )
    table.write_text("indicator,AUC\na,0.5\nb,0.5\n")
    assert checks(folder=tmp_path)[3].passed
