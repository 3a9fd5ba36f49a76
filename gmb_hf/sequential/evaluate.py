"""Evaluate a saved model on every task of a suite, through the Hugging Face model's own forward.

It gives the numbers of the matrix to rounding, from the files of `save_pretrained` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.documents import Record
from gmb_hf.errors import InputError
from gmb_hf.files import write_json
from gmb_hf.modeling import GrokkingTransformerForCausalLM
from gmb_hf.sequential.config import SequentialConfig, SuiteSettings
from gmb_hf.sequential.folder import DESIGN, read_design
from gmb_hf.sequential.run import sequential_config
from gmb_hf.sequential.train import task_rows
from gmb_hf.training.checkpoints import load_model
from gmb_hf.training.launch import chosen_device

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
        suite: whose tasks it shall be evaluated on.
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
        rows = task_rows(suite, suite.data(task))
        positions = torch.tensor(rows.positions)
        parts = [
            _losses(model, torch.from_numpy(part), positions)
            for part in np.array_split(rows.test, -(-len(rows.test) // ROWS_AT_ONCE))
        ]
        loss, right = np.concatenate(parts, axis=1).mean(axis=1)
        found.append(TaskResult(task, float(loss), float(right)))
    return found


def _losses(
    model: GrokkingTransformerForCausalLM, rows: Tensor, positions: Tensor
) -> NDArray[np.float64]:
    """Loss and correctness at every query position of some rows, [2, rows x positions]."""
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


@dataclass(frozen=True)
class Evaluated:
    """Results of a checkpoint.

    Attributes:
        results: of every task of the suite.
        design: the run's design that the suite was taken from; None where preset and options said.
        path: where the results were written.
    """

    results: list[TaskResult]
    design: Path | None
    path: Path


def evaluate_checkpoint(
    checkpoint: str | Path,
    suite: str,
    out: str | Path,
    *,
    preset: str | None = None,
    options: Mapping[str, object] | None = None,
    changes: Sequence[str] = (),
    device: str = "auto",
) -> Evaluated:
    """Evaluate a saved model on every task of a suite.

    Args:
        checkpoint: a folder that `save_pretrained` left.
        suite: "modular" or "formal".
        out: the JSON file to write.
        preset: whose prime, tokens and split are taken. Without it they are those of the run that
            the checkpoint lies in, if there is one of this suite; else of `quick`.
        options, changes: as in `sequential_config`; any of them, too, takes a preset.
        device: "auto", "cpu" or "cuda".

    Raises:
        InputError: no whole model, one of another vocabulary or too short a block, or bad options.
    """
    given = {name: value for name, value in (options or {}).items() if value is not None}
    config = sequential_config(suite, preset or "quick", given, changes)
    design = None
    if preset is None and not given and not changes:
        design, config = _own_design(Path(checkpoint), config)
    model = load_model(checkpoint)
    check_fits(model, config.suite, str(checkpoint))
    model.to(chosen_device(device))
    results = evaluate_model(model, config.suite)
    content = {
        "checkpoint": str(checkpoint),
        "suite": config.design()["suite"],
        "fingerprints": config.suite.fingerprints(),
        "tasks": [result.to_dict() for result in results],
    }
    return Evaluated(results, design, write_json(out, content))


def _own_design(
    checkpoint: Path, default: SequentialConfig
) -> tuple[Path | None, SequentialConfig]:
    """The design of the run that a checkpoint lies in, if it is of the same suite."""
    for folder in checkpoint.resolve().parents:
        path = folder / DESIGN
        if path.is_file():
            config = read_design(path)
            if config.suite.name == default.suite.name:
                return path, config
    return None, default
