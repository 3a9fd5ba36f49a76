"""Causal attention of rows over their own keys, for many short rows and small heads at once.

One matrix product per row and head would cost more in calls than in arithmetic. Here one product
per row serves all heads: each head's query stands in a line of its own, zero outside the head's
part of the width. That is h times the arithmetic and a fraction of the time; gradients are
hand-written and checked against autograd in `tests/training/test_row_attention.py`.

Shapes: S models, n rows, q queries and k keys per row, d width, h heads.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def _lines(x: Tensor, heads: int) -> Tensor:
    """Each head of [S, n, q, d] in a line of its own, zero elsewhere: [S n, q h, d]."""
    head_dim = x.shape[-1] // heads
    part = torch.eye(heads, dtype=x.dtype, device=x.device).repeat_interleave(head_dim, dim=1)
    return (x.unsqueeze(-2) * part).view(-1, x.shape[2] * heads, x.shape[-1])


def _from_lines(lines: Tensor, shape: torch.Size, heads: int) -> Tensor:
    """Of each line [S n, q h, d] its own head's part, side by side: [S, n, q, d]."""
    parts = lines.view(*shape[:-1], heads, heads, -1).diagonal(dim1=-3, dim2=-2)
    return parts.transpose(-1, -2).flatten(-2)


def _hidden_keys(queries: int, keys: int, like: Tensor) -> Tensor:
    """Minus infinity at the keys after a query, where the last query sees all: [q, 1, k]."""
    ahead = torch.full((queries, keys), -torch.inf, dtype=like.dtype, device=like.device)
    return ahead.triu(keys - queries + 1).unsqueeze(1)


class _RowAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key_value: Tensor, heads: int) -> Tensor:
        queries, width = query.shape[2:]
        scale = 1 / math.sqrt(width // heads)
        asked = _lines(query * scale, heads)
        keys, values = key_value.flatten(0, 1).split(width, dim=-1)
        scores = torch.bmm(asked, keys.transpose(1, 2))  # [S n, q h, k]
        by_query = scores.view(len(scores), queries, heads, -1)
        by_query.add_(_hidden_keys(queries, scores.shape[-1], scores))
        weights = scores.softmax(-1)
        ctx.save_for_backward(asked, key_value, weights)
        ctx.shape, ctx.heads, ctx.scale = query.shape, heads, scale
        return _from_lines(torch.bmm(weights, values), query.shape, heads)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        asked, key_value, weights = ctx.saved_tensors
        width = ctx.shape[-1]
        keys, values = key_value.flatten(0, 1).split(width, dim=-1)
        d_mixed = _lines(gradients[0], ctx.heads)
        d_key_value = torch.empty_like(key_value)
        d_keys, d_values = d_key_value.flatten(0, 1).split(width, dim=-1)
        d_values.copy_(torch.bmm(weights.transpose(1, 2), d_mixed))
        d_weights = torch.bmm(d_mixed, values.transpose(1, 2))
        d_scores = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype)
        d_keys.copy_(torch.bmm(d_scores.transpose(1, 2), asked))
        d_query = _from_lines(torch.bmm(d_scores, keys), ctx.shape, ctx.heads).mul_(ctx.scale)
        return d_query, d_key_value, None


def attend_in_rows(query: Tensor, key_value: Tensor, heads: int) -> Tensor:
    """Attention of each row's last q positions over its k positions, causal: [S, n, q, d].

    Args:
        query: [S, n, q, d].
        key_value: keys and values side by side, [S, n, k, 2d]; contiguous.
        heads: h; it divides d.
    """
    mixed: Tensor = _RowAttention.apply(query, key_value, heads)  # type: ignore[no-untyped-call]
    return mixed


def attend_visible(query: Tensor, key_value: Tensor, visible: Tensor, heads: int) -> Tensor:
    """Attention of nodes over those that each one sees: [S, m, d].

    Args:
        query: [S, m, d].
        key_value: keys and values side by side, [S, m, 2d].
        visible: bool [S or 1, m, m]; every node sees at least one.
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
