"""The linter on the event: settings that register none, and events that nothing can warn of."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gmb_hf.design.design import Design
from gmb_hf.design.explain import explain_design
from gmb_hf.design.lint import DesignFacts, Finding, lint

REGIME = {"event_type": "E_regime", "regime_radius": 50}
PLATEAU = {"event_type": "E_plateau", "plateau_checkpoints": 5, "plateau_threshold": 0.9}


def design(**overrides: Any) -> Design:
    return Design.minimal(**{"horizon": 200, "safe_gap": 400, **overrides})


def found(design: Design, **facts: Any) -> dict[str, Finding]:
    known = {"cadence": 50, "windowed": (), **facts}
    return {item.code: item for item in lint(design, DesignFacts(**known))}


@pytest.mark.parametrize("event", [REGIME, PLATEAU, {}])
def test_a_sound_event_has_no_finding(event: dict[str, Any]) -> None:
    assert found(design(**event)) == {}


def test_only_a_jump_has_a_window_that_must_fit_the_cadence() -> None:
    assert "event_window_off_cadence" in found(design(w_event=75))
    assert found(design(w_event=75, **REGIME)) == {}
    assert found(design(w_event=75, **PLATEAU)) == {}


@pytest.mark.parametrize(
    ("settings", "unused"),
    [
        ({"theta_floor": 0.5, **PLATEAU}, "x_theta_floor (E_jump)"),
        ({"require_new_max": True, **REGIME}, "x_require_new_max (E_jump)"),
        ({"plateau_checkpoints": 5}, "x_plateau_checkpoints (E_plateau)"),
        ({"regime_radius": 50, **PLATEAU}, "x_regime_radius (E_regime)"),
    ],
)
def test_a_setting_of_another_event_is_named(settings: dict[str, Any], unused: str) -> None:
    finding = found(design(**settings))["event_settings_unused"]
    assert finding.level == "warning"
    assert f"passes over {unused}; leave them out" in finding.message


class TestRadius:
    def test_below_the_cadence_it_refuses_a_strict_design(self) -> None:
        finding = found(design(**{**REGIME, "regime_radius": 49}))["radius_below_cadence"]
        assert finding.level == "error"
        assert finding.message == (
            "x_regime_radius 49 is below the cadence 50: signals move together only at one and "
            "the same checkpoint, and no radius below it can give another result; use 50 or more"
        )

    def test_to_the_letter_it_is_a_warning(self) -> None:
        chosen = design(**{**REGIME, "regime_radius": 20, "protocol": "v0.4"})
        assert found(chosen)["radius_below_cadence"].level == "warning"

    def test_without_a_cadence_it_is_not_judged(self) -> None:
        assert found(design(**{**REGIME, "regime_radius": 1}), cadence=None) == {}


@pytest.mark.parametrize(("quantile", "dense"), [(0.9, True), (0.98, True), (0.981, False)])
def test_a_quantile_that_leaves_every_run_inconclusive(quantile: float, dense: bool) -> None:
    codes = found(design(**REGIME, regime_quantile=quantile))
    assert ("regime_too_dense" in codes) is dense
    # It is the arithmetic of the density: at .98 no length of a run keeps it.
    shares = [(n - round((n - 1) * quantile)) / n for n in range(2, 3000)]
    assert (min(shares) > 0.02) is dense


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({}, "event.metric, x_direction, jump_threshold, window_W_event"),
        (PLATEAU, "event.metric, x_direction, x_plateau_threshold, x_plateau_checkpoints"),
        (REGIME, "x_regime_quantile, x_regime_radius"),
    ],
)
def test_no_events_names_what_they_are_read_from(event: dict[str, Any], words: str) -> None:
    finding = found(design(**event), event_steps=(math.nan, math.nan))["no_events"]
    assert finding.message == f"none of 2 runs has an event; check {words}, or train longer"


def test_excluded_runs_are_counted() -> None:
    facts = {"excluded": {"INCONCLUSIVE": 2, "ESTIMATOR_UNSTABLE": 1}, "n_explore": 30}
    finding = found(design(**REGIME), **facts)["runs_excluded"]
    assert finding.level == "warning"
    assert finding.message == (
        "3 of 30 excluded, as neither events nor negatives: PT-MSS cannot say whether they have a "
        "transition (2 INCONCLUSIVE, 1 ESTIMATOR_UNSTABLE)"
    )


def test_events_before_burn_in_are_named() -> None:
    steps = (100.0, 150.0, 151.0, math.nan)
    finding = found(design(burn_in=150), event_steps=steps)["events_before_burn_in"]
    assert finding.level == "warning"
    assert finding.message.startswith("2 of 3 events come before x_burn_in 150 ends")
    assert "events_before_burn_in" not in found(design(), event_steps=(0.0,))
    assert "events_before_burn_in" not in found(design(burn_in=150), event_steps=(151.0,))


def test_a_floor_is_proposed_for_jumps_only() -> None:
    facts = {"event_steps": (0.0,), "first_steps": (0,)}
    jump, plateau = (
        found(design(**event), **facts)["events_on_first_step"].message for event in ({}, PLATEAU)
    )
    assert jump.endswith("set x_event_t_min or x_theta_floor")
    assert plateau.endswith("set x_event_t_min, or, for a loss, x_direction: falling")


def test_each_event_in_a_sentence() -> None:
    def sentence(**overrides: Any) -> str:
        lines = explain_design(design(**overrides))
        return next(line for line in lines if line.startswith("The event t* is"))

    assert sentence(**PLATEAU) == (
        "The event t* is the first of 5 consecutive checkpoints with test_acc at or above 0.9."
    )
    assert "0.9" in sentence(**PLATEAU, plateau_regression=2)
    assert "up to 2 in a row may lie below" in sentence(**PLATEAU, plateau_regression=2)
    assert sentence(**REGIME) == (
        "The event t* is the step at which force, info and constraint, each at or above its 0.99 "
        "quantile of the run, move together within 50 steps (PT-MSS); alternate estimates must "
        "see it within 15 steps and in the same order. Runs that PT-MSS finds INCONCLUSIVE or "
        "ESTIMATOR_UNSTABLE are excluded."
    )


def test_options_of_a_jump_are_not_said_of_another_event() -> None:
    lines = " ".join(explain_design(design(theta_floor=0.5, require_new_max=True, **PLATEAU)))
    assert "The jump must" not in lines
    assert "dip" not in lines
