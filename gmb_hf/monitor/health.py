"""Calibration health: whether a live score still moves as the explore runs' scores did.

A score is turned into its rank among the scores that the reference runs had in the same part of the
training; the ranks are summed up by a two-sided CUSUM (Page 1954, "Continuous inspection schemes",
Biometrika 41); and the largest value that the CUSUM reaches in a run is compared with those that it
reached in the calibration runs, other explore runs (`lock_health` finds them). These are whole
runs, positive windows included: windows of one run depend on each other, and the precursor of a
true event is itself a shift, so that a bound from independent negative windows would abstain just
when the alarm is due.

A run that is exchangeable with the calibration runs exceeds the conformal bound with a probability
of at most alpha, however its scores depend on each other (Vovk, Gammerman and Shafer 2005,
"Algorithmic learning in a random world"). Sums of ranks are whole numbers: nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.preregistration.record import LockedDrift
from gmb_hf.runs.panel import Panel

PARTS = 8
"""Parts of the training, of equal length, with a reference of their own."""
KNOTS = 16
"""Quantiles that stand for the reference scores of a part; ranks go from -KNOTS to KNOTS."""
SLACK = KNOTS // 4
"""What a rank must exceed to count: half of what a shift of one sd of a normal score adds."""

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Reference:
    """What ranks are taken against.

    Attributes:
        begins: int64 [P], the first step of each part.
        knots: float64 [P, K], quantiles of the reference scores, ascending.
    """

    begins: NDArray[np.int64]
    knots: NDArray[np.float64]

    @classmethod
    def of(cls, panel: Panel, begins: NDArray[np.int64]) -> Reference:
        """The reference that the runs of a panel make; some of its scores must count."""
        usable = counted(panel, begins)
        part = np.searchsorted(begins, panel.steps[usable], side="right") - 1
        levels = (np.arange(KNOTS) + 0.5) / KNOTS
        knots, scores = np.full((len(begins), KNOTS), np.nan), panel.values[usable]
        held = np.unique(part)
        for number in range(len(begins)):
            # A part without a score takes the quantiles of the nearest one that has some.
            nearest = held[np.abs(held - number).argmin()]
            knots[number] = np.quantile(scores[part == nearest], levels, method="inverted_cdf")
        return cls(begins, knots)

    def ranks(self, values: NDArray[np.float64], steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Knots below a score less knots above it, int64 [R, T]; 0 where nothing counts."""
        part = np.searchsorted(self.begins, steps, side="right") - 1
        knots = self.knots[np.maximum(part, 0)]
        now = values[..., None]
        ranks = (knots < now).sum(axis=-1) - (knots > now).sum(axis=-1)
        return np.where(np.isfinite(values) & (part >= 0), ranks, 0)


def counted(panel: Panel, begins: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which scores are ranked, bool [R, T]: finite, and not before the first part."""
    return np.asarray(np.isfinite(panel.values) & (panel.steps >= begins[0]))


def cusum(ranks: NDArray[np.int64], carried: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The CUSUM of ranks [R, T] on both sides, up and down.

    Args:
        ranks: of R runs.
        carried: int64 [R, 2], both sums at the checkpoint before; 0 at the beginning of a run.

    Returns:
        Both sums at each checkpoint, int64 [R, T, 2].
    """
    sums = np.zeros((len(ranks), 2), dtype=np.int64) if carried is None else carried
    both = np.empty((*ranks.shape, 2), dtype=np.int64)
    for column in range(ranks.shape[1]):
        moved = np.stack([ranks[:, column], -ranks[:, column]], axis=1)
        both[:, column] = sums = np.maximum(sums + moved - SLACK, 0)
    return both


def conformal_bound(maxima: NDArray[Any], alpha: float) -> float:
    """What the maximum of one more run exceeds with a probability of at most alpha.

    The ceil((1 - alpha)(n + 1))-th smallest of n maxima; infinite where n < 1/alpha - 1.
    """
    place = math.ceil((1 - alpha) * (len(maxima) + 1) - _ROUNDING)
    return float(np.sort(maxima)[place - 1]) if place <= len(maxima) else math.inf


def largest_drifts(locked: Iterable[LockedDrift]) -> NDArray[np.float64]:
    """The largest drift of each calibration run over both sides of some scores, float64 [R].

    In units of each side's scale, so that a score or a side in which all runs move far does not
    set the bound for one in which none does.
    """
    sides = [side for drift in locked for side in (drift.up, drift.down)]
    return np.asarray(np.max([np.array(side.maxima) / side.scale for side in sides], axis=0))


class Drift:
    """The health statistic of one live score.

    Attributes:
        sums: int64 [1, 2], the CUSUM now, up and down.
        largest: the largest that it has been, in units of the sides' scales.
    """

    def __init__(self, locked: LockedDrift, begins: Sequence[int]) -> None:
        knots = np.array(locked.knots, dtype=np.float64)
        self._reference = Reference(np.array(begins, dtype=np.int64), knots)
        self._scales = np.array([locked.up.scale, locked.down.scale])
        self.sums = np.zeros((1, 2), dtype=np.int64)
        self.largest = 0.0

    def update(self, step: int, score: float) -> float:
        """The largest drift with one checkpoint more."""
        ranks = self._reference.ranks(np.array([[score]]), np.array([[step]]))
        self.sums = cusum(ranks, self.sums)[:, -1]
        self.largest = max(self.largest, float((self.sums[0] / self._scales).max()))
        return self.largest
