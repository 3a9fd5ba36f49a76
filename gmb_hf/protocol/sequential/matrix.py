"""The evaluation matrix of sequential training: every task after every phase.

As a file it is a CSV with one row per variant, seed, phase and task. Phase 0, whose `trained_on` is
empty, is the model before any training; phase k is the model after its k-th phase.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError, choose, repeated, right_call
from gmb_hf.base.files import read_text, write_text

COLUMNS = ("variant", "seed", "phase", "trained_on", "task", "loss", "accuracy")
MEASURES = ("accuracy", "loss")
NUMBERS = ("average", "learning", "backward_transfer", "forward_transfer", "forgetting")
QUANTITIES = tuple(f"{number}_{measure}" for number in NUMBERS for measure in MEASURES)
"""The numbers that summarize a matrix, e.g. "average_accuracy"; one a seed."""


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
        named = {"seed": self.seeds, "task": self.tasks, "trained task": self.trained_on}
        for kind, names in named.items():
            if not names:
                raise InputError(f"{where}: no {kind}; give at least one")
            twice = repeated(names)
            if twice is not None:
                raise InputError(f"{where}: {kind} {twice!r} is given twice; give each once")
        for task in self.trained_on:
            choose("trained task", task, self.tasks, where=where)
        shape = (len(self.seeds), len(self.trained_on) + 1, len(self.tasks))
        for name, values in (("loss", self.loss), ("accuracy", self.accuracy)):
            if values.shape != shape:
                raise InputError(
                    f"{where}: {name} has the shape {values.shape}, not [seeds, phases + 1, tasks] "
                    f"= {shape}"
                )
            most = 1 if name == "accuracy" else np.inf
            bad = ~np.isfinite(values) | (values > most) | (values < 1 - most)
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


class _Row(NamedTuple):
    line: int
    variant: str
    seed: int
    phase: int
    trained_on: str
    task: str
    loss: float
    accuracy: float


_Cells = dict[tuple[int, int, str], _Row]  # by seed, phase and task


def read_matrix(path: str | Path) -> dict[str, RetentionMatrix]:
    """Read a CSV with `COLUMNS`; variant -> its matrix, in the order of the file.

    `InputError` where a column is missing or unknown, a cell is wrong or missing, a row stands
    twice, or variants have other tasks or another order of them.
    """
    found: dict[str, _Cells] = {}
    try:
        rows = [*_rows(read_text(path), str(path))]
    except csv.Error as error:
        raise InputError(f"{path}: is not CSV: {error}") from None
    for row in rows:
        where, key = f"{path}: line {row.line}", (row.seed, row.phase, row.task)
        if bool(row.trained_on) != bool(row.phase):
            raise InputError(
                f"{where}: phase {row.phase} is trained on {row.trained_on or 'nothing'!r}; phase "
                "0 is the untrained model and trained on nothing, every other on one task"
            )
        cells = found.setdefault(row.variant, {})
        if key in cells:
            raise InputError(
                f"{where}: variant {row.variant!r}, seed {row.seed}, phase {row.phase}, task "
                f"{row.task!r} stands already in line {cells[key].line}; delete one of the rows"
            )
        cells[key] = row
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
    first, *others = matrices
    for matrix in others:
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
        found = cells.get((seeds[s], phase, tasks[k]))
        if found is None:
            raise InputError(
                f"{where}: variant {variant!r}, seed {seeds[s]} has no row for phase {phase}, task "
                f"{tasks[k]!r}; every task is needed after every phase, 0 (untrained) included"
            )
        values[:, s, phase, k] = found.loss, found.accuracy
    try:
        return RetentionMatrix(variant, seeds, tasks, trained_on, values[0], values[1])
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _rows(text: str, where: str) -> Iterator[_Row]:
    """Each row that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip() for name in next(reader, [])]
    twice = repeated(header)
    if twice is not None:
        raise InputError(f"{where}: column {twice!r} stands twice in the header")
    for name in header:
        choose("column", name, COLUMNS, where=where)
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
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        at = f"{where}: line {reader.line_num}"
        yield _Row(reader.line_num, *(_value(name, row[name], at) for name in COLUMNS))


