"""A saved model on every task of a suite, through the model itself and no short forward.

It gives the numbers of the matrix to rounding, from what `save_pretrained` left alone.
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
from gmb_hf.sequential.config import SequentialConfig
from gmb_hf.sequential.run import sequential_config
from gmb_hf.sequential.suites import SuiteSettings
from gmb_hf.sequential.train import asked
from gmb_hf.training.checkpoints import load_model

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


# A checkpoint on every task of a suite: which design it belongs to, and what it answers.


_DESIGN = "sequential.yaml"


@dataclass(frozen=True)
class Evaluated:
    """What a checkpoint answers.

    Attributes:
        results: of every task of the suite.
        design: the file that said how the tasks are asked, or None: the preset and options did.
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
    from gmb_hf.training.launch import chosen_device

    given = {name: value for name, value in (options or {}).items() if value is not None}
    asked = sequential_config(suite, preset or "quick", given, changes)
    design = None
    if preset is None and not given and not changes:
        design, asked = _own_design(Path(checkpoint), asked)
    model = load_model(checkpoint)
    check_fits(model, asked.suite, str(checkpoint))
    model.to(chosen_device(device))
    results = evaluate_model(model, asked.suite)
    content = {
        "checkpoint": str(checkpoint),
        "suite": asked.design()["suite"],
        "fingerprints": asked.suite.fingerprints(),
        "tasks": [result.to_dict() for result in results],
    }
    return Evaluated(results, design, write_json(out, content))


def _own_design(
    checkpoint: Path, default: SequentialConfig
) -> tuple[Path | None, SequentialConfig]:
    """The design of the run that a checkpoint lies in, if it is of the same suite."""
    from gmb_hf.sequential.folder import read_design

    for folder in checkpoint.resolve().parents:
        path = folder / _DESIGN
        if path.is_file():
            config = read_design(path)
            if config.suite.name == default.suite.name:
                return path, config
    return None, default
