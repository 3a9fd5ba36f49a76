"""Who hears of a sequential training: the progress bar, trackers, or several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from gmb_hf.protocols.phases import Phases
from gmb_hf.training.progress import TrainingBar


class Listener(Protocol):
    """Whoever wants to hear of a sequential training's progress."""

    def began(self, phases: Phases, seed_steps: int) -> None:
        """A group of seeds begins, or goes on after so many seeds x steps."""

    def advanced(self, seed_steps: int) -> None:
        """So many seeds x steps were made, or need not be made, since the last call."""

    def measured(self, phases: Phases, found: dict[str, NDArray[np.float64]]) -> None:
        """A checkpoint's losses and accuracies, each [S], of the task that is trained."""

    def evaluated(self, phases: Phases) -> None:
        """Every task was evaluated; the last entry of `phases.matrix` has the numbers."""

    def ended(self, phases: Phases) -> None:
        """The group has come to the end of its last phase."""


class Silent:
    """Hears and says nothing; a base for those that hear some of it."""

    def began(self, phases: Phases, seed_steps: int) -> None:
        """Ignore."""

    def advanced(self, seed_steps: int) -> None:
        """Ignore."""

    def measured(self, phases: Phases, found: dict[str, NDArray[np.float64]]) -> None:
        """Ignore."""

    def evaluated(self, phases: Phases) -> None:
        """Ignore."""

    def ended(self, phases: Phases) -> None:
        """Ignore."""


class Together:
    """Tells several listeners, in their order."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = tuple(listeners)

    def began(self, phases: Phases, seed_steps: int) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.began(phases, seed_steps)

    def advanced(self, seed_steps: int) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.advanced(seed_steps)

    def measured(self, phases: Phases, found: dict[str, NDArray[np.float64]]) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.measured(phases, found)

    def evaluated(self, phases: Phases) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.evaluated(phases)

    def ended(self, phases: Phases) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.ended(phases)


class Places(Silent):
    """Says where a training is, the variant and the task; a base for those that show it."""

    def at(self, place: str) -> None:
        """Show this line."""

    def began(self, phases: Phases, seed_steps: int) -> None:
        """Count what an earlier start has done, and name the variant."""
        self.advanced(seed_steps)
        self._name(phases)

    def measured(self, phases: Phases, found: dict[str, NDArray[np.float64]]) -> None:
        """Show the mean held-out loss of the task that is trained."""
        self._name(phases, f" {np.mean(found['test_loss']):.2f}")

    def evaluated(self, phases: Phases) -> None:
        """Name the task that comes next."""
        self._name(phases)

    def _name(self, phases: Phases, more: str = "") -> None:
        tasks = phases.config.suite.tasks
        if phases.phase < len(tasks):
            place = f"{phases.phase + 1}/{len(tasks)} {phases.task}"
            self.at(f"{phases.variant.name} {place}{more}"[:32])


class PhaseBar(TrainingBar, Places):
    """Of seeds x steps over all variants, with the variant and the task that are under way.

    Args:
        total, done, console: as in `TrainingBar`.
    """

    def __init__(self, total: int, done: int = 0, console: Console | None = None) -> None:
        super().__init__("seed steps", "{task.fields[at]}", total, done, console, at="beginning")

    def at(self, place: str) -> None:
        """Show this line beside the bar."""
        self._show(at=place)
