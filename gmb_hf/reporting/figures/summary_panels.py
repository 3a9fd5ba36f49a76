"""The two panels of the label summary: false alarms against a budget, coverage against chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from gmb_hf.reporting.figures.style import (
    BLUE,
    HALO,
    INK,
    MUTED,
    RULE,
    VERMILION,
    rate_text,
)

_FPR_LOWEST = 0.004


@dataclass(frozen=True)
class SummaryRow:
    """One score at the primary operating point; None where a number does not exist.

    Attributes:
        name: the score.
        group: a key of `words.GROUPS`.
        label: its one label.
        achieved: false positive rate on held-out runs; None: the answer is ABSTAIN.
        achieved_low, achieved_high: the interval around it.
        state: met, missed or straddles.
        floor: the least cost of any alarm, where there is a floor.
        coverage, coverage_low, coverage_high: share of events warned of.
        shift_null, risk_set_null: the coverage that chance reaches at the same cost.
        lead: median lead time in steps.
        p_value: of the stricter null, adjusted over the candidates where it was.
        why: what speaks against an alarm, in few words.
    """

    name: str
    group: str
    label: str
    achieved: float | None = None
    achieved_low: float | None = None
    achieved_high: float | None = None
    state: str | None = None
    floor: float | None = None
    coverage: float | None = None
    coverage_low: float | None = None
    coverage_high: float | None = None
    shift_null: float | None = None
    risk_set_null: float | None = None
    lead: float | None = None
    p_value: float | None = None
    why: str = ""


def fpr_axis(axes: Axes, target: float, cap: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(_FPR_LOWEST / 1.35, 1.3)
    axes.minorticks_off()
    apart = [tick for tick in (0.2, 1.0) if tick > 2 * target]
    ticks = [_FPR_LOWEST, target, *apart]
    axes.set_xticks(ticks, [f"≤{rate_text(ticks[0])}", *(rate_text(tick) for tick in ticks[1:])])
    axes.axvspan(_FPR_LOWEST / 2, cap, color="#E3EEF5", linewidth=0, zorder=1)
    axes.axvline(target, color=INK, linewidth=0.9, zorder=1.5)
    _bare(axes)


def coverage_axis(axes: Axes, minimum: float) -> None:
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    for tick in (0.25, 0.5, 0.75):
        axes.axvline(tick, color=RULE, linewidth=0.5, zorder=1)
    axes.axvline(minimum, color=INK, linewidth=0.9, linestyle=(0, (4, 1.6)), zorder=1.5)
    _bare(axes)


def _bare(axes: Axes) -> None:
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    axes.tick_params(labelsize=6.8, length=2.5, pad=2)


def false_alarms(axes: Axes, y: float, row: SummaryRow) -> None:
    if row.floor is not None:
        floor = max(row.floor, _FPR_LOWEST)
        axes.plot(
            [floor, 1.3], [y, y], color=VERMILION, linewidth=1.1, linestyle=(0, (2, 1)), zorder=3
        )
        axes.plot([floor], [y], "|", color=VERMILION, markersize=8, markeredgewidth=1.8, zorder=4)
        axes.annotate(
            f"floor {rate_text(round(row.floor, 2))}",
            (floor, y),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            va="center_baseline",
            fontsize=6.3,
            color=VERMILION,
            zorder=5,
            path_effects=HALO,
        )
    if row.achieved is None:
        axes.plot([_FPR_LOWEST], [y], "x", color=INK, markersize=4, markeredgewidth=1.1, zorder=4)
        if row.floor is None:
            axes.annotate(
                "abstains",
                (_FPR_LOWEST, y),
                xytext=(5, 0),
                va="center_baseline",
                textcoords="offset points",
                fontsize=6.3,
                color=MUTED,
                zorder=5,
            )
        return
    if row.achieved_low is not None and row.achieved_high is not None:
        ends = np.maximum([row.achieved_low, row.achieved_high], _FPR_LOWEST)
        axes.plot(
            ends, [y, y], color=BLUE, linewidth=1.8, alpha=0.45, zorder=3, solid_capstyle="butt"
        )
    face = "#FFFFFF" if row.state == "missed" else BLUE
    axes.plot(
        [max(row.achieved, _FPR_LOWEST)],
        [y],
        "o",
        color=BLUE,
        markersize=4.6,
        markerfacecolor=face,
        markeredgewidth=1.1,
        zorder=4,
    )


def coverage(axes: Axes, y: float, row: SummaryRow) -> None:
    if row.coverage is None:
        return
    nulls = [value for value in (row.shift_null, row.risk_set_null) if value is not None]
    if nulls:
        chance = max(nulls)
        gain = row.coverage > chance
        axes.plot(
            [chance, row.coverage],
            [y, y],
            color=BLUE if gain else "#9A9A9A",
            linewidth=3.4 if gain else 1.6,
            alpha=0.35 if gain else 0.8,
            zorder=2.5,
            solid_capstyle="butt",
        )
    for value, marker in ((row.shift_null, ">"), (row.risk_set_null, "D")):
        if value is not None:
            axes.plot(
                [value],
                [y],
                marker,
                color=MUTED,
                markersize=3.6,
                markeredgewidth=0.9,
                markerfacecolor="#FFFFFF",
                zorder=3,
            )
    if row.coverage_low is not None and row.coverage_high is not None:
        axes.plot(
            [row.coverage_low, row.coverage_high], [y, y], color=INK, linewidth=0.9, zorder=3.5
        )
    axes.plot(
        [row.coverage],
        [y],
        "o",
        color=BLUE,
        markersize=5,
        zorder=4,
        markeredgecolor=INK,
        markeredgewidth=0.5,
        clip_on=False,
    )


def legend() -> list[Line2D]:
    return [
        Line2D([], [], color=BLUE, marker="o", markersize=4.6, linewidth=1.8,
               label="measured, 95% interval"),
        Line2D([], [], color=BLUE, marker="o", markersize=4.6, linestyle="",
               markerfacecolor="#FFFFFF", label="budget missed"),
        Line2D([], [], color=INK, marker="x", markersize=4, linestyle="", label="abstains"),
        Line2D([], [], color=MUTED, marker=">", markersize=3.8, linestyle="",
               markerfacecolor="#FFFFFF", label="chance: shifted in time"),
        Line2D([], [], color=MUTED, marker="D", markersize=3.6, linestyle="",
               markerfacecolor="#FFFFFF", label="chance: another run at risk"),
        Line2D([], [], color=INK, linewidth=0.9, label="budget"),
        Line2D([], [], color=INK, linewidth=0.9, linestyle=(0, (4, 1.6)), label="least coverage"),
    ]  # fmt: skip
