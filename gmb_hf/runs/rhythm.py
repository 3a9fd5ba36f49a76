"""Columns that were logged at different steps, brought to the steps that they share.

A loss every 10 steps and an accuracy every 100 are both known every 100: there a score may be
judged, and nowhere else. This is done where the empty cells come from such a rhythm and from
nothing else; a single missing cell leaves a gap, and stays the fault that it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gmb_hf.runs.complete import filled
from gmb_hf.runs.runlog import RunLog
from gmb_hf.validation import InputError


def at_shared_steps(log: RunLog, columns: Sequence[str]) -> RunLog:
    """The rows in which all `columns` have a value if those are evenly spaced, else the log.

    Evenly spaced from end to end: no run may lose as much as one spacing at its beginning or end.
    What was left out, the log's `notes` say.

    Raises:
        InputError: a column is missing, or a run has no row in which all of them have a value.
    """
    part = log.complete(columns)
    if filled(log.table, columns).all():
        return log
    before, after = log.panel("step"), part.panel("step")
    try:
        spacing = after.cadence()
    except InputError:
        return log
    lost = np.maximum(after.first_step - before.first_step, before.last_step - after.last_step)
    return part if (lost < spacing).all() else log
