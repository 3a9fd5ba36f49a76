"""The exact short forward for `BOS a OP b EQ answer`, over many seeds at once.

A full forward of the eight tokens computes much that no answer depends on. In exact arithmetic
the following give the same loss and the same gradients, and that is all that is left out:

- positions after EQ: causal attention never reads them;
- all but one query in the last layer: only the state at EQ reaches the answer;
- repeated states: BOS, OP and EQ are one row each before the first layer, `a` and `b` one row per
  residue; after it BOS is still one row, `a` and OP depend on `a` alone. Only `b` and EQ have one
  row per equation.

In the first layer an attention weight depends on `a` or on `b` alone (EQ) or on the pair (b), so
that numerator and denominator of the softmax are sums of table rows (`_Positions.by_tables`).

Variants: embeddings that are blended have one row per equation at `b` and EQ from the start, and no
tables (in a model of one layer they stay sums of table rows, `attend_pairs`); states that are
sorted are needed at every position of the last layer too (`sort`). Layers that are looped
have tables at their very first application, and EQ alone at their very last (`loops`). Bands are
zeros in the weights, and the pull of neighbours acts on the embeddings before a step: neither
changes the forward.

Shapes: S seeds, n equations, p residues, m queries, d width, h heads, k keys per query,
V vocabulary.
Equality with the model's own forward: `tests/training/test_trunk.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from gmb_hf.modeling import GrokkingTransformerConfig
from gmb_hf.tasks.task import EquationTokens
from gmb_hf.training import blocks
from gmb_hf.training.blocks import Blocks, Forward, Trace, Weights, Workspace, normalise, take

POSITIONS = 5
MAX_PAIRS = 2.5  # pairs of operands per equation up to which all of them cost less than rows do
# In float32 sums of exp(60) are finite and exp(-80) is not yet zero, so the score of an operand may
# stand 140 above those of BOS, OP and EQ.
MAX_EXPONENT = 60.0
_EMBEDDINGS = ("tokens", "positions")


@dataclass(frozen=True, slots=True)
class Equations:
    """The equations of every seed.

    Attributes:
        operands: one-hot first operand, one-hot second operand, and a one: [S, n, 2p + 1].
        first, second: the operands, which are their own token ids, [S, n].
        pair: second * p + first, [S, n].
        answers: token ids, [S, n].
        residues: p, the number of operand tokens; their ids are 0..p-1.
        tokens: ids of BOS, OP and EQ.
    """

    operands: Tensor
    first: Tensor
    second: Tensor
    pair: Tensor
    answers: Tensor
    residues: int
    tokens: tuple[int, int, int]

    @classmethod
    def of_rows(
        cls, rows: Tensor, tokens: EquationTokens, bos: int, *, dtype: torch.dtype
    ) -> Equations:
        """Those of whole rows, int64 [S, n, T]."""
        first, second, answers = (rows[:, :, column].contiguous() for column in (1, 3, 5))
        one_hot = [functional.one_hot(operand, tokens.residues) for operand in (first, second)]
        operands = torch.cat([*one_hot, torch.ones_like(first).unsqueeze(-1)], dim=-1).to(dtype)
        pair, special = second * tokens.residues + first, (bos, tokens.operation, tokens.equals)
        return cls(operands, first, second, pair, answers, tokens.residues, special)

    def sum_operands(self, first: Tensor, second: Tensor, constant: Tensor) -> Tensor:
        """first[a] + second[b] + constant of every equation, [S, n, c].

        Args:
            first, second: [S, p, c]. constant: [S, 1, c].
        """
        return torch.bmm(self.operands, torch.cat([first, second, constant], dim=1))


def _per_head(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:-1], heads, -1)  # [S, rows, d] -> [S, rows, h, d/h]


def _like(gradient: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of a row that all queries share is the sum of theirs."""
    return gradient if gradient.shape == shape else gradient.sum(1, keepdim=True)


