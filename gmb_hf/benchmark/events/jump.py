"""E_jump: the metric rises by delta within a window W (spec 1.2, the default event)."""

from __future__ import annotations

import numpy as np

from gmb_hf.benchmark.events.found import Events
from gmb_hf.benchmark.events.metric import SLACK, require_numbers
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs.panel import Panel
from gmb_hf.validation import InputError


def jump_events(metric: Panel, prereg: Prereg) -> Events:
    """E_jump: the first t with m(t + W) - m(t) >= delta (spec 1.2).

    W counts checkpoints of the panel's cadence, so a log that begins 1, 500, 1000 with W = 1000
    compares its first row with its third. Options: `x_event_t_min` (no event before that step),
    `x_theta_floor` (least m(t + W)), `x_require_new_max` (m(t + W) above every value up to t:
    levels within the window belong to the jump itself, and refuse nothing).

    Raises:
        InputError: W is no positive multiple of the cadence, or the metric is NaN.
    """
    event = prereg.event
    require_numbers(metric, ignore=prereg.x_nan == "ignore")
    ahead = _checkpoints(event.window_W_event, metric)
    n_runs, width = metric.values.shape
    reach = max(width - ahead, 0)
    before, after = metric.values[:, :reach], metric.values[:, ahead:]
    highest = np.fmax.accumulate(metric.values, axis=1)[:, :reach]

    late_enough = metric.present & (metric.steps >= (event.x_event_t_min or 0))
    jumped = late_enough[:, :reach] & metric.present[:, ahead:]
    jumped &= after - before >= event.jump_threshold - SLACK
    if event.x_theta_floor is not None:
        jumped &= after >= event.x_theta_floor - SLACK
    if event.x_require_new_max:
        jumped &= after > highest

    step = np.full(n_runs, np.nan)
    dip = np.zeros(n_runs, dtype=bool)
    first = metric.steps[np.arange(n_runs), late_enough.argmax(axis=1)]
    rows = np.flatnonzero(jumped.any(axis=1))
    if len(rows):
        at = jumped[rows].argmax(axis=1)
        step[rows] = metric.steps[rows, at]
        dip[rows] = after[rows, at] <= highest[rows, at]
    return Events("E_jump", metric.runs, step, first, dip)


def _checkpoints(w_event: int, metric: Panel) -> int:
    cadence = metric.cadence()
    if w_event % cadence:
        nearest = max(1, round(w_event / cadence)) * cadence
        raise InputError(
            f"event.window_W_event is {w_event} steps, but {metric.name!r} is logged every "
            f"{cadence} steps; W must be a positive multiple of that, e.g. {nearest}"
        )
    return w_event // cadence
