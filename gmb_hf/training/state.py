"""The half-finished training of a group of seeds, on disk: safetensors, written atomically.

It holds all that is needed to go on as if nothing had happened: weights, optimizer moments, the
step, the last predictions and every row of the log so far.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gmb_hf.files import write_bytes
from gmb_hf.training.seeds import format_seeds
from gmb_hf.validation import InputError

_PREDICTIONS = "predictions"
_ROW = "row."


@dataclass
class Rows:
    """The log of a group so far: the steps measured and one [T, S] stack per observable."""

    steps: list[int] = field(default_factory=list)
    values: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)

    def add(self, step: int, found: dict[str, NDArray[np.float64]]) -> None:
        """Append the observables [S] of one checkpoint.

        A column is kept if all checkpoints have it: a version that measured less, or more, may
        have begun the log.
        """
        if not self.steps:
            self.values = {name: [] for name in found}
        for name in self.values.keys() - found.keys():
            del self.values[name]
        self.steps.append(step)
        for name, values in self.values.items():
            values.append(found[name])


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
    """A file name for a group of seeds, e.g. `seeds-0-35-n36`; with gaps also a hash of them."""
    first, last, count = min(seeds), max(seeds), len(seeds)
    name = f"seeds-{first}-{last}-n{count}"
    if last - first + 1 == count:
        return name
    return f"{name}-{hashlib.sha256(format_seeds(seeds).encode()).hexdigest()[:8]}"


def save(
    path: Path,
    *,
    seeds: Sequence[int],
    identity: str,
    tensors: dict[str, Tensor],
    predictions: Tensor | None,
    rows: Rows,
) -> None:
    """Write the state of a group; the old file stays until the new one is complete.

    Raises:
        InputError: the disk is full, or the place cannot be written to.
    """
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    if predictions is not None:
        content[_PREDICTIONS] = predictions.cpu().contiguous()
    for name, values in rows.values.items():
        content[_ROW + name] = torch.from_numpy(np.stack(values))
    about = {
        "seeds": json.dumps(list(seeds)),
        "identity": identity,
        "steps": json.dumps(rows.steps),
        "columns": json.dumps(list(rows.values)),  # tensors are stored in an order of their own
    }
    # Through bytes: safetensors' own writer does not say in a readable way that a disk is full.
    write_bytes(path, safetensors.torch.save(content, metadata=about))


def waiting_groups(folder: Path, identity: str) -> list[tuple[int, ...]]:
    """The groups of seeds whose training was interrupted, in order of their first seed.

    Raises:
        InputError: a file there is no state, or one of another config.
    """
    groups = []
    for path in folder.glob("seeds-*.safetensors"):
        # Another process may just have finished its group.
        with contextlib.suppress(FileNotFoundError):
            groups.append(_about(path, identity).seeds)
    return sorted(groups)


def pending_groups(
    folder: Path, identity: str, seeds: Sequence[int], *, at_once: int
) -> list[tuple[int, ...]]:
    """The groups still to train: interrupted ones first, the rest cut into even groups.

    Args:
        folder: of the states.
        identity: of the config.
        seeds: that are not finished.
        at_once: how many seeds are stacked at most.

    Raises:
        InputError: a file there is no state, or one of another config.
    """
    missing = set(seeds)
    waiting: list[tuple[int, ...]] = []
    for group in waiting_groups(folder, identity):
        if missing.issuperset(group):
            waiting.append(group)
            missing.difference_update(group)
    rest = [seed for seed in seeds if seed in missing]
    if not rest:
        return waiting
    parts = np.array_split(np.asarray(rest), math.ceil(len(rest) / at_once))
    return waiting + [tuple(part.tolist()) for part in parts]


def load(path: Path, identity: str) -> Saved:
    """Read what `save` wrote.

    Raises:
        InputError: the file is no state that this package wrote, or one of another config.
    """
    about = _about(path, identity)
    content = safetensors.torch.load_file(path)
    rows = Rows(steps=about.steps)
    for name in about.columns:
        rows.values[name] = list(content.pop(_ROW + name).numpy())
    return Saved(content, content.pop(_PREDICTIONS, None), rows)


@dataclass(frozen=True)
class _About:
    seeds: tuple[int, ...]
    steps: list[int]
    columns: list[str]


def _about(path: Path, identity: str) -> _About:
    try:
        with safe_open(path, framework="pt") as file:
            held = dict(file.metadata() or {})
        seeds, steps, columns = (json.loads(held[key]) for key in ("seeds", "steps", "columns"))
        about = _About(tuple(seeds), steps, columns)
    except FileNotFoundError:
        raise
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"{path}: not a state of an interrupted training ({error}); delete it to train "
            "its seeds again"
        ) from error
    if held.get("identity") != identity:
        raise InputError(
            f"{path}: the interrupted training of another config; choose another --out, or "
            "delete it"
        )
    return about
