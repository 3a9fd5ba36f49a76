"""Trackers: the curves of trainings in TensorBoard, trackio or Weights & Biases, as they go.

| what is trained   | project        | group             | run                        |
|-------------------|----------------|-------------------|----------------------------|
| seeds of a task   | gmb-train      | the folder's name | `seed_3`                   |
| tasks in sequence | gmb-sequential | `dense-seed_3`    | `dense-phase-1-add-seed_3` |
| text              | gmb-language   | the folder's name | `seed_3`                   |
| a watched Trainer | gmb-monitor    | the folder's name | `monitor`                  |

TensorBoard's events are written to OUT/trackers/GROUP/RUN; the others keep their own places. A
training is never stopped by a tracker: one that fails is given up, with a line that says so. A
new tracker is one entry of `TRACKERS`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from gmb_hf.base import extras
from gmb_hf.base.errors import choose
from gmb_hf.training.launch import Listener

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrackedRun:
    """A run of a tracker: by its name, its group and its project, with what made it.

    `folder` is where local files go, the same for all runs of a training.
    """

    project: str
    group: str
    name: str
    folder: Path
    config: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """The same for the same run of the same folder, so that a resumed training goes on."""
        said = json.dumps([self.project, str(self.folder.resolve()), self.group, self.name])
        return hashlib.sha256(said.encode()).hexdigest()[:16]


class Writer(Protocol):
    """An open run, as trackio and Weights & Biases have it."""

    def log(self, numbers: dict[str, float], /, *, step: int) -> None:
        """Add the numbers of a step."""

    def finish(self) -> None:
        """Close it."""


class _TensorBoard:
    def __init__(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._events: Any = SummaryWriter(str(run.folder / run.group / run.name))
        text = json.dumps(run.config, indent=2, default=str)
        self._events.add_text("config", f"```json\n{text}\n```")

    def log(self, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._events.add_scalar(name, value, step)

    def finish(self) -> None:
        self._events.close()


def _trackio(run: TrackedRun) -> Writer:
    import trackio

    # It knows a run by its name alone, and other folders have seeds of the same numbers.
    name = f"{run.name}-{run.identity[:6]}"
    said: Any = {"name": name, "group": run.group, "config": dict(run.config)}
    opened: Writer = trackio.init(project=run.project, resume="allow", embed=False, **said)
    return opened


def _wandb(run: TrackedRun) -> Writer:
    import wandb

    run.folder.mkdir(parents=True, exist_ok=True)
    said: Any = {"name": run.name, "group": run.group, "config": dict(run.config)}
    # Several seeds are trained at once, so several runs are open.
    many: Any = {"id": run.identity, "resume": "allow", "reinit": "create_new"}
    opened: Writer = wandb.init(project=run.project, dir=str(run.folder), **said, **many)
    return opened


TRACKERS: dict[str, Callable[[TrackedRun], Writer]] = {
    "tensorboard": _TensorBoard,
    "trackio": _trackio,
    "wandb": _wandb,
}
"""Name -> what opens a run; the package of a tracker has the same name, and so has its extra."""


def installed(trackers: Iterable[str]) -> tuple[list[str], list[str]]:
    """The trackers that are installed, and a note on each of the others known.

    `InputError` for one that is not known; the nearest is named.
    """
    known = tuple(TRACKERS)
    names = [choose("tracker", name, known, where="--track") for name in dict.fromkeys(trackers)]
    present = [name for name in names if extras.present(name)]
    missing = [name for name in names if name not in present]
    return present, [
        f"--track {name}: {name} is not installed; training goes on without it "
        f"({extras.command(name)})"
        for name in missing
    ]


class Tracking:
    """The runs of one training, opened when they are first heard of; use it as a context manager.

    Args:
        trackers: names of installed ones; none of them, and nothing is written.
        out: the folder of the training.
        project: as in the table above.
        config: what is trained, plain data.
    """

    def __init__(
        self, trackers: Sequence[str], out: str | Path, *, project: str, config: Mapping[str, Any]
    ) -> None:
        self._names = list(trackers)
        self.folder = Path(out)
        self._project, self._config = project, flat(config)
        self._open: dict[tuple[str, str, str], Writer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def group(self) -> str:
        """The name of the training's folder."""
        return self.folder.resolve().name

    def log(self, group: str, run: str, step: int, numbers: Mapping[str, float]) -> None:
        """Add numbers of a run at a step; those that are not finite are left out."""
        finite = {name: float(value) for name, value in numbers.items() if math.isfinite(value)}
        place = self.folder / "trackers"
        tracked = TrackedRun(self._project, group, run, place, self._config)
        for name in list(self._names):

            def write(name: str = name) -> None:
                key = (name, group, run)
                if key not in self._open:
                    self._open[key] = TRACKERS[name](tracked)
                self._open[key].log(finite, step=step)

            self._attempt(name, write)

    def log_each(
        self, runs: Sequence[tuple[str, str]], step: int, found: Mapping[str, Any]
    ) -> None:
        """Add numbers of several runs, by group and name; `found` has one of each, [S]."""
        for place, (group, run) in enumerate(runs):
            row = {name: _at(values, len(runs), place) for name, values in found.items()}
            self.log(group, run, step, row)

    def close(self, group: str | None = None, run: str | None = None) -> None:
        """Close a run, or all of them."""
        for key in list(self._open):
            if group is None or key[1:] == (group, run):
                self._attempt(key[0], self._open.pop(key).finish)

    def _attempt(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # of a tracker, its files or its server: many kinds
            if name in self._names:
                self._names.remove(name)
                reason = " ".join(str(error).split()) or type(error).__name__
                logger.warning("--track %s: %s; training goes on without it", name, reason)


class SeedTracking(Listener):
    """Tells a tracking the checkpoints of every seed, a run each, and another listener all.

    What it hears of is `measured`, with `step` among what was found.
    """

    def __init__(self, tracking: Tracking, listener: Listener) -> None:
        self._tracking, self._listener = tracking, listener

    def advanced(self, units: int) -> None:
        """Pass it on."""
        self._listener.advanced(units)

    def measured(self, seeds: Sequence[int], found: Mapping[str, Any]) -> None:
        """Log the row of every seed."""
        self._listener.measured(seeds, found)
        numbers = {name: values for name, values in found.items() if name != "step"}
        runs = [(self._tracking.group, f"seed_{seed}") for seed in seeds]
        self._tracking.log_each(runs, int(_at(found["step"], len(seeds), 0)), numbers)


def _at(values: Any, count: int, place: int) -> float:
    """The number of one of so many seeds; a training may give a plain one, which is of all."""
    return float(np.broadcast_to(values, count)[place])


def flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, int | float | str | bool]:
    """Nested plain data as one level of `a.b: value`; trackers show numbers and text alone.

    >>> flat({"model": {"width": 32}, "seeds": [1, 2]})
    {'model.width': 32, 'seeds': '[1, 2]'}
    """
    found: dict[str, int | float | str | bool] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value if isinstance(value, (int, float, str)) else str(value)
    return found
