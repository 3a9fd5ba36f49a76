"""What the decoder makes of its inputs, and the inputs that it refuses.

This file travels with saved models: it imports torch, transformers and its neighbours alone.

Shapes in comments: B sequences, T tokens in this call, K tokens with those cached, C width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from .configuration_grokking import GrokkingTransformerConfig


def token_positions(
    config: GrokkingTransformerConfig,
    inputs_embeds: Tensor,
    attention_mask: Tensor | None,
    position_ids: Tensor | None,
    past_key_values: Cache | None,
) -> Tensor:
    """The position of every token, int64 [B, T] or [1, T], checked against the limit.

    Args:
        config: says the longest input.
        inputs_embeds: [B, T, C].
        attention_mask: [B, K], 0 for padding, which takes up no position.
        position_ids: taken as they are where they are given.
        past_key_values: keys and values of the tokens before these.

    Raises:
        ValueError: the input is longer than `max_position_embeddings`.
    """
    length = inputs_embeds.shape[1]
    limit = config.max_position_embeddings
    if position_ids is None and attention_mask is not None and attention_mask.ndim == 2:
        position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]
    if position_ids is not None:
        # Reading a value would break a compiled graph in two.
        longest = 0 if torch.compiler.is_compiling() else int(position_ids.max()) + 1
    else:
        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        position_ids = torch.arange(length, device=inputs_embeds.device)[None] + past  # [1, T]
        longest = past + length
    if longest > limit:
        raise ValueError(
            f"the input has {longest} tokens, the model takes {limit} "
            "(max_position_embeddings); shorten the input or train a longer model"
        )
    return position_ids


def present_tokens(attention_mask: Tensor | None, length: int, reader: str) -> Tensor | None:
    """Which tokens are no padding, bool [B, T]; None: all are.

    Args:
        attention_mask: [B, K], 0 for padding.
        length: T.
        reader: what in the model must know, for the message.

    Raises:
        ValueError: the mask has other than two dimensions, and tells tokens from padding no more.
    """
    if attention_mask is None:
        return None
    if attention_mask.ndim != 2:
        raise ValueError(
            f"a model with {reader} takes an attention_mask [batch, tokens], 0 for padding; "
            f"got one of {attention_mask.ndim} dimensions"
        )
    return attention_mask.bool()[:, -length:]


__all__ = ["present_tokens", "token_positions"]
