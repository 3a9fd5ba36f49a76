"""The linter: one named finding per fault, none for a sound design."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.core.thresholds import effective_budget, runs_advised, runs_needed
from gmb_hf.design.design import Design
from gmb_hf.design.lint import DesignFacts, Finding, lint, refuse_unsound


def sound(**overrides: Any) -> Design:
    settings: dict[str, Any] = {
        "horizon": 200,
        "safe_gap": 400,
        "fpr_targets": [0.05, 0.1],
        "candidates": [{"name": "csd", "params": {"window": 200}}],
    }
    return Design.minimal(**{**settings, **overrides})


FACTS: dict[str, Any] = {
    "cadence": 50,
    "n_explore": 136,
    "n_explore_with_negatives": 100,
    "n_eval": 256,
    "event_steps": tuple(float(step) for step in range(500, 2500, 20)),
    "first_steps": (0,) * 100,
    "windowed": ("csd",),
}


SOME_RUNS = {"n_explore_with_negatives": 44}


def found(design: Design, **facts: Any) -> dict[str, Finding]:
    findings = lint(design, DesignFacts(**{**FACTS, **facts}))
    return {item.code: item for item in reversed(findings)}  # the first of each code


def test_a_sound_design_has_no_finding() -> None:
    assert found(sound()) == {}
    assert lint(sound()) == []


@pytest.mark.parametrize(
    ("code", "level", "overrides", "facts"),
    [
        ("left_to_fill_in", "warning", {"task": "<task name>"}, {}),
        ("horizon_reaches_gap", "error", {"safe_gap": 200}, {}),
        ("lead_minimum_beyond_horizon", "error", {"lead_time_median_min": 201}, {}),
        ("lead_target_beyond_horizon", "warning", {"lead_time_target": 201}, {}),
        ("cadence_differs", "error", {"cadence": 25}, {}),
        ("event_window_off_cadence", "error", {"w_event": 75}, {}),
        ("horizon_below_cadence", "error", {"horizon": 40, "lead_time_median_min": 0}, {}),
        ("seeds_overlap", "error", {"seeds_explore": [1, 2], "seeds_eval": [2, 3]}, {}),
        ("no_events", "warning", {}, {"event_steps": (math.nan,), "first_steps": (0,)}),
        ("events_on_first_step", "warning", {}, {"first_steps": (700,) * 100}),
        ("dip_recoveries", "warning", {}, {"dip_recoveries": 3}),
        ("metric_in_percent", "warning", {}, {"metric_range": (2.0, 98.5)}),
        ("duplicate_steps", "warning", {}, {"duplicates_dropped": {"seed_140": 63, "b": 0}}),
        ("non_causal_indicator", "error", {}, {"non_causal": ("smoothed",)}),
        ("reversed_sign", "warning", {"candidates": [{"name": "csd", "x_sign": -1}]}, {}),
        ("window_off_cadence", "error", {"window_sweep": [100, 175]}, {}),
        ("sweep_without_effect", "warning", {"window_sweep": [100, 110]}, {}),
        ("sweep_without_effect", "warning", {"window_sweep": [100]}, {}),
        ("smoothing_without_effect", "warning", {"smoothing_sweep": [1]}, {}),
        ("smoothing_without_effect", "warning", {"smoothing_sweep": [3, 3]}, {}),
        ("few_held_out_runs", "warning", {}, {"n_eval": 20}),
        ("few_held_out_runs", "error", {"event_count_min": 500}, {"n_eval": 120}),
        (
            "few_held_out_runs",
            "error",
            {"event_count_min": 500, "max_eval_seeds": 120},
            {"n_eval": None},
        ),
        (
            "few_runs_for_run_budget",
            "error",
            {"run_budgets": [0.01, 0.05], "fpr_targets": [0.05, 0.1]},
            {"n_explore_with_negatives": 98},
        ),
        ("few_runs_for_run_budget", "error", {"calibration": "conditional"}, SOME_RUNS),
        ("thin_run_budget", "warning", {}, {"n_explore_with_negatives": 21}),
        ("one_run_threshold", "warning", {}, {"n_explore_with_negatives": 38}),
        ("run_groups_exceed_runs", "error", {}, {"n_eval": 4}),
        ("few_null_draws", "error", {"null_draws": 18}, {}),
        ("few_null_draws", "error", {"null_draws": 578}, {"n_candidates": 29}),
        (
            "few_runs_for_target",
            "warning",
            {"fpr_targets": [0.01, 0.05, 0.1]},
            {"n_explore_with_negatives": 98},
        ),
        ("few_runs_for_primary", "error", {}, {"n_explore_with_negatives": 18}),
        ("thin_budget", "warning", {}, {"n_explore_with_negatives": 94}),
        ("too_few_reachable_targets", "error", {}, {"n_explore_with_negatives": 8}),
    ],
)
def test_each_fault_has_its_own_finding(
    code: str, level: str, overrides: dict[str, Any], facts: dict[str, Any]
) -> None:
    finding = found(sound(**overrides), **facts)[code]
    assert finding.level == level
    assert str(finding).startswith(f"{level} [{code}] ")


def test_what_is_at_its_limit_is_no_fault() -> None:
    assert found(sound(safe_gap=201)) == {}
    assert found(sound(null_draws=579), n_candidates=29) == {}
    assert found(sound(), n_explore_with_negatives=95) == {}
    five_of_hundred = tuple([0.0] * 5 + [900.0] * 95)
    assert found(sound(), event_steps=five_of_hundred) == {}
    assert "events_on_first_step" in found(sound(), event_steps=(0.0, *five_of_hundred[:-1]))


def test_nothing_is_said_where_it_does_not_matter() -> None:
    assert found(sound(require_new_max=True), dip_recoveries=3) == {}
    assert found(sound(window_sweep=[130]), windowed=()) == {}
    assert found(sound(protocol="v0.4"), n_explore_with_negatives=3) == {}


def test_the_messages_say_what_to_do() -> None:
    assert "use 100" in found(sound(w_event=90))["event_window_off_cadence"].message
    assert "at least 579" in found(sound(null_draws=9), n_candidates=29)["few_null_draws"].message
    message = found(sound(), n_explore_with_negatives=32)["thin_budget"].message
    assert "0.020" in message
    assert "95 runs" in message
    duplicates = found(sound(), duplicates_dropped={"seed_140": 63, "seed_141": 1})
    assert "64 rows" in duplicates["duplicate_steps"].message
    assert "seed_140 (63)" in duplicates["duplicate_steps"].message


@pytest.mark.parametrize(
    ("overrides", "low", "high"),
    [
        ({}, 0.0, 1.5),  # a share
        ({}, -3.0, 40.0),  # no accuracy
        ({}, 0.0, 250.0),
        ({"jump_threshold": 20.0}, 2.0, 98.5),
        ({"direction": "falling"}, 2.0, 98.5),
        ({"metric": "eval_loss"}, 0.1, 3.5),
    ],
)
def test_what_is_no_accuracy_in_percent(overrides: dict[str, Any], low: float, high: float) -> None:
    assert "metric_in_percent" not in found(sound(**overrides), metric_range=(low, high))


def test_an_accuracy_in_percent_is_said() -> None:
    message = found(sound(), metric_range=(2.0, 98.5))["metric_in_percent"].message
    assert message == (
        "test_acc reaches 98.5, as an accuracy in percent does, and jump_threshold 0.15 is a share "
        "of 1: if it is in percent, divide it by 100, or ask for 15"
    )
    plateau = sound(event_type="E_plateau", plateau_threshold=0.5, plateau_checkpoints=5)
    assert "or ask for 50" in found(plateau, metric_range=(2, 99))["metric_in_percent"].message


def test_errors_come_first_and_are_refused_all_at_once() -> None:
    findings = lint(sound(safe_gap=100, w_event=75), DesignFacts(**{**FACTS, "dip_recoveries": 1}))
    assert [item.level for item in findings] == ["error", "error", "warning"]
    with pytest.raises(InputError, match=r"2 fault.*horizon_reaches_gap.*event_window_off_cadence"):
        refuse_unsound(findings)
    refuse_unsound(findings[2:])
    with pytest.raises(InputError, match="dip_recoveries"):
        refuse_unsound(findings[2:], warnings_too=True)


def test_the_runs_that_a_budget_takes() -> None:
    assert [runs_needed(target) for target in (0.01, 0.05, 0.1, 0.2, 0.15)] == [99, 19, 9, 4, 6]
    assert [runs_advised(target) for target in (0.01, 0.05, 0.1)] == [495, 95, 45]
    assert effective_budget(0.05, 18) == 0
    assert effective_budget(0.05, 19) == pytest.approx(0, abs=1e-12)
    assert effective_budget(0.05, 100) == pytest.approx(0.0405)


def test_a_budget_of_runs_says_which_field_and_how_many_runs() -> None:
    few = found(sound(), n_explore_with_negatives=12)["few_runs_for_run_budget"].message
    assert few == (
        "x_run_budgets: 1 run in 20 takes 19 explore runs with negative windows, there are 12, "
        "which promise nothing; no score can pass, since x_primary_run_budget is among them; train "
        "more, or choose budgets that so many runs can promise"
    )
    # A budget that somebody asked for is a fault; one of the defaults that is passed over is none.
    asked = sound(run_budgets=[0.001, 0.05])
    assert found(asked)["few_runs_for_run_budget"].level == "error"
    lost = sound(primary_run_budget=0.1, primary_fpr=0.1)
    assert found(lost, n_explore_with_negatives=12)["few_runs_for_run_budget"].level == "warning"


@pytest.mark.parametrize(
    ("fields", "metric_range", "said"),
    [
        ({"jump_threshold": 1.5}, (0.1, 1.0), "jump_threshold is 1.5, and test_acc is an accuracy"),
        ({"theta_floor": 50.0}, (0.1, 1.0), "x_theta_floor is 50, and test_acc is an accuracy"),
        ({"jump_threshold": 1.5}, (0.1, 99.0), ""),
        ({"jump_threshold": 1.5, "metric": "val_loss"}, (0.1, 0.9), ""),
        ({"jump_threshold": 1.0}, (0.0, 1.0), ""),
        ({"jump_threshold": 1.5}, None, ""),
    ],
)
def test_an_accuracy_does_not_rise_by_more_than_one(
    fields: dict[str, Any], metric_range: tuple[float, float] | None, said: str
) -> None:
    never = {"event_steps": (math.nan,), "first_steps": (0,), "metric_range": metric_range}
    beyond = found(sound(**fields), **never)
    assert ("beyond_accuracy" in beyond) == bool(said)
    assert ("no_events" in beyond) != bool(said)  # one cause, one line
    if said:
        finding = beyond["beyond_accuracy"]
        assert (finding.level, said in finding.message) == ("error", True)
        assert finding.message.endswith("(0.1 to 1 in the explore runs); set it below 1")


def test_the_other_budgets_of_runs() -> None:
    thin = found(sound(), n_explore_with_negatives=20)["thin_run_budget"].message
    assert "x_primary_run_budget 0.05 is 90% sure of a rate of at most 0.11 only; 22 keep" in thin
    one = found(sound(), n_explore_with_negatives=22)
    assert "thin_run_budget" not in one
    assert one["one_run_threshold"].message == (
        "with 22 explore runs the threshold of first alarms at x_primary_run_budget 0.05 is the "
        "largest score that any of them had before its event: one run decides how many events it "
        "detects; from 39 on it is the second largest"
    )
    assert "one_run_threshold" not in found(sound(), n_explore_with_negatives=39)
    of_runs = {"few_runs_for_run_budget", "thin_run_budget", "one_run_threshold"}
    assert not of_runs & found(sound()).keys()
