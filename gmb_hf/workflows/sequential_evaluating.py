"""A checkpoint on every task of a suite: which design it belongs to, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gmb_hf.jsonfile import write_json
from gmb_hf.protocols.sequential_settings import SequentialConfig
from gmb_hf.workflows.saved_models import load_model
from gmb_hf.workflows.sequential import sequential_config

if TYPE_CHECKING:
    from gmb_hf.protocols.evaluating import TaskResult

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
    from gmb_hf.protocols.evaluating import check_fits, evaluate_model
    from gmb_hf.training.devices import chosen_device

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
    from gmb_hf.protocols.sequential_folder import read_design

    for folder in checkpoint.resolve().parents:
        path = folder / _DESIGN
        if path.is_file():
            config = read_design(path)
            if config.suite.name == default.suite.name:
                return path, config
    return None, default
