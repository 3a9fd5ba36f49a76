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

from gmb_hf.training.fused import Workspace, answer_loss, folded, mlp_block, normalise

MAX_EXPONENT = 60.0  # exp(60) and sums of it stay finite in float32


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
        query_key_value = _project(weights, prefix, states)
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
    tokens, positions = weights["model.embed_tokens.weight"], weights["model.embed_positions.weight"]
    residues = tokens[:, : layout.residues]
    rows = [
        tokens[:, layout.bos : layout.bos + 1],
        residues,
        tokens[:, layout.operation : layout.operation + 1],
        residues,
        tokens[:, layout.equals : layout.equals + 1],
    ]
    return torch.cat([row + positions[:, i : i + 1] for i, row in enumerate(rows)], dim=1)


def _project(weights: Weights, prefix: str, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of all rows, [S, rows, d] each."""
    weight, bias = folded(
        weights[f"{prefix}.attention.qkv.weight"],
        weights[f"{prefix}.attention.qkv.bias"],
        weights[f"{prefix}.norm_1.weight"],
        weights[f"{prefix}.norm_1.bias"],
    )
    joint = torch.baddbmm(bias, normalise(states), weight.transpose(1, 2))
    query, key, value = joint.split(states.shape[2], dim=-1)
    return query, key, value


def _split(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1))  # [S, rows, h, d/h]


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
    query_key_value: tuple[Tensor, Tensor, Tensor],
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
    bos, a, op, b, eq = 0, slice(1, p + 1), p + 1, slice(p + 2, 2 * p + 2), 2 * p + 2
    shared = [bos, op, eq]

    # EQ: one query for all equations; exp(score) of a key is a table over its residue.
    scores = _dots(key, query[:, eq : eq + 1], h)  # [S, 2p + 3, h]
    exponents = (scores - _anchor(scores[:, shared], scores)).exp()
    table = torch.cat([_per_head(exponents, value), exponents], dim=-1)  # [S, 2p + 3, d + h]
    constant = table[:, shared].sum(1, keepdim=True)
    sums = torch.baddbmm(constant, equations.first, table[:, a])
    sums = torch.baddbmm(sums, equations.second, table[:, b])
    at_equals = _ratio(sums, h)  # [S, n, d]
    if last:
        residual = states[:, eq : eq + 1]
        return at_equals, residual

    at_first, at_operation = _attend_prefix(query[:, : p + 2], key[:, : p + 2], value, h, p)
    at_second = _attend_second(query[:, b], key, value, layout, equations)
    count = equations.answers.shape[1]
    residual = torch.cat(
        [
            states[:, : p + 1],
            states[:, op : op + 1].expand(-1, p, -1),
            torch.bmm(equations.second, states[:, b]),
            states[:, eq : eq + 1].expand(-1, count, -1),
        ],
        dim=1,
    )
    mixed = torch.cat([value[:, :1], at_first, at_operation, at_second, at_equals], dim=1)
    return mixed, residual


def _attend_prefix(
    query: Tensor, key: Tensor, value: Tensor, heads: int, p: int
) -> tuple[Tensor, Tensor]:
    """Attention at `a` and at OP, where `a` is the p rows after BOS and OP the row after those."""
    bos_key, bos_value = key[:, :1], value[:, :1]
    first_key, first_value = key[:, 1 : p + 1], value[:, 1 : p + 1]
    first = query[:, 1 : p + 1]
    operation = query[:, p + 1 : p + 2]
    operation_key, operation_value = key[:, p + 1 : p + 2], value[:, p + 1 : p + 2]
    at_first = _mix(first, [bos_key, first_key], [bos_value, first_value], heads)
    at_operation = _mix(
        operation.expand_as(first),
        [bos_key, first_key, operation_key],
        [bos_value, first_value, operation_value],
        heads,
    )
    return at_first, at_operation


def _attend_second(
    query: Tensor, key: Tensor, value: Tensor, layout: TrunkLayout, equations: Equations
) -> Tensor:
    """Attention at `b` in the first layer: keys BOS, a, OP and b itself; [S, n, d].

    The scores are tables: over b for BOS, OP and b, over the pair (b, a) for a.
    """
    p, h = layout.residues, layout.heads
    own = slice(p + 2, 2 * p + 2)
    bos_score = _dots(query, key[:, :1], h)
    operation_score = _dots(query, key[:, p + 1 : p + 2], h)
    own_score = _dots(query, key[:, own], h)  # [S, p, h]
    size = query.shape[-1] // h
    left, right = (_split(x, h).transpose(1, 2) for x in (query, key[:, 1 : p + 1]))
    pair_score = left @ right.transpose(-1, -2) / math.sqrt(size)  # [S, h, b, a]
    always = torch.stack([bos_score, operation_score, own_score], dim=1)  # [S, 3, p, h]
    pair_score = pair_score.permute(0, 2, 3, 1)  # [S, b, a, h]
    anchor = _anchor(always, pair_score.transpose(1, 2)).squeeze(1)  # [S, p, h]
    exponents = (always - anchor.unsqueeze(1)).exp()
    kept = (
        _per_head(exponents[:, 0], value[:, :1].expand_as(query))
        + _per_head(exponents[:, 1], value[:, p + 1 : p + 2].expand_as(query))
        + _per_head(exponents[:, 2], value[:, own])
    )
    table = torch.cat([kept, exponents.sum(1)], dim=-1)  # [S, p, d + h]
    sums = torch.bmm(equations.second, table)
    pairs = (pair_score - anchor.unsqueeze(2)).exp().flatten(1, 2)  # [S, b * p + a, h]
    weight = pairs.gather(1, equations.pair.unsqueeze(-1).expand(-1, -1, h))  # [S, n, h]
    from_first = _per_head(weight, torch.bmm(equations.first, value[:, 1 : p + 1]))
    return _ratio(sums + torch.cat([from_first, weight], dim=-1), h)


def _attend_rows(
    query_key_value: tuple[Tensor, Tensor, Tensor],
    states: Tensor,
    layout: TrunkLayout,
    equations: Equations,
    last: bool,
) -> tuple[Tensor, Tensor]:
    """Attention of a later layer: rows are BOS, a (p), OP (p, by a), b (n), EQ (n)."""
    p, h, n = layout.residues, layout.heads, equations.answers.shape[1]
    query, key, value = query_key_value
    second, equals = slice(2 * p + 1, 2 * p + 1 + n), slice(2 * p + 1 + n, None)
    prefix = torch.cat([key[:, 1 : 2 * p + 1], value[:, 1 : 2 * p + 1]], dim=-1)
    tables = torch.cat([prefix[:, :p], prefix[:, p:]], dim=-1)  # [S, p, 4d]
    picked = torch.bmm(equations.first, tables).chunk(4, dim=-1)
    keys = [key[:, :1], picked[0], picked[2], key[:, second]]
    values = [value[:, :1], picked[1], picked[3], value[:, second]]
    at_equals = _mix(query[:, equals], [*keys, key[:, equals]], [*values, value[:, equals]], h)
    if last:
        return at_equals, states[:, equals]
    first_query, operation_query = query[:, 1 : p + 1], query[:, p + 1 : 2 * p + 1]
    at_first = _mix(first_query, [key[:, :1], key[:, 1 : p + 1]], [value[:, :1], value[:, 1 : p + 1]], h)
    at_operation = _mix(
        operation_query,
        [key[:, :1], key[:, 1 : p + 1], key[:, p + 1 : 2 * p + 1]],
        [value[:, :1], value[:, 1 : p + 1], value[:, p + 1 : 2 * p + 1]],
        h,
    )
    at_second = _mix(query[:, second], keys, values, h)
    mixed = torch.cat([value[:, :1], at_first, at_operation, at_second, at_equals], dim=1)
    return mixed, states


def _mix(query: Tensor, keys: list[Tensor], values: list[Tensor], heads: int) -> Tensor:
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


def _ratio(sums: Tensor, heads: int) -> Tensor:
    """Numerators [S, n, d] over denominators [S, n, h], stored side by side."""
    numerator, denominator = sums[..., :-heads], sums[..., -heads:]
    return (_split(numerator, heads) / denominator.unsqueeze(-1)).flatten(2)
