"""Layer B: whether a false-alarm budget can be set and holds (spec 4.2), and diagnostics on why.

Diagnostics: D1 effective support, D2 the rates that thresholds can reach, D3 tie dominance, D4
effective sample size, D5 abstain rate. All but the last look at negative windows only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

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
from gmb_hf.benchmark.calibration import Judgement, per_run, run_maxima
from gmb_hf.benchmark.records import NO_EVENT, NO_NEGATIVE, WhyNull
from gmb_hf.design.power import effective_budget, pass_line, runs_needed

State = Literal["met", "missed", "straddles"]

# .04 misses .05 by .010000000000000002: a tolerance of .01 must still hold.
_SLACK = 1e-12
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
    # not exceed the target by more than `pass_line` allows. What `strict` decides by.
    x_within_budget: bool | None = None
    # `strict`: whether the interval decides it; `straddles` where it does not, or where there are
    # too few calibration runs for any threshold. `v0.4`: whether |achieved - target| <= fpr_eps.
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

    @property
    def tied(self) -> bool:
        """Whether several windows share the highest score.

        A single window at the top is no property of the score: it counts 1/(runs x windows of its
        run), which only tells how few of them there are, and more runs would bring smaller steps.
        """
        return (self.tied_windows or 0) > 1

    def forbids(self, rate: float) -> bool:
        """Whether the score, by ties, keeps every threshold that alarms above a rate."""
        return self.tied and self.least > rate + _SLACK


class LayerBRecord(OpenSection):
    """The operationality gate: the specification's rule, and beside it that of `strict`."""

    targets: Many[FiniteFloat]
    achieved: Many[AchievedRecord]
    ok_targets: Count | None  # |achieved - target| <= fpr_eps
    # The least rate over the targets whose threshold is finite and alarms; if there are none, the
    # least that the finite thresholds nearest to the targets give.
    fpr_min: Annotated[Number, _NO_NEGATIVE]
    controllability_pass: bool | None
    fpr_floor_detected: bool | None  # fpr_min > fpr_floor_max
    x_budget_pass: bool | None = None  # enough targets are `x_within_budget`
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
    def n_within(self) -> int | None:
        """How many targets are `x_within_budget`; None where that is not known."""
        within = [result.x_within_budget for result in self.achieved]
        return None if None in within else sum(map(bool, within))

    @property
    def n_met(self) -> int | None:
        """How many targets are met, by what decided."""
        return self.n_within if self.by_budget else self.ok_targets

    @property
    def surely_met(self) -> int:
        """Targets that are met beyond the interval's doubt."""
        return sum(result.x_state == "met" for result in self.achieved)

    @property
    def open_targets(self) -> int:
        """Targets that more runs would have to decide."""
        return sum(result.x_state == "straddles" for result in self.achieved)

    def at(self, target: float) -> AchievedRecord:
        """The result for one target."""
        return next(result for result in self.achieved if result.target == target)


@per_run
def false_alarms(judgement: Judgement, target: float) -> NDArray[np.int64]:
    """Alarmed negative windows of each run, int64 [R]."""
    alarmed = judgement.alarms(target) & judgement.windows.negative
    return np.asarray(alarmed.sum(axis=1, dtype=np.int64))


