"""An indicator fed one checkpoint at a time, with the score that the whole log would give it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmb_hf.benchmark.health import Drift
from gmb_hf.design.record import LockedCandidate
from gmb_hf.errors import InputError
from gmb_hf.indicators.catalogue import Indicator, Observables, scored
from gmb_hf.indicators.causal import Memory, carrying
from gmb_hf.indicators.ensemble import fitted_ensemble, locked_score, member_indicators
from gmb_hf.monitor.reading import RulerReading


def locked_indicator(name: str, candidate: LockedCandidate) -> Indicator:
    """The indicator that a candidate of a lock is: a column, a registered one, or an ensemble."""
    if candidate.ensemble is not None:
        return fitted_ensemble(name, candidate.ensemble)
    return locked_score(name, candidate.family, candidate.sees_test_labels)


def refuse_unstreamed_candidate(name: str, candidate: LockedCandidate, *, cadence: int) -> None:
    """`refuse_unstreamed` for a candidate of a lock, or for each member where it is an ensemble."""
    if candidate.ensemble is None:
        indicator = locked_indicator(name, candidate)
        refuse_unstreamed(indicator, cadence=cadence, parameters=candidate.params)
        return
    indicators = member_indicators(candidate.ensemble)
    for indicator, member in zip(indicators, candidate.ensemble.members, strict=True):
        refuse_unstreamed(indicator, cadence=cadence, parameters=member.params)


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
    one_by_one = [
        stream.update({name: values[0, t] for name, values in columns.items()})
        for t in range(length)
    ]
    if not np.array_equal(batch, one_by_one, equal_nan=True):
        raise InputError(
            f"indicator {indicator.name!r}: cannot be computed one checkpoint at a time; let it "
            "look back through the functions of gmb_hf.indicators.causal only, or leave it out"
        )


class IndicatorStream:
    """One indicator of one run.

    Args:
        indicator: of the catalogue, or a column.
        cadence: steps between checkpoints.
        parameters: over the indicator's defaults.
        sign: +1 for the declared orientation, -1 for its opposite.

    Attributes:
        memory: what it keeps of the checkpoints that it has seen: O(window) numbers.
    """

    def __init__(
        self,
        indicator: Indicator,
        *,
        cadence: int,
        parameters: Mapping[str, Any] | None = None,
        sign: int = 1,
    ) -> None:
        self.indicator = indicator
        self.memory = Memory()
        self._cadence = cadence
        self._parameters = dict(parameters or {})
        self._sign = sign

    def update(self, checkpoint: Mapping[str, float]) -> float:
        """The score at the next checkpoint.

        Args:
            checkpoint: every column that the indicator needs, and "step".
        """
        seen = Observables(lambda column: np.array([[checkpoint[column]]]), self._cadence)
        with carrying(self.memory):
            score = scored(self.indicator, seen, self._parameters, sign=self._sign)
        return float(score[0, -1])

    @property
    def clean(self) -> bool:
        """Whether nothing that it keeps is NaN."""
        return not any(np.isnan(kept).any() for kept in self.memory.kept)


# One indicator of a live run: its score, whether it may be trusted, and what it has spent.


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
