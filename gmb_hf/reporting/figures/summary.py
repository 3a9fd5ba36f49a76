"""The one-page answer: which scores may raise an alarm, at what cost, and why the rest may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch

from gmb_hf.reporting.figures.style import (
    BLUE,
    FAINT,
    INK,
    LABEL_COLOURS,
    LABEL_INKS,
    MUTED,
    RULE,
    VERMILLION,
    house_style,
    rate_text,
    shorten,
)

GROUPS = {
    "monitor": "Sees no test labels: a monitor",
    "oracle": "Sees test labels: an oracle, shown for comparison",
    "control": "Controls: what any monitor must beat",
}
_ORDER = tuple(LABEL_COLOURS)
_WIDTH, _ROW, _HEAD, _FOOT = 9.8, 0.235, 1.18, 0.5
# Left edges and widths in inches: names, label, false alarms, coverage, lead, p, why.
_NAME, _LABEL, _FPR, _COVERAGE, _LEAD, _P, _WHY = 0.14, 1.96, 3.5, 5.2, 7.66, 7.84, 8.28
_LABEL_WIDTH, _FPR_WIDTH, _COVERAGE_WIDTH = 1.42, 1.55, 2.0
_FPR_LOWEST = 0.004


@dataclass(frozen=True)
class SummaryRow:
    """One score at the primary operating point; None where a number does not exist.

    Attributes:
        name: the score.
        group: monitor, oracle or control.
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


def label_summary(
    rows: Sequence[SummaryRow],
    *,
    title: str,
    subtitle: str,
    target: float,
    cap: float,
    coverage_min: float,
) -> Figure:
    """Label, false alarms against their budget, and coverage against chance, for every score.

    Args:
        rows: the scores; they are grouped, and sorted by label and coverage.
        title: the answer in one sentence.
        subtitle: what was judged, in one line.
        target: the primary target rate, drawn as a line.
        cap: the rate up to which that target counts as met.
        coverage_min: the least coverage that is asked for.

    Returns:
        A figure 9.8 inches wide, and as tall as it takes.
    """
    with house_style():
        groups = [(name, _sorted(rows, name)) for name in GROUPS]
        groups = [(name, members) for name, members in groups if members]
        count = sum(len(members) + 1 for _, members in groups)
        height = _HEAD + count * _ROW + _FOOT
        figure = Figure(figsize=(_WIDTH, height))
        page = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(0, height))
        page.set_axis_off()
        _header(page, height, title, subtitle, target)
        panels = [
            figure.add_axes(
                (left / _WIDTH, _FOOT / height, width / _WIDTH, count * _ROW / height),
                ylim=(count, 0),
                facecolor="none",
            )
            for left, width in ((_FPR, _FPR_WIDTH), (_COVERAGE, _COVERAGE_WIDTH))
        ]
        _fpr_axis(panels[0], target, cap)
        _coverage_axis(panels[1], coverage_min)
        line = 0
        for group, members in groups:
            _group_heading(page, panels, _baseline(height, line), line, GROUPS[group])
            for index, row in enumerate(members):
                line += 1
                _text(page, _baseline(height, line), row, shade=index % 2 == 0)
                _false_alarms(panels[0], line + 0.5, row)
                _coverage(panels[1], line + 0.5, row)
            line += 1
        figure.legend(
            handles=_legend(),
            loc="lower left",
            ncols=7,
            bbox_to_anchor=(0.006, 0.0),
            fontsize=6.8,
            columnspacing=1.1,
            handletextpad=0.5,
        )
        return figure


def _sorted(rows: Sequence[SummaryRow], group: str) -> list[SummaryRow]:
    members = [row for row in rows if row.group == group]
    return sorted(members, key=lambda row: (_ORDER.index(row.label), -(row.coverage or 0)))


def _baseline(height: float, line: int) -> float:
    """The middle of a row, in inches from the bottom."""
    return height - _HEAD - (line + 0.5) * _ROW


