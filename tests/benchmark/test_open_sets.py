"""Chance nulls and kinds of events are open sets: one that is registered is used everywhere."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from score_builders import design, null_paths, scores_of

from gmb_hf.benchmark import events, nulls
from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.nulls import NullsRecord, register_null
from gmb_hf.benchmark.results import CalibrationRecord, Results
from gmb_hf.benchmark.scores import registrable_until
from gmb_hf.benchmark.verdict import judge
from gmb_hf.design.design import EVENT_TYPES
from gmb_hf.errors import InputError
from gmb_hf.report.report import render_report
from gmb_hf.report.tables import utility_at_fpr


@pytest.fixture
def coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third null, by which every event is covered with probability .9."""
    monkeypatch.setattr(nulls, "NULLS", dict(nulls.NULLS))
    monkeypatch.setattr("gmb_hf.report.tables.NULLS", nulls.NULLS)

    @register_null("coin", label="by the toss of a coin")
    def coin(judgement: Judgement, target: float) -> tuple[np.ndarray, None]:
        return np.where(judgement.evaluation.has_event, 0.9, np.nan), None


def rising(n_runs: int = 40) -> Judgement:
    """A score that rises before every event."""
    values = np.random.default_rng(0).random((n_runs, 34))
    values[:, 28:30] += 2
    prereg = design(smoothing_sweep=[1], null_draws=99, bootstrap_draws=99)
    return Judgement(scores_of(values, [300.0] * n_runs), None, prereg)


def test_every_place_has_a_null_that_is_registered(coin: None, tmp_path: Path) -> None:
    judgement = rising()
    record = judge(judgement)
    point = record.layer_C.at(0.05)
    assert list(point.nulls) == ["shift", "risk_set", "coin"]
    assert point.nulls["coin"].mean_coverage == pytest.approx(0.9)
    # The score must beat the hardest of all.
    assert point.x_p_value == max(null.p_value for null in point.nulls.values())
    assert point.by_chance == pytest.approx(max(n.mean_coverage for n in point.nulls.values()))
    assert record.x_null_reasons["layer_C.at_fpr[1].x_coin_null.fpr"]

    results = Results.assemble(
        [record],
        design=judgement.design,
        runs=judgement.evaluation.runs,
        seeds=range(40),
        event_steps=[300.0] * 40,
        last_steps=[330] * 40,
        calibration=CalibrationRecord(method="cross_run"),
    )
    read = Results.read(results.write(tmp_path / "results.yaml"))
    assert read.indicators[0].layer_C.at(0.05).nulls == point.nulls
    assert null_paths(read.plain()["indicators"][0]["layer_C"]) == null_paths(
        results.plain()["indicators"][0]["layer_C"]
    )
    report = render_report(read)
    assert "it beats every chance null" in report
    assert "still at risk, and by the toss of a coin. The score must beat all of them;" in report
    rows = list(csv.DictReader(utility_at_fpr(read).csv().splitlines()))
    assert [float(row["coin_null"]) for row in rows] == pytest.approx([0.9] * 3)
    assert list(rows[0])[8:14] == [
        "shift_null", "p_shift", "risk_set_null", "p_risk_set", "coin_null", "p_coin",
    ]  # fmt: skip


def test_a_null_of_another_version_is_stored_and_not_measured() -> None:
    held = NullsRecord.parse(
        {"x_coin_null": {"mean_coverage": 0.4, "p_value": 0.2}}, where="a file"
    )
    assert held.by_chance == 0.4
    assert list(held.nulls) == ["coin"]


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


def test_a_kind_of_event_says_how_far_it_looks_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVENTS", dict(events.EVENTS))
    monkeypatch.setattr("gmb_hf.benchmark.scores.EVENTS", events.EVENTS)
    events.register_event("E_peak", absent="no peak", ahead=lambda _: 2, in_checkpoints=True)(
        lambda log, design: None
    )
    peak = design().model_copy(update={"event_type": "E_peak"})
    scores = scores_of([[0.0] * 5, [0.0] * 2], [None, None])
    assert registrable_until(scores, peak).tolist() == [20, -1]
