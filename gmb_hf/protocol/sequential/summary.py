"""Summary of retention matrices: the record in `retention.json`, and its tables.

The file's keys are the attributes of the classes below, by these names; a number that does not
exist is null. A format with other names will have another `format`.

In Markdown and LaTeX a mean is shown with half the width of its 95% Student interval, 0.12 ± 0.03;
CSV holds the means in full, and `matrix_full` and `retention_summary` both intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gmb_hf.base import escape, stats
from gmb_hf.base.documents import Record
from gmb_hf.base.tables import Column, Row, Table, follow
from gmb_hf.protocol.sequential.matrix import (
    MEASURES,
    QUANTITIES,
    RetentionMatrix,
    check_equal_designs,
    phase_increases,
    quantities,
    retention_of,
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
class MatrixCell(Record):
    """One task after one phase, over seeds; `trained_on` is empty in phase 0, the untrained."""

    phase: int
    trained_on: str
    task: str
    loss: stats.OverSeeds
    accuracy: stats.OverSeeds


@dataclass(frozen=True)
class TaskSummary(Record):
    """One measure of one trained task, over seeds; see `matrix.Retention` for the terms.

    The last task has no forgetting and no backward transfer, the first no forward transfer.
    """

    task: str
    measure: str
    final: stats.OverSeeds
    learning: stats.OverSeeds
    backward_transfer: stats.OverSeeds | None
    forward_transfer: stats.OverSeeds | None
    forgetting: stats.OverSeeds | None


@dataclass(frozen=True)
class PhaseIncrease(Record):
    """How much higher the numbers of a learned task are after a phase than before it, over seeds.

    The phase is trained on another task, `trained_on`; an increase of the loss is forgetting.
    """

    phase: int
    trained_on: str
    task: str
    loss: stats.OverSeeds
    accuracy: stats.OverSeeds


@dataclass(frozen=True)
class VariantSummary(Record):
    """One variant.

    Attributes:
        seeds: its seeds, in the order of all `values`.
        quantities: each of `QUANTITIES`; None where there is only one phase.
        tasks: per measure and trained task, in the order of training.
        matrix: every cell, by phase and task.
        increases: from each phase to the next, of the tasks learned before, by task and phase.
    """

    seeds: tuple[int, ...]
    quantities: dict[str, stats.OverSeeds | None]
    tasks: tuple[TaskSummary, ...]
    matrix: tuple[MatrixCell, ...]
    increases: tuple[PhaseIncrease, ...] = ()

    def cell(self, phase: int, task: str) -> MatrixCell:
        """The cell of a task after a phase."""
        return next(one for one in self.matrix if (one.phase, one.task) == (phase, task))


@dataclass(frozen=True)
class RetentionSummary(Record):
    """Several variants on the same tasks in the same order.

    Attributes:
        tasks: columns of the matrix.
        trained_on: the task of phase 1 .. P.
        chance: task -> what a uniform guess reaches; None where that is not known.
        baseline: the variant that the others are compared with.
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
    differences: tuple[stats.Difference, ...]
    format: str = FORMAT


def summarize(
    matrices: Mapping[str, RetentionMatrix],
    *,
    chance: Mapping[str, Chance] | None = None,
    baseline: str | None = None,
    notes: tuple[str, ...] = (),
) -> RetentionSummary:
    """Summarize the matrices of one design, at least one, by variant.

    `chance` levels are by task, where known; the others are compared with the `baseline`, which is
    `dense` where there is one, else the first; `notes` come before those that are found here.
    `InputError` for other tasks or another order in one of them, or an unknown baseline.
    """
    check_equal_designs(matrices.values(), "matrices")
    names = tuple(matrices)
    base = stats.chosen_baseline(names, baseline)
    first = matrices[base]
    variants = {name: _variant(matrix) for name, matrix in matrices.items()}
    pairs: list[stats.Difference] = []
    for quantity in QUANTITIES:
        by_seed = {
            name: dict(zip(variant.seeds, over.values, strict=True))
            for name, variant in variants.items()
            if (over := variant.quantities[quantity]) is not None
        }
        if by_seed:
            pairs += stats.differences(quantity, by_seed, base)
    few = stats.few_seeds({name: variant.seeds for name, variant in variants.items()})
    return RetentionSummary(
        tasks=first.tasks,
        trained_on=first.trained_on,
        chance={task: (chance or {}).get(task) for task in first.tasks},
        baseline=base,
        notes=(*notes, *few),
        test=_test(pairs),
        variants=variants,
        differences=tuple(pairs),
    )


