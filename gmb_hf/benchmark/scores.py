"""One score of many runs, with the event that each run had or had not."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from gmb_hf.runs.panel import Panel
from gmb_hf.validation import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """A score s(t), higher meaning higher risk, of R runs at T checkpoints.

    Attributes:
        name: the score, as it is called in messages.
        runs: R run names.
        values: float64 [R, T]; NaN inside a run is a score that was logged as NaN.
        steps: int64 [R, T], strictly increasing within a run.
        present: bool [R, T], True on the checkpoints that the run has, a prefix of its row.
        event_step: float64 [R], the step t* of the event, NaN where the run had none.
        last_step: int64 [R], the last step that was logged, with or without a score.
    """

    name: str
    runs: tuple[str, ...]
    values: NDArray[np.float64]
    steps: NDArray[np.int64]
    present: NDArray[np.bool_]
    event_step: NDArray[np.float64]
    last_step: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.event_step.shape != (self.n_runs,) or self.last_step.shape != (self.n_runs,):
            raise InputError(
                f"score {self.name!r}: {self.n_runs} runs need {self.n_runs} event steps and last "
                f"steps, got {self.event_step.shape} and {self.last_step.shape}"
            )

    @classmethod
    def from_panel(cls, panel: Panel, event_step: ArrayLike) -> Scores:
        """The scores of a panel whose run i has its event at `event_step[i]` (NaN: none)."""
        return cls(
            panel.name,
            panel.runs,
            panel.values,
            panel.steps,
            panel.present,
            np.asarray(event_step, dtype=np.float64),
            panel.last_step,
        )

    @property
    def n_runs(self) -> int:
        """R, the number of runs."""
        return len(self.runs)

    @property
    def has_event(self) -> NDArray[np.bool_]:
        """Whether each run had an event, bool [R]."""
        return ~np.isnan(self.event_step)

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Scores:
        """The scores of the runs at these row numbers, in this order."""
        rows = np.asarray(indices, dtype=np.int64)
        return Scores(
            self.name,
            tuple(self.runs[i] for i in rows),
            self.values[rows],
            self.steps[rows],
            self.present[rows],
            self.event_step[rows],
            self.last_step[rows],
        )

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
        padding = np.full((self.n_runs, checkpoints - 1), np.nan)
        padded = np.hstack([padding, np.where(finite, self.values, np.nan)])
        # Sorted, equal sets of values add up to equal sums; NaN goes last.
        windows = np.sort(sliding_window_view(padded, checkpoints, axis=1), axis=2)
        known = ~np.isnan(windows)
        count = np.maximum(known.sum(axis=2), 1)
        mean = np.where(known, windows, 0.0).sum(axis=2) / count
        highest = np.take_along_axis(windows, count[:, :, None] - 1, axis=2)[:, :, 0]
        # The mean of equal numbers is that number, which the division need not return.
        mean = np.clip(mean, windows[:, :, 0], highest)
        return dataclasses.replace(self, values=np.where(finite, mean, self.values))
