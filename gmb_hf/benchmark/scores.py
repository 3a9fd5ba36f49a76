"""One score of many runs, with the event that each run had or had not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.events import EVENTS
from gmb_hf.core.windows import Windows, label_windows
from gmb_hf.design.design import Design
from gmb_hf.runs.panel import Panel


@dataclass(frozen=True, eq=False)
class Scores(Panel):
    """A score s(t), higher meaning higher risk, of R runs at T checkpoints, and their events.

    Attributes:
        event_step: float64 [R], the step t* of the event, NaN where the run had none.
    """

    event_step: NDArray[np.float64]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.event_step.shape != (self.n_runs,):
            raise InputError(
                f"score {self.name!r}: {self.n_runs} runs need {self.n_runs} event steps, got "
                f"{self.event_step.shape}"
            )

    @classmethod
    def from_panel(cls, panel: Panel, event_step: ArrayLike) -> Scores:
        """The scores of a panel whose run i has its event at `event_step[i]` (NaN: none)."""
        steps = np.asarray(event_step, dtype=np.float64)
        return cls(panel.name, panel.runs, panel.values, panel.steps, panel.present, steps)

    @property
    def has_event(self) -> NDArray[np.bool_]:
        """Whether each run had an event, bool [R]."""
        return ~np.isnan(self.event_step)

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Scores:
        """The scores of the runs at these row numbers, in this order, at all T checkpoints."""
        rows = np.asarray(indices, dtype=np.int64)
        columns: Any = self.values, self.steps, self.present, self.event_step
        runs = tuple(map(self.runs.__getitem__, rows.tolist()))
        return Scores(self.name, runs, *(column[rows] for column in columns))

    def clock(self) -> Scores:
        """The steps themselves as a score of the same runs."""
        values = np.where(self.present, self.steps, np.nan).astype(np.float64)
        return replace(self, name="clock", values=values)

    def smooth(self, checkpoints: int) -> Scores:
        """The trailing mean over up to `checkpoints` checkpoints, the present one included.

        It is causal: the first checkpoints average what there is. Values that are not finite are
        left out of the mean of their neighbours and stay as they are, so that smoothing changes
        no window's existence. Scores that tie in every window of the raw series tie afterwards:
        a rounding error that splits a tie would hide a floor of the false positive rate.
        """
        if checkpoints == 1:
            return self
        finite = np.isfinite(self.values)
        padding = np.full((self.n_runs, checkpoints - 1), np.inf)
        padded = np.hstack([padding, np.where(finite, self.values, np.inf)])
        # Sorted, equal sets of values add up to equal sums; what is not finite goes last.
        trailing = np.moveaxis(sliding_window_view(padded, checkpoints, axis=1), 2, 0).copy()
        for last in range(checkpoints - 1, 0, -1):
            for low, high in pairwise(trailing[: last + 1]):
                lower = np.minimum(low, high)
                np.maximum(low, high, out=high)
                low[:] = lower
        windows = np.moveaxis(trailing, 0, 2).copy()
        known = windows < np.inf
        count = np.maximum(known.sum(axis=2), 1)
        mean = np.where(known, windows, 0.0).sum(axis=2) / count
        highest = np.take_along_axis(windows, count[:, :, None] - 1, axis=2)[:, :, 0]
        # The mean of equal numbers is that number, which the division need not return.
        mean = np.clip(mean, windows[:, :, 0], highest)
        return replace(self, values=np.where(finite, mean, self.values))


def registrable_until(scores: Scores, design: Design) -> NDArray[np.int64]:
    """The last step of each run at which an event would have been registered, int64 [R].

    A kind of event looks so far ahead (see `EventKind`). A run that is too short for any event has
    -1.
    """
    kind = EVENTS[design.event_type]
    ahead = kind.ahead(design)
    if not kind.in_checkpoints:
        return np.maximum(scores.last_step - ahead, -1)
    at = scores.present.sum(axis=1) - 1 - ahead
    steps = scores.steps[np.arange(scores.n_runs), np.maximum(at, 0)]
    return np.where(at >= 0, steps, -1)


def score_windows(scores: Scores, design: Design) -> Windows:
    """Label every checkpoint of every run; see `gmb_hf.core.windows.label_windows`.

    A run without an event is negative up to a safe gap before the last step at which one would have
    been registered (see `registrable_until`). Runs that an event excludes do not belong in here.

    Raises:
        InputError: the safe gap is not larger than the horizon, or a labelled window's score is
            NaN or infinite (unless `x_nan` is `ignore`: those windows are dropped and counted).
    """
    found = label_windows(
        scores.steps,
        scores.event_step,
        horizon=design.horizon,
        safe_gap=design.safe_gap,
        burn_in=design.burn_in,
        last_registrable=registrable_until(scores, design),
        present=scores.present,
    )
    finite = np.isfinite(scores.values)
    lost = (found.positive | found.negative) & ~finite
    if lost.any() and design.nan != "ignore":
        run, column = (int(i) for i in np.argwhere(lost)[0])
        raise InputError(
            f"run {scores.runs[run]!r}, step {scores.steps[run, column]}: score {scores.name!r} is "
            f"{scores.values[run, column]} in a labelled window; mend the score, raise x_burn_in, "
            "or drop such windows (x_nan: ignore)"
        )
    return found.where(finite, int(lost.sum()))
