"""Chance baselines and controls beside a score, as results store them.

The baselines themselves are `gmb_hf.core.nulls`: one registry for both units of counting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.documents import Count, Measured, Number, OpenSection
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.records import NO_NEGATIVE, WhyNull
from gmb_hf.core.nulls import Alarms, ChanceNull, drawn_p_value
from gmb_hf.core.utility import WindowAlarms


class BaselineRecord(OpenSection):
    """What chance, or a control, detects at an equal false-alarm cost."""

    detection_rate: Measured  # share of events: the exact mean by chance, the count of a control
    # That it detects as many events as the score. By runs exact (Poisson-binomial), of a control
    # McNemar's, one-sided; by windows (1 + draws with at least as many) / (1 + draws).
    p_value: Measured


class DrawnBaselineRecord(BaselineRecord):
    """A chance baseline by windows."""

    # Of the baseline's own alarms, counted as in layer B.
    fpr: Annotated[Number, WhyNull(NO_NEGATIVE)] = None
    draws: Count | None = None


def by_windows(judgement: Judgement, target: float) -> dict[str, DrawnBaselineRecord]:
    """Every registered baseline at a target's thresholds, by name; empty without events."""
    alarms, found = judgement.alarms(target), {}
    for name, (null, chances) in alarms.each_chance():
        found[name] = DrawnBaselineRecord(
            detection_rate=float(chances.mean()),
            p_value=_p_value(judgement, alarms, null, chances),
            fpr=_rate(judgement, alarms, name),
            draws=judgement.design.null_draws,
        )
    return found


def p_values(judgement: Judgement, alarms: Alarms) -> Iterator[float]:
    """The p-value of one baseline after the other: layer D stops at the first too large."""
    for _, (null, chances) in alarms.each_chance():
        yield _p_value(judgement, alarms, null, chances)


def _p_value(
    judgement: Judgement, alarms: Alarms, null: ChanceNull, chances: NDArray[np.float64]
) -> float:
    draws, seed = judgement.design.null_draws, judgement.design.seed
    of_runs, detected = alarms.of_runs(chances), alarms.n_detected
    return drawn_p_value(of_runs, detected, draws=draws, seed=seed, stream=null.stream)


def hardest(baselines: Mapping[str, BaselineRecord]) -> float | None:
    """The detection rate of the hardest baseline; None where there is none."""
    return max((one.detection_rate for one in baselines.values()), default=None)


def largest_p(baselines: Mapping[str, BaselineRecord]) -> float | None:
    """The p-value of the hardest baseline: a score must beat all of them; None without events."""
    return max((one.p_value for one in baselines.values()), default=None)


def _rate(judgement: Judgement, alarms: WindowAlarms, name: str) -> float | None:
    if name == "shift":  # a rotation lays every row on every place equally often
        return alarms.shifted_rate(per_run=judgement.strict)
    # The alarms are the observed ones, seen from other runs' events: the cost is the observed rate.
    return alarms.run_mean_rate if judgement.strict else alarms.pooled_rate
