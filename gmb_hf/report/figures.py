"""Figures of results: the answer by runs, gates, false alarms by windows, lead times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Text
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import percent
from gmb_hf.base.tables import follow
from gmb_hf.benchmark.evaluate import Evaluation
from gmb_hf.benchmark.operationality import AchievedRecord
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.core.thresholds import in_words
from gmb_hf.design.design import Design
from gmb_hf.report import style
from gmb_hf.report.answer import (
    BASELINE,
    GROUPS,
    MONITORS,
    OUTCOMES,
    RUNS,
    RankedVerdicts,
    answer,
    ends,
    false_scale,
    group_of,
    judged_by,
    kind_of,
    outcome_shares,
    reason,
    shown_name,
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
from gmb_hf.report.tables import COLUMNS, ScoreRow, score_rows, units

if TYPE_CHECKING:
    from gmb_hf.benchmark.compat import CompatSettings, Reproduction

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
    width, tall = (9.0 if columns >= 3 else 1.2 + 2.8 * columns), 1.4 if columns > 3 else 1.9
    figure, panels = style.panel_grid(len(items), columns, width=width, panel_height=tall)
    # One line with a gap after each curve is drawn in every panel.
    every = np.concatenate([np.append(_curve(item), [[np.nan, np.nan]], axis=0) for item in items])
    targets = np.unique(every[np.isfinite(every[:, 0]), 0])
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
        axes.plot(*every.T, color=RULE, linewidth=0.6, zorder=1)
        _highlight(axes, item)
    figure.supxlabel("target false positive rate (share of negative windows)", fontsize=8.5)
    figure.supylabel(f"achieved on {measured_on}", fontsize=8.5)
    keys = _fpr_keys(items, cap)
    figure.legend(handles=keys, loc="outside upper left", ncols=6 if columns >= 3 else 2 * columns)
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
    cross: Any = {"markersize": 4.5, "markeredgewidth": 1.2, "zorder": 5}
    axes.plot(abstained, np.full(len(abstained), _LOWEST), "x", color=INK, **cross)
    floor = _floor(item)
    if floor is not None:
        level, above = max(floor, _LOWEST), floor < 0.5
        axes.axhline(level, color=VERMILION, linewidth=1.3, linestyle=style.LONG_DASHED, zorder=2)
        where, shift = ("bottom", 2) if above else ("top", -2)
        look: Any = {"xycoords": ("axes fraction", "data"), "fontsize": 6.5, "weight": "bold"}
        text = f"floor {rate_text(round(floor, 3))}"
        note(axes, text, (0.03, level), (0, shift), va=where, color=VERMILION, **look)
    met = item.layer_B.n_met
    said = "" if met is None else f"\n{met} of {len(targets)} met"
    axes.set_title(f"{shorten(item.name, 22)}{said}", fontsize=6.5, pad=3)


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
        (len(answered) < len(rows), line_key("no alarm", color=INK, marker="x", linestyle="")),
    ]
    return [entry for shown, entry in entries if shown]


# Figures with a row for each score: names on the left, under the headings of their groups.

_ROW = 0.225  # inches
_Lines = Sequence[IndicatorRecord | str]


def _lay_rows(axes: Axes, lines: _Lines) -> list[tuple[int, IndicatorRecord]]:
    """A row for each score and each text between them, from the top down; returns the scores'.

    Names are tick labels, in bold where a score may raise an alarm.
    """
    rows = [(row, one) for row, one in enumerate(lines) if not isinstance(one, str)]
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_yticks([row for row, _ in rows], [shorten(shown_name(one), 30) for _, one in rows])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for label, (_, one) in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if one.x_alarm_eligible else "normal")
    for row, text in enumerate(lines):
        if isinstance(text, str):
            # Reference lines must not run through a text.
            axes.axhspan(row - 0.5, row + 0.5, color=_WHITE, linewidth=0, zorder=2)
            _beside(axes, 0.0, row, text, ha="left", style="italic").set_in_layout(False)
    return rows


def _beside(axes: Axes, x: float, row: float, text: str, **look: Any) -> Text:
    """A text in a row, `x` in widths of the axes."""
    known: Any = {"fontsize": 7.2, "color": MUTED, "va": "center_baseline", "zorder": 6}
    return axes.text(x, row, text, transform=axes.get_yaxis_transform(), **{**known, **look})


def _named(figure: Figure, axes: Axes, title: str, about: str) -> None:
    """A title over the whole figure, and what it is about above its panels."""
    style.title(figure, title, x=0.01, ha="left", fontsize=10, weight="bold")
    look: Any = {"fontsize": 6.8, "weight": "normal", "color": MUTED}
    # Names stand to the left of the panels.
    style.wrapped(axes.set_title(shorten(about, 150), **look), 0.58 * figure.get_figwidth())


# The answer by runs: what happens to 100 runs if somebody acts on the first alarm.

_FIRST_MOST = {"monitor": 10, "task": 6, "undeclared": 14, "oracle": 4, "control": 4}
_LOOKS: dict[str, Any] = {
    "false": {"color": VERMILION},
    "timely": {"color": BLUE},
    "early": {"color": SKY},
    "miss": {"color": "#DCDCDC"},
    "rejection": {"facecolor": _WHITE, "edgecolor": "#B9B9B9", "hatch": "/////"},
}


@style.house_style()
def first_alarm(found: RankedVerdicts, *, subtitle: str) -> Figure:
    """One bar a score, of 100 runs: false alarms to the left of zero, other outcomes to the right.

    A black mark shows in how many the hardest chance baseline of the same cost detects an event.
    Names in bold may raise an alarm. `constant` is left out: it never does anything. Of each group
    at most `_FIRST_MOST` are drawn, those that may raise an alarm first, then those that detect
    most events; one line sums up the others.
    """
    budget = found.budget or 0.0
    lines: list[IndicatorRecord | str] = []
    for group, most in _FIRST_MOST.items():
        members = [
            item for item in found.group(group) if found.point(item) and item.name != "constant"
        ]
        members.sort(
            key=lambda item: (not item.x_alarm_eligible, -(found.detection(item).rate or 0.0))
        )
        if members:
            bold = any(item.x_alarm_eligible for item in members)
            lines.append(GROUPS[group] + (" (bold: may raise an alarm)" if bold else ""))
        # One more takes no more room than a line about it.
        most = most if len(members) > most + 1 else len(members)
        lines += members[:most]
        if members[most:]:
            lines.append(_others(found, members[most:]))
    figure = style.new_figure(7.4, 1.4 + _ROW * max(1, len(lines)))
    axes = figure.subplots()
    rows = _lay_rows(axes, lines)
    shares = {row: outcome_shares(at) for row, item in rows if (at := found.point(item))}
    low = -false_scale((own["false"] for own, _ in shares.values()), budget)
    axes.set_xlim(low, 100.4)
    for x, head in ((1.1, "detected"), (1.2, "chance")):
        _beside(axes, x, 0, head, ha="right")
    for row, item in rows:
        _draw_outcomes(axes, row, item, found, *shares[row])
        weight = "bold" if item.x_alarm_eligible else "normal"
        detection = found.detection(item)
        _beside(axes, 1.1, row, percent(detection.rate), ha="right", color=INK, weight=weight)
        _beside(axes, 1.2, row, percent(detection.chance), ha="right")
    axes.axvline(0, color=INK, linewidth=0.9, zorder=1)
    axes.axvline(-100 * budget, color=VERMILION, linewidth=1.1, linestyle=style.DASHED, zorder=1)
    ticks = [tick for tick in range(-100, 101, 20) if tick >= low]
    axes.set_xticks(ticks, [str(abs(tick)) for tick in ticks])
    axes.set_xlabel("of 100 runs, if one acts on the first alarm", labelpad=2)
    _named(figure, axes, found.title, subtitle)
    keys: list[Artist] = [
        Patch(label=OUTCOMES[name], linewidth=0, **look)
        for name, look in _LOOKS.items()
        if any(own[name] for own, _ in shares.values())
    ]
    keys.append(line_key("chance baseline, at the same cost", color=BLACK, linewidth=1.4))
    words = f"budget, {in_words(budget)}"
    keys.append(line_key(words, color=VERMILION, linewidth=1.1, linestyle=style.DASHED))
    figure.legend(handles=keys, loc="outside lower center", ncols=4, fontsize=7)
    return figure


def _others(found: RankedVerdicts, left_out: Sequence[IndicatorRecord]) -> str:
    """What is to be known of the scores of a group that are not drawn."""
    may = sum(bool(item.x_alarm_eligible) for item in left_out)
    most = max(found.detection(item).rate or 0.0 for item in left_out)
    said = f"{may:,} of which may raise an alarm" if may else f"which detect {most:.0%} at most"
    return f"and {len(left_out):,} more, {said}"


def _draw_outcomes(
    axes: Axes,
    row: int,
    item: IndicatorRecord,
    found: RankedVerdicts,
    shares: Mapping[str, float],
    chance: float | None,
) -> None:
    start = -shares["false"]
    for name, look in _LOOKS.items():
        axes.barh(row, shares[name], left=start, height=0.72, linewidth=0, zorder=3, **look)
        start += shares[name]
    axes.plot([0, 0], [row - 0.5, row + 0.5], color=INK, linewidth=0.9, zorder=4)
    small: Any = {"fontsize": 6.3, "va": "center_baseline", "color": "#4A4A4A", "zorder": 5}
    if follow(found.point(item), "answer") == "ABSTAIN":
        axes.text(1.2, row, "abstains: too few calibration runs", **small)
        return
    cut = float(axes.get_xlim()[0])
    if shares["false"] > -cut:
        axes.text(cut + 0.8, row, f"‹ {shares['false']:.0f}", **{**small, "color": _WHITE})
    # Why it may not, where there is room for it.
    if item.x_reasons and shares["miss"] > 36 and group_of(item) in MONITORS:
        end = shares["timely"] + shares["early"] + shares["miss"]
        axes.text(end - 1.2, row, reason(item.x_reasons[0]), ha="right", **small)
    if chance is not None:
        for colour, width in ((_WHITE, 2.8), (BLACK, 1.4)):
            mark: Any = {"color": colour, "linewidth": width, "solid_capstyle": "butt"}
            axes.plot([chance, chance], [row - 0.44, row + 0.44], zorder=5, **mark)


# Lead times, score by score.

_GROUP_KEYS = {
    "monitor": (BLUE, "sees no test labels"),
    "task": (PURPLE, "knows the task"),
    "undeclared": (SKY, "not declared"),
    "oracle": (ORANGE, "sees test labels"),
    "control": ("#8C8C8C", "control"),
}
_MOST_LEADS = 24


class Leads(NamedTuple):
    """The leads of one score: quantiles .05, .25, .5, .75 and .95, of how many events."""

    item: IndicatorRecord
    quantiles: Sequence[float]
    n_detected: int
    n_events: int

    @property
    def rate(self) -> float:
        """The share of events that were detected."""
        return self.n_detected / max(1, self.n_events)


def leads_of(item: IndicatorRecord, target: float, budget: float | None) -> Leads | None:
    """By runs at a budget; by windows at a target without one. None if nothing was detected."""
    if budget is not None and item.x_first_alarm is not None:
        at = item.x_first_alarm.at(budget)
        found = (at.lead_q05, at.lead_q25, at.lead_median, at.lead_q75, at.lead_q95)
        known = [lead for lead in found if lead is not None]
        return Leads(item, known, at.n_detected, at.n_events) if len(known) == 5 else None
    point = item.point(target)
    if point is None or not point.x_lead_times:
        return None
    quantiles = np.quantile(point.x_lead_times, (0.05, 0.25, 0.5, 0.75, 0.95)).tolist()
    return Leads(item, quantiles, len(point.x_lead_times), point.x_n_events or 0)


@style.house_style()
def lead_times(
    leads: Sequence[Leads], *, horizon: int, lead_time_target: float, budget: str
) -> Figure:
    """One row per score: where the middle half and nine in ten of its lead times lie, the median.

    At most 24 scores are drawn, those that detect most events, in the order given.

    Args:
        leads: of each score, rows from the top down.
        horizon: how early a detection is timely, in steps.
        lead_time_target: the least lead time that is asked for, in steps.
        budget: what alarms may cost, in words.
    """
    most = sorted(leads, key=lambda one: -one.rate)[:_MOST_LEADS]
    shown = {one.item.name: one for one in leads if one in most}
    more = len(leads) - len(shown)
    figure = style.new_figure(7.2, 1.2 + _ROW * (1 + max(1, len(shown))))
    axes = figure.subplots()
    lines: _Lines = [
        f"{more} more in the tables" if more else "",
        *(one.item for one in shown.values()),
    ]
    rows = _lay_rows(axes, lines)
    _beside(axes, 1.02, 0, f"detected, {budget}")
    for row, item in rows:
        one = shown[item.name]
        _beside(axes, 1.02, row, f"{one.rate:.0%}", weight="bold", color=INK)
        _beside(axes, 1.1, row, f"{one.n_detected:,} of {one.n_events:,}")
    if rows:
        at = np.array([row for row, _ in rows])
        q05, q25, median, q75, q95 = np.transpose([one.quantiles for one in shown.values()])
        colours = [_GROUP_KEYS[group_of(item)][0] for _, item in rows]
        bands = at[at % 2 == 1]
        axes.barh(bands, 1, height=1, color=FAINT, transform=axes.get_yaxis_transform(), zorder=0)
        axes.hlines(at, q05, q95, colors=colours, linewidth=1.2, zorder=2)
        axes.hlines(at, q25, q75, colors=colours, linewidth=5.5, zorder=3)
        axes.plot(median, at, "|", color=INK, markersize=9, markeredgewidth=2, zorder=4)
    furthest = max([float(horizon), *(one.quantiles[-1] for one in shown.values())])
    axes.set_xlim(1.03 * furthest, 0)
    axes.axvline(lead_time_target, color=GREEN, linewidth=1.1, linestyle=style.LONG_DASHED)
    axes.axvline(horizon, color=MUTED, linewidth=0.9, linestyle=(0, (1, 1.4)))
    style.step_axis(axes, "lead time: steps from the first alarm to t*")
    present = {group_of(item) for _, item in rows}
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
        line_key("minimum median lead time", color=GREEN, linestyle=style.LONG_DASHED),
        line_key("horizon", color=MUTED, linestyle=(0, (1, 1.4))),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=7)
    return figure


# The one-page answer: the label of every score, and the gates of both units that decide it.

_HEADS = {"budget": "false\nalarms", "chance": "by\nchance", "stability": "flips"}
STATES = {"met": ("#DCEAF5", INK), "straddles": ("#BDBDBD", INK), "missed": (VERMILION, _WHITE)}
"""The colour of a gate and its ink: the worse, the darker, in grayscale too."""


@style.house_style()
def label_summary(found: RankedVerdicts, *, subtitle: str) -> Figure:
    """Every score with its label, and each gate with what was measured, coloured by its state.

    First by runs, where first alarms were judged; then by windows. Of several gates of a kind the
    worst is shown. The figure is as tall as it takes.
    """
    lines: list[IndicatorRecord | str] = []
    for name, heading in GROUPS.items():
        if found.group(name):
            lines += [heading, *found.group(name)]
    ratios = [1.5, *(len(COLUMNS[f"gates_by_{unit}"]) for unit in units(found))]
    figure = style.new_figure(2.6 + 0.78 * sum(ratios), 1.5 + _ROW * max(1, len(lines)))
    labels, *panels = figure.subplots(
        1, len(ratios), sharey=True, squeeze=False, width_ratios=ratios
    )[0]
    rows = _lay_rows(labels, lines)
    labels.set_xticks([])
    labels.spines["bottom"].set_visible(False)
    labels.set_zorder(2)  # headings go on over the panels
    labels.set_facecolor("none")
    for row, item in rows:
        colour, ink = style.LABEL_COLOURS[item.label], style.LABEL_INKS.get(item.label, INK)
        look: Any = {"color": ink, "fontsize": 5.6, "weight": "bold", "ha": "center"}
        box: Any = {"facecolor": colour, "linewidth": 0, "boxstyle": "round,pad=0.25"}
        _beside(labels, 0.5, row, item.label.replace("_", " "), bbox=box, **look)
        if item.x_reasons:
            _beside(panels[-1], 1.01, row, reason(item.x_reasons[0]), fontsize=6.8)
    scores = score_rows(found, [item for _, item in rows])
    measured = [(row, one) for (row, _), one in zip(rows, scores, strict=True)]
    for axes, (unit, title) in zip(panels, units(found).items(), strict=True):
        _draw_gates(axes, measured, unit)
        axes.set_title(title, fontsize=8)
    _named(figure, labels, found.title, "")
    below = figure.supxlabel(shorten(subtitle, 150), fontsize=6.8, color=MUTED)
    style.wrapped(below, 0.98 * figure.get_figwidth())
    keys = [Patch(color=colour, label=state) for state, (colour, _) in STATES.items()]
    figure.legend(handles=keys, loc="outside lower right", ncols=3, fontsize=7)
    return figure


def _draw_gates(axes: Axes, rows: Sequence[tuple[int, ScoreRow]], unit: str) -> None:
    """The gates of one unit: a column each, with what was measured."""
    gates, order = COLUMNS[f"gates_by_{unit}"], list(STATES)
    axes.set_xlim(0, len(gates))
    heads = [_HEADS.get(gate.name, gate.name) for gate in gates]
    axes.set_xticks(np.arange(len(gates)) + 0.5, heads, fontsize=6.8)
    axes.tick_params(axis="x", length=0, labelbottom=False, labeltop=True)
    axes.yaxis.set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    boxes, colours = [], []
    look: Any = {"ha": "center", "va": "center_baseline", "fontsize": 6.8, "in_layout": False}
    for place, row in rows:
        states: dict[str, str] = {}
        for one in row.item.x_gates:
            if one.unit == unit:
                states[one.gate] = max(states.get(one.gate, "met"), one.state, key=order.index)
        for column, gate in enumerate(gates):
            colour, ink = STATES.get(states.get(gate.name, ""), (_WHITE, MUTED))
            boxes.append(Rectangle((column + 0.03, place - 0.42), 0.94, 0.84))
            colours.append(colour)
            axes.text(column + 0.5, place, gate.text(gate.of(row)), color=ink, **look)
    # As patches one by one, hundreds of them would take a second.
    axes.add_collection(PatchCollection(boxes, facecolors=colours, linewidths=0), autolim=False)


# Every figure of an evaluation, by the names in `FIGURES` of the report.


ROWS_FROM = 8
"""The fewest scores, controls among them, whose gates and lead times are drawn, a row or a panel
for each: of fewer the tables and the page say all."""


def draw(results: Results) -> dict[str, Figure]:
    """Every figure that a report of these results shows, by the names in `FIGURES`."""
    found, design = answer(results), judged_by(results)
    # The reference has its settings in place of a design; its labels need no summary.
    fixed = design if isinstance(design, Design) else None
    figures: dict[str, Figure] = {}
    if design is None or not found.ranked:
        return figures
    strict, eps = results.x_protocol == "strict", design.fpr_eps
    if found.budget is not None:
        figures["first"] = first_alarm(found, subtitle=subtitle(results))
    many = len(found.ranked) >= ROWS_FROM
    if fixed is not None and many:
        figures["summary"] = label_summary(found, subtitle=subtitle(results))
    if design.fpr_targets and many:
        same = follow(results, "x_calibration.method") == "in_sample"
        on = "the runs calibrated on" if same else RUNS[found.locked]
        figures["fpr"] = fpr_control(found.ranked, eps=eps, cap=strict, measured_on=on)
    every = [leads_of(item, found.target, found.budget) for item in found.ranked if many]
    leads = [one for one in every if one is not None]
    if leads:
        least = design.lead_target if fixed is None else fixed.lead_least
        at = f"{found.target:g} of windows" if found.budget is None else in_words(found.budget)
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
    if not found.ranked or not isinstance(judged_by(results), Design):
        what = "there are no first alarms to draw, and no design (x_prereg) for what is by windows"
        what = what if results.indicators else "there is no score to draw"
        raise InputError(f"results: {what}; evaluate the runs with gmb evaluate")
    return label_summary(found, subtitle=subtitle(results))


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
        from gmb_hf.benchmark.compat import primary_point

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


_TOLD = ("label-using", RULE_KIND, BASELINE)


def _missed(found: Evaluation) -> Figure | None:
    """Missed events, of the best score by runs that an operator may use."""
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
