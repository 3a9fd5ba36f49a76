"""What the training of a language model tells while it runs: tokens per second, both losses."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console

from gmb_hf.training.progress import TrainingBar


class LossListener(Protocol):
    """Whoever wants to hear of a training's progress."""

    def advanced(self, tokens: int, /) -> None:
        """So many tokens were trained on since the last call."""

    def measured(self, seed: int, step: int, train_loss: float, test_loss: float) -> None:
        """Losses of a checkpoint, nats per token."""


class Silent:
    """Hears and says nothing."""

    def advanced(self, tokens: int) -> None:
        """Ignore."""

    def measured(self, seed: int, step: int, train_loss: float, test_loss: float) -> None:
        """Ignore."""


class LossBar(TrainingBar):
    """Of tokens, with both losses of the last checkpoint.

    Args:
        total, done, console: as in `TrainingBar`.
    """

    def __init__(self, total: int, done: int = 0, console: Console | None = None) -> None:
        super().__init__("tokens", "{task.fields[losses]}", total, done, console, losses="")

    def measured(self, seed: int, step: int, train_loss: float, test_loss: float) -> None:
        """Show the losses."""
        self._show(losses=f"train {train_loss:.3f} test {test_loss:.3f}")