def run_rates(judgement: Judgement, target: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """False alarms of each run, int64 [R], and their share of its negatives, float64 [R]."""
    false, counts = false_alarms(judgement, target), extremes(judgement).counts
    return false, np.divide(false, counts, out=np.zeros(len(counts)), where=counts > 0)


class Extremes(NamedTuple):
    """The top of the scores of R runs."""

    counts: NDArray[np.int64]  # of negative windows
    negative: NDArray[np.float64]  # the greatest score of one; NaN where there is none
    ties: NDArray[np.int64]  # how many of them share it
    positive: NDArray[np.float64]  # the greatest score of a positive window; or -infinity


@per_run
def extremes(judgement: Judgement) -> Extremes:
    """The top of the held-out scores."""
    values, windows = judgement.evaluation.values, judgement.windows
    highest = run_maxima(judgement.evaluation, windows)
    ties = windows.negative & (values == highest[:, None])
    positive = np.where(windows.positive, values, -np.inf).max(axis=1, initial=-np.inf)
    return Extremes(windows.negative.sum(axis=1), highest, ties.sum(axis=1), positive)


def bootstrap_rate(
    judgement: Judgement, false: NDArray[np.int64], rates: NDArray[np.float64]
) -> IntervalRecord | None:
    """The run-cluster bootstrap interval of a false positive rate, and nothing else."""
    counts, design = extremes(judgement).counts, judgement.design
    weights = resamples(len(counts), design.bootstrap_draws, design.seed)
    if judgement.strict:
        return ratio_interval(rates, (counts > 0).astype(np.float64), weights)
    return ratio_interval(false.astype(np.float64), counts.astype(np.float64), weights)


def rate_interval(
    judgement: Judgement, false: NDArray[np.int64], rates: NDArray[np.float64]
) -> IntervalRecord | None:
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
    if interval is None or not alarming or blind * judgement.design.bootstrap_draws < 1:
        return interval
    exact = max(exact_binomial(alarming, n_runs).high * float(rates.max()), silence.high)
    if exact <= interval.high:
        return interval
    weight = min(1.0, blind / ((1 - LEVEL) / 2))
    high = interval.high + weight * (exact - interval.high)
    return interval.model_copy(update={"high": high, "method": f"{BOOTSTRAP} and {BINOMIAL}"})


def layer_b(judgement: Judgement, *, intervals: bool = True) -> LayerBRecord:
    """Measure every target's false positive rate on the held-out negatives.

    Without `intervals` there are none, and the states follow the points.
    """
    negatives = judgement.negatives
    certificate, points = _points(judgement)
    fpr_min, gaps = _nearest(judgement, points)
    near, kept = sum(point.close for point in points.values()), _kept(judgement, points)
    controlled = near >= judgement.design.min_targets_ok
    floor = fpr_min is not None and fpr_min > judgement.design.fpr_floor_max + _SLACK
    if certificate is not None:
        certificate = certificate.model_copy(update={"gaps": gaps})
    tied = certificate is not None and bool(certificate.floor)
    return LayerBRecord(
        targets=judgement.design.fpr_targets,
        achieved=tuple(_target(judgement, f, point, intervals) for f, point in points.items()),
        ok_targets=near,
        fpr_min=fpr_min,
        controllability_pass=controlled,
        fpr_floor_detected=floor,
        x_budget_pass=kept,
        x_decided_by="x_budget_pass" if judgement.strict else "controllability_pass",
        x_passed=kept and not tied if judgement.strict else controlled and not floor,
        x_floor_certificate=certificate,
        x_calibration=judgement.calibrated.method,
        x_n_runs=negatives.n_runs,
        x_n_windows=negatives.n_windows,
        x_dropped_windows=judgement.windows.dropped,
    )


def passes(judgement: Judgement) -> bool:
    """`x_passed` of layer B, by the points, without the record: layer D asks for it often."""
    if not judgement.strict:
        return bool(layer_b(judgement, intervals=False).x_passed)
    certificate, points = _points(judgement)
    return _kept(judgement, points) and not (certificate is not None and bool(certificate.floor))


class _Point(NamedTuple):
    """One target on the held-out negatives, without an interval."""

    false: NDArray[np.int64]
    rates: NDArray[np.float64]
    achieved: float | None
    pooled: float | None
    finite: bool  # every threshold
    able: bool  # whether it could be within its budget at all, and
    within: bool  # whether it is
    close: bool  # |achieved - target| <= eps


def _points(judgement: Judgement) -> tuple[FloorRecord | None, dict[float, _Point]]:
    """The certificate without its gaps, and each target's point."""
    certificate = _certify(judgement)
    targets = judgement.design.fpr_targets
    return certificate, {target: _point(judgement, target, certificate) for target in targets}


def _kept(judgement: Judgement, points: Mapping[float, _Point]) -> bool:
    """Whether enough targets are within their budget."""
    return sum(point.within for point in points.values()) >= judgement.design.min_targets_ok


def _nearest(
    judgement: Judgement, points: Mapping[float, _Point]
) -> tuple[float | None, dict[str, float | None]]:
    """`fpr_min`, and how near each target the nearest rate of a finite threshold that alarms is."""
    gaps: dict[str, float | None] = {}
    if not judgement.negatives.n_windows:
        return None, gaps
    in_use, nearest, rates = [], [], judgement.achievable_rates
    for target, point in points.items():
        # The two around it: `rates` ascends, and of equal distances the smaller rate counts.
        above = min(int(np.searchsorted(rates, target)), len(rates) - 1)
        gap = float(np.abs(rates[max(above - 1, 0) : above + 1] - target).min())
        gaps[repr(float(target))] = gap
        nearest.append(float(rates[np.searchsorted(rates, target - gap - _SLACK)]))
        alarms = judgement.alarms(target) & judgement.windows.positive
        if point.finite and point.achieved is not None and (point.achieved or alarms.any()):
            in_use.append(point.achieved)
    return min(in_use or nearest), gaps


def _point(judgement: Judgement, target: float, certificate: FloorRecord | None) -> _Point:
    counts, eps = extremes(judgement).counts, judgement.design.fpr_eps
    false, rates = run_rates(judgement, target)
    achieved = pooled = None
    if counts.any():
        pooled = float(false.sum() / counts.sum())
        achieved = float(rates.sum() / (counts > 0).sum()) if judgement.strict else pooled
    calibrated = judgement.calibrated
    finite = math.isfinite(calibrated.deployed[target])
    finite &= bool(np.isfinite(calibrated.thresholds[target]).all())
    able = finite and certificate is not None and not certificate.forbids(target)
    within = able and achieved is not None and achieved <= pass_line(target, eps) + _SLACK
    close = achieved is not None and abs(achieved - target) <= eps + _SLACK
    return _Point(false, rates, achieved, pooled, finite, able, within, close)


def _target(judgement: Judgement, target: float, point: _Point, intervals: bool) -> AchievedRecord:
    false, rates, achieved, pooled, finite, able, within, close = point
    known = intervals and achieved is not None
    interval = rate_interval(judgement, false, rates) if known else None
    m = judgement.calibrated.n_runs
    few_runs = judgement.strict and not finite and m is not None and m < runs_needed(target)
    state: State = "met" if (within if judgement.strict else close) else "missed"
    if judgement.strict:
        line = pass_line(target, judgement.design.fpr_eps) + _SLACK
        straddles = able and interval is not None and interval.low <= line < interval.high
        if straddles or achieved is None or few_runs:
            state = "straddles"
    return AchievedRecord(
        target=target,
        achieved=achieved,
        x_threshold=judgement.calibrated.deployed[target],
        x_answer="THRESHOLD" if finite else "ABSTAIN",
        x_achieved_pooled=pooled,
        x_interval=interval,
        x_alarming_runs=int((false > 0).sum()),
        x_budget_used=None if achieved is None else achieved / target,
        x_effective_budget=(
            effective_budget(target, m) if judgement.strict and m is not None else None
        ),
        x_within_budget=within,
        x_state=state,
        x_few_runs=few_runs,
    )


def _certify(judgement: Judgement) -> FloorRecord | None:
    """Why a target cannot be reached, but for the gaps, which ask for every rate."""
    top = extremes(judgement)
    known = top.counts > 0
    if not known.any():
        return None
    highest = float(top.negative[known].max())
    at_top = top.negative == highest
    counts, ties = top.counts[at_top], top.ties[at_top]
    tied = int(ties.sum())
    rate = tied / int(top.counts.sum())
    if judgement.strict:
        # Added up in the order of the windows, as in `NegativeScores.rate_sums`.
        rate = min(float(np.cumsum(np.repeat(1.0 / counts, ties))[-1] / known.sum()), 1.0)
    zero_reached = bool((top.positive > highest).any())
    line = min(judgement.design.fpr_targets) + judgement.design.fpr_eps + _SLACK
    return FloorRecord(
        f_min_pos=rate,
        tied_value=highest if tied > 1 else None,
        tied_windows=tied,
        zero_reached=zero_reached,
        floor=tied > 1 and not zero_reached and rate > line,
    )


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
    # D5: share of events without a warning at the primary operating point.
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
        x_achievable=_achievable(judgement.achievable_rates),
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
