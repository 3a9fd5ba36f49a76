"""Layer B: whether a false-alarm budget can be set and holds (spec 4.2), and diagnostics on why.

Diagnostics: D1 effective support, D2 the rates that thresholds can reach, D3 tie dominance, D4
effective sample size, D5 abstain rate. All but the last look at negative windows only.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AllowInfNan, Field, FiniteFloat

from gmb_hf.base.documents import Count, Many, Measured, Number, OpenSection
from gmb_hf.base.stats import (
    BINOMIAL,
    BOOTSTRAP,
    LEVEL,
    IntervalRecord,
    exact_binomial,
    ratio_interval,
    resamples,
)
from gmb_hf.benchmark.gates import SLACK, State, budget_state, enough_budgets
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.records import NO_EVENT, NO_NEGATIVE, WhyNull
from gmb_hf.core.thresholds import (
    Floor,
    effective_budget,
    floor_certificate,
    pass_line,
    runs_needed,
)
from gmb_hf.core.utility import WindowAlarms

_NO_NEGATIVE = WhyNull(NO_NEGATIVE)


class AchievedRecord(OpenSection):
    """One target false positive rate and what was measured at its threshold."""

    target: FiniteFloat
    # The rate that decides. `strict`: the mean over runs of each run's rate; `v0.4`: pooled.
    achieved: Annotated[Number, _NO_NEGATIVE]
    # In use, or, where each run is judged by that of its fold, the one that all runs give;
    # infinite: nothing alarms, and the answer is ABSTAIN.
    x_threshold: Annotated[float, AllowInfNan(True)] | None = None
    x_answer: Literal["THRESHOLD", "ABSTAIN"] | None = None
    x_achieved_pooled: Annotated[Number, _NO_NEGATIVE] = None
    # 95%, of `achieved`, over runs; exact at its upper end where few runs alarm.
    x_interval: Annotated[IntervalRecord | None, _NO_NEGATIVE] = None
    x_alarming_runs: Count | None = None
    x_budget_used: Annotated[Number, _NO_NEGATIVE] = None  # achieved / target
    # The rate to expect from so many calibration runs.
    x_effective_budget: Annotated[
        Number, WhyNull("only strict thresholds from a known number of runs have one")
    ] = None
    # By the point: the threshold is finite, the score can alarm at this rate, and the rate does
    # not exceed the target by more than `pass_line` allows.
    x_within_budget: bool | None = None
    # `strict`: whether the budget is met, by `budget_state`. `v0.4`: |pooled - target| <= fpr_eps.
    x_state: State | None = None
    x_few_runs: bool | None = None  # too few calibration runs for a finite threshold


class FloorRecord(OpenSection):
    """Why a target cannot be reached: the smallest rate that any alarm costs."""

    f_min_pos: Measured  # not 0, over all finite thresholds, on the held-out negatives
    gaps: dict[str, Number] = Field(default_factory=dict)  # target -> distance of the nearest rate
    # The score that several windows share at the top, so that no threshold takes fewer of them.
    tied_value: Annotated[Number, WhyNull("the highest negative score is not tied")] = None
    tied_windows: Count | None = None
    # Some positive window lies above every negative: a threshold there alarms at a rate of 0.
    zero_reached: bool | None = None
    # `least` is above the least target and its tolerance, by ties: what `strict` calls a floor.
    floor: bool | None = None

    @property
    def least(self) -> float:
        """The least rate of any threshold that alarms: 0 where positives lie above negatives."""
        return 0.0 if self.zero_reached else self.f_min_pos


class LayerBRecord(OpenSection):
    """The operationality gate: the specification's rule, and beside it that of `strict`."""

    targets: Many[FiniteFloat]
    achieved: Many[AchievedRecord]
    ok_targets: Count | None  # |pooled rate - target| <= fpr_eps
    # The least pooled rate over the targets whose threshold is finite and alarms; if there are
    # none, the least that the finite thresholds nearest to the targets give.
    fpr_min: Annotated[Number, _NO_NEGATIVE]
    controllability_pass: bool | None
    fpr_floor_detected: bool | None  # fpr_min > fpr_floor_max
    x_budget_pass: bool | None = None  # enough budgets are met, see `x_budget_state`
    x_budget_state: State | None = None  # over the targets that have a finite threshold
    # Which of the two decided; with `x_budget_pass` goes `x_floor_certificate.floor`.
    x_decided_by: Literal["controllability_pass", "x_budget_pass"] | None = None
    x_passed: bool | None = None  # controllable and without a floor, by what decided
    x_floor_certificate: Annotated[FloorRecord | None, _NO_NEGATIVE] = None
    x_calibration: str | None = None  # where thresholds come from, see `Calibration.method`
    x_n_runs: Count | None = None  # held-out runs with negative windows
    x_n_windows: Count | None = None
    x_dropped_windows: Count | None = None  # for want of a finite score

    @property
    def by_budget(self) -> bool:
        """Whether the rule of `strict` decided."""
        return self.x_decided_by == "x_budget_pass"

    @property
    def controlled(self) -> bool | None:
        """Whether enough targets are met, by what decided."""
        return self.x_budget_pass if self.by_budget else self.controllability_pass

    @property
    def floor(self) -> bool | None:
        """Whether there is a floor, by what decided."""
        if not self.by_budget:
            return self.fpr_floor_detected
        return self.x_floor_certificate is not None and self.x_floor_certificate.floor

    @property
    def n_met(self) -> int | None:
        """How many targets are met, by what decided."""
        if not self.by_budget:
            return self.ok_targets
        states = [result.x_state for result in self.achieved]
        return None if None in states else states.count("met")

    def at(self, target: float) -> AchievedRecord:
        """The result for one target."""
        return next(result for result in self.achieved if result.target == target)


