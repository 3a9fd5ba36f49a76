"""The modules as `evaluate` handles them: chunks, combinations, the way round Arrow, the cache."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest

import gmb_hf.base.files
import gmb_hf.jobs.metrics
from gmb_hf.base.errors import InputError

GMB = tuple(name for name in gmb_hf.jobs.metrics.names() if name.startswith("gmb_"))
DESIGN = {"horizon": 10, "safe_gap": 20, "w_event": 5, "lead_time_target": 4}
Load = Callable[[str], Any]


def runs() -> tuple[list[list[float]], list[float | None]]:
    """Twelve ragged runs, two without an event, values that no float32 can hold."""
    rng = np.random.default_rng(0)
    series = [(rng.normal(size=n) + 1e-9).tolist() for n in range(80, 104, 2)]
    events: list[float | None] = [float(n) for n in rng.integers(50, 80, size=12)]
    events[3], events[8] = None, float("nan")
    return series, events


def test_all_six_are_there() -> None:
    assert GMB == (
        "gmb_discrimination",
        "gmb_first_alarm",
        "gmb_operationality",
        "gmb_robustness",
        "gmb_utility",
        "gmb_verdict",
    )


@pytest.mark.parametrize("name", GMB)
def test_chunks_equal_one_compute(load: Load, name: str) -> None:
    metric, (series, events) = load(name), runs()
    whole = metric.compute(predictions=series, references=events, **DESIGN)
    metric.add_batch(predictions=series[:5], references=events[:5])
    metric.add_batch(predictions=series[5:6], references=events[5:6])
    metric.add(prediction=series[6], reference=events[6])
    metric.add_batch(predictions=series[7:], references=events[7:])
    assert metric.compute(**DESIGN) == whole
    # Some of it added, the rest given at last.
    metric.add_batch(predictions=series[:5], references=events[:5])
    assert metric.compute(predictions=series[5:], references=events[5:], **DESIGN) == whole


@pytest.mark.parametrize("name", GMB)
def test_the_way_round_arrow_changes_nothing(load: Load, name: str) -> None:
    metric, (series, events) = load(name), runs()
    direct = metric.compute(predictions=series, references=events, **DESIGN)
    usual = evaluate.Metric.compute(metric, predictions=series, references=events, **DESIGN)
    assert direct == usual


def test_combine_joins_the_six_and_renames_nothing(load: Load) -> None:
    series, events = runs()
    together = evaluate.combine([load(name) for name in GMB])
    found = together.compute(predictions=series, references=events, **DESIGN)
    alone: dict[str, Any] = {}
    for name in GMB:
        alone |= load(name).compute(predictions=series, references=events, **DESIGN)
    assert found == alone
    per_run = together.compute(predictions=series, references=events, return_per_run=True, **DESIGN)
    assert not [key for key in per_run if key.startswith("gmb_")]

    together.add_batch(predictions=series[:4], references=events[:4])
    together.add_batch(predictions=series[4:], references=events[4:])
    assert together.compute(**DESIGN) == alone
    together.add_batch(predictions=series, references=events)
    assert together.compute(return_per_run=True, **DESIGN).keys() == per_run.keys()


def test_steps_go_with_batches(load: Load) -> None:
    metric, (series, events) = load("gmb_utility"), runs()
    steps = [list(range(len(row))) for row in series]
    metric.add_batch(predictions=series, references=events)
    assert metric.compute(steps=steps, **DESIGN) == metric.compute(
        predictions=series, references=events, **DESIGN
    )


def test_a_wrong_setting_does_not_cost_what_was_added(load: Load) -> None:
    metric, (series, events) = load("gmb_operationality"), runs()
    metric.add_batch(predictions=series, references=events)
    with pytest.raises(InputError, match="gmb_operationality: safe_gap missing"):
        metric.compute(horizon=10)
    found = metric.compute(**DESIGN)
    assert found == metric.compute(predictions=series, references=events, **DESIGN)


def test_nothing_to_compute_is_one_clear_line(load: Load) -> None:
    with pytest.raises(InputError, match=r"gmb_verdict: predictions is missing.*Right call"):
        load("gmb_verdict").compute(**DESIGN)
    with pytest.raises(InputError, match="references is missing"):
        load("gmb_verdict").compute(predictions=[[1.0, 2.0]], **DESIGN)


def test_none_in_a_batch_is_found_after_arrow(load: Load) -> None:
    metric = load("gmb_operationality")
    metric.add_batch(predictions=[[1.0, None, *[2.0] * 60]], references=[60.0])
    with pytest.raises(InputError, match=r"predictions\[0\]'?, step 1: .* nan in a labelled"):
        metric.compute(**DESIGN)


def test_a_seeded_generator_elsewhere_is_left_alone(load: Load) -> None:
    series, events = runs()
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    load("gmb_verdict").compute(predictions=series, references=events, **DESIGN)
    assert np.random.random() == expected  # noqa: NPY002


@pytest.mark.parametrize("name", GMB)
def test_a_module_describes_itself(load: Load, name: str) -> None:
    metric = load(name)
    assert metric.name == name
    assert metric.module_type == "metric"
    assert metric.features == load(GMB[0]).features
    assert metric.features["predictions"].feature.dtype == "float64"
    for text in ("predictions", "safe_gap", "Returns:", "Examples:"):
        assert text in metric.inputs_description
        assert text in metric.compute.__doc__
    assert "Grokking Monitorability Benchmark" in metric.citation


@pytest.mark.parametrize("name", gmb_hf.jobs.metrics.names())
def test_a_script_is_thin(name: str) -> None:
    """Under 60 lines of code, that is of statements other than texts."""
    source = gmb_hf.jobs.metrics.module(name).script.read_text(encoding="utf-8")
    lines: set[int] = set()
    for node in ast.parse(source).body:
        text = isinstance(node, ast.Assign | ast.Expr) and isinstance(node.value, ast.Constant)
        if not text:
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    assert 0 < len(lines) < 60


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"metric 'gmb_utilty' is unknown.*'gmb_utility'"):
        gmb_hf.jobs.metrics.load("gmb_utilty")


def test_the_metrics_of_an_incomplete_installation_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        gmb_hf.base.files, "__file__", str(tmp_path / "gmb_hf" / "base" / "files.py")
    )
    with pytest.raises(InputError, match="missing from this installation; install it again"):
        gmb_hf.jobs.metrics.names()


def test_installing_again_replaces_what_was_there(load: Load) -> None:
    first = gmb_hf.jobs.metrics.install()
    one = next(path for path in first if path.stem == "gmb_verdict")
    one.write_text("raise RuntimeError('an older copy')", encoding="utf-8")
    assert gmb_hf.jobs.metrics.install() == first
    assert "raise RuntimeError" not in one.read_text(encoding="utf-8")
    assert len(list(one.parent.parent.glob("*/gmb_verdict.py"))) == 1


def test_data_without_names_are_refused(load: Load) -> None:
    with pytest.raises(InputError, match=r"gmb_utility: data are given by name.*predictions="):
        load("gmb_utility").compute([[0.0, 1.0]], [1.0], **DESIGN)


def test_infinite_thresholds_stay_numbers(load: Load) -> None:
    found = load("gmb_operationality").compute(
        predictions=[[0.0, 1.0] * 30] * 3, references=[59.0] * 3, **DESIGN
    )
    assert found["threshold@0.05"] == math.inf


def test_modules_come_from_the_tests_own_cache(load: Load) -> None:
    place = Path(sys.modules[type(load("gmb_verdict")).__module__].__file__ or "")
    assert place.is_relative_to(evaluate.config.HF_MODULES_CACHE)


def test_text_of_numbers_is_refused_also_in_a_batch(load: Load) -> None:
    metric = load("gmb_operationality")
    with pytest.raises(InputError, match=r"predictions, item 1 holds text; give numbers, without"):
        metric.add_batch(predictions=[[0.1, 0.2], [0.3, "0.4"]], references=[1.0, 1.0])
    with pytest.raises(InputError, match=r"prediction, item 0 holds text"):
        metric.add(prediction=["0.4"], reference=1.0)
    with pytest.raises(InputError, match=r"references, item 0 holds text"):
        metric.add_batch(predictions=[[0.1]], references=["1"])
    pools = load("crucible_exposure")
    pools.add_batch(data=["legacy", "organic"], sizes=[454, 1200], ratios=[0.75, 0.25])
    found = pools.compute(steps=10_000, batch_size=32, probability=0.1)
    assert round(found["expected@legacy"], 1) == 52.9
