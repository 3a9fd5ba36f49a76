"""One indicator of a live run: its score, whether it may be trusted, and what it has spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

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
    """

    label: str
    acts: bool
    threshold: float
    target: float
    burn_in: int


class Ruler:
    """An indicator that is read at every checkpoint, and says when it must not be.

    A ruler that has met a value it cannot use is broken until no trace of it is left in its
    windows; one that remembers the whole run (a largest value so far) stays broken.

    Args:
        stream: the indicator.
        terms: of the lock and the results.
    """

    def __init__(self, stream: IndicatorStream, terms: Terms) -> None:
        self.name = stream.indicator.name
        self.needs = stream.indicator.needs
        self.stream = stream
        self.terms = terms
        self.broken: str | None = None
        self.since: int | None = None
        self.alarms = 0
        self.watched = 0

    def update(self, step: int, columns: Mapping[str, float], fault: str | None) -> RulerReading:
        """Read the next checkpoint.

        Args:
            step: of the checkpoint.
            columns: those that were given, and "step".
            fault: why the checkpoint is of no use to any ruler; None if it is.
        """
        fault = fault or self._unusable(columns)
        values = dict.fromkeys(self.needs, math.nan)
        if fault is None:
            values = {name: float(columns[name]) for name in self.needs}
        score = self.stream.update(values)
        if fault is None and not math.isfinite(score) and self.broken is None:
            fault = f"its score is {score}"
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
            score=score if self.broken is None else math.nan,
            threshold=self.terms.threshold,
            over=over,
            target=self.terms.target,
            alarms=self.alarms,
            watched=self.watched,
            broken=self.broken,
            since=self.since,
        )

    def _unusable(self, columns: Mapping[str, float]) -> str | None:
        for name in self.needs:
            if name not in columns:
                return f"column {name!r} is missing"
            if not math.isfinite(columns[name]):
                return f"column {name!r} is {columns[name]}"
        return None

    def _settle(self, step: int, fault: str | None, score: float) -> None:
        """Break, stay broken, or be whole again."""
        if self.broken is None:
            if fault is not None:
                self.broken, self.since = fault, step
            return
        mended = fault is None and math.isfinite(score) and self.stream.clean
        if mended and not self.stream.memory.whole_run:
            self.broken = self.since = None
