"""Until when a run was watched: the last step at which its event would have been registered.

An event just past the end of a log shows only in what was never logged, so the windows before it
are no sure negatives.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.scores import Scores
from gmb_hf.preregistration.prereg import Prereg


def registrable_until(scores: Scores, prereg: Prereg) -> NDArray[np.int64]:
    """The last step of each run at which an event would have been registered, int64 [R].

    E_jump looks W_event ahead, E_plateau K - 1 checkpoints and E_regime the radius. A run that is
    too short for any event has -1.
    """
    event = prereg.event
    if event.type == "E_plateau":
        ahead = (event.x_plateau_checkpoints or 1) - 1
        at = scores.present.sum(axis=1) - 1 - ahead
        steps = scores.steps[np.arange(scores.n_runs), np.maximum(at, 0)]
        return np.where(at >= 0, steps, -1)
    ahead = prereg.w_event if event.type == "E_jump" else event.x_regime_radius or 0
    return np.maximum(scores.last_step - ahead, -1)
