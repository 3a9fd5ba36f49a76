"""Achieved against target false positive rate: who keeps a budget, and who has a floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from gmb_hf.reporting.figures.style import (
    BLUE,
    INK,
    MUTED,
    RULE,
    VERMILION,
    house_style,
    panel_grid,
    rate_text,
    shorten,
)

_COLUMNS = 6
_LOWEST = 0.004
_KEPT = "#E3EEF5"


@dataclass(frozen=True)
class FprCurve:
    """What one score costs in false alarms.

    Attributes:
        name: the score.
        targets: target rates [K].
        achieved: achieved rates [K]; NaN where the answer is ABSTAIN.
        low, high: the interval around each, [K]; NaN where there is none.
        missed: whether the target was surely missed, bool [K].
        floor: the smallest rate that any alarm of this score costs, where that is above what
            was aimed at; None where there is no floor.
        note: a word under the name, e.g. the group.
    """

    name: str
    targets: NDArray[np.float64]
    achieved: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    missed: NDArray[np.bool_]
    floor: float | None = None
    note: str = ""


def fpr_control(
    curves: Sequence[FprCurve],
    *,
    eps: float = 0.01,
    cap: bool = True,
    measured_on: str = "held-out runs",
) -> Figure:
    """One small panel per score, all others behind it in gray, so that no labels collide.

    Args:
        curves: the scores, in the order shown.
        eps: the tolerance around a target.
        cap: the target is a cap (protocol strict): anything below it is kept; else a band.
        measured_on: what the achieved rates were measured on.

    Returns:
        A figure with at most 6 panels a row, 9 inches wide from three panels on.
    """
    with house_style():
        columns = min(_COLUMNS, max(len(curves), 1))
        tall = 1.4 if columns == _COLUMNS else 1.9
        width = 9.0 if columns >= 3 else 1.2 + 2.8 * columns
        entries = _legend(curves, cap)
        across = 6 if columns >= 3 else 2 * columns
        head = 0.5 + 0.17 * (-(-len(entries) // across) - 1)
        figure, panels = panel_grid(len(curves), columns, width=width, panel_height=tall, head=head)
        targets = np.unique(np.concatenate([curve.targets for curve in curves]))
        _scale(panels[0], targets)
        for axes, curve in zip(panels, curves, strict=True):
            _background(axes, curves, targets, eps, cap)
            _highlight(axes, curve)
        figure.supxlabel(
            "target false positive rate (share of negative windows)", fontsize=8.5, y=0.005
        )
        figure.supylabel(f"achieved on {measured_on}", fontsize=8.5, x=0.005)
        figure.legend(
            handles=entries,
            loc="upper left",
            ncols=across,
            bbox_to_anchor=(0.06, 1.0),
            columnspacing=1.4,
        )
        return figure


def _scale(axes: Axes, targets: NDArray[np.float64]) -> None:
    """Both axes of all panels: they share them, and setting one anew would set all."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(float(targets.min()) / 1.8, float(targets.max()) * 1.8)
    axes.set_ylim(_LOWEST / 1.5, 1.15)
    axes.minorticks_off()
    axes.set_xticks(targets, [rate_text(value) for value in targets])
    ticks = [_LOWEST, 0.01, 0.05, 0.2, 1.0]
    axes.set_yticks(ticks, [f"≤{rate_text(_LOWEST)}", *(rate_text(value) for value in ticks[1:])])


def _background(
    axes: Axes,
    curves: Sequence[FprCurve],
    targets: NDArray[np.float64],
    eps: float,
    cap: bool,
) -> None:
    line = np.geomspace(float(targets.min()) / 1.8, float(targets.max()) * 1.8, 60)
    slack = np.minimum(eps, line / 2) if cap else np.full_like(line, eps)
    bottom = np.full_like(line, _LOWEST / 2) if cap else np.maximum(line - slack, _LOWEST / 2)
    axes.fill_between(line, bottom, line + slack, color=_KEPT, linewidth=0, zorder=0)
    axes.plot(line, line, color=MUTED, linewidth=0.8, linestyle=(0, (1, 1.2)), zorder=1)
    others = [np.column_stack([other.targets, _shown(other.achieved)]) for other in curves]
    axes.add_collection(
        LineCollection(others, colors=RULE, linewidths=0.6, zorder=1), autolim=False
    )


