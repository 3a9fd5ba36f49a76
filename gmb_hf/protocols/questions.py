"""A task of a suite as it is asked of many stacked models: its losses, and its results.

The modular suite with the loss at its answers goes through the short forward of `trunk`; all other
rows, languages and positions, and mixers that it does not know, go through the prefix trees of
`rows`. Both are exact, so which of them is taken changes the speed alone.

Shapes: S models, n training rows, m held-out rows, T tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.modeling import GrokkingTransformerConfig
from gmb_hf.protocols.suites import SuiteSettings
from gmb_hf.tasks import TaskData
from gmb_hf.tasks.modular import ModularTask
from gmb_hf.tasks.positions import loss_positions
from gmb_hf.training.equations import Equations, TrunkLayout, unknown_mixers
from gmb_hf.training.fused import Workspace
from gmb_hf.training.row_tree import row_tree
from gmb_hf.training.rows import RowLayout, row_losses, row_results
from gmb_hf.training.stacked_model import pull_matrices
from gmb_hf.training.trunk import answer_logits, answer_losses

Weights = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Asked:
    """The rows of a task and where they are asked.

    Attributes:
        train, test: int64 [n, T] and [m, T].
        positions: those, from 0, whose next token counts.
        vocab_size: tokens are below it.
    """

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    positions: tuple[int, ...]
    vocab_size: int


def asked(suite: SuiteSettings, data: TaskData) -> Asked:
    """What the suite asks of a task with these rows."""
    train = data.input_ids[data.train_index]
    test = data.input_ids[data.test_index]
    if suite.compat_batch:
        train = train[:-1]
    return Asked(train, test, loss_positions(suite.loss_positions, data), data.vocab_size)


class Questions(ABC):
    """One task, asked of S stacked models.

    Attributes:
        pulls: what a step's Hebbian pull does to the embeddings, [S, V, V]; None without it.
    """

    pulls: Tensor | None

    @abstractmethod
    def losses(self, weights: Weights) -> Tensor:
        """Mean loss [S] over the training rows, in nats, with gradients."""

    @abstractmethod
    def results(self, weights: Weights, *, held_out: bool) -> NDArray[np.float64]:
        """Loss and accuracy of every model, [2, S], on held-out or on training rows.

        An answer is right if its token alone scores highest.
        """


def questions(
    suite: SuiteSettings,
    task: str,
    shape: GrokkingTransformerConfig,
    n_models: int,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Questions:
    """A task of the suite, to be asked of so many models of this shape."""
    data = suite.data(task)
    rows = asked(suite, data)
    found: Questions
    learned = suite.build(task)
    at_answers = suite.loss_positions == "answer"
    if isinstance(learned, ModularTask) and at_answers and not unknown_mixers(shape):
        found = _ByTrunk(rows, TrunkLayout.of(shape, learned), n_models, device, dtype)
    else:
        found = _ByRows(rows, RowLayout.of(shape), device, dtype)
    pulls = pull_matrices(torch.from_numpy(rows.train).unsqueeze(0), shape)
    found.pulls = None if pulls is None else pulls.to(device, dtype).expand(n_models, -1, -1)
    return found


class _ByTrunk(Questions):
    def __init__(
        self,
        rows: Asked,
        layout: TrunkLayout,
        n_models: int,
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> None:
        def equations(table: NDArray[np.int64]) -> Equations:
            columns = torch.from_numpy(table[:, [1, 3, 5]].T.copy()).to(device)  # a, b, answer
            each = columns.unsqueeze(1).expand(-1, n_models, -1).contiguous()  # [3, S, rows]
            return Equations.from_operands(*each, residues=layout.residues, dtype=dtype)

        self._layout = layout
        self._train, self._test = equations(rows.train), equations(rows.test)
        self._workspace = Workspace()

    def losses(self, weights: Weights) -> Tensor:
        return answer_losses(weights, self._layout, self._train, self._workspace)[0]

    def results(self, weights: Weights, *, held_out: bool) -> NDArray[np.float64]:
        equations = self._test if held_out else self._train
        logits, _ = answer_logits(weights, self._layout, equations)  # [S, n, V]
        right = logits.gather(-1, equations.answers.unsqueeze(-1))
        losses = logits.logsumexp(-1) - right.squeeze(-1)
        alone = (logits >= right).sum(-1) == 1
        found = torch.stack([losses.double().mean(1), alone.double().mean(1)])
        values: NDArray[np.float64] = found.cpu().numpy()
        return values


class _ByRows(Questions):
    def __init__(
        self, rows: Asked, layout: RowLayout, device: torch.device | str, dtype: torch.dtype
    ) -> None:
        self._layout = layout
        self._train, self._test = (
            row_tree(table, rows.positions, vocab_size=rows.vocab_size, device=device, dtype=dtype)
            for table in (rows.train, rows.test)
        )
        self._workspace = Workspace()

    def losses(self, weights: Weights) -> Tensor:
        return row_losses(weights, self._layout, self._train, self._workspace)

    def results(self, weights: Weights, *, held_out: bool) -> NDArray[np.float64]:
        found = row_results(weights, self._layout, self._test if held_out else self._train)
        values: NDArray[np.float64] = torch.stack(found).double().cpu().numpy()
        return values
