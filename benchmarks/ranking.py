"""T6: margins and ranks of many ragged items, against the same item by item in Python."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Line, median

_ITEMS, _MOST_NEGATIVES, _ROUNDS = 100_000, 32, 9


def t6() -> Line:
    """100,000 items with about 1.65 million negatives, medians of 9 rounds."""
    from gmb_hf.crucible.margins import Similarities, margin_stats, margins, rank_stats, ranks

    rng = np.random.default_rng(0)
    counts = 1 + rng.integers(1, _MOST_NEGATIVES + 1, _ITEMS)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    # A coarse grid, so that there are ties.
    values = np.round(rng.normal(size=offsets[-1]), 2)
    positive = rng.integers(0, counts)

    def all_at_once() -> None:
        found = Similarities.of_flat(values, offsets, positive)
        margin_stats(margins(found))
        rank_stats(ranks(found))

    spent = median([_seconds(all_at_once) for _ in range(_ROUNDS)])
    expected: list[tuple[float, int, int]] = []
    slow = _seconds(lambda: expected.extend(_one_by_one(values, offsets, positive)))
    found = Similarities.of_flat(values, offsets, positive)
    placed = ranks(found)
    same = expected == list(
        zip(
            margins(found).tolist(),
            placed.strict.tolist(),
            placed.pessimistic.tolist(),
            strict=True,
        )
    )
    if not same:
        raise RuntimeError("margins or ranks differ from those computed item by item")
    details = [
        f"{_ITEMS:,} items, {len(values) - _ITEMS:,} negatives; checks of the input included",
        f"item by item in Python {slow * 1e3:.0f} ms, {slow / spent:.0f}x; equal to the last bit",
    ]
    return Line("T6", f"{spent * 1e3:.0f} ms", "<= 100 ms", spent <= 0.1, details)


def _one_by_one(
    values: NDArray[np.float64], offsets: NDArray[np.int64], positive: NDArray[np.int64]
) -> list[tuple[float, int, int]]:
    flat, found = values.tolist(), []
    for item, place in enumerate(positive.tolist()):
        candidates = flat[offsets[item] : offsets[item + 1]]
        mine = candidates.pop(place)
        above = sum(value > mine for value in candidates)
        level = sum(value == mine for value in candidates)
        found.append((mine - max(candidates), 1 + above, 1 + above + level))
    return found


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
