"""What of a log an evaluation needs, at the steps at which all of it is known."""

from __future__ import annotations

from collections.abc import Sequence

from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs import RunLog
from gmb_hf.runs.rhythm import at_shared_steps
from gmb_hf.workflows.candidates import Entry


def judged_rows(log: RunLog, prereg: Prereg, entries: Sequence[Entry]) -> RunLog:
    """The rows at which the metric and what the scores are made of are known, if evenly spaced.

    Raises:
        InputError: a run has no such row.
    """
    needed = [prereg.metric, *(name for entry in entries for name in entry.indicator.needs)]
    known = [name for name in dict.fromkeys(needed) if name in log.observables]
    return at_shared_steps(log, known)
