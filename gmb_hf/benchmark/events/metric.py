"""What the detectors share: which numbers an event may be read from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gmb_hf.runs.panel import Panel
from gmb_hf.validation import InputError

Observables = Callable[[str], Panel]
"""Gives the panel of an observable by its name, e.g. `RunLog.panel`."""

SLACK = 1e-12
"""Accuracies are ratios: .95 - .80 must count as a jump of .15, which floats deny."""


def require_numbers(metric: Panel, *, ignore: bool) -> None:
    """Refuse a metric that is NaN throughout a run, and unless `ignore` one that is NaN anywhere.

    Raises:
        InputError: run, step and metric are named.
    """
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
