"""Events: the step t* at which a run does what the alarm should have warned of (spec 1.2).

`find_events` looks the detector up in `DETECTORS` by the preregistration's `event.type`; each one
asks for the observables that it needs by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs.panel import Panel
from gmb_hf.validation import InputError

Observables = Callable[[str], Panel]
"""Gives the panel of an observable by its name, e.g. `RunLog.panel`."""

# Accuracies are ratios: .95 - .80 must count as a jump of .15, which floats deny.
_SLACK = 1e-12


@dataclass(frozen=True, eq=False)
class Events:
    """The events of R runs.

    Attributes:
        kind: `E_jump`, ...
        runs: R run names.
        step: float64 [R], t* in steps, NaN where there is no event.
        first_step: int64 [R], the first step at which the run could have had an event.
        dip_recovery: bool [R], the metric a window W after the event is no higher than it
            had been up to the event.
    """

    kind: str
    runs: tuple[str, ...]
    step: NDArray[np.float64]
    first_step: NDArray[np.int64]
    dip_recovery: NDArray[np.bool_]

    @property
    def n_events(self) -> int:
        """How many runs have an event."""
        return int(np.isfinite(self.step).sum())

    @property
    def n_dip_recoveries(self) -> int:
        """How many events only regain a level that the metric had reached before."""
        return int(self.dip_recovery.sum())


def find_events(observables: Observables, prereg: Prereg) -> Events:
    """Find each run's event as the preregistration defines it.

    Args:
        observables: gives a panel by name, e.g. `log.panel`.
        prereg: its `event` section is read.

    Raises:
        InputError: the type has no detector, an observable is missing, or a setting does not fit
            the checkpoints.
    """
    kind = prereg.event.type
    if kind not in DETECTORS:
        raise InputError(
            f"event.type {kind!r} is not supported by this version; "
            f"supported: {', '.join(DETECTORS)}"
        )
    return DETECTORS[kind](observables, prereg)


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
    _require_numbers(metric, ignore=prereg.x_nan == "ignore")
    ahead = _checkpoints(event.window_W_event, metric)
    n_runs, width = metric.values.shape
    reach = max(width - ahead, 0)
    before, after = metric.values[:, :reach], metric.values[:, ahead:]
    highest = np.fmax.accumulate(metric.values, axis=1)[:, :reach]

    late_enough = metric.present & (metric.steps >= (event.x_event_t_min or 0))
    jumped = late_enough[:, :reach] & metric.present[:, ahead:]
    jumped &= after - before >= event.jump_threshold - _SLACK
    if event.x_theta_floor is not None:
        jumped &= after >= event.x_theta_floor - _SLACK
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


def unregistered_steps(prereg: Prereg) -> int:
    """Steps at the end of a log in which an event could not have been registered yet."""
    return prereg.w_event


def _jump(observables: Observables, prereg: Prereg) -> Events:
    return jump_events(observables(prereg.metric), prereg)


# E_plateau and E_regime take their places here.
DETECTORS: Mapping[str, Callable[[Observables, Prereg], Events]] = {"E_jump": _jump}


def _checkpoints(w_event: int, metric: Panel) -> int:
    cadence = metric.cadence()
    if w_event % cadence:
        nearest = max(1, round(w_event / cadence)) * cadence
        raise InputError(
            f"event.window_W_event is {w_event} steps, but {metric.name!r} is logged every "
            f"{cadence} steps; W must be a positive multiple of that, e.g. {nearest}"
        )
    return w_event // cadence


def _require_numbers(metric: Panel, *, ignore: bool) -> None:
    unknown = metric.present & np.isnan(metric.values)
    lost = np.flatnonzero(unknown.sum(axis=1) == metric.lengths)
    if len(lost):
        raise InputError(
            f"run {metric.runs[lost[0]]!r}: metric {metric.name!r} is NaN at every step; "
            "choose another metric, or leave the run out"
        )
    if unknown.any() and not ignore:
        run, column = (int(i) for i in np.argwhere(unknown)[0])
        raise InputError(
            f"run {metric.runs[run]!r}, step {metric.steps[run, column]}: metric "
            f"{metric.name!r} is NaN, so an event may be missed; mend the log, or ignore NaN "
            "(x_nan: ignore) to let such steps register no event"
        )