def bootstrap_rate(judgement: Judgement, alarms: WindowAlarms) -> IntervalRecord | None:
    """The run-cluster bootstrap interval of a false positive rate, and nothing else."""
    counts, design = alarms.n_negative, judgement.design
    weights = resamples(len(counts), design.bootstrap_draws, design.seed)
    if judgement.strict:
        return ratio_interval(alarms.false_alarm_rates, (counts > 0).astype(np.float64), weights)
    return ratio_interval(alarms.n_false.astype(np.float64), counts.astype(np.float64), weights)


def rate_interval(judgement: Judgement, alarms: WindowAlarms) -> IntervalRecord | None:
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
    n_runs, alarming = alarms.n_runs, int((alarms.n_false > 0).sum())
    if not n_runs:
        return None
    silence = exact_binomial(0, n_runs)
    interval = bootstrap_rate(judgement, alarms) if alarming else silence
    blind = (1 - alarming / n_runs) ** n_runs
    if interval is None or not alarming or blind * judgement.design.bootstrap_draws < 1:
        return interval
    exact = max(
        exact_binomial(alarming, n_runs).high * float(alarms.false_alarm_rates.max()), silence.high
    )
    if exact <= interval.high:
        return interval
    weight = min(1.0, blind / ((1 - LEVEL) / 2))
    high = interval.high + weight * (exact - interval.high)
    return interval.model_copy(update={"high": high, "method": f"{BOOTSTRAP} and {BINOMIAL}"})


