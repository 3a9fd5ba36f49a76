"""The reference's labels: every window counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.scores import Scores


def positive_windows(scores: Scores, horizon: int) -> NDArray[np.bool_]:
    """Which windows are positive, bool [R, T]; every other window that is there is negative.

    Two quirks: t* itself is positive (a warning then has a lead of 0), and all else is negative,
    the windows after the event included, with no safe gap. Alarms after t* thus count as false,
    and a score that stays high is punished for it. The specification ignores both kinds.
    """
    lead = scores.event_step[:, None] - scores.steps
    # Comparisons with NaN are False: a run without an event has no positives.
    return np.asarray(scores.present & (lead >= 0) & (lead <= horizon))


def pooled(
    positive: NDArray[np.bool_], scores: Scores
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """All windows of all runs in one row: whether positive [N], and the score [N].

    Runs follow one another by name as text (seed_10 before seed_2), the order in which the
    reference lists their folders. It matters for ties in the pooled ranking alone.
    """
    order = sorted(range(scores.n_runs), key=scores.runs.__getitem__)
    there = scores.present[order]
    return positive[order][there], scores.values[order][there]
