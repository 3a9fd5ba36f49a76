"""False positive rates of runs and their interval, whose unit is the run."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.intervals import (
    LEVEL,
    Interval,
    exact_binomial,
    ratio_interval,
    resamples,
)
from gmb_hf.benchmark.judgement import Judgement


def false_alarms(judgement: Judgement, target: float) -> NDArray[np.int64]:
    """Alarmed negative windows of each run, int64 [R]."""
    alarmed = judgement.alarms(target) & judgement.windows.negative
    return np.asarray(alarmed.sum(axis=1, dtype=np.int64))


def run_rates(judgement: Judgement, target: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """False alarms of each run, int64 [R], and their share of its negatives, float64 [R]."""
    false, counts = false_alarms(judgement, target), judgement.negatives.counts
    return false, np.divide(false, counts, out=np.zeros(len(counts)), where=counts > 0)


def bootstrap_rate(
    judgement: Judgement, false: NDArray[np.int64], rates: NDArray[np.float64]
) -> Interval | None:
    """The run-cluster bootstrap interval of a false positive rate, and nothing else."""
    counts, prereg = judgement.negatives.counts, judgement.prereg
    weights = resamples(len(counts), prereg.x_bootstrap_draws, prereg.x_seed)
    if judgement.strict:
        return ratio_interval(rates, (counts > 0).astype(np.float64), weights)
    return ratio_interval(false.astype(np.float64), counts.astype(np.float64), weights)


def rate_interval(
    judgement: Judgement, false: NDArray[np.int64], rates: NDArray[np.float64]
) -> Interval | None:
    """The run-cluster bootstrap; the fewer runs alarm, the more an exact bound is its upper end.

    A resample that misses every run that alarms knows no more than silence does, and resamples of
    one alarmed window never see more of it than a few times: such a bootstrap takes the runs that
    alarm for all that ever will. A rate is at most the share of runs that alarm times the rate of
    the worst of them, which gives an exact bound: the Clopper-Pearson bound on that share, times
    the largest rate observed. Silence shows no rate; the worst is then 1, and since alarms must not
    pass for better evidence than silence of as many runs, the bound is never below that of silence.

    Of n runs with k alarming, (1 - k/n)^n of the resamples are blind in this sense. Where they fill
    the whole upper tail (k <= 3) the exact bound holds, and it fades as they empty it: its weight
    is their share over that of the tail, .7 at k = 4, .3 at 5, .04 at 7, and none where less than
    one of the resamples is blind. So no single run makes the bound jump.
    """
    n_runs, alarming = judgement.negatives.n_runs, int((false > 0).sum())
    silence = exact_binomial(0, n_runs)
    interval = bootstrap_rate(judgement, false, rates) if alarming else silence
    blind = (1 - alarming / n_runs) ** n_runs
    if interval is None or not alarming or blind * judgement.prereg.x_bootstrap_draws < 1:
        return interval
    exact = max(exact_binomial(alarming, n_runs).high * float(rates.max()), silence.high)
    if exact <= interval.high:
        return interval
    weight = min(1.0, blind / ((1 - LEVEL) / 2))
    high = interval.high + weight * (exact - interval.high)
    return dataclasses.replace(interval, high=high, method="run bootstrap and exact binomial")
