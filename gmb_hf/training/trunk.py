"""The exact short forward for `BOS a OP b EQ answer`, over many seeds at once.

A full forward of the eight tokens computes much that no answer depends on. In exact arithmetic
the following give the same loss and the same gradients, and that is all that is left out:

- positions after EQ: causal attention never reads them;
- all but one query in the last layer: only the state at EQ reaches the answer;
- repeated states: BOS, OP and EQ are one row each before the first layer, `a` and `b` one row per
  residue; after it BOS is still one row, `a` and OP depend on `a` alone. Only `b` and EQ have one
  row per equation.

In the first layer an attention weight depends on `a` or on `b` alone (EQ) or on the pair (b), so
that numerator and denominator of the softmax are sums of table rows (`short_attention`).

Variants: embeddings that are blended have one row per equation at `b` and EQ from the start, and no
tables (in a model of one layer they stay sums of table rows, `pair_attention`); states that are
sorted are needed at every position of the last layer too (`mixed_rows`). Layers that are looped
have tables at their very first application, and EQ alone at their very last (`loops`). Bands are
zeros in the weights, and the pull of neighbours acts on the embeddings before a step: neither
changes the forward.

Shapes: S seeds, n equations, p residues, d width, h heads, f hidden units, V vocabulary.
Equality with the model's own forward: `tests/training/test_trunk.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gmb_hf.training.attention import (
    Equations,
    QueryKeyValue,
    TrunkLayout,
    attend_pairs,
    attend_rows,
    attend_tables,
    blend,
    blend_sums,
    row_counts,
    sort,
    table_rows,
)
from gmb_hf.training.blocks import (
    Forward,
    Trace,
    Weights,
    Workspace,
    after_attention,
    answer_loss,
    feed_forward,
    final_states,
    normalise,
    output_head,
    query_key_value,
    take,
)

MAX_PAIRS = 2.5  # pairs of operands per equation up to which all of them cost less than rows do


def answer_states(
    weights: Weights,
    layout: TrunkLayout,
    equations: Equations,
    workspace: Workspace,
    trace: Trace | None = None,
) -> Tensor:
    """The residual stream at EQ after the last layer, before the final norm: [S, n, d].

    Args:
        weights: the model's state dict with a leading axis of seeds on every tensor.
        layout: the model's shape and the task's tokens.
        equations: of every seed.
        workspace: buffers that the caller keeps between steps.
        trace: is given the states of all steps of a model with loops.
    """
    if _by_pairs(layout, equations):
        return _states_of_pairs(weights, layout, equations, workspace)
    states = _embed(weights, layout, equations)
    rows = _Rows(weights, layout, equations, workspace, states)
    return final_states(weights, layout.loops, layout.layers, states, rows, trace)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the five positions, and the blocks over them; EQ is asked."""

    weights: Weights
    layout: TrunkLayout
    equations: Equations
    workspace: Workspace
    start: Tensor  # as `_embed` gives it

    def block(self, layer: int, application: int, states: Tensor, *, asked_alone: bool) -> Tensor:
        """The states after a layer, [S, 1 + 2p + 2n, d], or those at EQ, [S, n, d]."""
        weights, layout, equations = self.weights, self.layout, self.equations
        prefix = f"model.layers.{layer}"
        # A layer that is mixed afterwards is needed at every position, also if it is the last.
        equals_alone = asked_alone and not _sorts(layout)
        by_tables = layer == application == 0 and not layout.blend_window
        asking = equations.answers.shape[1] if equals_alone and not by_tables else None
        query_key_value = _project(weights, prefix, states, queries=asking)
        attend = attend_tables if by_tables else attend_rows
        mixed, residual = attend(query_key_value, states, layout, equations, equals_alone)
        states = after_attention(
            weights,
            prefix,
            mixed,
            residual,
            layout.activation,
            self.workspace,
            application=application,
        )
        if _sorts(layout):
            states = _sort(weights, prefix, states, layout, equations, asked_alone)
        return states

    def embedded(self) -> Tensor:
        """The embedding of all rows, [S, 1 + 2p + 2n, d]."""
        if self.layout.blend_window:
            return self.start
        return table_rows(self.start, self.layout, self.equations)

    def asked(self, states: Tensor) -> Tensor:
        """Those at EQ, [S, n, d]."""
        equals: Tensor = states.split(row_counts(self.layout, self.equations), dim=1)[4]
        return equals


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
    head, bias = output_head(weights)
    return answer_loss(states, head, bias, equations.answers, keep_logits=keep_logits)


