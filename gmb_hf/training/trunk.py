"""The exact short forward for `BOS a OP b EQ answer`, over many seeds at once.

A full forward of the eight tokens computes much that no answer depends on. In exact arithmetic
the following give the same loss and the same gradients, and that is all that is left out:

- positions after EQ: causal attention never reads them;
- all but one query in the last layer: only the state at EQ reaches the answer;
- repeated states: BOS, OP and EQ are one row each before the first layer, `a` and `b` one row per
  residue; after it BOS is still one row, `a` and OP depend on `a` alone. Only `b` and EQ have one
  row per equation.

In the first layer an attention weight depends on `a` or on `b` alone (EQ) or on the pair (b), so
that numerator and denominator of the softmax are sums of table rows; the rows of an equation are
picked by a one-hot product, which is deterministic and runs at the speed of a matrix product.

Shapes: S seeds, n equations, p residues, d width, h heads, f hidden units, V vocabulary.
Equality with the model's own forward: `tests/training/test_trunk.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from gmb_hf.training.fused import (
    Workspace,
    answer_loss,
    folded,
    mlp_block,
    normalise,
    weighted_mean,
)

# In float32 sums of exp(60) are finite and exp(-80) is not yet zero, so the score of an operand may
# stand 140 above those of BOS, OP and EQ.
MAX_EXPONENT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrunkLayout:
    """What the forward must know beside the weights.

    Attributes:
        layers, heads: of the transformer.
        activation: of the MLP, "relu" or "gelu_new".
        residues: p, the number of operand tokens; their ids are 0..p-1.
        bos, operation, equals: token ids.
    """

    layers: int
    heads: int
    activation: str
    residues: int
    bos: int
    operation: int
    equals: int


@dataclass(frozen=True, slots=True)
class Equations:
    """The equations of every seed.

    Attributes:
        first, second: one-hot operands, [S, n, p].
        pair: second * p + first, [S, n].
        answers: token ids, [S, n].
    """

    first: Tensor
    second: Tensor
    pair: Tensor
    answers: Tensor

    @classmethod
    def from_operands(
        cls, first: Tensor, second: Tensor, answers: Tensor, *, residues: int, dtype: torch.dtype
    ) -> Equations:
        """Build from integer operands and answers, [S, n] each."""
        return cls(
            functional.one_hot(first, residues).to(dtype),
            functional.one_hot(second, residues).to(dtype),
            second * residues + first,
            answers,
        )


Weights = Mapping[str, Tensor]
Rows = tuple[Tensor, ...]  # one tensor per position: BOS, a, OP, b, EQ
QueryKeyValue = tuple[Tensor, Tensor, Tensor]


def answer_states(
    weights: Weights, layout: TrunkLayout, equations: Equations, workspace: Workspace
) -> Tensor:
    """The residual stream at EQ after the last layer, before the final norm: [S, n, d].

    Args:
        weights: the model's state dict with a leading axis of seeds on every tensor.
        layout: the model's shape and the task's tokens.
        equations: of every seed.
        workspace: buffers that the caller keeps between steps.
    """
    p, n = layout.residues, equations.answers.shape[1]
    states = _embed(weights, layout)
    for layer in range(layout.layers):
        last = layer == layout.layers - 1
        prefix = f"model.layers.{layer}"
        query_key_value = _project(weights, prefix, states, queries=n if last and layer else None)
        if layer == 0:
            mixed, residual = _attend_tables(query_key_value, states, layout, equations, last)
        else:
            mixed, residual = _attend_rows(query_key_value, states, layout, equations, last)
        out = weights[f"{prefix}.attention.out.weight"].transpose(1, 2)
        bias = weights[f"{prefix}.attention.out.bias"].unsqueeze(1)
        states = torch.baddbmm(residual + bias, mixed, out)
        up, up_bias = folded(
            weights[f"{prefix}.mlp.up.weight"],
            weights[f"{prefix}.mlp.up.bias"],
            weights[f"{prefix}.norm_2.weight"],
            weights[f"{prefix}.norm_2.bias"],
        )
        states = mlp_block(
            states,
            up,
            up_bias,
            weights[f"{prefix}.mlp.down.weight"],
            weights[f"{prefix}.mlp.down.bias"].unsqueeze(1),
            activation=layout.activation,
            workspace=workspace,
            name=prefix,
        )
    assert states.shape[1] == n, (states.shape, n, p)
    return states


def answer_losses(
    weights: Weights,
    layout: TrunkLayout,
    equations: Equations,
    workspace: Workspace,
    *,
    keep_logits: bool = False,
) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy [S] of every seed at its answers, and the logits [S, n, V] on request."""
    states = answer_states(weights, layout, equations, workspace)
    head, bias = _head(weights)
    return answer_loss(states, head, bias, equations.answers, keep_logits=keep_logits)


@torch.no_grad()
def answer_logits(
    weights: Weights, layout: TrunkLayout, equations: Equations
) -> tuple[Tensor, Tensor]:
    """Logits [S, n, V] and final hidden states [S, n, d] (after the last norm), no gradient."""
    states = answer_states(weights, layout, equations, Workspace())
    head, bias = _head(weights)
    normed = normalise(states)
    gain = weights["model.norm.weight"].unsqueeze(1)
    hidden = torch.addcmul(weights["model.norm.bias"].unsqueeze(1), normed, gain)
    return torch.baddbmm(bias, normed, head.transpose(1, 2)), hidden


def _head(weights: Weights) -> tuple[Tensor, Tensor]:
    tied = "lm_head.weight" not in weights
    head = weights["model.embed_tokens.weight" if tied else "lm_head.weight"]
    return folded(head, None, weights["model.norm.weight"], weights["model.norm.bias"])


