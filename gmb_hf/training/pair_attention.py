"""Attention at EQ over blended embeddings, for all pairs of operands at once.

A blended embedding at `b` or EQ is a sum of two table rows, x = first[a] + second[b]. Centring and
projecting are linear, so a normalised and projected one is such a sum over one number, the standard
deviation of x. Scores are then products of tables [p, p], and the mixed values, after the output
projection, sums over `a` and `b` of small matrix products: neither queries, keys nor values of the
pairs are formed. The bias of the keys adds the same to every score, and is left out.

In exact arithmetic this is `short_attention.attend_rows`; in floating point a variance that is far
smaller than those of its two terms loses digits.

Shapes: S seeds, p residues, d width, h heads, c = d / h. In [.., p, p] `b` comes first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gmb_hf.training.block import Weights, normed_linear
from gmb_hf.training.fused import LAYER_NORM_EPSILON, normalise


class PairSum(NamedTuple):
    """A state of every pair of operands: first[a] + second[b], [S, p, d] each."""

    first: Tensor
    second: Tensor

    def centred(self) -> PairSum:
        """Both tables, and with them the sums, without their means over the width."""
        return PairSum(*(x - x.mean(-1, keepdim=True) for x in self))

    def inverse_deviation(self) -> Tensor:
        """1 / sqrt(variance + epsilon) as a layer norm takes it, of centred sums: [S, p, p]."""
        squares = [x.square().sum(-1) for x in self]
        both = squares[1].unsqueeze(2) + squares[0].unsqueeze(1)
        total = torch.baddbmm(both, self.second, self.first.transpose(1, 2), alpha=2)
        variance = total.clamp_min(0) / self.first.shape[-1]
        return (variance + LAYER_NORM_EPSILON).rsqrt()


def attend_pairs(
    weights: Weights, layer: str, heads: int, alone: list[Tensor], second: PairSum, equals: PairSum
) -> Tensor:
    """The states at EQ after attention, its output projection and the residual: [S, p * p, d].

    Args:
        weights: the model's state dict with a leading axis of seeds on every tensor.
        layer: its name in `weights`.
        heads: h.
        alone: states at BOS [S, 1, d], and at `a` and OP, one for each `a`, [S, p, d].
        second: states at `b`.
        equals: states at EQ.

    Returns:
        the row of the pair a, b is b * p + a.
    """
    seeds, p, d = equals.first.shape
    (of_second, of_equals), (query_bias, value_bias), (query, key, value) = _project(
        weights, layer, heads, alone, second, equals
    )
    # By `a` five keys: BOS, a, OP and the first terms of b and EQ; by `b` the second terms of two.
    key_first, key_second = key.split([5 * p, 2 * p], dim=2)
    query_first, query_second = query.split([p, p], dim=2)

    scores = query_second @ key_first.transpose(2, 3)  # [S, h, b, 5 a]
    own = _dots(query_first.unsqueeze(2), key_first.unflatten(2, (5, p)))  # [S, h, 5, a]
    scores = scores.unflatten(3, (5, p)) + own.unsqueeze(2)
    asking = of_equals[:, None, :, None]  # [S, 1, b, 1, a]
    scores = scores * asking + _dots(query_bias, key_first).unflatten(2, (5, p)).unsqueeze(2)
    more = (key_second @ query_first.transpose(2, 3)).unflatten(2, (2, p))  # [S, h, 2, b, a]
    more = more + _dots(query_second.unsqueeze(2), key_second.unflatten(2, (2, p))).unsqueeze(4)
    more = more.transpose(2, 3) * asking
    by_bias = _dots(query_bias, key_second).unflatten(2, (2, p))
    more = more + by_bias.transpose(2, 3).unsqueeze(4)
    seen = torch.stack([of_second, of_equals], dim=2).unsqueeze(1)  # [S, 1, b, 2, a]
    simple, summed = scores.split([3, 2], dim=3)
    shares = torch.cat([simple, (summed + more) * seen], dim=3).softmax(3)  # [S, h, b, 5, a]

    simple, summed = shares.split([3, 2], dim=3)
    summed = summed * seen
    out = weights[f"{layer}.attention.out.weight"].unflatten(2, (heads, -1))
    out = out.permute(0, 2, 3, 1).contiguous()  # [S, h, c, d]
    bias = weights[f"{layer}.attention.out.bias"].unsqueeze(1) + (value_bias @ out).sum(1)
    tables = (value @ out).unflatten(2, (7, p))  # [S, h, 7, p, d]
    by_first, by_second = tables.permute(0, 3, 1, 2, 4).split([5, 2], dim=3)  # [S, p, h, ., d]
    weighing = torch.cat([simple, summed], dim=3).permute(0, 4, 1, 3, 2)  # [S, a, h, 5, b]
    from_first = torch.baddbmm(
        equals.first.reshape(-1, 1, d),
        weighing.reshape(seeds * p, 5 * heads, p).transpose(1, 2),
        by_first.reshape(seeds * p, 5 * heads, d),
    )
    from_second = torch.baddbmm(
        (equals.second + bias).reshape(-1, 1, d),
        summed.transpose(1, 2).reshape(seeds * p, 2 * heads, p).transpose(1, 2),
        by_second.reshape(seeds * p, 2 * heads, d),
    )
    grid = from_first.view(seeds, p, p, d).transpose(1, 2) + from_second.view(seeds, p, p, d)
    return grid.flatten(1, 2)


def _project(
    weights: Weights,
    layer: str,
    heads: int,
    alone: list[Tensor],
    second: PairSum,
    equals: PairSum,
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """What attention multiplies.

    Returns:
        the inverse deviations at `b` and EQ [S, p, p]; the biases of queries and values
        [S, h, 1, c]; the tables of queries (a, then b) [S, h, 2p, c], and of keys and values (BOS,
        a, OP, b and EQ by a, then b and EQ by b) [S, h, 7p, c]. Queries and their bias are scaled.
    """
    d = equals.first.shape[2]
    weight, bias = normed_linear(
        weights, f"{layer}.norm_1", f"{layer}.attention.qkv.weight", f"{layer}.attention.qkv.bias"
    )
    centred = second.centred(), equals.centred()
    bos, a, operation = (normalise(x) for x in alone)
    rows = [bos.expand_as(a), a, operation]
    tables = torch.cat([*rows, *(x.first for x in centred), *(x.second for x in centred)], dim=1)
    query_weight, rest = weight.split([d, 2 * d], dim=1)
    asking = torch.cat(centred[1], dim=1) / math.sqrt(d // heads)
    query = _by_head(torch.bmm(asking, query_weight.transpose(1, 2)), heads)
    key, value = (
        _by_head(x, heads) for x in torch.bmm(tables, rest.transpose(1, 2)).split([d, d], dim=-1)
    )
    query_bias, _, value_bias = (_by_head(x, heads) for x in bias.split([d, d, d], dim=-1))
    deviations = centred[0].inverse_deviation(), centred[1].inverse_deviation()
    return deviations, (query_bias / math.sqrt(d // heads), value_bias), (query, key, value)


def _by_head(x: Tensor, heads: int) -> Tensor:
    by_head: Tensor = x.unflatten(2, (heads, -1)).transpose(1, 2).contiguous()
    return by_head  # [S, h, rows, c]


def _dots(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1)
