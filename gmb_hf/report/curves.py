"""Grokking curves: how every run memorises, and how much later it generalises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from gmb_hf.report.style import (
    BLUE,
    HALO,
    INK,
    MUTED,
    ORANGE,
    VERMILION,
    house_style,
    new_figure,
    rate_axis,
    rate_text,
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


# Scores on the clock of the event: what a score does before t*, over all runs.


_COLUMNS = 3
_WIDE, _NARROW, _HORIZON = "#CFE1EE", "#8FBBD9", "#F1EFE6"


@dataclass(frozen=True)
class AlignedScore:
    """One score of the runs that have an event, aligned at t*.

    Attributes:
        name: the score.
        offsets: t - t* in steps, [K], increasing; 0 is the event.
        values: [runs, K], NaN where a run has no such checkpoint.
        threshold: the locked threshold that is drawn; None or infinite: not drawn.
        target: the target rate of that threshold.
    """

    name: str
    offsets: NDArray[np.int64]
    values: NDArray[np.float64]
    threshold: float | None = None
    target: float | None = None


def align(
    values: ArrayLike,
    steps: ArrayLike,
    present: ArrayLike,
    event_step: ArrayLike,
    *,
    reach: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Put the rows of a panel on the clock t - t*.

    Args:
        values, steps, present: a panel, each [R, T].
        event_step: t* [R], NaN where there is no event; such runs are left out.
        reach: how far to look on each side of t*, in steps.

    Returns:
        Offsets [K] that any run has, within +-reach; values [runs with event, K], NaN where a
        run has no checkpoint at that offset.
    """
    scores = np.asarray(values, dtype=np.float64)
    clock = np.asarray(steps, dtype=np.int64)
    events = np.asarray(event_step, dtype=np.float64)
    chosen = np.flatnonzero(np.isfinite(events))
    relative = clock[chosen] - events[chosen].astype(np.int64)[:, None]
    near = np.asarray(present, dtype=np.bool_)[chosen] & (np.abs(relative) <= reach)
    offsets = np.unique(relative[near])
    aligned = np.full((len(chosen), len(offsets)), np.nan)
    row, column = np.nonzero(near)
    aligned[row, np.searchsorted(offsets, relative[near])] = scores[chosen[row], column]
    return offsets, aligned


def scores_around_event(
    scores: Sequence[AlignedScore], *, horizon: int, safe_gap: int | None = None
) -> Figure:
    """Quantile bands over runs around t*, the horizon shaded, the threshold drawn.

    Args:
        scores: what is shown, one panel each.
        horizon: steps before t* in which an alarm is early warning.
        safe_gap: steps before t* up to which an alarm is false; marked where given.

    Returns:
        A figure of at most three panels a row.
    """
    with house_style():
        columns = min(_COLUMNS, max(1, len(scores)))
        rows = max(1, -(-len(scores) // columns))
        figure = new_figure(0.3 + 2.75 * columns, 0.45 + 1.95 * rows)
        grid = figure.subplots(rows, columns, squeeze=False)
        for index, axes in enumerate(grid.flat):
            if index >= len(scores):
                axes.set_visible(False)
                continue
            _panel(axes, scores[index], horizon, safe_gap)
            if index + columns >= len(scores):
                axes.set_xlabel("steps relative to t*")
        for axes in grid[:, 0]:
            axes.set_ylabel("score (higher: riskier)")
        figure.legend(handles=_curve_handles(safe_gap), loc="outside upper left", ncols=2 * columns)
        return figure


def _panel(axes: Axes, score: AlignedScore, horizon: int, safe_gap: int | None) -> None:
    seen = np.isfinite(score.values)
    enough = seen.sum(axis=0) >= max(2, 0.1 * len(score.values))
    offsets = score.offsets[enough]
    axes.set_title(shorten(score.name, 36), fontsize=8)
    if not len(offsets):
        axes.text(0.5, 0.5, "no event to align", transform=axes.transAxes, ha="center", color=MUTED)
        return
    low, quarter, median, upper, high = np.nanquantile(
        score.values[:, enough], [0.05, 0.25, 0.5, 0.75, 0.95], axis=0
    )
    axes.axvspan(-horizon, 0, color=_HORIZON, linewidth=0, zorder=0)
    axes.fill_between(offsets, low, high, color=_WIDE, linewidth=0, zorder=1)
    axes.fill_between(offsets, quarter, upper, color=_NARROW, linewidth=0, zorder=2)
    axes.plot(offsets, median, color=BLUE, linewidth=1.8, zorder=3)
    axes.axvline(0, color=INK, linewidth=1, zorder=4)
    if safe_gap is not None and safe_gap <= -offsets[0]:
        axes.axvline(-safe_gap, color=MUTED, linewidth=0.9, linestyle=(0, (1, 1.4)), zorder=4)
    axes.set_ylim(*_limits(score, low, quarter, upper, high))
    if score.threshold is not None and np.isfinite(score.threshold):
        axes.axhline(
            score.threshold, color=VERMILION, linewidth=1.2, linestyle=(0, (5, 1.5)), zorder=4
        )
        rate = "" if score.target is None else f" at {rate_text(score.target)}"
        axes.annotate(
            f"alarm{rate}",
            (0.015, score.threshold),
            xytext=(0, 2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=6.8,
            color=VERMILION,
            va="bottom",
            zorder=5,
            path_effects=HALO,
        )
    axes.set_xlim(offsets[0], offsets[-1])
    step_axis(axes, "", ticks=4)


def _limits(
    score: AlignedScore,
    low: NDArray[np.float64],
    quarter: NDArray[np.float64],
    upper: NDArray[np.float64],
    high: NDArray[np.float64],
) -> tuple[float, float]:
    """Limits that show the threshold and the middle half; wild tails run out of the panel."""
    finite = score.threshold is not None and np.isfinite(score.threshold)
    marks = [score.threshold] if finite else []
    middle = np.concatenate([quarter, upper, marks])
    bottom, top = float(middle.min()), float(middle.max())
    reach = 1.2 * (top - bottom) or 0.5 * (float(high.max()) - float(low.min())) or 0.5
    bottom = min(bottom, max(float(low.min()), bottom - reach))
    top = max(top, min(float(high.max()), top + reach))
    margin = 0.1 * (top - bottom) or 0.5
    return bottom - margin / 2, top + margin


def _curve_handles(safe_gap: int | None) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=BLUE, linewidth=1.8, label="median run"),
        Patch(color=_NARROW, label="middle half of runs"),
        Patch(color=_WIDE, label="5% to 95%"),
        Patch(color=_HORIZON, label="horizon"),
        Line2D([], [], color=VERMILION, linestyle=(0, (5, 1.5)), label="threshold"),
    ]
    if safe_gap is not None:
        gap = Line2D([], [], color=MUTED, linestyle=(0, (1, 1.4)), label="end of the safe zone")
        handles.append(gap)
    return handles