def layer_b(judgement: Judgement, *, intervals: bool = True) -> LayerBRecord:
    """Measure every target's false positive rate on the held-out negatives.

    Without `intervals` there are none, and the states follow the points.
    """
    design, tops = judgement.design, judgement.tops
    certificate = floor_certificate(*tops, per_run=judgement.strict)
    achieved = tuple(
        _target(judgement, target, certificate, intervals) for target in design.fpr_targets
    )
    near = sum(
        row.x_achieved_pooled is not None
        and abs(row.x_achieved_pooled - row.target) <= design.fpr_eps + SLACK
        for row in achieved
    )
    state = enough_budgets(
        [(row.target, row.x_state or "straddles", row.x_answer != "ABSTAIN") for row in achieved],
        primary=design.primary_fpr,
        least=design.min_targets_ok,
    )
    fpr_min = _least_rate(judgement)
    controlled = near >= design.min_targets_ok
    floor = fpr_min is not None and fpr_min > design.fpr_floor_max + SLACK
    record = None
    if certificate is not None:
        tied = certificate.forbids(min(design.fpr_targets) + design.fpr_eps)
        record = FloorRecord(**asdict(certificate), gaps=_gaps(judgement), floor=tied)
    kept = state == "met"
    tied = record is not None and bool(record.floor)
    return LayerBRecord(
        targets=design.fpr_targets,
        achieved=achieved,
        ok_targets=near,
        fpr_min=fpr_min,
        controllability_pass=controlled,
        fpr_floor_detected=floor,
        x_budget_pass=kept,
        x_budget_state=state,
        x_decided_by="x_budget_pass" if judgement.strict else "controllability_pass",
        x_passed=kept and not tied if judgement.strict else controlled and not floor,
        x_floor_certificate=record,
        x_calibration=judgement.calibrated.method,
        x_n_runs=int((tops.counts > 0).sum()),
        x_n_windows=int(tops.counts.sum()),
        x_dropped_windows=judgement.windows.dropped,
    )


def passes(judgement: Judgement) -> bool:
    """`x_passed` of layer B, by the points, without the record: layer D asks for it often.

    A budget that is `shown` is met by a point within its line; a promise by what refutes it not.
    """
    if not judgement.strict:
        return bool(layer_b(judgement, intervals=False).x_passed)
    design = judgement.design
    certificate = floor_certificate(*judgement.tops, per_run=True)
    if certificate is not None and certificate.forbids(min(design.fpr_targets) + design.fpr_eps):
        return False
    states: list[tuple[float, State, bool]] = []
    for target in design.fpr_targets:
        finite = judgement.calibrated.finite(target)
        able = finite and not (certificate is not None and certificate.forbids(target))
        kept = able and _kept(judgement, target)
        states.append((target, "met" if kept else "missed", finite))
    least = design.min_targets_ok
    return enough_budgets(states, primary=design.primary_fpr, least=least) == "met"


def _kept(judgement: Judgement, target: float) -> bool:
    """Whether a finite target holds by its point, or, where it is promised, is not refuted."""
    alarms, line = judgement.alarms(target), pass_line(target, judgement.design.fpr_eps)
    rate = alarms.run_mean_rate
    if rate is None or rate <= line + SLACK:
        return True
    if judgement.basis != "promised":
        return False
    interval = rate_interval(judgement, alarms)
    return interval is None or interval.low <= line + SLACK


def _target(
    judgement: Judgement, target: float, certificate: Floor | None, intervals: bool
) -> AchievedRecord:
    alarms, calibrated, strict = judgement.alarms(target), judgement.calibrated, judgement.strict
    pooled, line = alarms.pooled_rate, pass_line(target, judgement.design.fpr_eps)
    achieved = alarms.run_mean_rate if strict else pooled
    interval = rate_interval(judgement, alarms) if intervals and achieved is not None else None
    finite, m = calibrated.finite(target), calibrated.n_runs
    able = finite and certificate is not None and not certificate.forbids(target)
    within = able and achieved is not None and achieved <= line + SLACK
    close = pooled is not None and abs(pooled - target) <= judgement.design.fpr_eps + SLACK
    state: State = "met" if (within if strict else close) else "missed"
    if strict and able and (intervals or achieved is None):
        shown = judgement.basis != "promised"
        state = budget_state(interval, budget=line, line=line, shown=shown)
    elif strict and (not finite or achieved is None):
        state = "straddles"
    return AchievedRecord(
        target=target,
        achieved=achieved,
        x_threshold=calibrated.deployed[target],
        x_answer="THRESHOLD" if finite else "ABSTAIN",
        x_achieved_pooled=pooled,
        x_interval=interval,
        x_alarming_runs=int((alarms.n_false > 0).sum()),
        x_budget_used=None if achieved is None else achieved / target,
        x_effective_budget=effective_budget(target, m) if strict and m is not None else None,
        x_within_budget=within,
        x_state=state,
        x_few_runs=strict and not finite and m is not None and m < runs_needed(target),
    )


