"""The evaluation matrix of sequential training: every task after every phase.

As a file it is a CSV with one row per variant, seed, phase and task. Phase 0, whose `trained_on` is
empty, is the model before any training; phase k is the model after its k-th phase.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gmb_hf.files import write_text
from gmb_hf.jsonfile import read_text
from gmb_hf.validation import InputError, repeated, unknown

COLUMNS = ("variant", "seed", "phase", "trained_on", "task", "loss", "accuracy")


@dataclass(frozen=True, eq=False)
class RetentionMatrix:
    """Losses and accuracies of one variant, over S seeds, P phases and K tasks.

    Attributes:
        variant: its name, e.g. "dense" or "sort-4".
        seeds: [S], each once.
        tasks: [K], each once: those trained, in their order, then those that are only evaluated.
        trained_on: [P], the task of phase 1 .. P, each once.
        loss: float64 [S, P + 1, K], nats; phase 0 is the untrained model.
        accuracy: float64 [S, P + 1, K], in [0, 1].

    Raises:
        InputError: names that repeat or do not fit together, shapes that differ, a loss that is no
            number, an accuracy outside [0, 1].
    """

    variant: str
    seeds: tuple[int, ...]
    tasks: tuple[str, ...]
    trained_on: tuple[str, ...]
    loss: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    def __post_init__(self) -> None:
        where = f"matrix of variant {self.variant!r}"
        for kind, names in (
            ("seed", self.seeds),
            ("task", self.tasks),
            ("trained task", self.trained_on),
        ):
            if not names:
                raise InputError(f"{where}: no {kind}; give at least one")
            twice = repeated(names)
            if twice is not None:
                raise InputError(f"{where}: {kind} {twice!r} is given twice; give each once")
        for task in self.trained_on:
            if task not in self.tasks:
                raise unknown("trained task", task, self.tasks, where=where)
        shape = (len(self.seeds), len(self.trained_on) + 1, len(self.tasks))
        for name, values in (("loss", self.loss), ("accuracy", self.accuracy)):
            if values.shape != shape:
                raise InputError(
                    f"{where}: {name} has the shape {values.shape}, not [seeds, phases + 1, tasks] "
                    f"= {shape}"
                )
            bad = ~np.isfinite(values)
            if name == "accuracy":
                bad |= (values < 0) | (values > 1)
            if bad.any():
                seed, phase, task_at = np.argwhere(bad)[0]
                raise InputError(
                    f"{where}: {name} of seed {self.seeds[seed]}, phase {phase}, task "
                    f"{self.tasks[task_at]!r} is {values[seed, phase, task_at]}; {_EXPECTED[name]}"
                )

    @property
    def trained_columns(self) -> NDArray[np.int64]:
        """The column of the task of each phase, int64 [P]."""
        return np.array([self.tasks.index(task) for task in self.trained_on], dtype=np.int64)


_EXPECTED = {
    "loss": "a loss must be a finite number; a diverged seed must be left out",
    "accuracy": "an accuracy must be a number in [0, 1]",
}


@dataclass(frozen=True)
class _Cell:
    line: int
    trained_on: str
    loss: float
    accuracy: float


_Cells = dict[tuple[int, int, str], _Cell]  # (seed, phase, task) -> what stands there


def read_matrix(path: str | Path) -> dict[str, RetentionMatrix]:
    """Read a matrix file; variant -> its matrix, in the order of the file.

    Args:
        path: a CSV with the columns variant, seed, phase, trained_on, task, loss, accuracy.

    Raises:
        InputError: a column that is missing or unknown, a wrong cell, a row that stands twice, a
            cell that is missing, or variants with other tasks or another order of them.
    """
    found: dict[str, _Cells] = {}
    for line, row in _rows(read_text(path), str(path)):
        where = f"{path}: line {line}"
        key = (_whole(row, "seed", where), _whole(row, "phase", where), _word(row, "task", where))
        if (not row["trained_on"] and key[1]) or (row["trained_on"] and not key[1]):
            raise InputError(
                f"{where}: phase {key[1]} is trained on {row['trained_on'] or 'nothing'!r}; phase "
                "0 is the untrained model and trained on nothing, every other on one task"
            )
        cells = found.setdefault(_word(row, "variant", where), {})
        if key in cells:
            raise InputError(
                f"{where}: variant {row['variant']!r}, seed {key[0]}, phase {key[1]}, task "
                f"{key[2]!r} stands already in line {cells[key].line}; delete one of the rows"
            )
        cells[key] = _Cell(
            line,
            row["trained_on"],
            _number(row, "loss", where),
            _number(row, "accuracy", where),
        )
    if not found:
        raise InputError(f"{path}: no rows below the header; has any phase finished?")
    matrices = {variant: _matrix(variant, cells, str(path)) for variant, cells in found.items()}
    check_equal_designs(matrices.values(), str(path))
    return matrices


def write_matrix(path: str | Path, matrices: Mapping[str, RetentionMatrix]) -> Path:
    """Write matrices as one CSV, atomically; rows by variant, seed, phase, task.

    Numbers keep every digit, so that what is read equals what was written.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for matrix in matrices.values():
        trained_on = ("", *matrix.trained_on)
        for s, phase, k in np.ndindex(matrix.loss.shape):
            numbers = (float(values[s, phase, k]) for values in (matrix.loss, matrix.accuracy))
            key = (matrix.variant, matrix.seeds[s], phase, trained_on[phase], matrix.tasks[k])
            writer.writerow([*key, *map(repr, numbers)])
    return write_text(path, out.getvalue())


