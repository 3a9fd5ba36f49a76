"""E_plateau: the metric reaches a level and holds it (spec 1.2; SC-1 persistence)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.events.found import Events
from gmb_hf.benchmark.events.metric import SLACK, require_numbers
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs.panel import Panel
from gmb_hf.validation import InputError


def plateau_events(metric: Panel, prereg: Prereg) -> Events:
    """E_plateau: the first of K consecutive checkpoints with m >= theta.

    K is `x_plateau_checkpoints`, theta is `x_plateau_threshold`. Options: `x_plateau_regression`
    (up to so many checkpoints in a row may lie below theta; the first of the K never does) and
    `x_event_t_min` (no event before that step).

    Raises:
        InputError: no run has K checkpoints, or the metric is NaN.
    """
    event = prereg.event
    require_numbers(metric, ignore=prereg.x_nan == "ignore")
    # The preregistration has refused the type without these two.
    length, level = event.x_plateau_checkpoints or 1, event.x_plateau_threshold or 0.0
    allowed = event.x_plateau_regression or 0
    n_runs, width = metric.values.shape
    if length > width:
        raise InputError(
            f"event.x_plateau_checkpoints is {length}, but the longest run has {width} "
            f"checkpoint(s) of {metric.name!r}; ask for fewer, or train longer"
        )
    held = metric.present & (metric.values >= level - SLACK)
    late_enough = metric.present & (metric.steps >= (event.x_event_t_min or 0))
    whole = metric.present[:, length - 1 :]
    starts = whole & (held & late_enough)[:, : whole.shape[1]]
    # A stretch that is too long lies within the K if it begins in the first K - allowed of them.
    broken = _all_of(~held, allowed + 1)
    starts &= ~_any_of(broken, length - allowed)[:, : whole.shape[1]]

    rows = np.arange(n_runs)
    step = np.where(starts.any(axis=1), metric.steps[rows, starts.argmax(axis=1)], np.nan)
    first = metric.steps[rows, late_enough.argmax(axis=1)]
    return Events("E_plateau", metric.runs, step, first, np.zeros(n_runs, dtype=bool))


def _all_of(flags: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Whether the `count` columns from each one on are all True, bool [R, T - count + 1]."""
    return np.asarray(_sum_of(flags, count) == count)


def _any_of(flags: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Whether any of the `count` columns from each one on is True, bool [R, T - count + 1]."""
    return np.asarray(_sum_of(flags, count) > 0)


def _sum_of(flags: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    upto = np.pad(np.cumsum(flags, axis=1, dtype=np.int64), ((0, 0), (1, 0)))
    return upto[:, count:] - upto[:, :-count]
