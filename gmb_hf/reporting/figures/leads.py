"""How early the warnings came: the distribution of lead times, score by score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from gmb_hf.reporting.figures.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    SKY,
    house_style,
    rate_text,
    shorten,
    step_axis,
)

_COLOURS = {"monitor": BLUE, "undeclared": SKY, "oracle": ORANGE, "control": "#8C8C8C"}
_ROW = 0.3
_BARS = 40


@dataclass(frozen=True)
class LeadTimes:
    """The lead times of one score at one target rate.

    Attributes:
        name: the score.
        leads: steps from the first alarm in the horizon to t*, one per covered event [N].
        n_events: all events, covered or not.
        group: a key of `words.GROUPS`.
    """

    name: str
    leads: NDArray[np.float64]
    n_events: int
    group: str = "monitor"


def lead_time_distribution(
    scores: Sequence[LeadTimes],
    *,
    horizon: int,
    lead_time_target: int,
    target: float,
    cadence: int | None = None,
) -> Figure:
    """One row per score: how the first alarms spread over the horizon, and their median.

    Bars are shares of all events, covered or not, on one scale. Leads are censored at the
    horizon: an alarm that had been on before it counts as the horizon.

    Args:
        scores: rows, from the top down.
        horizon: where leads are censored, in steps.
        lead_time_target: the lead that counts as success, in steps.
        target: the target false positive rate of the alarms, for the axis label.
        cadence: steps between checkpoints; bars are a multiple of it wide.
    """
    with house_style():
        head, foot, left, right, width = 0.42, 0.5, 1.75, 1.35, 7.2
        height = head + foot + _ROW * max(1, len(scores))
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes(
            (
                left / width,
                foot / height,
                (width - left - right) / width,
                (height - head - foot) / height,
            )
        )
        # Leads are multiples of the cadence: a bar is centred on each, or on every few.
        unit = cadence or 1
        bar = unit * max(1, horizon // (unit * _BARS))
        edges = np.concatenate([[0.0], np.arange(bar / 2, horizon + bar, bar)])
        shares = [
            np.histogram(score.leads, bins=edges)[0] / max(1, score.n_events) for score in scores
        ]
        tallest = max((float(share.max(initial=0.0)) for share in shares), default=0.0) or 1.0
        for index, (score, share) in enumerate(zip(scores, shares, strict=True)):
            _row(axes, len(scores) - 1 - index, score, share / tallest, bar, index % 2 == 0)
        axes.set_ylim(-0.08, len(scores))
        axes.set_xlim(horizon + bar, 0)
        axes.spines["left"].set_visible(False)
        axes.set_yticks([])
        axes.axvline(lead_time_target, color=GREEN, linewidth=1.1, linestyle=(0, (5, 1.5)))
        axes.axvline(horizon, color=MUTED, linewidth=0.9, linestyle=(0, (1, 1.4)))
        step_axis(axes, "lead time: steps from the first alarm to t*")
        figure.legend(
            handles=_legend(scores),
            loc="upper left",
            ncols=6,
            bbox_to_anchor=(0.0, 1.0),
            columnspacing=1.2,
            handlelength=1.6,
        )
        axes.text(
            1.02,
            1.0,
            f"events warned of\nat a budget of {rate_text(target)}",
            transform=axes.transAxes,
            va="bottom",
            fontsize=6.8,
            color=MUTED,
        )
        return figure


def _row(
    axes: Axes, base: int, score: LeadTimes, heights: NDArray[np.float64], bar: int, shade: bool
) -> None:
    if shade:
        axes.axhspan(base - 0.04, base + 0.96, color=FAINT, linewidth=0, zorder=0)
    colour = _COLOURS.get(score.group, BLUE)
    centres = np.arange(len(heights)) * bar
    axes.bar(
        centres, 0.84 * heights, width=0.86 * bar, bottom=base, color=colour, zorder=2, linewidth=0
    )
    if len(score.leads):
        median = float(np.median(score.leads))
        axes.plot([median, median], [base, base + 0.88], color=INK, linewidth=1.8, zorder=3)
    label = axes.get_yaxis_transform()
    axes.text(
        -0.015,
        base + 0.4,
        shorten(score.name, 27),
        transform=label,
        ha="right",
        va="center",
        fontsize=7,
    )
    share = len(score.leads) / max(1, score.n_events)
    axes.text(
        1.02, base + 0.4, f"{share:.0%}", transform=label, va="center", fontsize=7, weight="bold"
    )
    axes.text(
        1.12,
        base + 0.4,
        f"{len(score.leads):,} of {score.n_events:,}",
        transform=label,
        va="center",
        fontsize=6.8,
        color=MUTED,
    )


def _legend(scores: Sequence[LeadTimes]) -> list[Line2D | Patch]:
    words = {
        "monitor": "sees no test labels",
        "undeclared": "not declared",
        "oracle": "sees test labels",
        "control": "control",
    }
    present = [group for group in words if any(score.group == group for score in scores)]
    handles: list[Line2D | Patch] = [
        Patch(color=_COLOURS[group], label=words[group]) for group in present
    ]
    handles += [
        Line2D([], [], color=INK, linewidth=1.8, label="median"),
        Line2D([], [], color=GREEN, linestyle=(0, (5, 1.5)), label="lead target"),
        Line2D([], [], color=MUTED, linestyle=(0, (1, 1.4)), label="horizon"),
    ]
    return handles
