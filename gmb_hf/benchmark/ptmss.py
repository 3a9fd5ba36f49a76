"""PT-MSS: a transition is registered where force, info and constraint move together.

Per family of three signals, the primary one or the alternate estimate of the same three: each
signal's members are the checkpoints at or above its own quantile; t is the first checkpoint with a
member of every signal within the radius; the order is that of the members nearest to t. The label
says whether members are as rare as they must be and whether both families see the same.
Source: the reference project's grokking transition audit v0.1, which this reproduces exactly,
repeated steps of a restarted log included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gmb_hf.runs.panel import Panel

SIGNALS = ("force", "info", "constraint")
"""S1, S2, S3 of the reference: where members tie, this is their order."""
DENSITY = (0.001, 0.02)
"""Least and largest share of checkpoints that may be members of a signal."""

RegimeLabel = Literal[
    "INCONCLUSIVE", "NO_TRANSITION", "ESTIMATOR_UNSTABLE", "REGISTERED_TRANSITION"
]
Family = tuple[Panel, Panel, Panel]
"""Force, info and constraint of the same runs and steps."""

_NOWHERE = 2**62  # further from every step than any radius


@dataclass(frozen=True, eq=False)
class Transitions:
    """What one family sees in R runs.

    Attributes:
        step: float64 [R], t in steps, NaN where there is none.
        order: int64 [R, 3], indices into `SIGNALS`, the earliest first; without meaning where
            there is no t.
        density: float64 [R, 3], the share of checkpoints that are members of each signal.
    """

    step: NDArray[np.float64]
    order: NDArray[np.int64]
    density: NDArray[np.float64]

    @property
    def admissible(self) -> NDArray[np.bool_]:
        """Which densities lie within `DENSITY`, bool [R, 3]."""
        return np.asarray((self.density >= DENSITY[0]) & (self.density <= DENSITY[1]))


@dataclass(frozen=True, eq=False)
class Regimes:
    """PT-MSS of R runs.

    Attributes:
        runs: R run names.
        labels: R labels.
        primary, alternate: what each family sees.
    """

    runs: tuple[str, ...]
    labels: tuple[RegimeLabel, ...]
    primary: Transitions
    alternate: Transitions

    def order_of(self, row: int) -> tuple[str, ...]:
        """The signals of a run in the order in which the primary family sees them; () without t."""
        if np.isnan(self.primary.step[row]):
            return ()
        return tuple(SIGNALS[signal] for signal in self.primary.order[row])


def label_regimes(
    primary: Family,
    alternate: Family,
    *,
    quantile: float,
    radius: int,
    tolerance: int = 15,
    not_before: int = 0,
) -> Regimes:
    """Label every run.

    Args:
        primary, alternate: the two families; NaN is no value, and no member.
        quantile: q in (0, 1), above which a signal is a member.
        radius: R in steps, how far from t a member may be.
        tolerance: steps that the families may differ in t.
        not_before: the first step at which there may be a t.
    """
    first, second = (
        transitions(family, quantile=quantile, radius=radius, not_before=not_before)
        for family in (primary, alternate)
    )
    # A comparison with NaN is False: where the alternate has no t they do not agree.
    close = np.abs(first.step - second.step) <= tolerance
    facts = np.column_stack(
        [
            (first.admissible & second.admissible).all(axis=1),
            ~np.isnan(first.step),
            close & (first.order == second.order).all(axis=1),
        ]
    )
    labels = tuple(_label(rare, moved, agree) for rare, moved, agree in facts)
    return Regimes(primary[0].runs, labels, first, second)


def _label(rare: bool, moved: bool, agree: bool) -> RegimeLabel:
    """The first that applies: members too many or too few, no t, families that disagree."""
    if not rare:
        return "INCONCLUSIVE"
    if not moved:
        return "NO_TRANSITION"
    return "REGISTERED_TRANSITION" if agree else "ESTIMATOR_UNSTABLE"


def transitions(
    family: Family, *, quantile: float, radius: int, not_before: int = 0
) -> Transitions:
    """The first t of each run with a member of every signal within the radius; see `Regimes`."""
    steps, present = family[0].steps, family[0].present
    members = [_members(signal, quantile) for signal in family]
    nearest = np.stack([_nearest(member, steps) for member in members])  # [3, R, T]
    reach = min(radius, _NOWHERE // 2)
    together = (np.abs(nearest - steps) <= reach).all(axis=0) & present & (steps >= not_before)
    rows, at = np.arange(len(steps)), together.argmax(axis=1)
    step = np.where(together.any(axis=1), steps[rows, at], np.nan)
    order = np.argsort(nearest[:, rows, at], axis=0, kind="stable").T
    counts = np.stack([member.sum(axis=1) for member in members], axis=1)
    return Transitions(step, order, counts / family[0].lengths[:, None])


def _members(signal: Panel, quantile: float) -> NDArray[np.bool_]:
    """Which checkpoints are at or above the quantile of their run, bool [R, T]."""
    values = np.where(signal.present, signal.values, np.nan)
    count = (~np.isnan(values)).sum(axis=1)
    # Half to even, as the reference rounds; NaN is sorted behind all values.
    place = np.rint((count - 1) * quantile).astype(np.int64)
    rows = np.arange(len(values))
    threshold = np.sort(values, axis=1)[rows, np.maximum(place, 0)]
    return np.asarray(values >= threshold[:, None])


def _nearest(member: NDArray[np.bool_], steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """The step of the member nearest to each checkpoint, of two equidistant ones the later."""
    after = np.where(member, steps, _NOWHERE)
    after = np.minimum.accumulate(after[:, ::-1], axis=1)[:, ::-1]
    before = np.maximum.accumulate(np.where(member, steps, -_NOWHERE), axis=1)
    return np.where(after - steps <= steps - before, after, before)