def check_equal_designs(matrices: Iterable[RetentionMatrix], where: str) -> None:
    """Raise `InputError` unless all have the same tasks, trained in the same order."""
    first: RetentionMatrix | None = None
    for matrix in matrices:
        first = first or matrix
        for what, a, b in (
            ("has the tasks", first.tasks, matrix.tasks),
            ("is trained in the order", first.trained_on, matrix.trained_on),
        ):
            if a != b:
                raise InputError(
                    f"{where}: variant {first.variant!r} {what} {', '.join(a)}, but "
                    f"{matrix.variant!r} {', '.join(b)}; only equal ones compare"
                )


def _matrix(variant: str, cells: _Cells, where: str) -> RetentionMatrix:
    trained: dict[int, str] = {}
    for (_, phase, _), cell in cells.items():
        if trained.setdefault(phase, cell.trained_on) != cell.trained_on:
            raise InputError(
                f"{where}: line {cell.line}: phase {phase} of variant {variant!r} is trained on "
                f"{cell.trained_on!r} here and on {trained[phase]!r} above; a phase has one task"
            )
    trained_on = tuple(trained[phase] for phase in sorted(trained) if phase)
    tasks = tuple(dict.fromkeys([*trained_on, *(task for _, _, task in cells)]))
    seeds = tuple(sorted({seed for seed, _, _ in cells}))
    values = np.empty((2, len(seeds), max(trained) + 1, len(tasks)))
    for s, phase, k in np.ndindex(values.shape[1:]):
        cell_there = cells.get((seeds[s], phase, tasks[k]))
        if cell_there is None:
            raise InputError(
                f"{where}: variant {variant!r}, seed {seeds[s]} has no row for phase {phase}, task "
                f"{tasks[k]!r}; every task is needed after every phase, 0 (untrained) included"
            )
        values[:, s, phase, k] = cell_there.loss, cell_there.accuracy
    try:
        return RetentionMatrix(variant, seeds, tasks, trained_on, values[0], values[1])
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _rows(text: str, where: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row that is not blank with the number of its line."""
    reader = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip() for name in next(reader, [])]
    twice = repeated(header)
    if twice is not None:
        raise InputError(f"{where}: column {twice!r} stands twice in the header")
    for name in header:
        if name not in COLUMNS:
            raise unknown("column", name, COLUMNS, where=where)
    for name in COLUMNS:
        if name not in header:
            raise InputError(f"{where}: column {name!r} missing; a matrix has {', '.join(COLUMNS)}")
    for cells in reader:
        if not cells:
            continue
        if len(cells) != len(header):
            raise InputError(
                f"{where}: line {reader.line_num} has {len(cells)} cells where the header has "
                f"{len(header)}; complete or delete the line"
            )
        yield reader.line_num, dict(zip(header, (cell.strip() for cell in cells), strict=True))


def _word(row: Mapping[str, str], column: str, where: str) -> str:
    if not row[column]:
        raise InputError(f"{where}: {column} is empty; give its name")
    return row[column]


def _whole(row: Mapping[str, str], column: str, where: str) -> int:
    if not row[column].isdecimal():
        raise InputError(
            f"{where}: {column} must be a whole number of at least 0, got {row[column]!r}"
        )
    return int(row[column])


def _number(row: Mapping[str, str], column: str, where: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where}: {column} is {row[column]!r}; {_EXPECTED[column]}")
    return value
