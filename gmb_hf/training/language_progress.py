"""What the training of a language model tells while it runs: tokens per second, both losses."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class LossListener(Protocol):
    """Whoever wants to hear of a training's progress."""

    def advanced(self, tokens: int) -> None:
        """So many tokens were trained on since the last call."""

    def measured(self, seed: int, step: int, train_loss: float, test_loss: float) -> None:
        """Losses of a checkpoint, nats per token."""


class Silent:
    """Hears and says nothing."""

    def advanced(self, tokens: int) -> None:
        """Ignore."""

    def measured(self, seed: int, step: int, train_loss: float, test_loss: float) -> None:
        """Ignore."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("-" if speed is None else f"{speed:,.0f} tokens/s", style="cyan")


class LossBar:
    """A progress bar in the terminal; use it as a context manager.

    Args:
        total: tokens of the whole work.
        done: tokens that an earlier start of the command has finished.
        console: where to draw; standard error when not given.
    """

    def __init__(self, total: int, done: int = 0, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("[bold]training"),
            BarColumn(bar_width=12),
            TextColumn("{task.percentage:>3.0f}%"),
            _Rate(),
            TextColumn("{task.fields[losses]}", markup=False),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._progress.add_task("training", total=total, completed=done, losses="")

    def __enter__(self) -> LossBar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def advanced(self, tokens: int) -> None:
        """Move the bar."""
        self._progress.advance(self._task, tokens)

    def measured(self, seed: int, step: int, train_loss: float, test_loss: float) -> None:
        """Show the losses."""
        losses = f"train {train_loss:.3f} test {test_loss:.3f}"
        self._progress.update(self._task, losses=losses)