def _least_rate(judgement: Judgement) -> float | None:
    """`fpr_min`: the least pooled rate over the targets' finite thresholds that alarm."""
    if not judgement.tops.counts.any():
        return None
    in_use, nearest = [], []
    rates = judgement.achievable_rates(per_run=False)
    for target in judgement.design.fpr_targets:
        gap = _gap(rates, target)
        nearest.append(float(rates[np.searchsorted(rates, target - gap - SLACK)]))
        alarms = judgement.alarms(target)
        rate = alarms.pooled_rate
        if judgement.calibrated.finite(target) and rate is not None:
            in_use += [rate] if rate or alarms.n_detected else []
    return min(in_use or nearest)


def _gaps(judgement: Judgement) -> dict[str, float | None]:
    """How near each target the nearest rate of a finite threshold that alarms is."""
    rates = judgement.achievable_rates(per_run=judgement.strict)
    return {repr(float(target)): _gap(rates, target) for target in judgement.design.fpr_targets}


def _gap(rates: NDArray[np.float64], target: float) -> float:
    # The two around it: `rates` ascends, and of equal distances the smaller rate counts.
    above = min(int(np.searchsorted(rates, target)), len(rates) - 1)
    return float(np.abs(rates[max(above - 1, 0) : above + 1] - target).min())


_BINS = 50
_TAIL = 0.90
_TOP = 0.95
_CURVE = tuple(float(f) for f in np.round(np.geomspace(0.005, 0.5, 21), 4))
_CONSTANT = WhyNull("the score is constant over negative windows, or there are none")


class DiagnosticsRecord(OpenSection):
    """How much resolution and information the score has where it matters."""

    # D1: k_eff = exp(entropy of 50 equal-width bins).
    effective_support_size: Annotated[Number, _NO_NEGATIVE] = None
    # D3: largest tie count / windows, at or above the 95th percentile.
    tie_dominance: Annotated[Number, _NO_NEGATIVE] = None
    comments: str = ""  # on each of these that stands out
    # D1: perplexity of the exact values at or above the 90th percentile.
    x_tail_support_size: Annotated[Number, _NO_NEGATIVE] = None
    # D4: the smaller of n / design effect and Geyer's estimate within runs; the design effect is
    # the variance of the rate over run clusters / over independent windows.
    x_n_eff: Annotated[Number, _CONSTANT] = None
    x_design_effect: Annotated[Number, _CONSTANT] = None
    # D5: share of events without an alarm in their horizon at the primary operating point.
    x_abstain_rate: Annotated[Number, WhyNull(NO_EVENT)] = None
    # D2: (target, nearest rate of any finite threshold) on the held-out negatives.
    x_achievable: Many[Many[FiniteFloat]] = ()


def diagnose(judgement: Judgement, *, coverage: float | None) -> DiagnosticsRecord:
    """Diagnose the held-out negatives of a judgement; `coverage` is at the primary target."""
    abstain_rate = None if coverage is None else 1 - coverage
    negatives = judgement.negatives
    if not negatives.n_windows:
        return DiagnosticsRecord(comments="no negative windows", x_abstain_rate=abstain_rate)
    values = negatives.values
    n_eff, design_effect = effective_sample_size(judgement)
    ties = tie_dominance(values)
    comments = []
    if ties > 0.5:
        what = "of the highest twentieth of negatives share one score; no threshold can separate"
        comments.append(f"{ties:.0%} {what} them")
    if n_eff is None:
        comments.append("the score is constant over negatives, so n_eff does not exist")
    elif n_eff < 0.1 * (n := negatives.n_windows):
        comments.append(f"{n} negative windows are worth {n_eff:.0f} independent ones")
    return DiagnosticsRecord(
        effective_support_size=effective_support(values),
        tie_dominance=ties,
        comments="; ".join(comments),
        x_tail_support_size=tail_support(values),
        x_n_eff=n_eff,
        x_design_effect=design_effect,
        x_abstain_rate=abstain_rate,
        x_achievable=_achievable(judgement.achievable_rates(per_run=judgement.strict)),
    )


