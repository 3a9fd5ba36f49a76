"""From run logs of several variants to the comparison of their generalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gmb_hf.benchmark.record import Record
from gmb_hf.continual.generalisation import (
    POINTS,
    PROTOCOL_SEEDS,
    Course,
    Matched,
    VariantCourse,
    course_summary,
    matched,
)
from gmb_hf.continual.over_seeds import LEAST_SEEDS, default_baseline
from gmb_hf.jsonfile import write_json
from gmb_hf.reporting.figures.generalisation import GeneralisationCurves, generalisation_figure
from gmb_hf.reporting.figures.style import save_figure
from gmb_hf.reporting.generalisation_tables import generalisation_tables
from gmb_hf.reporting.tables import write_each
from gmb_hf.runs import RunLog
from gmb_hf.runs.columns import missing_column
from gmb_hf.validation import InputError
from gmb_hf.workflows.learned_data import learned_data, mismatches, refuse_mismatches

FORMAT = "gmb-hf generalisation 1"
TRAIN_LOSSES = ("train_loss", "train/loss", "training_loss", "loss")
VALIDATION_LOSSES = (
    "val_loss",
    "val/loss",
    "validation_loss",
    "eval_loss",
    "eval/loss",
    "test_loss",
)
"""Names under which logs hold the losses; the first that is there is taken."""


@dataclass(frozen=True)
class Generalised(Record):
    """Variants compared; the content of `generalization.json`.

    Attributes:
        baseline: the variant that the others are held against.
        variants: name -> its losses and gap.
        matched: every other variant at equal training loss.
        notes: what a reader must know.
        format: of the file.
    """

    baseline: str
    variants: dict[str, VariantCourse]
    matched: tuple[Matched, ...]
    notes: tuple[str, ...]
    format: str = FORMAT


def named_sources(texts: Sequence[str]) -> dict[str, list[str]]:
    """`NAME=PATH` -> the paths of each name, in the order given.

    Raises:
        InputError: nothing, or a text without a name or a path.
    """
    if not texts:
        raise InputError("no logs given; name them as NAME=PATH, e.g. dense='logs/dense/*.parquet'")
    found: dict[str, list[str]] = {}
    for text in texts:
        name, sign, path = text.partition("=")
        if not (name and sign and path):
            raise InputError(
                f"{text!r}: name the variant of the logs, NAME=PATH, e.g. dense='logs/dense*.csv'"
            )
        found.setdefault(name, []).append(path)
    return found


def compare_logs(
    sources: Mapping[str, Sequence[str | Path]],
    *,
    train: str | None = None,
    validation: str | None = None,
    baseline: str | None = None,
    points: int = POINTS,
    allow_fingerprint_mismatch: bool = False,
) -> tuple[Generalised, dict[str, list[Course]]]:
    """Compare variants by their logs.

    Args:
        sources: variant -> files, folders or globs, as `RunLog.read` takes them.
        train, validation: columns; None takes the first known name that the logs have.
        baseline, points: as in `generalise`.
        allow_fingerprint_mismatch: compare different data all the same; every table says so.

    Returns:
        What was found, and the losses of every run by variant.

    Raises:
        InputError: nothing to read, a missing column, a loss that is none, or as `generalise`.
        FingerprintMismatchError: the logs name different data.
    """
    logs = {name: RunLog.read(paths) for name, paths in sources.items()}
    variants = {
        name: read_courses(
            log, where=", ".join(map(str, sources[name])), train=train, validation=validation
        )
        for name, log in logs.items()
    }
    found = generalise(variants, baseline=baseline, points=points)
    unequal = refuse_mismatches(
        mismatches({name: learned_data(log) for name, log in logs.items()}, found.baseline),
        allowed=allow_fingerprint_mismatch,
    )
    return replace(found, notes=(*unequal, *found.notes)), variants


def read_courses(
    log: RunLog, *, where: str, train: str | None = None, validation: str | None = None
) -> list[Course]:
    """The losses of every run of a log.

    Args:
        log: of one variant.
        where: it was read from, for messages.
        train, validation: columns; None takes the first known name that the log has.

    Raises:
        InputError: a missing column, or a loss that is none.
    """
    columns = [
        _column(log, train, TRAIN_LOSSES, where),
        _column(log, validation, VALIDATION_LOSSES, where),
    ]
    panels = [log.panel(column) for column in columns]
    courses = []
    for place, (run, seed) in enumerate(zip(log.runs, log.seeds, strict=True)):
        present = panels[0].present[place]
        steps = panels[0].steps[place, present]
        losses = np.array([panel.values[place, present] for panel in panels])
        logged = ~np.isnan(losses)
        if not logged[:, -1].any():
            raise InputError(
                f"{where}: run {run!r} has neither {columns[0]} nor {columns[1]} at its last step, "
                f"{steps[-1]}; did it diverge? Leave it out, or cut its log"
            )
        both = logged.all(axis=0)  # the two may be logged at different steps
        try:
            courses.append(Course(run, seed, steps[both], losses[0, both], losses[1, both]))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    return courses


def generalise(
    variants: Mapping[str, Sequence[Course]], *, baseline: str | None = None, points: int = POINTS
) -> Generalised:
    """Compare variants by their runs; see `continual.generalisation`.

    Raises:
        InputError: an unknown baseline, a seed twice in a variant, or bad points.
    """
    base = default_baseline(variants) if baseline is None else baseline
    pairs = tuple(matched(variants, base, points=points))
    summaries = {name: course_summary(courses) for name, courses in variants.items()}
    return Generalised(base, summaries, pairs, tuple(_notes(summaries, pairs)))


def write_generalised(
    found: Generalised, variants: Mapping[str, Sequence[Course]], out: str | Path
) -> list[Path]:
    """Write generalization.json, tables/ and the figure; returns the files."""
    target = Path(out)
    files = [write_json(target / "generalization.json", found.to_dict())]
    files += write_each(
        generalisation_tables(found.variants, found.matched, found.notes), target / "tables"
    )
    unreliable = tuple(one.variant for one in found.matched if not one.reliable)
    figure = generalisation_figure(GeneralisationCurves(variants, found.variants, unreliable))
    return files + save_figure(figure, target / "figures" / "generalization")


def _column(log: RunLog, asked: str | None, known: Sequence[str], where: str) -> str:
    if asked is not None:
        if asked not in log.observables:
            raise missing_column(asked, log.observables, where)
        return asked
    for name in known:
        if name in log.observables:
            return name
    raise missing_column(known[0], log.observables, where)


def _notes(summaries: Mapping[str, VariantCourse], pairs: Sequence[Matched]) -> list[str]:
    notes = []
    for name, course in summaries.items():
        if len(course.runs) < LEAST_SEEDS:
            asked = ", ".join(map(str, PROTOCOL_SEEDS))
            notes.append(
                f"{name} has {len(course.runs)} of at least {LEAST_SEEDS} seeds (the protocol's: "
                f"{asked}): no interval"
            )
    for one in pairs:
        who = f"{one.variant} and {one.baseline}"
        if one.train_range is None:
            notes.append(
                f"UNRELIABLE: the training losses of {who} do not overlap; nothing can be compared "
                "at equal training loss"
            )
        elif not one.reliable:
            notes.append(
                f"UNRELIABLE: the training losses of {who} overlap by {one.overlap:.0%} only "
                f"({one.train_range[0]:.3g} to {one.train_range[1]:.3g})"
            )
        elif one.difference is None:
            notes.append(f"{who} share no seed: no paired difference")
    return notes
