"""Retention against generalization: every configuration, and the frontier that none dominates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gmb_hf.reporting.figures.style import (
    BLUE,
    HALO,
    MUTED,
    house_style,
    new_figure,
    rate_axis,
    shorten,
)

_MOST_NAMES = 24


def pareto_plot(
    names: Sequence[str],
    frozen: NDArray[np.float64],
    organic: NDArray[np.float64],
    on_frontier: NDArray[np.bool_],
) -> Figure:
    """A point per configuration; those on the frontier are filled, named and joined by a line.

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
        # What is dominated lies below and to the left of this staircase.
        axes.step(x, y, where="pre", color=BLUE, linewidth=1.1, alpha=0.6, zorder=1)
        axes.scatter(x, y, s=30, color=BLUE, label="on the frontier", zorder=3)
        for place in order[:_MOST_NAMES]:
            axes.annotate(
                shorten(names[place], 22),
                (frozen[place], organic[place]),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=7,
                path_effects=HALO,
                zorder=4,
            )
        figure.legend(loc="outside upper left", ncols=2)
        return figure
