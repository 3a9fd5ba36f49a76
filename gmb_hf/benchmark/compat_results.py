"""The reference's numbers as a results file: schema v0.4, every null with its reason."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gmb_hf.benchmark.compat import AlarmPoint, CompatSettings, Gate, Measured, conclude, gate
from gmb_hf.benchmark.results import (
    TABLES,
    IndicatorRecord,
    Results,
    null_reasons,
    provenance,
    run_keys,
)
from gmb_hf.benchmark.results import NullLocation as Location
from gmb_hf.errors import InputError

_NO_EVENT = "no run has an event"
_NOT_COMPUTED = "compat repeats the reference, which does not compute it"
_NO_FAMILY = "the reference has no robustness family"
_NO_TARGETS = "thresholds were given without target rates"

# Last field of the path -> why it may be null; every other null was not computed.
_REASONS = {
    "auc": "the windows are of one class only",
    "ap": "no window is positive",
    "x_auc_run_mean": "no run has windows of both classes",
    "x_auc_run_sd": "no run has windows of both classes",
    "x_ap_run_mean": "no run has windows of both classes",
    "x_ap_run_sd": "no run has windows of both classes",
    "roc_auc": "the run's windows are of one class only",
    "average_precision": "no window of the run is positive",
    "n_eff": "the score is constant over the run's negative windows",
    "n_eff_ratio": "the score is constant over the run's negative windows",
    "k_eff": "the run has no negative window",
    "tie_dom": "the run has no negative window",
    "x_n_eff_ratio_mean": "the score is constant over every run's negative windows",
    "x_n_eff_ratio_sd": "the score is constant over every run's negative windows",
    "family": "not declared",
    "x_sees_test_labels": "not declared",
    "ok_targets": _NO_TARGETS,
    "controllability_pass": _NO_TARGETS,
    "x_met": _NO_TARGETS,
    "x_state": _NO_TARGETS,
    "x_budget_used": _NO_TARGETS,
    "fpr_floor_detected": "thresholds were given, and no other was searched",
    "x_passed": "thresholds were given, and no other was searched",
    "tied_value": "the highest negative score is not tied",
    "coverage": _NO_EVENT,
    "x_abstain_rate": _NO_EVENT,
    "lead_time_success": _NO_EVENT,
    "family_size": _NO_FAMILY,
    "pass_rate": _NO_FAMILY,
    "label_flip_rate": _NO_FAMILY,
    "x_central_label": _NO_FAMILY,
    "x_runs_to_settle": "no number of runs makes compat decide for an alarm",
}
_LEADS = ("lead_time_median", "lead_time_iqr", "x_lead_time_mean")


def compat_indicator(
    name: str,
    measured: Measured,
    settings: CompatSettings,
    *,
    family: str | None = None,
    sign: int = 1,
    sees_test_labels: bool | None = None,
) -> IndicatorRecord:
    """The entry of one score, `x_thresholds` and the table `x_per_run` included.

    Args:
        name: the score.
        measured: what was measured of it, signed.
        settings: the reference's settings.
        family: as registered.
        sign: times the declared orientation.
        sees_test_labels: whether it is an oracle; None where that is not known.
    """
    found, verdict = gate(measured, settings), conclude(measured, settings)
    plain: dict[str, Any] = {
        "name": name,
        "family": family,
        "layer_A": _layer_a(measured),
        "layer_B": _layer_b(measured, found, settings),
        "layer_C": {"at_fpr": [_point(point, settings) for point in measured.points]},
        "layer_D": {
            "family_size": None,
            "pass_rate": None,
            "label_flip_rate": None,
            "sensitivity_notes": f"not measured: {_NO_FAMILY}",
        },
        "label": verdict.label,
        "diagnostics": _diagnostics(measured),
        "x_sign": sign,
        "x_sees_test_labels": sees_test_labels,
        "x_alarm_eligible": False,
        "x_reasons": list(verdict.reasons),
        "x_sentence": verdict.sentence,
        "x_thresholds": [point.threshold for point in measured.points],
        "x_per_run": [row.to_dict() for row in measured.rows],
    }
    where = f"results: {name}"
    full = IndicatorRecord.parse(plain, where=where).model_dump(mode="python")
    return IndicatorRecord.parse(
        {**full, "x_null_reasons": dict(null_reasons(full, _reason))}, where=where
    )


def compat_results(
    indicators: Iterable[IndicatorRecord],
    *,
    settings: CompatSettings,
    runs: Sequence[str],
    seeds: Sequence[int | None],
    event_steps: Sequence[float],
    last_steps: Sequence[int],
    fingerprint: str,
    notes: Sequence[str] = (),
    tables: Mapping[str, str] | None = None,
) -> Results:
    """Put a results file together; where one score was judged, its table stands at the top too.

    Args:
        indicators: one per score.
        settings: the reference's settings, stored as `x_compat`.
        runs, seeds, event_steps, last_steps: the runs in one order; an event step is NaN where
            there was no event, a seed None where it is not known.
        fingerprint: content hash of the runs.
        notes: what a reader must know.
        tables: further tables by key, relative to the results file.
    """
    records = [item.model_dump(mode="python") for item in indicators]
    keys = run_keys(runs, seeds)
    steps = [None if step != step else int(step) for step in event_steps]
    calibration = "in_sample" if settings.thresholds is None else "given"
    single = ("x_thresholds", "x_per_run") if len(records) == 1 else ()
    return Results.parse(
        {
            "meta": {
                "run_id": f"compat_{fingerprint[:8]}",
                "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            },
            "boundary": {
                "task": None,
                "model": None,
                "seeds_eval": [
                    run if seed is None else seed for run, seed in zip(runs, seeds, strict=True)
                ],
            },
            "event": {
                "type": "E_jump",
                "t_event_by_seed": dict(zip(keys, steps, strict=True)),
                "x_without_event": {
                    key: f"no event by step {int(last)}"
                    for key, step, last in zip(keys, steps, last_steps, strict=True)
                    if step is None
                },
            },
            "summary": {
                "n_seeds": len(keys),
                "n_events": sum(step is not None for step in steps),
                "notes": " ".join(notes),
                "x_notes": list(notes),
                "x_event_count_min": settings.event_count_min,
                "x_n_too_early": 0,  # t* itself is positive, so that no event is without a window
            },
            "indicators": records,
            "tables": {**TABLES, **(tables or {})},
            "x_protocol": "compat",
            "x_compat": settings.plain(),
            "x_calibration": {"method": calibration},
            "x_provenance": provenance(None, None, fingerprint),
            **{key: records[0][key] for key in single},
        },
        where="results",
    )


def settings_of(results: Results) -> CompatSettings | None:
    """The settings that a results file of this protocol was made with; None for any other file."""
    held = (results.model_extra or {}).get("x_compat")
    if results.x_protocol != "compat" or not isinstance(held, dict):
        return None
    try:
        plain: dict[str, Any] = {
            key: tuple(v) if isinstance(v, list) else v for key, v in held.items()
        }
        return CompatSettings(**plain)
    except TypeError as error:
        raise InputError(f"results: x_compat: {error}") from None


def _layer_a(measured: Measured) -> dict[str, Any]:
    rows = [row for row in measured.rows if row.roc_auc is not None]
    auc_mean, auc_sd = _spread([row.roc_auc for row in rows])
    ap_mean, ap_sd = _spread([row.average_precision for row in rows])
    return {
        "auc": measured.auc,
        "ap": measured.ap,
        "x_auc_run_mean": auc_mean,
        "x_auc_run_sd": auc_sd,
        "x_ap_run_mean": ap_mean,
        "x_ap_run_sd": ap_sd,
        "x_n_runs": len(rows),
    }


def _layer_b(measured: Measured, found: Gate, settings: CompatSettings) -> dict[str, Any]:
    met = found.met or (None,) * len(measured.points)
    negatives = measured.negatives
    tied = int((negatives == negatives[-1]).sum())
    rates = np.unique(np.searchsorted(-negatives[::-1], -negatives, side="right")) / len(negatives)
    return {
        "targets": [point.target for point in measured.points],
        "achieved": [
            {
                "target": point.target,
                "achieved": point.achieved,
                "x_threshold": point.threshold,
                "x_answer": "THRESHOLD",
                "x_achieved_pooled": point.achieved,
                "x_budget_used": point.achieved / point.target if found.met else None,
                "x_met": held,
                "x_state": None if held is None else "met" if held else "missed",
            }
            for point, held in zip(measured.points, met, strict=True)
        ],
        "ok_targets": sum(found.met) if found.met else None,
        "fpr_min": found.fpr_min,
        "controllability_pass": found.controllable,
        "fpr_floor_detected": found.floor,
        "x_passed": found.passed,
        "x_floor_certificate": {
            "f_min_pos": float(rates[0]),
            "gaps": {
                repr(target): float(np.abs(rates - target).min()) for target in settings.fpr_targets
            },
            "tied_value": float(negatives[-1]) + 0.0 if tied > 1 else None,
            "tied_windows": tied,
        },
        "x_calibration": "in_sample" if settings.thresholds is None else "given",
        "x_n_runs": sum(row.n_neg > 0 for row in measured.rows),
        "x_n_windows": len(negatives),
        "x_dropped_windows": 0,
    }


def _point(point: AlarmPoint, settings: CompatSettings) -> dict[str, Any]:
    leads = np.array(point.lead_times)
    early = int((leads >= settings.lead_time_target).sum())
    quarters = np.quantile(leads, [0.25, 0.5, 0.75]).tolist() if len(leads) else None
    return {
        "fpr": point.target,
        "coverage": point.coverage,
        "lead_time_median": quarters[1] if quarters else None,
        "lead_time_iqr": quarters[2] - quarters[0] if quarters else None,
        "lead_time_success": early / point.n_events if point.n_events else None,
        "x_threshold": point.threshold,
        "x_abstain_rate": point.abstain_rate,
        "x_lead_time_mean": point.lead_time_mean,
        "x_n_events": point.n_events,
        "x_n_covered": point.n_covered,
        "x_n_too_early": 0,
        "x_lead_times": list(point.lead_times),
    }


def _diagnostics(measured: Measured) -> dict[str, Any]:
    rows = [row for row in measured.rows if row.n_neg]
    ratio_mean, ratio_sd = _spread([row.n_eff_ratio for row in rows])
    k_mean, k_sd = _spread([row.k_eff for row in rows])
    tie_mean, tie_sd = _spread([row.tie_dom for row in rows])
    return {
        "effective_support_size": k_mean,
        "tie_dominance": tie_mean,
        "comments": "means over runs, as published; x_per_run has each run's",
        "x_effective_support_size_sd": k_sd,
        "x_tie_dominance_sd": tie_sd,
        "x_n_eff_ratio_mean": ratio_mean,
        "x_n_eff_ratio_sd": ratio_sd,
        "x_abstain_rate": measured.primary.abstain_rate,
    }


def _spread(values: Iterable[float | None]) -> tuple[float | None, float | None]:
    """Mean and standard deviation; the latter over n, not n - 1, as the reference's is."""
    known = np.array([value for value in values if value is not None])
    return (float(known.mean()), float(known.std())) if len(known) else (None, None)


def _reason(location: Location, entry: Mapping[str, Any]) -> str:
    field = str(location[-1])
    if field in _LEADS:
        point = entry["layer_C"]["at_fpr"][location[2]]
        return "no event was warned of" if point["x_n_events"] else _NO_EVENT
    return _REASONS.get(field, _NOT_COMPUTED)