class EquationForward(Forward):
    """The short forward over the equations of every seed.

    Attributes:
        layout: the model's shape and the task's tokens.
        equations: of every seed.
    """

    MIXERS = ("sort", "blend")
    """Those that it has formulas for."""

    def __init__(self, layout: TrunkLayout, equations: Equations) -> None:
        self.layout, self.equations = layout, equations
        self.answers = equations.answers
        self._workspace = Workspace()

    def losses(self, weights: Weights, *, keep_logits: bool = False) -> tuple[Tensor, Tensor]:
        return answer_losses(
            weights, self.layout, self.equations, self._workspace, keep_logits=keep_logits
        )

    def logits(self, weights: Weights, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        return answer_logits(weights, self.layout, self.equations, trace)


@torch.no_grad()
def answer_logits(
    weights: Weights, layout: TrunkLayout, equations: Equations, trace: Trace | None = None
) -> tuple[Tensor, Tensor]:
    """Logits [S, n, V] and final hidden states [S, n, d] (after the last norm), no gradient.

    `trace` is given the states of all steps of a model with loops.
    """
    states = answer_states(weights, layout, equations, Workspace(), trace)
    head, bias = output_head(weights)
    normed = normalise(states)
    gain = weights["model.norm.weight"].unsqueeze(1)
    hidden = torch.addcmul(weights["model.norm.bias"].unsqueeze(1), normed, gain)
    return torch.baddbmm(bias, normed, head.transpose(1, 2)), hidden


def _embed(weights: Weights, layout: TrunkLayout, equations: Equations) -> Tensor:
    """States before the first layer: BOS, a (p rows), OP, b (p rows), EQ; [S, 2p + 3, d].

    Where embeddings are blended, the rows of a later layer: [S, 1 + 2p + 2n, d].
    """
    states = _embedded(weights, layout)
    if layout.blend_window:
        states = blend(*_blending(weights), states, equations)
    return torch.cat(states, dim=1)


def _embedded(weights: Weights, layout: TrunkLayout) -> list[Tensor]:
    """Token and position of BOS, a (p rows), OP, b (p rows) and EQ, [S, rows, d] each."""
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
    return [row + positions[:, i : i + 1] for i, row in enumerate(rows)]


def _blending(weights: Weights) -> tuple[Tensor, Tensor]:
    return weights["model.blend.alpha"], weights["model.blend.offsets"]


def _by_pairs(layout: TrunkLayout, equations: Equations) -> bool:
    """Whether EQ alone attends to blended embeddings, and most pairs are asked for."""
    few = layout.residues**2 > MAX_PAIRS * equations.answers.shape[1]
    return bool(layout.blend_window) and layout.layers == 1 and not _sorts(layout) and not few


def _states_of_pairs(
    weights: Weights, layout: TrunkLayout, equations: Equations, workspace: Workspace
) -> Tensor:
    """`answer_states` of a single layer by way of all pairs of operands."""
    layer = "model.layers.0"
    blended = blend_sums(*_blending(weights), _embedded(weights, layout))
    states = take(attend_pairs(weights, layer, layout.heads, *blended), equations.pair)
    return feed_forward(weights, layer, states, layout.activation, workspace)


def _sorts(layout: TrunkLayout) -> bool:
    return (layout.sort_window or 1) > 1  # a state that sees itself alone stays


def _sort(
    weights: Weights,
    prefix: str,
    states: Tensor,
    layout: TrunkLayout,
    equations: Equations,
    last: bool,
) -> Tensor:
    """The states after a block, mixed with alike ones; in the last layer those at EQ alone."""
    alpha, tau = weights[f"{prefix}.sort.alpha"], weights[f"{prefix}.sort.tau"]
    parts = states.split(row_counts(layout, equations), dim=1)
    return torch.cat(sort(alpha, tau, parts, layout.sort_window or 1, equations, last), dim=1)


def _project(
    weights: Weights, prefix: str, states: Tensor, *, queries: int | None
) -> QueryKeyValue:
    """Keys and values of all rows and the queries of the last `queries` rows (None: of all)."""
    normed = normalise(states)
    asking = None
    if queries is not None:
        asking = normed.split([normed.shape[1] - queries, queries], dim=1)[1]
    query, key_value = query_key_value(weights, prefix, normed, asking)
    key, value = key_value.split(states.shape[2], dim=-1)
    return query, key, value
