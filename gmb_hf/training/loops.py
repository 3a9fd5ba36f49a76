"""The blocks of many models: one after the other, or the fast one in cycles of the slow one.

What `gmb_hf.modeling` does to one model, as short as it can be: the slow block of the last
cycle is asked for the answers alone, and so is the halting unit of every cycle. Whose rows the
states are is the caller's: those of equations (`trunk`) or of a tree (`rows`).

Shapes: S models, m rows, n asked rows, d width, N cycles, T inner steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from gmb_hf.modeling import GrokkingTransformerConfig
from gmb_hf.modeling.loops import halting_shares
from gmb_hf.training.fused import Weights, normalise

HALTING = "model.halting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loops:
    """How often the blocks of a model are applied.

    Attributes:
        cycles: N, applications of the slow block, which is the last layer.
        inner_steps: T, applications of the fast block, all layers before it, in each cycle.
        halting: whether the answer is read from a mean of the slow states of all cycles.
    """

    cycles: int
    inner_steps: int
    halting: bool = False

    @classmethod
    def of(cls, shape: GrokkingTransformerConfig) -> Loops | None:
        """Those of a model of this shape; None where each layer is applied once."""
        if shape.cycles is None:
            return None
        assert shape.inner_steps is not None
        return cls(cycles=shape.cycles, inner_steps=shape.inner_steps, halting=shape.halting)


@dataclass
class Trace:
    """The states of a forward at the asked rows, [S, n, d] each.

    Attributes:
        fast: z_L after every inner step, N T of them.
        slow: z_H after every cycle, N of them.
    """

    fast: list[Tensor] = field(default_factory=list)
    slow: list[Tensor] = field(default_factory=list)


class Rows(Protocol):
    """The rows whose states are looped."""

    def block(self, layer: int, application: int, states: Tensor, *, asked_alone: bool) -> Tensor:
        """The states after a layer, of all rows or of the asked ones.

        `application` counts how often the block of the layer has been applied, from 0; the states
        of the very first one are those that `final_states` was given.
        """

    def embedded(self) -> Tensor:
        """The embedding of all rows, [S, m, d]."""

    def asked(self, states: Tensor) -> Tensor:
        """The asked ones of all rows, [S, m, d] -> [S, n, d]."""


def final_states(
    weights: Weights,
    loops: Loops | None,
    layers: int,
    first: Tensor,
    rows: Rows,
    trace: Trace | None = None,
) -> Tensor:
    """The state that the answer is read from, before the final norm: [S, n, d].

    Args:
        weights: the model's state dict with a leading axis of models on every tensor.
        loops: how often each block is applied; None for once each.
        layers: their number, at least 2 with loops.
        first: the embedding, in the form in which the first layer takes it.
        rows: what applies a layer to them.
        trace: is given the states of all steps of a model with loops.
    """
    if loops is None:
        for layer in range(layers):
            first = rows.block(layer, 0, first, asked_alone=layer == layers - 1)
        return first
    slow_layer = layers - 1
    embedded, states, ends = rows.embedded(), first, list[Tensor]()
    slow: Tensor | float = 0.0
    for cycle in range(loops.cycles):
        last = cycle == loops.cycles - 1
        for step in range(loops.inner_steps):
            application = cycle * loops.inner_steps + step
            for layer in range(slow_layer):
                states = rows.block(layer, application, states, asked_alone=False)
            fast = normalise(states)
            if trace is not None:
                trace.fast.append(rows.asked(fast))
            if step < loops.inner_steps - 1:
                states = embedded + fast + slow
        slow = normalise(rows.block(slow_layer, cycle, fast + slow, asked_alone=last))
        ends.append(slow if last else rows.asked(slow))
        if not last:
            states = embedded + fast + slow
    if trace is not None:
        trace.slow.extend(ends)
    return halted(weights, ends) if loops.halting else ends[-1]


def halting_logits(weights: Weights, ends: Sequence[Tensor]) -> list[Tensor]:
    """The logit of halting at the end of every cycle but the last, N - 1 of [S, n].

    Args:
        weights: as in `final_states`.
        ends: z_H after every cycle, N of [S, n, d].
    """
    weight, bias = weights[f"{HALTING}.weight"], weights[f"{HALTING}.bias"]
    return [(end @ weight.unsqueeze(-1)).squeeze(-1) + bias.unsqueeze(-1) for end in ends[:-1]]


def halted(weights: Weights, ends: Sequence[Tensor]) -> Tensor:
    """The mean of the states over cycles, by the probability of halting there: [S, n, d]."""
    shares = halting_shares(halting_logits(weights, ends))
    terms = [share.unsqueeze(-1) * end for share, end in zip(shares, ends, strict=True)]
    return torch.stack(terms).sum(0)
