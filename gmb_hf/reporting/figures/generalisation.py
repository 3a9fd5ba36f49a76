"""Validation loss at equal training loss, and the gap over training, variant by variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gmb_hf.continual.generalisation import Course, VariantCourse
from gmb_hf.reporting.figures.style import (
    INK,
    VARIANT_COLOURS,
    VARIANT_DASHES,
    house_style,
    log_loss_axis,
    new_figure,
    shorten,
    step_axis,
)


@dataclass(frozen=True, eq=False)
class GeneralisationCurves:
    """What is drawn of variants: their runs, and their gaps over runs.

    Attributes:
        runs: variant -> its runs.
        summaries: variant -> the same, summed up.
        unreliable: variants that cannot be compared with the baseline at equal training loss.
    """

    runs: Mapping[str, Sequence[Course]]
    summaries: Mapping[str, VariantCourse]
    unreliable: tuple[str, ...] = ()


def generalisation_figure(curves: GeneralisationCurves) -> Figure:
    """Left, validation against training loss; right, the gap between them over training.

    On the left each run goes from right to left as its training loss falls; the dot is its best
    validation loss. On the right the line is the mean over runs, the band one standard deviation.

    Returns:
        A figure of 7.2 by 3.4 inches.
    """
    with house_style():
        figure = new_figure(7.2, 3.4)
        left, right = figure.subplots(1, 2)
        for place, (name, courses) in enumerate(curves.runs.items()):
            colour = VARIANT_COLOURS[place % len(VARIANT_COLOURS)]
            dashes = VARIANT_DASHES[place % len(VARIANT_DASHES)]
            flag = " (range does not match)" if name in curves.unreliable else ""
            _matched(left, courses, colour, dashes)
            _gap(right, curves.summaries[name], colour, dashes, f"{shorten(name, 24)}{flag}")
        left.plot([], [], ".", color=INK, label="best of a run")
        left.set_xscale("log")
        left.set_yscale("log")
        log_loss_axis(left.xaxis)
        log_loss_axis(left.yaxis)
        left.invert_xaxis()
        left.set_xlabel("training loss (nats), running minimum")
        left.set_ylabel("validation loss (nats)")
        left.set_title("At equal training loss")
        left.legend(loc="best")
        right.axhline(0, color=INK, lw=0.8, zorder=0)
        right.set_ylabel("validation less training loss (nats)")
        step_axis(right, "training step", ticks=4)
        right.set_title("Gap")
        handles, labels = right.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
        return figure


def _matched(
    axes: Axes, courses: Sequence[Course], colour: str, dashes: tuple[int, tuple[float, ...]]
) -> None:
    for course in courses:
        kept = course.records & (course.train > 0)
        axes.plot(
            course.train[kept], course.validation[kept], color=colour, ls=dashes, lw=0.9, alpha=0.8
        )
        records = np.flatnonzero(kept)
        if len(records):
            best = records[np.argmin(course.validation[records])]
            axes.plot(course.train[best], course.validation[best], ".", ms=5, color=colour)


def _gap(
    axes: Axes,
    variant: VariantCourse,
    colour: str,
    dashes: tuple[int, tuple[float, ...]],
    label: str,
) -> None:
    mean = np.array(variant.gap_mean)
    axes.plot(variant.steps, mean, color=colour, ls=dashes, label=label, zorder=2)
    if variant.gap_std is not None:
        spread = np.array(variant.gap_std)
        axes.fill_between(
            variant.steps, mean - spread, mean + spread, color=colour, alpha=0.18, lw=0, zorder=1
        )
