"""The indicators of a live run, read one checkpoint at a time, and what a monitor answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.health import Drift
from gmb_hf.indicators.catalogue import Indicator, Observables, scored
from gmb_hf.indicators.causal import Memory, carrying

State = Literal["CLEAR", "ALARM", "ABSTAIN"]
Unit = Literal["run", "window"]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the lock and the results say of an indicator.

    Attributes:
        name: of the indicator.
        label: its verdict on held-out runs.
        acts: whether it may raise the alarm; the others are shown.
        threshold: what its score must reach.
        unit, budget: the share of runs, or of windows, that may have a false alarm.
        promise: what the threshold promises of false alarms, one line.
        drift_bound: what its drift may reach; infinite where nothing can be promised.
    """

    name: str
    label: str
    acts: bool
    threshold: float
    unit: Unit
    budget: float
    promise: str
    drift_bound: float = math.inf


@dataclass(frozen=True, kw_only=True)
class IndicatorReading(Terms):
    """One indicator at one checkpoint.

    Attributes:
        score: it says nothing where the indicator is broken, and is NaN where it could not be
            computed.
        over: score >= threshold, after burn-in and with the indicator whole.
        alarms, watched: checkpoints since burn-in that were over, and that could have been.
        broken: why nothing is read from it; None where it is whole.
        since: the step at which it broke.
        drift: the largest CUSUM of its ranks so far, in units of the explore runs' median; None
            where the lock has no ranks for it.
    """

    score: float
    over: bool
    alarms: int
    watched: int
    broken: str | None = None
    since: int | None = None
    drift: float | None = None

    @property
    def budget_spent(self) -> float | None:
        """By windows: share of the false alarms that the budget allows, were all of the run false.

        Above 1 the run has alarmed more often than a run without an event would on average. None
        by runs, where an alarm is raised once.
        """
        if self.unit == "run":
            return None
        return self.alarms / (self.budget * self.watched) if self.watched else 0.0


@dataclass(frozen=True)
class Reading:
    """The answer at one checkpoint.

    Attributes:
        state: ALARM where a whole indicator that acts is over, and by runs from then on; else
            ABSTAIN where one that acts is broken, or none may act; else CLEAR.
        step: of the checkpoint.
        reason: one line.
        since: the step from which on the state has stood; of ABSTAIN, the one at which the first
            of the broken indicators broke.
        alarm: by runs, the step at which the alarm was raised; None before, and by windows.
        promise: what is promised of false alarms, one line.
        health: what is promised of false abstentions, one line.
        indicators: those that act first.
    """

    state: State
    step: int
    reason: str
    since: int
    alarm: int | None
    promise: str
    health: str
    indicators: tuple[IndicatorReading, ...]

    @property
    def acting(self) -> tuple[IndicatorReading, ...]:
        """The indicators that may raise the alarm."""
        return tuple(item for item in self.indicators if item.acts)

    @property
    def scores(self) -> dict[str, float]:
        """Each indicator's score."""
        return {item.name: item.score for item in self.indicators}

    def indicator(self, name: str) -> IndicatorReading:
        """One indicator's reading; `KeyError` if it is not watched."""
        return {item.name: item for item in self.indicators}[name]

    def to_dict(self) -> dict[str, Any]:
        """The reading as plain data."""
        return asdict(self)


def decide(
    indicators: Sequence[IndicatorReading], *, step: int, burn_in: int
) -> tuple[State, str, int | None]:
    """The state, the reason for it and, of broken indicators, since when."""
    acting = [item for item in indicators if item.acts]
    if not acting:
        return "ABSTAIN", "these results make no indicator eligible: none may act", None
    over = [
        f"{item.name} reached {item.score:.6g}, its threshold is {item.threshold:.6g}"
        for item in acting
        if item.over
    ]
    if over:
        return "ALARM", "; ".join(over), None
    broken: dict[tuple[int, str | None], list[str]] = {}
    for item in acting:
        if item.since is not None:
            broken.setdefault((item.since, item.broken), []).append(item.name)
    if broken:
        reasons = (
            f"{', '.join(names)} {_are(names)} broken since step {since}: {why}"
            for (since, why), names in broken.items()
        )
        return "ABSTAIN", "; ".join(reasons), min(since for since, _ in broken)
    if step < burn_in:
        return "CLEAR", f"burn-in: an alarm can be raised from step {burn_in} on", None
    return "CLEAR", f"below threshold: {', '.join(item.name for item in acting)}", None


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


