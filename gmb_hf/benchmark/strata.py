"""Layers B and C over the strata that a preregistration names (spec 5, `SCOPE_LIMITED`).

Each run keeps the threshold that it is judged by over all runs: a stratum is a place to look at
the same alarm, and no second calibration. Both chance nulls are drawn within the stratum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmb_hf.benchmark.intervals import Interval
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import LayerB, layer_b
from gmb_hf.benchmark.record import Record
from gmb_hf.benchmark.utility import LayerC, layer_c
from gmb_hf.preregistration.strata import Facts, Stratum, event_facts


@dataclass(frozen=True)
class StratumResult(Record):
    """What came out in one stratum, at the primary operating point.

    Attributes:
        name, where: as locked.
        n_runs, n_events: held-out runs and events in it.
        passed: everything that a supported score must pass, with events enough.
        reasons: codes of what stands against it.
        sentence: the same in words.
        ok_targets: targets met.
        achieved, interval: the false positive rate.
        coverage, coverage_interval, lead_time_median: as in layer C.
        chance: mean coverage of the harder null.
        p_value, p_adjusted: as in layer C, and Holm-adjusted over the lock, strata included.
        label_flip_rate: layer D within the stratum; None where something else already fails.
    """

    name: str
    where: str
    n_runs: int
    n_events: int
    passed: bool
    reasons: tuple[str, ...]
    sentence: str
    ok_targets: int
    achieved: float | None
    interval: Interval | None
    coverage: float | None
    coverage_interval: Interval | None
    chance: float | None
    lead_time_median: float | None
    p_value: float | None
    p_adjusted: float | None
    label_flip_rate: float | None


@dataclass(frozen=True, eq=False)
class MeasuredStratum:
    """One stratum before its p-value is adjusted; the layers are None where no run belongs to it.

    Attributes:
        stratum: name and predicate.
        rows: int64, row numbers of its runs.
        judgement: of those runs.
        layer_b, layer_c: measured on them.
    """

    stratum: Stratum
    rows: np.ndarray
    judgement: Judgement
    layer_b: LayerB | None
    layer_c: LayerC | None

    @property
    def p_value(self) -> float | None:
        """Of the primary operating point; None without events."""
        return None if self.layer_c is None else self.layer_c.primary.p_value


def measure_strata(judgement: Judgement, facts: Facts) -> tuple[MeasuredStratum, ...]:
    """Layers B and C in each stratum of the preregistration, in its order.

    Args:
        judgement: over all runs.
        facts: numbers of each run by name; the step of the event is known without them.

    Raises:
        InputError: a predicate asks for a number that is not there.
    """
    known = {**event_facts(judgement.evaluation.event_step), **facts}
    found = []
    for stratum in judgement.prereg.x_strata:
        rows = np.flatnonzero(stratum.holds(known))
        part = judgement.select(rows)
        layers = (layer_b(part), layer_c(part)) if len(rows) else (None, None)
        found.append(MeasuredStratum(stratum, rows, part, *layers))
    return tuple(found)
