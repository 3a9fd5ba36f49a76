"""The exact forward over any rows of tokens, for many models at once and as short as it can be.

`equations` knows the rows of equations alone; this takes those of any task. In exact arithmetic the
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

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gmb_hf.base.errors import InputError
from gmb_hf.modeling import GrokkingTransformerConfig
from gmb_hf.modeling.mixers import Mixer, mixers_of
from gmb_hf.training import blocks
from gmb_hf.training.blocks import Blocks, Forward, Trace, Weights, Workspace, normalise, take

EMBEDDING, POSITIONS = "model.embed_tokens.weight", "model.embed_positions.weight"

STATE_COST = 128
"""About how many attention scores cost as much as one state; it sets where sharing ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTree:
    """What the forward must know of the rows.

    Attributes:
        tokens, positions: the distinct pairs that some node holds, [G, pairs] each.
        pair: which of them each node holds, [G, N].
        path: the shared nodes of each row in order, [G, n, shared columns].
        visible: whether a shared node sees another, itself and what is before it, [G, M, M].
        example: where each shared node stands in the states of all rows laid end to end: a row
            that passes through it, times all columns, plus the node's column, [G, M].
        targets: the share of all asked tokens that follow an asked node and are this token,
            [G, K, V]; it adds up to 1 over K and V.
        answers: the token that follows each asked position of each row, row by row,
            [G, n x asked positions].
        answer_nodes: the asked node that it follows, [G, n x asked positions].
        asks_shared: whether the asked nodes begin with all the shared ones.
        first_asked: the first own column that is asked; so are all after it.
        own_columns: how many positions a row has of its own.
    """

    tokens: Tensor
    positions: Tensor
    pair: Tensor
    path: Tensor
    visible: Tensor
    example: Tensor
    targets: Tensor
    answers: Tensor
    answer_nodes: Tensor
    asks_shared: bool
    first_asked: int
    own_columns: int

    @property
    def rows(self) -> int:
        """n."""
        return self.path.shape[1]

    @property
    def shared(self) -> int:
        """M, the number of shared nodes."""
        return self.visible.shape[1]

    def of_model(self, index: int) -> RowTree:
        """The tree that one model reads, with G = 1."""
        if len(self.pair) == 1:
            return self
        arrays = {
            name: value[index : index + 1]
            for name in self.__slots__
            if isinstance(value := getattr(self, name), Tensor)
        }
        return dataclasses.replace(self, **arrays)  # type: ignore[arg-type]