def _value(column: str, text: str, where: str) -> Any:
    """A cell: a whole number of at least 0, a finite number, or a name."""
    if column in ("seed", "phase"):
        if text.isdecimal():
            return int(text)
        fault = f"must be a whole number of at least 0, got {text!r}"
    elif column in _EXPECTED:
        with contextlib.suppress(ValueError):
            if math.isfinite(value := float(text)):
                return value
        fault = f"is {text!r}; {_EXPECTED[column]}"
    else:
        if text or column == "trained_on":
            return text
        fault = "is empty; give its name"
    raise InputError(f"{where}: {column} {fault}")


class Retention(NamedTuple):
    """One measure of S models that were trained on P tasks in turn, task by task.

    After the last phase it is `final`, after the task's own `learning`, [S, P] each. Backward
    transfer and forgetting are of tasks 1 .. P - 1, forward transfer is of tasks 2 .. P,
    [S, P - 1] each; forgetting is below 0 where the last phase is the best.
    """

    final: NDArray[np.float64]
    learning: NDArray[np.float64]
    backward_transfer: NDArray[np.float64]
    forward_transfer: NDArray[np.float64]
    forgetting: NDArray[np.float64]

    def means(self) -> dict[str, NDArray[np.float64] | None]:
        """Each of `NUMBERS` as its mean over tasks, [S]; None where no task has one."""
        by_task = zip(NUMBERS, self, strict=True)  # the average is that of the end
        return {name: one.mean(axis=1) if one.shape[1] else None for name, one in by_task}


def retention_numbers(values: NDArray[np.float64], *, higher_is_better: bool) -> Retention:
    """Retention, transfer and forgetting of the matrix of one measure, float64 [S, P + 1, P].

    Column k - 1 is the task of phase k; of an accuracy, not of a loss, `higher_is_better`.

    >>> import numpy as np
    >>> after = [[0.5, 0.5], [1.0, 0.75], [0.25, 1.0]]  # untrained, phase 1, phase 2
    >>> found = retention_numbers(np.array([after]), higher_is_better=True)
    >>> found.forgetting.tolist(), found.forward_transfer.tolist()
    ([[0.75]], [[0.25]])
    """
    place = np.arange(values.shape[1] - 1)
    learning, final = values[:, place + 1, place], values[:, -1]
    sign = 1 if higher_is_better else -1
    best = (sign * values[:, 1:-1, :-1]).max(axis=1, initial=-np.inf)
    return Retention(
        final=final,
        learning=learning,
        backward_transfer=(final - learning)[:, :-1],
        forward_transfer=values[:, place[1:], place[1:]] - values[:, 0, 1:],
        forgetting=best - sign * final[:, :-1],
    )


