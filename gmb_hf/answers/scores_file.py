"""The file of scores by run and step: Parquet, CSV or JSON lines, a row for each checkpoint.

    run, step, [seed], NAME, answers, made_by

`answers` counts what the score is a mean over; `made_by` names what made it, so that a file that
was sent on still says so. Any reader of run logs reads it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from gmb_hf.files import atomic_path, write_text
from gmb_hf.runs.joining import MADE_BY
from gmb_hf.runs.order import natural_key
from gmb_hf.runs.raw import KEYS
from gmb_hf.validation import InputError

ENDINGS = (".parquet", ".csv", ".jsonl")
_COUNT = "answers"


@dataclass(frozen=True)
class CheckpointScore:
    """The score of a checkpoint: a mean over so many answers."""

    run: str
    step: int
    score: float
    answers: int
    seed: int | None = None


@dataclass(frozen=True)
class Scores:
    """One score of many checkpoints.

    Attributes:
        name: of the column.
        rows: a checkpoint each.
        made_by: a line that names what made them.
    """

    name: str
    rows: tuple[CheckpointScore, ...]
    made_by: str

    def table(self) -> pa.Table:
        """Rows by run and step, with the columns above."""
        rows = sorted(self.rows, key=lambda row: (natural_key(row.run), row.step))
        columns: dict[str, pa.Array] = {
            "run": pa.array([row.run for row in rows], pa.string()),
            "step": pa.array([row.step for row in rows], pa.int64()),
        }
        if any(row.seed is not None for row in rows):
            columns["seed"] = pa.array([row.seed for row in rows], pa.int64())
        columns[self.name] = pa.array([row.score for row in rows], pa.float64())
        columns[_COUNT] = pa.array([row.answers for row in rows], pa.int64())
        columns[MADE_BY] = pa.array([self.made_by] * len(rows), pa.string())
        return pa.table(columns)


def check_scores_path(path: str | Path, name: str) -> None:
    """Refuse an ending or a column name that a file of scores cannot have, before any work."""
    if Path(path).suffix not in ENDINGS:
        raise InputError(f"--out {path}: scores are written as {', '.join(ENDINGS)}")
    if name in (*KEYS, _COUNT, MADE_BY) or not name.strip():
        raise InputError(f"--name {name!r}: is taken by another column; choose another name")


def write_scores(path: str | Path, scores: Scores) -> Path:
    """Write a file of scores, atomically.

    Raises:
        InputError: an ending that is not one of `ENDINGS`, or the file cannot be written.
    """
    check_scores_path(path, scores.name)
    place, table = Path(path), scores.table()
    if place.suffix == ".jsonl":
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist())
        return write_text(place, "".join(lines))
    with atomic_path(place) as temporary:
        if place.suffix == ".csv":
            pyarrow.csv.write_csv(table, temporary)
        else:
            pq.write_table(table, temporary, compression="zstd")
    return place
