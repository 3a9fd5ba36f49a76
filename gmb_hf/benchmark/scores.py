"""One score of many runs, with the event that each run had or had not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.events import EVENTS
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


# Positive, negative and ignored windows: each checkpoint is "the window that ends here".


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


def label_windows(scores: Scores, design: Design) -> Windows:
    """Label every checkpoint of every run.

    A run without an event is negative up to a safe gap before the last step at which one would have
    been registered (see `registrable_until`). Runs that an event excludes do not belong in here.

    Raises:
        InputError: the safe gap is not larger than the horizon, or a labelled window's score is
            NaN or infinite (unless `x_nan` is `ignore`: those windows are dropped and counted).
    """
    if design.safe_gap <= design.horizon:
        raise InputError(
            f"safe gap {design.safe_gap} must be larger than horizon {design.horizon} steps, or a "
            "window could be positive and negative at once; enlarge the safe gap"
        )
    event = scores.event_step[:, None]
    happened = scores.has_event[:, None]
    steps = scores.steps
    usable = scores.present & (steps >= design.burn_in)
    last_negative = registrable_until(scores, design)[:, None] - design.safe_gap

    # Comparisons with NaN are False: a run without an event has no positives.
    positive = usable & (steps < event) & (event - steps <= design.horizon)
    negative = usable & np.where(happened, steps <= event - design.safe_gap, steps <= last_negative)
    monitored = usable & np.where(happened, steps < event, steps <= last_negative)

    finite = np.isfinite(scores.values)
    lost = (positive | negative) & ~finite
    if lost.any() and design.nan != "ignore":
        run, column = (int(i) for i in np.argwhere(lost)[0])
        raise InputError(
            f"run {scores.runs[run]!r}, step {steps[run, column]}: score {scores.name!r} is "
            f"{scores.values[run, column]} in a labelled window; mend the score, raise x_burn_in, "
            "or drop such windows (x_nan: ignore)"
        )
    return Windows(positive & finite, negative & finite, monitored & finite, int(lost.sum()))


# The scores of the negative windows, sorted once: what thresholds and their rates are read from.


@dataclass(frozen=True, eq=False)
class NegativeScores:
    """The N negative windows of R runs.

    Attributes:
        values: float64 [N], descending.
        run: int64 [N], the row of the run that each belongs to.
        counts: int64 [R], how many each run has.
    """

    values: NDArray[np.float64]
    run: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, scores: Scores, windows: Windows) -> NegativeScores:
        """Collect and sort the negative windows."""
        run, column = np.nonzero(windows.negative)
        values = scores.values[run, column]
        order = np.argsort(-values, kind="stable")
        counts = windows.negative.sum(axis=1, dtype=np.int64)
        return cls(values[order], run[order], counts)

    @property
    def n_windows(self) -> int:
        """N, the number of negative windows."""
        return len(self.values)

    @property
    def n_runs(self) -> int:
        """How many runs have negative windows."""
        return int((self.counts > 0).sum())

    def select(self, rows: NDArray[Any]) -> NegativeScores:
        """The negatives of the runs at these row numbers, renumbered in this order."""
        place = np.full(len(self.counts), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        run = place[self.run]
        kept = run >= 0
        return NegativeScores(self.values[kept], run[kept], self.counts[rows])

    @cached_property
    def group_ends(self) -> NDArray[np.int64]:
        """Index of the last window of each group of tied scores, int64 [G], highest group first."""
        if not self.n_windows:
            return np.zeros(0, dtype=np.int64)
        return np.append(np.flatnonzero(np.diff(self.values)), self.n_windows - 1)

    @cached_property
    def distinct(self) -> NDArray[np.float64]:
        """The distinct scores, descending, float64 [G]: every finite threshold that matters."""
        return self.values[self.group_ends]

    @cached_property
    def windows_at_or_above(self) -> NDArray[np.int64]:
        """Alarmed windows at each distinct threshold, int64 [G]."""
        return self.group_ends + 1

    @cached_property
    def rate_sums(self) -> NDArray[np.float64]:
        """Sum over runs of each run's alarm rate, at each distinct threshold, float64 [G]."""
        return np.asarray(np.cumsum(1.0 / self.counts[self.run])[self.group_ends])

    def rates(self, *, per_run: bool) -> NDArray[np.float64]:
        """False positive rate at each distinct threshold, ascending, float64 [G].

        Args:
            per_run: the mean over runs of each run's rate, else the pooled rate over windows.
        """
        if per_run:
            # A sum of many 1/n may pass the whole by a rounding error.
            return np.minimum(self.rate_sums / max(self.n_runs, 1), 1.0)
        return self.windows_at_or_above / max(self.n_windows, 1)
