"""An indicator fed one checkpoint at a time, with the score that the whole log would give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmb_hf.indicators.carried import Memory, carrying
from gmb_hf.indicators.ensemble import fitted_ensemble, member_indicators
from gmb_hf.indicators.external import locked_score
from gmb_hf.indicators.registry import Indicator, Observables, scored
from gmb_hf.preregistration.record import LockedCandidate
from gmb_hf.validation import InputError


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
