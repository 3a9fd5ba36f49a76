"""A comparison of two evaluations as Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from gmb_hf.files import write_text
from gmb_hf.reporting import escape
from gmb_hf.reporting.comparison import QUANTITIES, Comparison, Pair, Value
from gmb_hf.validation import InputError


def write_comparison(comparison: Comparison, a: str, b: str, path: str | Path) -> Path:
    """Write a comparison of the files `a` and `b`, atomically; the ending of the name decides how.

    Raises:
        InputError: the name ends in none of .md, .csv and .json.
    """
    check_ending(path)
    text = _WRITERS[Path(path).suffix](comparison, a, b)
    return write_text(path, text)


def check_ending(path: str | Path) -> None:
    """Raise `InputError` unless a comparison can be written to this file."""
    if Path(path).suffix not in _WRITERS:
        raise InputError(f"{path}: a comparison is written as {', '.join(_WRITERS)}; choose one")


def verdict(comparison: Comparison) -> str:
    """Whether the numbers compare, in a sentence."""
    if comparison.differences:
        return f"Not comparable: they differ in their {', '.join(comparison.differences)}."
    if comparison.unknown:
        return f"Nobody can tell whether they are comparable: {'; '.join(comparison.unknown)}."
    return "Comparable: the same held-out data and the same preregistration."


def count_changes(comparison: Comparison) -> str:
    """How many indicators changed, in a sentence."""
    changed = [pair for pair in comparison.indicators if pair.changed]
    labels = [pair for pair in changed if not pair.only_in and pair.values["label"].changed]
    total = len(comparison.indicators)
    return f"{len(changed)} of {total} indicators differ, {len(labels)} in their label."


def shown(name: str, value: Value) -> str:
    """One value as readers see it."""
    if isinstance(value, str):
        return value
    if name == "p":
        return escape.p_value(value)
    return escape.number(value, 2 if name in ("AUC", "coverage") else 3)


def _markdown(comparison: Comparison, a: str, b: str) -> str:
    head = ["indicator", *(_head(name, comparison.target) for name in QUANTITIES)]
    lines = [
        f"A is {escape.markdown(a)}, B is {escape.markdown(b)}.",
        "",
        f"{escape.markdown(verdict(comparison))} {count_changes(comparison)}",
        "",
        f"| {' | '.join(head)} |",
        f"|{'|'.join(':---' if name in ('indicator', 'label') else '---:' for name in head)}|",
    ]
    for item in comparison.indicators:
        only = f" (only in {item.only_in})" if item.only_in else ""
        cells = [f"{escape.markdown(item.name)}{only}"]
        cells += [_both(name, pair, item.only_in) for name, pair in item.values.items()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _head(name: str, target: float) -> str:
    return f"{name} at {target:g}" if name in ("FPR", "coverage", "p") else name


def _both(name: str, pair: Pair, only_in: str | None) -> str:
    if only_in:
        return shown(name, pair.a if only_in == "A" else pair.b)
    if not pair.changed:
        return shown(name, pair.a)
    return f"{shown(name, pair.a)} → **{shown(name, pair.b)}**"


def _csv(comparison: Comparison, a: str, b: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(["indicator", "quantity", "A", "B", "changed", "only_in"])
    for item in comparison.indicators:
        for name, pair in item.values.items():
            cells = ["" if value is None else value for value in (pair.a, pair.b)]
            writer.writerow([item.name, name, *cells, pair.changed, item.only_in or ""])
    return out.getvalue()


def _json(comparison: Comparison, a: str, b: str) -> str:
    content: dict[str, Any] = {
        "a": a,
        "b": b,
        "target": comparison.target,
        "comparable": comparison.comparable,
        "differences": list(comparison.differences),
        "unknown": list(comparison.unknown),
        "indicators": [
            {
                "name": item.name,
                "only_in": item.only_in,
                "changed": item.changed,
                **{
                    name: {"a": pair.a, "b": pair.b, "changed": pair.changed}
                    for name, pair in item.values.items()
                },
            }
            for item in comparison.indicators
        ],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


_WRITERS = {".md": _markdown, ".csv": _csv, ".json": _json}
