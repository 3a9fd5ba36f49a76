"""The reference's jump: the first checkpoint at which the smoothed metric has risen and holds."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from gmb_hf.benchmark.compat.settings import CompatSettings
from gmb_hf.runs.panel import Panel
from gmb_hf.validation import InputError


def event_steps(metric: Panel, settings: CompatSettings) -> NDArray[np.float64]:
    """The step t* of each run's event, float64 [R], NaN where it has none.

    Raises:
        InputError: a metric that is not finite, or a run too short for an event.
    """
    refuse_gaps(metric, "metric")
    short = np.flatnonzero(metric.lengths < settings.least_rows)
    if len(short):
        run = int(short[0])
        raise InputError(
            f"run {metric.runs[run]!r} has {metric.lengths[run]} rows, but its event and the means "
            f"of these settings need at least {settings.least_rows}; leave the run out"
        )
    found = np.full(metric.n_runs, np.nan)
    for run, length in enumerate(metric.lengths):
        at = jump(metric.values[run, :length], settings)
        if at is not None:
            found[run] = metric.steps[run, at]
    return found


def jump(values: NDArray[np.float64], settings: CompatSettings) -> int | None:
    """The checkpoint of the event in one run's metric [T], or None.

    It is the first i >= w_jump with smooth[i] - smooth[i - w_jump] >= delta_jump, smooth[i] >=
    theta_floor and min(smooth[i : i + hold_k]) >= smooth[i] - delta_back.
    """
    smooth = trailing_mean(values, settings.w_jump)
    ahead = np.concatenate([smooth, np.full(settings.hold_k - 1, np.inf)])
    lowest = sliding_window_view(ahead, settings.hold_k).min(axis=1)
    good = (smooth >= settings.theta_floor) & (lowest >= smooth - settings.delta_back)
    good[settings.w_jump :] &= smooth[settings.w_jump :] - smooth[: -settings.w_jump] >= (
        settings.delta_jump
    )
    good[: settings.w_jump] = False
    # Near the end the reference holds to what is left, but to one later checkpoint at least.
    good[-1] = False
    return int(good.argmax()) if good.any() else None


def trailing_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The mean over up to `window` checkpoints, the present one included, [T].

    The reference keeps one running sum, to which it adds the new value and from which it takes the
    old one. The rounding errors of that order are kept: they decide whether a rise of .04 is one.
    """
    if window == 1:
        return values.copy()
    terms = np.zeros(2 * len(values))
    terms[::2] = values
    terms[2 * window + 1 :: 2] = -values[:-window]
    sums = np.add.accumulate(terms)[1::2]
    return np.asarray(sums / np.minimum(np.arange(1, len(values) + 1), window))


def refuse_gaps(panel: Panel, kind: str) -> None:
    """Refuse a value that is not finite: the reference has no rule for one.

    Raises:
        InputError: run and step are named.
    """
    wrong = panel.present & ~np.isfinite(panel.values)
    if wrong.any():
        run, column = (int(i) for i in np.argwhere(wrong)[0])
        count = int(wrong[run].sum())
        which = "at every step" if count == panel.lengths[run] else f"at {count} steps"
        raise InputError(
            f"run {panel.runs[run]!r}, step {panel.steps[run, column]}: {kind} {panel.name!r} is "
            f"{panel.values[run, column]} ({which} of this run), and the reference has no rule for "
            "that; mend the column or leave the run out"
        )
