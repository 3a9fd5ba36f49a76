"""What could be seen when an alarm rang: the metric of the event at the first alarm.

An alarm is worth most where nothing can be seen yet. A score that reaches its threshold when the
held-out accuracy is half-way to the event tells little that the accuracy does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.events import EVENTS
from gmb_hf.benchmark.first_alarm import SeenBy, VisibleRecord
from gmb_hf.benchmark.prepare import Prepared, chance_of
from gmb_hf.core.first_alarm import FirstAlarms
from gmb_hf.design.design import Design
from gmb_hf.runs.panel import Panel

TIMES_CHANCE = 2.0
"""Up to so many times chance, an accuracy shows nothing."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What can be seen in the judged runs.

    Attributes:
        metric: of the event, [R, T].
        line: as `VisibleRecord` has it. basis: on what it rests.
        falling: whether the event is a drop.
    """

    metric: Panel
    line: float
    basis: SeenBy
    falling: bool

    @classmethod
    def of(cls, prepared: Prepared) -> Self | None:
        """What the metric of the runs shows; None where the event is not a level of it."""
        design, log = prepared.design, prepared.judged
        if not EVENTS[design.event_type].reads_metric or design.metric not in log.observables:
            return None
        metric = log.panel(design.metric)
        chance = None if design.falling else chance_of(design, log)
        if chance is not None:
            return cls(metric, TIMES_CHANCE * chance, "chance", falling=False)
        far = metric.values[prepared.windows.negative]
        far = far[np.isfinite(far)]
        before = float(np.median(far)) if len(far) else None
        level = None if before is None else _level(design, before)
        if before is None or level is None:
            return None
        return cls(metric, (before + level) / 2, "midpoint", falling=design.falling)

    def at(self, alarms: FirstAlarms) -> VisibleRecord:
        """What could be seen at these first alarms, which are of the same runs."""
        values = self._at_alarm(alarms.step)[alarms.detected]
        known = values[np.isfinite(values)]
        low, middle, high = (
            np.quantile(known, (0.05, 0.5, 0.95)).tolist() if len(known) else (None, None, None)
        )
        shows_nothing = known >= self.line if self.falling else known <= self.line
        unseen = int(shows_nothing.sum())
        return VisibleRecord(
            metric=self.metric.name,
            at_alarm_q05=low,
            at_alarm_median=middle,
            at_alarm_q95=high,
            line=self.line,
            basis=self.basis,
            n_unseen=unseen,
            unseen=unseen / alarms.n_events if alarms.n_events else None,
        )

    def _at_alarm(self, step: NDArray[np.float64]) -> NDArray[np.float64]:
        """The metric of each run at a step, float64 [R]; NaN where it has no such checkpoint."""
        here = self.metric.present & (self.metric.steps == step[:, None])
        rows = np.arange(len(step))
        found: NDArray[np.float64] = self.metric.values[rows, here.argmax(axis=1)]
        return np.where(here.any(axis=1), found, np.nan)


def _level(design: Design, before: float) -> float | None:
    """The value of the metric that makes an event; None where an event is no level of it."""
    if design.event_type == "E_jump":
        return before + (-1 if design.falling else 1) * design.jump_threshold
    return design.plateau_threshold if design.event_type == "E_plateau" else None
