"""Figures of results: the answer by runs and by windows, false alarms, lead times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch
from numpy.typing import NDArray

from gmb_hf.benchmark.first_alarm import in_words
from gmb_hf.benchmark.nulls import NULLS
from gmb_hf.benchmark.operationality import AchievedRecord
from gmb_hf.benchmark.utility import OperatingPointRecord
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.escape import steps
from gmb_hf.report import style
from gmb_hf.report.answer import (
    GROUPS,
    Answer,
    ends,
    group_of,
    hardest,
    reason,
    reasons_of,
    shown_name,
    shown_p,
)
from gmb_hf.report.style import (
    BLACK,
    BLUE,
    FAINT,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    RULE,
    SKY,
    VERMILION,
    line_key,
    note,
    rate_text,
    shorten,
)
from gmb_hf.tables import follow

_COLUMNS = 6
_LOWEST = 0.004
_KEPT = "#E3EEF5"
_WHITE = "#FFFFFF"


def _answers(row: AchievedRecord) -> bool:
    """Whether the score has a threshold for this target, so that something was measured."""
    return row.x_answer != "ABSTAIN" and row.achieved is not None


def _curve(item: IndicatorRecord) -> NDArray[np.float64]:
    """Targets and achieved rates, [K, 2]; NaN where the score abstains.

    A logarithmic axis cannot show 0: what is lower than the lowest tick is drawn there.
    """
    rows = [
        (row.target, max(row.achieved or 0.0, _LOWEST) if _answers(row) else math.nan)
        for row in item.layer_B.achieved
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def _floor(item: IndicatorRecord) -> float | None:
    """The least rate that an alarm of one indicator can have, None where no floor was found."""
    if not item.layer_B.floor:
        return None
    certificate = item.layer_B.x_floor_certificate
    return item.layer_B.fpr_min if certificate is None else certificate.least


@style.house_style()
def fpr_control(
    items: Sequence[IndicatorRecord],
    *,
    eps: float = 0.01,
    cap: bool = True,
    measured_on: str = "held-out runs",
) -> Figure:
    """Achieved against target rates: one small panel per score, all others behind it in gray.

    Args:
        items: the scores, in the order shown.
        eps: the tolerance around a target.
        cap: the target is a cap (protocol strict): anything below it is kept; else a band.
        measured_on: what the achieved rates were measured on.

    Returns:
        A figure with at most 6 panels a row, 9 inches wide from three panels on.
    """
    columns = min(_COLUMNS, max(len(items), 1))
    tall = 1.4 if columns == _COLUMNS else 1.9
    width = 9.0 if columns >= 3 else 1.2 + 2.8 * columns
    entries = _fpr_keys(items, cap)
    across = 6 if columns >= 3 else 2 * columns
    head = 0.5 + 0.17 * (-(-len(entries) // across) - 1)
    size: Any = {"width": width, "panel_height": tall, "head": head}
    figure, panels = style.panel_grid(len(items), columns, **size)
    curves = [_curve(item) for item in items]
    targets = np.unique(np.concatenate(curves)[:, 0])
    # The panels share both axes, and setting one anew would set all.
    first, (low, high) = panels[0], (float(targets.min()) / 1.8, float(targets.max()) * 1.8)
    first.set(xscale="log", yscale="log", xlim=(low, high), ylim=(_LOWEST / 1.5, 1.15))
    first.minorticks_off()
    first.set_xticks(targets, [rate_text(value) for value in targets])
    ticks = [_LOWEST, 0.01, 0.05, 0.2, 1.0]
    first.set_yticks(ticks, [f"≤{rate_text(_LOWEST)}", *(rate_text(value) for value in ticks[1:])])
    line = np.geomspace(low, high, 60)
    slack = np.minimum(eps, line / 2) if cap else np.full_like(line, eps)
    bottom = np.full_like(line, _LOWEST / 2) if cap else np.maximum(line - slack, _LOWEST / 2)
    for axes, item in zip(panels, items, strict=True):
        axes.fill_between(line, bottom, line + slack, color=_KEPT, linewidth=0, zorder=0)
        axes.plot(line, line, color=MUTED, linewidth=0.8, linestyle=style.DOTTED, zorder=1)
        others = LineCollection(curves, colors=RULE, linewidths=0.6, zorder=1)
        axes.add_collection(others, autolim=False)
        _highlight(axes, item)
    label = "target false positive rate (share of negative windows)"
    figure.supxlabel(label, fontsize=8.5, y=0.005)
    figure.supylabel(f"achieved on {measured_on}", fontsize=8.5, x=0.005)
    place: Any = {"loc": "upper left", "bbox_to_anchor": (0.06, 1.0)}
    figure.legend(handles=entries, ncols=across, columnspacing=1.4, **place)
    return figure


def _highlight(axes: Axes, item: IndicatorRecord) -> None:
    rows, (targets, shown) = item.layer_B.achieved, _curve(item).T
    answered = np.isfinite(shown)
    missed = np.array([row.x_state == "missed" for row in rows], dtype=bool)
    intervals = np.array([ends(row.x_interval) for row in rows]).reshape(-1, 2)
    ranged = answered & np.isfinite(intervals).all(axis=1)
    low, high = np.maximum(intervals[ranged], _LOWEST).T
    axes.vlines(targets[ranged], low, high, color=BLUE, linewidth=1.6, alpha=0.45, zorder=3)
    axes.plot(targets[answered], shown[answered], color=BLUE, linewidth=1.4, zorder=4)
    dot: Any = {"markersize": 4.2, "markeredgewidth": 1.1, "zorder": 5}
    for chosen, face in ((answered & ~missed, BLUE), (answered & missed, _WHITE)):
        axes.plot(targets[chosen], shown[chosen], "o", color=BLUE, markerfacecolor=face, **dot)
    abstained = targets[~answered]
    cross: Any = {"markersize": 4.5, "markeredgewidth": 1.2, "zorder": 5, "clip_on": False}
    axes.plot(abstained, np.full(len(abstained), _LOWEST), "x", color=INK, **cross)
    floor = _floor(item)
    if floor is not None:
        level, above = max(floor, _LOWEST), floor < 0.5
        axes.axhline(level, color=VERMILION, linewidth=1.3, linestyle=style.LONG_DASHED, zorder=2)
        where, shift = ("bottom", 2) if above else ("top", -2)
        look: Any = {"xycoords": ("axes fraction", "data"), "fontsize": 6.5, "weight": "bold"}
        text = f"floor {rate_text(round(floor, 3))}"
        note(axes, text, (0.03, level), (0, shift), va=where, color=VERMILION, **look)
    axes.set_title(f"{shorten(item.name, 22)}{_both_rules(item)}", fontsize=6.5, pad=3)


def _both_rules(item: IndicatorRecord) -> str:
    """How many targets each rule of layer B finds met, a second line of the panel's title."""
    gate = item.layer_B
    if gate.n_within is None or gate.ok_targets is None:
        return ""
    kept, near = (" *" * decides for decides in (gate.by_budget, not gate.by_budget))
    return f"\n{gate.n_within} within budget{kept}, {gate.ok_targets} near{near}"


