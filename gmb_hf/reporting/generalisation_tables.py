"""The generalisation protocol's tables: best and final losses, and those at equal training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gmb_hf.continual.generalisation import Matched, VariantCourse
from gmb_hf.continual.over_seeds import OverSeeds
from gmb_hf.reporting import escape
from gmb_hf.reporting.retention_tables import SPREAD, mean, show_mean, spread
from gmb_hf.reporting.tables import Cell, Column, Table

_SHOWN_POINTS = 8


def generalisation_tables(
    variants: Mapping[str, VariantCourse], matched: Sequence[Matched], notes: tuple[str, ...] = ()
) -> tuple[Table, ...]:
    """The tables; those of the comparison only where there is something to compare.

    `notes` go with each of them.
    """
    pairs = (comparison(matched), at_equal_loss(matched)) if matched else ()
    return tuple(replace(table, notes=notes) for table in (losses(variants), *pairs))


def losses(variants: Mapping[str, VariantCourse]) -> Table:
    """Best and final losses and the gap, each over seeds."""
    columns = (
        Column("variant", align="l"),
        Column("quantity", align="l"),
        Column("runs", str),
        *(Column(name, escape.number) for name in SPREAD),
    )
    rows = tuple(
        (name, quantity, len(course.runs), *spread(over))
        for name, course in variants.items()
        for quantity, over in _numbers(course).items()
    )
    caption = "Best and final losses in nats, and validation less training loss at the end"
    return Table("generalization_losses", caption, columns, rows)


def comparison(matched: Sequence[Matched]) -> Table:
    """Validation loss averaged over equal training losses, variant against baseline."""
    columns = (
        Column("variant", align="l"),
        Column("baseline", align="l"),
        Column("reliable", escape.yes_no, "c"),
        Column("overlap", escape.number),
        Column("train_low", escape.number),
        Column("train_high", escape.number),
        Column("variant_val", show_mean),
        Column("baseline_val", show_mean),
        Column("shared_seeds", escape.steps),
        *(Column(f"difference_{name}", escape.number) for name in SPREAD),
        Column("p", escape.p_value),
        Column("p_adjusted", escape.p_value),
    )
    rows = []
    for one in matched:
        low, high = one.train_range or (None, None)
        pair = one.difference
        rows.append(
            (
                one.variant,
                one.baseline,
                one.reliable,
                one.overlap,
                low,
                high,
                mean(one.variant_mean),
                mean(one.baseline_mean),
                len(pair.seeds) if pair else None,
                *spread(pair.difference if pair else None),
                pair.p_value if pair else None,
                pair.p_adjusted if pair else None,
            )
        )
    caption = "Mean validation loss at equal training loss (nats)"
    return Table("generalization_matched", caption, columns, tuple(rows))


def at_equal_loss(matched: Sequence[Matched]) -> Table:
    """Validation losses at single training losses of the shared range."""
    columns = (
        Column("variant", align="l"),
        Column("baseline", align="l"),
        Column("reliable", escape.yes_no, "c"),
        Column("train_loss", escape.number),
        Column("variant_val", escape.number),
        Column("baseline_val", escape.number),
        Column("difference", escape.number),
    )
    rows: list[tuple[Cell, ...]] = []
    for one in matched:
        count = len(one.train_loss)
        for at in np.unique(
            np.linspace(0, count - 1, min(count, _SHOWN_POINTS)).round().astype(int)
        ):
            mine, theirs = one.variant_validation[at], one.baseline_validation[at]
            key = (one.variant, one.baseline, one.reliable)
            rows.append((*key, one.train_loss[at], mine, theirs, mine - theirs))
    caption = "Validation loss at equal training loss (nats), means over runs"
    return Table("generalization_points", caption, columns, tuple(rows))


def _numbers(course: VariantCourse) -> dict[str, OverSeeds]:
    names = (
        "best_validation_loss",
        "best_step",
        "final_train_loss",
        "final_validation_loss",
        "final_gap",
    )
    return {name: getattr(course, name) for name in names}
