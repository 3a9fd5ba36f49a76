"""Retention as tables: the matrix as the protocol draws it, every cell, the sums, the comparison.

In Markdown and LaTeX a mean stands with half the width of its 95% Student interval, 0.12 ± 0.03;
CSV holds the means in full, and `matrix_full` and `retention_summary` both intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gmb_hf.continual.over_seeds import OverSeeds
from gmb_hf.continual.retention import MEASURES
from gmb_hf.continual.summary import RetentionSummary, TaskSummary
from gmb_hf.reporting import escape
from gmb_hf.reporting.tables import Cell, Column, Table

SPREAD = ("mean", "std", "t_low", "t_high", "bootstrap_low", "bootstrap_high")
"""What of a number over seeds goes into columns of their own."""

_NOT_TRAINED_YET = "-"


class Mean(float):
    """A mean over seeds that also knows half the width of its 95% Student interval."""

    reach: float | None

    def __new__(cls, over: OverSeeds) -> Mean:
        made = super().__new__(cls, over.mean)
        made.reach = None if over.t_high is None else over.t_high - over.mean
        return made


def mean(over: OverSeeds | None) -> Mean | None:
    """The mean for a cell of a table; None where there is no number."""
    return None if over is None else Mean(over)


def show_mean(value: Mean | str | None) -> str:
    """A mean as readers see it.

    >>> from gmb_hf.continual.over_seeds import over_seeds
    >>> show_mean(mean(over_seeds([1.0, 2.0, 3.0]))), show_mean(mean(over_seeds([0.25])))
    ('2.000 ± 2.484', '0.250')
    """
    if value is None or isinstance(value, str):
        return escape.number(None) if value is None else value
    around = "" if value.reach is None else f" ± {value.reach:.3f}"
    return f"{float(value):.3f}{around}"


def retention_tables(summary: RetentionSummary) -> tuple[Table, ...]:
    """Every table of a summary; its notes go with each of them."""
    made = (
        *(protocol_matrix(summary, measure) for measure in MEASURES),
        full_matrix(summary),
        sums(summary),
        by_task(summary),
        *([comparison(summary)] if summary.differences else []),
    )
    return tuple(replace(table, notes=(*summary.notes, *table.notes)) for table in made)


def protocol_matrix(summary: RetentionSummary, measure: str) -> Table:
    """The protocol's matrix: a task has a number from its own phase on."""
    columns = (
        Column("Variant", align="l"),
        Column("Phase", str),
        Column("Trained on", align="l"),
        *(Column(f"val_{task}", show_mean) for task in summary.trained_on),
    )
    rows: list[tuple[Cell, ...]] = []
    for name, variant in summary.variants.items():
        for phase, trained_on in enumerate(summary.trained_on, start=1):
            cells = [
                mean(getattr(variant.cell(phase, task), measure))
                if place <= phase
                else _NOT_TRAINED_YET
                for place, task in enumerate(summary.trained_on, start=1)
            ]
            rows.append((name, phase, trained_on, *cells))
    unit = "loss in nats" if measure == "loss" else measure
    caption = f"Validation {unit} of each task after each phase"
    return Table(f"matrix_{measure}", caption, columns, tuple(rows))


def full_matrix(summary: RetentionSummary) -> Table:
    """Every task after every phase, the untrained model and tasks to come included."""
    columns = (
        Column("variant", align="l"),
        Column("phase", str),
        Column("trained_on", align="l"),
        Column("task", align="l"),
        Column("seeds", str),
        *(_number(f"{measure}_{name}") for measure in MEASURES for name in ("chance", *SPREAD)),
    )
    rows = []
    for name, variant in summary.variants.items():
        for cell in variant.matrix:
            chance = summary.chance[cell.task]
            numbers = [
                number
                for measure in MEASURES
                for number in (
                    None if chance is None else getattr(chance, measure),
                    *spread(getattr(cell, measure)),
                )
            ]
            key = (name, cell.phase, cell.trained_on, cell.task, len(variant.seeds))
            rows.append((*key, *numbers))
    return Table("matrix_full", "Every task after every phase", columns, tuple(rows))


def sums(summary: RetentionSummary) -> Table:
    """Average, learning, transfer and forgetting of each variant."""
    columns = (
        Column("variant", align="l"),
        Column("quantity", align="l"),
        Column("seeds", str),
        *map(_number, SPREAD),
    )
    rows = tuple(
        (name, quantity, len(variant.seeds), *spread(over))
        for name, variant in summary.variants.items()
        for quantity, over in variant.quantities.items()
    )
    return Table("retention_summary", "What each variant keeps, over seeds", columns, rows)


def by_task(summary: RetentionSummary) -> Table:
    """Learning, end and forgetting of each task."""
    shown: dict[str, Callable[[TaskSummary], OverSeeds | None]] = {
        "learning": lambda task: task.learning,
        "final": lambda task: task.final,
        "forgetting": lambda task: task.forgetting,
        "backward_transfer": lambda task: task.backward_transfer,
        "forward_transfer": lambda task: task.forward_transfer,
    }
    columns = (
        Column("variant", align="l"),
        Column("measure", align="l"),
        Column("task", align="l"),
        *(Column(name, show_mean) for name in shown),
    )
    rows = tuple(
        (name, task.measure, task.task, *(mean(take(task)) for take in shown.values()))
        for name, variant in summary.variants.items()
        for task in variant.tasks
    )
    return Table("retention_by_task", "Learning and forgetting, task by task", columns, rows)


def comparison(summary: RetentionSummary) -> Table:
    """Every variant less the baseline, on shared seeds."""
    columns = (
        Column("quantity", align="l"),
        Column("variant", align="l"),
        Column("baseline", align="l"),
        Column("shared_seeds", str),
        *map(_number, SPREAD),
        Column("p", escape.p_value),
        Column("p_adjusted", escape.p_value),
    )
    rows = tuple(
        (
            pair.quantity,
            pair.variant,
            pair.baseline,
            len(pair.seeds),
            *spread(pair.difference),
            pair.p_value,
            pair.p_adjusted,
        )
        for pair in summary.differences
    )
    caption = f"Difference from {summary.baseline}, paired by seed"
    return Table(
        "comparison", caption, columns, rows, notes=(summary.test,) if summary.test else ()
    )


def spread(over: OverSeeds | None) -> tuple[float | None, ...]:
    """The numbers of `SPREAD`."""
    return tuple(None if over is None else getattr(over, name) for name in SPREAD)


def _number(name: str) -> Column:
    return Column(name, escape.number)
