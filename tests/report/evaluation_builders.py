"""Made-up runs and verdicts that look like real ones, for the tests of tables and figures."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.stats import exact_binomial
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.sections import CalibrationRecord
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.design.design import Design
from gmb_hf.runs.runlog import RunLog

TARGETS = (0.01, 0.05, 0.1)


def curves(n_runs: int = 64, seed: int = 0) -> tuple[RunLog, NDArray[np.float64]]:
    """Runs that memorise at about step 150 and generalise between 500 and 2,200, with their t*."""
    rng = np.random.default_rng(seed)
    steps = np.arange(0, 2501, 25)
    onset = rng.lognormal(np.log(1100), 0.32, n_runs)[:, None]
    width = rng.uniform(40, 110, n_runs)[:, None]
    wiggle = rng.normal(0, 0.012, (n_runs, len(steps)))
    test = 0.04 + 0.95 / (1 + np.exp(-(steps - onset) / width)) + wiggle
    train = 0.04 + 0.96 / (1 + np.exp(-(steps - rng.normal(140, 20, (n_runs, 1))) / 25))
    event = np.round((onset[:, 0] - width[:, 0]) / 25) * 25
    event[onset[:, 0] > 2300] = np.nan
    accuracies = {"test_acc": np.clip(test, 0, 1), "train_acc": np.clip(train, 0, 1)}
    return RunLog.from_arrays([f"seed_{i:03}" for i in range(n_runs)], steps, accuracies), event


NAMES = {
    "training_loss_drift": ("dynamics", False), "embedding_norm_drop": ("dynamics", False),
    "weight_norm_slope": ("dynamics", False), "csd_lag1": ("dynamics", False),
    "csd_variance": ("dynamics", False), "vei": ("dynamics", False),
    "curvature": ("dynamics", False), "gradient_norm": ("dynamics", False),
    "update_norm": ("dynamics", False), "spectral_entropy_drop": ("spectral", False),
    "unembedding_entropy": ("spectral", False), "embedding_rank": ("spectral", False),
    "attention_rank": ("spectral", False), "embedding_gini": ("spectral", False),
    "unembedding_gini": ("spectral", False), "participation_ratio": ("spectral", False),
    "disagreement": ("process", False), "prediction_change": ("process", False),
    "train_margin_q10": ("crucible", False), "train_margin_q50": ("crucible", False),
    "train_accuracy": ("dynamics", False), "test_loss_drift": ("dynamics", True),
    "test_margin_q10": ("crucible", True), "test_margin_q50": ("crucible", True),
    "test_accuracy_slope": ("dynamics", True), "held_out_loss": ("oracle", True),
    "clock": ("control", False), "constant": ("control", False),
}  # fmt: skip


def design(**overrides: Any) -> Design:
    settings: dict[str, Any] = {
        "horizon": 200, "safe_gap": 400, "burn_in": 200, "w_event": 100, "jump_threshold": 0.2,
        "task": "subtraction mod 29", "model": "1 layer, width 32", "cadence": 25,
        "lead_time_target": 150, "also_events": [
            {"type": "E_plateau", "x_plateau_threshold": 0.9, "x_plateau_checkpoints": 5}
        ],
    }  # fmt: skip
    return Design.minimal(**{**settings, **overrides})


def run_point(budget: float, n_events: int, share: float, n_free: int = 12, *,
              abstains: bool = False, n_runs: int | None = None) -> dict[str, Any]:  # fmt: skip
    """The first alarms of a made-up score at one budget: counts add up."""
    runs = n_events + n_free if n_runs is None else n_runs
    false = 0 if abstains else min(n_events, round(0.8 * budget * runs))
    detected = 0 if abstains else min(n_events - false, round(share * n_events))
    timely = round(0.8 * detected)
    low, high = exact_binomial(false, runs), exact_binomial(detected, n_events or 1)
    rate = detected / n_events if n_events else None
    none = detected == 0
    chance = {"detection_rate": 0.4 * (rate or 0.0) + 0.02,
              "p_value": 0.0005 if share > 0.2 else 0.6}  # fmt: skip
    leads = dict.fromkeys(("lead_q05", "lead_q25", "lead_median", "lead_q75", "lead_q95"))
    if not none:
        leads = {"lead_q05": 50, "lead_q25": 100, "lead_median": 150, "lead_q75": 200,
                 "lead_q95": 350}  # fmt: skip
    return {
        "budget": budget, "threshold": math.inf if abstains else 1.25,
        "answer": "ABSTAIN" if abstains else "THRESHOLD",
        "expected": None if abstains else 0.9 * budget,
        "upper": None if abstains else 1.3 * budget,
        "n_runs": runs, "n_false": false, "false_alarm_rate": false / runs if runs else None,
        "false_alarm_interval": low if runs else None,
        "state": "straddles" if abstains else "met", "few_runs": abstains,
        "n_events": n_events, "n_detected": detected, "n_timely": timely,
        "n_early": detected - timely, "n_false_before_event": false,
        "n_missed": n_events - detected - false,
        "detection_rate": rate, "detection_interval": high if n_events else None,
        "timely_rate": timely / n_events if n_events else None,
        "timely_interval": exact_binomial(timely, n_events) if n_events else None, **leads,
        "n_event_free": n_free, "n_event_free_false": 0,
        "baselines": {"constant_hazard": chance, "risk_set": chance} if n_events else {},
        "controls": {"clock": {"detection_rate": 0.1, "p_value": 0.001}} if n_events else {},
        "p_value": chance["p_value"] if n_events else None,
    }  # fmt: skip


def first_alarm(share: float, n_events: int = 244, others: bool = True,
                **how: Any) -> dict[str, Any]:  # fmt: skip
    """A made-up score by runs, at the three budgets of a design and before another event."""
    point = run_point(0.05, n_events, share, **how)
    return {
        "basis": "promised", "calibration": "marginal", "p_adjusted": point["p_value"],
        "at_budget": [point, *(run_point(b, n_events, share + b / 2, **how) for b in (0.1, 0.2))],
        "robustness": {"family_size": 60, "pass_rate": 0.9, "label_flip_rate": 0.05},
        "other_events": [{"event": "E_plateau 0.9 x 5",
                          "at": run_point(0.05, n_events, share / 2, **how)}] if others else [],
    }  # fmt: skip


def gates(worst: str | None, state: str = "missed") -> list[dict[str, Any]]:
    """The gates of a made-up score in both units: all met but `worst`, such as "runs_chance"."""
    names = ("floor", "budget", "detection", "chance", "lead", "stability")
    every = [(unit, gate) for unit in ("runs", "windows") for gate in names]
    return [
        {"unit": unit, "gate": gate, "state": "met"}
        if f"{unit}_{gate}" != worst else
        {"unit": unit, "gate": gate, "state": state, "code": f"{worst}_code",
         "detail": f"the reason why the {gate} fails by {unit}"}
        for unit, gate in every if (unit, gate) != ("runs", "floor")
    ]  # fmt: skip


def indicator(name: str, rng: np.random.Generator, n_events: int = 244) -> IndicatorRecord:
    """One made-up indicator: strength decides coverage, a few have a floor or abstain."""
    family, sees = NAMES.get(name, ("external", None))
    strength = {"training_loss_drift": 0.2}.get(name, float(rng.beta(1.6, 1.6)))
    floor = {"train_accuracy": 0.58, "constant": 1.0, "prediction_change": 0.13}.get(name)
    achieved, points = [], []
    for target in TARGETS:
        abstains = floor is not None or (target == 0.01 and rng.random() < 0.4)
        rate = 0.0 if abstains else target * float(rng.uniform(0.3, 1.5))
        if name in ("gradient_norm", "vei"):
            rate = 0.09 + target
        half = 0.25 * rate + 0.004
        interval = {"low": max(0.0, rate - half), "high": rate + half, "level": 0.95,
                    "method": "run-cluster bootstrap"}  # fmt: skip
        missed = rate > target + min(0.01, target / 2)
        straddles = not missed and rate + half > target + min(0.01, target / 2)
        state = "missed" if missed or abstains else "straddles" if straddles else "met"
        achieved.append({
            "target": target, "achieved": rate,
            "x_threshold": math.inf if abstains else float(rng.normal()),
            "x_answer": "ABSTAIN" if abstains else "THRESHOLD",
            "x_achieved_pooled": rate * 1.05,
            "x_interval": None if abstains else interval,
            "x_budget_used": rate / target,
            "x_effective_budget": max(0.0, target - (1 - target) / 100),
            "x_within_budget": not missed and not abstains, "x_state": state,
        })  # fmt: skip
        coverage = 0.0 if abstains else min(1.0, strength * (0.55 + 4 * target))
        shift, risk = 0.75 * min(coverage, 0.6) + 0.05, 0.9 * min(coverage, 0.5) + 0.08
        covered = round(coverage * n_events)
        leads = np.clip(np.round(rng.gamma(3, 45, covered) / 25) * 25, 25, 200)
        none = covered == 0
        points.append({
            "fpr": target, "coverage": covered / n_events,
            "lead_time_median": None if none else float(np.median(leads)),
            "lead_time_iqr": None if none else float(np.subtract(*np.quantile(leads, [.75, .25]))),
            "lead_time_success": float(np.sum(leads >= 150)) / n_events,
            "x_threshold": achieved[-1]["x_threshold"],
            "x_coverage_interval": {"low": max(0.0, coverage - 0.06),
                                    "high": min(1.0, coverage + 0.06)},
            "x_n_events": n_events, "x_n_covered": covered, "x_n_too_early": 3,
            "x_lead_time_q05": None if none else float(np.quantile(leads, 0.05)),
            "x_lead_time_q95": None if none else float(np.quantile(leads, 0.95)),
            "x_lead_times": [float(lead) for lead in leads],
            "x_false_alarms_per_run": rate * 20, "x_false_alarms_per_10k_steps": rate * 400,
            "x_time_in_warning": rate, "x_episodes": int(rate * 600),
            "x_episode_precision": None if none else 0.6,
            "x_baselines": {} if abstains else {
                "shift": {"detection_rate": shift, "fpr": rate, "draws": 2000,
                          "p_value": 0.0005 if coverage > shift else 0.7},
                "risk_set": {"detection_rate": risk, "fpr": rate, "draws": 2000,
                             "p_value": 0.0005 if coverage > risk else 0.8},
            },
            "x_p_value": None if abstains else (0.0005 if coverage > max(shift, risk) else 0.8),
        })  # fmt: skip
    at = points[1]
    met = sum(item["x_state"] == "met" for item in achieved)
    beats = at["x_p_value"] is not None and at["x_p_value"] < 0.05
    if floor is not None or met == 0:
        label, worst = "RANK_ONLY", "windows_floor" if floor else "windows_budget"
        reasons = ["windows_floor" if floor else "windows_uncontrolled"]
    elif not beats:
        label, reasons, worst = "RANK_ONLY", ["runs_no_better_than_chance"], "runs_chance"
    elif met < 2:
        label, reasons, worst = "INCONCLUSIVE", ["runs_straddle"], "runs_detection"
    elif name == "update_norm":
        label, reasons, worst = "ESTIMATOR_UNSTABLE", ["runs_unstable"], "runs_stability"
    else:
        label, reasons, worst = "SUPPORTED_FOR_ALARM", [], None
    if family == "control" or sees:
        reasons.append("control" if family == "control" else "oracle")
    may = label[0] == "S" and family != "control" and not sees
    return IndicatorRecord.parse({
        "name": name, "family": family,
        "layer_A": {"auc": 0.4 + strength / 2, "ap": 0.1 + strength / 3, "x_n_runs": 240},
        "layer_B": {
            "targets": list(TARGETS), "achieved": achieved,
            "ok_targets": sum(abs(one["achieved"] - one["target"]) <= 0.01 for one in achieved),
            "fpr_min": floor if floor else 0.002, "controllability_pass": False,
            "fpr_floor_detected": floor is not None, "x_passed": met >= 2 and floor is None,
            "x_budget_pass": met >= 2, "x_decided_by": "x_budget_pass",
            "x_floor_certificate": {"f_min_pos": floor or 0.001, "gaps": {"0.05": 0.001},
                                    "tied_value": 1.0 if floor else None,
                                    "floor": floor is not None},
        },
        "layer_C": {"at_fpr": points},
        "layer_D": {"family_size": 60, "pass_rate": 0.9, "label_flip_rate": 0.05,
                    "sensitivity_notes": "windows x smoothing x run groups"},
        "label": label,
        "diagnostics": {"effective_support_size": 12.0, "tie_dominance": 0.02},
        "x_sign": 1, "x_sees_test_labels": sees, "x_alarm_eligible": may,
        "x_reasons": reasons, "x_sentence": f"{name}: a sentence about this verdict.",
        "x_gates": gates(worst, "straddles" if label == "INCONCLUSIVE" else "missed"),
        "x_first_alarm": first_alarm(0.9 * strength if may else 0.3 * strength,
                                     n_events, abstains=floor is not None),
        "x_p_adjusted": at["x_p_value"], "x_runs_to_settle": None,
    }, where=name)  # fmt: skip


def results(names: list[str] | None = None, seed: int = 3, n_runs: int = 256) -> Results:
    """A whole made-up evaluation."""
    rng = np.random.default_rng(seed)
    log, events = curves(n_runs, seed)
    lock: Any = SimpleNamespace(hash="ab" * 32, x_lock=SimpleNamespace(explore_fingerprint=None))
    return Results.assemble(
        [indicator(name, rng) for name in (names or list(NAMES))],
        log,
        events.tolist(),
        design=design(),
        calibration=CalibrationRecord(
            method="locked", n_runs=100, effective_budget={"0.01": 0.0001, "0.05": 0.0405}
        ),
        lock=lock,
        date="2026-01-27",
    )


def aligned_scores(seed: int = 0) -> list[tuple[Scores, float | None, str]]:
    """Six scores, some of which rise before t*."""
    rng = np.random.default_rng(seed)
    log, events = curves(256, seed)
    panel = log.panel("test_acc")
    shown = []
    for name, rise in (
        ("training_loss_drift", 2.5), ("unembedding_gini", 1.6), ("embedding_norm_drop", 1.1),
        ("spectral_entropy_drop", 0.4), ("csd_lag1", 0.0), ("held_out_loss", 3.0),
    ):  # fmt: skip
        before = (panel.steps - events[:, None]) / 150
        values = rise / (1 + np.exp(-before - 1)) + rng.normal(0, 0.5, panel.steps.shape)
        scores = dataclasses.replace(Scores.from_panel(panel, events), name=name, values=values)
        shown.append((scores, 1.2, "1 run in 20"))
    return shown
