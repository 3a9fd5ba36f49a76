"""How the Crucible metrics are called: their keywords, and what is wrong with a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from gmb_hf.validation import InputError, right_call, unknown

_ITEMS = "predictions=[[0.9, 0.2, 0.4], ...], references=[0, ...]"
CALLS = {
    "crucible_margin": _ITEMS,
    "crucible_rank": _ITEMS,
    "crucible_scoreboard": f"{_ITEMS}, eval_file='eval.jsonl', version='v1'",
    "crucible_compare": (
        "predictions1=[[0.9, 0.2, 0.4], ...], predictions2=[[0.8, 0.3, 0.1], ...], "
        "references=[0, ...]"
    ),
    "crucible_exposure": (
        "data=['legacy', 'organic'], sizes=[454, 1200], ratios=[0.75, 0.25], steps=10000, "
        "batch_size=32, probability=0.1"
    ),
}
"""The arguments with which each metric may be called."""

KEYWORDS: dict[str, tuple[str, ...]] = {
    "crucible_margin": ("ids", "empty", "return_per_item"),
    "crucible_rank": ("ids", "empty", "hits", "return_per_item"),
    "crucible_scoreboard": (
        "eval_file",
        "source_hash",
        "content_hash",
        "tiers",
        "version",
        "seed",
        "checkpoint_path",
        "timestamp",
    ),
    "crucible_compare": ("tiers", "ids", "permutations", "seed"),
    "crucible_exposure": ("steps", "batch_size", "probability"),
}
"""The keywords of each metric beside its data."""


def check(metric: str, settings: Mapping[str, Any]) -> None:
    """Refuse keywords that a metric does not have; raises InputError."""
    with called(metric, settings):
        pass


@contextmanager
def called(metric: str, settings: Mapping[str, Any]) -> Iterator[None]:
    """Check the keywords; whatever is wrong is said with the metric's name and the right call."""
    with right_call(metric, CALLS[metric]):
        for name in settings:
            if name not in KEYWORDS[metric]:
                raise unknown("keyword", name, KEYWORDS[metric])
        yield


def given(name: str, value: Any) -> Any:
    """The value of an argument that must be there; raises InputError."""
    if value is None:
        raise InputError(f"{name} is missing")
    return value


def listed(name: str, value: Any) -> list[Any]:
    """The value of an argument with an entry for each item; raises InputError."""
    if isinstance(given(name, value), (str, bytes)) or not hasattr(value, "__iter__"):
        raise InputError(f"{name} must be a list with one entry per item, got {value!r}")
    return list(value)


def tiers_of(settings: Mapping[str, Any]) -> list[Any] | None:
    """The tier of each item, where tiers were given."""
    found = settings.get("tiers")
    return None if found is None else listed("tiers", found)


def whole(size: Any) -> Any:
    """A size that went through float64 as the whole number that it was."""
    return int(size) if isinstance(size, (float, np.integer)) and size == size // 1 else size
