"""Figures of results: the answer by runs and by windows, false alarms, lead times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import percent, steps
from gmb_hf.base.tables import follow
from gmb_hf.benchmark.compat import CompatSettings, Reproduction, primary_point, settings_of
from gmb_hf.benchmark.evaluate import Evaluation
from gmb_hf.benchmark.first_alarm import FirstAlarmPointRecord
from gmb_hf.benchmark.operationality import AchievedRecord
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.utility import OperatingPointRecord
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.core.nulls import NULLS
from gmb_hf.core.thresholds import in_words, pass_line
from gmb_hf.design.design import Design
from gmb_hf.report import style
from gmb_hf.report.answer import (
    BLIND_ALARM,
    GROUPS,
    MONITORS,
    RUNS,
    RankedVerdicts,
    answer,
    ends,
    group_of,
    hardest,
    kind_of,
    reason,
    reasons_of,
    shown_name,
    shown_p,
    subtitle,
)
from gmb_hf.report.answer import RULE as RULE_KIND
from gmb_hf.report.curves import grokking_curves, missed_events, scores_around_event
from gmb_hf.report.style import (
    BLACK,
    BLUE,
    FAINT,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    RULE,
    SKY,
    VERMILION,
    line_key,
    note,
    rate_text,
    shorten,
)

_COLUMNS = 6
_LOWEST = 0.004
_KEPT = "#E3EEF5"
_WHITE = "#FFFFFF"


def _answers(row: AchievedRecord) -> bool:
    """Whether the score can alarm at this target: it has a threshold, and no tie forbids it."""
    if row.x_answer == "ABSTAIN" or row.achieved is None:
        return False
    return row.achieved > 0 or row.x_within_budget is not False


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
    entries = _fpr_keys(items, eps, cap)
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
        _highlight(axes, item, eps, cap)
    label = "target false positive rate (share of negative windows)"
    figure.supxlabel(label, fontsize=8.5, y=0.005)
    figure.supylabel(f"achieved on {measured_on}", fontsize=8.5, x=0.005)
    place: Any = {"loc": "upper left", "bbox_to_anchor": (0.06, 1.0)}
    figure.legend(handles=entries, ncols=across, columnspacing=1.4, **place)
    return figure


def _misses(row: AchievedRecord, eps: float, cap: bool) -> bool:
    """Whether the measured rate misses the target: exceeds a cap, or leaves a band."""
    if row.achieved is None:
        return False
    over = row.achieved - row.target
    return over > pass_line(row.target, eps) - row.target if cap else abs(over) > eps


def _highlight(axes: Axes, item: IndicatorRecord, eps: float, cap: bool) -> None:
    rows, (targets, shown) = item.layer_B.achieved, _curve(item).T
    answered = np.isfinite(shown)
    missed = np.array([_misses(row, eps, cap) for row in rows], dtype=bool)
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


def _fpr_keys(items: Sequence[IndicatorRecord], eps: float, cap: bool) -> list[Artist]:
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
            any(_misses(row, eps, cap) for row in answered),
            line_key("missed", markerfacecolor=_WHITE, **dot),
        ),
        (len(items) > 1, line_key("all others", color=RULE, linewidth=1)),
        (True, Patch(color=_KEPT, label="budget kept" if cap else "within tolerance")),
        (
            any(_floor(item) is not None for item in items),
            line_key(floor, color=VERMILION, linestyle=style.LONG_DASHED),
        ),
        (len(answered) < len(rows), line_key("no alarm", color=INK, marker="x", linestyle="")),
    ]
    return [entry for shown, entry in entries if shown]


# The answer by runs: what happens to 100 runs if somebody acts on the first alarm.

_FIRST_WIDTH, _FIRST_HEAD, _FIRST_FOOT, _FIRST_ROW = 7.4, 1.02, 0.42, 0.225
_FIRST_RIGHT, _WARNED, _BLIND = 0.86, 0.38, 0.74  # the two columns of numbers
_MISSED, _EDGE = "#DCDCDC", "#B9B9B9"
_FALSE_SHOWN = 40.0  # of 100 runs
_FIRST_MOST = {"monitor": 10, "task": 6, "undeclared": 14, "oracle": 4, "control": 4}
_FIRST_HEADINGS = {
    "monitor": "Scores that see no test labels",
    "task": "Scores that see no test labels, but know the task",
    "undeclared": "Scores, not declared whether they see test labels",
    "oracle": "Oracles: they see test labels",
    "control": "Blind alarms, calibrated alike",
}


class _Bar(NamedTuple):
    """One score at the budget of runs that is drawn."""

    item: IndicatorRecord
    at: FirstAlarmPointRecord

    @property
    def may(self) -> bool:
        """Whether it may raise an alarm."""
        return bool(self.item.x_alarm_eligible)

    @property
    def shares(self) -> dict[str, float]:
        """Of 100 judged runs, how many had each outcome, by the names in `_OUTCOMES`."""
        at = self.at
        counts = {
            "false": at.n_false_before_event + at.n_event_free_false,
            "timely": at.n_timely,
            "early": at.n_early,
            "missed": at.n_missed,
            "quiet": at.n_event_free - at.n_event_free_false,
        }
        total = max(1, sum(counts.values()))
        return {name: 100 * count / total for name, count in counts.items()}


_OUTCOMES: dict[str, tuple[str, Any]] = {
    "false": ("false alarm", {"color": VERMILION}),
    "timely": ("warned in time", {"color": BLUE}),
    "early": ("warned early", {"color": SKY}),
    "missed": ("missed", {"color": _MISSED}),
    "quiet": ("no event, quiet", {"facecolor": _WHITE, "edgecolor": _EDGE, "hatch": "/////"}),
}
"""What may become of a run, in the order drawn: its name in the legend, and its look."""


@style.house_style()
def first_alarm(found: RankedVerdicts, *, subtitle: str) -> Figure:
    """One bar a score, of 100 runs: falsely alarmed to the left of zero, the others to the right.

    A black mark shows how many the hardest blind alarm of the same cost warns of. Names in bold may
    raise an alarm. `constant` is left out: it never does anything. Of each group at most
    `_FIRST_MOST` are drawn, those that may raise an alarm first, then those that warn of most; one
    line sums up the others.
    """
    budget = found.budget or 0.0
    bars = [
        _Bar(item, item.x_first_alarm.at(budget))
        for item in found.ranked
        if item.x_first_alarm is not None and item.name != "constant"
    ]
    bars.sort(key=lambda bar: (not bar.may, -(bar.at.warned or 0.0)))
    groups: dict[str, list[_Bar]] = {}
    more: dict[str, str] = {}
    for name, most in _FIRST_MOST.items():
        members = [bar for bar in bars if group_of(bar.item) == name]
        if len(members) > most + 1:  # one more takes no more room than a line about it
            members, more[name] = members[:most], _others(members[most:])
        if members:
            groups[name] = members
    bars = [bar for members in groups.values() for bar in members]
    names = {bar.item.name: shorten(shown_name(bar.item), 30) for bar in bars}
    left = max(1.5, 0.25 + 0.068 * max(map(len, names.values()), default=0))
    count = max(1, len(bars) + len(groups) + len(more))
    body, across = count * _FIRST_ROW, _FIRST_WIDTH - left - _FIRST_RIGHT
    height = _FIRST_HEAD + body + _FIRST_FOOT
    figure = style.NotebookFigure(figsize=(_FIRST_WIDTH, height))
    place = (left / _FIRST_WIDTH, _FIRST_FOOT / height, across / _FIRST_WIDTH, body / height)
    axes = figure.add_axes(place, ylim=(count - 0.5, -0.5))
    falsely = max((bar.shares["false"] for bar in bars), default=0.0)
    # What alarms falsely in most runs leaves room for the others: its bar is cut, with its number.
    low = -max(10.0, 150 * budget, min(_FALSE_SHOWN, 1.08 * falsely))
    axes.set_xlim(low, 100.4)
    row = 0
    for name, members in groups.items():
        able = any(bar.may for bar in members)
        heading = _FIRST_HEADINGS[name] + " (bold: may raise an alarm)" * able
        look: Any = {"transform": axes.get_yaxis_transform(), "va": "center_baseline"}
        said: Any = {"fontsize": 7.3, "color": MUTED, "style": "italic", "zorder": 6}
        axes.text((0.14 - left) / across, row, heading, **look, **said)
        # The reference lines must not run through a heading.
        axes.axhspan(row - 0.5, row + 0.5, color=_WHITE, linewidth=0, zorder=2)
        for bar in members:
            row += 1
            _draw_outcomes(axes, row, bar)
            look |= {"ha": "right", "fontsize": 7.6, "color": INK}
            look["weight"] = "bold" if bar.may else "normal"
            axes.text(-0.012, row, names[bar.item.name], **look)
            axes.text(1 + _WARNED / across, row, percent(bar.at.warned), **look)
            look |= {"color": MUTED, "weight": "normal"}
            axes.text(1 + _BLIND / across, row, percent(hardest(bar.at)), **look)
        if name in more:
            row += 1
            axes.axhspan(row - 0.5, row + 0.5, color=_WHITE, linewidth=0, zorder=2)
            look |= {"ha": "left", "fontsize": 6.8}
            axes.text(0.012, row, more[name], zorder=6, **look)
        row += 1
    axes.axvline(0, color=INK, linewidth=0.9, zorder=1)
    axes.axvline(-100 * budget, color=VERMILION, linewidth=1.1, linestyle=style.DASHED, zorder=1)
    above: Any = {"fontsize": 6.8, "va": "bottom", "ha": "right", "linespacing": 1.05}
    own: Any = {"xycoords": ("data", "axes fraction"), "color": VERMILION}
    note(axes, f"budget:\n{in_words(budget)}", (-100 * budget, 1), (3, 2), **above, **own)
    own = {"xycoords": "axes fraction", "color": MUTED}
    note(axes, "warned\nof", (1 + _WARNED / across, 1), (0, 2), **above, **own)
    note(axes, "if\nblind", (1 + _BLIND / across, 1), (0, 2), **above, **own)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    ticks = [tick for tick in range(-100, 101, 20) if tick >= low]
    axes.set_xticks(ticks, [str(abs(tick)) for tick in ticks])
    axes.set_xlabel("of 100 runs, if one acts on the first alarm", labelpad=2)
    title, about = shorten(found.title, 110), shorten(subtitle, 145)
    size = min(11.0, (_FIRST_WIDTH - 0.3) * 72 / (0.63 * len(title)))
    at: Any = {"x": 0.14 / _FIRST_WIDTH, "va": "center"}
    figure.text(s=title, y=1 - 0.17 / height, fontsize=size, weight="bold", **at)
    figure.text(s=about, y=1 - 0.38 / height, fontsize=6.8, color=MUTED, **at)
    keys: list[Artist] = [
        Patch(label=words, linewidth=0, **look)
        for name, (words, look) in _OUTCOMES.items()
        if any(bar.shares[name] for bar in bars)
    ]
    keys.append(line_key("warned of if blind, at the same cost", color=BLACK, linewidth=1.4))
    corner: Any = {"loc": "upper left", "bbox_to_anchor": (0.006, 1 - 0.46 / height)}
    tight: Any = {"columnspacing": 1.1, "handlelength": 1.1, "handletextpad": 0.4}
    figure.legend(handles=keys, ncols=6, borderpad=0.2, fontsize=7, **corner, **tight)
    return figure


def _others(left_out: Sequence[_Bar]) -> str:
    """What is to be known of the scores of a group that are not drawn."""
    may = sum(bar.may for bar in left_out)
    most = max(bar.at.warned or 0.0 for bar in left_out)
    said = f"{may:,} of which may raise an alarm" if may else f"which warn of {most:.0%} at most"
    return f"and {len(left_out):,} more, {said}"


def _draw_outcomes(axes: Axes, row: int, bar: _Bar) -> None:
    at, shares = bar.at, bar.shares
    start = -shares["false"]
    for name, (_, look) in _OUTCOMES.items():
        axes.barh(row, shares[name], left=start, height=0.72, linewidth=0, zorder=3, **look)
        start += shares[name]
    axes.plot([0, 0], [row - 0.5, row + 0.5], color=INK, linewidth=0.9, zorder=4)
    small: Any = {"fontsize": 6.3, "va": "center_baseline", "color": "#4A4A4A", "zorder": 5}
    if at.answer == "ABSTAIN":
        axes.text(1.2, row, "abstains: too few calibration runs", **small)
        return
    cut = float(axes.get_xlim()[0])
    if shares["false"] > -cut:
        axes.text(cut + 0.8, row, f"‹ {shares['false']:.0f}", **{**small, "color": _WHITE})
    # Why it may not, where there is room for it.
    end = shares["timely"] + shares["early"] + shares["missed"]
    codes = reasons_of(bar.item)
    if codes and shares["missed"] > 36 and group_of(bar.item) in MONITORS:
        axes.text(end - 1.2, row, reason(codes[0]), ha="right", **small)
    blind = hardest(at)
    if blind is not None:
        x = 100 * blind * at.n_events / (at.n_events + at.n_event_free)
        for colour, width in ((_WHITE, 2.8), (BLACK, 1.4)):
            mark: Any = {"color": colour, "linewidth": width, "solid_capstyle": "butt"}
            axes.plot([x, x], [row - 0.44, row + 0.44], zorder=5, **mark)


# How early the warnings came, score by score.

_GROUP_KEYS = {
    "monitor": (BLUE, "sees no test labels"),
    "task": (PURPLE, "knows the task"),
    "undeclared": (SKY, "not declared"),
    "oracle": (ORANGE, "sees test labels"),
    "control": ("#8C8C8C", "control"),
}
_ROW, _MOST_LEADS = 0.22, 24


class Leads(NamedTuple):
    """The leads of one score: quantiles .05, .25, .5, .75 and .95, of how many events."""

    item: IndicatorRecord
    quantiles: Sequence[float]
    n_warned: int
    n_events: int


def leads_of(item: IndicatorRecord, target: float, budget: float | None) -> Leads | None:
    """By runs at a budget; by windows at a target without one. None if nothing was warned of."""
    if budget is not None and item.x_first_alarm is not None:
        at = item.x_first_alarm.at(budget)
        found = (at.lead_q05, at.lead_q25, at.lead_median, at.lead_q75, at.lead_q95)
        known = [lead for lead in found if lead is not None]
        return Leads(item, known, at.n_warned, at.n_events) if len(known) == 5 else None
    point = item.point(target)
    if point is None or not point.x_lead_times:
        return None
    quantiles = np.quantile(point.x_lead_times, (0.05, 0.25, 0.5, 0.75, 0.95)).tolist()
    return Leads(item, quantiles, len(point.x_lead_times), point.x_n_events or 0)


@style.house_style()
def lead_times(
    leads: Sequence[Leads], *, horizon: int, lead_time_target: float, budget: str
) -> Figure:
    """One row per score: where the middle half and nine in ten of its warnings lie, and the median.

    At most 24 scores are drawn, those that warn of most events, in the order given.

    Args:
        leads: of each score, rows from the top down.
        horizon: how early a warning is in time, in steps.
        lead_time_target: the least lead that is asked for, in steps.
        budget: what alarms may cost, in words.
    """
    most = sorted(leads, key=lambda one: -one.n_warned / max(1, one.n_events))[:_MOST_LEADS]
    shown = [one for one in leads if one in most]
    head, foot, left, right, width = 0.62, 0.5, 1.95, 1.25, 7.2
    height = head + foot + _ROW * max(1, len(shown))
    figure = style.NotebookFigure(figsize=(width, height))
    across, tall = (width - left - right) / width, (height - head - foot) / height
    axes = figure.add_axes((left / width, foot / height, across, tall))
    beside = axes.get_yaxis_transform()
    for row, one in enumerate(shown):
        q05, q25, median, q75, q95 = one.quantiles
        colour = _GROUP_KEYS[group_of(one.item)][0]
        if row % 2 == 0:
            axes.axhspan(row - 0.5, row + 0.5, color=FAINT, linewidth=0, zorder=0)
        axes.plot([q05, q95], [row, row], color=colour, linewidth=1.2, zorder=2)
        _bar(axes, (q25, q75), row, colour, 5.5, zorder=3)
        axes.plot([median], [row], "|", color=INK, markersize=9, markeredgewidth=2, zorder=4)
        text = partial(axes.text, y=row, transform=beside, va="center_baseline", fontsize=7)
        text(-0.015, s=shorten(shown_name(one.item), 27), ha="right")
        text(1.02, s=f"{one.n_warned / max(1, one.n_events):.0%}", weight="bold")
        text(1.13, s=f"{one.n_warned:,} of {one.n_events:,}", color=MUTED)
    axes.set_ylim(max(1, len(shown)) - 0.5, -0.5)
    furthest = max([float(horizon), *(one.quantiles[-1] for one in shown)])
    axes.set_xlim(1.03 * furthest, 0)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    axes.axvline(lead_time_target, color=GREEN, linewidth=1.1, linestyle=style.LONG_DASHED)
    axes.axvline(horizon, color=MUTED, linewidth=0.9, linestyle=(0, (1, 1.4)))
    style.step_axis(axes, "lead time: steps from the first alarm to t*")
    present = {group_of(one.item) for one in shown}
    handles: list[Artist] = [
        Patch(color=colour, label=words)
        for group, (colour, words) in _GROUP_KEYS.items()
        if group in present
    ]
    tick: Any = {"marker": "|", "markersize": 8, "markeredgewidth": 2, "linestyle": ""}
    handles += [
        line_key("median", color=INK, **tick),
        line_key("middle half", color=MUTED, linewidth=5),
        line_key("nine in ten", color=MUTED, linewidth=1.2),
        line_key("least median lead", color=GREEN, linestyle=style.LONG_DASHED),
        line_key("horizon", color=MUTED, linestyle=(0, (1, 1.4))),
    ]
    place: Any = {"loc": "upper left", "bbox_to_anchor": (0.0, 1.0)}
    figure.legend(
        handles=handles, ncols=8, columnspacing=1.0, handlelength=1.4, fontsize=7, **place
    )
    above = f"events warned of,\n{budget}"
    axes.text(1.02, 1, above, color=MUTED, transform=axes.transAxes, va="bottom", fontsize=6.6)
    if len(leads) > len(shown):
        more = f"{len(leads) - len(shown)} more in the tables"
        axes.text(0, 1, more, color=MUTED, transform=axes.transAxes, va="bottom", fontsize=6.6)
    return figure


# The one-page answer: which scores may raise an alarm, at what cost, and why the rest may not.

_WIDTH, _ROW_HEIGHT, _HEAD, _FOOT = 9.8, 0.235, 1.18, 0.5
# Left edges and widths in inches: names, label, false alarms, coverage, lead, p, why.
_NAME, _LABEL, _FPR, _COVERAGE, _LEAD, _P, _WHY = 0.14, 1.96, 3.5, 5.2, 7.66, 7.84, 8.28
_LABEL_WIDTH, _FPR_WIDTH, _COVERAGE_WIDTH = 1.42, 1.55, 2.0

_NULL_MARKERS = ((">", 3.8), ("D", 3.6), ("s", 3.6), ("^", 3.8))
"""Of the chance nulls in their order, each with its size in the legend."""


@style.house_style()
def label_summary(
    found: RankedVerdicts,
    *,
    subtitle: str,
    cap: float,
    coverage_min: float,
    horizon: float = math.inf,
) -> Figure:
    """Label, false alarms against their budget, and coverage against chance, for every score.

    The primary target rate is drawn as a line, and counts as met up to `cap`; `coverage_min` is the
    least coverage that is asked for; leads are known up to `horizon`. The figure is
    9.8 inches wide, and as tall as it takes.
    """
    groups = {heading: found.group(name) for name, heading in GROUPS.items()}
    count = sum(len(members) + 1 for members in groups.values() if members)
    height = _HEAD + count * _ROW_HEIGHT + _FOOT
    figure = style.NotebookFigure(figsize=(_WIDTH, height))
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
            _text(page, _baseline(height, line), item, found.target, horizon, index % 2 == 0)
            _draw_false_alarms(rates, line + 0.5, item, found.target, cap)
            _draw_coverage(shares, line + 0.5, item.point(found.target))
        line += 1
    place: Any = {"loc": "lower left", "bbox_to_anchor": (0.006, 0.0), "fontsize": 6.8}
    figure.legend(handles=_summary_keys(), ncols=7, columnspacing=1.1, handletextpad=0.5, **place)
    return figure


def _baseline(height: float, line: int) -> float:
    """The middle of a row, in inches from the bottom."""
    return height - _HEAD - (line + 0.5) * _ROW_HEIGHT


def _header(page: Axes, height: float, title: str, subtitle: str, target: float) -> None:
    said = shorten(title, 120)
    size = min(12.5, (_WIDTH - 0.3) * 72 / (0.63 * len(said)))
    page.text(_NAME, height - 0.2, said, fontsize=size, weight="bold", va="center")
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


def _draw_false_alarms(
    axes: Axes, y: float, item: IndicatorRecord, target: float, cap: float
) -> None:
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
            note(axes, "no alarm", (_LOWEST, y), (5, 0), color=MUTED, **beside)
        return
    _bar(axes, np.maximum(ends(row.x_interval), _LOWEST), y, BLUE, 1.8, alpha=0.45, zorder=3)
    face = _WHITE if (row.achieved or 0.0) > cap else BLUE
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
        line_key("above budget", color=BLUE, marker="o", markersize=4.6, **hollow),
        line_key("no alarm", color=INK, marker="x", markersize=4, linestyle=""),
        *(
            line_key(f"chance: {null.label}", color=MUTED, marker=mark, markersize=size, **hollow)
            for null, (mark, size) in nulls
        ),
        line_key("budget", color=INK, linewidth=0.9),
        line_key("least coverage", color=INK, linewidth=0.9, linestyle=style.DASHED),
    ]


def _text(
    page: Axes, y: float, item: IndicatorRecord, target: float, horizon: float, shade: bool
) -> None:
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
    lead = follow(item.point(target), "lead_time_median")
    # An alarm that had been on for longer counts as the horizon.
    capped = "≥" * (lead is not None and lead >= horizon)
    page.text(_LEAD, y, capped + steps(lead), **right)
    page.text(_P + 0.32, y, _p_text(shown_p(item, target)), **right)
    if item.x_reasons and item.label != "SUPPORTED_FOR_ALARM":
        why = shorten(reason(item.x_reasons[0]), 25)
        page.text(_WHY, y, why, fontsize=6.8, color=MUTED, va="center_baseline")


def _p_text(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 0.001:
        return "<.001"
    return f"{value:.3f}"[1:] if value < 0.0995 else f"{value:.2f}".removeprefix("0")


# Every figure of an evaluation, by the names in `FIGURES` of the report.


def draw(results: Results) -> dict[str, Figure]:
    """Every figure that results have the data for, by the names in `FIGURES`."""
    found, fixed = answer(results), results.design
    # The reference has its settings in place of a design; its labels need no summary.
    design = fixed or settings_of(results)
    figures: dict[str, Figure] = {}
    if design is None or not found.ranked:
        return figures
    strict, eps = results.x_protocol == "strict", design.fpr_eps
    windows = answer(results, by_windows=True)
    if found.budget is not None:
        figures["first"] = first_alarm(found, subtitle=subtitle(results))
    if fixed is not None:
        cap = pass_line(found.target, eps) if strict else found.target + eps
        about, least = subtitle(results), fixed.coverage_min
        figures["summary"] = label_summary(
            windows, subtitle=about, cap=cap, coverage_min=least, horizon=design.horizon
        )
    if design.fpr_targets:
        same = follow(results, "x_calibration.method") == "in_sample"
        on = "the runs calibrated on" if same else RUNS[found.locked]
        figures["fpr"] = fpr_control(windows.ranked, eps=eps, cap=strict, measured_on=on)
    every = [leads_of(item, found.target, found.budget) for item in found.ranked]
    leads = [one for one in every if one is not None]
    if leads:
        least = design.lead_target if fixed is None else fixed.lead_least
        at = f"{windows.target:g} of windows" if found.budget is None else in_words(found.budget)
        figures["leads"] = lead_times(
            leads, horizon=design.horizon, lead_time_target=least, budget=f"budget {at}"
        )
    return figures


def plot(results: Results) -> Figure:
    """What becomes of 100 runs if somebody acts on the first alarm of each score.

    By windows, as the specification counts, where no first alarms were judged. A notebook shows the
    figure; `plot(results).savefig("first_alarm.pdf")` keeps it.

    Raises:
        InputError: the file holds no score, or neither first alarms nor the design of windows.
    """
    found = answer(results)
    if found.ranked and found.budget is not None:
        return first_alarm(found, subtitle=subtitle(results))
    figure = draw(results).get("summary")
    if figure is None:
        what = "there are no first alarms to draw, and no design (x_prereg) for what is by windows"
        what = what if results.indicators else "there is no score to draw"
        raise InputError(f"results: {what}; evaluate the runs with gmb evaluate")
    return figure


def featured(found: RankedVerdicts, count: int = 6) -> tuple[IndicatorRecord, ...]:
    """The scores that are worth a look around t*: the best, controls left out."""
    return tuple(item for item in found.ranked if item.family != "control")[:count]


def draw_with_runs(found: Evaluation | Reproduction) -> dict[str, Figure]:
    """Every figure of the results, and those that show the runs themselves."""
    drawn, best = draw(found.results), featured(answer(found.results))
    settings: Design | CompatSettings
    if isinstance(found, Evaluation):
        settings, events, safe_gap = found.design, found.events.step, found.design.safe_gap
        shown = [_with_threshold(found, one) for one in best]
    else:
        settings, events, safe_gap = found.settings, found.events, None
        points = [(one.name, primary_point(one.layer_C.at_fpr)) for one in best]
        shown = [
            (found.scores[name], at.x_threshold, f"false alarm rate {rate_text(at.fpr)}")
            for name, at in points
        ]
    # E_regime reads its event from other columns than the metric.
    if settings.metric in found.log.observables:
        drawn["curves"] = grokking_curves(found.log, settings.metric, events)
    if np.isfinite(events).any():
        horizon = settings.horizon
        drawn["aligned"] = scores_around_event(shown, horizon=horizon, safe_gap=safe_gap)
    missed = _missed(found) if isinstance(found, Evaluation) else None
    if missed is not None:
        drawn["missed"] = missed
    return drawn


_TOLD = ("label-using", RULE_KIND, BLIND_ALARM)


def _missed(found: Evaluation) -> Figure | None:
    """Events without a warning, of the best score by runs that an operator may use."""
    best = (item for item in answer(found.results).ranked if kind_of(item) not in _TOLD)
    item = next((item for item in best if item.x_first_alarm is not None), None)
    if (
        item is None
        or item.x_first_alarm is None
        or found.design.metric not in found.log.observables
    ):
        return None
    scores, threshold, _ = _with_threshold(found, item)
    if threshold is None or not np.isfinite(threshold):
        return None
    return missed_events(
        scores,
        found.log.panel(found.design.metric),
        threshold,
        item.x_first_alarm.alarm_steps,
        horizon=found.design.horizon,
        safe_gap=found.design.safe_gap,
    )


def _with_threshold(found: Evaluation, item: IndicatorRecord) -> tuple[Scores, float | None, str]:
    """A score of every run, and what it takes to raise an alarm: by runs, else by windows."""
    scores, first = found.judgements[item.name].evaluation, item.x_first_alarm
    if first is not None:
        at = first.at(found.design.primary_run_budget)
        # Cross-fitted thresholds differ by run, and none of them is drawn for all.
        common = at.expected is not None
        return scores, at.threshold if common else None, in_words(at.budget)
    point = item.layer_C.at(found.design.primary_fpr)
    return scores, point.x_threshold, f"false alarm rate {rate_text(point.fpr)}"
