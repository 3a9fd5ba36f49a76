"""What records published signals at a checkpoint, beside the usual observables.

A `Recorder` turns a `Checkpoint` into columns [S] of the log. What needs the past, such as a window
of snapshots, is `kept` and part of the training's state, so that a training that was interrupted
ends with the log of one that was not. Costly ones are wrapped in `Seldom`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gmb_hf.base.errors import InputError
from gmb_hf.training.stacked import SeedStack


@dataclass(frozen=True)
class CheckpointState:
    """What a checkpoint shows; a column is a function of it and of what was recorded before.

    Attributes:
        stack: with the gradients of its training loss set; they and the weights are left as
            they are.
        losses: training losses, [S].
        logits: training logits, [S, n, V].
        test_logits, test_hidden: of the held-out rows: logits [S, m, V], and what the output layer
            reads, [S, m, d].
        updates: the change that the last step made to each parameter.
    """

    stack: SeedStack
    losses: Tensor
    logits: Tensor
    test_logits: Tensor
    test_hidden: Tensor
    updates: Mapping[str, Tensor]

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """The weights, without gradient."""
        return {name: weight.detach() for name, weight in self.stack.weights.items()}

    @cached_property
    def train_hidden(self) -> Tensor:
        """What the output layer reads of the training rows, [S, n, d]: one forward pass."""
        hidden: Tensor = self.stack.train.logits(self.stack.weights)[1]
        return hidden


class Recorder:
    """Records columns of the log at every checkpoint. A base class: none."""

    def __init__(self, stack: SeedStack) -> None:
        """Begin with a stack at step 0."""

    @property
    def name(self) -> str:
        """How errors name it."""
        return type(self).__name__

    @cached_property
    def kept(self) -> dict[str, Tensor]:
        """What later checkpoints need of this one, by name: numbers or [S, ...]."""
        return {}

    def keep_newest(self, name: str, values: Tensor, size: int) -> Tensor:
        """Keep values [S, ...] behind those before, at most `size`; all of them, [S, k, ...]."""
        newest = values.detach().unsqueeze(1)
        if name in self.kept:
            newest = torch.cat([self.kept[name], newest], dim=1)[:, -size:]
        self.kept[name] = newest
        return newest

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        """Name of each column -> [S]. It is called without gradients: see `torch.enable_grad`."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """Everything needed to resume, numbers or [S, ...]; called after `measure` only."""
        return dict(self.kept)

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned; tensors come on the stack's device."""
        self.kept.update(tensors)


class Seldom(Recorder):
    """Records at every few checkpoints only, and repeats the last values at those between.

    A repeated value is what was known then. A gap would instead spoil every window it lies in.
    """

    def __init__(self, recorder: Recorder, every: int) -> None:
        self._recorder, self._every = recorder, every

    @property
    def name(self) -> str:
        return self._recorder.name

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        stack = now.stack
        if stack.step // stack.training.checkpoint_every % self._every == 0:
            self.kept.update(self._recorder.measure(now))
        return dict(self.kept)

    def state(self) -> dict[str, Tensor]:
        return under("last", self.kept) | under("own", self._recorder.state())

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self.kept.update(within("last", tensors))
        self._recorder.load_state(within("own", tensors))


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by names that begin with `prefix.`."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def within(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin with `prefix.`, without it: what `under` was given."""
    start = f"{prefix}."
    return {
        name.removeprefix(start): tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }


def measured_by(
    recorders: Sequence[Recorder], now: CheckpointState, usual: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The usual columns and those of all recorders.

    Raises:
        InputError: a recorder gives a column that is there already.
    """
    found = dict(usual)
    for recorder in recorders:
        columns = recorder.measure(now)
        repeated = sorted(found.keys() & columns.keys())
        if repeated:
            owner = "a usual observable" if repeated[0] in usual else "another recorder's column"
            raise InputError(
                f"recorder {recorder.name}: its column {repeated[0]!r} has the name of {owner}; "
                "give it another name"
            )
        found |= columns
    return found
