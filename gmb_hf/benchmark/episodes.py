"""Alarm episodes: what an operator meets, who is called once and not at every checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.record import Record
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.windows import Windows


@dataclass(frozen=True)
class Episodes(Record):
    """Episodes by the label of the window in which they begin.

    Attributes:
        true: begun in a positive window: the event follows within the horizon.
        false: begun in a negative window.
        between: begun between safe gap and horizon, which counts neither way.
    """

    true: int
    false: int
    between: int

    @property
    def labelled(self) -> int:
        """Episodes that count."""
        return self.true + self.false

    @property
    def precision(self) -> float | None:
        """Share of the labelled episodes that are true (PPV); None without any."""
        return self.true / self.labelled if self.labelled else None


def count_episodes(
    scores: Scores, windows: Windows, alarms: NDArray[np.bool_], refractory: int
) -> Episodes:
    """Count the episodes between burn-in and t*.

    An episode begins at an alarm that comes at least `refractory` steps after the beginning of
    the episode before; alarms in between belong to that one.
    """
    begins = episode_starts(scores.steps, alarms & windows.monitored, refractory)
    true, false = int((begins & windows.positive).sum()), int((begins & windows.negative).sum())
    return Episodes(true, false, int(begins.sum()) - true - false)


def episode_starts(
    steps: NDArray[np.int64], alarms: NDArray[np.bool_], refractory: int
) -> NDArray[np.bool_]:
    """Which alarms begin an episode, bool [R, T]; all runs advance together."""
    begins = np.zeros_like(alarms)
    free_from = np.full(len(steps), np.iinfo(np.int64).min)
    for column in np.flatnonzero(alarms.any(axis=0)):
        now = steps[:, column]
        begins[:, column] = alarms[:, column] & (now >= free_from)
        free_from = np.where(begins[:, column], now + refractory, free_from)
    return begins
