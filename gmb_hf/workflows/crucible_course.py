"""How far the margins of grokking runs have come: at memorisation, at the event, at the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.runs import RunLog

Q10 = "crucible_margin_q10"


@dataclass(frozen=True)
class Course:
    """q10 of the held-out margins, each a median over the runs that it can be said of, or None.

    Attributes:
        n_runs, n_events: how many runs there are, and how many have an event.
        memorised: at a run's first checkpoint after memorisation.
        event: at t*.
        last: at the last checkpoint.
        share: (event - memorised) / (last - memorised), where memorisation came before t* and q10
            is higher at the end: 0 says that nothing of the rise came before the event.
    """

    n_runs: int
    n_events: int
    memorised: float | None
    event: float | None
    last: float
    share: float | None


def course_of(log: RunLog, events: NDArray[np.float64]) -> Course:
    """How q10 rises, and how much of that before the event.

    Args:
        log: with `crucible_margin_q10` and `train_acc`.
        events: t* of each run, NaN where there is none, [R].
    """
    from gmb_hf.training.progress import MEMORISED

    panel = log.panel(Q10)
    q10, steps, runs = panel.values, panel.steps, np.arange(len(panel.runs))
    knows = log.panel("train_acc").values >= MEMORISED
    start = np.where(knows.any(axis=1), q10[runs, knows.argmax(axis=1)], np.nan)
    at = steps == events[:, None]
    event = np.where(at.any(axis=1), q10[runs, at.argmax(axis=1)], np.nan)
    last = q10[:, -1]
    since = np.where(knows.any(axis=1), steps[runs, knows.argmax(axis=1)], np.inf)
    fair = (since < events) & (last > start)
    share = np.divide(event - start, last - start, where=fair, out=np.full(len(runs), np.nan))
    return Course(
        n_runs=len(runs),
        n_events=int(at.any(axis=1).sum()),
        memorised=_median(start),
        event=_median(event),
        last=float(np.median(last)),
        share=_median(share),
    )


def _median(values: NDArray[np.float64]) -> float | None:
    seen = values[np.isfinite(values)]
    return float(np.median(seen)) if len(seen) else None
