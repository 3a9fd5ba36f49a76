"""How much of each task is lost: a bar per variant with its interval over seeds."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gmb_hf.continual.over_seeds import OverSeeds
from gmb_hf.continual.retention import MEASURES
from gmb_hf.continual.summary import RetentionSummary
from gmb_hf.reporting.figures.style import (
    INK,
    VARIANT_COLOURS,
    VARIANT_HATCHES,
    house_style,
    new_figure,
    rate_axis,
    shorten,
)


def forgetting_bars(summary: RetentionSummary) -> Figure | None:
    """Forgetting of every task but the last, in accuracy above and in loss below.

    The whiskers are 95% Student intervals over seeds, the dots are the seeds.

    Returns:
        A figure of 7.2 by 4.6 inches; None of a single phase, in which nothing can be forgotten.
    """
    tasks = summary.trained_on[:-1]
    if not tasks:
        return None
    with house_style():
        figure = new_figure(7.2, 4.6)
        panels = figure.subplots(2, 1, sharex=True)
        for axes, measure in zip(panels, MEASURES, strict=True):
            for place, name in enumerate(summary.variants):
                found = [
                    task.forgetting
                    for task in summary.variants[name].tasks
                    if task.measure == measure and task.forgetting is not None
                ]
                _bars(axes, found, place, len(summary.variants), shorten(name, 26))
            axes.axhline(0, color=INK, lw=0.8)
            unit = " (nats)" if measure == "loss" else ""
            axes.set_ylabel(f"forgetting, {measure}{unit}")
        rate_axis(panels[0].yaxis)
        panels[0].set_title("Forgetting: the best before the last phase against the end")
        panels[1].set_xticks(range(len(tasks)), [shorten(task, 18) for task in tasks])
        for axes in panels:
            axes.tick_params(axis="x", length=0)
        panels[1].set_xlabel(f"task, in the order of training (then {summary.trained_on[-1]})")
        panels[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
        return figure


def _bars(axes: Axes, found: list[OverSeeds], place: int, count: int, label: str) -> None:
    width = 0.8 / count
    at = np.arange(len(found)) + (place - (count - 1) / 2) * width
    axes.bar(
        at,
        [over.mean for over in found],
        width=0.92 * width,
        color=VARIANT_COLOURS[place % len(VARIANT_COLOURS)],
        hatch=VARIANT_HATCHES[place % len(VARIANT_HATCHES)],
        edgecolor="#FFFFFF",
        linewidth=0,
        label=label,
        zorder=1,
    )
    for x, over in zip(at, found, strict=True):
        spots = x + np.linspace(-0.25, 0.25, over.n_seeds) * width if over.n_seeds > 1 else [x]
        axes.plot(spots, over.values, "o", ms=3, mew=0.6, mfc="#FFFFFF", mec=INK, zorder=3)
        if over.t_low is not None and over.t_high is not None:
            axes.errorbar(
                x,
                over.mean,
                yerr=[[over.mean - over.t_low], [over.t_high - over.mean]],
                ecolor=INK,
                elinewidth=1.1,
                capsize=2.5,
                zorder=2,
            )
