"""Layer B: whether a false-alarm budget can be set and holds (spec 4.2)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.scores import NegativeScores
from gmb_hf.design.power import effective_budget, runs_needed
from gmb_hf.documents import Record
from gmb_hf.stats import LEVEL, Interval, exact_binomial, ratio_interval, resamples


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
    weights = resamples(len(counts), prereg.bootstrap_draws, prereg.seed)
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
    if interval is None or not alarming or blind * judgement.prereg.bootstrap_draws < 1:
        return interval
    exact = max(exact_binomial(alarming, n_runs).high * float(rates.max()), silence.high)
    if exact <= interval.high:
        return interval
    weight = min(1.0, blind / ((1 - LEVEL) / 2))
    high = interval.high + weight * (exact - interval.high)
    return dataclasses.replace(interval, high=high, method="run bootstrap and exact binomial")


State = Literal["met", "missed", "straddles"]

# .04 misses .05 by .010000000000000002: a tolerance of .01 must still hold.
_SLACK = 1e-12


@dataclass(frozen=True)
class TargetResult(Record):
    """One target false positive rate.

    Attributes:
        target: f.
        threshold: the threshold in use, or, when each run is judged by that of its fold, the one
            that all runs give; infinite: nothing alarms.
        answer: `ABSTAIN` where the threshold is infinite.
        achieved: the rate that decides. `strict`: mean over runs of each run's rate; `v0.4`:
            pooled over windows. None without negative windows.
        achieved_pooled: the pooled rate.
        interval: 95% run-cluster interval of `achieved`; exact at its upper end where few runs
            alarm (see `rate_interval`).
        alarming_runs: runs with a false alarm.
        budget_used: achieved / target.
        effective_budget: the rate to expect from so many calibration runs; None in `v0.4`, and
            where their number is not known.
        met: the point verdict.
        state: `strict`: whether the interval decides it, `straddles` where it does not, or where
            there are too few calibration runs for any threshold. `v0.4`: as `met`.
        few_runs: the threshold is infinite because calibration runs are too few for the target.
    """

    target: float
    threshold: float
    answer: Literal["THRESHOLD", "ABSTAIN"]
    achieved: float | None
    achieved_pooled: float | None
    interval: Interval | None
    alarming_runs: int
    budget_used: float | None
    effective_budget: float | None
    met: bool
    state: State
    few_runs: bool


@dataclass(frozen=True)
class FloorCertificate(Record):
    """What the score can do at best, over finite thresholds on the held-out negatives.

    Attributes:
        f_min_pos: the smallest false positive rate above 0 that any threshold achieves.
        gaps: target -> least distance of any achievable rate from it.
        tied_value: the score that several windows share at the top, so that no threshold takes
            fewer of them; None where the top is a single window.
        tied_windows: how many share it.
    """

    f_min_pos: float
    gaps: Mapping[float, float]
    tied_value: float | None
    tied_windows: int

    def forbids(self, rate: float) -> bool:
        """Whether the score, by ties, keeps every threshold that alarms above a rate.

        A single window at the top is no property of the score: it counts 1/(runs x windows of its
        run), which only tells how few of them there are, and more runs would bring smaller steps.
        """
        return self.tied_windows > 1 and self.f_min_pos > rate + _SLACK


@dataclass(frozen=True)
class LayerB(Record):
    """The operationality gate; failing it forbids an alarm whatever the ranking.

    Attributes:
        targets: one result per target.
        ok_targets: how many are met.
        fpr_min: least rate over targets that a finite threshold with an alarm gives.
        controllability_pass: enough targets are met.
        fpr_floor_detected: the least rate is too high.
        certificate: the proof; None without negative windows.
        passed: controllable and without a floor.
        calibration: where the thresholds come from (see `Calibration.method`).
        n_runs, n_windows: held-out runs with negatives, and negative windows.
        dropped_windows: labelled windows left out for want of a finite score.
    """

    targets: tuple[TargetResult, ...]
    ok_targets: int
    fpr_min: float | None
    controllability_pass: bool
    fpr_floor_detected: bool
    certificate: FloorCertificate | None
    passed: bool
    calibration: str
    n_runs: int
    n_windows: int
    dropped_windows: int

    @property
    def surely_met(self) -> int:
        """Targets that are met beyond the interval's doubt."""
        return sum(result.state == "met" for result in self.targets)

    @property
    def open_targets(self) -> int:
        """Targets that more runs would have to decide."""
        return sum(result.state == "straddles" for result in self.targets)

    def at(self, target: float) -> TargetResult:
        """The result for one target."""
        return next(result for result in self.targets if result.target == target)


