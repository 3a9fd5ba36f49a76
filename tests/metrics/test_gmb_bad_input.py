"""Each bad input of the GMB metrics: one line that names the argument and shows the right call."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.series import discrimination, operationality, robustness, utility, verdict

NAN = float("nan")
GOOD = {
    "predictions": [[float(i % 10) for i in range(40)], [float(i % 7) for i in range(30)]],
    "references": [35.0, 28.0],
    "horizon": 5,
    "safe_gap": 10,
    "protocol": "v0.4",
}


def spoiled(**changes: Any) -> dict[str, Any]:
    """A right call but for these arguments; those that are `...` are left out."""
    return {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}


def second_series(*values: Any) -> list[Any]:
    return [GOOD["predictions"][0], list(values)]


CASES = {
    "no horizon": (spoiled(horizon=...), "horizon missing"),
    "neither length": (spoiled(horizon=..., safe_gap=...), "horizon and safe_gap missing"),
    "gap within the horizon": (spoiled(safe_gap=5), r"safe_gap 5 must be larger than horizon 5"),
    "no score can pass": (
        spoiled(lead_time_median_min=50),
        "no score can pass: lead_time_median_min 50 exceeds horizon 5, and no lead time is longer",
    ),
    "horizon is a fraction": (spoiled(horizon=2.5), "horizon must be a whole number, got 2.5"),
    "horizon is not positive": (spoiled(horizon=0), "horizon must be greater than or equal to 1"),
    "unknown keyword": (
        spoiled(horizn=3),
        r"keyword 'horizn' is unknown; .* Did you mean 'horizon'\?",
    ),
    "unknown protocol": (spoiled(protocol="v0.5"), r"protocol 'v0.5' is unknown; known: strict"),
    "protocol is no text": (spoiled(protocol=4), "protocol '4' is unknown"),
    "unknown calibration": (spoiled(calibration="cross"), "Did you mean 'cross_run'"),
    "target out of range": (spoiled(fpr_targets=[0.05, 5]), r"fpr_targets\[1\] must be less than"),
    "no target": (spoiled(fpr_targets=[]), "fpr_targets"),
    "primary target that is none": (
        spoiled(primary_fpr=0.2),
        r"primary_fpr 0.2 is not among fpr_targets",
    ),
    "more targets to meet than there are": (spoiled(min_targets_ok=4), "min_targets_ok"),
    "locked without thresholds": (
        spoiled(calibration="locked"),
        r"calibration 'locked' needs thresholds=\{0.01: \.\.\., 0.05: ",
    ),
    "thresholds that are not used": (
        spoiled(calibration="in_sample", thresholds={0.05: 1.0}),
        "thresholds are given, but calibration is 'in_sample'",
    ),
    "thresholds lack a target": (
        spoiled(thresholds={0.05: 1.0, 0.1: 1.0}),
        "thresholds lack the target 0.01",
    ),
    "run thresholds lack a budget": (
        spoiled(run_thresholds={0.05: 1.0}),
        "run_thresholds lack the run budget 0.1",
    ),
    "run thresholds in a list": (
        spoiled(run_thresholds=[1.0, 2.0]),
        "run_thresholds must map run budgets to numbers",
    ),
    "run thresholds and trailing means": (
        spoiled(run_thresholds={0.05: 1, 0.1: 1, 0.2: 1}, smoothing_sweep=[1, 3]),
        r"smoothing_sweep \[1, 3\] has no locked thresholds",
    ),
    "calibration runs of nothing": (
        spoiled(calibration_runs=40),
        "calibration_runs says how many runs given thresholds come from; give thresholds",
    ),
    "no calibration run": (
        spoiled(run_thresholds={0.05: 1, 0.1: 1, 0.2: 1}, calibration_runs=0),
        "calibration_runs must be a whole number of at least 1, got 0",
    ),
    "unknown promise": (
        spoiled(run_calibration="mean"),
        "run_calibration must be 'marginal' or 'conditional', got 'mean'",
    ),
    "primary run budget that is none": (
        spoiled(primary_run_budget=0.3),
        "primary_run_budget 0.3 is not among run_budgets",
    ),
    "run budget out of range": (spoiled(run_budgets=[0.05, 2]), r"run_budgets\[1\] must be less"),
    "thresholds in a list": (spoiled(thresholds=[1.0, 2.0]), "needs thresholds="),
    "threshold is text": (
        spoiled(thresholds={0.01: "a", 0.05: 1, 0.1: 1}),
        "thresholds must map targets to numbers",
    ),
    "threshold is NaN": (
        spoiled(thresholds={0.01: NAN, 0.05: 1, 0.1: 1}),
        "thresholds: that of the target 0.01 is NaN",
    ),
    "strict in sample": (
        spoiled(protocol="strict", calibration="in_sample"),
        "calibration 'in_sample' is not strict",
    ),
    "smoothing of locked thresholds": (
        spoiled(thresholds={0.01: 9, 0.05: 9, 0.1: 9}, smoothing_sweep=[1, 3]),
        r"smoothing_sweep \[1, 3\] has no locked thresholds",
    ),
    "no predictions": (spoiled(predictions=None), "predictions is missing"),
    "no references": (spoiled(references=None), "references is missing"),
    "predictions are text": (spoiled(predictions="scores"), "predictions must be a list of series"),
    "one series alone": (
        spoiled(predictions=[0.1, 0.2], references=[35, 28]),
        r"predictions\[0\] is a number; give a list of series",
    ),
    "no runs": (spoiled(predictions=[], references=[]), "predictions is empty"),
    "more runs than events": (
        spoiled(references=[35.0]),
        "predictions holds 2 runs, but references 1",
    ),
    "empty series": (spoiled(predictions=second_series()), r"predictions\[1\] is empty"),
    "nested series": (
        spoiled(predictions=second_series([1.0], [2.0])),
        r"predictions\[1\] must be one series of numbers, got shape \(2, 1\)",
    ),
    "text in a series": (
        spoiled(predictions=second_series(1.0, "high")),
        r"predictions\[1\] must hold numbers only",
    ),
    "number as text": (
        spoiled(predictions=second_series("1.0", "2.0")),
        r"predictions\[1\] must hold numbers only",
    ),
    "NaN in a labelled window": (
        spoiled(predictions=second_series(*[1.0] * 4, NAN, *[2.0] * 25)),
        r"predictions\[1\]'?, step 4: .* is nan in a labelled window.*nan='ignore'",
    ),
    "None in a labelled window": (
        spoiled(predictions=second_series(*[1.0] * 4, None, *[2.0] * 25)),
        r"predictions\[1\]'?, step 4: .* is nan in a labelled window",
    ),
    "infinite score": (
        spoiled(predictions=second_series(*[1.0] * 25, np.inf, *[2.0] * 4)),
        r"predictions\[1\]'?, step 25: .* is inf in a labelled window",
    ),
    "event at infinity": (
        spoiled(references=[35.0, np.inf]),
        r"references\[1\] must be the step t\* of the event, or None",
    ),
    "event is text": (spoiled(references=[35.0, "x"]), r"references\[1\] must hold numbers only"),
    "several events": (spoiled(references=[35.0, [1, 2]]), r"references\[1\] must be the step"),
    "steps of one run only": (spoiled(steps=[list(range(40))]), "steps holds 1 runs, but"),
    "too few steps": (
        spoiled(steps=[list(range(40)), list(range(29))]),
        r"steps\[1\] has 29 steps, but predictions\[1\] 30 scores",
    ),
    "one list of steps": (spoiled(steps=[0, 1]), r"steps\[0\] is a number"),
    "steps go back": (
        spoiled(steps=[list(range(40)), [*range(29), 5]]),
        r"predictions\[1\].*step 5 follows step 28; steps must increase",
    ),
    "step is a fraction": (
        spoiled(steps=[list(range(40)), [i / 2 for i in range(30)]]),
        r"predictions\[1\].*step 0.5 is not a whole number",
    ),
    "step is missing": (
        spoiled(steps=[list(range(40)), [*range(29), None]]),
        r"steps\[1\] holds a step that is NaN",
    ),
    "no negatives": (
        spoiled(references=[8.0, 8.0]),
        "references leave no negative window.*give longer runs, or a smaller safe_gap",
    ),
    "no negatives after burn-in": (spoiled(burn_in=39), "references leave no negative window"),
}


@pytest.mark.parametrize(("call", "message"), CASES.values(), ids=CASES)
def test_bad_input(call: dict[str, Any], message: str) -> None:
    metric = robustness if "smoothing_sweep" in call else operationality
    with pytest.raises(InputError, match=message) as raised:
        metric(**call)
    text = str(raised.value)
    assert "\n" not in text
    assert text.startswith(f"gmb_{metric.__name__}: ")
    assert f"Right call: gmb_{metric.__name__}.compute(predictions=[[" in text
    # The words of a preregistration mean nothing to who has not written one.
    assert not re.search(r"prereg|operating_points|labels\.|\bx_", text)


@pytest.mark.parametrize("metric", [discrimination, operationality, utility, robustness, verdict])
def test_every_metric_refuses_alike(metric: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=f"^gmb_{metric.__name__}: horizon missing"):
        metric(**spoiled(horizon=...))


def test_the_right_call_that_is_shown_is_one() -> None:
    assert operationality(**GOOD)["ok_targets"] >= 0


def test_nan_may_be_left_out_where_that_is_asked_for() -> None:
    series = [*GOOD["predictions"][1][:4], NAN, *GOOD["predictions"][1][5:]]
    call = spoiled(predictions=[GOOD["predictions"][0], series])
    kept = operationality(**call, nan="ignore", return_per_run=True)
    whole = operationality(**GOOD, return_per_run=True)
    n_kept, n_whole = 18, 19
    assert kept["fpr_per_run@0.1"][1] * n_kept == whole["fpr_per_run@0.1"][1] * n_whole
    outside = spoiled(predictions=[GOOD["predictions"][0], [*GOOD["predictions"][1], NAN]])
    assert operationality(**outside) == operationality(**GOOD)
