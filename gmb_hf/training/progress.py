"""What a training tells while it runs: seeds x steps per second, memorised, grokked, time left."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

MEMORISED = 0.99  # training accuracy
GROKKED = 0.9  # held-out accuracy


class Listener(Protocol):
    """Whoever wants to hear of a training's progress."""

    def advanced(self, seed_steps: int, /) -> None:
        """So many seeds x steps were made since the last call."""

    def measured(
        self, seeds: tuple[int, ...], train_acc: NDArray[np.float64], test_acc: NDArray[np.float64]
    ) -> None:
        """Accuracies [S] of a checkpoint."""


class Silent:
    """Hears and says nothing."""

    def advanced(self, seed_steps: int) -> None:
        """Ignore."""

    def measured(
        self, seeds: tuple[int, ...], train_acc: NDArray[np.float64], test_acc: NDArray[np.float64]
    ) -> None:
        """Ignore."""


class _Rate(ProgressColumn):
    """So many units a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("-" if speed is None else f"{speed:,.0f} {self._unit}/s", style="cyan")


class TrainingBar:
    """A progress bar in the terminal, one line at 80 columns; use it as a context manager.

    Args:
        unit: what is counted.
        shown: beside the bar, with fields in braces as `rich` reads them.
        total: units of the whole work.
        done: units that an earlier start of the command has finished.
        console: where to draw; standard error when not given.
        fields: what the fields in `shown` begin with.
    """

    def __init__(
        self,
        unit: str,
        shown: str,
        total: int,
        done: int = 0,
        console: Console | None = None,
        **fields: Any,
    ) -> None:
        self._progress = Progress(
            TextColumn("[bold]training"),
            BarColumn(bar_width=12),
            TextColumn("{task.percentage:>3.0f}%"),
            _Rate(unit),
            TextColumn(shown),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._progress.add_task("training", total=total, completed=done, **fields)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._progress.stop()

    def advanced(self, units: int) -> None:
        """Move the bar."""
        self._progress.advance(self._task, units)

    def _show(self, **fields: Any) -> None:
        self._progress.update(self._task, **fields)


class Bar(TrainingBar):
    """Of seeds x steps, with how many seeds have memorised and grokked at least once.

    Args:
        total, done, console: as in `TrainingBar`.
    """

    def __init__(self, total: int, done: int = 0, console: Console | None = None) -> None:
        shown = "memorised {task.fields[memorised]} grokked {task.fields[grokked]}"
        super().__init__("seed steps", shown, total, done, console, memorised=0, grokked=0)
        self._memorised: set[int] = set()
        self._grokked: set[int] = set()

    def measured(
        self, seeds: tuple[int, ...], train_acc: NDArray[np.float64], test_acc: NDArray[np.float64]
    ) -> None:
        """Count the seeds that have memorised and grokked at least once."""
        numbers = np.asarray(seeds)
        self._memorised.update(numbers[train_acc >= MEMORISED].tolist())
        self._grokked.update(numbers[test_acc >= GROKKED].tolist())
        self._show(memorised=len(self._memorised), grokked=len(self._grokked))
