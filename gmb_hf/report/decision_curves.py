"""The figure of decisions: the share of steps saved against the share of events lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gmb_hf.benchmark.decisions import CLOCK, LEARNED, ONSET, RULES, DecisionRecord, Decisions
from gmb_hf.core.decisions import Rule
from gmb_hf.report import style
from gmb_hf.report.answer import ends
from gmb_hf.report.decisions import RULE_TITLES, rival_name
from gmb_hf.report.style import BLUE, GREEN, INK, MUTED, PURPLE, RULE, VERMILION

_LOOKS: dict[str, dict[str, Any]] = {
    "monitor": {"color": BLUE, "marker": "o"},
    "task": {"color": VERMILION, "marker": "s"},
    "undeclared": {"color": PURPLE, "marker": "D"},
    "oracle": {"color": GREEN, "marker": "^"},
    CLOCK: {"color": MUTED, "linestyle": style.DASHED},
    ONSET: {"color": MUTED, "linestyle": style.DOTTED},
    LEARNED: {"color": MUTED, "linestyle": (0, (6, 1.5, 1, 1.5))},
}
_TOLD = {"monitor": "", "task": ", task-aware", "undeclared": "", "oracle": ", oracle"}
_WIDEST = 0.6


@style.house_style()
def plot_decisions(found: Decisions) -> Figure:
    """What stopping runs saves and loses on the held-out runs, a panel for each rule.

    A line is a score, or rival, at every step or delay; a point is what explore runs chose, with
    its 95% intervals. Rivals are grey and dashed. The figure has 7.2 by 4 inches.
    """
    figure = style.new_figure(7.2, 4.0)
    panels = figure.subplots(1, len(RULES), sharex=True, sharey=True)
    lines = {rule: (*found.rivals(rule), *found.leading(rule)) for rule in RULES}
    reached = [
        ends(one.judged.lost_interval)[1] for of in lines.values() for one in of if one.judged
    ]
    widest = min(
        max([4 * found.tolerated, *reached]) * 1.08, max(_WIDEST, 4 * found.tolerated), 1.0
    )
    tops = [0.1]
    for axes, rule in zip(panels, RULES, strict=True):
        for one in lines[rule]:
            tops.append(_draw(axes, one, found.n_events, widest))
        axes.axvline(found.tolerated, color=RULE, linewidth=1, zorder=0)
        axes.set_title(RULE_TITLES[rule])
        axes.set_xlabel("share of events lost")
        style.rate_axis(axes.xaxis)
        _name(axes, lines[rule], found, rule)
    text = f"{style.rate_text(found.tolerated)} tolerated"
    look: Any = {"fontsize": 6.8, "color": MUTED, "rotation": 90, "va": "top", "ha": "right"}
    place: Any = {"xycoords": ("data", "axes fraction")}
    style.note(panels[0], text, (found.tolerated, 1), (-1.5, -2), **place, **look)
    panels[0].set(xlim=(0, widest), ylim=(0, 1.08 * max(tops)), ylabel="share of steps saved")
    style.rate_axis(panels[0].yaxis)
    return figure


def _look(one: DecisionRecord) -> dict[str, Any]:
    return _LOOKS[one.name if one.group == "rival" else one.group]


def _draw(axes: Axes, one: DecisionRecord, n_events: int, widest: float) -> float:
    """The line of one score and its point; the highest place that is drawn."""
    look, curve, at = _look(one), one.curve, one.judged
    colour, top = look["color"], 0.0
    if curve is not None:
        lost, saved = np.array(curve.n_lost) / n_events, np.array(curve.saved)
        axes.plot(lost, saved, color=colour, linestyle=look.get("linestyle", "solid"), zorder=2)
        top = float(saved[lost <= widest].max(initial=0.0))
    if at is None:
        return top
    if one.group == "rival":
        axes.plot(at.lost, at.saved, ".", color=colour, markersize=7, zorder=3)
        return top
    bars: Any = {"color": colour, "linewidth": 1.1, "alpha": 0.7, "zorder": 3}
    axes.hlines(at.saved, *ends(at.lost_interval), **bars)
    axes.vlines(at.lost, *ends(at.saved_interval), **bars)
    point: Any = {"color": colour, "markersize": 5.5, "markeredgecolor": INK, "zorder": 4}
    axes.plot(at.lost, at.saved, look["marker"], markeredgewidth=0.6, **point)
    return max(top, ends(at.saved_interval)[1])


def _name(axes: Axes, lines: tuple[DecisionRecord, ...], found: Decisions, rule: Rule) -> None:
    """What each line is, below its panel, with the step or delay that was chosen."""
    handles = []
    for one in reversed(lines):
        look, rival = _look(one), one.group == "rival"
        metric = style.shorten(found.metric, 20)
        name = rival_name(one.name, metric) if rival else style.shorten(one.name, 26)
        by = "" if one.at is None else f"{one.at:,.0f}"
        when = f" (step {by})" if rule == "without_alarm" or one.name == CLOCK else f" (+{by})"
        told = "" if rival else _TOLD[one.group]
        label = f"{name}{told}{when if by else ''}"
        handles.append(style.line_key(label, **look, markersize=5))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(-0.02, -0.17), borderaxespad=0)
