"""Grokking curves: how every run memorises, and how much later it generalises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from gmb_hf.reporting.figures.style import (
    BLUE,
    INK,
    MUTED,
    ORANGE,
    house_style,
    new_figure,
    rate_axis,
    shorten,
    step_axis,
)

_DASHES = (0, (4, 1.6))


@dataclass(frozen=True)
class GrokkingCurves:
    """The metric of R runs at T checkpoints, and their events.

    Attributes:
        steps: [R, T].
        test: the metric that carries the event, [R, T], NaN where a run has no such checkpoint.
        event_step: t* in steps, [R], NaN where there was no event.
        train: the same metric on training rows, [R, T]; None where it was not logged.
        metric: what `test` is called, with its unit where it has one.
    """

    steps: NDArray[np.int64]
    test: NDArray[np.float64]
    event_step: NDArray[np.float64]
    train: NDArray[np.float64] | None = None
    metric: str = "accuracy"


def grokking_curves(curves: GrokkingCurves, *, title: str = "") -> Figure:
    """The metric of every run over training, on training and held-out rows, with every t*.

    Returns:
        A figure of 7.2 by 4 inches: the curves above, the distribution of t* below.
    """
    with house_style():
        figure = new_figure(7.2, 4.0)
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[4.2, 1])
        if curves.train is not None:
            _draw(top, curves.steps, curves.train, ORANGE, _DASHES)
        _draw(top, curves.steps, curves.test, BLUE, "solid")
        points = _event_points(curves)
        top.plot(*points, ".", color=INK, markersize=3.4, markeredgewidth=0, zorder=4)
        last = int(curves.steps.max())
        top.set_xlim(0, last)
        shown = curves.test[np.isfinite(curves.test)]
        if len(shown) and shown.min() >= 0 and shown.max() <= 1:
            top.set_ylim(-0.02, 1.03)
            rate_axis(top.yaxis)
        top.set_ylabel(shorten(curves.metric, 40))
        top.legend(handles=_legend(curves), loc="best")
        count = f"{len(curves.steps):,} run" + ("" if len(curves.steps) == 1 else "s")
        rows = "Training and held-out" if curves.train is not None else "Held-out"
        top.set_title(title or f"{rows} {shorten(curves.metric, 40)} of {count}")
        events = curves.event_step[np.isfinite(curves.event_step)]
        _distribution(bottom, events, last, len(curves.steps))
        return figure


def _draw(
    axes: Axes,
    steps: NDArray[np.int64],
    values: NDArray[np.float64],
    colour: str,
    style: str | tuple[int, tuple[float, float]],
) -> None:
    """A thin line for each run, and their median."""
    lines = [
        np.column_stack([run_steps[seen], row[seen]])
        for run_steps, row in zip(steps, values, strict=True)
        if (seen := np.isfinite(row)).any()
    ]
    alpha = float(np.clip(20 / len(steps), 0.07, 0.5))
    # Hundreds of lines as vectors would make the SVG megabytes large.
    axes.add_collection(
        LineCollection(lines, colors=colour, linewidths=0.6, alpha=alpha, rasterized=True, zorder=1)
    )
    grid, median = median_over_runs(steps, values)
    axes.plot(grid, median, color="#FFFFFF", linewidth=4, alpha=0.8, zorder=2)
    axes.plot(grid, median, color=colour, linewidth=2.2, linestyle=style, zorder=3)


def _legend(curves: GrokkingCurves) -> list[Line2D]:
    handles = [
        Line2D([], [], color=BLUE, linewidth=2.2, label="held-out rows, median"),
        Line2D([], [], color=MUTED, linewidth=0.6, label="one run"),
        Line2D([], [], color=INK, marker=".", linestyle="", label="its event t*"),
    ]
    if curves.train is not None:
        train = Line2D([], [], color=ORANGE, linewidth=2.2, linestyle=_DASHES)
        train.set_label("training rows, median")
        handles.insert(0, train)
    return handles


def _event_points(curves: GrokkingCurves) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each event as a point on the held-out curve of its run."""
    at_event = (curves.steps == curves.event_step[:, None]) & np.isfinite(curves.test)
    return curves.steps[at_event].astype(np.float64), curves.test[at_event]


def _distribution(axes: Axes, events: NDArray[np.float64], last: int, n_runs: int) -> None:
    """How the events spread over training, and their median."""
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    step_axis(axes, "training step")
    axes.set_ylabel("t*", rotation=0, ha="right", va="center")
    if not len(events):
        axes.text(
            0.5,
            0.5,
            f"no event in {n_runs:,} runs",
            ha="center",
            va="center",
            transform=axes.transAxes,
            color=MUTED,
        )
        return
    counts, edges = np.histogram(events, bins=50, range=(0, last))
    axes.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=BLUE, alpha=0.35)
    median = float(np.median(events))
    axes.axvline(median, color=INK, linewidth=1.1)
    right = median > 0.6 * last
    axes.annotate(
        f"{len(events):,} of {n_runs:,} runs have an event; median t* = {median:,.0f} steps",
        (median, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-5 if right else 5, -2),
        textcoords="offset points",
        ha="right" if right else "left",
        va="top",
        fontsize=7.5,
        color=INK,
    )


def median_over_runs(
    steps: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The median over runs at each step that at least half of the runs have reached.

    Args:
        steps: [R, T].
        values: [R, T], NaN where a run has no such checkpoint.

    Returns:
        Steps [K] and medians [K].
    """
    seen = np.isfinite(values)
    grid, place, counts = np.unique(steps[seen], return_inverse=True, return_counts=True)
    order = np.lexsort((values[seen], place))
    ordered = values[seen][order]
    start = np.concatenate([[0], np.cumsum(counts)[:-1]])
    low, high = ordered[start + (counts - 1) // 2], ordered[start + counts // 2]
    enough = counts * 2 >= seen.any(axis=1).sum()
    return grid[enough], (0.5 * (low + high))[enough]
