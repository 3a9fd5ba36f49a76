"""The verdict: exactly one label, its reasons, and one plain sentence (spec 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from gmb_hf.benchmark.discrimination import LayerA
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import LayerB
from gmb_hf.benchmark.power import OpenQuestion, few_events, open_questions
from gmb_hf.benchmark.record import Record
from gmb_hf.benchmark.robustness import RANK_ONLY, SUPPORTED, LayerD
from gmb_hf.benchmark.strata import StratumResult
from gmb_hf.benchmark.utility import LayerC, OperatingPoint, shortfalls
from gmb_hf.benchmark.wording import clause, flips, supported

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
