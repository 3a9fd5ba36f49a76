"""From a config to a preregistration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs import RunLog
from gmb_hf.workflows.candidates import available, declared

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig


def prereg_from_config(config: RunConfig, log: RunLog) -> Prereg:
    """The design that a preset fixes, with every indicator that the log can feed as candidate.

    Args:
        config: its `benchmark` and `seeds` sections are the design.
        log: explore runs; their metadata names task, model and optimizer.
    """
    from gmb_hf.training.seeds import parse_seeds

    design = config.benchmark
    cadence = log.panel("step").cadence()
    return Prereg.parse(
        {
            "boundary": {
                **boundary_of(log),
                "seeds_explore": list(parse_seeds(config.seeds.explore)),
                "seeds_eval": list(parse_seeds(config.seeds.evaluate)),
            },
            "event": {
                "type": "E_jump",
                "metric": "test_acc",
                "window_W_event": design.jump_window,
                "jump_threshold": design.jump_threshold,
                "x_theta_floor": design.event_floor,
                "x_require_new_max": design.event_new_max,
            },
            "labels": {
                "positive_window": {
                    "horizon_steps": design.horizon,
                    "lead_time_target": design.lead_time_target,
                },
                "negative_window": {"safe_gap_steps": design.safe_gap},
            },
            "candidates": [declared(indicator, cadence) for indicator in available(log)],
            "decision_thresholds": {
                "coverage_at_0_05_min": design.coverage_min,
                "lead_time_median_min": design.lead_time_median_min,
                "robustness": {"window_sweep": list(design.window_sweep)},
            },
            "x_burn_in": design.burn_in,
            "x_primary_fpr": design.primary_fpr,
        },
        where=f"preset {config.preset}",
    )


def boundary_of(log: RunLog) -> dict[str, Any]:
    """What a log says about the system it comes from; keys of the prereg's `boundary`."""
    keys: Iterable[str] = ("task", "model", "optimizer", "schedule", "checkpoint_every_steps")
    return {key: log.metadata[key] for key in keys if log.metadata.get(key) is not None}
