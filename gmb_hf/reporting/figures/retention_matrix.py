"""The matrix of sequential training as a heat map: what was learned, and what is left of it."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from gmb_hf.continual.over_seeds import OverSeeds
from gmb_hf.continual.summary import RetentionSummary
from gmb_hf.reporting.figures.style import (
    BLUE,
    INK,
    VERMILION,
    house_style,
    shorten,
)

_COLOURS = LinearSegmentedColormap.from_list("chance", [BLUE, "#FFFFFF", VERMILION])
_CELL_WIDTH, _CELL_HEIGHT = 0.62, 0.34  # inches
_ROOM = 0.3  # of a colour bar, that two names do not lie on each other
_MOST_COLUMNS = 2  # as many as a page is wide
_LEFT, _GAP, _TOP, _RIGHT, _BOTTOM = 0.9, 0.25, 0.6, 0.95, 0.12


def retention_matrix(summary: RetentionSummary, measure: str) -> Figure:
    """A panel per variant: phases down, tasks across, the mean over seeds in each cell.

    Blue is better than a guess, red worse, white is chance. A frame marks the task of the phase;
    numbers in italics are of tasks that are still to come.

    Args:
        summary: the matrices.
        measure: "loss" or "accuracy".
    """
    names = list(summary.variants)
    columns = min(len(names), _MOST_COLUMNS)
    rows = math.ceil(len(names) / columns)
    phases, tasks = len(summary.trained_on) + 1, len(summary.tasks)
    panel = (tasks * _CELL_WIDTH, phases * _CELL_HEIGHT)
    width = _LEFT + columns * panel[0] + (columns - 1) * _GAP + _RIGHT
    height = rows * (panel[1] + _TOP) + _BOTTOM
    badness = {name: _badness(summary, name, measure) for name in names}
    with house_style():
        figure = Figure(figsize=(width, height))
        for index, name in enumerate(names):
            row, column = divmod(index, columns)
            axes = figure.add_axes(
                (
                    (_LEFT + column * (panel[0] + _GAP)) / width,
                    1 - (row * (panel[1] + _TOP) + _TOP + panel[1]) / height,
                    panel[0] / width,
                    panel[1] / height,
                )
            )
            _draw(axes, summary, name, measure, badness[name])
            axes.tick_params(labelleft=column == 0)
        bar = figure.add_axes(
            (
                (width - _RIGHT + 0.18) / width,
                1 - (_TOP + panel[1]) / height,
                0.1 / width,
                panel[1] / height,
            )
        )
        _colour_bar(bar, summary, measure)
        return figure


def _badness(summary: RetentionSummary, name: str, measure: str) -> NDArray[np.float64]:
    """Where each mean lies, float64 [P + 1, K]: -1 perfect, 0 chance, 1 as far on the other side.

    Without a known chance level, the untrained model stands for it.
    """
    found = np.zeros((len(summary.trained_on) + 1, len(summary.tasks)))
    for phase, k in np.ndindex(found.shape):
        variant, task = summary.variants[name], summary.tasks[k]
        value = getattr(variant.cell(phase, task), measure).mean
        level = getattr(summary.chance[task] or variant.cell(0, task), measure)
        if isinstance(level, OverSeeds):
            level = level.mean
        best = 0.0 if measure == "loss" else 1.0
        found[phase, k] = (
            np.clip((value - level) / abs(level - best), -1, 1) if level != best else 0
        )
    return found if measure == "loss" else -found


def _draw(
    axes: Axes, summary: RetentionSummary, name: str, measure: str, values: NDArray[np.float64]
) -> None:
    variant = summary.variants[name]
    axes.imshow(values, cmap=_COLOURS, norm=TwoSlopeNorm(0, -1, 1), aspect="auto")
    trained: set[str] = set()
    for phase, trained_on in enumerate(("", *summary.trained_on)):
        trained.add(trained_on)
        for k, task in enumerate(summary.tasks):
            over = getattr(variant.cell(phase, task), measure)
            axes.text(
                k,
                phase,
                _short(over.mean),
                color="#FFFFFF" if abs(values[phase, k]) > 0.8 else INK,
                style="normal" if task in trained else "italic",
                ha="center",
                va="center",
                size=7.5,
            )
            if task == trained_on:
                frame = Rectangle((k - 0.5, phase - 0.5), 1, 1, fill=False, ec=INK, lw=1.4)
                frame.set_clip_on(False)
                axes.add_patch(frame)
    axes.set_xticks(range(len(summary.tasks)), [shorten(task, 11) for task in summary.tasks])
    axes.xaxis.tick_top()
    axes.set_yticks(
        range(len(summary.trained_on) + 1),
        ["untrained", *(f"{at} {shorten(t, 11)}" for at, t in enumerate(summary.trained_on, 1))],
    )
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    seeds = len(variant.seeds)
    plural = "seed" if seeds == 1 else "seeds"
    axes.set_title(f"{shorten(name, 26)}: {measure}, {seeds} {plural}", pad=5)


def _colour_bar(axes: Axes, summary: RetentionSummary, measure: str) -> None:
    """From perfect at the bottom over the chance level to worse than guessing."""
    levels = {getattr(chance, measure) for chance in summary.chance.values() if chance is not None}
    best, worst = ("0", "2×\nand more") if measure == "loss" else ("1", "0")
    # An accuracy cannot be worse than 0, which may lie close to chance.
    top = 1.0 if measure == "loss" else max((x / (1 - x) for x in levels if x < 1), default=0.0)
    axes.imshow(
        np.linspace(top, -1, 256)[:, None],
        cmap=_COLOURS,
        norm=TwoSlopeNorm(0, -1, 1),
        aspect="auto",
        extent=(0, 1, -1, top),
    )
    middle = "chance" if levels else "untrained"
    if measure == "accuracy" and (len(levels) != 1 or top < _ROOM):
        worst = ""  # an accuracy of 0 has several places here, or none of its own
    if len(levels) == 1:
        middle += f"\n{_short(levels.pop())}"
    axes.axhline(0, color=INK, lw=0.8)
    ticks = [(-1.0, best), (0.0, middle), *([(top, worst)] if worst else [])]
    axes.set_yticks([at for at, _ in ticks], [text for _, text in ticks])
    axes.yaxis.tick_right()
    axes.set_xticks([])
    axes.spines[:].set_visible(False)


def _short(value: float) -> str:
    """Three digits at most: 11.2, 4.57, .062; below .0005 only that it is."""
    if value >= 1:
        return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    if 0 < abs(value) < 0.0005:
        return "<.001"
    return "0" if value == 0 else f"{value:.3f}".replace("0.", ".", 1).replace("1.000", "1")
