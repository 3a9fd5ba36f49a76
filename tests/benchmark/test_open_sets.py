"""Chance nulls and kinds of events are open sets: one that is registered is used everywhere."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from score_builders import design as small_design
from score_builders import null_paths, scores_of

import gmb_hf
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark import events
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.scores import registrable_until
from gmb_hf.benchmark.sections import CalibrationRecord
from gmb_hf.benchmark.verdict import judge
from gmb_hf.core import nulls
from gmb_hf.core.nulls import Alarms, register_null
from gmb_hf.design.design import Design
from gmb_hf.design.event_types import EVENT_TYPES, EventDefinition
from gmb_hf.design.explain import explain_design
from gmb_hf.design.lint import DesignFacts, lint
from gmb_hf.report.report import render_report
from gmb_hf.report.tables import utility_at_fpr
from gmb_hf.runs.runlog import RunLog


@pytest.fixture
def coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another baseline of both units, by which every event is detected with probability .9."""
    monkeypatch.setattr(nulls, "NULLS", dict(nulls.NULLS))

    @register_null("coin", label="by the toss of a coin")
    def coin(alarms: Alarms) -> np.ndarray:
        return np.where(alarms.has_event, 0.9, np.nan)


def rising(n_runs: int = 40) -> Judgement:
    """A score that rises before every event."""
    values = np.random.default_rng(0).random((n_runs, 34))
    values[:, 28:30] += 2
    design = small_design(smoothing_sweep=[1], null_draws=99, bootstrap_draws=99)
    return Judgement(scores_of(values, [300.0] * n_runs), None, design)


def test_every_place_has_a_null_that_is_registered(coin: None, tmp_path: Path) -> None:
    judgement = rising()
    record = judge(judgement)
    point = record.layer_C.at(0.05)
    assert list(point.x_baselines) == ["shift", "risk_set", "coin"]
    assert point.x_baselines["coin"].detection_rate == pytest.approx(0.9)
    # The score must beat the hardest of all.
    assert point.x_p_value == max(one.p_value for one in point.x_baselines.values())
    rates = [one.detection_rate for one in point.x_baselines.values()]
    assert point.chance == pytest.approx(max(rates))
    assert record.x_first_alarm is not None
    first = record.x_first_alarm.at(0.05)
    assert list(first.baselines) == ["constant_hazard", "risk_set", "coin"]
    assert first.baselines["coin"].detection_rate == pytest.approx(0.9)
    assert first.p_value == max(one.p_value for one in first.baselines.values())

    scores = judgement.evaluation
    results = Results.assemble(
        [record],
        RunLog.from_arrays(scores.runs, scores.steps[0], {"score": scores.values}),
        [300.0] * 40,
        design=judgement.design,
        calibration=CalibrationRecord(method="cross_run"),
    )
    read = Results.read(results.write(tmp_path / "results.yaml"))
    assert Results.read(tmp_path) == read
    assert read.indicators[0].layer_C.at(0.05).x_baselines == point.x_baselines
    assert null_paths(read.plain()["indicators"][0]["layer_C"]) == null_paths(
        results.plain()["indicators"][0]["layer_C"]
    )
    assert "toss of a coin" in render_report(read)
    rows = list(csv.DictReader(utility_at_fpr(read).csv().splitlines()))
    assert any("0.9" in value for row in rows for name, value in row.items() if "coin" in name)


def test_a_name_is_registered_once(coin: None) -> None:
    with pytest.raises(InputError, match="null 'coin' is registered already"):
        register_null("coin", label="again")(lambda *_: None)
    with pytest.raises(InputError, match="null 'a coin': the name must be letters"):
        register_null("a coin", label="with a space")(lambda *_: None)
    with pytest.raises(InputError, match="null 'dice': stream 2 is that of 'shift'; take another"):
        register_null("dice", label="by dice", stream=2)(lambda *_: None)
    with pytest.raises(InputError, match="event 'E_jump' is registered already"):
        events.register_event("E_jump", absent="", ahead=lambda _: 0)(lambda *_: None)


def test_every_event_of_a_design_can_be_found() -> None:
    assert set(events.EVENTS) == set(EVENT_TYPES)


@pytest.fixture
def pass_event() -> Iterator[None]:
    """A kind of event of another package: the metric reaches the level of a plateau."""
    definition = EventDefinition(
        lambda design: f"first step with {design.metric} at {design.plateau_threshold:g} or above",
        ("metric", "plateau_threshold"),
        required=("plateau_threshold",),
    )

    @events.register_event("E_pass", definition, absent="{metric} never passes", ahead=lambda _: 0)
    def find(log: RunLog, design: Design) -> events.Events:
        metric = log.panel(design.metric)
        above = metric.present & (metric.values >= design.plateau_threshold)
        first = metric.steps[np.arange(metric.n_runs), above.argmax(axis=1)]
        step = np.where(above.any(axis=1), first, np.nan)
        return events.Events(metric.runs, step, metric.steps[:, 0])

    yield
    for known in (events.EVENTS, EVENT_TYPES):
        del known["E_pass"]


def test_runs_are_judged_by_an_event_that_is_registered(
    pass_event: None, design: Design, held_out_log: RunLog, tmp_path: Path
) -> None:
    asked = design.replace(event_type="E_pass", plateau_threshold=0.5)
    found = gmb_hf.evaluate_runs(asked, held_out_log).results
    plateau = {"event_type": "E_plateau", "plateau_checkpoints": 1, "plateau_threshold": 0.5}
    as_plateau = gmb_hf.evaluate_runs(design.replace(**plateau), held_out_log).results
    assert found.event.t_event_by_seed == as_plateau.event.t_event_by_seed
    assert found.summary.n_events > 0
    assert found.event.type == "E_pass"
    assert "The event t* is the first step with test_acc at 0.5 or above." in explain_design(asked)
    assert not [item for item in lint(asked) if item.code == "event_settings_unused"]
    unmet = lint(asked, DesignFacts(event_steps=(np.nan,)))
    assert "check event.metric, x_plateau_threshold, or" in str(unmet)
    read = gmb_hf.Results.read(found.write(tmp_path / "results.yaml"))
    assert read.event.type == "E_pass"


def test_a_design_refuses_what_its_registered_event_cannot_be(pass_event: None) -> None:
    lengths = {"horizon": 200, "safe_gap": 400}
    with pytest.raises(InputError, match="event: E_pass needs x_plateau_threshold"):
        Design.minimal(event_type="E_pass", **lengths)
    known = "must be 'E_jump', 'E_plateau', 'E_onset', 'E_regime' or 'E_pass', got 'E_pas'"
    with pytest.raises(InputError, match=known):
        Design.minimal(event_type="E_pas", **lengths)
    field = EventDefinition(str, ("plateau_treshold",))
    with pytest.raises(InputError, match="Did you mean 'plateau_threshold'"):
        events.register_event("E_new", field, absent="", ahead=lambda _: 0)(lambda *_: None)
    with pytest.raises(InputError, match="event 'new': the name must be E_ and a word"):
        events.register_event("new", EventDefinition(str, ()), absent="", ahead=lambda _: 0)(
            lambda *_: None
        )


def test_a_kind_of_event_says_how_far_it_looks_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = events.EventKind(lambda log, design: None, "no peak", lambda _: 2, in_checkpoints=True)
    monkeypatch.setitem(events.EVENTS, "E_peak", kind)
    peak = small_design().model_copy(update={"event_type": "E_peak"})
    scores = scores_of([[0.0] * 5, [0.0] * 2], [None, None])
    assert registrable_until(scores, peak).tolist() == [20, -1]
