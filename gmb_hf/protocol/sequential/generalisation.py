"""Validation loss at equal training loss, and the gap over training, variant by variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gmb_hf.base import escape, stats
from gmb_hf.base.documents import Record
from gmb_hf.base.errors import InputError, choose, positive_int, repeated
from gmb_hf.base.files import write_json
from gmb_hf.base.tables import Column, Table
from gmb_hf.protocol.sequential.summary import difference_columns, mean_column, spread_table
from gmb_hf.report import style
from gmb_hf.report.sheet import Sheet, sentences_of
from gmb_hf.runs.columns import missing_column
from gmb_hf.runs.metadata import learned_data, mismatches, refuse_mismatches
from gmb_hf.runs.runlog import RunLog

PROTOCOL_SEEDS = (1337, 42, 7)
"""The seeds of the generalisation protocol."""

POINTS = 32
_MOST_POINTS = 10_000
LEAST_OVERLAP = 0.1
"""A shared range below this part of the whole range of the two (in log loss) is unreliable."""


@dataclass(frozen=True, eq=False)
class LossCurve:
    """The training and validation loss of one run over training.

    Attributes:
        run, seed: its name, and its seed or None where the log does not say.
        steps: int64 [T], ascending.
        train, validation: float64 [T], nats, finite and at least 0.

    Raises:
        InputError: no checkpoint, steps that do not ascend, or a loss that is none.
    """

    run: str
    seed: int | None
    steps: NDArray[np.int64]
    train: NDArray[np.float64]
    validation: NDArray[np.float64]

    def __post_init__(self) -> None:
        if not len(self.steps):
            raise InputError(f"run {self.run!r} has no checkpoint with both losses")
        if (np.diff(self.steps) <= 0).any():
            raise InputError(f"run {self.run!r}: its steps do not ascend")
        for name, values in (("training", self.train), ("validation", self.validation)):
            bad = ~np.isfinite(values) | (values < 0)
            if bad.any():
                at = int(np.argmax(bad))
                raise InputError(
                    f"run {self.run!r}, step {self.steps[at]}: the {name} loss is {values[at]}; it "
                    "must be a finite number of at least 0 (leave a diverged run out)"
                )

    @property
    def records(self) -> NDArray[np.bool_]:
        """The checkpoints with a training loss below all earlier ones, [T]."""
        before = np.concatenate([[np.inf], np.minimum.accumulate(self.train)[:-1]])
        return self.train < before

    def validation_at(self, train_loss: NDArray[np.float64]) -> NDArray[np.float64]:
        """The validation loss when the training loss first came down to these values, [G].

        >>> one = LossCurve("a", 0, np.arange(3), np.array([2.0, 3.0, 1.0]), np.array([4.0, 9, 6]))
        >>> one.validation_at(np.array([1.5])).tolist()  # halfway; step 1 is no record
        [5.0]
        """
        records = self.records
        return np.interp(train_loss, self.train[records][::-1], self.validation[records][::-1])


@dataclass(frozen=True)
class VariantLosses(Record):
    """One variant over seeds.

    Attributes:
        runs, seeds: in the order of all values; a seed is None where a log does not say.
        best_validation_loss, best_step: the lowest of the run, and where it stood first.
        final_train_loss, final_validation_loss, final_gap: at the run's last checkpoint; the gap
            is validation less training.
        train_range: training losses that every run went through, (lowest, highest); None where
            there is no such loss.
        steps: checkpoints that every run has.
        gap_mean, gap_std: validation less training at these steps, over runs; std is None for one.
    """

    runs: tuple[str, ...]
    seeds: tuple[int | None, ...]
    best_validation_loss: stats.OverSeeds
    best_step: stats.OverSeeds
    final_train_loss: stats.OverSeeds
    final_validation_loss: stats.OverSeeds
    final_gap: stats.OverSeeds
    train_range: tuple[float, float] | None
    steps: tuple[int, ...]
    gap_mean: tuple[float, ...]
    gap_std: tuple[float, ...] | None


@dataclass(frozen=True)
class Matched(Record):
    """Two variants at equal training loss.

    Attributes:
        variant, baseline: their names.
        train_range: the training losses that all runs of both went through; None without one.
        overlap: its part of the range of any of them, in log loss, in [0, 1].
        reliable: whether the overlap is at least `LEAST_OVERLAP`.
        train_loss: the points, descending.
        variant_validation, baseline_validation: mean over runs at these points.
        variant_mean, baseline_mean: validation loss averaged over the points, over runs.
        difference: of these averages, on shared seeds; None where the ranges do not overlap or a
            log does not name its seed.
    """

    variant: str
    baseline: str
    train_range: tuple[float, float] | None
    overlap: float
    reliable: bool
    train_loss: tuple[float, ...] = ()
    variant_validation: tuple[float, ...] = ()
    baseline_validation: tuple[float, ...] = ()
    variant_mean: stats.OverSeeds | None = None
    baseline_mean: stats.OverSeeds | None = None
    difference: stats.Difference | None = None


def summarize_curves(curves: Sequence[LossCurve]) -> VariantLosses:
    """Best and final losses, and the gap over training, of the runs of one variant."""
    _check(curves)
    steps = reduce(np.intersect1d, [curve.steps for curve in curves])
    gaps = np.array([(one.validation - one.train)[np.isin(one.steps, steps)] for one in curves])
    train, validation = np.array([(one.train[-1], one.validation[-1]) for one in curves]).T
    return VariantLosses(
        runs=tuple(curve.run for curve in curves),
        seeds=tuple(curve.seed for curve in curves),
        best_validation_loss=stats.over_seeds([float(curve.validation.min()) for curve in curves]),
        best_step=stats.over_seeds([float(one.steps[one.validation.argmin()]) for one in curves]),
        final_train_loss=stats.over_seeds(train),
        final_validation_loss=stats.over_seeds(validation),
        final_gap=stats.over_seeds(validation - train),
        train_range=shared_range(curves),
        steps=tuple(steps.tolist()),
        gap_mean=tuple(gaps.mean(axis=0).tolist()),
        gap_std=tuple(gaps.std(axis=0, ddof=1).tolist()) if len(curves) > 1 else None,
    )


def matched(
    variants: Mapping[str, Sequence[LossCurve]], baseline: str, *, points: int = POINTS
) -> list[Matched]:
    """Compare every variant with the baseline at so many training losses of their shared range.

    `InputError` for an unknown baseline, a variant without runs, a seed twice, or bad points.
    """
    choose("variant", baseline, tuple(variants))
    positive_int("points", points, most=_MOST_POINTS)
    for curves in variants.values():
        _check(curves)
    found = [_matched(variants, name, baseline, points) for name in variants if name != baseline]
    pairs = iter(stats.adjusted([one.difference for one in found if one.difference]))
    return [replace(one, difference=next(pairs)) if one.difference else one for one in found]


def shared_range(curves: Sequence[LossCurve]) -> tuple[float, float] | None:
    """The training losses that every run went through, (lowest, highest), or None.

    A loss of exactly 0 has no logarithm: the range then ends at the smallest loss above it.
    """
    low = max(_smallest(curves), *(float(curve.train.min()) for curve in curves))
    high = min(float(curve.train[0]) for curve in curves)
    return (low, high) if low < high else None


def _matched(
    variants: Mapping[str, Sequence[LossCurve]], name: str, baseline: str, points: int
) -> Matched:
    pair = variants[name], variants[baseline]
    both = [*pair[0], *pair[1]]
    shared = shared_range(both)
    if shared is None:
        return Matched(name, baseline, None, 0.0, False)
    low, high = shared
    highest = max(float(curve.train[0]) for curve in both)
    lowest = max(min(float(curve.train.min()) for curve in both), _smallest(both))
    overlap = float(np.log(high / low) / (np.log(highest) - np.log(lowest)))
    grid = np.clip(np.geomspace(high, low, points), low, high)
    a, b = (np.array([one.validation_at(grid) for one in curves]) for curves in pair)
    means = a.mean(axis=1), b.mean(axis=1)
    mine, theirs = (
        {one.seed: value for one, value in zip(*side, strict=True) if one.seed is not None}
        for side in zip(pair, (means[0].tolist(), means[1].tolist()), strict=True)
    )
    gap = stats.difference("matched_validation_loss", (name, mine), (baseline, theirs))
    return Matched(
        variant=name,
        baseline=baseline,
        train_range=shared,
        overlap=overlap,
        reliable=overlap >= LEAST_OVERLAP,
        train_loss=tuple(grid.tolist()),
        variant_validation=tuple(a.mean(axis=0).tolist()),
        baseline_validation=tuple(b.mean(axis=0).tolist()),
        variant_mean=stats.over_seeds(means[0]),
        baseline_mean=stats.over_seeds(means[1]),
        difference=gap if gap.seeds else None,
    )


def _smallest(curves: Sequence[LossCurve]) -> float:
    """The smallest training loss above 0; infinite where there is none."""
    return min(float(curve.train[curve.train > 0].min(initial=np.inf)) for curve in curves)


def _check(curves: Sequence[LossCurve]) -> None:
    if not curves:
        raise InputError("a variant has no runs; name its logs")
    seed = repeated([curve.seed for curve in curves if curve.seed is not None])
    if seed is not None:
        runs = ", ".join(repr(curve.run) for curve in curves if curve.seed == seed)
        raise InputError(f"the runs {runs} have the same seed, {seed}; one run is one seed")


_SHOWN_POINTS = 8


def generalisation_tables(found: Generalisation) -> list[Table]:
    """Best and final losses; where variants are compared, their losses at equal training loss."""
    rows = (
        (name, quantity, len(variant.runs), value)
        for name, variant in found.variants.items()
        for quantity, value in vars(variant).items()
        if isinstance(value, stats.OverSeeds)
    )
    caption = "Best and final losses in nats, and validation less training loss at the end"
    head = ("variant", "quantity", "runs")
    made = [spread_table(head, rows, "generalization_losses", caption)]
    if found.matched:
        made += [_means_at_equal_loss(found.matched), _points_at_equal_loss(found.matched)]
    return [replace(table, notes=found.notes) for table in made]


def _means_at_equal_loss(pairs: Sequence[Matched]) -> Table:
    """Validation loss averaged over equal training losses, variant against baseline."""
    columns = (
        *(Column(name, take=name) for name in ("variant", "baseline")),
        Column("reliable", escape.yes_no, "c", take="reliable"),
        Column("overlap", escape.number, take="overlap"),
        Column("train_low", escape.number, take=lambda one: (one.train_range or (None,))[0]),
        Column("train_high", escape.number, take=lambda one: (one.train_range or (None,))[-1]),
        mean_column("variant_val", "variant_mean"),
        mean_column("baseline_val", "baseline_mean"),
        *difference_columns("difference", prefix="difference_"),
    )
    caption = "Mean validation loss at equal training loss (nats)"
    return Table.of(pairs, columns, "generalization_matched", caption)


def _points_at_equal_loss(pairs: Sequence[Matched]) -> Table:
    """Validation losses at single training losses of the shared range."""
    columns = [Column("variant"), Column("baseline"), Column("reliable", escape.yes_no, "c")]
    names = ("train_loss", "variant_val", "baseline_val", "difference")
    columns += [Column(name, escape.number) for name in names]
    rows = []
    for one in pairs:
        count = len(one.train_loss)
        shown = np.linspace(0, count - 1, min(count, _SHOWN_POINTS)).round().astype(int)
        for at in np.unique(shown):
            mine, theirs = one.variant_validation[at], one.baseline_validation[at]
            key = (one.variant, one.baseline, one.reliable)
            rows.append((*key, one.train_loss[at], mine, theirs, mine - theirs))
    caption = "Validation loss at equal training loss (nats), means over runs"
    return Table(columns, rows, "generalization_points", caption)


def generalisation_figure(
    runs: Mapping[str, Sequence[LossCurve]],
    summaries: Mapping[str, VariantLosses],
    unreliable: Sequence[str] = (),
) -> Figure:
    """Left, validation against training loss; right, the gap between them over training.

    On the left each run goes from right to left as its training loss falls; the dot is its best
    validation loss. On the right the line is the mean over runs, the band one standard deviation.
    Variants that are `unreliable` cannot be compared with the baseline at equal training loss. The
    figure is of 7.2 by 3.4 inches.
    """
    with style.house_style():
        figure = style.new_figure(7.2, 3.4)
        left, right = figure.subplots(1, 2)
        looks = zip(cycle(style.VARIANT_COLOURS), cycle(style.VARIANT_DASHES), strict=True)
        for (name, curves), (colour, dashes) in zip(runs.items(), looks, strict=False):
            for curve in curves:
                kept = np.flatnonzero(curve.records & (curve.train > 0))
                train, validation = curve.train[kept], curve.validation[kept]
                left.plot(train, validation, color=colour, ls=dashes, lw=0.9, alpha=0.8)
                if len(kept):
                    best = np.argmin(validation)
                    left.plot(train[best], validation[best], ".", ms=5, color=colour)
            flag = " (range does not match)" if name in unreliable else ""
            label = f"{style.shorten(name, 24)}{flag}"
            steps, mean = summaries[name].steps, np.array(summaries[name].gap_mean)
            std = np.array(summaries[name].gap_std or 0)
            right.plot(steps, mean, color=colour, ls=dashes, label=label, zorder=2)
            right.fill_between(steps, mean - std, mean + std, color=colour, alpha=0.18, lw=0)
        left.plot([], [], ".", color=style.INK, label="best of a run")
        left.loglog()
        style.log_loss_axis(left.xaxis)
        style.log_loss_axis(left.yaxis)
        left.invert_xaxis()
        left.set(
            xlabel="training loss (nats), running minimum",
            ylabel="validation loss (nats)",
            title="At equal training loss",
        )
        left.legend(loc="best")
        right.axhline(0, color=style.INK, lw=0.8, zorder=0)
        right.set(ylabel="validation less training loss (nats)", title="Gap")
        style.step_axis(right, "training step", ticks=4)
        handles, labels = right.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
        return figure


FORMAT = "gmb-hf generalisation 1"
TRAIN_LOSSES = "train_loss", "train/loss", "training_loss", "loss"
VALIDATION_LOSSES = "val_loss", "val/loss", "validation_loss", "eval_loss", "eval/loss", "test_loss"
"""Names under which logs hold the losses; the first that is there is taken."""


@dataclass(frozen=True)
class Generalisation(Record):
    """Variants compared; the content of `generalization.json`.

    Attributes:
        baseline: the variant that the others are compared with.
        variants: name -> its losses and gap.
        matched: every other variant at equal training loss.
        notes: what a reader must know.
        format: of the file.
    """

    baseline: str
    variants: dict[str, VariantLosses]
    matched: tuple[Matched, ...]
    notes: tuple[str, ...]
    format: str = FORMAT


def named_sources(texts: Sequence[str]) -> dict[str, list[str]]:
    """`NAME=PATH` -> the paths of each name, in order; `InputError` where a text is not that."""
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
) -> tuple[Generalisation, dict[str, list[LossCurve]]]:
    """What a comparison of variants by their logs finds, and the losses of every run by variant.

    Args:
        sources: variant -> files, folders or globs, as `RunLog.read` takes them.
        train, validation: columns; None takes the first known name that the logs have.
        baseline: the variant that the others are compared with; None takes `dense`, else the first.
        points: how many training losses of a shared range are looked at.
        allow_fingerprint_mismatch: compare different data all the same; every table says so.

    Raises:
        InputError: nothing to read, a missing column, a loss that is none, an unknown baseline, a
            seed twice in a variant, or bad points.
        FingerprintMismatchError: the logs name different data.
    """
    logs = {name: RunLog.read(paths) for name, paths in sources.items()}
    asked = (train, TRAIN_LOSSES), (validation, VALIDATION_LOSSES)
    names = [known if given is None else (given,) for given, known in asked]
    variants = {
        name: _read_curves(log, ", ".join(map(str, sources[name])), names)
        for name, log in logs.items()
    }
    base = stats.chosen_baseline(variants) if baseline is None else baseline
    pairs = tuple(matched(variants, base, points=points))
    summaries = {name: summarize_curves(curves) for name, curves in variants.items()}
    different = mismatches({name: learned_data(log.metadata) for name, log in logs.items()}, base)
    unequal = refuse_mismatches(different, allowed=allow_fingerprint_mismatch)
    notes = (*unequal, *_notes(summaries, pairs))
    return Generalisation(base, summaries, pairs, notes), variants


def _read_curves(log: RunLog, where: str, either: Sequence[Sequence[str]]) -> list[LossCurve]:
    """The losses of every run of one variant's log from `where`, by names of either loss."""
    columns = []
    for names in either:
        column = next((name for name in names if name in log.observables), None)
        if column is None:
            raise missing_column(names[0], log.observables, where)
        columns.append(column)
    if columns[0] == columns[1]:
        raise InputError(
            f"{where}: {columns[0]} is named for both losses; name one column with --train, and "
            "another with --validation"
        )
    panels = [log.panel(column) for column in columns]
    curves = []
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
            curves.append(LossCurve(run, seed, steps[both], losses[0, both], losses[1, both]))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    return curves


def write_generalised(
    found: Generalisation,
    variants: Mapping[str, Sequence[LossCurve]],
    out: str | Path,
    *,
    figures: bool = True,
) -> list[Path]:
    """Write generalization.json, tables/ and, where wanted, the figure; returns the files."""
    data = write_json(Path(out) / "generalization.json", found.to_dict())
    title = f"Held-out loss at equal training loss, against {found.baseline}"
    tables = generalisation_tables(found)
    sheet, drawn = Sheet("GMB generalization", title, found.notes, tables=tables), {}
    if figures:
        unreliable = tuple(one.variant for one in found.matched if not one.reliable)
        figure = generalisation_figure(variants, found.variants, unreliable)
        drawn["generalization"] = "Held-out loss over training loss", figure
    page, *others = sheet.write_folder(out, drawn)
    return [page, data, *others]


def _notes(summaries: Mapping[str, VariantLosses], pairs: Sequence[Matched]) -> list[str]:
    about: dict[str, Any] = {"seeds": PROTOCOL_SEEDS, "least": stats.LEAST_SEEDS}
    about |= {"summaries": summaries, "pairs": pairs}
    return sentences_of("generalisation.j2", "gmb_hf.protocol.sequential", **about)
