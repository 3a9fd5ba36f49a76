"""Risk sets: for each event, the runs that could have had theirs at that step instead.

As in the log-rank test (Cox 1972), a run is at risk at t* while it is event-free and still logged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.scores import Scores
from gmb_hf.preregistration.prereg import Prereg


@dataclass(frozen=True, eq=False)
class RiskSets:
    """The horizon of each run's event, seen on the checkpoints of every run.

    Attributes:
        at_risk: bool [R, R], row i: the runs at risk at the event of run i; all False where it had
            none. A run with an event is in its own risk set.
        begin, end: int32 [R, R], row i, column j: the columns begin..end-1 of run j are its
            checkpoints in the horizon of run i's event.
    """

    at_risk: NDArray[np.bool_]
    begin: NDArray[np.int32]
    end: NDArray[np.int32]

    @classmethod
    def of(cls, scores: Scores, prereg: Prereg) -> RiskSets:
        """Find every event's risk set; the horizon [t* - H, t*) begins no earlier than burn-in."""
        n_runs, has_event = scores.n_runs, scores.has_event
        event = np.where(has_event, scores.event_step, 0.0)
        start = np.maximum(event - prereg.horizon, prereg.burn_in)
        begin = np.empty((n_runs, n_runs), dtype=np.int32)
        end = np.empty_like(begin)
        for run, length in enumerate(scores.present.sum(axis=1)):
            steps = scores.steps[run, :length]
            begin[:, run] = np.searchsorted(steps, start)
            end[:, run] = np.searchsorted(steps, event)
        # Comparisons with NaN are False: a run without an event is event-free throughout.
        event_free = ~(scores.event_step[None, :] < event[:, None])
        at_risk = event_free & (scores.last_step[None, :] >= event[:, None])
        np.fill_diagonal(at_risk, True)
        return cls(at_risk & has_event[:, None], begin, np.maximum(begin, end))

    def select(self, rows: NDArray[Any]) -> RiskSets:
        """The risk sets among the runs at these row numbers."""
        chosen = np.ix_(rows, rows)
        return RiskSets(self.at_risk[chosen], self.begin[chosen], self.end[chosen])

    def share_alarmed(self, alarms: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Share of each event's risk set with an alarm in the horizon, [R]; NaN without event.

        Args:
            alarms: bool [R, T].
        """
        upto = np.zeros((len(alarms), alarms.shape[1] + 1), dtype=np.int32)
        np.cumsum(alarms, axis=1, out=upto[:, 1:])
        before = np.take_along_axis(upto, self.begin.T, axis=1)
        within = np.take_along_axis(upto, self.end.T, axis=1) - before
        alarmed = (self.at_risk & (within.T > 0)).sum(axis=1)
        size = self.at_risk.sum(axis=1)
        shares = np.full(len(size), np.nan)
        np.divide(alarmed, size, out=shares, where=size > 0)
        return shares
