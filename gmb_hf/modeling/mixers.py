"""Mixers: layers that add to the state of a token an average over the states just before it.

Each is a gate beside its input: `y = (1 - a) x + a A x`, where a = sigmoid(alpha) starts at .12 and
row i of A [T, T] weighs the last `window` states up to i. What a mixer is, its `average` says.

A mixer's own parameters are few numbers that decay would draw to where nothing is learned: trainers
give them ten times the learning rate and no weight decay (`own_parameter_names`).

This file travels with saved models: it imports torch and its neighbours alone.

Shapes in comments: B sequences, T tokens, C width, V vocabulary, W the window; further dimensions
of a mixer's states come before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from .configuration_grokking import GrokkingTransformerConfig


class Mixer(nn.Module, ABC):
    """What all mixers share: the gate, the window, and what counts as within it.

    The config turns a mixer on by the field `{name}_window`; its parameters stand in the state
    dict under `name`, in each layer or, for one that mixes the embedding, in the model.

    Args:
        window: how many states are averaged, the token's own included.
    """

    name: ClassVar[str]
    """Of the config field and of the submodule."""
    after_every_block: ClassVar[bool] = True
    """Mix the output of each block; otherwise the embedding, once, before the first."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window
        for name, value in self.start().items():
            setattr(self, name, nn.Parameter(value))

    def start(self) -> dict[str, Tensor]:
        """What the own parameters begin with, by name."""
        return {"alpha": torch.tensor(-2.0)}

    @abstractmethod
    def average(self, hidden: Tensor, weights: Mapping[str, Tensor], within: Tensor) -> Tensor:
        """The matrix A, [..., T, T]: row i weighs the states that i averages.

        `hidden` and `weights` are as in `mix`; `within`, bool [..., T, T], is true where i may read
        j, and always where j is i.
        """

    def mix(
        self, hidden: Tensor, weights: Mapping[str, Tensor], present: Tensor | None = None
    ) -> Tensor:
        """The mixed states, [..., T, C].

        A function of its arguments and the window alone: it reads no parameter of the module, so
        that `torch.vmap(mixer.mix)` mixes the states of many models, each by its own weights.

        Args:
            hidden: the states, [..., T, C].
            weights: the own parameters, as `start` names them.
            present: bool [..., T], false for padding, which no token reads; all when absent.
        """
        gate = weights["alpha"].sigmoid()
        distance = distances(hidden)
        within = (distance >= 0) & (distance < self.window)
        if present is not None:
            within = (within & present[..., None, :]) | (distance == 0)
        averaged = self.average(hidden, weights, within) @ hidden
        mixed: Tensor = hidden + gate * (averaged - hidden)
        return mixed

    def forward(self, hidden_states: Tensor, present: Tensor | None = None) -> Tensor:
        return self.mix(hidden_states, dict(self.named_parameters()), present)


def distances(hidden: Tensor) -> Tensor:
    """How many tokens before the reading one, i, the read one, j, stands: i - j, int64 [T, T]."""
    here = torch.arange(hidden.shape[-2], device=hidden.device)
    return here[:, None] - here


class Sort(Mixer):
    """Each state moves towards those of its window that resemble it.

    A is the softmax over the window of x_i.x_j exp(-tau) / sqrt(C): attention without heads or
    projections, at a temperature that is learned.
    """

    name = "sort"

    def start(self) -> dict[str, Tensor]:
        return {**super().start(), "tau": torch.tensor(0.0)}

    def average(self, hidden: Tensor, weights: Mapping[str, Tensor], within: Tensor) -> Tensor:
        scale = (-weights["tau"]).exp() / hidden.shape[-1] ** 0.5
        scores: Tensor = hidden @ hidden.transpose(-1, -2) * scale  # [..., T, T]
        return scores.masked_fill(~within, -torch.inf).softmax(dim=-1)


class Blend(Mixer):
    """Each embedding takes up those just before it, by weights that are learned per distance.

    A_ij = softmax(offsets)_(i - j), over all offsets: at the start of a row, where some have no
    state, the sum is cut short and not divided again.
    """

    name = "blend"
    after_every_block = False

    def start(self) -> dict[str, Tensor]:
        return {**super().start(), "offsets": torch.zeros(self.window)}

    def average(self, hidden: Tensor, weights: Mapping[str, Tensor], within: Tensor) -> Tensor:
        offset = distances(hidden).clamp(0, self.window - 1)
        shares = weights["offsets"].softmax(dim=-1)[offset]  # [W] -> [T, T]
        return shares.masked_fill(~within, 0.0)


MIXERS: tuple[type[Mixer], ...] = (Sort, Blend)
"""Every mixer there is, in the order in which those of one place act."""


def mixers_of(config: GrokkingTransformerConfig, *, after_every_block: bool) -> dict[str, Mixer]:
    """New mixers that the config asks for at this place, by name; most often none."""
    windows = config.mixer_windows
    return {
        kind.name: kind(windows[kind.name])
        for kind in MIXERS
        if kind.after_every_block == after_every_block and kind.name in windows
    }


def own_parameter_names(model: nn.Module) -> list[str]:
    """The names of the mixers' own parameters in a model, as `named_parameters` gives them.

    They are trained at ten times the learning rate and without weight decay.
    """
    return [
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        if isinstance(module, Mixer)
        for name, _ in module.named_parameters()
    ]


def neighbour_sums(
    embedding: Tensor, input_ids: Tensor, window: int, present: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Of every token of the vocabulary: how far its neighbours pull it, and how often it occurs.

    The pull of an occurrence is the sum over its neighbours at distance d <= window, on both
    sides, of (E[neighbour] - E[token]) / d. With the identity as embedding, the sums are the
    matrix M of `sums = M @ E`; its rows add up to zero.

    Args:
        embedding: E, [V, C].
        input_ids: int64 [B, T], whole rows.
        window: the longest distance.
        present: bool [B, T], false for padding, which neither pulls nor is pulled; all when absent.

    Returns:
        The sums over all occurrences, [V, C], and the occurrences, [V] of the embedding's dtype.
    """
    if present is None:
        present = torch.ones_like(input_ids, dtype=torch.bool)
    counts = embedding.new_zeros(len(embedding))
    counts.index_add_(0, input_ids.flatten(), present.flatten().to(embedding.dtype))
    sums = torch.zeros_like(embedding)
    for distance in range(1, min(window, input_ids.shape[1] - 1) + 1):
        left, right = input_ids[:, :-distance].flatten(), input_ids[:, distance:].flatten()
        together = (present[:, :-distance] & present[:, distance:]).flatten()  # [B (T - distance)]
        share = together.to(embedding.dtype)[:, None] / distance
        gap = (embedding[right] - embedding[left]) * share  # [B (T - distance), C]
        sums.index_add_(0, left, gap)
        sums.index_add_(0, right, gap, alpha=-1)
    return sums, counts


@torch.no_grad()
def hebbian_pull(
    embedding: Tensor, input_ids: Tensor, window: int, rate: float, present: Tensor | None = None
) -> None:
    """Move each token's embedding, in place, by `rate` times the mean pull over its occurrences.

    All tokens move at once, from where they stood before. Processes that train one model together
    add up their sums and occurrences first, so that all move alike.

    Args:
        embedding: E, [V, C], changed in place.
        input_ids, window, present: as in `neighbour_sums`.
        rate: the learning rate of the pull, eps.
    """
    sums, counts = neighbour_sums(embedding, input_ids, window, present)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(sums)
        torch.distributed.all_reduce(counts)
    embedding.add_(sums / counts.clamp(min=1)[:, None], alpha=rate)
