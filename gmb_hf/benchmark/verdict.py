"""The verdict: exactly one label, its reasons, and one plain sentence (spec 5)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from gmb_hf.benchmark.calibration import Judgement, runs_to_cross_fit
from gmb_hf.benchmark.operationality import (
    LayerB,
    TargetResult,
    bootstrap_rate,
    layer_b,
    pass_line,
    run_rates,
)
from gmb_hf.benchmark.ranking import LayerA
from gmb_hf.benchmark.robustness import RANK_ONLY, SUPPORTED, LayerD, layer_d
from gmb_hf.benchmark.utility import LayerC, OperatingPoint, layer_c, shortfalls
from gmb_hf.design.design import Facts, Stratum, event_facts
from gmb_hf.design.power import runs_needed
from gmb_hf.documents import Record
from gmb_hf.stats import Interval, runs_for_zero


def supported(layer_b: LayerB, primary: OperatingPoint) -> str:
    """What speaks for the score, at its primary operating point."""
    return (
        f"at a budget of {primary.fpr:.0%} false alarms it warned of {_share(primary.coverage)} of "
        f"{_events(primary)}{_by_chance(primary)}, in the median "
        f"{primary.lead_time_median:g} steps ahead, and {layer_b.ok_targets} of "
        f"{len(layer_b.targets)} budgets held"
    )


def flips(layer_d: LayerD, allowed: float) -> str:
    """How often the label flips, and how often it may."""
    return (
        f"{layer_d.label_flip_rate:.0%} of {layer_d.family_size} admissible variants get another "
        f"label, {allowed:.0%} may"
    )


def clause(
    reason: str,
    judgement: Judgement,
    layer_a: LayerA,
    layer_b: LayerB,
    primary: OperatingPoint,
    p_adjusted: float | None,
) -> str:
    """What a reason code means for this score."""
    prereg = judgement.prereg
    if reason == "fpr_floor":
        return _floor(layer_b)
    if reason == "fpr_uncontrolled":
        return (
            f"{layer_b.ok_targets} of {len(layer_b.targets)} false-alarm budgets hold, "
            f"{prereg.min_targets_ok} must"
        )
    if reason == "few_runs":
        short = ", ".join(f"{result.target:g}" for result in layer_b.targets if result.few_runs)
        return f"too few calibration runs for a threshold at {short}"
    if reason == "coverage_low":
        return (
            f"it warned of {_share(primary.coverage)} of {_events(primary)} at a budget of "
            f"{primary.fpr:.0%}, {prereg.coverage_min:.0%} is the minimum"
        )
    if reason == "no_better_than_chance":
        p_value = "" if p_adjusted is None else f" (p = {p_adjusted:.3f})"
        return f"it warns no better than chance{_by_chance(primary)}{p_value}"
    if reason == "lead_short":
        lead = primary.lead_time_median
        known = "no event is warned of" if lead is None else f"the median lead is {lead:g} steps"
        return f"{known}, {prereg.lead_time_median_min:g} is the minimum"
    auc = "undefined" if layer_a.auc is None else f"{layer_a.auc:.2f}"
    return f"it does not rank the windows before an event higher (AUC {auc})"


def _floor(layer_b: LayerB) -> str:
    certificate = layer_b.certificate
    if certificate is None:
        return "it has no achievable false positive rate"
    tie = ""
    if certificate.tied_value is not None:
        tie = f", since {certificate.tied_windows} windows tie at {certificate.tied_value:g}"
    return f"it cannot alarm at a false positive rate below {certificate.f_min_pos:.3f}{tie}"


def _by_chance(primary: OperatingPoint) -> str:
    shift, risk = primary.shift_null, primary.risk_set_null
    if shift is None or risk is None:
        return ""
    return f" (chance gives {_share(shift.mean_coverage)} and {_share(risk.mean_coverage)})"


def _events(primary: OperatingPoint) -> str:
    return f"{primary.n_events} event" + ("" if primary.n_events == 1 else "s")


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.0%}"


# Layers B and C over the strata that a preregistration names (spec 5, `SCOPE_LIMITED`).


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
    for stratum in judgement.prereg.strata:
        rows = np.flatnonzero(stratum.holds(known))
        part = judgement.select(rows)
        layers = (layer_b(part), layer_c(part)) if len(rows) else (None, None)
        found.append(MeasuredStratum(stratum, rows, part, *layers))
    return tuple(found)


# The power rule: what is still open, and how many held-out runs would settle it.


# Beyond so many times the runs the estimate is a guess about a coin on its edge.
_FARTHEST = 100
# Normal quantiles: an interval of half-width 1.96 se around a fresh estimate clears the line with
# probability .8 when the truth lies 1.96 + .84 se away from it.
_POWER = 1 + 0.8416 / 1.9600


@dataclass(frozen=True)
class OpenQuestion:
    """Something that the held-out runs do not decide.

    Attributes:
        reason: its code.
        text: one clause for the sentence.
        runs: held-out runs in total that would settle the layer it belongs to; None where no
            number can be given.
    """

    reason: str
    text: str
    runs: int | None


def few_events(judgement: Judgement) -> OpenQuestion | None:
    """Fewer events than the preregistration asks for."""
    events, least = judgement.n_events, judgement.prereg.event_count_min
    if events >= least:
        return None
    runs = math.ceil(judgement.evaluation.n_runs * least / events) if events else None
    counted = "1 event is" if events == 1 else f"{events} events are"
    return OpenQuestion("few_events", f"{counted} fewer than {least}", runs)


def open_questions(
    judgement: Judgement, layer_b: LayerB, primary: OperatingPoint
) -> tuple[OpenQuestion, ...]:
    """What `strict` must leave open: empty where layers B and C are decided.

    A layer that fails beyond doubt settles the verdict, whatever else is open: a floor at .5 needs
    no more runs.
    """
    least = judgement.prereg.min_targets_ok
    possible = layer_b.surely_met + layer_b.open_targets
    if layer_b.fpr_floor_detected or possible < least:
        return ()
    coverage = _coverage_question(judgement, primary)
    interval, minimum = primary.coverage_interval, judgement.prereg.coverage_min
    untested = layer_b.at(primary.fpr).few_runs
    if coverage is None and not untested and interval is not None and interval.high < minimum:
        return ()
    questions = [] if coverage is None or untested else [coverage]
    if layer_b.surely_met < least:
        questions += _budget_questions(judgement, layer_b)
    elif untested:
        questions.append(_target_question(judgement, layer_b.at(primary.fpr)))
    return tuple(questions)


def _coverage_question(judgement: Judgement, primary: OperatingPoint) -> OpenQuestion | None:
    interval, minimum = primary.coverage_interval, judgement.prereg.coverage_min
    if interval is None or primary.coverage is None or not interval.low < minimum <= interval.high:
        return None
    runs = _runs_to_clear(judgement.evaluation.n_runs, primary.coverage, minimum, interval)
    text = (
        f"coverage {primary.coverage:.2f} [{interval.low:.2f}, {interval.high:.2f}] straddles "
        f"its minimum {minimum:.2f}"
    )
    return OpenQuestion("interval_straddles", text, runs)


def _budget_questions(judgement: Judgement, layer_b: LayerB) -> list[OpenQuestion]:
    """One question per open target; enough of them must be decided, the nearest first."""
    unsettled = [result for result in layer_b.targets if result.state == "straddles"]
    asked = [_target_question(judgement, result) for result in unsettled]
    met, possible = layer_b.surely_met, layer_b.surely_met + len(asked)
    runs: int | None = 0
    for question, result in sorted(
        zip(asked, unsettled, strict=True), key=lambda pair: pair[0].runs or math.inf
    ):
        if met >= judgement.prereg.min_targets_ok or possible < judgement.prereg.min_targets_ok:
            break
        runs = question.runs
        met, possible = met + result.met, possible - (not result.met)
    return [dataclasses.replace(question, runs=runs) for question in asked]


def _target_question(judgement: Judgement, result: TargetResult) -> OpenQuestion:
    with_negatives, n_runs = judgement.negatives.n_runs, judgement.evaluation.n_runs
    if not with_negatives or result.interval is None:
        prereg = judgement.prereg
        text = (
            "no held-out run has a negative window: none goes on past burn-in "
            f"{prereg.burn_in} to {prereg.safe_gap} steps before its event"
        )
        return OpenQuestion("no_negative_windows", text, None)
    if result.few_runs:
        found, needed = judgement.calibrated.n_runs, runs_needed(result.target)
        text = (
            f"a threshold for {result.target:g} takes {needed} calibration runs with negative "
            f"windows, there are {found}"
        )
        runs: int | None = None
        if judgement.calibrated.method == "cross_run":
            # These calibrate each other; further held-out runs help no other calibration.
            runs = math.ceil(runs_to_cross_fit(needed) * n_runs / with_negatives)
        return OpenQuestion("few_runs", text, runs)
    line = pass_line(result.target, judgement.prereg.fpr_eps)
    low, high = result.interval.low, result.interval.high
    text = (
        f"the rate {result.achieved:.3f} [{low:.3f}, {high:.3f}] at target {result.target:g} "
        f"straddles its line {line:g}"
    )
    return OpenQuestion("interval_straddles", text, _runs_for_rate(judgement, result, line))


def _runs_for_rate(judgement: Judgement, result: TargetResult, line: float) -> int | None:
    """Runs after which the interval clears the line: its bootstrap, and what silence proves."""
    interval, n_runs = result.interval, judgement.evaluation.n_runs
    if interval is None or result.achieved is None:
        return None
    if interval.method == "run bootstrap":
        return _runs_to_clear(n_runs, result.achieved, line, interval)
    silent = math.ceil(n_runs * runs_for_zero(line) / judgement.negatives.n_runs)
    if interval.method == "exact binomial":
        return silent
    sampled = bootstrap_rate(judgement, *run_rates(judgement, result.target))
    if sampled is None or not sampled.low <= line < sampled.high:
        return max(silent, n_runs + 1)
    enough = _runs_to_clear(n_runs, result.achieved, line, sampled)
    return None if enough is None else max(silent, enough)


def _runs_to_clear(n_runs: int, estimate: float, line: float, interval: Interval) -> int | None:
    distance = abs(line - estimate)
    reach = _POWER * (interval.high - estimate if estimate < line else estimate - interval.low)
    if distance * math.sqrt(_FARTHEST) <= reach:
        return None
    return math.ceil(n_runs * (reach / distance) ** 2)


INCONCLUSIVE, UNSTABLE = "INCONCLUSIVE", "ESTIMATOR_UNSTABLE"
SCOPE_LIMITED = "SCOPE_LIMITED"
LABELS = (SUPPORTED, RANK_ONLY, UNSTABLE, INCONCLUSIVE, SCOPE_LIMITED)


@dataclass(frozen=True)
class Scope(Record):
    """The stratum that a `SCOPE_LIMITED` verdict is bound to: its name and its predicate."""

    name: str
    where: str


@dataclass(frozen=True)
class Verdict(Record):
    """The answer about one score.

    Attributes:
        label: one of `LABELS`.
        reasons: codes of what stands against an alarm; empty for a supported score.
        sentence: the answer in words.
        alarm_eligible: whether the score may raise an alarm.
        p_adjusted: the p-value of layer C's primary point, Holm-adjusted over the lock's
            candidates; None without events.
        runs_to_settle: held-out runs in total that would settle an INCONCLUSIVE, where a number
            can be given.
        scope: where a SCOPE_LIMITED verdict holds.
    """

    label: str
    reasons: tuple[str, ...]
    sentence: str
    alarm_eligible: bool
    p_adjusted: float | None
    runs_to_settle: int | None
    scope: Scope | None = None


def conclude(
    judgement: Judgement,
    layer_a: LayerA,
    layer_b: LayerB,
    layer_c: LayerC,
    layer_d: LayerD,
    *,
    p_adjusted: float | None,
    strata: Sequence[StratumResult] = (),
) -> Verdict:
    """Label one score by its four layers, in the order of the rules.

    Args:
        judgement: what was judged.
        layer_a, layer_b, layer_c, layer_d: its layers.
        p_adjusted: the p-value after adjustment over all candidates of the lock (`holm`).
        strata: what came out in each stratum named in the lock, in its order; the first that
            passes everything is the scope.
    """
    primary = layer_c.primary
    scarce = few_events(judgement)
    if scarce is not None:
        return _inconclusive((scarce,), judgement, p_adjusted)
    if judgement.strict:
        questions = open_questions(judgement, layer_b, primary)
        if questions:
            return _inconclusive(questions, judgement, p_adjusted)

    allowed = judgement.prereg.max_label_flip_rate
    if layer_d.label_flip_rate > allowed:
        sentence = f"Not to be trusted either way: {flips(layer_d, allowed)}."
        return Verdict(UNSTABLE, ("label_flips",), sentence, False, p_adjusted, None)

    faults = faults_of(judgement, layer_b, primary, p_adjusted)
    if not faults:
        sentence = f"May raise an alarm: {supported(layer_b, primary)}."
        return Verdict(SUPPORTED, (), sentence, True, p_adjusted, None)
    reasons = (*faults, *(() if has_ranking_signal(layer_a) else ("no_ranking_signal",)))
    clauses = "; ".join(
        clause(code, judgement, layer_a, layer_b, primary, p_adjusted) for code in reasons
    )
    for part in strata:
        if part.passed:
            scope = Scope(part.name, part.where)
            sentence = (
                f"Holds only where {part.where} ({part.name}: {part.n_runs} of "
                f"{judgement.evaluation.n_runs} runs): there, {part.sentence}. Over all runs it "
                f"may not raise an alarm: {clauses}."
            )
            return Verdict(SCOPE_LIMITED, reasons, sentence, False, p_adjusted, None, scope)
    sentence = f"May not raise an alarm: {clauses}."
    return Verdict(RANK_ONLY, reasons, sentence, False, p_adjusted, None)


def has_ranking_signal(layer_a: LayerA) -> bool:
    """Whether the score ranks above chance: pooled AUC over .5, and the runs' mean surely too.

    Surely: the lower end of the 95% Student interval over runs, where two runs have an AUC.
    """
    if layer_a.auc is None or layer_a.auc <= 0.5:
        return False
    if layer_a.auc_run_mean is None or layer_a.auc_run_sd is None:
        return True
    reach = stdtrit(layer_a.n_runs - 1, 0.975) * layer_a.auc_run_sd / np.sqrt(layer_a.n_runs)
    return bool(layer_a.auc_run_mean - reach > 0.5)


def faults_of(
    judgement: Judgement, layer_b: LayerB, primary: OperatingPoint, p_adjusted: float | None
) -> tuple[str, ...]:
    """The reason codes for which layers B and C do not pass; empty if they do."""
    found = []
    if layer_b.fpr_floor_detected:
        found.append("fpr_floor")
    if not layer_b.controllability_pass:
        short = any(result.few_runs for result in layer_b.targets)
        found += ["fpr_uncontrolled", *(["few_runs"] if short else [])]
    useful = shortfalls(judgement, primary.coverage, primary.lead_time_median, p_adjusted)
    return (*found, *useful)


def _inconclusive(
    questions: Sequence[OpenQuestion], judgement: Judgement, p_adjusted: float | None
) -> Verdict:
    numbers = [question.runs for question in questions]
    runs = max((n for n in numbers if n is not None), default=None)
    settles = None if runs is None or None in numbers else runs
    texts = dict.fromkeys(question.text for question in questions)
    sentence = f"Not decided: {'; '.join(texts)}"
    if settles is not None:
        more = settles - judgement.evaluation.n_runs
        sentence += f"; about {settles} held-out runs ({more} more) would settle it"
    reasons = tuple(dict.fromkeys(question.reason for question in questions))
    return Verdict(INCONCLUSIVE, reasons, f"{sentence}.", False, p_adjusted, settles)


# Whether a stratum that the lock names passes everything: what makes a score `SCOPE_LIMITED`.


def conclude_stratum(
    measured: MeasuredStratum,
    layer_a: LayerA,
    variants: Mapping[str, Judgement],
    *,
    p_adjusted: float | None,
) -> StratumResult:
    """Whether a stratum passes everything that a supported score must pass.

    The rules are those of the verdict over all runs, in their order: events enough, nothing left
    open, layers B and C. Layer D is measured only where all of that holds.

    Args:
        measured: its layers.
        layer_a: of all runs; ranking is not asked for again.
        variants: the score with other values of its own window, over all runs.
        p_adjusted: the stratum's p-value, adjusted over all candidates and strata of the lock.
    """
    part, gate, utility = measured.judgement, measured.layer_b, measured.layer_c
    if gate is None or utility is None:
        return _result(measured, ("few_events",), "no run belongs to it", p_adjusted)
    point = utility.primary
    scarce = few_events(part)
    questions = (scarce,) if scarce else open_questions(part, gate, point) if part.strict else ()
    if questions:
        reasons = tuple(dict.fromkeys(question.reason for question in questions))
        sentence = "; ".join(question.text for question in questions)
        return _result(measured, reasons, sentence, p_adjusted)
    reasons = faults_of(part, gate, point, p_adjusted)
    if reasons:
        clauses = (clause(code, part, layer_a, gate, point, p_adjusted) for code in reasons)
        return _result(measured, reasons, "; ".join(clauses), p_adjusted)
    robust = layer_d(part, {name: one.select(measured.rows) for name, one in variants.items()})
    allowed, rate = part.prereg.max_label_flip_rate, robust.label_flip_rate
    if rate > allowed:
        return _result(measured, ("label_flips",), flips(robust, allowed), p_adjusted, rate)
    return _result(measured, (), supported(gate, point), p_adjusted, rate)


def _result(
    measured: MeasuredStratum,
    reasons: tuple[str, ...],
    sentence: str,
    p_adjusted: float | None,
    label_flip_rate: float | None = None,
) -> StratumResult:
    gate: LayerB | None = measured.layer_b
    target = gate.at(measured.judgement.prereg.primary_fpr) if gate else None
    point: OperatingPoint | None = measured.layer_c.primary if measured.layer_c else None
    return StratumResult(
        name=measured.stratum.name,
        where=measured.stratum.where,
        n_runs=len(measured.rows),
        n_events=measured.judgement.n_events,
        passed=not reasons,
        reasons=reasons,
        sentence=sentence,
        ok_targets=gate.ok_targets if gate else 0,
        achieved=target.achieved if target else None,
        interval=target.interval if target else None,
        coverage=point.coverage if point else None,
        coverage_interval=point.coverage_interval if point else None,
        chance=point.by_chance if point else None,
        lead_time_median=point.lead_time_median if point else None,
        p_value=measured.p_value,
        p_adjusted=p_adjusted,
        label_flip_rate=label_flip_rate,
    )
