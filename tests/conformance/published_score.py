"""The published score, rebuilt from what the reference project logged.

The score is max(0, -M / 0.002), M the trailing mean over 10 checkpoints of the change of the
spectral entropy H of the unembedding. The logs hold |change of H| (`d_info`) and |change of exp H|,
the effective rank (`d_info_alt`). From a rank r, H rising by d changes the rank by r (e^d - 1), H
falling by d by r (1 - e^-d): only one of the two leads on to a rank that the next change fits.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

EPS, CHECKPOINTS = 0.002, 10
RESTARTED = "seed_140"
"""The run whose log has steps 1 to 31,000 twice: it was begun again."""

Rows = list[dict[str, str]]


def read(path: Path) -> Rows:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Rows) -> None:
    """Rows as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def once(rows: Rows) -> Rows:
    """The last row of each step: the training that went through."""
    return list({row["step"]: row for row in rows}.values())


def entropy_changes(rows: Rows) -> NDArray[np.float64]:
    """Signed changes of H between the rows of one training, 0 at its first row, float64 [T]."""
    change = np.array([float(row["d_info"]) for row in rows])
    rank_change = np.array([float(row["d_info_alt"]) for row in rows])
    change[0] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        rising, falling = rank_change / np.expm1(change), rank_change / -np.expm1(-change)
    attempts = []
    for rank in (rising[1], falling[1]):
        signs, misfit = np.zeros(len(rows)), 0.0
        for i in np.flatnonzero(change):
            up, down = abs(rising[i] - rank), abs(falling[i] - rank)
            signs[i] = 1 if up < down else -1
            misfit += min(up, down)
            rank = rising[i] + rank_change[i] if up < down else falling[i] - rank_change[i]
        attempts.append((misfit, signs))
    return change * min(attempts, key=lambda attempt: attempt[0])[1]


def score(changes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The published score of one log, float64 [T]."""
    means = [np.mean(changes[max(0, i - CHECKPOINTS + 1) : i + 1]) for i in range(len(changes))]
    return np.maximum(0.0, -np.array(means) / EPS)
