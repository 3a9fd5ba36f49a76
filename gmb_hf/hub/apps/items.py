"""The pages of items and pools (Crucible), documents and phases: JSON lines and CSV tables."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gmb_hf.base.errors import InputError, unknown
from gmb_hf.base.fingerprints import content_hash
from gmb_hf.crucible.margins import TIERS, Similarities, margins, ranks
from gmb_hf.hub.apps import page
from gmb_hf.hub.apps.page import Answer, metric_page, number, page_figure
from gmb_hf.protocol.sequential.matrix import MEASURES
from gmb_hf.report import style
from gmb_hf.report.style import BLUE, INK, VERMILION, shorten

_TIER_COLOURS = dict(zip(TIERS, (style.SKY, BLUE, style.ORANGE), strict=True))
_LEAST = {"healthy": 50, "warning": 30, "critical": 10}


def draw_items(data: dict[str, Any], tiers: list[str] | None) -> Figure:
    """Margins on the left, by tier where there are tiers; ranks on the right."""
    items = Similarities.of_lists(data["predictions"], data["references"])
    margin, place = margins(items), ranks(items).pessimistic
    groups: dict[str, Any] = {"items": np.ones(items.n, dtype=bool)}
    if tiers is not None:
        labels = np.asarray(tiers)
        groups = {name: labels == name for name in TIERS if (labels == name).any()}
    with page_figure() as figure:
        left, right = figure.subplots(1, 2)
        colours = [_TIER_COLOURS.get(name, BLUE) for name in groups]
        spread = [margin[rows] for rows in groups.values()]
        left.hist(spread, bins=30, stacked=True, color=colours, label=list(groups))
        left.axvline(0, color=VERMILION)
        title = f"Margins: {(margin > 0).mean():.0%} of items pass"
        left.set(title=title, xlabel="margin; an item passes above 0", ylabel="items")
        if tiers is not None:
            left.legend()
        depths = np.arange(1, items.n_negatives.max() + 2)
        right.bar(depths, [(place == k).sum() for k in depths], color=BLUE)
        by_chance = [(1 / items.counts[items.counts >= k]).sum() for k in depths]
        right.plot(depths, by_chance, "_", ms=14, color=INK, label="by chance")
        right.set(title="Ranks of the positives", xlabel="pessimistic rank", ylabel="items")
        right.legend()
    return figure


def draw_pairs(data: dict[str, Any]) -> Figure:
    """The margin of every item by both models, and how the difference is spread."""
    first, second = (
        margins(Similarities.of_lists(data[name], data["references"]))
        for name in ("predictions1", "predictions2")
    )
    with page_figure() as figure:
        left, right = figure.subplots(1, 2)
        low, high = float(min(first.min(), second.min())), float(max(first.max(), second.max()))
        left.plot([low, high], [low, high], color=style.RULE)
        left.axhline(0, color=VERMILION, lw=0.8)
        left.axvline(0, color=VERMILION, lw=0.8)
        left.plot(first, second, "o", ms=3, alpha=0.6, color=BLUE)
        left.set(title="Margin of each item", xlabel="first model", ylabel="second model")
        right.hist(second - first, bins=30, color=BLUE)
        right.axvline(0, color=style.RULE)
        right.axvline(float((second - first).mean()), color=VERMILION)
        right.set(title="Difference and its mean", xlabel="second - first", ylabel="items")
    return figure


def draw_exposure(pools: list[str], results: dict[str, Any]) -> Figure:
    """Expected exposures of each pool with their Poisson range, and the thresholds."""
    filled = [name for name in pools if results[f"expected@{name}"] is not None]
    expected = np.array([results[f"expected@{name}"] for name in filled])
    low, high = ([results[f"{end}@{name}"] for name in filled] for end in ("low", "high"))
    reach = np.maximum([expected - low, high - expected], 0)
    with page_figure() as figure:
        axes = figure.subplots()
        place = np.arange(len(filled))
        axes.bar(place, expected, width=0.5, color=BLUE)
        axes.errorbar(place, expected, yerr=reach, fmt="none", ecolor=INK, capsize=5)
        for status, least in _LEAST.items():
            axes.axhline(least, color=VERMILION, lw=0.8, ls="--")
            shown = f"{status} from {least}"
            axes.text(len(filled) - 0.45, least, shown, va="bottom", color=style.MUTED)
        axes.set_xlim(-0.6, len(filled) + 0.3)
        names = [f"{shorten(name, 24)}\n{results[f'status@{name}']}" for name in filled]
        axes.set_xticks(place, names)
        axes.set_title("Expected exposures of an item, 5% to 95%")
    return figure


def draw_documents(data: dict[str, list[Any]], results: dict[str, Any]) -> Figure:
    """The loss of every token on the left, the bits per byte of every document on the right."""
    losses = -np.concatenate([np.asarray(row, dtype=np.float64) for row in data["predictions"]])
    bits = np.asarray(results["bits_per_byte_per_document"])
    panels = (
        (losses, results["loss"], "Tokens", "loss, nats"),
        (bits, results["bits_per_byte"], "Documents", "bits per byte"),
    )
    with page_figure() as figure:
        for axes, (values, mean, title, label) in zip(figure.subplots(1, 2), panels, strict=True):
            axes.hist(values, bins=30, color=BLUE)
            axes.axvline(mean, color=VERMILION, label=f"all together: {mean:.3f}")
            axes.set(title=title, xlabel=label)
            axes.set_ylabel(title.lower(), color=INK)
            axes.legend()
    return figure


def draw_phases(data: dict[str, list[Any]], tasks: list[str], measure: str) -> Figure:
    """Every task over the phases; a large dot where it was trained."""
    with page_figure() as figure:
        axes = figure.subplots()
        phases = range(len(data["predictions"]))
        for place, task in enumerate(tasks):
            values = [row[place] for row in data["predictions"]]
            colour = style.variant_colour(place)
            dashes = style.VARIANT_DASHES[place % len(style.VARIANT_DASHES)]
            axes.plot(phases, values, "o", ls=dashes, ms=3, color=colour, label=shorten(task, 20))
            trained = [phase for phase in phases if data["references"][phase] == place]
            axes.plot(trained, [values[phase] for phase in trained], "o", ms=8, color=colour)
        names = ["untrained" if at is None else tasks[at] for at in data["references"]]
        axes.set_xticks(phases, [shorten(name, 14) for name in names])
        axes.set(xlabel="after the phase of", ylabel=measure, title="What is left of each task")
        style.legend_beside(axes)
    return figure


_TRAINED_ON = "trained_on"


def items_app(script: Path) -> Any:
    """The page of a Crucible metric of items, whose module lies beside the Space's app.py."""
    paired = script.stem == "crucible_compare"

    def answer(metric: Any, text: str, settings: dict[str, Any]) -> Answer:
        data, tiers, source = read_items(text, paired=paired)
        if metric.name in ("crucible_scoreboard", "crucible_compare"):
            settings = {**settings, "tiers": tiers}
        if metric.name == "crucible_scoreboard":
            settings = {**settings, **source}
        results: dict[str, Any] = metric.compute(**data, **settings)
        return (results, draw_pairs(data)) if paired else (_flat(results), draw_items(data, tiers))

    return metric_page(script, "pairs" if paired else "items", answer)


