"""What a detector of events returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True, eq=False)
class Events:
    """The events of R runs.

    Attributes:
        kind: `E_jump`, `E_plateau` or `E_regime`.
        runs: R run names.
        step: float64 [R], t* in steps, NaN where there is no event.
        first_step: int64 [R], the first step at which the run could have had an event.
        dip_recovery: bool [R], E_jump: the metric a window W after the event is no higher than
            it had been up to the event.
        excluded: run -> label, E_regime: runs of which nobody can say whether they had an event.
            They are no negatives either: judge scores on the `decided` runs only.
    """

    kind: str
    runs: tuple[str, ...]
    step: NDArray[np.float64]
    first_step: NDArray[np.int64]
    dip_recovery: NDArray[np.bool_]
    excluded: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def n_events(self) -> int:
        """How many runs have an event."""
        return int(np.isfinite(self.step).sum())

    @property
    def n_dip_recoveries(self) -> int:
        """How many events only regain a level that the metric had reached before."""
        return int(self.dip_recovery.sum())

    def decided(self) -> Events:
        """The events of the runs that are not excluded; `excluded` still names the others."""
        rows = [row for row, run in enumerate(self.runs) if run not in self.excluded]
        return dataclasses.replace(
            self,
            runs=tuple(self.runs[row] for row in rows),
            step=self.step[rows],
            first_step=self.first_step[rows],
            dip_recovery=self.dip_recovery[rows],
        )
