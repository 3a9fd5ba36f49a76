"""Events t*: the first step at which a metric jumps, or settles (spec 1.2).

Pure functions of metrics [R, T]: R runs, T checkpoints, NaN where a metric is not known. They look
for rises; of a metric that is to fall, give its negative (and that of the level).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

SLACK = 1e-12
"""Accuracies are ratios: .95 - .80 must count as a jump of .15, which floats deny."""


class Jumps(NamedTuple):
    """The first jump of each run, and how many of them only regain a level that was reached."""

    step: NDArray[np.float64]  # [R], NaN: none
    n_dip_recoveries: int


def jump_steps(
    metric: ArrayLike,
    steps: ArrayLike,
    *,
    ahead: int,
    threshold: float,
    allowed: NDArray[np.bool_] | None = None,
    level: float | None = None,
    new_max: bool = False,
) -> Jumps:
    """E_jump: the first t with m(t + W) - m(t) >= delta (spec 1.2).

    Args:
        metric: float [R, T].
        steps: int [R, T], or [T] where all runs have the same.
        ahead: W, in checkpoints.
        threshold: delta.
        allowed: bool [R, T], where an event may be registered; everywhere, if not given.
        level: least m(t + W).
        new_max: whether m(t + W) must lie above every value up to t: levels within the window
            belong to the jump itself, and refuse nothing.

    >>> jump_steps([[0.1, 0.1, 0.2, 0.9]], [0, 10, 20, 30], ahead=1, threshold=0.5).step
    array([20.])
    """
    values = np.asarray(metric, dtype=np.float64)
    at = np.broadcast_to(np.asarray(steps), values.shape)
    n_runs, width = values.shape
    reach = max(width - ahead, 0)
    before, after = values[:, :reach], values[:, ahead:]
    highest = np.fmax.accumulate(values, axis=1)[:, :reach]
    jumped = np.asarray(after - before >= threshold - SLACK)
    if allowed is not None:
        jumped &= allowed[:, :reach]
    if level is not None:
        jumped &= after >= level - SLACK
    if new_max:
        jumped &= after > highest
    step, dips = np.full(n_runs, np.nan), 0
    rows = np.flatnonzero(jumped.any(axis=1))
    if len(rows):
        first = jumped[rows].argmax(axis=1)
        step[rows] = at[rows, first]
        dips = int((after[rows, first] <= highest[rows, first]).sum())
    return Jumps(step, dips)


def plateau_steps(
    metric: ArrayLike,
    steps: ArrayLike,
    *,
    level: float,
    length: int,
    dips: int = 0,
    allowed: NDArray[np.bool_] | None = None,
    present: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """E_plateau: the first of K consecutive checkpoints with m >= theta, float64 [R] (NaN: none).

    Args:
        metric: float [R, T], T >= length.
        steps: int [R, T], or [T] where all runs have the same.
        level, length: theta and K.
        dips: up to so many checkpoints in a row may lie below; the first of the K never does.
        allowed: bool [R, T], where an event may begin; everywhere, if not given.
        present: bool [R, T], which places hold a checkpoint; all, if not given.

    >>> plateau_steps([[0.1, 0.9, 0.2, 0.9, 0.9]], [0, 10, 20, 30, 40], level=0.5, length=2)
    array([30.])
    """
    values = np.asarray(metric, dtype=np.float64)
    at = np.broadcast_to(np.asarray(steps), values.shape)
    there = np.ones(values.shape, dtype=bool) if present is None else present
    held = there & (values >= level - SLACK)
    whole = there[:, length - 1 :]
    starts = whole & (held if allowed is None else held & allowed)[:, : whole.shape[1]]
    # A stretch below the level that is too long lies within the K if it begins in the first
    # K - dips of them.
    broken = sliding_window_view(~held, dips + 1, axis=1).all(axis=2)
    lost = np.asarray(sliding_window_view(broken, length - dips, axis=1).any(axis=2))
    starts &= ~lost[:, : whole.shape[1]]
    first = at[np.arange(len(values)), starts.argmax(axis=1)]
    return np.where(starts.any(axis=1), first, np.nan)
