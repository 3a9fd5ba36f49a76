"""The reference's rules as plain loops over windows, to compare the arrays with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gmb_hf.benchmark.compat import CompatSettings


class Run(NamedTuple):
    """One run as the reference sees it."""

    steps: list[int]
    metric: list[float]
    score: list[float]


def event(run: Run, settings: CompatSettings) -> int | None:
    """The step of the jump."""
    smooth, total = [], 0.0
    for i, value in enumerate(run.metric):
        total += value
        if i >= settings.w_jump:
            total -= run.metric[i - settings.w_jump]
        smooth.append(total / min(i + 1, settings.w_jump))
    if settings.w_jump == 1:
        smooth = list(run.metric)
    for i in range(settings.w_jump, len(smooth)):
        ahead = smooth[i : i + settings.hold_k]
        if (
            smooth[i] - smooth[i - settings.w_jump] >= settings.delta_jump
            and smooth[i] >= settings.theta_floor
            and len(ahead) > 1
            and min(ahead) >= smooth[i] - settings.delta_back
        ):
            return run.steps[i]
    return None


def labels(run: Run, at: int | None, horizon: int) -> list[bool]:
    """Which windows are positive; all others are negative."""
    return [at is not None and 0 <= at - step <= horizon for step in run.steps]


def thresholds(
    positive: Sequence[bool], score: Sequence[float], targets: Sequence[float]
) -> list[tuple[float, float]]:
    """Threshold and rate of each target: every candidate counts every window."""
    negatives = [s for s, p in zip(score, positive, strict=True) if not p]
    chosen = []
    for target in targets:
        best = (math.inf, math.inf, math.nan)
        for tau in sorted(set(score), reverse=True):
            rate = sum(s >= tau for s in negatives) / len(negatives)
            if (abs(rate - target), rate) < best[:2]:
                best = (abs(rate - target), rate, tau)
        chosen.append((best[2], best[1]))
    return chosen


def roc_auc(positive: Sequence[bool], score: Sequence[float]) -> float | None:
    """Area under the steps of the curve, ties in the order in which they stand."""
    ranked = [positive[i] for i in sorted(range(len(score)), key=lambda i: -score[i])]
    hits, n_pos, area = 0, sum(ranked), 0
    for hit in ranked:
        hits += hit
        area += 0 if hit else hits
    n_neg = len(ranked) - n_pos
    return area / (n_pos * n_neg) if n_pos and n_neg else None


def average_precision(positive: Sequence[bool], score: Sequence[float]) -> float | None:
    """Mean precision at each hit, ties in the order in which they stand."""
    ranked = [positive[i] for i in sorted(range(len(score)), key=lambda i: -score[i])]
    hits, gained = 0, 0.0
    for place, hit in enumerate(ranked, start=1):
        hits += hit
        gained += hits / place if hit else 0.0
    return gained / hits if hits else None


def effective_sample_size(values: Sequence[float]) -> float | None:
    """n / (1 + 2 sum of rho_k), up to the first that is not positive."""
    n = len(values)
    mean = sum(values) / n
    apart = [value - mean for value in values]
    variance = sum(x * x for x in apart) / n
    if variance <= 0:
        return None
    total = 0.0
    for lag in range(1, n):
        products = [apart[i] * apart[i + lag] for i in range(n - lag)]
        rho = sum(products) / len(products) / variance
        if rho <= 0:
            break
        total += rho
    return n / (1 + 2 * total)
