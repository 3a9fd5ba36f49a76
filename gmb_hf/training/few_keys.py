"""Softmax attention of every query over its own few keys, with a hand-written gradient.

Autograd would keep a product of the queries' size for every key and walk over memory three times
as often; this accumulates in place. Checked against autograd in `tests/training/test_few_keys.py`.

Shapes: S seeds, m queries, d width, h heads, k keys per query.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def _per_head(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:-1], heads, -1)  # [S, rows, d] -> [S, rows, h, d/h]


def _like(gradient: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of a row that all queries share is the sum of theirs."""
    return gradient if gradient.shape == shape else gradient.sum(1, keepdim=True)


class _FewKeys(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, heads: int, query: Tensor, *rows: Tensor) -> Tensor:
        count = len(rows) // 2
        keys, values = rows[:count], rows[count:]
        scale = 1 / math.sqrt(query.shape[-1] // heads)
        product = torch.empty_like(query)
        scores = query.new_empty(*query.shape[:2], heads, count)
        for i, key in enumerate(keys):
            torch.mul(query, key, out=product)
            torch.sum(_per_head(product, heads), -1, out=scores[..., i])
        weights = scores.mul_(scale).softmax(-1)
        mixed = _per_head(product, heads)
        torch.mul(weights[..., :1], _per_head(values[0], heads), out=mixed)
        for i, value in enumerate(values[1:], start=1):
            mixed.addcmul_(weights[..., i : i + 1], _per_head(value, heads))
        ctx.save_for_backward(query, weights, *rows)
        ctx.heads, ctx.scale = heads, scale
        return product

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, weights, *rows = ctx.saved_tensors
        heads, count = ctx.heads, len(rows) // 2
        keys, values = rows[:count], rows[count:]
        d_mixed = gradients[0].contiguous()
        by_head, asked = _per_head(d_mixed, heads), _per_head(query, heads)
        product = torch.empty_like(query)
        d_weights = torch.empty_like(weights)
        for i, value in enumerate(values):
            torch.mul(d_mixed, value, out=product)
            torch.sum(_per_head(product, heads), -1, out=d_weights[..., i])
        centred = d_weights - (weights * d_weights).sum(-1, keepdim=True)
        d_scores = centred.mul_(weights).mul_(ctx.scale)
        d_query = _per_head(product, heads)
        torch.mul(d_scores[..., :1], _per_head(keys[0], heads), out=d_query)
        d_keys, d_values = [], []
        for i, (key, value) in enumerate(zip(keys, values, strict=True)):
            d_score, weight = d_scores[..., i : i + 1], weights[..., i : i + 1]
            if i:
                d_query.addcmul_(d_score, _per_head(key, heads))
            d_keys.append(_like((d_score * asked).flatten(2), key.shape))
            d_values.append(_like((weight * by_head).flatten(2), value.shape))
        return None, product, *d_keys, *d_values


def attend_few(
    query: Tensor, keys: tuple[Tensor, ...], values: tuple[Tensor, ...], heads: int
) -> Tensor:
    """Softmax attention of each query over its own few keys: [S, m, d].

    Args:
        query: [S, m, d].
        keys, values: one [S, m, d] per position that a query sees, or [S, 1, d] where all queries
            see the same.
        heads: h; it divides d.
    """
    if not torch.compiler.is_compiling():
        asked = query.contiguous()
        mixed: Tensor = _FewKeys.apply(heads, asked, *keys, *values)  # type: ignore[no-untyped-call]
        return mixed
    asked = _per_head(query, heads)
    scale = 1 / math.sqrt(asked.shape[-1])
    scores = [(asked * _per_head(key, heads)).sum(-1) * scale for key in keys]
    weights = torch.stack(scores, dim=-1).softmax(-1).unbind(-1)
    terms = [w.unsqueeze(-1) * _per_head(v, heads) for w, v in zip(weights, values, strict=True)]
    return torch.stack(terms).sum(0).flatten(2)
