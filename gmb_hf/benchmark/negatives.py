"""The scores of the negative windows, sorted once: what thresholds and their rates are read from.

An alarm is s >= tau. Lowering tau through the distinct scores, from the highest down, adds one
group of tied windows at a time; each group is a threshold that exists, and no other rates do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.windows import Windows


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