def exposure_app(script: Path) -> Any:
    """The page of `crucible_exposure`."""

    def answer(metric: Any, text: str, settings: dict[str, Any]) -> Answer:
        data = read_pools(text)
        results: dict[str, Any] = metric.compute(**data, **settings)
        return results, draw_exposure(data["data"], results)

    return metric_page(script, "pools", answer)


def documents_app(script: Path) -> Any:
    """The page of `heldout_perplexity`."""

    def answer(metric: Any, text: str, settings: dict[str, Any]) -> Answer:
        data = read_documents(text)
        results: dict[str, Any] = metric.compute(**data, return_per_document=True, **settings)
        return results, draw_documents(data, results)

    return metric_page(script, "documents", answer)


def phases_app(script: Path) -> Any:
    """The page of `retention`."""

    def answer(metric: Any, text: str, settings: dict[str, Any]) -> Answer:
        data, tasks = read_phases(text)
        results: dict[str, Any] = metric.compute(**data, **settings)
        return results, draw_phases(data, tasks, str(settings.get("measure", MEASURES[0])))

    return metric_page(script, "phases", answer)


def read_items(
    text: str, *, paired: bool = False
) -> tuple[dict[str, Any], list[str] | None, dict[str, str]]:
    """Items from JSON lines.

    Returns:
        The data of a metric, the tiers if the items have them, and the hashes of text and items.

    Raises:
        InputError: no items, or a line that is not understood; it names the line.
    """
    lists = {"predictions": "similarities"}
    if paired:
        lists = {"predictions1": "similarities", "predictions2": "similarities2"}
    rows = page.json_rows(text, "item", tuple(lists.values()), "positive")
    data = _columns(rows, {**lists, "references": "positive"})
    tiers = [str(row["tier"]) for row in rows if "tier" in row]
    if tiers and len(tiers) < len(rows):
        raise InputError(f"{len(tiers)} of {len(rows)} items have a tier; give one to all or none")
    hashes = {
        "source_hash": hashlib.sha256(text.encode("utf-8")).hexdigest(),
        "content_hash": content_hash(rows),
    }
    return data, tiers or None, hashes


