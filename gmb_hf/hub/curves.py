"""How runs grok: numbers by which one sees whether they memorise first and generalise later.

Slow learning climbs a ramp from the start, and instabilities make accuracy jump by recovering.
Grokking is a plateau near chance after the training rows are learned, and then a rise that is
short against the plateau. Times are steps; a level is reached at the first checkpoint at or above
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gmb_hf.base.documents import Section
from gmb_hf.benchmark.first_alarm import MEMORISATION
from gmb_hf.indicators.catalogue import compute
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog

_SPIKE = 0.97  # training accuracy below this, after memorisation
_REACHED = (0.2, 0.5, 0.8, 0.9)

Floats = NDArray[np.float64]


class CurveRecord(Section):
    """How the runs of a panel grok: medians over runs, and shares of runs; None: of none."""

    at_memorisation: float | None = Field(
        None, description="held-out accuracy when the training rows are memorised"
    )
    ratio: float | None = Field(
        None, description="steps to a held-out accuracy of .5, over steps to memorise"
    )
    width: float | None = Field(
        None, description="the rise from .2 to .8, over the delay from memorisation to .5"
    )
    spikes: float | None = Field(
        None,
        description="share of checkpoints after memorisation with a training accuracy under .97",
    )
    spikes_mean: float | None = Field(None, description="the same, mean over runs")
    spread: float | None = Field(
        None, description="steps to .5: the 95% quantile of runs over the 5% quantile"
    )
    memorised: float = Field(description="share of runs that memorise")
    reach_half: float = Field(description="share of runs that reach a held-out accuracy of .5")
    reach_nine_tenths: float = Field(description="share of runs that reach .9")


CURVES = {name: field.description or "" for name, field in CurveRecord.model_fields.items()}
"""What each number is, by its name."""


@dataclass(frozen=True, eq=False)
class CurveShape:
    """Of R runs, float64 [R] each; NaN where a run does not come so far.

    Attributes:
        memorised: as of the control `steps_since_memorisation`: .99 held for 5 checkpoints.
        reached: level of held-out accuracy -> when it is reached.
        at_memorisation: held-out accuracy when the training rows are memorised.
        spikes: share of later checkpoints with a training accuracy under .97.
    """

    memorised: Floats
    reached: dict[float, Floats]
    at_memorisation: Floats
    spikes: Floats

    @classmethod
    def of(cls, log: RunLog) -> Self:
        """Read `train_acc` and `test_acc`.

        Raises:
            InputError: one of the two is missing.
        """
        train, test = log.panel("train_acc"), log.panel("test_acc")
        ends = np.arange(len(train.runs)), train.lengths - 1
        since = compute(log, MEMORISATION).values[ends]
        memorised = np.where(since > 0, train.last_step - since, np.nan)
        after = train.present & (train.steps >= memorised[:, None])
        spiking = (after & (train.values < _SPIKE)).sum(axis=1)
        at_once = test.values[ends[0], np.argmax(after, axis=1)]
        return cls(
            memorised,
            {level: _first(test.present & (test.values >= level), test) for level in _REACHED},
            np.where(since > 0, at_once, np.nan),
            np.where(since > 0, spiking / np.maximum(1, after.sum(axis=1)), np.nan),
        )

    @property
    def delay(self) -> Floats:
        """From memorisation to a held-out accuracy of .5, in steps."""
        return self.reached[0.5] - self.memorised

    @property
    def ratio(self) -> Floats:
        """How many times as long as memorising it takes to reach .5."""
        return self.reached[0.5] / np.maximum(self.memorised, 1)

    @property
    def width(self) -> Floats:
        """From .2 to .8, as a share of the delay."""
        return (self.reached[0.8] - self.reached[0.2]) / np.maximum(self.delay, 1)

    def summary(self) -> CurveRecord:
        """The numbers that a card states."""
        half = self.reached[0.5][np.isfinite(self.reached[0.5])]
        known = self.spikes[np.isfinite(self.spikes)]
        return CurveRecord(
            at_memorisation=_median(self.at_memorisation),
            ratio=_median(self.ratio),
            width=_median(self.width),
            spikes=_median(known),
            spikes_mean=float(known.mean()) if len(known) else None,
            spread=float(np.divide(*np.quantile(half, [0.95, 0.05]))) if len(half) else None,
            memorised=float(np.isfinite(self.memorised).mean()),
            reach_half=float(np.isfinite(self.reached[0.5]).mean()),
            reach_nine_tenths=float(np.isfinite(self.reached[0.9]).mean()),
        )


def _first(hit: NDArray[np.bool_], panel: Panel) -> Floats:
    """The step of the first True of each row; NaN where there is none."""
    at = panel.steps[np.arange(len(hit)), np.argmax(hit, axis=1)]
    return np.where(hit.any(axis=1), at, np.nan)


def _median(values: Floats) -> float | None:
    return float(np.nanmedian(values)) if np.isfinite(values).any() else None
