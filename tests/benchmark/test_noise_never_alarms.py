"""Noise, through every entry: whatever its label, it is never eligible to raise an alarm.

Under `v0.4` noise often passes every gate, so that the label alone would let it alarm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark import series
from gmb_hf.benchmark.compat import CompatSettings, reproduce
from gmb_hf.benchmark.evaluate import evaluate_lock, evaluate_runs
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.own_runs import own_score
from gmb_hf.benchmark.records import SUPPORTED
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.validation import definition_of_done
from gmb_hf.benchmark.verdict import against_alarm
from gmb_hf.design.design import Design
from gmb_hf.report.answer import answer
from gmb_hf.report.report import render_report
from gmb_hf.runs.runlog import RunLog

LEVELS: dict[str, Any] = {
    "horizon": 40,
    "safe_gap": 60,
    "lead_time_median_min": 5,
    "bootstrap_draws": 200,
    "null_draws": 200,
    "run_groups": 2,
}
PROTOCOLS = ("strict", "v0.4")


def panel(first_seed: int, n_runs: int = 40, length: int = 140) -> RunLog:
    """Runs whose accuracy jumps somewhere in the second half, with a score of pure noise."""
    rng = np.random.default_rng(first_seed)
    at = rng.integers(90, 130, size=n_runs)
    accuracy = (np.arange(length) >= at[:, None]) * 0.9
    data = {"test_acc": accuracy, "noise": rng.normal(size=(n_runs, length))}
    seeds = list(range(first_seed, first_seed + n_runs))
    return RunLog.from_arrays([f"run-{s}" for s in seeds], np.arange(length), data, seeds=seeds)


@pytest.fixture(scope="module")
def explore() -> RunLog:
    return panel(0)


@pytest.fixture(scope="module")
def judged() -> RunLog:
    return panel(1000)


def design(log: RunLog, protocol: str, *, sees: bool = False, **changes: Any) -> Design:
    fields = {**LEVELS, "w_event": 5, "window_sweep": [40], "smoothing_sweep": [1], **changes}
    candidates = [own_score("noise", log, sees_test_labels=sees)]
    boundary = dict.fromkeys(("task", "model", "optimizer", "schedule"), "undeclared")
    seeds = {"seeds_explore": list(range(40)), "seeds_eval": list(range(1000, 1040))}
    return Design.minimal(**fields, protocol=protocol, candidates=candidates, **boundary, **seeds)


def refused(results: Results, *codes: str) -> None:
    """Nothing of these results may alarm, and the reasons say why."""
    assert results.indicators
    for item in results.indicators:
        assert item.x_alarm_eligible is False, item.name
        assert set(codes) <= set(item.x_reasons), item.x_reasons
    assert not answer(results).may_alarm


def exploratory(results: Results) -> None:
    """Every place where a person reads of the evaluation says what it is."""
    refused(results, "not_locked")
    said = answer(results)
    report = render_report(results)
    assert "Exploratory, without a lock" in said.sentence
    assert "Exploratory, without a lock" in said.title
    assert "- **Exploratory**: no lock fixed the design and the thresholds before" in report
    assert "The design is not locked: what it finds is exploratory" in report
    assert "- [ ] Design and thresholds frozen before evaluation: no lock" in report
    assert "The design was fixed" not in report
    # Only what a locked evaluation would ask for is said of held-out runs.
    stated = [line for line in report.splitlines() if "held-out run" in line]
    assert all("on held-out runs, it detects" in line for line in stated), stated
    frozen = {check.requirement: check.passed for check in definition_of_done(results)}
    assert frozen["Design and thresholds frozen before evaluation"] is False


class TestWithoutALock:
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_on_the_runs_alone(self, judged, protocol):
        results = evaluate_runs(design(judged, protocol), judged).results
        exploratory(results)
        noise = results.indicator("noise")
        if protocol == "v0.4":
            assert noise.label == SUPPORTED
            assert {"not_locked", "not_strict"} <= set(noise.x_reasons)
            assert noise.x_sentence.startswith("Passes every gate, but may not raise an alarm (")

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_with_explore_runs(self, explore, judged, protocol):
        results = evaluate_runs(design(judged, protocol), judged, explore=explore).results
        exploratory(results)
        assert results.x_calibration is not None
        assert results.x_calibration.method == "explore"
        assert not any(item.x_alarm_eligible for item in results.indicators)

    def test_compat(self, judged):
        settings = CompatSettings(metric="test_acc", horizon=40, theta_floor=0.5)
        results = reproduce(judged, [own_score("noise", judged)], settings).results
        refused(results, "compat_protocol")
        assert "Exploratory, without a lock" in answer(results).sentence


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_by_a_lock(explore, judged, protocol):
    lock, _ = make_lock(design(explore, protocol), explore)
    results = evaluate_lock(lock, judged).results
    refused(results, *(["not_strict"] if protocol == "v0.4" else []))
    assert "Exploratory" not in answer(results).sentence
    assert "- [x] Design and thresholds frozen before evaluation: by a lock" in (
        render_report(results)
    )


def scores(perfect: bool = False) -> dict[str, Any]:
    """The arguments of a GMB metric: noise, or a score that sees the event coming."""
    rng, events = np.random.default_rng(7), 60 + np.arange(40)
    values = rng.normal(size=(40, 110))
    if perfect:
        before = events[:, None] - np.arange(110)
        values += 20 * ((before > 0) & (before <= 40))
    return {"predictions": values.tolist(), "references": events.tolist()}


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"protocol": "v0.4"},
        {"protocol": "v0.4", "calibration": "cross_run"},
        {"thresholds": {0.05: 2.0, 0.1: 1.6}, "fpr_targets": [0.05, 0.1]},
        {"protocol": "v0.4", "thresholds": {0.05: 1.7, 0.1: 1.3}, "fpr_targets": [0.05, 0.1]},
    ],
)
@pytest.mark.parametrize("perfect", [False, True])
def test_the_verdict_of_series(how, perfect):
    found = series.verdict(**scores(perfect), **LEVELS, **how)
    assert found["alarm_eligible"] is False
    assert "not_locked" in found["reasons"]
    assert found["sentence"].startswith("Exploratory, without a lock. ")


def test_strict_is_the_default_of_series():
    call = scores()
    assert series.verdict(**call, **LEVELS) == (
        series.verdict(**call, **LEVELS, protocol="strict", calibration="cross_run")
    )
    judgement = series.judgement_of("gmb_verdict", *call.values(), {"horizon": 40, "safe_gap": 60})
    assert judgement.strict


@pytest.fixture(scope="module")
def passing(judged: RunLog) -> Results:
    """A noise score that passes every gate."""
    return evaluate_runs(design(judged, "v0.4"), judged).results


class TestWhatStandsAgainstAnAlarm:
    @pytest.mark.parametrize(
        ("changes", "codes"),
        [
            ({}, ("no_first_alarm",)),
            ({"family": "control"}, ("control", "no_first_alarm")),
            ({"x_sees_test_labels": True}, ("oracle", "no_first_alarm")),
        ],
    )
    def test_controls_and_oracles(self, passing, changes, codes):
        item = passing.indicator("noise").model_copy(update=changes)
        assert against_alarm(item, "strict", locked=True) == codes
        assert against_alarm(item, "compat", locked=False)[:2] == ("not_locked", "not_strict")

    def test_a_file_that_says_otherwise_is_refused(self, passing, tmp_path):
        path = passing.write(tmp_path / "results.yaml")
        text = path.read_text().replace("x_alarm_eligible: false", "x_alarm_eligible: true")
        path.write_text(text)
        with pytest.raises(
            InputError,
            match=r"x_alarm_eligible is true, but exploratory: no lock fixed the design",
        ):
            Results.read(path)
