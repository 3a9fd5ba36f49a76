"""Attention of a tree's nodes: those of rows over their own row, shared ones over what they see.

Torch's own kernel serves: for heads of 8 numbers a hand-written one (all heads of a row in one
product, zero outside each head's part) took four fifths of its time, for heads of 32 twice it.

Shapes: S models, n rows, d width, h heads.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def attend_in_rows(query: Tensor, key_value: Tensor, heads: int) -> Tensor:
    """Attention of each row's last q positions over its k positions, causal: [S, n, q, d].

    Args:
        query: [S, n, q, d].
        key_value: keys and values side by side, [S, n, k, 2d].
        heads: h; it divides d.
    """
    queries, keys = query.shape[2], key_value.shape[2]
    visible = torch.ones(1, queries, keys, dtype=torch.bool, device=query.device)
    visible = visible.tril(keys - queries)
    mixed = attend_visible(query.flatten(0, 1), key_value.flatten(0, 1), visible, heads)
    return mixed.reshape(query.shape)


def attend_visible(query: Tensor, key_value: Tensor, visible: Tensor, heads: int) -> Tensor:
    """Attention over the keys that each query sees: [B, q, d].

    Args:
        query: [B, q, d].
        key_value: keys and values side by side, [B, k, 2d].
        visible: bool [B or 1, q, k]; every query sees at least one key.
        heads: h; it divides d.
    """
    keys, values = key_value.split(query.shape[-1], dim=-1)
    asked, seen, held = (
        x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (query, keys, values)
    )
    mixed = functional.scaled_dot_product_attention(
        asked, seen, held, attn_mask=visible.unsqueeze(1)
    )
    return mixed.transpose(1, 2).flatten(-2)
