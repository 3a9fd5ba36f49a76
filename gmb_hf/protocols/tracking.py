"""Learning curves and matrices to the trackers of Accelerate: tensorboard, trackio, wandb.

Every group of seeds is a tracker's run of its own, since its steps begin anew: curves of each seed
over the steps of all phases, and the matrix after every phase. A tracker that is not installed is
named once and never stops a training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import Accelerator
from numpy.typing import NDArray

from gmb_hf.protocols.phases import Phases
from gmb_hf.protocols.sequential_listeners import Silent
from gmb_hf.training.state import group_name
from gmb_hf.validation import choose

TRACKERS = ("tensorboard", "trackio", "wandb")
PROJECT = "gmb-sequential"


def installed(trackers: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of the trackers that this Python has, and a line on each that it has not.

    Raises:
        InputError: a tracker that is not known; the nearest is named.
    """
    present, notes = [], []
    for name in dict.fromkeys(trackers):
        choose("tracker", name, TRACKERS, where="--track")
        if find_spec(name) is None:
            notes.append(f"--track {name}: {name} is not installed; training goes on without it")
        else:
            present.append(name)
    return present, notes


class Tracking(Silent):
    """Tells trackers what this process measures.

    Args:
        trackers: installed ones.
        folder: of the run; local trackers write to `trackers/` in it.
        cpu: as the Accelerator of the training.
    """

    def __init__(self, trackers: Sequence[str], folder: Path, *, cpu: bool) -> None:
        self._trackers, self._folder, self._cpu = list(trackers), folder, cpu
        self._accelerator: Accelerator | None = None

    def began(self, phases: Phases, seed_steps: int) -> None:
        """Open the group's run."""
        name = f"{phases.variant.name}-{group_name(phases.seeds)}"
        self._accelerator = Accelerator(
            cpu=self._cpu, log_with=self._trackers, project_dir=self._folder / "trackers"
        )
        self._accelerator.init_trackers(
            name if self._trackers == ["tensorboard"] else PROJECT,
            config=_flat(
                {"variant": phases.variant.name, **phases.config.design()},
            ),
            init_kwargs={"wandb": {"name": name}, "trackio": {"name": name}},
        )

    def measured(self, phases: Phases, found: dict[str, NDArray[np.float64]]) -> None:
        """Log the curves of every seed."""
        self._log(
            {
                f"{column}/seed_{seed}": float(values[place])
                for column, values in found.items()
                for place, seed in enumerate(phases.seeds)
            },
            phases.model.step,
        )

    def evaluated(self, phases: Phases) -> None:
        """Log the row of the matrix, means over the seeds and every seed's."""
        for name, values in zip(("loss", "accuracy"), phases.matrix[-1], strict=True):
            for column, task in enumerate(phases.config.suite.tasks):
                own = {
                    f"matrix_{name}/{task}/seed_{seed}": float(values[place, column])
                    for place, seed in enumerate(phases.seeds)
                }
                mean = {f"matrix_{name}/{task}/mean": float(values[:, column].mean())}
                self._log({**mean, **own}, phases.model.step)

    def ended(self, phases: Phases) -> None:
        """Close the group's run."""
        if self._accelerator is not None:
            self._accelerator.end_training()
            self._accelerator = None

    def _log(self, values: Mapping[str, float], step: int) -> None:
        if self._accelerator is not None:
            self._accelerator.log(dict(values), step=step)


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, int | float | str | bool]:
    """Nested plain data as one level of `a.b: value`; tensorboard takes numbers and text alone."""
    flat: dict[str, int | float | str | bool] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            plain = isinstance(value, (int, float, str))
            flat[f"{prefix}{key}"] = value if plain else str(value)
    return flat
