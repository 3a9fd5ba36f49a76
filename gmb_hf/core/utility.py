"""Alarms counted by windows: coverage, lead time and episodes (layer C, spec 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gmb_hf.core.nulls import Alarms, Stretches, Unit


@dataclass(frozen=True, eq=False, repr=False)
class WindowAlarms(Alarms):
    """The alarms of R runs at one threshold each, every window of them.

    >>> from gmb_hf.core.windows import label_windows
    >>> steps, events = np.arange(0, 60, 10), np.array([50.0])
    >>> windows = label_windows(steps, events, horizon=20, safe_gap=30)
    >>> scores = [[1, 0, 0, 0, 1, 1]]
    >>> found = window_alarms(scores, steps, events, 1, windows, horizon=20, safe_gap=30)
    >>> found.detection_rate, found.lead.tolist(), found.pooled_rate
    (1.0, [10.0], 0.3333333333333333)
    """

    unit: ClassVar[Unit] = "windows"

    @cached_property
    def detected(self) -> NDArray[np.bool_]:
        """Whether each event has an alarm in a positive window, bool [R]: it is covered."""
        return ~np.isnan(self.grid.first_in_horizon[self.rows])

    @cached_property
    def lead(self) -> NDArray[np.float64]:
        """Steps from the first alarm in the horizon to t*, float64 [R]; NaN: not covered."""
        return np.asarray(self.event_step - self.grid.first_in_horizon[self.rows])

    @property
    def censored(self) -> NDArray[np.bool_]:
        """Whether that alarm already stands in the first positive window, bool [R]."""
        grid = self.grid
        begins = np.where(
            grid.windows.positive.any(axis=1), grid.windows.positive.argmax(axis=1), 0
        )
        start = grid.steps[np.arange(len(begins)), begins][self.rows]
        return np.asarray(grid.first_in_horizon[self.rows] == start)

    @property
    def stretches(self) -> Stretches:
        """Which events the alarms of each run would cover."""
        return self.grid.stretches.select(self.rows)

    @cached_property
    def n_false(self) -> NDArray[np.int64]:
        """Alarmed negative windows of each run, int64 [R]."""
        return self.grid.n_false[self.rows]

    @cached_property
    def false_alarm_rates(self) -> NDArray[np.float64]:
        """Their share of each run's negative windows, float64 [R]; 0 where it has none."""
        counts = self.n_negative
        return np.divide(self.n_false, counts, out=np.zeros(len(counts)), where=counts > 0)

    @property
    def pooled_rate(self) -> float | None:
        """The share of all negative windows that alarm; None where there is none."""
        total = int(self.n_negative.sum())
        return int(self.n_false.sum()) / total if total else None

    @property
    def run_mean_rate(self) -> float | None:
        """The mean over runs with negative windows of each run's rate; None where there is none."""
        return float(self.false_alarm_rates.sum()) / self.n_runs if self.n_runs else None

    def shifted_rate(self, *, per_run: bool) -> float | None:
        """The false alarm rate of the alarms rotated in time: each run's share of alarmed rows."""
        alarm, rows = self.grid.alarm[self.rows], self.grid.windows.monitored[self.rows]
        share = (alarm & rows).sum(axis=1) / np.maximum(rows.sum(axis=1), 1)
        counts = self.n_negative
        weights = (counts > 0).astype(np.float64) if per_run else counts
        return float((share * weights).sum() / weights.sum()) if counts.any() else None


window_alarms = WindowAlarms.of
"""The alarms of every run by windows, from arrays; see `Alarms.of`."""


def episode_starts(
    steps: NDArray[np.int64], alarms: NDArray[np.bool_], refractory: int
) -> NDArray[np.bool_]:
    """Which alarms begin an episode, bool [R, T]; all runs advance together.

    An episode begins at an alarm that comes at least `refractory` steps after the beginning of the
    episode before; alarms in between belong to that one.

    >>> steps = np.array([[0, 10, 20, 30]])
    >>> episode_starts(steps, np.ones((1, 4), dtype=bool), 20).tolist()
    [[True, False, True, False]]
    """
    begins = np.zeros_like(alarms)
    free_from = np.full(len(steps), np.iinfo(np.int64).min)
    for column in np.flatnonzero(alarms.any(axis=0)):
        now = steps[:, column]
        begins[:, column] = alarms[:, column] & (now >= free_from)
        free_from = np.where(begins[:, column], now + refractory, free_from)
    return begins