def effective_support(values: NDArray[np.float64]) -> float:
    """D1: exp(entropy in nats) of a histogram with 50 equal-width bins, between 1 and 50."""
    low, high = float(values.min()), float(values.max())
    if math.isinf(high - low):
        values, low, high = values / 2, low / 2, high / 2
    # As np.histogram, which refuses values that lie too close together for 50 distinct edges.
    bins = np.searchsorted(np.linspace(low, high, _BINS + 1), values, side="right") - 1
    return _perplexity(np.bincount(np.minimum(bins, _BINS - 1)))


def tail_support(values: NDArray[np.float64]) -> float:
    """D1: how many distinct values the highest tenth amounts to (perplexity of exact values)."""
    return _perplexity(_top_counts(values, _TAIL))


def tie_dominance(values: NDArray[np.float64]) -> float:
    """D3: the largest group of ties, as a share of the highest twentieth."""
    counts = _top_counts(values, _TOP)
    return float(counts.max() / counts.sum())


def effective_sample_size(judgement: Judgement) -> tuple[float | None, float | None]:
    """D4: independent windows that the negatives are worth, and the cluster design effect.

    What counts is whether a window exceeds the pooled (1 - f) quantile, f the primary target.
    Within runs: n / tau by Geyer's initial monotone sequence (1992, "Practical Markov chain Monte
    Carlo"). Between runs: the design effect. The smaller decides, and never more than n.

    Returns:
        (n_eff, design effect), None where every window exceeds or none does.
    """
    negative = judgement.windows.negative
    n = int(negative.sum())
    values = judgement.negatives.values
    exceeds = judgement.evaluation.values >= np.quantile(values, 1 - judgement.design.primary_fpr)
    exceeds &= negative
    share = exceeds.sum() / n
    if share in (0.0, 1.0):
        return None, None
    counts = negative.sum(axis=1)
    design = _design_effect(exceeds.sum(axis=1), counts, float(share))
    means = exceeds.sum(axis=1) / np.maximum(counts, 1)
    within = np.where(negative, exceeds - means[:, None], 0.0)
    inflation = max(autocorrelation_time(within), 1.0 if design is None else design)
    return n / max(inflation, 1.0), design


def autocorrelation_time(deviations: NDArray[np.float64]) -> float:
    """tau = 1 + 2 sum of autocorrelations, by the initial monotone sequence.

    Of deviations from each run's mean, float64 [R, T], 0 where there is no window; products are
    summed over runs.
    """
    width = deviations.shape[1]
    spectrum = np.fft.rfft(deviations, n=2 * width, axis=1)
    power = (spectrum * spectrum.conj()).real.sum(axis=0)
    products = np.fft.irfft(power, n=2 * width)[:width]
    if products[0] <= 0:
        return 1.0
    pairs = products[: width // 2 * 2].reshape(-1, 2).sum(axis=1) / products[0]
    below = np.flatnonzero(pairs <= 0)
    initial = pairs[: below[0]] if len(below) else pairs
    return max(float(2 * np.minimum.accumulate(initial).sum() - 1), 1.0)


def _design_effect(
    exceeding: NDArray[np.int64], counts: NDArray[np.int64], share: float
) -> float | None:
    clusters = int((counts > 0).sum())
    if clusters < 2:
        return None
    n = counts.sum()
    between = ((exceeding - share * counts) ** 2).sum() / n**2 * clusters / (clusters - 1)
    return float(between / (share * (1 - share) / n))


def _achievable(rates: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    after = np.clip(np.searchsorted(rates, _CURVE), 0, len(rates) - 1)
    before = np.maximum(after - 1, 0)
    below, above = np.abs(rates[before] - _CURVE), np.abs(rates[after] - _CURVE)
    nearer = np.where(below <= above, before, after)
    return tuple(zip(_CURVE, rates[nearer].tolist(), strict=True))


def _top_counts(values: NDArray[np.float64], quantile: float) -> NDArray[np.int64]:
    top = values[values >= np.quantile(values, quantile)]
    return np.asarray(np.unique(top, return_counts=True)[1])


def _perplexity(counts: NDArray[np.int64]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))
