"""Whether a stratum that the lock names passes everything: what makes a score `SCOPE_LIMITED`."""

from __future__ import annotations

from collections.abc import Mapping

from gmb_hf.benchmark.discrimination import LayerA
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import LayerB
from gmb_hf.benchmark.power import few_events, open_questions
from gmb_hf.benchmark.robustness import layer_d
from gmb_hf.benchmark.strata import MeasuredStratum, StratumResult
from gmb_hf.benchmark.utility import OperatingPoint
from gmb_hf.benchmark.verdict import faults_of
from gmb_hf.benchmark.wording import clause, flips, supported


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
