"""What the GMB metrics return: by hand, against an oracle, and as the package's own evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from gmb_oracle import Oracle
from hypothesis import given
from hypothesis import strategies as st
from synthetic import synthetic_runlog

from gmb_hf.benchmark import series
from gmb_hf.benchmark.evaluate import evaluate_runs
from gmb_hf.design.design import Design
from gmb_hf.runs.runlog import RunLog

# The numbers checked here are the specification's own, unless a test asks for another protocol.
ALL = discrimination, operationality, utility, robustness, verdict = tuple(
    partial(metric, protocol="v0.4")
    for metric in (
        series.discrimination,
        series.operationality,
        series.utility,
        series.robustness,
        series.verdict,
    )
)
TARGETS = [0.01, 0.05, 0.1]

# Few values, so that scores tie often.
runs = st.lists(
    st.tuples(
        st.lists(st.integers(-3, 6).map(lambda x: x / 4), min_size=3, max_size=40),
        st.none() | st.integers(0, 45),
    ),
    min_size=1,
    max_size=6,
)


@given(runs=runs, horizon=st.integers(1, 8), gap=st.integers(1, 6), burn_in=st.integers(0, 3))
def test_every_number_is_that_of_the_oracle(
    runs: list[tuple[list[float], int | None]], horizon: int, gap: int, burn_in: int
) -> None:
    predictions, references = [run[0] for run in runs], [run[1] for run in runs]
    design = {"horizon": horizon, "safe_gap": horizon + gap, "burn_in": burn_in, "w_event": 2}
    oracle = Oracle(predictions, references, **design)
    if not oracle.quiet:
        with pytest.raises(ValueError, match="no negative window"):
            discrimination(predictions, references, **design)
        return

    assert discrimination(predictions, references, **design) == pytest.approx(
        {"auc": oracle.auc(), "ap": oracle.ap()}, abs=1e-12
    )

    found = operationality(predictions, references, **design)
    for target in TARGETS:
        assert found[f"threshold@{target}"] == oracle.threshold(target)
        assert found[f"fpr@{target}"] == float(oracle.rate(oracle.threshold(target)))
    assert found["ok_targets"] == sum(oracle.met(target) for target in TARGETS)
    assert found["controllability_pass"] == (found["ok_targets"] >= 2)
    assert found["fpr_min"] == pytest.approx(oracle.fpr_min(TARGETS), abs=1e-12)
    assert found["fpr_floor_detected"] == (oracle.fpr_min(TARGETS) > 0.2)
    assert found["layer_b_pass"] == (
        found["controllability_pass"] and not found["fpr_floor_detected"]
    )

    warned = utility(predictions, references, lead_time_target=3, **design)
    expected = {
        f"{name}@{target}": value
        for target in TARGETS
        for name, value in oracle.utility(oracle.threshold(target), 3).items()
    }
    assert warned == pytest.approx(expected, abs=1e-12)


def case_by_hand() -> tuple[list[list[float]], list[float | None]]:
    """Two runs with an event at 60, one without: 50, 50 and 40 quiet windows of ten values."""
    quiet = [float(i % 10) for i in range(50)]
    early, late = [0.0] * 6 + [9.0] * 4, [0.0] * 9 + [9.0]
    return [quiet + early, quiet + late, quiet + [0.0] * 10], [60, 60, None]


BY_HAND: dict[str, Any] = {
    "horizon": 10,
    "safe_gap": 11,
    "w_event": 9,
    "fpr_targets": [0.1],
    "lead_time_target": 3,
}


def test_a_case_by_hand() -> None:
    predictions, references = case_by_hand()
    found = operationality(predictions, references, **BY_HAND)
    assert found == {
        "fpr@0.1": 0.1,
        "threshold@0.1": 9.0,
        "ok_targets": 1,
        "controllability_pass": True,
        "fpr_min": 0.1,
        "fpr_floor_detected": False,
        "x_budget_pass": True,
        "x_floor": False,
        "layer_b_pass": True,
    }
    assert utility(predictions, references, **BY_HAND) == {
        "coverage@0.1": 1.0,
        "lead_time_median@0.1": 2.5,
        "lead_time_iqr@0.1": 1.5,
        "lead_time_success@0.1": 0.5,
        "lead_time_q05@0.1": pytest.approx(1.15),
        "lead_time_q95@0.1": pytest.approx(3.85),
    }


def test_per_run_adds_lists_and_changes_nothing_else() -> None:
    predictions, references = case_by_hand()
    for metric in ALL:
        plain = metric(predictions, references, **BY_HAND)
        more = metric(predictions, references, return_per_run=True, **BY_HAND)
        assert {name: more[name] for name in plain} == plain
        added = [name for name in more if name not in plain]
        assert added
        assert all(isinstance(more[name], list) for name in added)
    found = utility(predictions, references, return_per_run=True, **BY_HAND)
    assert found["covered_per_run@0.1"] == [True, True, False]
    assert found["lead_time_per_run@0.1"][:2] == [4.0, 1.0]
    assert math.isnan(found["lead_time_per_run@0.1"][2])
    found = verdict(predictions, references, return_per_run=True, **BY_HAND)
    assert found["false_alarms_per_run"] == [5, 5, 4]
    assert found["first_alarm_per_run"] == [9.0, 9.0, 9.0]
    found = operationality(predictions, references, return_per_run=True, **BY_HAND)
    assert found["fpr_per_run@0.1"] == [0.1, 0.1, 0.1]


def test_steps_are_those_that_are_given() -> None:
    predictions, references = case_by_hand()
    steps = [[7 * i for i in range(60)]] * 3
    times_seven = {**BY_HAND, "horizon": 70, "safe_gap": 77, "w_event": 63, "lead_time_target": 21}
    events = [None if event is None else 7 * event for event in references]
    plain = utility(predictions, references, **BY_HAND)
    found = utility(predictions, events, steps=steps, **times_seven)
    assert found["lead_time_median@0.1"] == 7 * plain["lead_time_median@0.1"]
    assert found["lead_time_success@0.1"] == plain["lead_time_success@0.1"]


def test_nan_and_none_are_no_event_alike() -> None:
    predictions, references = case_by_hand()
    other = [float("nan") if event is None else np.float64(event) for event in references]
    for metric in ALL:
        assert metric(predictions, references, **BY_HAND) == metric(predictions, other, **BY_HAND)


@pytest.mark.parametrize("form", [np.array, tuple, lambda row: np.array(row, dtype=np.float32)])
def test_series_may_be_arrays(form: Callable[[list[float]], Any]) -> None:
    predictions, references = case_by_hand()
    given = [form(row) for row in predictions]
    assert utility(given, np.array([60, 60, np.nan]), **BY_HAND) == utility(
        predictions, references, **BY_HAND
    )


def test_without_any_event_there_is_no_ranking_and_no_verdict() -> None:
    scores, none = [[float(i % 20) for i in range(100)]] * 3, [None, None, None]
    design = {"horizon": 5, "safe_gap": 10, "w_event": 1}
    assert discrimination(scores, none, **design) == {"auc": None, "ap": None}
    assert utility(scores, none, **design)["coverage@0.05"] is None
    found = verdict(scores, none, **design)
    assert found["label"] == "INCONCLUSIVE"
    assert found["reasons"] == "few_events, not_locked, not_strict"


# The metrics against the package's own evaluation of the same runs.


@pytest.fixture(scope="module")
def log() -> RunLog:
    return synthetic_runlog(40, seed=3, ragged=True, share_with_event=0.9)


def series_of(log: RunLog, column: str) -> tuple[list[Any], list[Any]]:
    panel = log.panel(column)
    values = [row[kept] for row, kept in zip(panel.values, panel.present, strict=True)]
    steps = [row[kept] for row, kept in zip(panel.steps, panel.present, strict=True)]
    return values, steps


DESIGN: dict[str, Any] = {
    "horizon": 100,
    "safe_gap": 200,
    "burn_in": 150,
    "w_event": 50,
    "lead_time_target": 30,
    "lead_time_median_min": 20,
}


@pytest.mark.parametrize("protocol", ["v0.4", "strict"])
@pytest.mark.parametrize("column", ["embedding_gini", "update_norm"])
def test_the_metrics_say_what_an_evaluation_says(log: RunLog, column: str, protocol: str) -> None:
    design = Design.minimal(
        **DESIGN,
        protocol=protocol,
        jump_threshold=0.2,
        candidates=[{"name": column, "family": "external"}],
    )
    evaluation = evaluate_runs(design, log)
    record = next(item for item in evaluation.results.indicators if item.name == column)
    values, steps = series_of(log, column)
    settings = {**DESIGN, "protocol": protocol, "steps": steps}
    events = evaluation.judgements[column].evaluation.event_step

    found: dict[str, Any] = {}
    for metric in ALL:
        found |= metric(values, events, **settings)

    assert (found["auc"], found["ap"]) == (record.layer_A.auc, record.layer_A.ap)
    layer_b, layer_d = record.layer_B, record.layer_D
    for item in layer_b.achieved:
        assert found[f"fpr@{item.target}"] == item.achieved
        assert found[f"threshold@{item.target}"] == item.x_threshold
    for name in ("ok_targets", "controllability_pass", "fpr_min", "fpr_floor_detected"):
        assert found[name] == getattr(layer_b, name)
    assert found["layer_b_pass"] == layer_b.x_passed
    for point in record.layer_C.at_fpr:
        for name in ("coverage", "lead_time_median", "lead_time_iqr", "lead_time_success"):
            assert found[f"{name}@{point.fpr}"] == getattr(point, name)
        assert found[f"lead_time_q05@{point.fpr}"] == point.x_lead_time_q05
        assert found[f"lead_time_q95@{point.fpr}"] == point.x_lead_time_q95
    for name in ("pass_rate", "label_flip_rate", "family_size"):
        assert found[name] == getattr(layer_d, name)
    assert found["label"] == record.label
    assert found["alarm_eligible"] == record.x_alarm_eligible
    assert found["reasons"] == ", ".join(record.x_reasons)


@pytest.mark.parametrize("protocol", ["v0.4", "strict"])
def test_no_module_lets_noise_alarm(load: Callable[[str], Any], protocol: str) -> None:
    """Only a locked evaluation may; what a module is given is what it was fitted on."""
    rng, events = np.random.default_rng(7), 60 + np.arange(40)
    call = {"predictions": rng.normal(size=(40, 110)).tolist(), "references": events.tolist()}
    design = {"horizon": 40, "safe_gap": 60, "lead_time_median_min": 5}
    draws = {"bootstrap_draws": 200, "null_draws": 200, "run_groups": 2}
    for name in ("discrimination", "operationality", "utility", "robustness", "verdict"):
        given = {**design, **draws, "protocol": protocol}
        found = load(f"gmb_{name}").compute(**call, **given)
        assert found.get("alarm_eligible", False) is False, name
        assert "not_locked" in found.get("reasons", "not_locked"), name


# Where thresholds come from.


def noise(n_runs: int = 12, n: int = 120) -> tuple[list[list[float]], list[float]]:
    rng = np.random.default_rng(5)
    return rng.normal(size=(n_runs, n)).tolist(), rng.integers(60, n, size=n_runs).tolist()


SHORT: dict[str, Any] = {"horizon": 10, "safe_gap": 20}


def test_locked_thresholds_are_used_as_they_are() -> None:
    predictions, references = noise()
    thresholds = {0.01: 2.0, 0.05: 1.5, "0.1": 1.0}
    found = operationality(predictions, references, thresholds=thresholds, **SHORT)
    oracle = Oracle(predictions, references, **SHORT)
    for target, tau in ((0.01, 2.0), (0.05, 1.5), (0.1, 1.0)):
        assert found[f"threshold@{target}"] == tau
        assert found[f"fpr@{target}"] == float(oracle.rate(tau))
    again = operationality(
        predictions, references, calibration="locked", thresholds=thresholds, **SHORT
    )
    assert again == found


def test_thresholds_of_one_call_lock_the_next() -> None:
    predictions, references = noise()
    first = operationality(predictions, references, **SHORT)
    locked = {target: first[f"threshold@{target}"] for target in TARGETS}
    assert operationality(predictions, references, thresholds=locked, **SHORT) == first


def test_cross_run_judges_each_run_by_the_others() -> None:
    predictions, references = noise(7, 90)
    found = operationality(
        predictions, references, calibration="cross_run", return_per_run=True, **SHORT
    )
    for run in range(len(predictions)):
        others = [i for i in range(len(predictions)) if i != run]
        oracle = Oracle([predictions[i] for i in others], [references[i] for i in others], **SHORT)
        own = Oracle([predictions[run]], [references[run]], **SHORT)
        for target in TARGETS:
            tau = oracle.threshold(target)
            assert found[f"threshold_per_run@{target}"][run] == tau
            assert found[f"fpr_per_run@{target}"][run] == pytest.approx(float(own.rate(tau)))
    whole = Oracle(predictions, references, **SHORT)
    assert found["threshold@0.05"] == whole.threshold(0.05)


def test_strict_crosses_runs_by_default() -> None:
    predictions, references = noise(30)
    usual = operationality(predictions, references, protocol="strict", **SHORT)
    asked = operationality(
        predictions, references, protocol="strict", calibration="cross_run", **SHORT
    )
    assert usual == asked
    assert usual["threshold@0.01"] == math.inf  # 29 runs cannot set a rate of one in a hundred


def test_locked_thresholds_leave_smoothing_out_of_the_family() -> None:
    predictions, references = noise()
    thresholds = dict.fromkeys(TARGETS, 2.0)
    assert robustness(predictions, references, thresholds=thresholds, **SHORT)["family_size"] == 15
    assert robustness(predictions, references, **SHORT)["family_size"] == 45


# By runs.


def test_first_alarms_by_hand() -> None:
    quiet, early = [0.0] * 100, [0.0] * 82 + [5.0] * 18
    timely, false = [0.0] * 95 + [5.0] * 5, [0.0] * 10 + [5.0] + [0.0] * 89
    found = series.first_alarm(
        [early, timely, false, quiet, quiet, [0.0] * 10 + [5.0] * 90],
        [100, 100, 100, 100, None, None],
        horizon=10, safe_gap=20, w_event=1,
        run_budgets=[0.2], run_thresholds={0.2: 3.0}, calibration_runs=9, return_per_run=True,
    )  # fmt: skip
    assert found["outcome_per_run@0.2"] == [
        "early",
        "timely",
        "false_alarm",
        "miss",
        "correct_rejection",
        "false_alarm",
    ]
    assert found["first_alarm_per_run@0.2"][:3] == [82.0, 95.0, 10.0]
    shares = [found[f"{name}_rate@0.2"] for name in ("detection", "timely", "early", "miss")]
    assert shares == [0.5, 0.25, 0.25, 0.25]
    assert (found["false_alarm_rate@0.2"], found["lead_median@0.2"]) == (2 / 6, 11.5)
    assert found["expected@0.2"] == pytest.approx(0.2)  # the 8th of 9 runs: 2 of 10 lie above it
    assert found["run_threshold@0.2"] == 3.0
    assert found["chance_clock@0.2"] is None


def test_the_first_alarm_is_that_of_an_evaluation(log: RunLog) -> None:
    design = Design.minimal(
        candidates=[{"name": "embedding_gini", "family": "external"}],
        horizon=100, safe_gap=150, w_event=50,
        run_budgets=[0.1, 0.2], primary_run_budget=0.2, run_groups=2, smoothing_sweep=[1],
        null_draws=200, bootstrap_draws=200,
    )  # fmt: skip
    whole = evaluate_runs(design, log)
    first = whole.results.indicator("embedding_gini").x_first_alarm
    assert first is not None
    scores = whole.judgements["embedding_gini"].evaluation
    rows = [row[there].tolist() for row, there in zip(scores.values, scores.present, strict=True)]
    steps = [row[there].tolist() for row, there in zip(scores.steps, scores.present, strict=True)]
    call = {
        "predictions": rows, "references": scores.event_step.tolist(), "steps": steps,
        "horizon": 100, "safe_gap": 150, "run_budgets": [0.1, 0.2], "run_groups": 2,
        "smoothing_sweep": [1], "null_draws": 200, "bootstrap_draws": 200,
        "lead_time_median_min": design.replace(cadence=10).lead_least,
    }  # fmt: skip
    found = series.first_alarm(**call, return_per_run=True)
    for point in first.at_budget:
        at = f"@{point.budget!r}"
        assert found["detection_rate" + at] == point.detection_rate
        assert found["false_alarm_rate" + at] == point.false_alarm_rate
        assert found["p" + at] == point.p_value
        assert found["chance_clock" + at] == point.controls["clock"].detection_rate
    of_runs = [None if np.isnan(step) else step for step in found["first_alarm_per_run@0.2"]]
    assert of_runs == list(first.alarm_steps)


@pytest.mark.parametrize("metric", ALL)
def test_results_are_plain_scalars(metric: Callable[..., dict[str, Any]]) -> None:
    predictions, references = noise()
    found = metric(np.array(predictions), np.array(references), **SHORT)
    assert {type(value) for value in found.values()} <= {float, int, bool, str, type(None)}