class _FewKeys(torch.autograd.Function):
    """Softmax attention of every query over its own few keys, with a hand-written gradient.

    Autograd would keep a product of the queries' size for every key and walk over memory three
    times as often; this accumulates in place. Checked in `tests/training/test_few_keys.py`.
    """

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
    """Softmax attention of each query [S, m, d] over its own few keys: [S, m, d].

    `keys` and `values` are one [S, m, d] per position that a query sees, or [S, 1, d] where all
    queries see the same.
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
        return (variance + blocks.LAYER_NORM_EPSILON).rsqrt()


def attend_pairs(
    weights: Weights, layer: str, heads: int, alone: list[Tensor], second: PairSum, equals: PairSum
) -> Tensor:
    """The states at EQ after attention, its output projection and the residual: [S, p * p, d].

    The row of the pair a, b is b * p + a. `alone` are the states at BOS [S, 1, d], and at `a` and
    OP, one for each `a`, [S, p, d]; `second` and `equals` those at `b` and EQ; `layer` is a name in
    `weights`.
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
    weights: Weights, layer: str, heads: int, alone: list[Tensor], second: PairSum, equals: PairSum
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """What attention multiplies.

    Returns:
        the inverse deviations at `b` and EQ [S, p, p]; the biases of queries and values
        [S, h, 1, c]; the tables of queries (a, then b) [S, h, 2p, c], and of keys and values (BOS,
        a, OP, b and EQ by a, then b and EQ by b) [S, h, 7p, c]. Queries and their bias are scaled.
    """
    d = equals.first.shape[2]
    weight, bias = blocks.normed_linear(
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


def pick_for_equations(parts: Sequence[Tensor], equations: Equations) -> tuple[Tensor, ...]:
    """The five positions as each equation sees them: [S, n, d], but BOS, which is one for all."""
    bos, a, operation, b, equals = parts
    return bos, take(a, equations.first), take(operation, equations.first), b, equals


def blend_sums(
    alpha: Tensor, offsets: Tensor, embedded: Sequence[Tensor]
) -> tuple[list[Tensor], PairSum, PairSum]:
    """Embeddings mixed with those before them, out_t = (1-s) e_t + s sum_d softmax(w)_d e_{t-d}.

    s = sigmoid(alpha) [S], w are the offsets [S, G], and the sum ends at the start of the row. Of
    BOS, a (p rows), OP, b (p) and EQ, [S, rows, d] each: the states at BOS, a (p rows) and OP (p,
    by a), and those at b and at EQ as sums.
    """
    bos, a, operation, b, equals = embedded
    share = alpha.sigmoid().view(-1, 1, 1)
    mixing = share.squeeze(-1) * offsets.softmax(-1)  # [S, G]
    by_distance = list(mixing[..., None, None].unbind(1))  # G of [S, 1, 1]
    by_distance += [mixing.new_zeros(1)] * (POSITIONS - len(by_distance))
    by_distance[0] = by_distance[0] + (1 - share)
    own, one, two, three, four = by_distance[:POSITIONS]
    alone = [own * bos, own * a + one * bos, own * operation + one * a + two * bos]
    at_second = PairSum(two * a, own * b + (one * operation + three * bos))
    at_equals = PairSum(three * a, one * b + (own * equals + two * operation + four * bos))
    return alone, at_second, at_equals


def sort(
    alpha: Tensor,
    tau: Tensor,
    parts: Sequence[Tensor],
    window: int,
    equations: Equations,
    last: bool,
) -> list[Tensor]:
    """States mixed with alike ones of their window: the five positions or, where `last`, EQ alone.

    y_t = (1-s) x_t + s sum_i softmax_i(x_t.x_i exp(-tau) / sqrt(d)) x_i, where s = sigmoid(alpha);
    alpha and tau are [S], the parts have the rows of `_Positions.counts`, and a window counts the
    own position.
    """
    share, sharpness = alpha.sigmoid().view(-1, 1, 1), (-tau).exp().view(-1, 1, 1)

    def mixed(position: int, seen: Sequence[Tensor]) -> Tensor:
        state = parts[position]
        keys = tuple(seen[max(0, position + 1 - window) : position + 1])
        found = attend_few(state * sharpness, keys, keys, heads=1)
        return state + share * (found - state)

    for_equations = pick_for_equations(parts, equations)
    if last:
        return [mixed(4, for_equations)]
    # BOS sees itself alone, and stays.
    by_first = [mixed(position, parts) for position in (1, 2)]
    return [parts[0], *by_first, *(mixed(position, for_equations) for position in (3, 4))]


Rows = tuple[Tensor, ...]  # one tensor per position: BOS, a, OP, b, EQ
QueryKeyValue = tuple[Tensor, Tensor, Tensor]


def _scaled_heads(scalars: Tensor, vectors: Tensor) -> Tensor:
    """Scale each head of `vectors` [S, m, d] by `scalars` [S, m, h]."""
    return (scalars.unsqueeze(-1) * _per_head(vectors, scalars.shape[-1])).flatten(2)


def _scaled_scores(query: Tensor, key: Tensor, heads: int) -> Tensor:
    """Scaled inner products per head, [S, m, d] x [S, m or 1, d] -> [S, m, h]."""
    product = _per_head(query * key, heads).sum(-1)
    return product / math.sqrt(query.shape[-1] // heads)


def _anchor(always: Tensor, sometimes: Tensor) -> Tensor:
    """A constant to take off the exponents, so that they neither overflow nor all vanish.

    `always` are the scores that every softmax contains, `sometimes` those that only some do; both
    [S, m, ...] reduced over axis 1 and kept. A softmax does not change when a constant is taken
    off its scores, so no gradient flows through this one.
    """
    top = always.detach().amax(1, keepdim=True)
    return torch.maximum(top, sometimes.detach().amax(1, keepdim=True) - MAX_EXPONENT)


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
    always = torch.stack(
        [_scaled_scores(query, keys[i], heads) for i in (0, 2, 3)], dim=1
    )  # [S, 3, p, h]
    left, right = (_per_head(x, heads).transpose(1, 2) for x in (query, keys[1]))
    pair_score = left @ right.transpose(-1, -2) / math.sqrt(left.shape[-1])  # [S, h, b, a]
    pair_score = pair_score.permute(0, 2, 3, 1)  # [S, b, a, h]
    anchor = _anchor(always, pair_score.transpose(1, 2)).squeeze(1)  # [S, p, h]
    at_bos, at_operation, at_own = (always - anchor.unsqueeze(1)).exp().unbind(1)
    kept = (
        _scaled_heads(at_bos, values[0].expand_as(query))
        + _scaled_heads(at_operation, values[2].expand_as(query))
        + _scaled_heads(at_own, values[3])
    )
    table = torch.cat([kept, at_bos + at_operation + at_own], dim=-1)  # [S, p, d + h]
    pairs = (pair_score - anchor.unsqueeze(2)).exp().flatten(1, 2)  # [S, b * p + a, h]
    weight = pairs.gather(1, equations.pair.unsqueeze(-1).expand(-1, -1, heads))  # [S, n, h]
    from_first = _scaled_heads(weight, take(values[1], equations.first))
    added = torch.cat([from_first, weight], dim=-1)
    return blocks.weighted_mean(take(table, equations.second) + added, heads)


def _sorts(shape: GrokkingTransformerConfig) -> bool:
    """Whether states are sorted; one that sees itself alone stays as it is."""
    return (shape.sort_window or 1) > 1


@dataclass(frozen=True, slots=True, eq=False)
class _Positions(Blocks):
    """The blocks over the rows of the five positions, [S, 1 + 2p + 2n, d]; EQ is asked, [S, n, d].

    `start` is [S, 2p + 3, d] or, where embeddings are blended, the rows of a later layer.
    """

    equations: Equations

    def block(self, layer: int, application: int, states: Tensor, *, asked_alone: bool) -> Tensor:
        weights, shape, equations = self.weights, self.shape, self.equations
        prefix = f"model.layers.{layer}"
        # A layer that is mixed afterwards is needed at every position, also if it is the last.
        equals_alone = asked_alone and not _sorts(shape)
        begins = layer == application == 0 and not shape.blend_window
        normed, asking = self.read(states), None
        if equals_alone and not begins:
            asking = normed[:, -equations.answers.shape[1] :]
        query, key_value = blocks.query_key_value(weights, prefix, normed, asking)
        projected = query, *key_value.split(states.shape[2], dim=-1)
        attend = self.by_tables if begins else self.by_rows
        mixed, residual = attend(projected, states, equals_alone)
        states = self.after_attention(layer, application, mixed, residual)
        if _sorts(shape):
            alpha, tau = weights[f"{prefix}.sort.alpha"], weights[f"{prefix}.sort.tau"]
            parts = states.split(self.counts, dim=1)
            window = shape.sort_window or 1
            states = torch.cat(sort(alpha, tau, parts, window, equations, asked_alone), dim=1)
        return states

    @property
    def counts(self) -> list[int]:
        """How many rows each of the five positions has: BOS 1, a and OP p, b and EQ n."""
        p, n = self.equations.residues, self.equations.answers.shape[1]
        return [1, p, p, n, n]

    def by_tables(
        self, projected: QueryKeyValue, states: Tensor, last: bool
    ) -> tuple[Tensor, Tensor]:
        """Attention of the first layer, out of tables with one row per residue.

        Returns the mixed values and the residual rows they are added to, [S, m, d] each: m = n (EQ
        alone) in the last layer, else 1 + 2p + 2n (BOS, a, OP, b, EQ).
        """
        p, h = self.equations.residues, self.shape.num_attention_heads
        query, key, value = projected
        counts = [1, p, 1, p, 1]

        # EQ: one query for all equations; exp(score) of a key is a table over its residue.
        scores = _scaled_scores(key, query[:, -1:], h)  # [S, 2p + 3, h]
        shared = scores.detach()[:, [0, p + 1, 2 * p + 2]]
        exponents = (scores - _anchor(shared, scores)).exp()
        # [S, 2p + 3, d + h]
        table = torch.cat([_scaled_heads(exponents, value), exponents], dim=-1)
        bos, a, operation, b, equals = table.split(counts, dim=1)
        sums = self.equations.sum_operands(a, b, bos + operation + equals)
        at_equals = blocks.weighted_mean(sums, h)  # [S, n, d]
        if last:
            return at_equals, states[:, -1:]

        queries, keys, values = (x.split(counts, dim=1) for x in projected)
        at_first, at_operation = _attend_prefix(queries, keys, values, h)
        at_second = _attend_second(queries[3], keys, values, h, self.equations)
        mixed = torch.cat([values[0], at_first, at_operation, at_second, at_equals], dim=1)
        return mixed, self.of_tables(states)

    def by_rows(
        self, projected: QueryKeyValue, states: Tensor, last: bool
    ) -> tuple[Tensor, Tensor]:
        """Attention of a later layer; in the last one the queries are those of EQ alone."""
        h, counts = self.shape.num_attention_heads, self.counts
        query, key, value = projected
        keys, values = key.split(counts, dim=1), value.split(counts, dim=1)
        seen_keys = pick_for_equations(keys, self.equations)
        seen_values = pick_for_equations(values, self.equations)
        if last:
            return attend_few(query, seen_keys, seen_values, h), states.split(counts, dim=1)[4]
        queries = query.split(counts, dim=1)
        at_first, at_operation = _attend_prefix(queries, keys, values, h)
        at_second = attend_few(queries[3], seen_keys[:4], seen_values[:4], h)
        at_equals = attend_few(queries[4], seen_keys, seen_values, h)
        mixed = torch.cat([values[0], at_first, at_operation, at_second, at_equals], dim=1)
        return mixed, states

    def of_tables(self, states: Tensor) -> Tensor:
        """The rows of a later layer, out of tables: [S, 2p + 3, d] -> [S, 1 + 2p + 2n, d]."""
        p, n = self.equations.residues, self.equations.answers.shape[1]
        bos, a, operation, b, equals = states.split([1, p, 1, p, 1], dim=1)
        second, each = take(b, self.equations.second), equals.expand(-1, n, -1)
        return torch.cat([bos, a, operation.expand_as(a), second, each], dim=1)

    def embedded(self) -> Tensor:
        return self.start if self.shape.blend_window else self.of_tables(self.start)

    def asked(self, states: Tensor) -> Tensor:
        equals: Tensor = states.split(self.counts, dim=1)[4]
        return equals


class EquationForward(Forward):
    """The short forward over the equations of every seed.

    Attributes:
        equations: of every seed.
    """

    MIXERS = ("sort", "blend")
    """Those that it has formulas for."""

    def __init__(self, shape: GrokkingTransformerConfig, equations: Equations) -> None:
        self.shape, self.equations, self.answers = shape, equations, equations.answers
        self._workspace = Workspace()

    @property
    def by_pairs(self) -> bool:
        """Whether EQ alone attends to blended, normalised embeddings, and most pairs are asked."""
        few = self.equations.residues**2 > MAX_PAIRS * self.answers.shape[1]
        alone = self.shape.num_hidden_layers == 1 and not _sorts(self.shape)
        blends = self.shape.blend_window is not None and self.shape.layer_norm
        return blends and alone and not few

    def losses(self, weights: Weights, *, keep_logits: bool = False) -> tuple[Tensor, Tensor]:
        states = self._states(weights, self._workspace)
        return blocks.answer_loss(
            states,
            *blocks.output_head(weights),
            self.answers,
            layer_norm=self.shape.layer_norm,
            keep_logits=keep_logits,
        )

    @torch.no_grad()
    def logits(self, weights: Weights, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        return blocks.head_logits(weights, self._states(weights, Workspace(), trace))

    def _states(self, weights: Weights, workspace: Workspace, trace: Trace | None = None) -> Tensor:
        """The residual stream at EQ after the last layer, before the final norm: [S, n, d]."""
        shape, equations = self.shape, self.equations
        tokens, positions = (weights[f"model.embed_{name}.weight"] for name in _EMBEDDINGS)
        bos, operation, equals = (tokens[:, token : token + 1] for token in equations.tokens)
        residues = tokens[:, : equations.residues]
        of_positions = enumerate([bos, residues, operation, residues, equals])
        embedded = [rows + positions[:, i : i + 1] for i, rows in of_positions]
        if shape.blend_window:
            blending = weights["model.blend.alpha"], weights["model.blend.offsets"]
            alone, second, answer = blend_sums(*blending, embedded)
            if self.by_pairs:
                heads = shape.num_attention_heads
                pairs = attend_pairs(weights, "model.layers.0", heads, alone, second, answer)
                states = take(pairs, equations.pair)
                rows = _Positions(weights, shape, workspace, states, equations)
                return rows.feed_forward(0, 0, states)
            nothing = torch.zeros_like(alone[0])
            sums = [equations.sum_operands(*terms, nothing) for terms in (second, answer)]
            embedded = [*alone, *sums]
        start = torch.cat(embedded, dim=1)
        return _Positions(weights, shape, workspace, start, equations).final_states(trace)
