"""Attention over the few distinct rows of `BOS a OP b EQ`; see `trunk` for what is left out.

In the first layer the scores are tables over residues; in later layers `b` and EQ have one row per
equation, and those of the positions before are picked out of tables.

Shapes: S seeds, n equations, p residues, d width, h heads.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gmb_hf.training.equations import Equations, TrunkLayout
from gmb_hf.training.few_keys import attend_few
from gmb_hf.training.fused import weighted_mean
from gmb_hf.training.mixed_rows import pick_for_equations, row_counts

# In float32 sums of exp(60) are finite and exp(-80) is not yet zero, so the score of an operand may
# stand 140 above those of BOS, OP and EQ.
MAX_EXPONENT = 60.0


Rows = tuple[Tensor, ...]  # one tensor per position: BOS, a, OP, b, EQ
QueryKeyValue = tuple[Tensor, Tensor, Tensor]


def _split(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:-1], heads, x.shape[-1] // heads)  # [S, rows, h, d/h]


def _per_head(scalars: Tensor, vectors: Tensor) -> Tensor:
    """Scale each head of `vectors` [S, m, d] by `scalars` [S, m, h]."""
    return (scalars.unsqueeze(-1) * _split(vectors, scalars.shape[-1])).flatten(2)


def _dots(query: Tensor, key: Tensor, heads: int) -> Tensor:
    """Scaled inner products per head, [S, m, d] x [S, m or 1, d] -> [S, m, h]."""
    product = _split(query * key, heads).sum(-1)
    return product / math.sqrt(query.shape[-1] // heads)


def _anchor(always: Tensor, sometimes: Tensor) -> Tensor:
    """A constant to take off the exponents, so that they neither overflow nor all vanish.

    `always` are the scores that every softmax contains, `sometimes` those that only some do; both
    [S, m, ...] reduced over axis 1 and kept. A softmax does not change when a constant is taken
    off its scores, so no gradient flows through this one.
    """
    top = always.detach().amax(1, keepdim=True)
    return torch.maximum(top, sometimes.detach().amax(1, keepdim=True) - MAX_EXPONENT)


def attend_tables(
    query_key_value: QueryKeyValue,
    states: Tensor,
    layout: TrunkLayout,
    equations: Equations,
    last: bool,
) -> tuple[Tensor, Tensor]:
    """Attention of the first layer, out of tables with one row per residue.

    Returns:
        mixed values and the residual rows they are added to, [S, m, d] each: m = n (EQ alone) in
        the last layer, else 1 + 2p + 2n (BOS, a, OP, b, EQ).
    """
    p, h = layout.residues, layout.heads
    query, key, value = query_key_value
    counts = [1, p, 1, p, 1]

    # EQ: one query for all equations; exp(score) of a key is a table over its residue.
    scores = _dots(key, query[:, -1:], h)  # [S, 2p + 3, h]
    shared = scores.detach()[:, [0, p + 1, 2 * p + 2]]
    exponents = (scores - _anchor(shared, scores)).exp()
    table = torch.cat([_per_head(exponents, value), exponents], dim=-1)  # [S, 2p + 3, d + h]
    bos, a, operation, b, equals = table.split(counts, dim=1)
    sums = equations.sum_operands(a, b, bos + operation + equals)
    at_equals = weighted_mean(sums, h)  # [S, n, d]
    if last:
        return at_equals, states[:, -1:]

    queries, keys, values = (x.split(counts, dim=1) for x in query_key_value)
    at_first, at_operation = _attend_prefix(queries, keys, values, h)
    at_second = _attend_second(queries[3], keys, values, h, equations)
    mixed = torch.cat([values[0], at_first, at_operation, at_second, at_equals], dim=1)
    return mixed, table_rows(states, layout, equations)


def table_rows(states: Tensor, layout: TrunkLayout, equations: Equations) -> Tensor:
    """The rows of a later layer, out of tables: [S, 2p + 3, d] -> [S, 1 + 2p + 2n, d]."""
    p, n = layout.residues, equations.answers.shape[1]
    bos, a, operation, b, equals = states.split([1, p, 1, p, 1], dim=1)
    second = equations.pick_second(b)
    return torch.cat(
        [bos, a, operation.expand_as(a), second, equals.expand(-1, n, -1)],
        dim=1,
    )


def _attend_prefix(queries: Rows, keys: Rows, values: Rows, heads: int) -> tuple[Tensor, Tensor]:
    """Attention at `a` and at OP, one row per residue of `a` each: two of [S, p, d]."""
    at_first = attend_few(queries[1], keys[:2], values[:2], heads)
    at_operation = attend_few(queries[2].expand_as(queries[1]), keys[:3], values[:3], heads)
    return at_first, at_operation


def _attend_second(
    query: Tensor, keys: Rows, values: Rows, heads: int, equations: Equations
) -> Tensor:
    """Attention at `b` in the first layer: keys BOS, a, OP and b itself; [S, n, d].

    The scores are tables: over b for BOS, OP and b, over the pair (b, a) for a.
    """
    always = torch.stack([_dots(query, keys[i], heads) for i in (0, 2, 3)], dim=1)  # [S, 3, p, h]
    left, right = (_split(x, heads).transpose(1, 2) for x in (query, keys[1]))
    pair_score = left @ right.transpose(-1, -2) / math.sqrt(left.shape[-1])  # [S, h, b, a]
    pair_score = pair_score.permute(0, 2, 3, 1)  # [S, b, a, h]
    anchor = _anchor(always, pair_score.transpose(1, 2)).squeeze(1)  # [S, p, h]
    at_bos, at_operation, at_own = (always - anchor.unsqueeze(1)).exp().unbind(1)
    kept = (
        _per_head(at_bos, values[0].expand_as(query))
        + _per_head(at_operation, values[2].expand_as(query))
        + _per_head(at_own, values[3])
    )
    table = torch.cat([kept, at_bos + at_operation + at_own], dim=-1)  # [S, p, d + h]
    pairs = (pair_score - anchor.unsqueeze(2)).exp().flatten(1, 2)  # [S, b * p + a, h]
    weight = pairs.gather(1, equations.pair.unsqueeze(-1).expand(-1, -1, heads))  # [S, n, h]
    from_first = _per_head(weight, equations.pick_first(values[1]))
    added = torch.cat([from_first, weight], dim=-1)
    return weighted_mean(equations.pick_second(table) + added, heads)


def attend_rows(
    query_key_value: QueryKeyValue,
    states: Tensor,
    layout: TrunkLayout,
    equations: Equations,
    last: bool,
) -> tuple[Tensor, Tensor]:
    """Attention of a later layer: rows are BOS, a (p), OP (p, by a), b (n), EQ (n).

    In the last layer the queries are those of EQ alone.
    """
    h, counts = layout.heads, row_counts(layout, equations)
    query, key, value = query_key_value
    keys, values = key.split(counts, dim=1), value.split(counts, dim=1)
    seen_keys = pick_for_equations(keys, equations)
    seen_values = pick_for_equations(values, equations)
    if last:
        return attend_few(query, seen_keys, seen_values, h), states.split(counts, dim=1)[4]
    queries = query.split(counts, dim=1)
    at_first, at_operation = _attend_prefix(queries, keys, values, h)
    at_second = attend_few(queries[3], seen_keys[:4], seen_values[:4], h)
    at_equals = attend_few(queries[4], seen_keys, seen_values, h)
    mixed = torch.cat([values[0], at_first, at_operation, at_second, at_equals], dim=1)
    return mixed, states
