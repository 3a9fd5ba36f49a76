"""The pages of the Crucible metrics: items as JSON lines, pools as CSV."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gmb_hf.apps.page import (
    Answer,
    Page,
    Setting,
    build,
    checked_columns,
    described,
    json_rows,
    title_of,
)
from gmb_hf.crucible.margins import Similarities, margins, ranks
from gmb_hf.crucible.tiers import TIERS
from gmb_hf.errors import InputError
from gmb_hf.fingerprints import content_hash
from gmb_hf.report.style import (
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


_ITEMS = """JSON lines, one item each: `{"similarities": [0.9, 0.2, 0.4], "positive": 0}`, the
similarity of each candidate to the anchor and the place of the positive among them, from 0. An `id`
and a `tier` (`tier1_easy`, `tier2_robust`, `tier3_adversarial`) may be added."""
_PAIRS = """ `similarities2` holds those of the second model."""
_POOLS = "CSV with the columns `pool`, `size` and `ratio`; the ratios add up to 1."

_SETTINGS: dict[str, tuple[Setting, ...]] = {
    "crucible_scoreboard": (
        Setting("version", "v1", info="of the evaluation set"),
        Setting("seed", 0, info="of the evaluation"),
    ),
    "crucible_compare": (
        Setting("permutations", 9999, info="sign flips"),
        Setting("seed", 0, info="of the sign flips"),
    ),
}
_EXPOSURE = (
    Setting("steps", 10_000, info="of the training"),
    Setting("batch_size", 32, info="slots in a batch"),
    Setting("probability", 0.1, info="that a slot is drawn from these"),
)


def items_app(script: Path) -> Any:
    """The page of a Crucible metric of items.

    Args:
        script: the module's own, beside the Space's app.py.
    """
    import evaluate

    metric = evaluate.load(str(script))
    paired = metric.name == "crucible_compare"

    def answer(text: str, settings: dict[str, Any]) -> Answer:

        data, tiers, source = read_items(text, paired=paired)
        if metric.name in ("crucible_scoreboard", "crucible_compare"):
            settings = {**settings, "tiers": tiers}
        if metric.name == "crucible_scoreboard":
            settings = {**settings, **source}
        results: dict[str, Any] = metric.compute(**data, **settings)
        if paired:
            return results, draw_pairs(data)
        return _flat(results), draw_items(data, tiers)

    formats = _ITEMS + (_PAIRS if paired else "")
    settings = _SETTINGS.get(metric.name, ())
    return build(
        Page(title_of(script), described(script), formats, example(paired), settings, answer)
    )


def exposure_app(script: Path) -> Any:
    """The page of `crucible_exposure`."""
    import evaluate

    metric = evaluate.load(str(script))

    def answer(text: str, settings: dict[str, Any]) -> Answer:

        data = read_pools(text)
        results: dict[str, Any] = metric.compute(**data, **settings)
        return results, draw_exposure(data["data"], results)

    pools = "pool,size,ratio\nlegacy,454,0.75\norganic,1200,0.25"
    return build(Page(title_of(script), described(script), _POOLS, pools, _EXPOSURE, answer))


def read_items(
    text: str, *, paired: bool = False
) -> tuple[dict[str, Any], list[str] | None, dict[str, str]]:
    """Items from JSON lines.

    Returns:
        The data of a metric, the tiers if the items have them, and the hashes of text and items.

    Raises:
        InputError: no items, or a line that is not understood; it names the line.
    """
    wanted = ["similarities", *(["similarities2"] if paired else []), "positive"]
    rows: list[dict[str, Any]] = []
    for number, row in json_rows(text, of="item"):
        checked_columns(list(row), wanted, where=f"line {number}")
        for name in wanted[:-1]:
            if not isinstance(row[name], list):
                raise InputError(f"line {number}: {name} must be a list of numbers")
        rows.append(row)
    if not rows:
        raise InputError("there are no items; paste JSON lines, or upload a file")
    names = ("predictions1", "predictions2") if paired else ("predictions",)
    data: dict[str, Any] = {
        name: [row[key] for row in rows] for name, key in zip(names, wanted[:-1], strict=True)
    }
    data["references"] = [row["positive"] for row in rows]
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
    reader = csv.DictReader(io.StringIO(text.strip()))
    wanted = ("pool", "size", "ratio")
    checked_columns([str(name) for name in reader.fieldnames or ()], wanted, where="CSV")
    data: dict[str, Any] = {"data": [], "sizes": [], "ratios": []}
    for row in reader:
        data["data"].append(row["pool"])
        for key, name in (("sizes", "size"), ("ratios", "ratio")):
            try:
                data[key].append(float(row[name]))
            except (TypeError, ValueError):
                message = f"line {reader.line_num}, {name}: {row[name]!r} is not a number"
                raise InputError(message) from None
    return data


def example(paired: bool) -> str:
    """Sixty made-up items of five candidates, the last ten of them hard."""
    lines = []
    state = 1
    for item in range(60):
        scores = []
        for _ in range(10):
            state = (state * 16807) % 2147483647
            scores.append(round(state / 2147483647, 3))
        hard = item >= 50
        row: dict[str, Any] = {"id": f"item {item}", "similarities": scores[:5], "positive": 0}
        row["similarities"][0] = round(scores[0] / 4 + (0.45 if hard else 0.75), 3)
        if paired:
            row["similarities2"] = [*scores[5:]]
            row["similarities2"][0] = round(scores[0] / 4 + (0.3 if hard else 0.8), 3)
        row["tier"] = "tier3_adversarial" if hard else "tier1_easy"
        lines.append(json.dumps(row))
    return "\n".join(lines)


def _flat(results: dict[str, Any]) -> dict[str, Any]:
    """A scoreboard's parts side by side, for a table of two columns."""
    flat: dict[str, Any] = {}
    for name, value in results.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": item for key, item in _flat(value).items()}
        else:
            flat[name] = value
    return flat