def _variant(matrix: RetentionMatrix) -> VariantSummary:
    over, tasks, last = stats.over_seeds, [], len(matrix.trained_on) - 1
    for measure in MEASURES:
        of = retention_of(matrix, measure)
        for k, task in enumerate(matrix.trained_on):
            always = over(of.final[:, k]), over(of.learning[:, k])
            back = over(of.backward_transfer[:, k]) if k < last else None
            ahead = over(of.forward_transfer[:, k - 1]) if k else None
            lost = over(of.forgetting[:, k]) if k < last else None
            tasks.append(TaskSummary(task, measure, *always, back, ahead, lost))
    measures = matrix.loss, matrix.accuracy
    cells = tuple(
        MatrixCell(phase, trained_on, task, *(over(one[:, phase, k]) for one in measures))
        for phase, trained_on in enumerate(("", *matrix.trained_on))
        for k, task in enumerate(matrix.tasks)
    )
    by_quantity = {
        name: None if values is None else over(values)
        for name, values in quantities(matrix).items()
    }
    added = [phase_increases(one[:, :, matrix.trained_columns]) for one in measures]
    increases = tuple(
        PhaseIncrease(k + 1, matrix.trained_on[k], task, *(over(one[:, k, j]) for one in added))
        for j, task in enumerate(matrix.trained_on)
        for k in range(j + 1, last + 1)
    )
    return VariantSummary(matrix.seeds, by_quantity, tuple(tasks), cells, increases)


def _test(pairs: list[stats.Difference]) -> str | None:
    """How the p-values come about, and how small they can be; None where there is none."""
    counts = sorted({len(pair.seeds) for pair in pairs if pair.p_value is not None})
    if not counts:
        return None
    least = ", ".join(f"{2 / 2**count:.3g} of {count}" for count in counts)
    return (
        "p: sign-flip permutation test on shared seeds, Holm-adjusted over the variants of a "
        f"quantity; of n seeds it is at least 2/2^n ({least})"
    )


SPREAD = ("mean", "std", "t_low", "t_high", "bootstrap_low", "bootstrap_high")
"""The statistics of a number over seeds that have columns of their own."""


class Mean(float):
    """A mean over seeds that also knows half the width of its 95% Student interval."""

    reach: float | None

    def __new__(cls, over: stats.OverSeeds) -> Mean:
        made = super().__new__(cls, over.mean)
        made.reach = None if over.t_high is None else over.t_high - over.mean
        return made


def mean(over: stats.OverSeeds | None) -> Mean | None:
    """The mean for a cell of a table; None where there is no number."""
    return None if over is None else Mean(over)


def show_mean(value: Mean | str) -> str:
    """A mean as readers see it.

    >>> [show_mean(mean(stats.over_seeds(values))) for values in ([1.0, 2.0, 3.0], [0.25])]
    ['2.000 ± 2.484', '0.250']
    """
    if isinstance(value, str):
        return value
    around = "" if value.reach is None else f" ± {value.reach:.3f}"
    return f"{float(value):.3f}{around}"


def mean_column(name: str, field: str) -> Column:
    """A column of means over seeds, which records hold under `field`."""
    return Column(name, show_mean, take=lambda record: mean(follow(record, field)))


def spread_columns(field: str = "", prefix: str = "") -> list[Column]:
    """A column for each of `SPREAD` of a number over seeds, which records hold under `field`."""
    return [Column(f"{prefix}{name}", escape.number, take=f"{field}.{name}") for name in SPREAD]


def spread(over: stats.OverSeeds | None) -> list[float | None]:
    """The numbers of `SPREAD`."""
    return [follow(over, name) for name in SPREAD]


def difference_columns(field: str = "", prefix: str = "") -> list[Column]:
    """What a `Difference` found, which records hold under `field`, or are."""
    place = f"{field}." if field else ""

    def shared(record: Any) -> int | None:
        seeds = follow(record, f"{place}seeds")
        return None if seeds is None else len(seeds)

    return [
        Column("shared_seeds", escape.steps, take=shared),
        *spread_columns(f"{place}difference", prefix),
        Column("p", escape.p_value, take=f"{place}p_value"),
        Column("p_adjusted", escape.p_value, take=f"{place}p_adjusted"),
    ]


def spread_table(head: Sequence[str], rows: Iterable[Row], name: str, caption: str) -> Table:
    """A row for each number over seeds: what it is, how many seeds, and its statistics.

    A row is given as the cells under `head`, the last of them the count, and the number itself.
    """
    *keys, count = head
    columns = [*map(Column, keys), Column(count, str), *spread_columns()]
    return Table(columns, [(*key, *spread(over)) for *key, over in rows], name, caption)