def _fpr_keys(items: Sequence[IndicatorRecord], cap: bool) -> list[Artist]:
    """What the panels show, and nothing that they do not."""
    rows = [row for item in items for row in item.layer_B.achieved]
    answered = [row for row in rows if _answers(row)]
    ranged = any(math.isfinite(ends(row.x_interval)[0]) for row in answered)
    met = "target met, 95% interval" if ranged else "target met"
    dot: Any = {"color": BLUE, "marker": "o", "markersize": 4}
    floor = "floor: least cost of any alarm"
    entries: list[tuple[bool, Artist]] = [
        (True, line_key(met, **dot)),
        (
            any(row.x_state == "missed" for row in answered),
            line_key("missed", markerfacecolor=_WHITE, **dot),
        ),
        (len(items) > 1, line_key("all others", color=RULE, linewidth=1)),
        (True, Patch(color=_KEPT, label="budget kept" if cap else "within tolerance")),
        (
            any(_floor(item) is not None for item in items),
            line_key(floor, color=VERMILION, linestyle=style.LONG_DASHED),
        ),
        (len(answered) < len(rows), line_key("abstains", color=INK, marker="x", linestyle="")),
    ]
    return [entry for shown, entry in entries if shown]


# The answer by runs: what happens to 100 runs if somebody acts on the first alarm.

