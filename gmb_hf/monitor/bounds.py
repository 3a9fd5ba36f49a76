"""What the drift of live scores may reach, and what is promised of false abstentions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gmb_hf.monitor.health import Drift, conformal_bound, largest_drifts
from gmb_hf.preregistration.plan import runs_needed
from gmb_hf.preregistration.record import LockedHealth


class LockedBounds:
    """The bounds of one lock.

    The scores that act share one bound, that of the largest drift over all of them: the monitor
    abstains where any of them is over it, and does so for nothing in at most alpha of runs.

    Args:
        health: of the lock.
        acting: the scores that raise the alarm.

    Attributes:
        promised: whether that holds of the scores that act.
        sentence: what is promised, or why nothing is.
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
        return (
            f"It abstains for nothing in at most {health.alpha:g} of runs, by "
            f"{health.n_calibration_runs} whole explore runs."
        )
    if not acting:
        why = "there is no score to act on"
    elif health is None:
        why = "the lock holds no ranks of explore runs; lock again"
    elif health.n_calibration_runs < runs_needed(health.alpha):
        why = (
            f"{health.alpha:g} takes {runs_needed(health.alpha)} explore runs beside the "
            f"reference, there are {health.n_calibration_runs}"
        )
    else:
        lacking = ", ".join(name for name in acting if name not in health.candidates)
        why = (
            f"the lock holds no ranks for {lacking}: too few explore runs are left beside those of "
            "a fit, or none that others are ranked among has a finite score"
        )
    return f"Calibration health cannot be promised: {why}."
