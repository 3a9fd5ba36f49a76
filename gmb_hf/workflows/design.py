"""From a config to a preregistration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs import RunLog
from gmb_hf.runs.metadata import DIFFERS
from gmb_hf.workflows.candidates import available, declared
from gmb_hf.workflows.label_free import combination_of

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig


def prereg_from_config(config: RunConfig, log: RunLog) -> Prereg:
    """The design that a preset fixes, with every indicator that the log can feed as candidate.

    Where the config asks for it and the explore runs can carry the fit, all of them that see no
    test label are one candidate more, combined.

    Args:
        config: its `benchmark` and `seeds` sections are the design.
        log: explore runs; their metadata names task, model and optimizer.
    """
    cadence = log.panel("step").cadence()
    candidates = [declared(indicator, cadence) for indicator in available(log)]
    boundary = boundary_of(log)
    prereg = prereg_of(config, boundary=boundary, candidates=candidates)
    if config.benchmark.combination:
        candidates += combination_of(prereg, log)
        prereg = prereg_of(config, boundary=boundary, candidates=candidates)
    return prereg


def prereg_of(
    config: RunConfig, *, boundary: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]
) -> Prereg:
    """The design that a preset fixes, about this system and these candidates."""
    from gmb_hf.training.seeds import parse_seeds

    design = config.benchmark
    # A preset whose event was set to another type keeps its jump, which that type passes over.
    jumps = design.event == "E_jump"
    return Prereg.parse(
        {
            "boundary": {
                **boundary,
                "seeds_explore": list(parse_seeds(config.seeds.explore)),
                "seeds_eval": list(parse_seeds(config.seeds.evaluate)),
            },
            "event": {
                "type": design.event,
                "metric": "test_acc",
                "window_W_event": design.jump_window,
                "jump_threshold": design.jump_threshold,
                "x_theta_floor": design.event_floor if jumps else None,
                "x_require_new_max": jumps and design.event_new_max,
                "x_plateau_checkpoints": design.plateau_checkpoints,
                "x_plateau_threshold": design.plateau_threshold,
                "x_plateau_regression": design.plateau_regression,
                "x_regime_radius": design.regime_radius,
                "x_regime_quantile": design.regime_quantile,
                "x_regime_tolerance": design.regime_tolerance,
            },
            "labels": {
                "positive_window": {
                    "horizon_steps": design.horizon,
                    "lead_time_target": design.lead_time_target,
                },
                "negative_window": {"safe_gap_steps": design.safe_gap},
            },
            "candidates": list(candidates),
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
    """What a log says about the system it comes from; keys of the prereg's `boundary`.

    Where its parts disagree it says nothing; `statements_of` has what each of them says.
    """
    said = statements_of(log)
    return {key: values[0] for key, values in said.items() if len(values) == 1}


def statements_of(log: RunLog) -> dict[str, list[Any]]:
    """What the parts of a log say about the system, by key of the prereg's `boundary`.

    Metadata is anybody's JSON: what is no text, or no number of steps, says nothing here.
    """
    kinds: dict[str, type] = dict.fromkeys(("task", "model", "optimizer", "schedule"), str)
    kinds["checkpoint_every_steps"] = int
    differs = log.metadata.get(DIFFERS)
    said = {}
    for key, kind in kinds.items():
        parts = differs.get(key) if isinstance(differs, dict) else None
        values = parts if isinstance(parts, list) else [log.metadata.get(key)]
        said[key] = [value for value in values if isinstance(value, kind)]
    return {key: values for key, values in said.items() if values}


def system_of(log: RunLog) -> dict[str, list[Any]]:
    """What there is to compare with a lock's boundary: the cadence is measured, not claimed."""
    return {**statements_of(log), "checkpoint_every_steps": [log.panel("step").cadence()]}


def with_boundary(prereg: Prereg, log: RunLog) -> Prereg:
    """The design with what it leaves open about the system filled in from a log.

    A lock that was made without saying so then still refuses logs of another task or cadence.
    """
    stated = {key: value for key, value in prereg.boundary.plain().items() if value}
    found = {**boundary_of(log), "checkpoint_every_steps": log.panel("step").cadence()}
    boundary = type(prereg.boundary).parse({**found, **stated}, where="boundary")
    return prereg.model_copy(update={"boundary": boundary})
