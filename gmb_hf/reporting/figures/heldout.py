"""Held-out text as bars: bits per byte of every model on every text."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from gmb_hf.reporting.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    house_style,
    new_figure,
    shorten,
)
from gmb_hf.reporting.heldout import Scored

_COLOURS = (BLUE, ORANGE, GREEN, SKY, VERMILION, PURPLE, YELLOW, BLACK)
_MOST_NUMBERS = 24
_BASELINE = "#D9D9D9"
_HATCHES = (None, "//", "..", "xx")  # tell bars of one colour apart


def heldout_bars(rows: Sequence[Scored]) -> Figure:
    """Bits per byte, which compare models of different tokenizers: less is better.

    A group of bars for each text, a bar for each model in it; baselines are grey and come last.
    Texts and models keep the order in which they come.
    """
    texts = list(dict.fromkeys(row.text for row in rows))
    models = list(dict.fromkeys(row.model for row in sorted(rows, key=lambda row: row.is_baseline)))
    baselines = list(dict.fromkeys(row.model for row in rows if row.is_baseline))
    width = 0.8 / len(models)
    with house_style():
        figure = new_figure(max(4.2, 1.4 + 0.34 * len(rows)), 3.2)
        axes = figure.subplots()
        for place, model in enumerate(models):
            heights = {row.text: row.score.bits_per_byte for row in rows if row.model == model}
            middles = [
                at - 0.4 + width * (place + 0.5) for at, text in enumerate(texts) if text in heights
            ]
            grey = model in baselines
            turn = baselines.index(model) if grey else place // len(_COLOURS)
            bars = axes.bar(
                middles,
                list(heights.values()),
                width=0.92 * width,
                color=_BASELINE if grey else _COLOURS[place % len(_COLOURS)],
                hatch=_HATCHES[turn % len(_HATCHES)],
                edgecolor=MUTED,
                linewidth=0.5,
                label=shorten(model, 40),
            )
            if len(rows) <= _MOST_NUMBERS:
                axes.bar_label(bars, fmt="%.2f", fontsize=6.5, color=INK, padding=1.5)
        axes.set_xticks(range(len(texts)), [shorten(text, 20) for text in texts])
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("bits per byte (less is better)")
        axes.margins(y=0.1)
        figure.legend(loc="outside upper left", ncols=2)
    return figure
