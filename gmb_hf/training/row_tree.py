"""Rows of tokens as a tree of their prefixes, so that equal prefixes are computed once.

The state of a causal model at a position depends on the prefix up to it and on nothing after it.
The first positions of many rows have few prefixes: each is one *shared* node. From some position
on a prefix belongs to one row or nearly so: those nodes are a row's *own*, [n, columns] of them,
and a row's keys are its shared ones and its own side by side. Positions after the last one whose
next token is asked for are left out.

Shapes: G is 1 where all models read the same rows, else the number of models; n rows, N nodes (M
shared ones, then n times the own columns), K asked nodes, V vocabulary.
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

from gmb_hf.validation import InputError

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
        arrays = ("tokens", "positions", "pair", "path", "visible", "example", "targets")
        own: dict[str, Any] = {name: getattr(self, name)[index : index + 1] for name in arrays}
        return dataclasses.replace(self, **own)

    @property
    def columns(self) -> int:
        """The positions that are computed at all."""
        return self.path.shape[2] + self.own_columns


def row_tree(
    rows: NDArray[np.int64],
    positions: Sequence[int],
    *,
    vocab_size: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> RowTree:
    """The tree of some rows, for a loss that is the mean over rows and positions.

    Args:
        rows: int64 [n, T], read by all models, or [S, n, T], for each model its own.
        positions: those, from 0, whose next token counts, at least one.
        vocab_size: V; every token is below it.
        device, dtype: of the models' weights.

    Raises:
        InputError: there are no rows or positions, a position has no next token, or a token is
            outside the vocabulary.
    """
    _check(rows, positions, vocab_size)
    asked = sorted(set(positions))
    found = [_Prefixes(own, asked[-1] + 1) for own in rows.reshape(-1, *rows.shape[-2:])]
    # All models have one shape: what one lacks is filled with nodes that nobody asks or sees.
    shared_columns = max(prefixes.best_shared_columns() for prefixes in found)
    parts = [prefixes.parts(shared_columns, asked, vocab_size) for prefixes in found]
    whole = {name: _stack([part[name] for part in parts]) for name in parts[0]}
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

    return RowTree(
        tokens=tensor(held % vocab_size),
        positions=tensor(held // vocab_size),
        pair=tensor(np.stack([inverse.reshape(-1) for _, inverse in distinct])),
        path=tensor(whole["path"]),
        visible=tensor(whole["visible"]),
        example=tensor(whole["example"]),
        targets=tensor(targets / (rows.shape[-2] * len(asked))).to(dtype),
        asks_shared=asks_shared,
        first_asked=first_asked,
        own_columns=asked[-1] + 1 - shared_columns,
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

    def parts(
        self, shared_columns: int, asked: Sequence[int], vocab_size: int
    ) -> dict[str, NDArray[Any]]:
        """The arrays of one tree by their names in `RowTree`, in pieces that can be filled up.

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
        visible = np.zeros((start[-1], start[-1]), dtype=np.bool_)
        node, before = np.nonzero(np.arange(shared_columns) <= column[:, None])
        visible[node, path[row[node], before]] = True
        shared_targets = np.zeros((start[-1], vocab_size))
        own_targets = np.zeros((len(leaves), columns - shared_columns, vocab_size))
        for position in asked:
            following = self._rows[:, position + 1]
            if position < shared_columns:
                at = self.index[:, position] + start[position]
                np.add.at(shared_targets, (at, following), 1)
            else:
                own = own_targets[:, position - shared_columns]
                np.add.at(own, (self.index[:, -1], following), 1)
        return {
            "shared_pair": pairs[row, column],
            "own_pair": pairs[:, shared_columns:],
            "path": path,
            "visible": visible,
            "example": row * columns + column,
            "shared_targets": shared_targets,
            "own_targets": own_targets,
        }


def _stack(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays side by side on a new first axis, each filled up with zeros to the largest shape."""
    shape = np.max([array.shape for array in arrays], axis=0)
    whole = np.zeros((len(arrays), *shape), dtype=arrays[0].dtype)
    for into, array in zip(whole, arrays, strict=True):
        into[tuple(slice(size) for size in array.shape)] = array
    return whole


def _check(rows: NDArray[np.int64], positions: Sequence[int], vocab_size: int) -> None:
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
