"""Sequential training over all phases: what is learned in each, and what becomes of it after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from gmb_hf.continual.summary import RetentionSummary
from gmb_hf.reporting.figures.curves import median_over_runs
from gmb_hf.reporting.figures.style import (
    INK,
    MUTED,
    VARIANT_COLOURS,
    house_style,
    log_loss_axis,
    new_figure,
    shorten,
    step_axis,
)

_MARKERS = "osD^vPX*"


@dataclass(frozen=True, eq=False)
class PhaseCurves:
    """The losses of S seeds at T checkpoints of one phase.

    Attributes:
        phase: from 1.
        steps: int64 [S, T], within the phase.
        train, test: losses of the task that is trained, float64 [S, T], NaN where absent.
    """

    phase: int
    steps: NDArray[np.int64]
    train: NDArray[np.float64]
    test: NDArray[np.float64]


def phase_curves(summary: RetentionSummary, curves: Mapping[str, Sequence[PhaseCurves]]) -> Figure:
    """A panel per variant: losses in nats on a logarithmic axis over all phases, one after another.

    Thick lines are medians over seeds of the held-out loss of the task that is trained, thin ones
    seeds, dashed ones medians of its training loss. Marks are the means of every trained task at
    the end of each phase, joined by dotted lines: what is left of it.

    Args:
        summary: the matrices, for the marks and the chance level.
        curves: variant -> its phases in their order; a variant without logs has marks alone.
    """
    names = list(summary.variants)
    ends = _ends(summary, curves)
    with house_style():
        figure = new_figure(7.2, 0.9 + 1.55 * len(names))
        panels = np.atleast_1d(figure.subplots(len(names), 1, sharex=True, sharey=True))
        for axes, name in zip(panels, names, strict=True):
            _boundaries(axes, summary, ends, name == names[0])
            for one in curves.get(name, ()):
                _phase(axes, one, ends[one.phase - 1])
            _left_over(axes, summary, name, ends)
            axes.set_yscale("log")
            log_loss_axis(axes.yaxis)
            axes.set_ylabel("loss (nats)")
            axes.set_title(shorten(name, 40), pad=15 if name == names[0] else 5)
        panels[-1].set_xlim(0, ends[-1])
        step_axis(panels[-1], "training step, over all phases")
        figure.legend(handles=_legend(summary), loc="outside right upper")
        return figure


def _ends(summary: RetentionSummary, curves: Mapping[str, Sequence[PhaseCurves]]) -> list[int]:
    """The step at which each phase ends, phase 0 first: the longest that any variant trained."""
    longest = [0] * (len(summary.trained_on) + 1)
    for phases in curves.values():
        for one in phases:
            longest[one.phase] = max(longest[one.phase], int(one.steps.max()))
    return list(accumulate([longest[0], *(steps or 1 for steps in longest[1:])]))


def _boundaries(axes: Axes, summary: RetentionSummary, ends: list[int], named: bool) -> None:
    levels = {chance.loss for chance in summary.chance.values() if chance is not None}
    for level in levels if len(levels) == 1 else ():
        axes.axhline(level, color=INK, lw=0.8, ls=(0, (1, 1.5)), zorder=0)
    for phase, task in enumerate(summary.trained_on, start=1):
        if phase > 1:
            axes.axvline(ends[phase - 1], color=MUTED, lw=0.8, zorder=0)
        if named:
            axes.annotate(
                f"{phase} {shorten(task, 14)}",
                ((ends[phase - 1] + ends[phase]) / 2, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=7.5,
                color=_colour(phase),
            )


def _phase(axes: Axes, one: PhaseCurves, begin: int) -> None:
    steps = one.steps + begin
    lines = [
        np.column_stack([run_steps[seen], row[seen]])
        for run_steps, row in zip(steps, one.test, strict=True)
        if (seen := row > 0).any()
    ]
    colour = _colour(one.phase)
    axes.add_collection(
        LineCollection(lines, colors=colour, linewidths=0.5, alpha=0.3, rasterized=True, zorder=1)
    )
    axes.plot(*median_over_runs(steps, one.test), color=colour, lw=1.8, zorder=3)
    axes.plot(*median_over_runs(steps, one.train), color=colour, lw=1, ls=(0, (4, 1.6)), zorder=2)


def _left_over(axes: Axes, summary: RetentionSummary, name: str, ends: list[int]) -> None:
    variant, last = summary.variants[name], len(summary.trained_on)
    for place, task in enumerate(summary.trained_on, start=1):
        after = range(place, last + 1)
        axes.plot(
            [ends[phase] for phase in after],
            [variant.cell(phase, task).loss.mean for phase in after],
            marker=_marker(place),
            ms=4.5,
            mec="#FFFFFF",
            mew=0.5,
            lw=1,
            ls=(0, (1, 1.2)),
            color=_colour(place),
            clip_on=False,
            zorder=5,
        )


def _legend(summary: RetentionSummary) -> list[Line2D]:
    handles = [
        Line2D([], [], color=MUTED, lw=1.8, label="held-out, median"),
        Line2D([], [], color=MUTED, lw=0.5, label="one seed"),
        Line2D([], [], color=MUTED, lw=1, ls=(0, (4, 1.6)), label="training, median"),
    ]
    handles += [
        Line2D(
            [],
            [],
            color=_colour(place),
            marker=_marker(place),
            ms=4.5,
            lw=1,
            ls=(0, (1, 1.2)),
            label=f"{shorten(task, 14)} at phase ends",
        )
        for place, task in enumerate(summary.trained_on, start=1)
    ]
    levels = {chance.loss for chance in summary.chance.values() if chance is not None}
    if len(levels) == 1:
        label = f"chance, {levels.pop():.3g}"
        handles.append(Line2D([], [], color=INK, lw=0.8, ls=(0, (1, 1.5)), label=label))
    return handles


def _colour(place: int) -> str:
    return VARIANT_COLOURS[(place - 1) % len(VARIANT_COLOURS)]


def _marker(place: int) -> str:
    return _MARKERS[(place - 1) % len(_MARKERS)]