_FIRST_WIDTH, _FIRST_HEAD, _FIRST_FOOT, _FIRST_ROW = 7.4, 1.02, 0.42, 0.225
_FIRST_RIGHT = 0.86  # for the two columns of numbers
_MISSED, _QUIET, _EDGE = "#DCDCDC", "#FFFFFF", "#B9B9B9"
_FIRST_HEADINGS = {
    "monitor": "Scores that see no test labels",
    "undeclared": "Scores, not declared whether they see test labels",
    "oracle": "Oracles: they see test labels",
    "control": "Blind alarms, calibrated alike",
}


@style.house_style()
def first_alarm(found: Answer, *, subtitle: str) -> Figure:
    """One bar a score, of 100 runs: falsely alarmed to the left of zero, the others to the right.

    A black mark shows how many the hardest blind alarm of the same cost warns of. Bold names may
    raise an alarm. `constant` is left out: it never does anything.
    """
    budget = found.budget or 0.0

    def rank(item: IndicatorRecord) -> tuple[bool, float]:
        warned = item.x_first_alarm and item.x_first_alarm.at(budget).warned
        return not item.x_alarm_eligible, -(warned or 0.0)

    ranked = [item for item in found.ranked if item.x_first_alarm and item.name != "constant"]
    ranked.sort(key=rank)
    shown = {
        name: [item for item in ranked if group_of(item) == name]
        for name in _FIRST_HEADINGS
        if any(group_of(item) == name for item in ranked)
    }
    every = [item for items in shown.values() for item in items]
    names = {item.name: shorten(shown_name(item), 30) for item in every}
    longest = max((len(name) for name in names.values()), default=10)
    left = max(1.5, 0.25 + 0.068 * longest)
    count = len(every) + len(shown)
    height = _FIRST_HEAD + count * _FIRST_ROW + _FIRST_FOOT
    figure = Figure(figsize=(_FIRST_WIDTH, height))
    across = _FIRST_WIDTH - left - _FIRST_RIGHT
    axes = figure.add_axes(
        (left / _FIRST_WIDTH, _FIRST_FOOT / height, across / _FIRST_WIDTH,
         count * _FIRST_ROW / height),
        ylim=(count - 0.5, -0.5),
    )  # fmt: skip
    falsely = [_outcomes(item, budget)["false"] for item in every]
    low = -min(100.0, max(10.0, 150 * budget, 1.08 * max(falsely, default=0.0)))
    axes.set_xlim(low, 100.4)
    beside = axes.get_yaxis_transform()
    row = 0
    for name, items in shown.items():
        x = (0.14 - left) / across
        able = any(item.x_alarm_eligible for item in items)
        heading = _FIRST_HEADINGS[name] + " (bold: may raise an alarm)" * able
        said: Any = {"fontsize": 7.3, "color": MUTED, "style": "italic", "zorder": 6}
        axes.text(x, row, heading, va="center_baseline", transform=beside, **said)
        # The reference lines must not run through a heading.
        axes.axhspan(row - 0.5, row + 0.5, color=_WHITE, linewidth=0, zorder=2)
        for item in items:
            row += 1
            may = "bold" if item.x_alarm_eligible else "normal"
            look: Any = {"transform": beside, "va": "center_baseline", "weight": may}
            axes.text(-0.012, row, names[item.name], ha="right", fontsize=7.6, **look)
            _draw_outcomes(axes, row, item, budget)
            point = item.x_first_alarm and item.x_first_alarm.at(budget)
            share, blind = (None, None) if point is None else (point.warned, hardest(point))
            place = {"ha": "right", "fontsize": 7.6}
            axes.text(1 + 0.38 / across, row, _percent(share), **look, **place)
            look["weight"] = "normal"
            axes.text(1 + 0.74 / across, row, _percent(blind), color=MUTED, **look, **place)
        row += 1
    axes.axvline(0, color=INK, linewidth=0.9, zorder=1)
    axes.axvline(-100 * budget, color=VERMILION, linewidth=1.1, linestyle=style.DASHED, zorder=1)
    note(axes, f"budget:\n{in_words(budget)}", (-100 * budget, 1), (3, 2), ha="right",
         va="bottom", fontsize=6.8, color=VERMILION, linespacing=1.05,
         xycoords=("data", "axes fraction"))  # fmt: skip
    heads: Any = {"fontsize": 6.8, "color": MUTED, "va": "bottom", "linespacing": 1.05}
    heads |= {"xycoords": "axes fraction", "ha": "right"}
    note(axes, "warned\nof", (1 + 0.38 / across, 1), (0, 2), **heads)
    note(axes, "if\nblind", (1 + 0.74 / across, 1), (0, 2), **heads)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    ticks = [tick for tick in range(-100, 101, 20) if tick >= low]
    axes.set_xticks(ticks, [str(abs(tick)) for tick in ticks])
    axes.set_xlabel("of 100 runs, if one acts on the first alarm", labelpad=2)
    title = shorten(found.title, 110)
    size = min(11.0, (_FIRST_WIDTH - 0.3) * 72 / (0.63 * len(title)))
    at: Any = {"x": 0.14 / _FIRST_WIDTH, "va": "center"}
    figure.text(s=title, y=1 - 0.17 / height, fontsize=size, weight="bold", **at)
    about = shorten(subtitle, 125)
    figure.text(s=about, y=1 - 0.38 / height, fontsize=6.8, color=MUTED, **at)
    place = {"loc": "upper left", "bbox_to_anchor": (0.006, 1 - 0.46 / height), "fontsize": 7}
    figure.legend(
        handles=_outcome_keys(every, budget), ncols=6, columnspacing=1.1, handlelength=1.1,
        handletextpad=0.4, borderpad=0.2, **place,
    )  # fmt: skip
    return figure