def read_pools(text: str) -> dict[str, Any]:
    """Pools from CSV, as data of `crucible_exposure`; an `InputError` names the line."""
    data: dict[str, Any] = {"data": [], "sizes": [], "ratios": []}
    for where, row in page.csv_rows(text, ("pool", "size", "ratio")):
        data["data"].append(row["pool"])
        for name in ("size", "ratio"):
            data[f"{name}s"].append(number(row[name], f"{where}, {name}"))
    return data


def read_documents(text: str) -> dict[str, list[Any]]:
    """Documents from JSON lines, as data of the metric; an `InputError` names the line."""
    rows = page.json_rows(text, "document", ("logprobs",), "bytes")
    return _columns(rows, {"predictions": "logprobs", "references": "bytes"})


def _columns(rows: list[dict[str, Any]], keys: dict[str, str]) -> dict[str, list[Any]]:
    return {name: [row[key] for row in rows] for name, key in keys.items()}


def read_phases(text: str) -> tuple[dict[str, list[Any]], list[str]]:
    """Rows from CSV as data of the metric, and the names of the tasks.

    Raises:
        InputError: no rows, no tasks, or a cell that is wrong; it names the line.
    """
    data: dict[str, list[Any]] = {"predictions": [], "references": []}
    tasks: list[str] = []
    for where, row in page.csv_rows(text, (_TRAINED_ON,)):
        tasks = [name for name in row if name != _TRAINED_ON]
        trained_on = (row[_TRAINED_ON] or "").strip()
        if trained_on and trained_on not in tasks:
            raise unknown("task", trained_on, tasks, where=where)
        data["references"].append(tasks.index(trained_on) if trained_on else None)
        data["predictions"].append([number(row[task], f"{where}, {task}") for task in tasks])
    if not data["predictions"]:
        raise InputError("there are no phases; paste CSV, or upload a file")
    return data, tasks


def _flat(results: dict[str, Any]) -> dict[str, Any]:
    """A scoreboard's parts side by side, for a table of two columns."""
    flat: dict[str, Any] = {}
    for name, value in results.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": item for key, item in _flat(value).items()}
        else:
            flat[name] = value
    return flat