def comparison(pairs: Sequence[stats.Difference], caption: str, test: str | None) -> Table:
    """Every variant less the baseline, on shared seeds; `test` says what the p-values are."""
    columns = [Column(name, take=name) for name in ("quantity", "variant", "baseline")]
    table = Table.of(pairs, [*columns, *difference_columns()], "comparison", caption)
    return replace(table, notes=(test,) if test else ())


def retention_tables(summary: RetentionSummary) -> list[Table]:
    """Every table of a summary; its notes go with each of them."""
    made = [
        *(protocol_matrix(summary, measure) for measure in MEASURES),
        full_matrix(summary),
        by_quantity(summary),
        by_task(summary),
        *([by_phase(summary)] if len(summary.trained_on) > 1 else []),
    ]
    if summary.differences:
        caption = f"Difference from {summary.baseline}, paired by seed"
        made.append(comparison(summary.differences, caption, summary.test))
    return [replace(table, notes=(*summary.notes, *table.notes)) for table in made]


def protocol_matrix(summary: RetentionSummary, measure: str) -> Table:
    """The protocol's matrix: a task has a number from its own phase on."""
    columns = [Column("Variant"), Column("Phase", str), Column("Trained on")]
    columns += [Column(f"val_{task}", show_mean) for task in summary.trained_on]
    rows = []
    for name, variant in summary.variants.items():
        for phase, trained_on in enumerate(summary.trained_on, start=1):
            seen, later = summary.trained_on[:phase], summary.trained_on[phase:]
            means = [mean(getattr(variant.cell(phase, task), measure)) for task in seen]
            rows.append([name, phase, trained_on, *means, *["-" for _ in later]])
    unit = "loss in nats" if measure == "loss" else measure
    caption = f"Validation {unit} of each task after each phase"
    return Table(columns, rows, f"matrix_{measure}", caption)


def full_matrix(summary: RetentionSummary) -> Table:
    """Every task after every phase, the untrained model and tasks to come included."""
    columns = [Column("variant"), Column("phase", str), Column("trained_on"), Column("task")]
    columns.append(Column("seeds", str))
    for measure in MEASURES:
        columns += [Column(f"{measure}_chance", escape.number), *spread_columns("", f"{measure}_")]
    rows = []
    for name, variant in summary.variants.items():
        for cell in variant.matrix:
            row = [name, cell.phase, cell.trained_on, cell.task, len(variant.seeds)]
            for measure in MEASURES:
                chance = follow(summary.chance[cell.task], measure)
                row += [chance, *spread(getattr(cell, measure))]
            rows.append(row)
    return Table(columns, rows, "matrix_full", "Every task after every phase")


def by_quantity(summary: RetentionSummary) -> Table:
    """Average, learning, transfer and forgetting of each variant."""
    rows = (
        (name, quantity, len(variant.seeds), over)
        for name, variant in summary.variants.items()
        for quantity, over in variant.quantities.items()
    )
    caption = "What each variant keeps, over seeds"
    return spread_table(("variant", "quantity", "seeds"), rows, "retention_summary", caption)


def by_task(summary: RetentionSummary) -> Table:
    """Learning, end and forgetting of each task."""
    shown = ("learning", "final", "forgetting", "backward_transfer", "forward_transfer")
    columns = [Column("variant"), Column("measure"), Column("task")]
    columns += [Column(name, show_mean) for name in shown]
    rows = [
        (name, task.measure, task.task, *(mean(getattr(task, number)) for number in shown))
        for name, variant in summary.variants.items()
        for task in variant.tasks
    ]
    return Table(columns, rows, "retention_by_task", "Learning and forgetting, task by task")


def by_phase(summary: RetentionSummary) -> Table:
    """The protocol's forgetting from each phase to the next, beside the best less the last."""
    columns = [Column("variant"), Column("task"), Column("phase", str), Column("trained_on")]
    numbers = "loss_increase", "accuracy_increase", "forgetting_loss", "forgetting_accuracy"
    columns += [Column(name, show_mean) for name in numbers]
    rows = []
    for name, variant in summary.variants.items():
        best = {(one.task, one.measure): one.forgetting for one in variant.tasks}
        for one in variant.increases:
            row = [name, one.task, one.phase, one.trained_on, mean(one.loss), mean(one.accuracy)]
            # best less last is of the whole sequence, so it stands at the task's last phase
            at_end = one.phase == len(summary.trained_on)
            lost = (best[one.task, measure] for measure in ("loss", "accuracy"))
            rows.append([*row, *(mean(over) if at_end else "" for over in lost)])
    said = "Forgetting from each phase to the next; at the end, the best before it less the last"
    return Table(columns, rows, "forgetting_by_phase", said)
