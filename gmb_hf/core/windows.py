"""Windows: each checkpoint of a run, seen as "the window that ends here" (spec 2).

A window is positive where an alarm is early warning, negative where it is false, and ignored in
between. Shapes: R runs, T checkpoints; shorter runs are padded, and `present` says which places of
[R, T] hold a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.base.errors import InputError


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
    dropped: int = 0

    def select(self, rows: NDArray[Any]) -> Windows:
        """The labels of some runs; `dropped` stays that of all."""
        return Windows(self.positive[rows], self.negative[rows], self.monitored[rows], self.dropped)

    def where(self, usable: NDArray[np.bool_], dropped: int = 0) -> Windows:
        """The labels where `usable`, bool [R, T]; elsewhere a window is neither."""
        return Windows(
            self.positive & usable, self.negative & usable, self.monitored & usable, dropped
        )


def label_windows(
    steps: ArrayLike,
    event_step: ArrayLike,
    *,
    horizon: float,
    safe_gap: float,
    burn_in: float = 0,
    last_registrable: ArrayLike | None = None,
    present: NDArray[np.bool_] | None = None,
) -> Windows:
    """Label every checkpoint of every run (spec 2.1 and 2.2).

    Positive: 0 < t* - t <= horizon. Negative: t <= t* - safe_gap. A run without an event is
    negative up to a safe gap before the last step at which an event would have been registered.

    Args:
        steps: [R, T], or [T] where all runs have the same.
        event_step: float [R], t* in steps, NaN where a run had no event.
        horizon, safe_gap, burn_in: in steps; windows before burn-in are ignored.
        last_registrable: [R], the last step at which an event would have been registered; the last
            checkpoint where it is not given.
        present: bool [R, T], which places hold a checkpoint; all, if not given.

    Raises:
        InputError: the safe gap is not larger than the horizon.

    >>> found = label_windows([0, 10, 20, 30, 40], [40.0], horizon=10, safe_gap=20)
    >>> found.positive[0].tolist(), found.negative[0].tolist()
    ([False, False, False, True, False], [True, True, True, False, False])
    """
    if safe_gap <= horizon:
        raise InputError(
            f"safe gap {safe_gap:g} must be larger than horizon {horizon:g} steps, or a window "
            "could be positive and negative at once; enlarge the safe gap"
        )
    event = np.asarray(event_step, dtype=np.float64)[:, None]
    at = np.broadcast_to(np.asarray(steps), (len(event), np.shape(steps)[-1]))
    there = np.ones(at.shape, dtype=bool) if present is None else present
    usable = there & (at >= burn_in)
    if last_registrable is None:
        last_registrable = np.where(there, at, -1).max(axis=1, initial=-1)
    last_negative = np.asarray(last_registrable)[:, None] - safe_gap
    # Comparisons with NaN are False: a run without an event has no positives.
    happened = ~np.isnan(event)
    return Windows(
        positive=usable & (at < event) & (event - at <= horizon),
        negative=usable & np.where(happened, at <= event - safe_gap, at <= last_negative),
        monitored=usable & np.where(happened, at < event, at <= last_negative),
    )
