"""The layers as flat scalars with stable names: what the GMB metrics return.

A number that does not exist is None; a threshold at which nothing alarms is infinite. Every name
belongs to one metric only, so that `evaluate.combine` has nothing to rename. `return_per_run` adds
one list for each quantity that runs, or members of the robustness family, have one by one; in it,
what does not exist is NaN, so that the list stays one of numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.discrimination import layer_a, ranking
from gmb_hf.benchmark.judge import judge
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import layer_b
from gmb_hf.benchmark.rates import false_alarms
from gmb_hf.benchmark.robustness import layer_d
from gmb_hf.benchmark.series import judgement_of
from gmb_hf.benchmark.utility import layer_c, warnings_at

Flat = dict[str, Any]


def discrimination(
    predictions: Any, references: Any, *, return_per_run: bool = False, **settings: Any
) -> Flat:
    """Layer A over pooled windows: `auc`, `ap`; per run `auc_per_run`, `ap_per_run`.

    Args:
        predictions, references, settings: see `gmb_hf.benchmark.series.judgement_of`, and so in
            the functions below.
        return_per_run: add the lists.
    """
    judgement = judgement_of("gmb_discrimination", predictions, references, settings)
    measured = layer_a(judgement)
    flat: Flat = {"auc": measured.auc, "ap": measured.ap}
    if return_per_run:
        windows = judgement.windows
        labelled = windows.positive | windows.negative
        auc, ap = ranking(judgement.evaluation.values, windows.positive, labelled)
        flat |= {"auc_per_run": auc.tolist(), "ap_per_run": ap.tolist()}
    return flat


def operationality(
    predictions: Any, references: Any, *, return_per_run: bool = False, **settings: Any
) -> Flat:
    """Layer B: `fpr@f` and `threshold@f` of each target, and the gate.

    `ok_targets`, `controllability_pass`, `fpr_min`, `fpr_floor_detected`, `layer_b_pass`. Per run:
    `fpr_per_run@f`, `threshold_per_run@f`.
    """
    judgement = judgement_of("gmb_operationality", predictions, references, settings)
    measured = layer_b(judgement, intervals=False)
    flat: Flat = {}
    for result in measured.targets:
        flat[_at("fpr", result.target)] = result.achieved
        flat[_at("threshold", result.target)] = result.threshold
    flat |= {
        "ok_targets": measured.ok_targets,
        "controllability_pass": measured.controllability_pass,
        "fpr_min": measured.fpr_min,
        "fpr_floor_detected": measured.fpr_floor_detected,
        "layer_b_pass": measured.passed,
    }
    if return_per_run:
        for target in judgement.prereg.fpr_targets:
            flat[_at("fpr_per_run", target)] = _rates(judgement, target)
            thresholds = judgement.calibrated.thresholds[target]
            flat[_at("threshold_per_run", target)] = thresholds.tolist()
    return flat


def utility(
    predictions: Any, references: Any, *, return_per_run: bool = False, **settings: Any
) -> Flat:
    """Layer C: `coverage@f`, `lead_time_median@f`, `lead_time_iqr@f`, `lead_time_success@f`.

    The interquartile range is q75 - q25. Per run: `covered_per_run@f` (False also where there is no
    event), `lead_time_per_run@f`.
    """
    judgement = judgement_of("gmb_utility", predictions, references, settings)
    flat: Flat = {}
    for point in layer_c(judgement).points:
        flat[_at("coverage", point.fpr)] = point.coverage
        flat[_at("lead_time_median", point.fpr)] = point.lead_time_median
        flat[_at("lead_time_iqr", point.fpr)] = point.lead_time_iqr
        flat[_at("lead_time_success", point.fpr)] = point.lead_time_success
    if return_per_run:
        for target in judgement.prereg.fpr_targets:
            warned = warnings_at(judgement, target)
            flat[_at("covered_per_run", target)] = warned.covered.tolist()
            flat[_at("lead_time_per_run", target)] = warned.lead.tolist()
    return flat


def robustness(
    predictions: Any, references: Any, *, return_per_run: bool = False, **settings: Any
) -> Flat:
    """Layer D: `pass_rate`, `label_flip_rate`, `family_size`.

    `return_per_run` adds, for each member of the family, `members`, `member_labels` and
    `member_layer_b_pass`: what varies here are settings and runs left out.
    """
    judgement = judgement_of("gmb_robustness", predictions, references, settings)
    measured = layer_d(judgement)
    flat: Flat = {
        "pass_rate": measured.pass_rate,
        "label_flip_rate": measured.label_flip_rate,
        "family_size": measured.family_size,
    }
    if return_per_run:
        flat["members"] = [member.name for member in measured.members]
        flat["member_labels"] = [member.label for member in measured.members]
        flat["member_layer_b_pass"] = [member.layer_b_pass for member in measured.members]
    return flat


def verdict(
    predictions: Any, references: Any, *, return_per_run: bool = False, **settings: Any
) -> Flat:
    """The verdict: `label`, `alarm_eligible`, `reasons` (codes, joined by ", "), `sentence`.

    Per run, at the primary target: `first_alarm_per_run`, the step of the first alarm from burn-in
    to t*, and `false_alarms_per_run`.
    """
    judgement = judgement_of("gmb_verdict", predictions, references, settings)
    concluded = judge(judgement).verdict
    flat: Flat = {
        "label": concluded.label,
        "alarm_eligible": concluded.alarm_eligible,
        "reasons": ", ".join(concluded.reasons),
        "sentence": concluded.sentence,
    }
    if return_per_run:
        target = judgement.prereg.primary_fpr
        flat["first_alarm_per_run"] = _first_alarms(judgement, target).tolist()
        flat["false_alarms_per_run"] = false_alarms(judgement, target).tolist()
    return flat


def _at(name: str, target: float) -> str:
    return f"{name}@{float(target)!r}"


def _rates(judgement: Judgement, target: float) -> list[float]:
    """Each run's false positive rate, NaN for a run without negatives."""
    counts = judgement.negatives.counts
    undefined = np.full(len(counts), np.nan)
    rates = np.divide(false_alarms(judgement, target), counts, out=undefined, where=counts > 0)
    return list(rates.tolist())


def _first_alarms(judgement: Judgement, target: float) -> NDArray[np.float64]:
    alarms = judgement.alarms(target) & judgement.windows.monitored
    first = judgement.evaluation.steps[np.arange(len(alarms)), alarms.argmax(axis=1)]
    return np.where(alarms.any(axis=1), first, np.nan)
