"""T4b: the threshold scan of protocol compat against the reference's, window by window.

The reference counts every window for every candidate threshold; both sides must choose the same
thresholds. Its time grows with the square of the windows: on 40 runs of 601 checkpoints it would
take a minute a target, so the comparison is made on fewer runs, which favours it.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Line
from gmb_hf.benchmark.compat.thresholds import nearest_thresholds

RUNS, CHECKPOINTS, TARGET = 8, 601, 0.05


def t4b() -> Line:
    """Candidate thresholds counted window by window over counted by bisection, target 1,000x."""
    positive, values = _windows(RUNS)
    start = time.perf_counter()
    slow = _by_the_window(positive, values)
    seconds = time.perf_counter() - start
    fast = nearest_thresholds(positive, values, (TARGET,))
    taken = _quickest(positive, values, (TARGET,))
    same = slow == (float(fast[0][0]), float(fast[1][0]))
    whole = _quickest(*_windows(40), (0.01, 0.05, 0.10, 0.20))
    details = [
        f"{RUNS} runs of {CHECKPOINTS}: {seconds:.2f} s against {1e3 * taken:.2f} ms; the same "
        f"threshold: {'yes' if same else 'NO'}",
        f"40 runs of {CHECKPOINTS}, four targets: {1e3 * whole:.1f} ms",
    ]
    ratio = seconds / taken
    return Line("T4b", f"{ratio:,.0f}x", ">= 1,000x", same and ratio >= 1000, details)


def _windows(runs: int) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Half of the scores are zero, as of the published score; 41 windows of a run are positive."""
    rng = np.random.default_rng(0)
    n = runs * CHECKPOINTS
    values = np.where(rng.random(n) < 0.5, 0.0, rng.gamma(0.5, size=n))
    return np.tile(np.arange(CHECKPOINTS) < 41, runs), values


def _by_the_window(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> tuple[float, float]:
    windows = list(zip(positive.tolist(), values.tolist(), strict=True))
    best = (np.inf, np.inf, np.nan)
    for tau in np.unique(values)[::-1].tolist():
        negatives = alarmed = 0
        for hit, score in windows:
            if not hit:
                negatives += 1
                alarmed += score >= tau
        rate = alarmed / negatives
        best = min(best, (abs(rate - TARGET), rate, tau), key=lambda found: found[:2])
    return best[2], best[1]


def _quickest(
    positive: NDArray[np.bool_], values: NDArray[np.float64], targets: tuple[float, ...]
) -> float:
    """The least seconds of ten calls."""
    spent = []
    for _ in range(10):
        start = time.perf_counter()
        nearest_thresholds(positive, values, targets)
        spent.append(time.perf_counter() - start)
    return min(spent)
