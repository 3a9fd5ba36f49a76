"""The exact forward over any rows of tokens, for many models at once and as short as it can be.

`trunk` knows the one row `BOS a OP b EQ`; this knows none in particular. In exact arithmetic the
following give the model's own loss and gradients:

- a state depends on its prefix alone, so equal prefixes are one node of a `RowTree`, and norms,
  projections and MLP run over nodes;
- positions after the last one whose next token is asked for are left out;
- in the last layer only the asked nodes have queries and an MLP, unless a mixer reads the rest;
  where layers are looped, in its last application (`loops`).

Mixers run over the rows in full, and one copy of each node is kept. Bands are zeros in the
weights and the pull of neighbours acts on the embeddings before a step: neither is seen here.

Shapes: S models, n rows, T columns, N nodes, K asked nodes, d width, V vocabulary.
Equality with the model's own forward: `tests/training/test_rows.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gmb_hf.modeling import GrokkingTransformerConfig
from gmb_hf.modeling.mixers import Mixer, mixers_of
from gmb_hf.training.block import Weights, after_attention, output_head, query_key_value
from gmb_hf.training.fused import Workspace, normalise
from gmb_hf.training.loops import Loops, final_states
from gmb_hf.training.row_attention import attend_in_rows, attend_visible
from gmb_hf.training.row_loss import target_loss, target_results
from gmb_hf.training.row_tree import RowTree
from gmb_hf.training.take import take


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """What the forward must know beside the weights.

    Attributes:
        layers, heads: of the transformer.
        activation: of the MLP, "relu" or "gelu_new".
        embedding_mixers, block_mixers: those after the embedding and those after every block.
        loops: how often the layers are applied, None where it is once.
    """

    layers: int
    heads: int
    activation: str
    embedding_mixers: tuple[Mixer, ...] = ()
    block_mixers: tuple[Mixer, ...] = ()
    loops: Loops | None = None

    @classmethod
    def of(cls, config: GrokkingTransformerConfig) -> RowLayout:
        """That of a model with this config."""
        return cls(
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            activation=config.hidden_act,
            embedding_mixers=tuple(mixers_of(config, after_every_block=False).values()),
            block_mixers=tuple(mixers_of(config, after_every_block=True).values()),
            loops=Loops.of(config),
        )


def row_losses(weights: Weights, layout: RowLayout, tree: RowTree, workspace: Workspace) -> Tensor:
    """Mean cross-entropy of every model over rows and asked positions, in nats: [S].

    Args:
        weights: the model's state dict with a leading axis of models on every tensor.
        layout: the model's shape.
        tree: the rows, and the positions whose next token counts.
        workspace: buffers that the caller keeps between steps.
    """
    states = asked_states(weights, layout, tree, workspace)
    return target_loss(states, *output_head(weights), tree.targets)


def asked_states(
    weights: Weights, layout: RowLayout, tree: RowTree, workspace: Workspace
) -> Tensor:
    """The residual stream at the asked nodes, before the final norm: [S, K, d].

    The arguments are those of `row_losses`.
    """
    states = _mix(weights, "model", layout.embedding_mixers, _embed(weights, tree), tree)
    rows = _Nodes(weights, layout, tree, workspace, states)
    return final_states(weights, layout.loops, layout.layers, states, rows)


@dataclass(frozen=True, slots=True)
class _Nodes:
    """All nodes of a tree, and the blocks over them."""

    weights: Weights
    layout: RowLayout
    tree: RowTree
    workspace: Workspace
    start: Tensor

    def block(self, layer: int, application: int, states: Tensor, *, asked_alone: bool) -> Tensor:
        """The states after a layer, [S, N, d], or those of the asked nodes, [S, K, d]."""
        weights, layout, tree = self.weights, self.layout, self.tree
        prefix = f"model.layers.{layer}"
        few = asked_alone and not layout.block_mixers
        mixed, residual = _attend(weights, prefix, states, tree, layout.heads, few)
        states = after_attention(
            weights,
            prefix,
            mixed,
            residual,
            layout.activation,
            self.workspace,
            application=application,
        )
        states = _mix(weights, prefix, layout.block_mixers, states, tree)
        return asked_nodes(states, tree) if asked_alone and not few else states

    def embedded(self) -> Tensor:
        """The embedding of all nodes, [S, N, d]."""
        return self.start

    def asked(self, states: Tensor) -> Tensor:
        """Those of the asked nodes, [S, K, d]."""
        return asked_nodes(states, self.tree)


def _embed(weights: Weights, tree: RowTree) -> Tensor:
    """The state of every node before the first layer, [S, N, d]."""
    tokens = take(weights["model.embed_tokens.weight"], tree.tokens)
    positions = take(weights["model.embed_positions.weight"], tree.positions)
    return take(tokens + positions, tree.pair)


def _attend(
    weights: Weights, prefix: str, states: Tensor, tree: RowTree, heads: int, asked_alone: bool
) -> tuple[Tensor, Tensor]:
    """Mixed values and the states that they are added to, of all nodes or of the asked ones."""
    normed = normalise(states)
    asking = asked_nodes(normed, tree) if asked_alone else None
    residual = asked_nodes(states, tree) if asked_alone else states
    query, key_value = query_key_value(weights, prefix, normed, asking)
    shared = tree.shared if tree.asks_shared or not asked_alone else 0
    of_shared, of_own = query.split([shared, query.shape[1] - shared], dim=1)
    own_query = of_own.unflatten(1, (tree.rows, -1))
    mixed = attend_in_rows(own_query, along_rows(key_value, tree), heads).flatten(1, 2)
    if shared:
        seen = key_value[:, : tree.shared]
        mixed = torch.cat([attend_visible(of_shared, seen, tree.visible, heads), mixed], dim=1)
    return mixed, residual


def _mix(
    weights: Weights, place: str, mixers: tuple[Mixer, ...], states: Tensor, tree: RowTree
) -> Tensor:
    """The states of all nodes after the mixers of one place in the model, [S, N, d]."""
    if not mixers:
        return states
    rows: Tensor = along_rows(states, tree)
    for mixer in mixers:
        own = {name: weights[f"{place}.{mixer.name}.{name}"] for name in mixer.start()}
        rows = torch.vmap(mixer.mix)(rows, own)
    return from_rows(rows, tree)


def asked_nodes(x: Tensor, tree: RowTree) -> Tensor:
    """Those of all nodes that are asked: [S, N, c] -> [S, K, c]."""
    if tree.asks_shared:
        return x  # and so are all after the shared ones
    own = x[:, tree.shared :].view(len(x), tree.rows, -1, x.shape[-1])
    return own[:, :, tree.first_asked :].flatten(1, 2)


def along_rows(x: Tensor, tree: RowTree) -> Tensor:
    """Every row's nodes in the order of its tokens: [S, N, c] -> [S, n, T, c]."""
    shared, own = x.split([tree.shared, x.shape[1] - tree.shared], dim=1)
    seen = take(shared, tree.path.flatten(1)).unflatten(1, tree.path.shape[1:])
    return torch.cat([seen, own.unflatten(1, (tree.rows, -1))], dim=2)


def from_rows(x: Tensor, tree: RowTree) -> Tensor:
    """One of each node's copies, all of which are equal: [S, n, T, c] -> [S, N, c]."""
    shared = take(x.flatten(1, 2), tree.example)
    return torch.cat([shared, x[:, :, tree.path.shape[2] :].flatten(1, 2)], dim=1)


@torch.no_grad()
def row_results(weights: Weights, layout: RowLayout, tree: RowTree) -> tuple[Tensor, Tensor]:
    """Loss [S] and accuracy [S] of every model, without gradients.

    The accuracy is the share of asked tokens that score highest; a tie is not right. Models are
    taken one by one, so that it takes no more memory than one of them needs.

    Args:
        weights, layout, tree: as in `row_losses`.
    """
    count = len(weights["model.norm.weight"])
    results = []
    for index in range(count):
        one = {name: weight[index : index + 1] for name, weight in weights.items()}
        own = tree.of_model(index)
        states = asked_states(one, layout, own, Workspace())
        results.append(target_results(states, *output_head(one), own.targets))
    losses, accuracies = zip(*results, strict=True)
    return torch.cat(losses), torch.cat(accuracies)
