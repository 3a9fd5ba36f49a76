"""Bundles out of grokking models: train seeds, and ask each of them the same at every checkpoint.

    OUT/config.yaml, logs/, state/   as `gmb train` leaves them, with Crucible's columns in the logs
    OUT/parts/, tiers/               of each run that is finished (`crucible_parts`)
    OUT/bundles.jsonl, scores.parquet, scoreboard.json
                                     of all of them, at the last checkpoint (`crucible_asked`)
    OUT/margins.png, .svg            margins, pass rates and events over training

The same command goes on where an earlier one stopped, and with more seeds it adds them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.runs import RunLog
from gmb_hf.validation import InputError
from gmb_hf.workflows.crucible_asked import Asked, write_asked
from gmb_hf.workflows.crucible_parts import Part, read_part, tiers_path

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig
    from gmb_hf.workflows.crucible_drawing import Drawing


@dataclass(frozen=True)
class FromRuns:
    """What a command left.

    Attributes:
        log: of all runs in the folder.
        events: t* of each of them, NaN where there is none, float64 [R].
        asked: the held-out bundles at the last checkpoint.
        paths: the files written.
        notes: what a reader must know.
    """

    log: RunLog
    events: NDArray[np.float64]
    asked: Asked
    paths: tuple[Path, ...]
    notes: tuple[str, ...]


def from_runs(
    config: RunConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    drawing: Drawing,
    device: str = "auto",
) -> FromRuns:
    """Train the seeds that the folder does not hold yet, and track the margins of their bundles.

    Args:
        config: what to train; its checkpoints are those that are measured.
        seeds: of the runs.
        out: a folder.
        drawing: how many bundles, of how many negatives, drawn by which seed.
        device: "auto", "cpu" or "cuda".

    Raises:
        InputError: no seeds, bundles that the task has not enough equations for, or a folder that
            belongs to another config or cannot be written to.
    """
    from gmb_hf.reporting.figures import margin_curves, save_figure
    from gmb_hf.training.companion import Beside
    from gmb_hf.training.stacked import finished_seeds
    from gmb_hf.workflows.crucible_tracking import Tracker
    from gmb_hf.workflows.training import train_seeds

    folder = Path(out)
    if not seeds:
        raise InputError("no seeds to train; give at least one, e.g. --seeds 0:4")
    _refuse_undrawable(config, seeds, drawing)
    beside = Beside(
        lambda ensemble: Tracker(ensemble, drawing, folder),
        {"crucible": dataclasses.asdict(drawing)},
    )
    logs = train_seeds(config, seeds, folder, device=device, beside=beside)
    parts = [read_part(folder, seed) for seed in sorted(finished_seeds(folder))]
    asked = write_asked(
        folder,
        [line for part in parts for line in part.lines],
        drawing.seed,
        f"{config.preset}, step {config.training.steps}",
        labels=[label for part in parts for label in part.labels],
    )
    log = RunLog.read(folder / "logs")
    events, notes = _events(config, log)
    drawn = save_figure(margin_curves(_curves(log, events)), folder / "margins")
    cutoffs = [tiers_path(folder, part.seed) for part in parts]
    paths = (*drawn, *asked.paths, *logs, *cutoffs)
    return FromRuns(log, events, asked, paths, (*_notes(log, parts), *notes))


def _refuse_undrawable(config: RunConfig, seeds: Sequence[int], drawing: Drawing) -> None:
    """Say before the first group is trained that some later seed has too few equations."""
    from gmb_hf.training.ensemble import task_data

    for seed in seeds:
        data, number = task_data(config.task, seed), config.task.data_seed_of(seed)
        drawing.held_out(data, number)
        drawing.training(data, number)


def _notes(log: RunLog, parts: Sequence[Part]) -> list[str]:
    from gmb_hf.training.progress import MEMORISED
    from gmb_hf.training.seeds import format_seeds

    accuracy = log.panel("train_acc").values.max(axis=1)
    late = sorted(
        seed
        for seed, best in zip(log.seeds, accuracy.tolist(), strict=True)
        if seed is not None and not best >= MEMORISED
    )
    empty = [part.seed for part in parts if 0 in part.tiers.counts.values()]
    notes = []
    if late:
        notes.append(
            f"seeds {format_seeds(late)} never memorised their rows; their tiers are those of "
            "their last checkpoint and show no progress"
        )
    if empty:
        notes.append(
            f"seeds {format_seeds(empty)} have a tier without items (few bundles, or dangers tie)"
        )
    return notes


def _events(config: RunConfig, log: RunLog) -> tuple[NDArray[np.float64], list[str]]:
    """t* as the preset's design defines it; where the design does not fit the log, none."""
    from gmb_hf.benchmark.events import find_events
    from gmb_hf.workflows.design import prereg_from_config

    try:
        found = find_events(log.panel, prereg_from_config(config, log), names=log.observables)
    except InputError as error:
        return np.full(len(log.runs), np.nan), [f"no events: {error}"]
    return found.step, []


def _curves(log: RunLog, events: NDArray[np.float64]) -> Any:
    from gmb_hf.reporting.figures import MarginCurves
    from gmb_hf.workflows.crucible_tracking import TIER3_RATE

    def values(name: str) -> NDArray[np.float64]:
        return log.panel(name).values

    steps = log.panel("train_acc").steps
    # Not as a panel, which refuses a run that has no value: it never memorised.
    tier3 = log.table[TIER3_RATE].to_numpy().reshape(steps.shape)
    return MarginCurves(
        steps=steps,
        q10=values("crucible_margin_q10"),
        median=values("crucible_margin_median"),
        q90=values("crucible_margin_q90"),
        pass_rate=values("crucible_pass_rate"),
        event_step=events,
        tier3_pass_rate=tier3,
        held_out=values("test_acc"),
    )
