"""Attention over few keys against the formula and against autograd."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from gmb_hf.training.equations import attend_few

HEADS = 2


def rows(shared: tuple[bool, ...], *, seed: int = 0) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """A query [2, 3, 4] and, per key, a row for each query or one that they share."""
    draw = torch.Generator().manual_seed(seed)

    def normal(count: int) -> Tensor:
        tensor = torch.randn(2, count, 4, generator=draw, dtype=torch.float64)
        return tensor.requires_grad_()

    keys = [normal(1 if one else 3) for one in shared]
    values = [normal(1 if one else 3) for one in shared]
    return normal(3), keys, values


def written_out(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Softmax attention one head at a time, nothing clever."""
    size = query.shape[-1] // HEADS
    heads = []
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        scores = [(query[..., part] * key[..., part]).sum(-1) / math.sqrt(size) for key in keys]
        weights = torch.stack(scores, -1).softmax(-1)
        heads.append(sum(weights[..., i : i + 1] * v[..., part] for i, v in enumerate(values)))
    return torch.cat(heads, -1)


@pytest.mark.parametrize("shared", [(True,), (False,), (True, False), (True, False, False, True)])
def test_equals_the_formula_and_its_gradients(shared: tuple[bool, ...]) -> None:
    query, keys, values = rows(shared)
    out = attend_few(query, tuple(keys), tuple(values), HEADS)
    expected = written_out(query, keys, values)
    torch.testing.assert_close(out, expected, rtol=1e-13, atol=1e-13)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=out.dtype)
    leaves = [query, *keys, *values]
    ours = torch.autograd.grad((out * weight).sum(), leaves)
    theirs = torch.autograd.grad((expected * weight).sum(), leaves)
    for got, want in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-13)


def test_gradcheck() -> None:
    query, keys, values = rows((True, False, False))

    def attend(*leaves: Tensor) -> Tensor:
        return attend_few(leaves[0], leaves[1:4], leaves[4:], HEADS)

    assert torch.autograd.gradcheck(attend, (query, *keys, *values))


def test_scores_of_a_thousand_stay_finite() -> None:
    query, keys, values = rows((False, False))
    out = attend_few(query.detach() * 1e3, tuple(k.detach() for k in keys), tuple(values), HEADS)
    assert torch.isfinite(out).all()


def test_a_view_of_a_larger_tensor_is_as_good_as_a_copy() -> None:
    query, keys, values = rows((False, True))
    joint = torch.cat([query, query], dim=-1).detach()
    from_view = attend_few(joint.split(4, dim=-1)[1], tuple(keys), tuple(values), HEADS)
    torch.testing.assert_close(from_view, attend_few(query, tuple(keys), tuple(values), HEADS))