def _embed(weights: Weights, layout: TrunkLayout) -> Tensor:
    """States before the first layer: BOS, a (p rows), OP, b (p rows), EQ; [S, 2p + 3, d]."""
    tokens, positions = (
        weights["model.embed_tokens.weight"],
        weights["model.embed_positions.weight"],
    )
    residues = tokens[:, : layout.residues]
    rows = [
        tokens[:, layout.bos : layout.bos + 1],
        residues,
        tokens[:, layout.operation : layout.operation + 1],
        residues,
        tokens[:, layout.equals : layout.equals + 1],
    ]
    return torch.cat([row + positions[:, i : i + 1] for i, row in enumerate(rows)], dim=1)


def _project(
    weights: Weights, prefix: str, states: Tensor, *, queries: int | None
) -> QueryKeyValue:
    """Keys and values of all rows and the queries of the last `queries` rows (None: of all)."""
    width = states.shape[2]
    weight, bias = folded(
        weights[f"{prefix}.attention.qkv.weight"],
        weights[f"{prefix}.attention.qkv.bias"],
        weights[f"{prefix}.norm_1.weight"],
        weights[f"{prefix}.norm_1.bias"],
    )
    normed = normalise(states)
    if queries is None:
        joint = torch.baddbmm(bias, normed, weight.transpose(1, 2))
        query, key, value = joint.split(width, dim=-1)
        return query, key, value
    query_weight, rest_weight = weight.split([width, 2 * width], dim=1)
    query_bias, rest_bias = bias.split([width, 2 * width], dim=2)
    asking = normed.split([normed.shape[1] - queries, queries], dim=1)[1]
    query = torch.baddbmm(query_bias, asking, query_weight.transpose(1, 2))
    key, value = torch.baddbmm(rest_bias, normed, rest_weight.transpose(1, 2)).split(width, dim=-1)
    return query, key, value


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


def _attend_tables(
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
    sums = torch.baddbmm(bos + operation + equals, equations.first, a)
    at_equals = weighted_mean(torch.baddbmm(sums, equations.second, b), h)  # [S, n, d]
    bos, a, operation, b, equals = states.split(counts, dim=1)
    if last:
        return at_equals, equals

    queries, keys, values = (x.split(counts, dim=1) for x in query_key_value)
    at_first, at_operation = _attend_prefix(queries, keys, values, h)
    at_second = _attend_second(queries[3], keys, values, h, equations)
    residual = torch.cat(
        [
            bos,
            a,
            operation.expand_as(a),
            torch.bmm(equations.second, b),
            equals.expand(-1, equations.answers.shape[1], -1),
        ],
        dim=1,
    )
    mixed = torch.cat([values[0], at_first, at_operation, at_second, at_equals], dim=1)
    return mixed, residual


def _attend_prefix(queries: Rows, keys: Rows, values: Rows, heads: int) -> tuple[Tensor, Tensor]:
    """Attention at `a` and at OP, one row per residue of `a` each: two of [S, p, d]."""
    at_first = _mix(queries[1], keys[:2], values[:2], heads)
    at_operation = _mix(queries[2].expand_as(queries[1]), keys[:3], values[:3], heads)
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
    from_first = _per_head(weight, torch.bmm(equations.first, values[1]))
    added = torch.cat([from_first, weight], dim=-1)
    return weighted_mean(torch.baddbmm(added, equations.second, table), heads)


def _attend_rows(
    query_key_value: QueryKeyValue,
    states: Tensor,
    layout: TrunkLayout,
    equations: Equations,
    last: bool,
) -> tuple[Tensor, Tensor]:
    """Attention of a later layer: rows are BOS, a (p), OP (p, by a), b (n), EQ (n).

    In the last layer the queries are those of EQ alone.
    """
    p, h, n = layout.residues, layout.heads, equations.answers.shape[1]
    counts = [1, p, p, n, n]
    query, key, value = query_key_value
    keys, values = key.split(counts, dim=1), value.split(counts, dim=1)
    tables = torch.cat([keys[1], values[1], keys[2], values[2]], dim=-1)  # [S, p, 4d]
    a_key, a_value, operation_key, operation_value = torch.bmm(equations.first, tables).chunk(4, -1)
    seen_keys = (keys[0], a_key, operation_key, keys[3], keys[4])
    seen_values = (values[0], a_value, operation_value, values[3], values[4])
    if last:
        return _mix(query, seen_keys, seen_values, h), states.split(counts, dim=1)[4]
    queries = query.split(counts, dim=1)
    at_first, at_operation = _attend_prefix(queries, keys, values, h)
    at_second = _mix(queries[3], seen_keys[:4], seen_values[:4], h)
    at_equals = _mix(queries[4], seen_keys, seen_values, h)
    mixed = torch.cat([values[0], at_first, at_operation, at_second, at_equals], dim=1)
    return mixed, states


def _mix(query: Tensor, keys: Rows, values: Rows, heads: int) -> Tensor:
    """Softmax attention of each query over its own few keys: [S, m, d].

    Args:
        query: [S, m, d]. keys, values: one [S, m or 1, d] per position that the query sees.
    """
    scores = torch.stack([_dots(query, key, heads) for key in keys], dim=-1)  # [S, m, h, k]
    weights = scores.softmax(-1).unbind(-1)
    mixed = _per_head(weights[0], values[0].expand_as(query))
    for weight, value in zip(weights[1:], values[1:], strict=True):
        mixed = mixed + _per_head(weight, value)
    return mixed
