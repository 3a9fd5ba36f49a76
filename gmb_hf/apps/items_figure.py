"""The figures beside the Crucible metrics' results."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gmb_hf.crucible.margins import margins
from gmb_hf.crucible.ranks import ranks
from gmb_hf.crucible.similarities import Similarities
from gmb_hf.crucible.tiers import TIERS
from gmb_hf.reporting.figures.style import (
    BLUE,
    INK,
    MUTED,
    ORANGE,
    RULE,
    SKY,
    VERMILION,
    house_style,
    new_figure,
    shorten,
)

_SIZE = (7.2, 3.0)
_TIER_COLOURS = dict(zip(TIERS, (SKY, BLUE, ORANGE), strict=True))
_LEAST = {"healthy": 50, "warning": 30, "critical": 10}


def draw_items(data: dict[str, Any], tiers: list[str] | None) -> Figure:
    """Margins on the left, by tier where there are tiers; ranks on the right."""
    items = Similarities.of_lists(data["predictions"], data["references"])
    margin, place = margins(items), ranks(items).pessimistic
    groups: dict[str, Any] = {"items": np.ones(items.n, dtype=bool)}
    if tiers is not None:
        labels = np.asarray(tiers)
        groups = {name: labels == name for name in TIERS if (labels == name).any()}
    with house_style():
        figure = new_figure(*_SIZE)
        left, right = figure.subplots(1, 2)
        left.hist(
            [margin[rows] for rows in groups.values()],
            bins=30,
            stacked=True,
            color=[_TIER_COLOURS.get(name, BLUE) for name in groups],
            label=list(groups),
        )
        left.axvline(0, color=VERMILION)
        left.set_title(f"Margins: {(margin > 0).mean():.0%} of items pass")
        left.set_xlabel("margin; an item passes above 0")
        left.set_ylabel("items")
        if tiers is not None:
            left.legend()
        depths = np.arange(1, items.n_negatives.max() + 2)
        right.bar(depths, [(place == k).sum() for k in depths], color=BLUE)
        by_chance = [(1 / items.counts[items.counts >= k]).sum() for k in depths]
        right.plot(depths, by_chance, "_", ms=14, color=INK, label="by chance")
        right.set_title("Ranks of the positives")
        right.set_xlabel("pessimistic rank")
        right.set_ylabel("items")
        right.legend()
    return figure


def draw_pairs(data: dict[str, Any]) -> Figure:
    """The margin of every item by both models, and how the difference is spread."""
    first, second = (
        margins(Similarities.of_lists(data[name], data["references"]))
        for name in ("predictions1", "predictions2")
    )
    with house_style():
        figure = new_figure(*_SIZE)
        left, right = figure.subplots(1, 2)
        low, high = float(min(first.min(), second.min())), float(max(first.max(), second.max()))
        left.plot([low, high], [low, high], color=RULE)
        left.axhline(0, color=VERMILION, lw=0.8)
        left.axvline(0, color=VERMILION, lw=0.8)
        left.plot(first, second, "o", ms=3, alpha=0.6, color=BLUE)
        left.set_title("Margin of each item")
        left.set_xlabel("first model")
        left.set_ylabel("second model")
        right.hist(second - first, bins=30, color=BLUE)
        right.axvline(0, color=RULE)
        right.axvline(float((second - first).mean()), color=VERMILION)
        right.set_title("Difference and its mean")
        right.set_xlabel("second - first")
        right.set_ylabel("items")
    return figure


def draw_exposure(pools: list[str], results: dict[str, Any]) -> Figure:
    """Expected exposures of each pool with their Poisson range, and the thresholds."""
    filled = [name for name in pools if results[f"expected@{name}"] is not None]
    expected = np.array([results[f"expected@{name}"] for name in filled])
    reach = [
        expected - [results[f"low@{name}"] for name in filled],
        np.array([results[f"high@{name}"] for name in filled]) - expected,
    ]
    with house_style():
        figure = new_figure(*_SIZE)
        axes = figure.subplots()
        place = np.arange(len(filled))
        axes.bar(place, expected, width=0.5, color=BLUE)
        axes.errorbar(place, expected, yerr=np.maximum(reach, 0), fmt="none", ecolor=INK, capsize=5)
        for status, least in _LEAST.items():
            axes.axhline(least, color=VERMILION, lw=0.8, ls="--")
            axes.text(len(filled) - 0.45, least, f"{status} from {least}", va="bottom", color=MUTED)
        axes.set_xlim(-0.6, len(filled) + 0.3)
        names = [f"{shorten(name, 24)}\n{results[f'status@{name}']}" for name in filled]
        axes.set_xticks(place, names)
        axes.set_title("Expected exposures of an item, 5% to 95%")
    return figure
