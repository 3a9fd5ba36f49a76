"""Which design a command means, and which runs of a log it may look at."""

from __future__ import annotations

from pathlib import Path

from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs import RunLog
from gmb_hf.runs.metadata import DIFFERS
from gmb_hf.validation import InputError
from gmb_hf.workflows.design import prereg_from_config


def design_for(log: RunLog, prereg_path: str | Path | None, preset_name: str | None) -> Prereg:
    """The preregistration or preset that was given, or the design that the log was trained for.

    Raises:
        InputError: both were given, or neither and the log does not say; or the log's parts were
            trained for different designs.
    """
    if prereg_path is not None and preset_name is not None:
        raise InputError("--prereg and --preset are two designs; give one of them")
    if prereg_path is not None:
        return Prereg.read(prereg_path)
    from gmb_hf.training.config import RunConfig
    from gmb_hf.training.presets import preset

    if preset_name is not None:
        return prereg_from_config(preset(preset_name), log)
    differing = [key for key in log.metadata.get(DIFFERS, {}) if key.startswith("design.")]
    design = log.metadata.get("design")
    if differing or not isinstance(design, dict):
        why = f"the logs were trained for different ones ({differing[0]})" if differing else ""
        raise InputError(
            f"no design{': ' * bool(why)}{why}; pass --prereg FILE (gmb prereg init writes one to "
            "fill in), or --preset NAME"
        )
    name = log.metadata.get("preset", "custom")
    return prereg_from_config(RunConfig.from_dict({"preset": name, **design}), log)


def explore_part(log: RunLog, prereg: Prereg) -> tuple[RunLog, int]:
    """The runs that may be explored, and how many held-out ones were set aside.

    Raises:
        InputError: none of the declared explore seeds is in the log.
    """
    return _part(log, prereg.boundary.seeds_explore, prereg.boundary.seeds_eval, "explore")


def held_out_part(log: RunLog, prereg: Prereg) -> tuple[RunLog, int]:
    """The runs that are held out, and how many explore runs were set aside.

    Raises:
        InputError: none of the declared held-out seeds is in the log.
    """
    return _part(log, prereg.boundary.seeds_eval, prereg.boundary.seeds_explore, "held-out")


def _part(
    log: RunLog, wanted: tuple[int, ...], others: tuple[int, ...], what: str
) -> tuple[RunLog, int]:
    rows = list(zip(log.runs, log.seeds, strict=True))
    chosen, unwanted = set(wanted), set(others)
    kept = [run for run, seed in rows if (seed in chosen if chosen else seed not in unwanted)]
    if not kept:
        raise InputError(
            f"none of the {len(log.runs)} runs is a declared {what} run (boundary.seeds_"
            f"{'explore' if what == 'explore' else 'eval'}); check --runs, or the seeds"
        )
    return (log if len(kept) == len(rows) else log.select(kept)), len(rows) - len(kept)