def _highlight(axes: Axes, curve: FprCurve) -> None:
    answered = np.isfinite(curve.achieved)
    shown = _shown(curve.achieved)
    ranged = answered & np.isfinite(curve.low) & np.isfinite(curve.high)
    axes.vlines(
        curve.targets[ranged],
        _shown(curve.low[ranged]),
        _shown(curve.high[ranged]),
        color=BLUE,
        linewidth=1.6,
        alpha=0.45,
        zorder=3,
    )
    axes.plot(curve.targets[answered], shown[answered], color=BLUE, linewidth=1.4, zorder=4)
    for chosen, face in ((answered & ~curve.missed, BLUE), (answered & curve.missed, "#FFFFFF")):
        axes.plot(
            curve.targets[chosen],
            shown[chosen],
            "o",
            color=BLUE,
            markersize=4.2,
            markerfacecolor=face,
            markeredgewidth=1.1,
            zorder=5,
        )
    abstained = curve.targets[~answered]
    axes.plot(
        abstained,
        np.full(len(abstained), _LOWEST),
        "x",
        color=INK,
        markersize=4.5,
        markeredgewidth=1.2,
        zorder=5,
        clip_on=False,
    )
    if curve.floor is not None:
        axes.axhline(
            max(curve.floor, _LOWEST),
            color=VERMILION,
            linewidth=1.3,
            linestyle=(0, (5, 1.5)),
            zorder=2,
        )
        above = curve.floor < 0.5
        axes.annotate(
            f"floor {rate_text(round(curve.floor, 3))}",
            (0.03, max(curve.floor, _LOWEST)),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2 if above else -2),
            textcoords="offset points",
            va="bottom" if above else "top",
            fontsize=6.5,
            color=VERMILION,
            weight="bold",
        )
    axes.set_title(shorten(curve.name, 22), fontsize=6.5, pad=3)
    if curve.note:
        axes.text(
            0.98,
            0.03,
            curve.note,
            transform=axes.transAxes,
            ha="right",
            va="bottom",
            fontsize=6,
            color=MUTED,
        )


def _shown(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rates where a logarithmic axis can show them; what is lower goes to the lowest tick."""
    shown: NDArray[np.float64] = np.maximum(rates, _LOWEST)
    return shown


def _legend(curves: Sequence[FprCurve], cap: bool) -> list[Line2D | Patch]:
    """What the panels show, and nothing that they do not."""
    answered = [np.isfinite(curve.achieved) for curve in curves]
    pairs = list(zip(answered, curves, strict=True))
    ranged = any(np.isfinite(curve.low[known]).any() for known, curve in pairs)
    entries: list[tuple[bool, Line2D | Patch]] = [
        (
            True,
            Line2D(
                [],
                [],
                color=BLUE,
                marker="o",
                markersize=4,
                label="target met, 95% interval" if ranged else "target met",
            ),
        ),
        (
            any((known & curve.missed).any() for known, curve in pairs),
            Line2D(
                [],
                [],
                color=BLUE,
                marker="o",
                markersize=4,
                markerfacecolor="#FFFFFF",
                label="missed",
            ),
        ),
        (len(curves) > 1, Line2D([], [], color=RULE, linewidth=1, label="all others")),
        (True, Patch(color=_KEPT, label="budget kept" if cap else "within tolerance")),
        (
            any(curve.floor is not None for curve in curves),
            Line2D(
                [],
                [],
                color=VERMILION,
                linestyle=(0, (5, 1.5)),
                label="floor: least cost of any alarm",
            ),
        ),
        (
            any((~known).any() for known in answered),
            Line2D([], [], color=INK, marker="x", linestyle="", label="abstains"),
        ),
    ]
    return [entry for shown, entry in entries if shown]
