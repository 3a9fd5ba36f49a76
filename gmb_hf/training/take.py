"""Rows picked out of stacked tables, with a gradient that adds up in a fixed order.

Shapes: S models, m rows of a table, k picked ones, c columns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        if len(index) == 1:
            return table.index_select(1, index[0])
        return (
            table.flatten(0, 1)
            .index_select(0, _end_to_end(index, table.shape[1]))
            .view(len(table), -1, table.shape[2])
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        return _add_up(gradients[0], index, ctx.shape[1]), None


def _end_to_end(index: Tensor, rows: int) -> Tensor:
    """Indices into the tables of all models laid end to end, [S, k] -> [S k]."""
    start = rows * torch.arange(len(index), device=index.device).unsqueeze(1)
    return (start + index).flatten()


def _add_up(gradient: Tensor, index: Tensor, rows: int) -> Tensor:
    """Add up the rows [S, k, c] by the table row that they were picked from: [S, m, c]."""
    models, _, columns = gradient.shape
    if gradient.device.type == "cpu" and len(index) == 1:
        table = gradient.new_zeros(models, rows, columns)
        return table.index_add_(1, index[0], gradient)
    flat = gradient.new_zeros(models * rows, columns)
    at = _end_to_end(index.expand(models, -1), rows)
    if gradient.device.type == "cpu":
        flat.index_add_(0, at, gradient.flatten(0, 1))
    else:  # there index_add adds in any order, and this sorts first
        flat.index_put_((at,), gradient.flatten(0, 1), accumulate=True)
    return flat.view(models, rows, columns)


def take(table: Tensor, index: Tensor) -> Tensor:
    """The rows of each model's table: [S, m, c] -> [S, k, c].

    Args:
        table: [S, m, c].
        index: int64 [S, k], or [1, k] where all models take the same rows.
    """
    taken: Tensor = _Take.apply(table, index)  # type: ignore[no-untyped-call]
    return taken
