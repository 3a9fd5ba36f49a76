"""Positive, negative and ignored windows: each checkpoint is "the window that ends here".

Spec 2.1 and 2.2. Positive: 0 < t* - t <= horizon. Negative: t <= t* - safe gap. Everything else,
t* and what follows included, is ignored, and so is all before the burn-in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.events.registrable import registrable_until
from gmb_hf.benchmark.scores import Scores
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.validation import InputError


@dataclass(frozen=True, eq=False)
class Windows:
    """The labels of R runs at T checkpoints.

    Attributes:
        positive, negative: bool [R, T].
        monitored: bool [R, T], from burn-in to just before t*; without an event to the last
            negative. Holds every labelled window and the gap between the labels.
        dropped: labelled windows that were left out because their score is not finite.
    """

    positive: NDArray[np.bool_]
    negative: NDArray[np.bool_]
    monitored: NDArray[np.bool_]
    dropped: int

    def select(self, rows: NDArray[Any]) -> Windows:
        """The labels of some runs; `dropped` stays that of all."""
        return Windows(self.positive[rows], self.negative[rows], self.monitored[rows], self.dropped)


def label_windows(scores: Scores, prereg: Prereg) -> Windows:
    """Label every checkpoint of every run.

    A run without an event is negative up to a safe gap before the last step at which one would have
    been registered (see `registrable_until`). Runs that an event excludes do not belong in here.

    Raises:
        InputError: the safe gap is not larger than the horizon, or a labelled window's score is
            NaN or infinite (unless `x_nan` is `ignore`: those windows are dropped and counted).
    """
    if prereg.safe_gap <= prereg.horizon:
        raise InputError(
            f"safe gap {prereg.safe_gap} must be larger than horizon {prereg.horizon} steps, or a "
            "window could be positive and negative at once; enlarge the safe gap"
        )
    event = scores.event_step[:, None]
    happened = scores.has_event[:, None]
    steps = scores.steps
    usable = scores.present & (steps >= prereg.burn_in)
    quiet_until = registrable_until(scores, prereg)[:, None] - prereg.safe_gap

    # Comparisons with NaN are False: a run without an event has no positives.
    positive = usable & (steps < event) & (event - steps <= prereg.horizon)
    quiet = np.where(happened, steps <= event - prereg.safe_gap, steps <= quiet_until)
    negative = usable & quiet
    monitored = usable & np.where(happened, steps < event, steps <= quiet_until)

    finite = np.isfinite(scores.values)
    lost = (positive | negative) & ~finite
    if lost.any() and prereg.x_nan != "ignore":
        run, column = (int(i) for i in np.argwhere(lost)[0])
        raise InputError(
            f"run {scores.runs[run]!r}, step {steps[run, column]}: score {scores.name!r} is "
            f"{scores.values[run, column]} in a labelled window; mend the score, raise x_burn_in, "
            "or drop such windows (x_nan: ignore)"
        )
    return Windows(positive & finite, negative & finite, monitored & finite, int(lost.sum()))
