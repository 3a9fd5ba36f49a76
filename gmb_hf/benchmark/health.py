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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.core.thresholds import runs_needed
from gmb_hf.design.design import Design
from gmb_hf.design.lock import LockedDrift, LockedHealth, LockedSide
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
    """What ranks are taken against, in each of P parts.

    `begins` is the first step of each, int64 [P]; `knots` are quantiles of the reference scores,
    ascending, float64 [P, K].
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
    """The CUSUM of ranks [R, T] on both sides, up and down, at each checkpoint, int64 [R, T, 2].

    `carried` holds both sums at the checkpoint before, int64 [R, 2]; without, a run begins at 0.
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

    `sums` is the CUSUM now, up and down, int64 [1, 2]; `largest` the largest that it has been, in
    units of the sides' scales.
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


# What a lock keeps of its explore runs, so that a monitor can tell a live run from them.


def lock_health(
    design: Design,
    scores: Mapping[str, Panel],
    *,
    fitted_on: Mapping[str, Sequence[str]] | None = None,
) -> LockedHealth | None:
    """The reference and the maxima of whole explore runs.

    Half of the runs are the reference, fewer where the other half could not promise alpha. Runs
    that a score was fitted on belong to the reference: their scores are better than those of later
    runs, and no bound may come from them. A score whose fit would leave too few others to promise
    alpha is left out instead.

    Args:
        design: its burn-in, and the share of runs in which a monitor may abstain for nothing.
        scores: candidate -> its score on the explore runs, the same runs for all.
        fitted_on: candidate -> the runs that its score was fitted on, where it was fitted.

    Returns:
        None where there are not two runs, or no checkpoint after burn-in.
    """
    some = next(iter(scores.values()))
    n_runs, alpha = some.n_runs, design.abstention_rate
    seen: set[str] = set()
    for fitted, runs in (fitted_on or {}).items():
        if n_runs - len(seen.union(runs)) < runs_needed(alpha):
            scores = {name: panel for name, panel in scores.items() if name != fitted}
        else:
            seen.update(runs)
    last = int(some.last_step.max())
    first = max(design.burn_in, int(some.first_step.min()))
    if n_runs < 2 or last < first:
        return None
    spare = n_runs - runs_needed(alpha)
    n_reference = max(len(seen), min(n_runs // 2, spare) if spare > 0 else n_runs // 2)
    order = sorted(range(n_runs), key=lambda row: some.runs[row] not in seen)
    scores = {name: panel.select(order) for name, panel in scores.items()}
    n_steps = len(np.unique(some.steps[some.present & (some.steps >= first)]))
    begins = np.linspace(first, last + 1, min(PARTS, n_steps), endpoint=False).astype(np.int64)
    drifts = {
        name: _lock_drift(panel, n_reference, begins, alpha) for name, panel in scores.items()
    }
    return LockedHealth(
        alpha=alpha,
        first_step=int(some.first_step.max()),
        last_step=last,
        n_reference_runs=n_reference,
        n_calibration_runs=n_runs - n_reference,
        begins=tuple(begins.tolist()),
        candidates={name: drift for name, drift in drifts.items() if drift is not None},
    )


def _lock_drift(
    panel: Panel, n_reference: int, begins: NDArray[np.int64], alpha: float
) -> LockedDrift | None:
    """The drift of one score; None where no reference run has one to rank among."""
    reference_runs = panel.select(np.arange(n_reference))
    calibration = panel.select(np.arange(n_reference, panel.n_runs))
    usable = counted(reference_runs, begins)
    if not usable.any():
        return None
    reference = Reference.of(reference_runs, begins)
    scales = np.median(_sums(reference, reference_runs).max(axis=1), axis=0)
    maxima = _sums(reference, calibration).max(axis=1)
    sides = {
        side: LockedSide(scale=max(int(scale), 1), maxima=tuple(most))
        for side, scale, most in zip(("up", "down"), scales, maxima.T.tolist(), strict=True)
    }
    drift = LockedDrift(knots=tuple(map(tuple, reference.knots.tolist())), **sides)
    bound = conformal_bound(largest_drifts([drift]), alpha)
    part = np.searchsorted(begins, reference_runs.steps, side="right")
    scores = reference_runs.values
    # About the mean of each part of the training.
    within = [scores[usable & (part == number)] for number in np.unique(part[usable])]
    sd = math.sqrt(sum(x.size * x.var() for x in within) / usable.sum())
    for name, shift in (("up", sd), ("down", -sd)):
        delay = _delay(reference, calibration, shift, bound, drift)
        sides[name] = sides[name].model_copy(update={"delay_steps": delay})
    return drift.model_copy(update=sides)


def _sums(reference: Reference, panel: Panel) -> NDArray[np.int64]:
    """Both CUSUMs, int64 [R, T, 2]; what is absent moves neither."""
    return cusum(np.where(panel.present, reference.ranks(panel.values, panel.steps), 0))


def _delay(
    reference: Reference, panel: Panel, shift: float, bound: float, drift: LockedDrift
) -> int | None:
    """Median steps until a shift from mid-run on passes the bound; None where half never do."""
    middle = (int(reference.begins[0]) + panel.last_step[:, None]) / 2
    late = panel.steps >= middle
    sums = _sums(reference, panel.with_values(panel.values + shift * late))
    scaled = (sums / [drift.up.scale, drift.down.scale]).max(axis=2)
    found = (scaled > bound) & panel.present & late
    at = panel.steps[np.arange(panel.n_runs), found.argmax(axis=1)]
    delays = np.where(found.any(axis=1), at - middle[:, 0], math.inf)
    median = float(np.quantile(delays, 0.5, method="higher"))
    return math.ceil(median) if math.isfinite(median) else None


# What the drift of live scores may reach, and what is promised of false abstentions.


class LockedBounds:
    """The bounds of one lock.

    The scores that act, and raise the alarm, share one bound, that of the largest drift over all of
    them: the monitor abstains where any of them is over it, and does so for nothing in at most
    alpha of runs. `promised` tells whether that holds, and `sentence` says it, or why it does not.
    """

    def __init__(self, health: LockedHealth | None, acting: Sequence[str]) -> None:
        self._drifts = {} if health is None else health.candidates
        self._begins = () if health is None else health.begins
        self._alpha = 1.0 if health is None else health.alpha
        self._acting = tuple(acting)
        self._joint = self._bound(self._acting)
        self.promised = math.isfinite(self._joint)
        self.sentence = _sentence(health, self._acting, promised=self.promised)

    def of(self, name: str) -> float:
        """The bound of one score; infinite where nothing can be promised."""
        return self._joint if name in self._acting else self._bound([name])

    def drift(self, name: str) -> Drift | None:
        """A new health statistic of one score; None where the lock has no ranks for it."""
        return Drift(self._drifts[name], self._begins) if name in self._drifts else None

    def _bound(self, names: Sequence[str]) -> float:
        if not names or not all(name in self._drifts for name in names):
            return math.inf
        return conformal_bound(largest_drifts(self._drifts[name] for name in names), self._alpha)


def _sentence(health: LockedHealth | None, acting: Sequence[str], *, promised: bool) -> str:
    if promised and health is not None:
        by = f"by {health.n_calibration_runs} whole explore runs"
        return f"It abstains for nothing in at most {health.alpha:g} of runs, {by}."
    if not acting:
        why = "there is no score to act on"
    elif health is None:
        why = "the lock holds no ranks of explore runs; lock again"
    elif health.n_calibration_runs < runs_needed(health.alpha):
        why = (
            f"{health.alpha:g} takes {runs_needed(health.alpha)} explore runs beside the reference"
        )
        why += f", there are {health.n_calibration_runs}"
    else:
        lacking = ", ".join(name for name in acting if name not in health.candidates)
        why = (
            f"the lock holds no ranks for {lacking}: too few explore runs are left beside those of "
            "a fit, or none that others are ranked among has a finite score"
        )
    return f"Calibration health cannot be promised: {why}."