def phase_increases(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The protocol's forgetting: what a phase adds to the measure of each task learned before it.

    Args:
        values: [S, P + 1, P] as of `retention_numbers`; of a loss an increase is forgetting.

    Returns:
        [S, P, P]: phase k + 1 less phase k, at [k, task]; NaN for tasks that were not yet trained.
        Of one task they sum up to its backward transfer.

    >>> import numpy as np
    >>> after = [[4.0, 4.0, 4.0], [0.0, 5.0, 4.0], [1.0, 0.0, 4.0], [3.0, 0.5, 0.0]]
    >>> phase_increases(np.array([after]))[0, 1:, 0].tolist()  # phases 2 and 3, the first task
    [1.0, 2.0]
    """
    steps = np.diff(values, axis=1)
    phases, tasks = np.indices(steps.shape[1:])
    return np.where(phases > tasks, steps, np.nan)


def retention_of(matrix: RetentionMatrix, measure: str) -> Retention:
    """The numbers of a matrix's "accuracy" or "loss", over the tasks that were trained."""
    trained = getattr(matrix, measure)[:, :, matrix.trained_columns]
    return retention_numbers(trained, higher_is_better=higher_is_better(measure))


def quantities(matrix: RetentionMatrix) -> dict[str, NDArray[np.float64] | None]:
    """Each of `QUANTITIES`, one number a seed, [S]; None where there is only one phase."""
    found = {measure: retention_of(matrix, measure).means() for measure in MEASURES}
    return {
        f"{number}_{measure}": found[measure][number] for number in NUMBERS for measure in MEASURES
    }


def higher_is_better(quantity: str) -> bool:
    """Whether more of a measure or quantity is better: never of forgetting or a loss."""
    return not quantity.startswith("forgetting") and not quantity.endswith("loss")


_CALL = "predictions=[[0.01, 0.01], [0.99, 0.02], [0.4, 0.98]], references=[None, 0, 1]"
_KEYWORDS = ("measure", "return_per_task")


def check(settings: Mapping[str, Any]) -> None:
    """Refuse unknown keywords and wrong values of the metric; raises InputError."""
    with right_call("retention", _CALL):
        for name in settings:
            choose("keyword", name, _KEYWORDS)
        choose("measure", str(settings.get("measure", "accuracy")), MEASURES)


def retention(predictions: Any, references: Any, **settings: Any) -> dict[str, Any]:
    """`average_accuracy`, `learning_`, `backward_transfer_`, `forward_transfer_`, `forgetting_`.

    With `measure="loss"` the names end in `_loss`. What does not exist is None: differences of a
    single phase, and forward transfer without the row of the untrained model.

    Args:
        predictions: a row per phase, in their order: the accuracy on every task.
        references: place of the task trained in the phase, from 0; None for the untrained model,
            whose row comes first and may be left out.
        settings: `measure`, "accuracy" or "loss"; `return_per_task` adds a list of each number,
            a task each, in the order of training.
    """
    check(settings)
    measure = str(settings.get("measure", "accuracy"))
    with right_call("retention", _CALL):
        values, untrained = _given_matrix(predictions, references, measure)
    found = retention_numbers(values[None], higher_is_better=higher_is_better(measure))
    flat: dict[str, Any] = {
        f"{name}_{measure}": None if mean is None else float(mean[0])
        for name, mean in found.means().items()
    }
    flat["n_phases"] = len(values) - 1
    if settings.get("return_per_task"):
        for name, by_task in found._asdict().items():
            flat[f"{name}_{measure}_per_task"] = by_task[0].tolist()
    if not untrained:
        flat |= dict.fromkeys(name for name in flat if name.startswith("forward_transfer"))
    return flat


def _given_matrix(
    predictions: Any, references: Any, measure: str
) -> tuple[NDArray[np.float64], bool]:
    """The matrix, [P + 1, P], columns in the order of training; whether row 0 was given."""
    if predictions is None or not len(predictions):
        raise InputError("predictions is missing; give a row per phase")
    for number, row in enumerate(predictions):
        if isinstance(row, str) or not hasattr(row, "__len__"):
            raise InputError(f"predictions[{number}] must be a list with a number for each task")
    if references is None:
        raise InputError("references is missing; give the place of the task of each phase")
    rows, trained, tasks = [list(row) for row in predictions], list(references), len(predictions[0])
    for number, place in enumerate(trained):
        # Arrow keeps None among numbers as NaN.
        if place is None or (isinstance(place, float) and math.isnan(place)):
            trained[number] = None
        elif isinstance(place, (bool, str)) or place != int(place):
            raise InputError(f"references[{number}] must be a whole number or None, got {place!r}")
        else:
            trained[number] = int(place)
    for fault in _faults(rows, trained, tasks, measure):
        raise InputError(fault)
    untrained = trained[0] is None
    values = np.array(rows if untrained else [rows[0], *rows], dtype=np.float64)
    return values[:, [place for place in trained if place is not None]], untrained


def _faults(
    rows: list[list[Any]], trained: list[int | None], tasks: int, measure: str
) -> Iterator[str]:
    """What is wrong with rows and trained tasks that do not fit together."""
    if len(rows) != len(trained):
        yield f"{len(rows)} rows of predictions but {len(trained)} references; give one for each"
    if set(trained) == {None}:
        yield "references names no trained task; give its place for each phase"
    if None in trained[1:]:
        at = trained.index(None, 1)
        yield f"references[{at}] is None; only the first row may be of the untrained model"
    for number, row in enumerate(rows):
        if len(row) != tasks:
            found = f"predictions[{number}] has {len(row)} tasks where predictions[0] has {tasks}"
            yield f"{found}; every task is needed after every phase"
        for task, value in enumerate(row):
            good = isinstance(value, (int, float, np.number)) and math.isfinite(value)
            rule = "a loss must be finite"
            if measure == "accuracy":
                rule, good = "an accuracy must be in [0, 1]", good and 0 <= value <= 1
            if not good:
                yield f"predictions[{number}], task {task} is {value!r}; {rule}"
    for number, place in enumerate(trained):
        if place is not None and not 0 <= place < tasks:
            yield f"references[{number}] is {place}, which is no place among {tasks} tasks"
        first = trained.index(place)
        if place is not None and first != number:
            yield f"references[{number}] is {place} as references[{first}]; a task has one phase"