def layer_b(judgement: Judgement, *, intervals: bool = True) -> LayerB:
    """Measure every target's false positive rate on the held-out negatives.

    Args:
        judgement: what to judge.
        intervals: find intervals and, from them, states; without, states follow `met`.
    """
    prereg, negatives = judgement.prereg, judgement.negatives
    certificate, fpr_min = _floor(negatives, prereg.fpr_targets, per_run=judgement.strict)
    targets = tuple(
        _target(judgement, target, certificate, intervals) for target in prereg.fpr_targets
    )
    floor = fpr_min is not None and fpr_min > prereg.fpr_floor_max + _SLACK
    if judgement.strict and certificate is not None:
        floor &= certificate.tied_windows > 1
        floor |= certificate.forbids(min(prereg.fpr_targets) + prereg.fpr_eps)
    ok_targets = sum(result.met for result in targets)
    controllable = ok_targets >= prereg.min_targets_ok
    return LayerB(
        targets=targets,
        ok_targets=ok_targets,
        fpr_min=fpr_min,
        controllability_pass=controllable,
        fpr_floor_detected=floor,
        certificate=certificate,
        passed=controllable and not floor,
        calibration=judgement.calibrated.method,
        n_runs=negatives.n_runs,
        n_windows=negatives.n_windows,
        dropped_windows=judgement.windows.dropped,
    )


def pass_line(target: float, eps: float) -> float:
    """The highest rate that meets a target in `strict`: f + min(eps, f/2)."""
    return target + min(eps, target / 2)


def _target(
    judgement: Judgement, target: float, certificate: FloorCertificate | None, intervals: bool
) -> TargetResult:
    counts = judgement.negatives.counts
    known = counts > 0
    false, rates = run_rates(judgement, target)
    achieved = pooled = interval = None
    if known.any():
        pooled = float(false.sum() / counts.sum())
        achieved = float(rates.sum() / known.sum()) if judgement.strict else pooled
        interval = rate_interval(judgement, false, rates) if intervals else None

    calibrated, m = judgement.calibrated, judgement.calibrated.n_runs
    tau = calibrated.deployed[target]
    finite = math.isfinite(tau) and bool(np.isfinite(calibrated.thresholds[target]).all())
    few_runs = judgement.strict and not finite and m is not None and m < runs_needed(target)
    if judgement.strict:
        able = finite and certificate is not None and not certificate.forbids(target)
        line = pass_line(target, judgement.prereg.fpr_eps) + _SLACK
        met = able and achieved is not None and achieved <= line
        undecidable = achieved is None or few_runs
        state = _state(met, interval if able else None, line, undecidable)
    else:
        eps = judgement.prereg.fpr_eps
        met = achieved is not None and abs(achieved - target) <= eps + _SLACK
        state = "met" if met else "missed"
    return TargetResult(
        target=target,
        threshold=tau,
        answer="THRESHOLD" if finite else "ABSTAIN",
        achieved=achieved,
        achieved_pooled=pooled,
        interval=interval,
        alarming_runs=int((false > 0).sum()),
        budget_used=None if achieved is None else achieved / target,
        effective_budget=(
            effective_budget(target, m) if judgement.strict and m is not None else None
        ),
        met=met,
        state=state,
        few_runs=few_runs,
    )


def _state(met: bool, interval: Interval | None, line: float, undecidable: bool) -> State:
    if undecidable or (interval is not None and interval.low <= line < interval.high):
        return "straddles"
    return "met" if met else "missed"


def _floor(
    negatives: NegativeScores, targets: tuple[float, ...], *, per_run: bool
) -> tuple[FloorCertificate | None, float | None]:
    """The certificate, and the least rate over targets among finite thresholds that alarm."""
    if not negatives.n_windows:
        return None, None
    rates = negatives.rates(per_run=per_run)
    distances = {target: np.abs(rates - target) for target in targets}
    # `rates` ascends, so that the first of equal distances is the smaller rate.
    nearest = [
        float(rates[np.argmax(distance <= distance.min() + _SLACK)])
        for distance in distances.values()
    ]
    tied = int(negatives.windows_at_or_above[0])
    certificate = FloorCertificate(
        f_min_pos=float(rates[0]),
        gaps={target: float(distance.min()) for target, distance in distances.items()},
        tied_value=float(negatives.distinct[0]) if tied > 1 else None,
        tied_windows=tied,
    )
    return certificate, min(nearest)
