"""The first alarm: what an operator who acts on it gets, counted by runs.

The specification counts false alarms by window. Whoever wires a score to an alarm lives in runs and
acts once, so the budget here is a share of runs. From the burn-in on, the first checkpoint before
t* with s >= tau is a run's first alarm:

- false alarm: at or before t* - safe_gap; without an event, wherever a window is negative;
- early: inside the gap, before the horizon; timely: in [t* - H, t*); both are detected;
- miss: there is none. A run without an event and without a false alarm is a correct rejection.

The table of one score, from arrays [R, T] of explore runs and of held-out runs:

    windows = label_windows(explore_steps, explore_events, horizon=200, safe_gap=400)
    tau = run_threshold(run_maxima(explore_scores, windows.negative), 0.05)
    windows = label_windows(steps, events, horizon=200, safe_gap=400)
    found = first_alarms(scores, steps, events, tau, windows, horizon=200, safe_gap=400)
    found.detection_rate, found.timely_rate, found.false_alarm_rate, found.lead_quantiles()
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gmb_hf.core.nulls import Alarms, Stretches, Unit, count_tails

OUTCOMES = ("false_alarm", "timely", "early", "miss", "correct_rejection")
"""What may become of a run."""


@dataclass(frozen=True, eq=False, repr=False)
class FirstAlarms(Alarms):
    """The first alarms of R runs at one threshold each.

    >>> import numpy as np
    >>> from gmb_hf.core.windows import label_windows
    >>> steps, events = np.arange(0, 60, 10), np.array([50.0, np.nan])
    >>> windows = label_windows(steps, events, horizon=20, safe_gap=30)
    >>> scores = [[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]]
    >>> found = first_alarms(scores, steps, events, 1, windows, horizon=20, safe_gap=30)
    >>> found
    FirstAlarms(2 runs, 1 of 1 events detected)
    >>> found.outcomes, found.detection_rate, found.false_alarm_rate
    (['timely', 'correct_rejection'], 1.0, 0.0)
    """

    unit: ClassVar[Unit] = "runs"

    @cached_property
    def step(self) -> NDArray[np.float64]:
        """The first alarm among a run's monitored checkpoints, float64 [R]; NaN: none."""
        return self.grid.first_monitored[self.rows]

    @cached_property
    def false(self) -> NDArray[np.bool_]:
        """Whether each run has a false alarm, bool [R]."""
        return np.asarray(self.grid.n_false[self.rows] > 0)

    @cached_property
    def lead(self) -> NDArray[np.float64]:
        """Steps from the first alarm to t*, float64 [R]; NaN without an event or an alarm."""
        return np.asarray(self.event_step - self.step)

    @cached_property
    def detected(self) -> NDArray[np.bool_]:
        """Whether the first alarm comes before t* and is not false, bool [R]."""
        return np.asarray(self.lead < self.grid.safe_gap)

    @cached_property
    def timely(self) -> NDArray[np.bool_]:
        """Whether it comes within the horizon, bool [R]."""
        return np.asarray(self.lead <= self.grid.horizon)

    @property
    def stretches(self) -> Stretches:
        """Which events the first alarm of each run would detect."""
        return self.grid.first_stretches.select(self.rows)

    @property
    def n_false(self) -> int:
        """How many runs have a false alarm."""
        return int(self.false.sum())

    @property
    def n_timely(self) -> int:
        """How many events are detected within the horizon."""
        return int(self.timely.sum())

    @property
    def timely_rate(self) -> float | None:
        """The share of events that are detected within the horizon; None without events."""
        return self.n_timely / self.n_events if self.n_events else None

    @property
    def false_alarm_rate(self) -> float | None:
        """The share of runs with a false alarm; None where none has a negative window."""
        return self.n_false / self.n_runs if self.n_runs else None

    @property
    def leads(self) -> NDArray[np.float64]:
        """Lead times in steps, of the events that are detected."""
        return self.lead[self.detected]

    def lead_quantiles(
        self, quantiles: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)
    ) -> list[float | None]:
        """Quantiles of the lead times, in steps; None where no event is detected."""
        if not self.n_detected:
            return [None] * len(quantiles)
        return [float(lead) for lead in np.quantile(self.leads, quantiles)]

    @property
    def outcomes(self) -> list[str]:
        """What became of each run, one of `OUTCOMES`."""
        found = np.where(self.has_event, "miss", "correct_rejection").astype(object)
        for name, rows in (
            ("early", self.detected),
            ("timely", self.timely),
            ("false_alarm", self.false),
        ):
            found[rows] = name
        return list(found)

    @cached_property
    def p_values(self) -> dict[str, float]:
        """How probably each chance baseline detects as many events, exactly; empty without any."""
        tails = count_tails(list(self.chances.values()), [self.n_detected] * len(self.chances))
        return dict(zip(self.chances, tails.tolist(), strict=True))

    @property
    def p_value(self) -> float | None:
        """The largest of them: a score must beat every baseline; None without events."""
        return max(self.p_values.values(), default=None)

    @property
    def chance(self) -> float | None:
        """The detection rate of the hardest baseline; None without events."""
        return max((float(each.mean()) for each in self.chances.values()), default=None)


first_alarms = FirstAlarms.of
"""The first alarm of every run, from arrays; see `Alarms.of`."""