@dataclass(eq=False)
class IndicatorStream:
    """An indicator fed one checkpoint at a time, with the score that the whole log would give it.

    Attributes:
        indicator: of the catalogue, a column, or an ensemble.
        cadence: steps between checkpoints.
        parameters: over the indicator's defaults.
        sign: +1 for the declared orientation, -1 for its opposite.
        memory: what it keeps of the checkpoints that it has seen: O(window) numbers.
    """

    indicator: Indicator
    cadence: int
    parameters: Mapping[str, Any] | None = None
    sign: int = 1
    memory: Memory = field(default_factory=Memory)

    def update(self, checkpoint: Mapping[str, float]) -> float:
        """The score at the next checkpoint, given every column that it needs, and "step"."""
        seen = Observables(lambda column: np.array([[checkpoint[column]]]), self.cadence)
        with carrying(self.memory):
            score = scored(self.indicator, seen, self.parameters or {}, sign=self.sign)
        return float(score[0, -1])

    @property
    def clean(self) -> bool:
        """Whether nothing that it keeps is NaN."""
        return not any(np.isnan(kept).any() for kept in self.memory.kept)


def refuse_unstreamed(indicator: Indicator, *, cadence: int, parameters: Mapping[str, Any]) -> None:
    """Raise `InputError` where an indicator's stream is not what its batch computation gives.

    It is so for functions that look back otherwise than through `gmb_hf.indicators.causal`. Those
    of the package are tested; one that somebody has registered is tried here on made-up columns.
    """
    if indicator.function.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return
    settings = indicator.with_defaults(parameters)
    length = 2 + 2 * sum(int(settings[name]) // cadence for name in indicator.windows)
    rng = np.random.default_rng(0)
    columns = {name: rng.uniform(0.1, 1.0, (1, length)) for name in indicator.needs}
    batch = scored(indicator, Observables(columns.__getitem__, cadence), parameters)[0]
    stream = IndicatorStream(indicator, cadence=cadence, parameters=parameters)
    rows = zip(*(values[0] for values in columns.values()), strict=True)
    one_by_one = [stream.update(dict(zip(columns, row, strict=True))) for row in rows]
    if not np.array_equal(batch, one_by_one, equal_nan=True):
        raise InputError(
            f"indicator {indicator.name!r}: cannot be computed one checkpoint at a time; let it "
            "look back through the functions of gmb_hf.indicators.causal only, or leave it out"
        )


@dataclass(eq=False)
class IndicatorMonitor:
    """An indicator that is read at every checkpoint, and says when it must not be.

    One that has met a value it cannot use is broken until no trace of it is left in its windows.
    One that remembers the whole run (a largest value so far) stays broken, and so does one whose
    scores drift.

    Attributes:
        stream: the indicator.
        terms: of the lock and the results.
        burn_in: first step at which it counts.
        drift: its health statistic; None where the lock has none.
        broken, since: why it cannot be read, and from which step on; None while it is whole.
        drifted: whether that is for good, because of its scores.
        alarms, watched: checkpoints since burn-in that were over, and that could have been.
    """

    stream: IndicatorStream
    terms: Terms
    burn_in: int
    drift: Drift | None
    broken: str | None = None
    since: int | None = None
    drifted: bool = False
    alarms: int = 0
    watched: int = 0

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that the indicator reads."""
        return self.stream.indicator.needs

    def update(
        self, step: int, columns: Mapping[str, float], faults: Mapping[str, str], fault: str | None
    ) -> IndicatorReading:
        """Read the next checkpoint.

        Args:
            step, columns: of the checkpoint, a number for each column, "step" among them.
            faults: column -> why its value is of no use.
            fault: why the checkpoint is of no use to any indicator; None if it is.
        """
        fault = fault or next((faults[name] for name in self.needs if name in faults), None)
        usable = columns if fault is None else dict.fromkeys(self.needs, math.nan)
        score = self.stream.update({name: usable[name] for name in self.needs})
        self._update_health(step, fault, score)
        counts = self.broken is None and step >= self.burn_in
        over = counts and score >= self.terms.threshold
        self.watched += counts
        self.alarms += over
        return IndicatorReading(
            **vars(self.terms),
            score=score,
            over=over,
            alarms=self.alarms,
            watched=self.watched,
            broken=self.broken,
            since=self.since,
            drift=None if self.drift is None else self.drift.largest,
        )

    def _update_health(self, step: int, fault: str | None, score: float) -> None:
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
