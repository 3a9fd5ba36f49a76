"""Scores on the clock of the event: what a score does before t*, over all runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from gmb_hf.reporting.figures.style import (
    BLUE,
    HALO,
    INK,
    MUTED,
    VERMILION,
    house_style,
    new_figure,
    rate_text,
    shorten,
    step_axis,
)

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
        figure.legend(handles=_legend(safe_gap), loc="outside upper left", ncols=2 * columns)
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


def _legend(safe_gap: int | None) -> list[Line2D | Patch]:
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