_OUTCOMES = {
    "false": ("false alarm", {"color": VERMILION}),
    "timely": ("warned in time", {"color": BLUE}),
    "early": ("warned early", {"color": SKY}),
    "missed": ("missed", {"color": _MISSED}),
    "quiet": ("no event, quiet", {"facecolor": _QUIET, "edgecolor": _EDGE, "hatch": "/////"}),
}
"""What may become of a run, in the order drawn, and how each is drawn."""


def _outcomes(item: IndicatorRecord, budget: float) -> dict[str, float]:
    """Of 100 judged runs, how many had each outcome, by the names in `_OUTCOMES`."""
    if item.x_first_alarm is None:
        return dict.fromkeys(_OUTCOMES, 0.0)
    point = item.x_first_alarm.at(budget)
    counts = {
        "false": point.n_false_before_event + point.n_event_free_false,
        "timely": point.n_timely,
        "early": point.n_early,
        "missed": point.n_missed,
        "quiet": point.n_event_free - point.n_event_free_false,
    }
    total = max(1, sum(counts.values()))
    return {name: 100 * count / total for name, count in counts.items()}


def _draw_outcomes(axes: Axes, row: int, item: IndicatorRecord, budget: float) -> None:
    if item.x_first_alarm is None:
        return
    point, shares = item.x_first_alarm.at(budget), _outcomes(item, budget)
    start = -shares["false"]
    bar: Any = {"height": 0.72, "linewidth": 0, "zorder": 3}
    for name, (_, look) in _OUTCOMES.items():
        axes.barh(row, shares[name], left=start, **bar, **look)
        start += shares[name]
    axes.plot([0, 0], [row - 0.5, row + 0.5], color=INK, linewidth=0.9, zorder=4)
    look: Any = {"fontsize": 6.3, "va": "center_baseline", "color": "#4A4A4A", "zorder": 5}
    if point.answer == "ABSTAIN":
        axes.text(1.2, row, "abstains: too few calibration runs", **look)
        return
    # Why it may not, where there is room for it.
    end = sum(shares[name] for name in ("timely", "early", "missed"))
    codes = reasons_of(item)
    if codes and shares["missed"] > 36 and group_of(item) in ("monitor", "undeclared"):
        axes.text(end - 1.2, row, reason(codes[0]), ha="right", **look)
    blind = hardest(point)
    if blind is not None:
        total = max(1, point.n_events + point.n_event_free)
        at = [100 * blind * point.n_events / total] * 2
        for colour, width in ((_WHITE, 2.8), (BLACK, 1.4)):
            mark: Any = {"color": colour, "linewidth": width, "solid_capstyle": "butt"}
            axes.plot(at, [row - 0.44, row + 0.44], zorder=5, **mark)


