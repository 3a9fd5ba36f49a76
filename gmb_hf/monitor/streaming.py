"""An indicator fed one checkpoint at a time, with the score that the whole log would give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmb_hf.indicators.carried import Memory, carrying
from gmb_hf.indicators.external import external
from gmb_hf.indicators.registry import Indicator, Observables, get, scored
from gmb_hf.preregistration.record import LockedCandidate

_EXTERNAL = "external"


def locked_indicator(name: str, candidate: LockedCandidate) -> Indicator:
    """The indicator that a candidate of a lock is: a column as it stands, or a registered one."""
    if candidate.family == _EXTERNAL:
        return external(name, candidate.sees_test_labels)
    return get(name)


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