def row_tree(
    rows: NDArray[np.int64],
    positions: Sequence[int],
    *,
    vocab_size: int,
    all_rows: NDArray[np.int64] | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> RowTree:
    """The tree of some rows, for a loss that is the mean over rows and positions.

    Args:
        rows: int64 [n, T], read by all models, or [S, n, T], for each model its own.
        positions: those, from 0, whose next token counts, at least one.
        vocab_size: V; every token is below it.
        all_rows: int64 [N, T], all that the rows of a model are drawn from. With them the tree has
            the same shape for every draw, so that a model gives the same bits in any company.
        device, dtype: of the models' weights.

    Raises:
        InputError: there are no rows or positions, a position has no next token, or a token is
            outside the vocabulary.
    """
    if rows.ndim not in (2, 3) or not rows.size:
        raise InputError(f"rows must be tokens [n, T] or [S, n, T], got the shape {rows.shape}")
    length = rows.shape[-1]
    bad = [position for position in positions if not 0 <= position < length - 1]
    if bad or not positions:
        raise InputError(
            f"positions must be of tokens that another one follows, 0 .. {length - 2} in rows of "
            f"{length} tokens; got {bad[0] if bad else 'none'}"
        )
    if rows.min() < 0 or rows.max() >= vocab_size:
        raise InputError(
            f"rows hold tokens {rows.min()} .. {rows.max()}, the model knows 0 .. "
            f"{vocab_size - 1}; take a model of the task's vocabulary"
        )
    asked = sorted(set(positions))
    found = [_Prefixes(own, asked[-1] + 1) for own in rows.reshape(-1, *rows.shape[-2:])]
    # All models have one shape: what one lacks is filled with nodes that nobody asks or sees.
    shaping = found if all_rows is None else [_Prefixes(all_rows, asked[-1] + 1)]
    shared_columns = max(prefixes.best_shared_columns() for prefixes in shaping)
    shared = max(int(prefixes.counts[:shared_columns].sum()) for prefixes in shaping)
    trees = [prefixes.arrays(shared_columns, shared, asked, vocab_size) for prefixes in found]
    whole = {name: _stack([tree[name] for tree in trees]) for name in trees[0]}
    whole["visible"] |= np.eye(whole["visible"].shape[1], dtype=np.bool_)
    pairs = np.concatenate(
        [whole["shared_pair"], whole["own_pair"].reshape(len(found), -1)], axis=1
    )
    distinct = [np.unique(pair, return_inverse=True) for pair in pairs]
    asks_shared = asked[0] < shared_columns
    first_asked = max(0, asked[0] - shared_columns)
    targets = whole["own_targets"][:, :, first_asked:].reshape(len(found), -1, vocab_size)
    if asks_shared:
        targets = np.concatenate([whole["shared_targets"], targets], axis=1)
    held = _stack([values for values, _ in distinct])

    def tensor(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    alike = ("path", "visible", "example", "answers", "answer_nodes")
    return RowTree(
        tokens=tensor(held % vocab_size),
        positions=tensor(held // vocab_size),
        pair=tensor(np.stack([inverse.reshape(-1) for _, inverse in distinct])),
        targets=tensor(targets / (rows.shape[-2] * len(asked))).to(dtype),
        asks_shared=asks_shared,
        first_asked=first_asked,
        own_columns=asked[-1] + 1 - shared_columns,
        **{name: tensor(whole[name]) for name in alike},
    )


def unshared_tree(
    rows: Tensor, positions: Sequence[int], *, vocab_size: int, dtype: torch.dtype = torch.float32
) -> RowTree:
    """The tree of rows that share nothing, made on the rows' device: for rows that are drawn anew.

    Args:
        rows: int64 [1, n, T], read by all models, or [S, n, T], for each model its own.
        positions: those, from 0, whose next token counts, ascending, at least one.
        vocab_size: V; every token is below it.
        dtype: of the models' weights.
    """
    groups, count, _ = rows.shape
    columns, first = positions[-1] + 1, positions[0]
    asked = torch.as_tensor(positions, device=rows.device)
    column, token = (torch.arange(n, device=rows.device) for n in (columns, vocab_size))
    answers = rows[:, :, asked + 1]
    targets = torch.zeros(
        groups, count, columns - first, vocab_size, dtype=dtype, device=rows.device
    )
    at = (asked - first).expand(groups, count, -1)
    share = torch.full(at.shape, 1 / at[0].numel(), dtype=dtype, device=rows.device)
    flat = (at * vocab_size + answers).flatten(2)
    targets.flatten(2).scatter_(2, flat, share)
    nodes = torch.arange(count, device=rows.device)[:, None] * (columns - first) + asked - first
    none = torch.zeros(groups, count, 0, dtype=torch.int64, device=rows.device)
    return RowTree(
        tokens=token.repeat(columns).expand(groups, -1),
        positions=column.repeat_interleave(vocab_size).expand(groups, -1),
        pair=(column * vocab_size + rows[:, :, :columns]).flatten(1),
        path=none,
        visible=none[:, :0].bool(),
        example=none[:, 0],
        targets=targets.flatten(1, 2),
        answers=answers.flatten(1),
        answer_nodes=nodes.flatten().expand(groups, -1),
        asks_shared=False,
        first_asked=first,
        own_columns=columns,
    )


class _Prefixes:
    """The prefixes of one table of rows, [n, T] cut after `columns` tokens.

    Attributes:
        index: of each row's prefix among the distinct ones of its length, [n, columns].
        counts: how many distinct ones there are, [columns].
        leaf: the first row of each distinct whole prefix.
    """

    def __init__(self, rows: NDArray[np.int64], columns: int) -> None:
        self._rows = rows
        self.index = np.empty((len(rows), columns), dtype=np.int64)
        above = np.zeros(len(rows), dtype=np.int64)
        width = int(rows.max()) + 1
        for column in range(columns):
            _, first, above = np.unique(
                above * width + rows[:, column], return_index=True, return_inverse=True
            )
            self.index[:, column] = above
        self.counts = self.index.max(axis=0) + 1
        self.leaf = first

    def best_shared_columns(self) -> int:
        """How many columns to share: sharing saves states, but shared nodes see one another."""
        columns = len(self.counts)
        shared = np.concatenate([[0], np.cumsum(self.counts[:-1])])
        own = len(self.leaf) * np.arange(columns, 0, -1)
        return int(np.argmin(shared + own + shared**2 / STATE_COST))

    def arrays(
        self, shared_columns: int, shared: int, asked: Sequence[int], vocab_size: int
    ) -> dict[str, NDArray[Any]]:
        """The arrays of one tree by their names in `RowTree`, filled up to M = `shared` nodes.

        `shared_pair` [M] and `own_pair` [n, own columns] hold position * V + token,
        `shared_targets` [M, V] and `own_targets` [n, own columns, V] count the next tokens.
        """
        leaves, columns = self.index[self.leaf], self.index.shape[1]
        start = np.concatenate([[0], np.cumsum(self.counts[:shared_columns])])
        pairs = np.arange(columns) * vocab_size + self._rows[self.leaf, :columns]
        path = leaves[:, :shared_columns] + start[:-1]
        # Nodes are numbered column by column, and each one lies on some row's path.
        _, example = np.unique(path, return_index=True)
        row, column = np.divmod(example, max(shared_columns, 1))
        visible = np.zeros((shared, shared), dtype=np.bool_)
        node, before = np.nonzero(np.arange(shared_columns) <= column[:, None])
        visible[node, path[row[node], before]] = True
        filled = (0, shared - len(example))
        shared_targets = np.zeros((shared, vocab_size))
        own_targets = np.zeros((len(leaves), columns - shared_columns, vocab_size))
        first_asked = max(0, asked[0] - shared_columns)
        first_own = shared if asked[0] < shared_columns else 0
        leaf_nodes = first_own + self.index[:, -1] * (columns - shared_columns - first_asked)
        answer_nodes = []
        for position in asked:
            following = self._rows[:, position + 1]
            if position < shared_columns:
                at = self.index[:, position] + start[position]
                np.add.at(shared_targets, (at, following), 1)
                answer_nodes.append(at)
            else:
                own = own_targets[:, position - shared_columns]
                np.add.at(own, (self.index[:, -1], following), 1)
                answer_nodes.append(leaf_nodes + position - shared_columns - first_asked)
        return {
            "shared_pair": np.pad(pairs[row, column], filled),
            "own_pair": pairs[:, shared_columns:],
            "path": path,
            "visible": visible,
            "example": np.pad(row * columns + column, filled),
            "shared_targets": shared_targets,
            "own_targets": own_targets,
            "answers": self._rows[:, np.asarray(asked) + 1].reshape(-1),
            "answer_nodes": np.stack(answer_nodes, axis=1).reshape(-1),
        }


def _stack(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays side by side on a new first axis, each filled up with zeros to the largest shape."""
    shape = np.max([array.shape for array in arrays], axis=0)
    whole = np.zeros((len(arrays), *shape), dtype=arrays[0].dtype)
    for into, array in zip(whole, arrays, strict=True):
        into[tuple(slice(size) for size in array.shape)] = array
    return whole


def attend_in_rows(query: Tensor, key_value: Tensor, heads: int) -> Tensor:
    """Attention of each row's last q positions over its k positions, causal: [S, n, q, d].

    `query` is [S, n, q, d], `key_value` keys and values side by side, [S, n, k, 2d].
    """
    queries, keys = query.shape[2], key_value.shape[2]
    visible = torch.ones(1, queries, keys, dtype=torch.bool, device=query.device)
    visible = visible.tril(keys - queries)
    mixed = attend_visible(query.flatten(0, 1), key_value.flatten(0, 1), visible, heads)
    return mixed.reshape(query.shape)


def attend_visible(query: Tensor, key_value: Tensor, visible: Tensor, heads: int) -> Tensor:
    """Attention of queries [B, q, d] over the keys that each one sees: [B, q, d].

    `key_value` is [B, k, 2d]; `visible`, bool [B or 1, q, k], lets every query see a key.
    """
    keys, values = key_value.split(query.shape[-1], dim=-1)
    asked, seen, held = (
        x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (query, keys, values)
    )
    mixed = functional.scaled_dot_product_attention(
        asked, seen, held, attn_mask=visible.unsqueeze(1)
    )
    return mixed.transpose(1, 2).flatten(-2)


def target_loss(
    x: Tensor, head: Tensor, head_bias: Tensor, targets: Tensor, *, layer_norm: bool = True
) -> Tensor:
    """Cross-entropy of every model, the targets' shares as weights: [S].

    Of the residual stream [S, K, d]; `head` [S, V, d] and `head_bias` [S, 1, V] have the final norm
    folded in where there is one (`layer_norm`), and `targets` are the share of each token after
    each node, [S or 1, K, V].
    """
    normed = normalise(x) if layer_norm else x
    scores = torch.baddbmm(head_bias, normed, head.transpose(1, 2)).log_softmax(-1)
    return -(scores * targets).sum((1, 2))


def target_results(
    x: Tensor, head: Tensor, head_bias: Tensor, targets: Tensor, *, layer_norm: bool = True
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of every model and the share of its targets that score highest: [S] each.

    A tie for the highest is not right. There is no gradient; the arguments are `target_loss`'s.
    """
    normed = normalise(x) if layer_norm else x
    logits = torch.baddbmm(head_bias, normed, head.transpose(1, 2))
    losses = -(logits.log_softmax(-1) * targets).sum((1, 2))
    best = logits == logits.amax(-1, keepdim=True)
    alone = best.sum(-1, keepdim=True) == 1
    return losses, (targets * (best & alone)).sum((1, 2))


class RowForward(Forward):
    """The forward over any rows of any positions.

    Attributes:
        tree: the rows.
    """

    def __init__(self, shape: GrokkingTransformerConfig, tree: RowTree, models: int) -> None:
        self.shape, self.tree = shape, tree
        self.answers = tree.answers.expand(models, -1)
        self._workspace = Workspace()
        self._of_embedding, self._of_blocks = (
            tuple(mixers_of(shape, after_every_block=later).values()) for later in (False, True)
        )

    def _nodes(self, weights: Weights, tree: RowTree, workspace: Workspace) -> Nodes:
        """The blocks over the nodes of a tree, begun with the embedding."""
        states = self.embedded(weights, tree)
        start = _mix(weights, "model", self._of_embedding, states, tree)
        return Nodes(weights, self.shape, workspace, start, tree, self._of_blocks)

    def embedded(self, weights: Weights, tree: RowTree) -> Tensor:
        """The states of all nodes before the first block and the mixers, [S, N, d]."""
        tokens = take(weights[EMBEDDING], tree.tokens)
        positions = take(weights[POSITIONS], tree.positions)
        return take(tokens + positions, tree.pair)

    def read(self, tree: RowTree) -> None:
        """Go on with other rows, of as many models."""
        self.tree, self.answers = tree, tree.answers.expand(len(self.answers), -1)

    def losses(self, weights: Weights, *, keep_logits: bool = False) -> tuple[Tensor, Tensor]:
        states = self._nodes(weights, self.tree, self._workspace).final_states()
        head, targets = blocks.output_head(weights), self.tree.targets
        losses = target_loss(states, *head, targets, layer_norm=self.shape.layer_norm)
        if not keep_logits:
            return losses, losses.new_empty(0)
        with torch.no_grad():
            return losses, take(blocks.head_logits(weights, states)[0], self.tree.answer_nodes)

    @torch.no_grad()
    def logits(self, weights: Weights, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        nodes = self.tree.answer_nodes
        states = self._nodes(weights, self.tree, Workspace()).final_states(trace)
        if trace is not None:
            trace.fast = [take(states, nodes) for states in trace.fast]
            trace.slow = [take(states, nodes) for states in trace.slow]
        logits, hidden = blocks.head_logits(weights, states)
        return take(logits, nodes), take(hidden, nodes)

    @torch.no_grad()
    def results(self, weights: Weights) -> tuple[Tensor, Tensor]:
        """Loss [S] and share of right answers [S], no gradient; a tie is not right.

        Models are taken one by one, so that it takes no more memory than one of them needs.
        """
        results = []
        for index in range(len(self.answers)):
            one = {name: weight[index : index + 1] for name, weight in weights.items()}
            tree = self.tree.of_model(index)
            states = self._nodes(one, tree, Workspace()).final_states()
            head, layer_norm = blocks.output_head(one), self.shape.layer_norm
            results.append(target_results(states, *head, tree.targets, layer_norm=layer_norm))
        losses, accuracies = zip(*results, strict=True)
        return torch.cat(losses), torch.cat(accuracies)


class VectorForward(RowForward):
    """The forward over rows of real vectors, whose answer is one output: squared errors.

    A vector is read by the linear layer whose weight the embedding is (token v is the unit vector
    v), so that an ordinary model reads vectors as `inputs_embeds=values @ embedding`.

    Args:
        shape: of the models, of which there are S.
        values: [S, n, T, V], in the dtype of the weights.
        positions: those whose answer counts, as of `unshared_tree`.
        answers: [S, n, A], the number after each of them.
        output: which output is the answer.
    """

    def __init__(
        self,
        shape: GrokkingTransformerConfig,
        values: Tensor,
        positions: Sequence[int],
        answers: Tensor,
        output: int,
    ) -> None:
        models, count, _, words = values.shape
        blank = torch.zeros(1, count, positions[-1] + 2, dtype=torch.int64, device=values.device)
        tree = unshared_tree(blank, positions, vocab_size=words, dtype=values.dtype)
        super().__init__(shape, tree, models)
        self._values, self._targets, self._output = values, answers.flatten(1), output

    def embedded(self, weights: Weights, tree: RowTree) -> Tensor:
        columns = tree.own_columns
        read = self._values[:, :, :columns].flatten(1, 2) @ weights[EMBEDDING]
        return read + weights[POSITIONS][:, :columns].repeat(1, tree.rows, 1)

    def errors(self, weights: Weights) -> Tensor:
        """The squared error of every answer, row by row, [S, n x A], with gradients."""
        states = self._nodes(weights, self.tree, self._workspace).final_states()
        asked = take(states, self.tree.answer_nodes)
        head, bias = blocks.output_head(weights)
        normed = normalise(asked) if self.shape.layer_norm else asked
        found = normed @ head[:, self._output].unsqueeze(-1)
        errors: Tensor = (found.squeeze(-1) + bias[:, :, self._output] - self._targets).square()
        return errors


@dataclass(frozen=True, slots=True, eq=False)
class Nodes(Blocks):
    """The blocks over all nodes of a tree, [S, N, d]; those that are asked, [S, K, d], are read."""

    tree: RowTree
    mixers: tuple[Mixer, ...]

    def block(self, layer: int, application: int, states: Tensor, *, asked_alone: bool) -> Tensor:
        weights, heads, tree = self.weights, self.shape.num_attention_heads, self.tree
        prefix = f"model.layers.{layer}"
        few = asked_alone and not self.mixers
        normed = self.read(states)
        asking = self.asked(normed) if few else None
        residual = self.asked(states) if few else states
        query, key_value = blocks.query_key_value(weights, prefix, normed, asking)
        shared = tree.shared if tree.asks_shared or not few else 0
        of_shared, of_own = query.split([shared, query.shape[1] - shared], dim=1)
        own_query = of_own.unflatten(1, (tree.rows, -1))
        mixed = attend_in_rows(own_query, along_rows(key_value, tree), heads).flatten(1, 2)
        if shared:
            seen = key_value[:, : tree.shared]
            of_shared = attend_visible(of_shared, seen, tree.visible, heads)
            mixed = torch.cat([of_shared, mixed], dim=1)
        states = self.after_attention(layer, application, mixed, residual)
        states = _mix(weights, prefix, self.mixers, states, tree)
        return self.asked(states) if asked_alone and not few else states

    def asked(self, states: Tensor) -> Tensor:
        """Those of all nodes that are asked: [S, N, c] -> [S, K, c]."""
        tree = self.tree
        if tree.asks_shared:
            return states  # and so are all after the shared ones
        own = states[:, tree.shared :].view(len(states), tree.rows, -1, states.shape[-1])
        return own[:, :, tree.first_asked :].flatten(1, 2)


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


def along_rows(x: Tensor, tree: RowTree) -> Tensor:
    """Every row's nodes in the order of its tokens: [S, N, c] -> [S, n, T, c]."""
    shared, own = x.split([tree.shared, x.shape[1] - tree.shared], dim=1)
    seen = take(shared, tree.path.flatten(1)).unflatten(1, tree.path.shape[1:])
    return torch.cat([seen, own.unflatten(1, (tree.rows, -1))], dim=2)


def from_rows(x: Tensor, tree: RowTree) -> Tensor:
    """One of each node's copies, all of which are equal: [S, n, T, c] -> [S, N, c]."""
    shared = take(x.flatten(1, 2), tree.example)
    return torch.cat([shared, x[:, :, tree.path.shape[2] :].flatten(1, 2)], dim=1)