def _outcome_keys(items: Sequence[IndicatorRecord], budget: float) -> list[Artist]:
    """What the bars show, and nothing that they do not."""
    made = [_outcomes(item, budget) for item in items]
    keys: list[Artist] = [
        Patch(label=words, linewidth=0, **look)
        for name, (words, look) in _OUTCOMES.items()
        if any(one[name] for one in made)
    ]
    return [*keys, line_key("warned of if blind, at the same cost", color=BLACK, linewidth=1.4)]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


# How early the warnings came: the distribution of lead times, score by score.

_GROUP_KEYS = {
    "monitor": (BLUE, "sees no test labels"),
    "undeclared": (SKY, "not declared"),
    "oracle": (ORANGE, "sees test labels"),
    "control": ("#8C8C8C", "control"),
}
_ROW = 0.3
_BARS = 40


@style.house_style()
def lead_time_distribution(
    items: Sequence[IndicatorRecord],
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
        items: rows, from the top down; each with its lead times at the target rate.
        horizon: where leads are censored, in steps.
        lead_time_target: the lead that counts as success, in steps.
        target: the target false positive rate of the alarms.
        cadence: steps between checkpoints; bars are a multiple of it wide.
    """
    head, foot, left, right, width = 0.42, 0.5, 1.75, 1.35, 7.2
    height = head + foot + _ROW * max(1, len(items))
    figure = Figure(figsize=(width, height))
    across, tall = (width - left - right) / width, (height - head - foot) / height
    axes = figure.add_axes((left / width, foot / height, across, tall))
    # Leads are multiples of the cadence: a bar is centred on each, or on every few.
    unit = cadence or 1
    bar = unit * max(1, horizon // (unit * _BARS))
    edges = np.concatenate([[0.0], np.arange(bar / 2, horizon + bar, bar)])
    points = [item.layer_C.at(target) for item in items]
    shares = [
        np.histogram(point.x_lead_times, bins=edges)[0] / max(1, point.x_n_events or 0)
        for point in points
    ]
    tallest = max((float(share.max(initial=0.0)) for share in shares), default=0.0) or 1.0
    beside = axes.get_yaxis_transform()
    for index, (item, point, share) in enumerate(zip(items, points, shares, strict=True)):
        base = len(items) - 1 - index
        if index % 2 == 0:
            axes.axhspan(base - 0.04, base + 0.96, color=FAINT, linewidth=0, zorder=0)
        colour, centres = _GROUP_KEYS[group_of(item)][0], np.arange(len(share)) * bar
        look: Any = {"width": 0.86 * bar, "color": colour, "linewidth": 0, "zorder": 2}
        axes.bar(centres, 0.84 * (share / tallest), bottom=base, **look)
        leads, n_events = point.x_lead_times, point.x_n_events or 0
        if leads:
            median = float(np.median(leads))
            axes.plot([median, median], [base, base + 0.88], color=INK, linewidth=1.8, zorder=3)
        text = partial(axes.text, y=base + 0.4, transform=beside, va="center")
        text(-0.015, s=shorten(item.name, 27), ha="right", fontsize=7)
        text(1.02, s=f"{len(leads) / max(1, n_events):.0%}", fontsize=7, weight="bold")
        text(1.12, s=f"{len(leads):,} of {n_events:,}", fontsize=6.8, color=MUTED)
    axes.set_ylim(-0.08, len(items))
    axes.set_xlim(horizon + bar, 0)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    axes.axvline(lead_time_target, color=GREEN, linewidth=1.1, linestyle=style.LONG_DASHED)
    axes.axvline(horizon, color=MUTED, linewidth=0.9, linestyle=(0, (1, 1.4)))
    style.step_axis(axes, "lead time: steps from the first alarm to t*")
    present = {group_of(item) for item in items}
    handles: list[Artist] = [
        Patch(color=colour, label=words)
        for group, (colour, words) in _GROUP_KEYS.items()
        if group in present
    ]
    handles += [
        line_key("median", color=INK, linewidth=1.8),
        line_key("lead target", color=GREEN, linestyle=style.LONG_DASHED),
        line_key("horizon", color=MUTED, linestyle=(0, (1, 1.4))),
    ]
    place: Any = {"loc": "upper left", "bbox_to_anchor": (0.0, 1.0)}
    figure.legend(handles=handles, ncols=6, columnspacing=1.2, handlelength=1.6, **place)
    above = f"events warned of\nat a budget of {rate_text(target)}"
    axes.text(1.02, 1, above, color=MUTED, transform=axes.transAxes, va="bottom", fontsize=6.8)
    return figure


# The one-page answer: which scores may raise an alarm, at what cost, and why the rest may not.

_WIDTH, _ROW_HEIGHT, _HEAD, _FOOT = 9.8, 0.235, 1.18, 0.5
# Left edges and widths in inches: names, label, false alarms, coverage, lead, p, why.
_NAME, _LABEL, _FPR, _COVERAGE, _LEAD, _P, _WHY = 0.14, 1.96, 3.5, 5.2, 7.66, 7.84, 8.28
_LABEL_WIDTH, _FPR_WIDTH, _COVERAGE_WIDTH = 1.42, 1.55, 2.0

_NULL_MARKERS = ((">", 3.8), ("D", 3.6), ("s", 3.6), ("^", 3.8))
"""Of the chance nulls in their order, each with its size in the legend."""


@style.house_style()
def label_summary(found: Answer, *, subtitle: str, cap: float, coverage_min: float) -> Figure:
    """Label, false alarms against their budget, and coverage against chance, for every score.

    The primary target rate is drawn as a line, and counts as met up to `cap`; `coverage_min` is the
    least coverage that is asked for. The figure is 9.8 inches wide, and as tall as it takes.
    """
    groups = {heading: found.group(name) for name, heading in GROUPS.items()}
    count = sum(len(members) + 1 for members in groups.values() if members)
    height = _HEAD + count * _ROW_HEIGHT + _FOOT
    figure = Figure(figsize=(_WIDTH, height))
    page = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(0, height))
    page.set_axis_off()
    _header(page, height, found.title, subtitle, found.target)
    panels = [
        figure.add_axes(
            (left / _WIDTH, _FOOT / height, width / _WIDTH, count * _ROW_HEIGHT / height),
            ylim=(count, 0),
            facecolor="none",
        )
        for left, width in ((_FPR, _FPR_WIDTH), (_COVERAGE, _COVERAGE_WIDTH))
    ]
    for axes in panels:
        axes.spines["left"].set_visible(False)
        axes.set_yticks([])
        axes.tick_params(labelsize=6.8, length=2.5, pad=2)
    rates, shares = panels
    rates.set(xscale="log", xlim=(_LOWEST / 1.35, 1.3))
    rates.minorticks_off()
    ticks = [found.target, *(tick for tick in (0.2, 1.0) if tick > 2 * found.target)]
    names = [f"≤{rate_text(_LOWEST)}", *(rate_text(tick) for tick in ticks)]
    rates.set_xticks([_LOWEST, *ticks], names)
    rates.axvspan(_LOWEST / 2, cap, color=_KEPT, linewidth=0, zorder=1)
    rates.axvline(found.target, color=INK, linewidth=0.9, zorder=1.5)
    shares.set_xlim(-0.02, 1.02)
    shares.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    for tick in (0.25, 0.5, 0.75):
        shares.axvline(tick, color=RULE, linewidth=0.5, zorder=1)
    shares.axvline(coverage_min, color=INK, linewidth=0.9, linestyle=style.DASHED, zorder=1.5)
    line = 0
    for heading, members in groups.items():
        if not members:
            continue
        # The reference lines of the panels must not run through a heading.
        for axes in panels:
            axes.axhspan(line, line + 1, color=_WHITE, linewidth=0, zorder=2)
        y = _baseline(height, line) - 0.02
        page.text(_NAME, y, heading, fontsize=8, weight="bold", va="center")
        for index, item in enumerate(members):
            line += 1
            _text(page, _baseline(height, line), item, found.target, shade=index % 2 == 0)
            _draw_false_alarms(rates, line + 0.5, item, found.target)
            _draw_coverage(shares, line + 0.5, item.point(found.target))
        line += 1
    place: Any = {"loc": "lower left", "bbox_to_anchor": (0.006, 0.0), "fontsize": 6.8}
    figure.legend(handles=_summary_keys(), ncols=7, columnspacing=1.1, handletextpad=0.5, **place)
    return figure


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


def _draw_false_alarms(axes: Axes, y: float, item: IndicatorRecord, target: float) -> None:
    row, least = item.achieved(target), _floor(item)
    beside: Any = {"va": "center_baseline", "fontsize": 6.3, "zorder": 5}
    if least is not None:
        floor = max(least, _LOWEST)
        axes.plot([floor, 1.3], [y, y], color=VERMILION, lw=1.1, ls=(0, (2, 1)), zorder=3)
        axes.plot([floor], [y], "|", color=VERMILION, markersize=8, markeredgewidth=1.8, zorder=4)
        text, look = f"floor {rate_text(round(least, 2))}", beside | {"path_effects": style.HALO}
        note(axes, text, (floor, y), (-4, 0), ha="right", color=VERMILION, **look)
    if row is None or not _answers(row):
        axes.plot([_LOWEST], [y], "x", color=INK, markersize=4, markeredgewidth=1.1, zorder=4)
        if least is None:
            note(axes, "abstains", (_LOWEST, y), (5, 0), color=MUTED, **beside)
        return
    _bar(axes, np.maximum(ends(row.x_interval), _LOWEST), y, BLUE, 1.8, alpha=0.45, zorder=3)
    face = _WHITE if row.x_state == "missed" else BLUE
    dot: Any = {"markersize": 4.6, "markerfacecolor": face, "markeredgewidth": 1.1, "zorder": 4}
    axes.plot([max(row.achieved or 0.0, _LOWEST)], [y], "o", color=BLUE, **dot)


def _draw_coverage(axes: Axes, y: float, point: OperatingPointRecord | None) -> None:
    if point is None or point.coverage is None:
        return
    chance = point.by_chance
    if chance is not None:
        gain = point.coverage > chance
        colour, thick, alpha = (BLUE, 3.4, 0.35) if gain else ("#9A9A9A", 1.6, 0.8)
        _bar(axes, (chance, point.coverage), y, colour, thick, alpha=alpha, zorder=2.5)
    hollow: Any = {"color": MUTED, "markersize": 3.6, "markeredgewidth": 0.9, "zorder": 3}
    for name, (marker, _) in zip(NULLS, cycle(_NULL_MARKERS), strict=False):
        if name in point.nulls:
            at = [point.nulls[name].mean_coverage]
            axes.plot(at, [y], marker, markerfacecolor=_WHITE, **hollow)
    axes.plot(ends(point.x_coverage_interval), [y, y], color=INK, linewidth=0.9, zorder=3.5)
    edge: Any = {"markeredgecolor": INK, "markeredgewidth": 0.5, "clip_on": False, "zorder": 4}
    axes.plot([point.coverage], [y], "o", color=BLUE, markersize=5, **edge)


def _bar(axes: Axes, x: Any, y: float, colour: str, width: float, **look: Any) -> None:
    """A thick line from one value to another; nothing where they are NaN."""
    axes.plot(x, [y, y], color=colour, linewidth=width, solid_capstyle="butt", **look)


def _summary_keys() -> list[Artist]:
    hollow: Any = {"linestyle": "", "markerfacecolor": _WHITE}
    nulls = zip(NULLS.values(), cycle(_NULL_MARKERS), strict=False)
    return [
        line_key("measured, 95% interval", color=BLUE, marker="o", markersize=4.6, linewidth=1.8),
        line_key("budget missed", color=BLUE, marker="o", markersize=4.6, **hollow),
        line_key("abstains", color=INK, marker="x", markersize=4, linestyle=""),
        *(
            line_key(f"chance: {null.label}", color=MUTED, marker=mark, markersize=size, **hollow)
            for null, (mark, size) in nulls
        ),
        line_key("budget", color=INK, linewidth=0.9),
        line_key("least coverage", color=INK, linewidth=0.9, linestyle=style.DASHED),
    ]


def _text(page: Axes, y: float, item: IndicatorRecord, target: float, *, shade: bool) -> None:
    if shade:
        low, high = y - _ROW_HEIGHT / 2, y + _ROW_HEIGHT / 2
        across: Any = {"xmin": _NAME / _WIDTH, "xmax": 1 - 0.14 / _WIDTH}
        page.axhspan(low, high, color=FAINT, linewidth=0, zorder=0, **across)
    page.text(_NAME + 0.08, y, shorten(shown_name(item), 27), fontsize=7.4, va="center_baseline")
    corner, size = (_LABEL + 0.04, y - 0.075), (_LABEL_WIDTH - 0.08, 0.15)
    box: Any = {"linewidth": 0, "boxstyle": "round,pad=0,rounding_size=0.05"}
    colour, ink = style.LABEL_COLOURS[item.label], style.LABEL_INKS.get(item.label, INK)
    page.add_patch(FancyBboxPatch(corner, *size, facecolor=colour, **box))
    middle: Any = {"ha": "center", "va": "center_baseline", "fontsize": 6.2, "weight": "bold"}
    label = item.label.replace("_", " ")
    page.text(_LABEL + _LABEL_WIDTH / 2, y - 0.005, label, color=ink, **middle)
    right: Any = {"fontsize": 7.2, "ha": "right", "va": "center_baseline"}
    page.text(_LEAD, y, steps(follow(item.point(target), "lead_time_median")), **right)
    page.text(_P + 0.32, y, _p_text(shown_p(item, target)), **right)
    if item.x_reasons and not item.x_alarm_eligible:
        why = shorten(reason(item.x_reasons[0]), 25)
        page.text(_WHY, y, why, fontsize=6.8, color=MUTED, va="center_baseline")


def _p_text(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 0.001:
        return "<.001"
    return f"{value:.3f}"[1:] if value < 0.0995 else f"{value:.2f}".removeprefix("0")
