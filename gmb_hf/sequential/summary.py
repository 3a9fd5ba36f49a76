"""Everything that is said of matrices, as one record: the content of `retention.json`.

The file's keys are the attributes of the classes below, by these names; a number that does not
exist is null. A format with other names will carry another `format`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gmb_hf.documents import Record
from gmb_hf.errors import choose
from gmb_hf.files import write_json
from gmb_hf.sequential.matrix import (
    MEASURES,
    QUANTITIES,
    RetentionMatrix,
    check_equal_designs,
    quantities,
    retention_of,
)
from gmb_hf.stats import (
    LEAST_SEEDS,
    Difference,
    OverSeeds,
    default_baseline,
    differences,
    over_seeds,
)
from gmb_hf.tasks.task import Task


@dataclass(frozen=True)
class Chance(Record):
    """Loss (nats a token) and accuracy of a uniform guess among the answers of a task."""

    loss: float
    accuracy: float


def chance_level(task: Task) -> Chance:
    """What a uniform guess reaches, whatever the distribution of the answers.

    >>> from gmb_hf.tasks.registry import get_task
    >>> round(chance_level(get_task("add_p97")).loss, 3)  # ln 97
    4.575
    """
    answers = len(np.unique(task.answers()))
    return Chance(math.log(answers), 1 / answers)


FORMAT = "gmb-hf retention 1"


@dataclass(frozen=True)
class Cell(Record):
    """One task after one phase, over seeds; `trained_on` is empty in phase 0, the untrained."""

    phase: int
    trained_on: str
    task: str
    loss: OverSeeds
    accuracy: OverSeeds


@dataclass(frozen=True)
class TaskSummary(Record):
    """One measure of one trained task, over seeds; see `continual.retention` for the terms.

    The last task has no forgetting and no backward transfer, the first no forward transfer.
    """

    task: str
    measure: str
    final: OverSeeds
    learning: OverSeeds
    backward_transfer: OverSeeds | None
    forward_transfer: OverSeeds | None
    forgetting: OverSeeds | None


@dataclass(frozen=True)
class VariantSummary(Record):
    """One variant.

    Attributes:
        seeds: its seeds, in the order of all `values`.
        quantities: each of `QUANTITIES`; None where there is only one phase.
        tasks: per measure and trained task, in the order of training.
        matrix: every cell, by phase and task.
    """

    seeds: tuple[int, ...]
    quantities: dict[str, OverSeeds | None]
    tasks: tuple[TaskSummary, ...]
    matrix: tuple[Cell, ...]

    def cell(self, phase: int, task: str) -> Cell:
        """The cell of a task after a phase."""
        return next(one for one in self.matrix if (one.phase, one.task) == (phase, task))


@dataclass(frozen=True)
class RetentionSummary(Record):
    """Several variants on the same tasks in the same order.

    Attributes:
        tasks: columns of the matrix.
        trained_on: the task of phase 1 .. P.
        chance: task -> what a uniform guess reaches; None where that is not known.
        baseline: the variant that the others are held against.
        notes: what a reader must know of all the numbers.
        test: what the p-values are; None where nothing is tested.
        variants: name -> its numbers.
        differences: of every variant but the baseline, quantity by quantity.
        format: of the file.
    """

    tasks: tuple[str, ...]
    trained_on: tuple[str, ...]
    chance: dict[str, Chance | None]
    baseline: str
    notes: tuple[str, ...]
    test: str | None
    variants: dict[str, VariantSummary]
    differences: tuple[Difference, ...]
    format: str = FORMAT

    def write(self, path: str | Path) -> Path:
        """Write as JSON, atomically."""
        return write_json(path, self.to_dict())


def summarize(
    matrices: Mapping[str, RetentionMatrix],
    *,
    chance: Mapping[str, Chance] | None = None,
    baseline: str | None = None,
    notes: tuple[str, ...] = (),
) -> RetentionSummary:
    """Sum up the matrices of one design.

    Args:
        matrices: variant -> its matrix, at least one.
        chance: task -> chance level, where known.
        baseline: which variant the others are held against; None takes `dense`, else the first.
        notes: put before those that are found here.

    Raises:
        InputError: other tasks or another order in one of them, or an unknown baseline.
    """
    check_equal_designs(matrices.values(), "matrices")
    names = tuple(matrices)
    base = default_baseline(names) if baseline is None else choose("variant", baseline, names)
    first = matrices[base]
    known = {name: quantities(matrix) for name, matrix in matrices.items()}
    pairs = [
        pair
        for quantity in QUANTITIES
        if known[base][quantity] is not None
        for pair in differences(quantity, _by_seed(matrices, known, quantity), base)
    ]
    return RetentionSummary(
        tasks=first.tasks,
        trained_on=first.trained_on,
        chance={task: (chance or {}).get(task) for task in first.tasks},
        baseline=base,
        notes=(*notes, *_few_seeds(matrices)),
        test=_test(pairs),
        variants={
            name: VariantSummary(
                seeds=matrix.seeds,
                quantities={
                    quantity: None if values is None else over_seeds(values)
                    for quantity, values in known[name].items()
                },
                tasks=_tasks(matrix),
                matrix=_cells(matrix),
            )
            for name, matrix in matrices.items()
        },
        differences=tuple(pairs),
    )


def _by_seed(
    matrices: Mapping[str, RetentionMatrix],
    known: Mapping[str, Mapping[str, NDArray[np.float64] | None]],
    quantity: str,
) -> dict[str, dict[int, float]]:
    """Variant -> seed -> the value of a quantity."""
    found = {}
    for name, matrix in matrices.items():
        values = known[name][quantity]
        if values is not None:
            found[name] = dict(zip(matrix.seeds, values.tolist(), strict=True))
    return found


def _tasks(matrix: RetentionMatrix) -> tuple[TaskSummary, ...]:
    last = len(matrix.trained_on) - 1
    found = []
    for measure in MEASURES:
        numbers = retention_of(matrix, measure)
        for k, task in enumerate(matrix.trained_on):
            found.append(
                TaskSummary(
                    task=task,
                    measure=measure,
                    final=over_seeds(numbers.final[:, k]),
                    learning=over_seeds(numbers.learning[:, k]),
                    backward_transfer=(
                        over_seeds(numbers.backward_transfer[:, k]) if k < last else None
                    ),
                    forward_transfer=(
                        over_seeds(numbers.forward_transfer[:, k - 1]) if k else None
                    ),
                    forgetting=over_seeds(numbers.forgetting[:, k]) if k < last else None,
                )
            )
    return tuple(found)


def _cells(matrix: RetentionMatrix) -> tuple[Cell, ...]:
    return tuple(
        Cell(
            phase,
            trained_on,
            task,
            over_seeds(matrix.loss[:, phase, k]),
            over_seeds(matrix.accuracy[:, phase, k]),
        )
        for phase, trained_on in enumerate(("", *matrix.trained_on))
        for k, task in enumerate(matrix.tasks)
    )


def _few_seeds(matrices: Mapping[str, RetentionMatrix]) -> list[str]:
    """Each variant that has no interval, since it has too few seeds."""
    return [
        f"{name} has {len(matrix.seeds)} of at least {LEAST_SEEDS} seeds: no interval, no test"
        for name, matrix in matrices.items()
        if len(matrix.seeds) < LEAST_SEEDS
    ]


def _test(pairs: list[Difference]) -> str | None:
    """How the p-values come about, and how small they can be; None where there is none."""
    counts = sorted({len(pair.seeds) for pair in pairs if pair.p_value is not None})
    if not counts:
        return None
    least = ", ".join(f"{2 / 2**count:.3g} of {count}" for count in counts)
    return (
        "p: sign-flip permutation test on shared seeds, Holm-adjusted over the variants of a "
        f"quantity; of n seeds it is at least 2/2^n ({least})"
    )
