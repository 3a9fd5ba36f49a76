"""Crucible over training: when do the hardest bundles of a grokking run come apart?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gmb_hf.report.curves import median_over_runs
from gmb_hf.report.style import (
    BLACK,
    BLUE,
    GREEN,
    HALO,
    INK,
    MUTED,
    ORANGE,
    VERMILION,
    house_style,
    new_figure,
    rate_axis,
    shorten,
    step_axis,
)

_DASHED = (0, (4, 1.6))
_DOTTED = (0, (1, 1.2))


@dataclass(frozen=True)
class MarginCurves:
    """Margins and pass rates of R runs at T checkpoints, and their events.

    Attributes:
        steps: [R, T].
        q10, median, q90: quantiles of the margins, [R, T].
        pass_rate: share of margins above 0, [R, T].
        tier3_pass_rate: the same of the hardest tier, [R, T], NaN before a run has tiers.
        held_out: accuracy on held-out rows, [R, T].
        event_step: t* in steps, [R], NaN where there was no event.
    """

    steps: NDArray[np.int64]
    q10: NDArray[np.float64]
    median: NDArray[np.float64]
    q90: NDArray[np.float64]
    pass_rate: NDArray[np.float64]
    tier3_pass_rate: NDArray[np.float64]
    held_out: NDArray[np.float64]
    event_step: NDArray[np.float64]


def margin_curves(curves: MarginCurves) -> Figure:
    """Quantiles of the margins above, pass rates below, each run's t* as a point on its curve.

    Returns:
        A figure of 7.2 by 4.8 inches; bold lines are medians over runs, thin lines are runs.
    """
    with house_style():
        figure = new_figure(7.2, 4.8)
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.25, 1])
        top.axhline(0, color=MUTED, linewidth=0.7, zorder=0)
        _line(top, curves.steps, curves.q90, "q90", GREEN, _DOTTED)
        _line(top, curves.steps, curves.median, "median", ORANGE, _DASHED)
        _runs(top, curves.steps, curves.q10, BLUE)
        _line(top, curves.steps, curves.q10, "q10, the hardest tenth", BLUE, "solid")
        _events(top, curves, curves.q10)
        top.set_ylabel("margin (difference of cosines)")
        _line(bottom, curves.steps, curves.held_out, "held-out accuracy", BLACK, _DOTTED)
        _line(bottom, curves.steps, curves.tier3_pass_rate, "pass rate, tier3", VERMILION, _DASHED)
        _runs(bottom, curves.steps, curves.pass_rate, BLUE)
        _line(bottom, curves.steps, curves.pass_rate, "pass rate", BLUE, "solid")
        _events(bottom, curves, curves.pass_rate)
        bottom.set_ylabel("share")
        bottom.set_ylim(-0.02, 1.03)
        rate_axis(bottom.yaxis)
        bottom.set_xlim(0, max(int(curves.steps.max()), 1))
        step_axis(bottom, "training step")
        top.set_title(_title(curves))
        for axes in (top, bottom):
            _median_event(axes, curves.event_step)
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
        return figure


def _title(curves: MarginCurves) -> str:
    n, found = len(curves.steps), int(np.isfinite(curves.event_step).sum())
    runs = f"{n:,} run" + ("" if n == 1 else "s")
    return f"Margins of held-out bundles, {runs}, {found:,} with an event"


def _line(
    axes: Axes,
    steps: NDArray[np.int64],
    values: NDArray[np.float64],
    label: str,
    colour: str,
    style: str | tuple[int, tuple[float, float]],
) -> None:
    """The median over runs."""
    if np.isfinite(values).any():
        grid, median = median_over_runs(steps, values)
        axes.plot(grid, median, color=colour, linestyle=style, linewidth=1.9, label=label, zorder=3)


def _runs(axes: Axes, steps: NDArray[np.int64], values: NDArray[np.float64], colour: str) -> None:
    lines = [np.column_stack(pair) for pair in zip(steps, values, strict=True)]
    alpha = float(np.clip(20 / len(lines), 0.07, 0.45))
    # Hundreds of lines as vectors would make the SVG megabytes large.
    axes.add_collection(
        LineCollection(lines, colors=colour, linewidths=0.6, alpha=alpha, rasterized=True, zorder=1)
    )


def _events(axes: Axes, curves: MarginCurves, values: NDArray[np.float64]) -> None:
    """Each event as a point on the curve of its run."""
    at = curves.steps == curves.event_step[:, None]
    if at.any():
        axes.plot(
            curves.steps[at],
            values[at],
            ".",
            color=INK,
            markersize=4,
            markeredgewidth=0,
            label="a run's event t*",
            zorder=4,
        )


def _median_event(axes: Axes, events: NDArray[np.float64]) -> None:
    found = events[np.isfinite(events)]
    if len(found):
        middle = float(np.median(found))
        axes.axvline(
            middle, color=INK, linewidth=0.9, label=f"median t*, {middle:,.0f} steps", zorder=0
        )


# Retention against generalization: every configuration, and the frontier that none dominates.


_MOST_NAMES = 24
_ROOM = 0.25


def pareto_plot(
    names: Sequence[str],
    frozen: NDArray[np.float64],
    organic: NDArray[np.float64],
    on_frontier: NDArray[np.bool_],
) -> Figure:
    """A point per configuration; those on the frontier are filled, with a line beyond them.

    Args:
        names: of the configurations, N.
        frozen: pass rate on frozen tier3 (retention), [N].
        organic: pass rate on the organic holdout (generalization), [N].
        on_frontier: which no other configuration dominates, bool [N].
    """
    with house_style():
        figure = new_figure(5.2, 4.0)
        axes = figure.subplots()
        axes.set_xlabel("retention: pass rate on frozen tier3")
        axes.set_ylabel("generalization: pass rate on the organic holdout")
        axes.margins(0.12)
        rate_axis(axes.xaxis)
        rate_axis(axes.yaxis)
        off = ~on_frontier
        axes.scatter(
            frozen[off],
            organic[off],
            s=22,
            facecolors="none",
            edgecolors=MUTED,
            label="dominated",
            zorder=2,
        )
        order = np.lexsort((-organic, frozen))
        order = order[on_frontier[order]]
        x, y = frozen[order], organic[order]
        axes.scatter(x, y, s=30, color=BLUE, label="on the frontier", zorder=3)
        (left, right), (low, top) = axes.get_xlim(), axes.get_ylim()
        # What is dominated lies below and to the left of this staircase.
        axes.step(
            np.concatenate([[left], x, x[-1:]]),
            np.concatenate([y[:1], y, [low]]),
            where="pre",
            color=BLUE,
            linewidth=1.1,
            alpha=0.5,
            zorder=1,
        )
        # Above and to the right of its point a name crosses no line; the last ones need room.
        axes.set(xlim=(left, right + _ROOM * (right - left)), ylim=(low, top))
        for point, places in _together(frozen, organic, on_frontier).items():
            on = bool(on_frontier[places[0]])
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            axes.annotate(
                shorten(names[places[0]], 22) + more,
                point,
                xytext=(6, 4),
                textcoords="offset points",
                fontsize=7 if on else 6.5,
                color=INK if on else MUTED,
                path_effects=HALO,
                zorder=4,
            )
        figure.legend(loc="outside upper left", ncols=2)
        return figure


def _together(
    frozen: NDArray[np.float64], organic: NDArray[np.float64], on_frontier: NDArray[np.bool_]
) -> dict[tuple[float, float], list[int]]:
    """The configurations to name, by their point; the frontier's alone where there are many."""
    every = len(frozen) <= _MOST_NAMES
    shown = range(len(frozen)) if every else np.flatnonzero(on_frontier)[:_MOST_NAMES].tolist()
    found: dict[tuple[float, float], list[int]] = {}
    for place in shown:
        found.setdefault((float(frozen[place]), float(organic[place])), []).append(place)
    return found