def _header(page: Axes, height: float, title: str, subtitle: str, target: float) -> None:
    page.text(_NAME, height - 0.2, title, fontsize=12.5, weight="bold", va="center")
    page.text(_NAME, height - 0.46, subtitle, fontsize=7.8, color=MUTED, va="center")
    y = height - _HEAD + 0.26
    for x, text, where in (
        (_NAME, "score", "left"),
        (_LABEL, "label", "left"),
        (_FPR, f"false alarm rate,\nbudget {rate_text(target)}", "left"),
        (_COVERAGE, "share of events warned of,\nagainst chance at the same cost", "left"),
        (_LEAD, "median\nlead", "right"),
        (_P + 0.32, "p", "right"),
        (_WHY, "what speaks against it", "left"),
    ):
        page.text(x, y, text, fontsize=7.3, color=MUTED, ha=where, va="center", linespacing=1.15)
    page.plot([_NAME, _WIDTH - 0.14], [height - _HEAD + 0.06] * 2, color=INK, linewidth=0.9)


def _group_heading(page: Axes, panels: Sequence[Axes], y: float, line: int, text: str) -> None:
    # The reference lines of the panels must not run through a heading.
    for panel in panels:
        panel.axhspan(line, line + 1, color="#FFFFFF", linewidth=0, zorder=2)
    page.text(_NAME, y - 0.02, text, fontsize=8, weight="bold", va="center")


def _text(page: Axes, y: float, row: SummaryRow, *, shade: bool) -> None:
    if shade:
        page.axhspan(
            y - _ROW / 2,
            y + _ROW / 2,
            xmin=_NAME / _WIDTH,
            xmax=1 - 0.14 / _WIDTH,
            color=FAINT,
            linewidth=0,
            zorder=0,
        )
    page.text(_NAME + 0.08, y, shorten(row.name, 27), fontsize=7.4, va="center_baseline")
    page.add_patch(
        FancyBboxPatch(
            (_LABEL + 0.04, y - 0.075),
            _LABEL_WIDTH - 0.08,
            0.15,
            linewidth=0,
            boxstyle="round,pad=0,rounding_size=0.05",
            facecolor=LABEL_COLOURS[row.label],
        )
    )
    page.text(
        _LABEL + _LABEL_WIDTH / 2,
        y - 0.005,
        row.label.replace("_", " "),
        fontsize=6.2,
        weight="bold",
        ha="center",
        va="center_baseline",
        color=LABEL_INKS.get(row.label, INK),
    )
    lead = "–" if row.lead is None else f"{row.lead:,.0f}"
    page.text(_LEAD, y, lead, fontsize=7.2, ha="right", va="center_baseline")
    page.text(_P + 0.32, y, _p_text(row.p_value), fontsize=7.2, ha="right", va="center_baseline")
    page.text(
        _WHY,
        y,
        shorten(row.why, 25) if row.why else "",
        fontsize=6.8,
        color=MUTED,
        va="center_baseline",
    )


def _p_text(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 0.001:
        return "<.001"
    return f"{value:.3f}"[1:] if value < 0.0995 else f"{value:.2f}".removeprefix("0")


def _fpr_axis(axes: Axes, target: float, cap: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(_FPR_LOWEST / 1.35, 1.3)
    axes.minorticks_off()
    apart = [tick for tick in (0.2, 1.0) if tick > 2 * target]
    ticks = [_FPR_LOWEST, target, *apart]
    axes.set_xticks(ticks, [f"≤{rate_text(ticks[0])}", *(rate_text(tick) for tick in ticks[1:])])
    axes.axvspan(_FPR_LOWEST / 2, cap, color="#E3EEF5", linewidth=0, zorder=1)
    axes.axvline(target, color=INK, linewidth=0.9, zorder=1.5)
    _bare(axes)


def _coverage_axis(axes: Axes, minimum: float) -> None:
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


def _false_alarms(axes: Axes, y: float, row: SummaryRow) -> None:
    if row.floor is not None:
        floor = max(row.floor, _FPR_LOWEST)
        axes.plot(
            [floor, 1.3], [y, y], color=VERMILLION, linewidth=1.1, linestyle=(0, (2, 1)), zorder=3
        )
        axes.plot([floor], [y], "|", color=VERMILLION, markersize=8, markeredgewidth=1.8, zorder=4)
        axes.annotate(
            f"floor {rate_text(round(row.floor, 2))}",
            (floor, y),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            va="center_baseline",
            fontsize=6.3,
            color=VERMILLION,
            zorder=5,
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


def _coverage(axes: Axes, y: float, row: SummaryRow) -> None:
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


def _legend() -> list[Line2D]:
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
