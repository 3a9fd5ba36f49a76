"""What a tracked run leaves at its end, a part of what `gmb crucible from-runs` writes.

OUT/parts/seed_3.jsonl   its bundles, with their last similarities and their frozen tiers
OUT/tiers/seed_3.json    the frozen cutoffs
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.crucible.tiers import Tiers
from gmb_hf.files import write_text
from gmb_hf.jsonfile import parse_json
from gmb_hf.validation import InputError


@dataclass(frozen=True)
class Part:
    """One run's.

    Attributes:
        seed: of the run.
        lines: its N bundles as lines of JSONL, with similarities and without tiers.
        labels: tier of each bundle, N.
        tiers: the cutoffs behind the labels.
    """

    seed: int
    lines: tuple[dict[str, Any], ...]
    labels: tuple[str, ...]
    tiers: Tiers


def jsonl(lines: Sequence[dict[str, Any]]) -> str:
    """Plain data as the text of a JSONL file."""
    return "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)


def tiers_path(folder: Path, seed: int) -> Path:
    """Where the cutoffs of a run are."""
    return folder / "tiers" / f"seed_{seed}.json"


def write_part(
    folder: Path,
    seed: int,
    lines: Sequence[dict[str, Any]],
    labels: NDArray[np.str_],
    tiers: Tiers,
) -> None:
    """Write the part of a run, each of its files at once; a part that is there is replaced."""
    tiered = [{**line, "tier": label} for line, label in zip(lines, labels.tolist(), strict=True)]
    tiers.write(tiers_path(folder, seed))
    write_text(_path(folder, seed), jsonl(tiered))


def read_part(folder: Path, seed: int) -> Part:
    """Read what `write_part` left.

    Raises:
        InputError: it is not there, or is not as it was written.
    """
    path = _path(folder, seed)
    try:
        text = path.read_text(encoding="utf-8")
        found = tuple(
            parse_json(line, where=f"{path}:{number}")
            for number, line in enumerate(text.splitlines(), start=1)
        )
        labels = tuple(line.pop("tier") for line in found)
    except (FileNotFoundError, UnicodeDecodeError, AttributeError, KeyError, TypeError):
        raise InputError(
            f"{path}: missing or changed, but {folder / 'logs'} holds its run; delete the log of "
            "the run to train it again, or choose another --out"
        ) from None
    return Part(seed, found, labels, Tiers.read(tiers_path(folder, seed)))


def _path(folder: Path, seed: int) -> Path:
    return folder / "parts" / f"seed_{seed}.jsonl"
