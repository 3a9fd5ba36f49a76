"""The half-finished training of a group of seeds, on disk: safetensors, written atomically.

It holds all that is needed to go on as if nothing had happened: weights, optimizer moments, the
step, the last predictions and every row of the log so far.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from gmb_hf.files import atomic_path, clear_os_errors
from gmb_hf.validation import InputError

_PREDICTIONS = "predictions"
_ROW = "row."


@dataclass
class Rows:
    """The log of a group so far: the steps measured and one [T, S] stack per observable."""

    steps: list[int] = field(default_factory=list)
    values: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)

    def add(self, step: int, found: dict[str, NDArray[np.float64]]) -> None:
        """Append the observables [S] of one checkpoint."""
        self.steps.append(step)
        for name, value in found.items():
            self.values.setdefault(name, []).append(value)


@dataclass(frozen=True)
class Saved:
    """What `load` found: tensors of the ensemble, the last predictions, and the rows."""

    tensors: dict[str, Tensor]
    predictions: Tensor | None
    rows: Rows


def state_path(folder: Path, seeds: Sequence[int]) -> Path:
    """Where the unfinished group of these seeds is kept."""
    return folder / f"{group_name(seeds)}.safetensors"


def group_name(seeds: Sequence[int]) -> str:
    """A file name for a group of seeds, e.g. `seeds-0-35-n36`."""
    return f"seeds-{min(seeds)}-{max(seeds)}-n{len(seeds)}"


def save(
    path: Path,
    *,
    seeds: Sequence[int],
    identity: str,
    tensors: dict[str, Tensor],
    predictions: Tensor | None,
    rows: Rows,
) -> None:
    """Write the state of a group; the old file stays until the new one is complete."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    if predictions is not None:
        content[_PREDICTIONS] = predictions.cpu().contiguous()
    for name, values in rows.values.items():
        content[_ROW + name] = torch.from_numpy(np.stack(values))
    about = {
        "seeds": json.dumps(list(seeds)),
        "identity": identity,
        "steps": json.dumps(rows.steps),
    }
    with clear_os_errors(path), atomic_path(path) as temporary:
        save_file(content, temporary, metadata=about)


def waiting_groups(folder: Path, identity: str) -> list[tuple[int, ...]]:
    """The groups of seeds whose training was interrupted, in order of their first seed."""
    groups = []
    for path in sorted(folder.glob("seeds-*.safetensors")):
        about = _about(path)
        if about.get("identity") == identity:
            groups.append(tuple(json.loads(about["seeds"])))
    return sorted(groups)


def load(path: Path) -> Saved:
    """Read what `save` wrote.

    Raises:
        InputError: the file is no state that this package wrote.
    """
    about = _about(path)
    content = load_file(path)
    rows = Rows(steps=json.loads(about["steps"]))
    for name in [name for name in content if name.startswith(_ROW)]:
        rows.values[name.removeprefix(_ROW)] = list(content.pop(name).numpy())
    return Saved(content, content.pop(_PREDICTIONS, None), rows)


def _about(path: Path) -> dict[str, str]:
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path}: not a state of an interrupted training ({error}); delete it to train "
            "its seeds again"
        ) from error
