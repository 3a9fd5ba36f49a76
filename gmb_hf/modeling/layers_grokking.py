"""The parts of the grokking transformer: attention, MLP, block.

This file travels with saved models: it imports torch, transformers and its neighbours alone.

Shapes in comments: B sequences, T tokens in this call, K keys (T and those cached), C width,
H heads.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers.cache_utils import Cache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .banded import BandedLinear
from .configuration_grokking import GrokkingTransformerConfig
from .mixers import mixers_of

LAYER_NORM_EPS = 1e-5


def eager_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Attention written out: the output [B, T, H, C / H] and the weights [B, H, T, K]."""
    scores = query @ key.transpose(2, 3) * scaling  # [B, H, T, K]
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = scores.softmax(dim=-1)
    output = (weights @ value).transpose(1, 2).contiguous()  # [B, H, T, C / H] -> [B, T, H, C / H]
    return output, weights


class ResidualProjection(nn.Linear):
    """The linear layer by which attention or MLP joins the residual stream; it begins smaller."""


class BandedResidualProjection(BandedLinear, ResidualProjection):
    """A residual projection of banded weights."""


class GrokkingTransformerAttention(nn.Module):
    """Causal self-attention; query, key and value come from one linear layer, in this order."""

    def __init__(self, config: GrokkingTransformerConfig, layer_idx: int) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = config.head_dim**-0.5
        self.is_causal = True
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.out = ResidualProjection(config.hidden_size, config.hidden_size)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        batch, length, width = hidden_states.shape
        # [B, T, 3C] -> three of [B, T, C] -> three of [B, H, T, C / H]
        query, key, value = (
            part.view(batch, length, -1, self.head_dim).transpose(1, 2)
            for part in self.qkv(hidden_states).split(width, dim=-1)
        )
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        mixed, weights = attend(
            self, query, key, value, attention_mask, dropout=0.0, scaling=self.scaling, **kwargs
        )
        mixed = mixed.reshape(batch, length, width)  # [B, T, H, C / H] -> [B, T, C]
        return self.out(mixed), weights


class GrokkingTransformerMLP(nn.Module):
    """Up to the hidden units, the activation, and down again; each layer may be banded."""

    def __init__(self, config: GrokkingTransformerConfig) -> None:
        super().__init__()
        width, hidden_units = config.hidden_size, config.intermediate_size
        self.up = (
            nn.Linear(width, hidden_units)
            if config.band_fc1 is None
            else BandedLinear(width, hidden_units, config.band_fc1)
        )
        # torch's tanh GELU is GPT-2's formula in one kernel.
        self.act = nn.ReLU() if config.hidden_act == "relu" else nn.GELU(approximate="tanh")
        self.down = (
            ResidualProjection(hidden_units, width)
            if config.band_fc2 is None
            else BandedResidualProjection(hidden_units, width, config.band_fc2)
        )

    def forward(self, hidden_states: Tensor) -> Tensor:
        output: Tensor = self.down(self.act(self.up(hidden_states)))
        return output


class GrokkingTransformerLayer(GradientCheckpointingLayer):  # type: ignore[misc]
    """One block, and the mixers that follow it, each a submodule under its own name."""

    def __init__(self, config: GrokkingTransformerConfig, layer_idx: int) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.hidden_size, eps=LAYER_NORM_EPS)
        self.attention = GrokkingTransformerAttention(config, layer_idx)
        self.norm_2 = nn.LayerNorm(config.hidden_size, eps=LAYER_NORM_EPS)
        self.mlp = GrokkingTransformerMLP(config)
        self.mixers = add_mixers(self, config, after_every_block=True)

    def forward(
        self, hidden_states: Tensor, present: Tensor | None = None, **kwargs: Any
    ) -> Tensor:
        attended, _ = self.attention(self.norm_1(hidden_states), **kwargs)
        hidden_states = hidden_states + attended
        hidden_states = hidden_states + self.mlp(self.norm_2(hidden_states))
        for name in self.mixers:
            hidden_states = self.get_submodule(name)(hidden_states, present)
        return hidden_states


def add_mixers(
    module: nn.Module, config: GrokkingTransformerConfig, *, after_every_block: bool
) -> tuple[str, ...]:
    """Give a module the mixers that the config asks for at its place; their names, in order."""
    mixers = mixers_of(config, after_every_block=after_every_block)
    for name, mixer in mixers.items():
        module.add_module(name, mixer)
    return tuple(mixers)
