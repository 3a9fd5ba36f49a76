"""The one-page answer: which scores may raise an alarm, at what cost, and why the rest may not."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from gmb_hf.reporting.figures.style import (
    FAINT,
    INK,
    LABEL_COLOURS,
    LABEL_INKS,
    MUTED,
    house_style,
    rate_text,
    shorten,
)
from gmb_hf.reporting.figures.summary_panels import (
    SummaryRow,
    coverage,
    coverage_axis,
    false_alarms,
    fpr_axis,
    legend,
)
from gmb_hf.reporting.words import GROUPS, LABELS

_WIDTH, _ROW, _HEAD, _FOOT = 9.8, 0.235, 1.18, 0.5
# Left edges and widths in inches: names, label, false alarms, coverage, lead, p, why.
_NAME, _LABEL, _FPR, _COVERAGE, _LEAD, _P, _WHY = 0.14, 1.96, 3.5, 5.2, 7.66, 7.84, 8.28
_LABEL_WIDTH, _FPR_WIDTH, _COVERAGE_WIDTH = 1.42, 1.55, 2.0


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
        fpr_axis(panels[0], target, cap)
        coverage_axis(panels[1], coverage_min)
        line = 0
        for group, members in groups:
            _group_heading(page, panels, _baseline(height, line), line, GROUPS[group])
            for index, row in enumerate(members):
                line += 1
                _text(page, _baseline(height, line), row, shade=index % 2 == 0)
                false_alarms(panels[0], line + 0.5, row)
                coverage(panels[1], line + 0.5, row)
            line += 1
        figure.legend(
            handles=legend(),
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
    return sorted(members, key=lambda row: (LABELS.index(row.label), -(row.coverage or 0)))


def _baseline(height: float, line: int) -> float:
    """The middle of a row, in inches from the bottom."""
    return height - _HEAD - (line + 0.5) * _ROW


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
