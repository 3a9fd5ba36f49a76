"""A fault of a design or a lock has a code and a place; messages may be reworded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gmb_hf.base.documents import load_document, parse_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.design.design import Design
from gmb_hf.design.lint import lint, refuse_unsound
from gmb_hf.design.lock import Lock, LockedCandidate

TAUS = {0.01: 2.0, 0.05: 1.5, 0.10: 1.0}


def design(**overrides: Any) -> Design:
    return Design.minimal(
        horizon=200, safe_gap=400, seeds_eval=[9, 10], candidates=[{"name": "csd"}], **overrides
    )


def built(**overrides: Any) -> Lock:
    settings: dict[str, Any] = {
        "explore_fingerprint": "ab" * 32,
        "explore_runs": ("a", "b"),
        "explore_seeds": (1, 2),
        "n_calibration_runs": 2,
        **overrides,
    }
    candidates = settings.pop("candidates", {"csd": LockedCandidate.freeze({"central": TAUS})})
    return Lock.build(settings.pop("design", design()), candidates, **settings)


def document(**event: Any) -> dict[str, Any]:
    plain = design().plain()
    return {**plain, "event": {**plain["event"], **event}}


@pytest.mark.parametrize(
    ("call", "code", "location"),
    [
        (
            lambda: Design.parse(document(metrik="acc"), where="p.yaml"),
            "unknown_field",
            {"where": "p.yaml", "field": "event.metrik"},
        ),
        (
            lambda: Design.parse(document(window_W_event="x"), where="p.yaml"),
            "bad_value",
            {"where": "p.yaml", "field": "event.window_W_event"},
        ),
        (
            lambda: Design.parse({}, where="p.yaml"),
            "missing_field",
            {"where": "p.yaml", "field": "labels.positive_window.horizon_steps"},
        ),
        (lambda: Design.minimal(horizon=1, safe_gap=2, horizn=3), "unknown_prereg_field", {}),
        (lambda: Design.read("nowhere.yaml"), "no_such_file", {"where": "nowhere.yaml"}),
        (lambda: parse_yaml("a: [", where="p.yaml"), "unreadable", {"where": "p.yaml"}),
        (
            lambda: refuse_unsound(lint(design(lead_time_median_min=300))),
            "lead_minimum_beyond_horizon",
            {"name": "lead_minimum_beyond_horizon"},
        ),
        (lambda: built(candidates={}), "lock_incomplete", {"name": "csd"}),
        (lambda: built(explore_seeds=[9]), "runs_overlap", {}),
        (lambda: built().check_evaluation(["c"], [1]), "runs_overlap", {}),
        (
            lambda: built().check_evaluation(["c"], [11]),
            "undeclared_seed",
            {"field": "boundary.seeds_eval"},
        ),
        (
            lambda: built(design=design(max_eval_seeds=2)).check_evaluation("cde", [9, 10, 11]),
            "too_many_runs",
            {"field": "x_max_eval_seeds"},
        ),
        (
            lambda: built(design=design(task="add")).check_evaluation(
                ["c"], [9], declared={"task": ["copy"]}
            ),
            "other_boundary",
            {"field": "boundary.task"},
        ),
    ],
)
def test_a_fault_has_a_code_and_a_place(
    call: Callable[[], object], code: str, location: dict[str, str]
) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.code == code
    assert location.items() <= caught.value.location.items()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("horizon_steps: 200", "horizon_steps: 250", "lock_edited"),
        ("x_lock:", "x_lok:", "not_a_lock"),
        ("x_schema: 2", "x_schema: 7", "newer_schema"),
    ],
)
def test_a_lock_that_is_refused_says_why_by_a_code(
    tmp_path: Path, old: str, new: str, code: str
) -> None:
    path = built().write(tmp_path / "lock.yaml")
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        Lock.read(path)
    assert (caught.value.code, caught.value.location["where"]) == (code, str(path))


def test_a_key_given_twice_in_json_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"a": 1, "a": 2}')
    with pytest.raises(InputError, match=r"results\.json: key 'a' is given twice"):
        load_document(path)
