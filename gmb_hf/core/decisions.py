"""What a decision is worth: the steps that a rule saves by stopping runs, the events that it loses.

Two rules act on the first alarm of a run, from burn-in on:

- `without_alarm`, at step s: a run whose alarm has not come by step s is stopped at s;
- `after_alarm`, after k steps: a run is stopped k steps after its alarm; without one it goes on.

A stopped run saves the steps from there to the end of its log; one that had ended by then saves
none. It loses its event where t* comes after the stop. The clock, "stop every run at step s", is
the first rule with alarms that never come.

The larger s or k, the fewer steps are saved and the fewer events are lost. The best of those that
lose no more than is tolerated is therefore the least one, and it is found as a threshold is: the
k-th smallest of what each explore run with an event needs, so that under exchangeable runs a fresh
event is lost with at most the tolerated probability, exactly and in finite samples.

    need = needed("without_alarm", explore_alarm, explore_event)
    at = least_at(need, 0.05)
    stop = stops("without_alarm", alarm, last_step, at)
    saved_steps(stop, last_step).sum() / last_step.sum(), lost_events(stop, event).sum()

Shapes: R runs, S candidates of s or k; a step is float64, NaN where there is no alarm or no event.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.core.thresholds import promise

Rule = Literal["without_alarm", "after_alarm"]


def stops(rule: Rule, alarm: ArrayLike, last_step: ArrayLike, at: ArrayLike) -> NDArray[np.float64]:
    """The step at which each run is stopped, float64 [R, S] ([R] for one candidate); inf: never.

    Args:
        rule: see above.
        alarm: [R], the first alarm; NaN: none.
        last_step: [R], where each log ends.
        at: [S], or one: the candidates of s or k, in steps.

    >>> stops("without_alarm", [10, 50, np.nan], [90, 90, 90], 30).tolist()
    [inf, 30.0, 30.0]
    >>> stops("after_alarm", [10, 50, np.nan], [90, 90, 90], 30).tolist()
    [40.0, 80.0, inf]
    """
    asked = np.asarray(at, dtype=np.float64)
    first, last = (
        np.asarray(one, dtype=np.float64).reshape(-1, *[1] * asked.ndim)
        for one in (alarm, last_step)
    )
    if rule == "without_alarm":
        stop = np.where(first <= asked, np.inf, asked)
    else:
        stop = np.where(np.isnan(first), np.inf, first + asked)
    return np.where(stop < last, stop, np.inf)


def saved_steps(stop: NDArray[np.float64], last_step: ArrayLike) -> NDArray[np.float64]:
    """The steps that each run is spared, of the shape of `stop`."""
    last = np.asarray(last_step, dtype=np.float64).reshape(-1, *[1] * (stop.ndim - 1))
    return np.maximum(last - stop, 0.0)


def lost_events(stop: NDArray[np.float64], event_step: ArrayLike) -> NDArray[np.bool_]:
    """Whether each run is stopped before its event, of the shape of `stop`."""
    event = np.asarray(event_step, dtype=np.float64).reshape(-1, *[1] * (stop.ndim - 1))
    return np.asarray(stop < event)  # False where there is no event


def needed(rule: Rule, alarm: ArrayLike, event_step: ArrayLike) -> NDArray[np.float64]:
    """The least s (or k) at which each event is not lost, float64 [R]; NaN without an event.

    >>> needed("without_alarm", [10, 90, np.nan], [50, 50, 50]).tolist()
    [10.0, 50.0, 50.0]
    >>> needed("after_alarm", [10, 90, np.nan], [50, 50, 50]).tolist()
    [40.0, 0.0, 0.0]
    """
    first, event = (np.asarray(one, dtype=np.float64) for one in (alarm, event_step))
    if rule == "without_alarm":
        least = np.fmin(first, event)
    else:
        least = np.fmax(event - first, 0.0)
    return np.where(np.isnan(event), np.nan, least)


def least_at(need: NDArray[np.float64], lost: float, calibration: str = "marginal") -> float:
    """The least s (or k) that loses at most a share `lost` of fresh events; inf: none does.

    Args:
        need: `needed` of the explore runs, NaN without an event.
        lost: the share of events that may be lost.
        calibration: as of `promise`: the share is kept on average, or by nine choices in ten.

    >>> least_at(np.arange(19.0), 0.05), least_at(np.arange(18.0), 0.05)
    (18.0, inf)
    """
    known = np.sort(need[~np.isnan(need)])
    rank = promise(lost, len(known), calibration).rank
    return math.inf if rank is None else float(known[rank - 1])
