"""Achieved against target false positive rate: who keeps a budget, and who has a floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch
from numpy.typing import NDArray

from gmb_hf.benchmark.nulls import NULLS
from gmb_hf.benchmark.utility import OperatingPointRecord
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.escape import steps
from gmb_hf.report.answer import GROUPS, LABELS, group_of, reason, shown_name, shown_p
from gmb_hf.report.style import (
    BLUE,
    FAINT,
    GREEN,
    HALO,
    INK,
    LABEL_COLOURS,
    LABEL_INKS,
    MUTED,
    ORANGE,
    RULE,
    SKY,
    VERMILION,
    house_style,
    panel_grid,
    rate_text,
    shorten,
    step_axis,
)
from gmb_hf.tables import follow

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


# How early the warnings came: the distribution of lead times, score by score.


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
        group: a key of `GROUPS`.
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
            handles=_lead_handles(scores),
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


def _lead_handles(scores: Sequence[LeadTimes]) -> list[Line2D | Patch]:
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


# The two panels of the label summary: false alarms against a budget, coverage against chance.


_FPR_LOWEST = 0.004


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


def _draw_false_alarms(axes: Axes, y: float, item: IndicatorRecord, target: float) -> None:
    row, least = item.achieved(target), _floor(item)
    achieved = None if row is None or row.x_answer == "ABSTAIN" else row.achieved
    interval = None if row is None else row.x_interval
    if least is not None:
        floor = max(least, _FPR_LOWEST)
        axes.plot(
            [floor, 1.3], [y, y], color=VERMILION, linewidth=1.1, linestyle=(0, (2, 1)), zorder=3
        )
        axes.plot([floor], [y], "|", color=VERMILION, markersize=8, markeredgewidth=1.8, zorder=4)
        axes.annotate(
            f"floor {rate_text(round(least, 2))}",
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
    if achieved is None:
        axes.plot([_FPR_LOWEST], [y], "x", color=INK, markersize=4, markeredgewidth=1.1, zorder=4)
        if least is None:
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
    if interval is not None and interval.low is not None and interval.high is not None:
        ends = np.maximum([interval.low, interval.high], _FPR_LOWEST)
        axes.plot(
            ends, [y, y], color=BLUE, linewidth=1.8, alpha=0.45, zorder=3, solid_capstyle="butt"
        )
    face = "#FFFFFF" if row is not None and row.x_state == "missed" else BLUE
    axes.plot(
        [max(achieved, _FPR_LOWEST)],
        [y],
        "o",
        color=BLUE,
        markersize=4.6,
        markerfacecolor=face,
        markeredgewidth=1.1,
        zorder=4,
    )


_NULL_MARKERS = ((">", 3.8), ("D", 3.6), ("s", 3.6), ("^", 3.8))
"""Of the chance nulls in their order, each with its size in the legend."""


def _draw_coverage(axes: Axes, y: float, point: OperatingPointRecord | None) -> None:
    if point is None or point.coverage is None:
        return
    chance = point.by_chance
    if chance is not None:
        gain = point.coverage > chance
        axes.plot(
            [chance, point.coverage],
            [y, y],
            color=BLUE if gain else "#9A9A9A",
            linewidth=3.4 if gain else 1.6,
            alpha=0.35 if gain else 0.8,
            zorder=2.5,
            solid_capstyle="butt",
        )
    for name, (marker, _) in zip(NULLS, cycle(_NULL_MARKERS), strict=False):
        if name in point.nulls:
            axes.plot(
                [point.nulls[name].mean_coverage],
                [y],
                marker,
                color=MUTED,
                markersize=3.6,
                markeredgewidth=0.9,
                markerfacecolor="#FFFFFF",
                zorder=3,
            )
    interval = point.x_coverage_interval
    if interval is not None and interval.low is not None and interval.high is not None:
        axes.plot([interval.low, interval.high], [y, y], color=INK, linewidth=0.9, zorder=3.5)
    axes.plot(
        [point.coverage],
        [y],
        "o",
        color=BLUE,
        markersize=5,
        zorder=4,
        markeredgecolor=INK,
        markeredgewidth=0.5,
        clip_on=False,
    )


def _summary_legend() -> list[Line2D]:
    return [
        Line2D([], [], color=BLUE, marker="o", markersize=4.6, linewidth=1.8,
               label="measured, 95% interval"),
        Line2D([], [], color=BLUE, marker="o", markersize=4.6, linestyle="",
               markerfacecolor="#FFFFFF", label="budget missed"),
        Line2D([], [], color=INK, marker="x", markersize=4, linestyle="", label="abstains"),
        *(
            Line2D([], [], color=MUTED, marker=marker, markersize=size, linestyle="",
                   markerfacecolor="#FFFFFF", label=f"chance: {null.label}")
            for null, (marker, size) in zip(NULLS.values(), cycle(_NULL_MARKERS), strict=False)
        ),
        Line2D([], [], color=INK, linewidth=0.9, label="budget"),
        Line2D([], [], color=INK, linewidth=0.9, linestyle=(0, (4, 1.6)), label="least coverage"),
    ]  # fmt: skip


# The one-page answer: which scores may raise an alarm, at what cost, and why the rest may not.


_WIDTH, _ROW_HEIGHT, _HEAD, _FOOT = 9.8, 0.235, 1.18, 0.5
# Left edges and widths in inches: names, label, false alarms, coverage, lead, p, why.
_NAME, _LABEL, _FPR, _COVERAGE, _LEAD, _P, _WHY = 0.14, 1.96, 3.5, 5.2, 7.66, 7.84, 8.28
_LABEL_WIDTH, _FPR_WIDTH, _COVERAGE_WIDTH = 1.42, 1.55, 2.0


def label_summary(
    items: Sequence[IndicatorRecord],
    *,
    title: str,
    subtitle: str,
    target: float,
    cap: float,
    coverage_min: float,
) -> Figure:
    """Label, false alarms against their budget, and coverage against chance, for every score.

    Args:
        items: the scores; they are grouped, and sorted by label and coverage.
        title: the answer in one sentence.
        subtitle: what was judged, in one line.
        target: the primary target rate, drawn as a line.
        cap: the rate up to which that target counts as met.
        coverage_min: the least coverage that is asked for.

    Returns:
        A figure 9.8 inches wide, and as tall as it takes.
    """
    with house_style():
        groups = [(name, _sorted(items, name, target)) for name in GROUPS]
        groups = [(name, members) for name, members in groups if members]
        count = sum(len(members) + 1 for _, members in groups)
        height = _HEAD + count * _ROW_HEIGHT + _FOOT
        figure = Figure(figsize=(_WIDTH, height))
        page = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(0, height))
        page.set_axis_off()
        _header(page, height, title, subtitle, target)
        panels = [
            figure.add_axes(
                (left / _WIDTH, _FOOT / height, width / _WIDTH, count * _ROW_HEIGHT / height),
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
            for index, item in enumerate(members):
                line += 1
                _text(page, _baseline(height, line), item, target, shade=index % 2 == 0)
                _draw_false_alarms(panels[0], line + 0.5, item, target)
                _draw_coverage(panels[1], line + 0.5, item.point(target))
            line += 1
        figure.legend(
            handles=_summary_legend(),
            loc="lower left",
            ncols=7,
            bbox_to_anchor=(0.006, 0.0),
            fontsize=6.8,
            columnspacing=1.1,
            handletextpad=0.5,
        )
        return figure


def _sorted(items: Sequence[IndicatorRecord], group: str, target: float) -> list[IndicatorRecord]:
    members = [item for item in items if group_of(item) == group]
    return sorted(
        members,
        key=lambda item: (
            LABELS.index(item.label),
            -(follow(item.point(target), "coverage") or 0),
        ),
    )


def _baseline(height: float, line: int) -> float:
    """The middle of a row, in inches from the bottom."""
    return height - _HEAD - (line + 0.5) * _ROW_HEIGHT


def _header(page: Axes, height: float, title: str, subtitle: str, target: float) -> None:
    page.text(_NAME, height - 0.2, shorten(title, 92), fontsize=12.5, weight="bold", va="center")
    page.text(_NAME, height - 0.46, shorten(subtitle, 150), fontsize=7.8, color=MUTED, va="center")
    y = height - _HEAD + 0.26
    for x, text, where in (
        (_NAME, "score", "left"),
        (_LABEL, "label", "left"),
        (_FPR, f"false alarm rate,\nbudget {rate_text(target)}", "left"),
        (_COVERAGE, "share of events warned of,\nagainst chance at the same cost", "left"),
        (_LEAD, "median lead,\nsteps", "right"),
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


def _text(page: Axes, y: float, item: IndicatorRecord, target: float, *, shade: bool) -> None:
    if shade:
        page.axhspan(
            y - _ROW_HEIGHT / 2,
            y + _ROW_HEIGHT / 2,
            xmin=_NAME / _WIDTH,
            xmax=1 - 0.14 / _WIDTH,
            color=FAINT,
            linewidth=0,
            zorder=0,
        )
    page.text(_NAME + 0.08, y, shorten(shown_name(item), 27), fontsize=7.4, va="center_baseline")
    page.add_patch(
        FancyBboxPatch(
            (_LABEL + 0.04, y - 0.075),
            _LABEL_WIDTH - 0.08,
            0.15,
            linewidth=0,
            boxstyle="round,pad=0,rounding_size=0.05",
            facecolor=LABEL_COLOURS[item.label],
        )
    )
    page.text(
        _LABEL + _LABEL_WIDTH / 2,
        y - 0.005,
        item.label.replace("_", " "),
        fontsize=6.2,
        weight="bold",
        ha="center",
        va="center_baseline",
        color=LABEL_INKS.get(item.label, INK),
    )
    lead = steps(follow(item.point(target), "lead_time_median"))
    page.text(_LEAD, y, lead, fontsize=7.2, ha="right", va="center_baseline")
    page.text(
        _P + 0.32, y, _p_text(shown_p(item, target)), fontsize=7.2, ha="right", va="center_baseline"
    )
    why = reason(item.x_reasons[0]) if item.x_reasons and not item.x_alarm_eligible else ""
    page.text(
        _WHY,
        y,
        shorten(why, 25) if why else "",
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


# What the figures need, taken from a results file.


def fpr_curve(item: IndicatorRecord) -> FprCurve:
    """The achieved rate of one indicator at each of its targets."""
    rows = item.layer_B.achieved
    intervals = [row.x_interval for row in rows]
    return FprCurve(
        item.name,
        np.array([row.target for row in rows]),
        np.array([np.nan if row.x_answer == "ABSTAIN" else _number(row.achieved) for row in rows]),
        np.array([np.nan if each is None else _number(each.low) for each in intervals]),
        np.array([np.nan if each is None else _number(each.high) for each in intervals]),
        np.array([row.x_state == "missed" for row in rows]),
        floor=_floor(item),
    )


def _floor(item: IndicatorRecord) -> float | None:
    """The least rate that an alarm of one indicator can have, None where no floor was found."""
    if not item.layer_B.fpr_floor_detected:
        return None
    certificate = item.layer_B.x_floor_certificate
    return item.layer_B.fpr_min if certificate is None else certificate.f_min_pos


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def lead_times(item: IndicatorRecord, target: float) -> LeadTimes | None:
    """The lead times of one indicator at one target rate, None where they are not stored."""
    point = item.point(target)
    if point is None or point.x_n_events is None:
        return None
    return LeadTimes(item.name, np.array(point.x_lead_times), point.x_n_events, group_of(item))
