"""The flat names of a preregistration, which `Prereg.minimal` and `replace` take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gmb_hf.validation import unknown

# Flat name -> place in the document; `minimal` and `replace` take these names.
FLAT: Mapping[str, tuple[str, ...]] = {
    "task": ("boundary", "task"),
    "model": ("boundary", "model"),
    "optimizer": ("boundary", "optimizer"),
    "schedule": ("boundary", "schedule"),
    "cadence": ("boundary", "checkpoint_every_steps"),
    "seeds_explore": ("boundary", "seeds_explore"),
    "seeds_eval": ("boundary", "seeds_eval"),
    "event_type": ("event", "type"),
    "metric": ("event", "metric"),
    "w_event": ("event", "window_W_event"),
    "jump_threshold": ("event", "jump_threshold"),
    "event_t_min": ("event", "x_event_t_min"),
    "theta_floor": ("event", "x_theta_floor"),
    "require_new_max": ("event", "x_require_new_max"),
    "plateau_checkpoints": ("event", "x_plateau_checkpoints"),
    "plateau_threshold": ("event", "x_plateau_threshold"),
    "plateau_regression": ("event", "x_plateau_regression"),
    "regime_quantile": ("event", "x_regime_quantile"),
    "regime_radius": ("event", "x_regime_radius"),
    "regime_tolerance": ("event", "x_regime_tolerance"),
    "horizon": ("labels", "positive_window", "horizon_steps"),
    "lead_time_target": ("labels", "positive_window", "lead_time_target"),
    "safe_gap": ("labels", "negative_window", "safe_gap_steps"),
    "fpr_targets": ("operating_points", "fpr_targets"),
    "fpr_eps": ("operating_points", "fpr_eps"),
    "fpr_floor_max": ("operating_points", "fpr_floor_max"),
    "min_targets_ok": ("operating_points", "min_targets_ok"),
    "candidates": ("candidates",),
    "coverage_min": ("decision_thresholds", "coverage_at_0_05_min"),
    "lead_time_median_min": ("decision_thresholds", "lead_time_median_min"),
    "window_sweep": ("decision_thresholds", "robustness", "window_sweep"),
    "max_label_flip_rate": ("decision_thresholds", "robustness", "max_label_flip_rate"),
    "protocol": ("x_protocol",),
    "burn_in": ("x_burn_in",),
    "primary_fpr": ("x_primary_fpr",),
    "event_count_min": ("x_event_count_min",),
    "null_draws": ("x_null_draws",),
    "bootstrap_draws": ("x_bootstrap_draws",),
    "alpha": ("x_alpha",),
    "health_alpha": ("x_health_alpha",),
    "seed": ("x_seed",),
    "smoothing_sweep": ("x_smoothing_sweep",),
    "run_groups": ("x_run_groups",),
    "refractory": ("x_refractory_steps",),
    "nan": ("x_nan",),
    "strata": ("x_strata",),
    "looks": ("x_looks",),
    "max_eval_seeds": ("x_max_eval_seeds",),
}


def nested(document: Mapping[str, Any], flat: Mapping[str, Any]) -> dict[str, Any]:
    """`document` with each flat name set at its place."""
    result = {key: _copy(value) for key, value in document.items()}
    for name, value in flat.items():
        if name not in FLAT:
            raise unknown("prereg field", name, FLAT)
        *parents, last = FLAT[name]
        section = result
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return result


def _copy(value: Any) -> Any:
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, dict) else value
