"""What a monitor answers at a checkpoint."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["CLEAR", "ALARM", "ABSTAIN"]


@dataclass(frozen=True)
class RulerReading:
    """One indicator at one checkpoint.

    Attributes:
        name: of the indicator.
        label: its verdict on held-out runs.
        acts: whether it may raise the alarm; the others are shown.
        score, threshold: it is over at score >= threshold; the score says nothing where the ruler
            is broken, and is NaN where it could not be computed.
        over: the score has reached the threshold, after burn-in and with the ruler whole.
        target: the false positive rate that the threshold was locked for.
        alarms, watched: checkpoints since burn-in that were over, and that could have been.
        broken: why nothing is read from it; None where it is whole.
        since: the step at which it broke.
        drift: the largest CUSUM of its ranks so far, in units of the explore runs' median; None
            where the lock has no ranks for it.
        drift_bound: what it may reach; infinite where nothing can be promised.
    """

    name: str
    label: str
    acts: bool
    score: float
    threshold: float
    over: bool
    target: float
    alarms: int
    watched: int
    broken: str | None = None
    since: int | None = None
    drift: float | None = None
    drift_bound: float = math.inf

    @property
    def budget_spent(self) -> float:
        """Share of the false alarms that the budget allows, were all alarms of the run false.

        Above 1 the run has alarmed more often than a run without an event would on average.
        """
        return self.alarms / (self.target * self.watched) if self.watched else 0.0


@dataclass(frozen=True)
class Reading:
    """The answer at one checkpoint.

    Attributes:
        state: ALARM where a whole ruler that acts is over; else ABSTAIN where one that acts is
            broken, or none may act; else CLEAR.
        step: of the checkpoint.
        reason: one line.
        since: the step from which on the state has stood; of ABSTAIN, the one at which the first
            of the broken rulers broke.
        health: what is promised of false abstentions, one line.
        rulers: those that act first.
    """

    state: State
    step: int
    reason: str
    since: int
    health: str
    rulers: tuple[RulerReading, ...]

    @property
    def acting(self) -> tuple[RulerReading, ...]:
        """The rulers that may raise the alarm."""
        return tuple(ruler for ruler in self.rulers if ruler.acts)

    @property
    def scores(self) -> dict[str, float]:
        """Each indicator's score."""
        return {ruler.name: ruler.score for ruler in self.rulers}

    @property
    def thresholds(self) -> dict[str, float]:
        """Each indicator's locked threshold."""
        return {ruler.name: ruler.threshold for ruler in self.rulers}

    @property
    def budget_spent(self) -> dict[str, float]:
        """Each indicator's share of its budget of false alarms; see `RulerReading`."""
        return {ruler.name: ruler.budget_spent for ruler in self.rulers}

    def ruler(self, name: str) -> RulerReading:
        """One indicator's reading; `KeyError` if it is not watched."""
        return {ruler.name: ruler for ruler in self.rulers}[name]

    def to_dict(self) -> dict[str, Any]:
        """The reading as plain data."""
        return dataclasses.asdict(self)


def decide(
    rulers: Sequence[RulerReading], *, step: int, burn_in: int
) -> tuple[State, str, int | None]:
    """The state, the reason for it and, of broken rulers, since when."""
    acting = [ruler for ruler in rulers if ruler.acts]
    if not acting:
        return "ABSTAIN", "no indicator is SUPPORTED_FOR_ALARM by these results: none may act", None
    over = [ruler for ruler in acting if ruler.over]
    if over:
        reasons = [
            f"{ruler.name} is {ruler.score:.6g}, at or over its threshold {ruler.threshold:.6g}"
            for ruler in over
        ]
        return "ALARM", "; ".join(reasons), None
    broken = [ruler for ruler in acting if ruler.broken is not None]
    if broken:
        reasons = [
            f"{ruler.name} is broken since step {ruler.since}: {ruler.broken}" for ruler in broken
        ]
        since = min(ruler.since for ruler in broken if ruler.since is not None)
        return "ABSTAIN", "; ".join(reasons), since
    if step < burn_in:
        return "CLEAR", f"burn-in: an alarm can be raised from step {burn_in} on", None
    return "CLEAR", f"below threshold: {', '.join(ruler.name for ruler in acting)}", None
