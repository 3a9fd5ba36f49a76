"""From the layers of one score to its entry in the results file, every null with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gmb_hf.benchmark.judge import IndicatorVerdictParts
from gmb_hf.benchmark.result_records import IndicatorRecord
from gmb_hf.benchmark.utility import OperatingPoint
from gmb_hf.preregistration.document_errors import path_text
from gmb_hf.preregistration.documents import json_like

Location = tuple[int | str, ...]
"""Where in an entry: keys and list indices from the top."""

_NO_EVENT = "no held-out run has an event"
_NO_WARNING = "no event was warned of at this target"
_NO_NEGATIVE = "no held-out run has a negative window"
_ONE_CLASS = "the labelled windows are of one class only"
_NOT_DECLARED = "not declared"

# Last field of the path -> why it may be null; what depends on the score is in `_reason`.
_REASONS = {
    "family": _NOT_DECLARED,
    "x_sees_test_labels": _NOT_DECLARED,
    "x_sign": _NOT_DECLARED,
    "auc": _ONE_CLASS,
    "ap": _ONE_CLASS,
    "x_auc_run_mean": "no run has windows of both classes",
    "x_ap_run_mean": "no run has windows of both classes",
    "x_auc_run_sd": "fewer than two runs have windows of both classes",
    "x_ap_run_sd": "fewer than two runs have windows of both classes",
    "achieved": _NO_NEGATIVE,
    "x_achieved_pooled": _NO_NEGATIVE,
    "x_interval": _NO_NEGATIVE,
    "x_budget_used": _NO_NEGATIVE,
    "x_effective_budget": "only strict thresholds from a known number of runs have one",
    "x_floor_certificate": _NO_NEGATIVE,
    "fpr_min": _NO_NEGATIVE,
    "tied_value": "the highest negative score is not tied",
    "coverage": _NO_EVENT,
    "x_coverage_interval": _NO_EVENT,
    "lead_time_success": _NO_EVENT,
    "x_lead_time_success_interval": _NO_EVENT,
    "x_false_alarms_per_run": _NO_NEGATIVE,
    "x_false_alarms_per_10k_steps": _NO_NEGATIVE,
    "x_time_in_warning": "no window lies between burn-in and t*",
    "x_episode_precision": "there is no alarm episode",
    "x_shift_null": _NO_EVENT,
    "x_risk_set_null": _NO_EVENT,
    "x_p_value": _NO_EVENT,
    "x_p_adjusted": _NO_EVENT,
    "fpr": _NO_NEGATIVE,
    "effective_support_size": _NO_NEGATIVE,
    "x_tail_support_size": _NO_NEGATIVE,
    "tie_dominance": _NO_NEGATIVE,
    "x_n_eff": "the score is constant over negative windows, or there are none",
    "x_design_effect": "the score is constant over negative windows, or there are none",
    "x_abstain_rate": _NO_EVENT,
    "x_scope": "the label is not SCOPE_LIMITED",
}

# The same for an entry of `x_strata`.
_STRATUM_REASONS = {
    "achieved": "no run of the stratum has a negative window",
    "interval": "no run of the stratum has a negative window",
    "lead_time_median": "no event of the stratum was warned of",
    "label_flip_rate": "not measured, since something else already fails",
}


def indicator_record(
    name: str,
    parts: IndicatorVerdictParts,
    *,
    family: str | None = None,
    sign: int = 1,
    sees_test_labels: bool | None = None,
) -> IndicatorRecord:
    """The entry of one score.

    Args:
        name: the score.
        parts: its layers and its verdict.
        family: as registered.
        sign: times the declared orientation.
        sees_test_labels: whether it is an oracle; None where that is not known.
    """
    b, d, verdict = parts.layer_b, parts.layer_d, parts.verdict
    plain = {
        "name": name,
        "family": family,
        "layer_A": _extend(parts.layer_a.to_dict(), keep=("auc", "ap")),
        "layer_B": {
            "targets": [result.target for result in b.targets],
            "achieved": [
                _extend(result.to_dict(), keep=("target", "achieved")) for result in b.targets
            ],
            "ok_targets": b.ok_targets,
            "fpr_min": b.fpr_min,
            "controllability_pass": b.controllability_pass,
            "fpr_floor_detected": b.fpr_floor_detected,
            "x_passed": b.passed,
            "x_floor_certificate": b.certificate.to_dict() if b.certificate else None,
            "x_calibration": b.calibration,
            "x_n_runs": b.n_runs,
            "x_n_windows": b.n_windows,
            "x_dropped_windows": b.dropped_windows,
        },
        "layer_C": {"at_fpr": [_point(point) for point in parts.layer_c.points]},
        "layer_D": {
            "family_size": d.family_size,
            "pass_rate": d.pass_rate,
            "label_flip_rate": d.label_flip_rate,
            "sensitivity_notes": " ".join(d.notes),
            "x_central_label": d.central_label,
            "x_members": [member.to_dict() for member in d.members],
        },
        "label": verdict.label,
        "diagnostics": _diagnostics(parts),
        "x_sign": sign,
        "x_sees_test_labels": sees_test_labels,
        "x_alarm_eligible": verdict.alarm_eligible,
        "x_reasons": list(verdict.reasons),
        "x_sentence": verdict.sentence,
        "x_p_adjusted": verdict.p_adjusted,
        "x_runs_to_settle": verdict.runs_to_settle,
        "x_scope": verdict.scope.to_dict() if verdict.scope else None,
        "x_strata": [part.to_dict() for part in parts.strata],
    }
    plain["x_null_reasons"] = dict(null_reasons(plain))
    return IndicatorRecord.parse(plain, where=f"results: {name}")


def _extend(plain: Mapping[str, Any], *, keep: tuple[str, ...]) -> dict[str, Any]:
    """The specification's fields as they are, all others under `x_`."""
    return {key if key in keep else f"x_{key}": value for key, value in plain.items()}


def _point(point: OperatingPoint) -> dict[str, Any]:
    keep = ("fpr", "coverage", "lead_time_median", "lead_time_iqr", "lead_time_success")
    return _extend(point.to_dict(), keep=keep)


def _diagnostics(parts: IndicatorVerdictParts) -> dict[str, Any]:
    found = parts.diagnostics
    plain = _extend(found.to_dict(), keep=("effective_support_size", "tie_dominance", "comments"))
    plain["x_tail_support_size"] = plain.pop("x_tail_k")
    return {**plain, "comments": "; ".join(found.comments)}


def null_reasons(
    entry: Mapping[str, Any], reason: Callable[[Location, Mapping[str, Any]], str] | None = None
) -> Iterator[tuple[str, str]]:
    """The path of each null in an entry, and why it is null.

    Args:
        entry: an indicator as plain data.
        reason: says why, from the null's location and the entry; by default as the layers do.
    """
    for location in _nulls(json_like(entry), ()):
        yield path_text(location), (reason or _reason)(location, entry)


def _nulls(value: Any, location: Location) -> Iterator[Location]:
    if value is None:
        yield location
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _nulls(item, (*location, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nulls(item, (*location, index))


def _reason(location: Location, entry: Mapping[str, Any]) -> str:
    field = str(location[-1])
    if location[0] == "x_strata":
        return _STRATUM_REASONS.get(field, "no run of the stratum has an event")
    if field == "x_runs_to_settle":
        if entry["label"] == "INCONCLUSIVE":
            return "no number can be given"
        return "the verdict is settled"
    if "lead_time" in field and field not in _REASONS:
        point = entry["layer_C"]["at_fpr"][location[2]]
        return _NO_WARNING if point["x_n_events"] else _NO_EVENT
    return _REASONS[field]
