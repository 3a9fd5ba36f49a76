"""A saved model on every task of a suite, through the model itself and no short forward.

It gives the numbers of the matrix to rounding, from what `save_pretrained` left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.benchmark.record import Record
from gmb_hf.modeling import GrokkingTransformerForCausalLM
from gmb_hf.protocols.questions import asked
from gmb_hf.protocols.suites import SuiteSettings
from gmb_hf.validation import InputError

ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class TaskResult(Record):
    """Loss (nats a token) and accuracy on the held-out rows of a task."""

    task: str
    loss: float
    accuracy: float


def check_fits(model: GrokkingTransformerForCausalLM, suite: SuiteSettings, where: str) -> None:
    """Refuse a model of another vocabulary, or of too short a block.

    Args:
        model: from a checkpoint.
        suite: that it shall be asked.
        where: the checkpoint, for the message.

    Raises:
        InputError: it knows another number of tokens, or reads fewer positions than a row has.
    """
    config = model.config
    rule = f", p = {suite.prime}, {suite.op_token} tokens" if suite.prime else ""
    if config.vocab_size != suite.vocab_size:
        raise InputError(
            f"{where}: the model knows {config.vocab_size} tokens, the suite {suite.name}{rule} "
            f"has {suite.vocab_size}; name the suite that it was trained on, with --prime and "
            "--op-token"
        )
    for task in suite.tasks:
        length = suite.build(task).sequence_length
        if length > config.max_position_embeddings:
            raise InputError(
                f"{where}: rows of {task} have {length} tokens, the model's block "
                f"(max_position_embeddings) is {config.max_position_embeddings}; name the suite "
                "that it was trained on"
            )


@torch.no_grad()
def evaluate_model(model: GrokkingTransformerForCausalLM, suite: SuiteSettings) -> list[TaskResult]:
    """The held-out loss and accuracy of a model on every task of a suite.

    Args:
        model: in evaluation mode, on any device; `check_fits` has passed it.
        suite: tasks, tokens and the positions that count.
    """
    found = []
    for task in suite.tasks:
        data = suite.data(task)
        rows = asked(suite, data)
        positions = torch.tensor(rows.positions)
        parts = [
            _answered(model, torch.from_numpy(part), positions)
            for part in np.array_split(rows.test, -(-len(rows.test) // ROWS_AT_ONCE))
        ]
        loss, right = np.concatenate(parts, axis=1).mean(axis=1)
        found.append(TaskResult(task, float(loss), float(right)))
    return found


def _answered(
    model: GrokkingTransformerForCausalLM, rows: Tensor, positions: Tensor
) -> NDArray[np.float64]:
    """Loss and rightness at every asked position of some rows, [2, rows x positions]."""
    rows = rows.to(model.device)
    logits = model(rows).logits[:, positions]  # [n, P, V]
    targets = rows[:, positions + 1].unsqueeze(-1)
    score = logits.gather(-1, targets)
    loss = logits.logsumexp(-1) - score.squeeze(-1)
    alone = (logits >= score).sum(-1) == 1
    values: NDArray[np.float64] = (
        torch.stack([loss.double(), alone.double()]).flatten(1).cpu().numpy()
    )
    return values
