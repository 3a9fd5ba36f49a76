"""Retention against generalization: every configuration, and the frontier that none dominates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gmb_hf.reporting.figures.style import (
    BLUE,
    HALO,
    INK,
    MUTED,
    house_style,
    new_figure,
    rate_axis,
    shorten,
)

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
