"""One indicator of a live run: its score, whether it may be trusted, and what it has spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gmb_hf.monitor.health import Drift
from gmb_hf.monitor.reading import RulerReading
from gmb_hf.monitor.streaming import IndicatorStream


@dataclass(frozen=True)
class Terms:
    """What the lock and the results say of an indicator.

    Attributes:
        label: the verdict.
        acts: whether it may raise the alarm.
        threshold, target: locked, and the false positive rate that it is for.
        burn_in: first step at which it counts.
        drift_bound: what its drift may reach; infinite where nothing can be promised.
    """

    label: str
    acts: bool
    threshold: float
    target: float
    burn_in: int
    drift_bound: float


class Ruler:
    """An indicator that is read at every checkpoint, and says when it must not be.

    A ruler that has met a value it cannot use is broken until no trace of it is left in its
    windows. One that remembers the whole run (a largest value so far) stays broken, and so does one
    whose scores drift.

    Args:
        stream: the indicator.
        terms: of the lock and the results.
        drift: its health statistic; None where the lock has none.

    Attributes:
        broken, since: why it cannot be read, and from which step on; None while it is whole.
        drifted: whether that is for good, because of its scores.
        alarms, watched: checkpoints since burn-in that were over, and that could have been.
    """

    def __init__(self, stream: IndicatorStream, terms: Terms, drift: Drift | None) -> None:
        self.name = stream.indicator.name
        self.needs = stream.indicator.needs
        self.stream = stream
        self.terms = terms
        self.drift = drift
        self.broken: str | None = None
        self.since: int | None = None
        self.drifted = False
        self.alarms = 0
        self.watched = 0

    def update(
        self, step: int, columns: Mapping[str, float], faults: Mapping[str, str], fault: str | None
    ) -> RulerReading:
        """Read the next checkpoint.

        Args:
            step: of the checkpoint.
            columns: a number for each column that is given, "step" among them.
            faults: column -> why its value is of no use.
            fault: why the checkpoint is of no use to any ruler; None if it is.
        """
        fault = fault or next((faults[name] for name in self.needs if name in faults), None)
        usable = fault is None
        score = self.stream.update(
            {name: columns[name] if usable else math.nan for name in self.needs}
        )
        self._settle(step, fault, score)
        over = False
        if self.broken is None and step >= self.terms.burn_in:
            over = score >= self.terms.threshold
            self.watched += 1
            self.alarms += over
        return RulerReading(
            name=self.name,
            label=self.terms.label,
            acts=self.terms.acts,
            score=score,
            threshold=self.terms.threshold,
            over=over,
            target=self.terms.target,
            alarms=self.alarms,
            watched=self.watched,
            broken=self.broken,
            since=self.since,
            drift=None if self.drift is None else self.drift.largest,
            drift_bound=self.terms.drift_bound,
        )

    def _settle(self, step: int, fault: str | None, score: float) -> None:
        """Break, stay broken, or be whole again."""
        if self.broken is not None and not self.drifted:
            whole = fault is None and math.isfinite(score) and self.stream.clean
            if whole and not self.stream.memory.whole_run:
                self.broken = self.since = None
        if self.broken is None and fault is None and not math.isfinite(score):
            fault = f"its score is {score}"
        if self.broken is None and fault is None and self.drift is not None:
            largest = self.drift.update(step, score)
            if largest > self.terms.drift_bound:
                self.drifted = True
                fault = (
                    f"its scores drift (CUSUM of ranks {largest:.3g}, over the bound "
                    f"{self.terms.drift_bound:.3g} of whole explore runs)"
                )
        if self.broken is None and fault is not None:
            self.broken, self.since = fault, step
