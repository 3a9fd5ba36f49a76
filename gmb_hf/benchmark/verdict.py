"""The verdict: exactly one label a score, its reasons, and one plain sentence (spec 5).

`judge` measures every layer of one score in both units of counting and concludes; `judge_all` does
so for all candidates of a lock, whose p-values are adjusted together. Both return what
results.yaml stores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gmb_hf.base import escape
from gmb_hf.base.documents import Count, Many, Number, OpenSection
from gmb_hf.base.errors import InputError
from gmb_hf.base.stats import IntervalRecord, holm
from gmb_hf.benchmark.first_alarm import (
    RIVALS,
    FirstAlarmPointRecord,
    FirstAlarmRecord,
    OtherEventRecord,
    Rivals,
    VisibleRecord,
    ahead_of,
    alarm_steps,
    clock_of,
    measure,
)
from gmb_hf.benchmark.gates import (
    AGAINST_ALARM,
    BY_THE_LETTER,
    DESIGN_FAULT,
    NOT_STRICT,
    Findings,
    GateRecord,
    conclude,
    few_events,
    label_of,
    stability,
    within_reach,
)
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import (
    AchievedRecord,
    DiagnosticsRecord,
    LayerBRecord,
    diagnose,
    layer_b,
)
from gmb_hf.benchmark.ranking import LayerARecord, has_ranking_signal, layer_a
from gmb_hf.benchmark.records import (
    INCONCLUSIVE,
    NO_EVENT,
    SCOPE_LIMITED,
    SUPPORTED,
    Label,
    WhyNull,
    null_reasons,
    why_null,
)
from gmb_hf.benchmark.robustness import LayerDRecord, layer_d
from gmb_hf.benchmark.units import RunsCase, WindowsCase, runs_robustness
from gmb_hf.benchmark.utility import LayerCRecord, OperatingPointRecord, layer_c, operating_point
from gmb_hf.core.first_alarm import FirstAlarms
from gmb_hf.design.candidates import LEARNED_METRIC
from gmb_hf.design.strata import Facts, Stratum, event_facts

_NOT_DECLARED = WhyNull("not declared")
_NO_STRATUM_EVENT = WhyNull("no run of the stratum has an event")
_NO_STRATUM_NEGATIVE = WhyNull("no run of the stratum has a negative window")
_BY_RUNS_ONLY = WhyNull("no run belongs to the stratum, or first alarms are not judged")
_CAVEATS = {
    "shown": "This was shown by the judged runs alone, and holds of their system.",
    "rule": "It is a published rule as it stands: nothing was calibrated.",
}


class ScopeRecord(OpenSection):
    """The stratum that a `SCOPE_LIMITED` label is bound to."""

    name: str
    where: str


class StratumRecord(OpenSection):
    """What came out in one stratum, at the primary operating points of both units."""

    name: str
    where: str
    n_runs: Count
    n_events: Count
    passed: bool  # everything that a supported score must pass, with events enough
    reasons: Many[str] = ()
    sentence: str = ""
    gates: Many[GateRecord] = ()
    # By windows.
    ok_targets: Count | None = None  # |pooled rate - target| <= fpr_eps
    targets_met: Count | None = None  # by what decides, see `LayerBRecord.x_decided_by`
    achieved: Annotated[Number, _NO_STRATUM_NEGATIVE] = None
    interval: Annotated[IntervalRecord | None, _NO_STRATUM_NEGATIVE] = None
    coverage: Annotated[Number, _NO_STRATUM_EVENT] = None
    coverage_interval: Annotated[IntervalRecord | None, _NO_STRATUM_EVENT] = None
    chance: Annotated[Number, _NO_STRATUM_EVENT] = None  # coverage of the hardest baseline
    lead_time_median: Annotated[Number, WhyNull("no event of the stratum was detected")] = None
    p_value: Annotated[Number, _NO_STRATUM_EVENT] = None
    p_adjusted: Annotated[Number, _NO_STRATUM_EVENT] = None  # over the lock, strata included
    label_flip_rate: Annotated[
        Number, WhyNull("not measured, since something else already stands against it")
    ] = None
    # By runs.
    first_alarm: Annotated[FirstAlarmPointRecord | None, _BY_RUNS_ONLY] = None
    first_alarm_p_adjusted: Annotated[Number, _BY_RUNS_ONLY] = None


class IndicatorRecord(OpenSection):
    """One score, its four layers in both units of counting, and its one label."""

    name: str
    family: Annotated[str | None, _NOT_DECLARED]
    layer_A: LayerARecord
    layer_B: LayerBRecord
    layer_C: LayerCRecord
    layer_D: LayerDRecord
    label: Label
    diagnostics: DiagnosticsRecord = DiagnosticsRecord()
    x_sign: Annotated[Literal[1, -1] | None, _NOT_DECLARED] = None
    x_sees_test_labels: Annotated[bool | None, _NOT_DECLARED] = None
    x_knows_task: bool = False  # it, or a member of it, knows the operation or its Fourier basis
    x_alarm_eligible: bool | None = None
    x_reasons: Many[str] = ()  # codes of what stands against an alarm
    x_sentence: str = ""
    x_gates: Many[GateRecord] = ()  # of both units, by which the label was reached
    # Of layer C's primary point, Holm-adjusted over the candidates of the lock.
    x_p_adjusted: Annotated[Number, WhyNull(NO_EVENT)] = None
    # Held-out runs in total that settling it takes at least, if the rates stay as they are.
    x_runs_to_settle: Annotated[
        Count | None,
        WhyNull(
            lambda item: (
                "no number can be given" if item.label == INCONCLUSIVE else "the verdict is settled"
            )
        ),
    ] = None
    x_scope: Annotated[ScopeRecord | None, WhyNull("the label is not SCOPE_LIMITED")] = None
    x_strata: Many[StratumRecord] = ()
    # The same score by runs, as an operator meets it.
    x_first_alarm: Annotated[
        FirstAlarmRecord | None,
        WhyNull("only protocol strict counts by runs, with a lock that has thresholds for it"),
    ] = None
    x_null_reasons: dict[str, str] = Field(default_factory=dict)

    def __repr__(self) -> str:
        """One line: the name, its label, and whether it may raise an alarm."""
        able = ", may raise an alarm" if self.x_alarm_eligible else ""
        able = f", {BY_THE_LETTER}" if self.by_the_letter else able
        name = escape.cut(self.name, 60)
        return f"{type(self).__name__}({name!r}, {self.label}{able})"

    @property
    def by_the_letter(self) -> bool:
        """Whether it is supported by a protocol that noise can pass."""
        return self.label == SUPPORTED and NOT_STRICT in self.x_reasons

    @property
    def shown_label(self) -> str:
        """The label as tables show it: with the protocol where that is not strict."""
        return f"{self.label} (by the letter of v0.4)" if self.by_the_letter else self.label

    @property
    def group(self) -> Literal["monitor", "undeclared", "oracle", "control"]:
        """What kind of score it is: an oracle sees test labels, a control must be beaten."""
        if self.family == "control":
            return "control"
        if self.x_sees_test_labels is None:
            return "undeclared"
        return "oracle" if self.x_sees_test_labels else "monitor"

    def point(self, fpr: float) -> OperatingPointRecord | None:
        """The operating point at one target rate, or None."""
        return next((point for point in self.layer_C.at_fpr if point.fpr == fpr), None)

    def achieved(self, target: float) -> AchievedRecord | None:
        """What was measured at one target rate, or None."""
        return next((item for item in self.layer_B.achieved if item.target == target), None)

    def explained(self, why: Callable[[OpenSection, str], str] = why_null) -> Self:
        """The record with the reason for each null; `why` says it of a record and a field."""
        bare = self.model_copy(update={"x_null_reasons": {}})
        return bare.model_copy(update={"x_null_reasons": null_reasons(bare, why)})


def against_alarm(item: IndicatorRecord, protocol: str | None, *, locked: bool) -> tuple[str, ...]:
    """The codes of `AGAINST_ALARM` that hold for a score of an evaluation."""
    return _against(
        locked=locked,
        protocol=protocol,
        family=item.family,
        oracle=bool(item.x_sees_test_labels),
        fault=DESIGN_FAULT in item.x_reasons,
        by_runs=item.x_first_alarm is not None,
    )


def _against(
    *,
    locked: bool,
    protocol: str | None,
    family: str | None,
    oracle: bool,
    fault: bool,
    by_runs: bool,
) -> tuple[str, ...]:
    holds = (
        not locked,
        protocol != "strict",
        family == "control",
        oracle,
        fault,
        locked and protocol == "strict" and not by_runs,
    )
    return tuple(code for code, forbids in zip(AGAINST_ALARM, holds, strict=True) if forbids)


# All layers of one score, or of every candidate of a lock.

Variants = Mapping[str, Judgement]


def judge(
    judgement: Judgement,
    variants: Variants | None = None,
    *,
    facts: Facts | None = None,
    locked: bool = False,
) -> IndicatorRecord:
    """Judge one score on its own.

    Args:
        judgement: the score as declared.
        variants: the same score with other values of its own window (see `layer_d`).
        facts: numbers of each run by name, float64 [R], that the strata of the design
            ask for; the step of the event is known without them.
        locked: whether a lock fixed design and thresholds.

    Raises:
        InputError: the scores do not fit the design (see `score_windows`), or a stratum
            asks for a number that is not known.
    """
    name = judgement.evaluation.name
    return judge_all({name: judgement}, {name: variants or {}}, facts=facts, locked=locked)[name]


@dataclass(frozen=True)
class Declared:
    """What is declared of a score: its name, family, sign, and what it sees and knows."""

    name: str
    family: str | None = None
    sign: Literal[1, -1] = 1
    sees_test_labels: bool | None = None
    knows_task: bool = False


def judge_all(
    judgements: Mapping[str, Judgement],
    variants: Mapping[str, Variants] | None = None,
    *,
    controls: Collection[str] = (),
    facts: Facts | None = None,
    declared: Mapping[str, Declared] | None = None,
    other_events: Mapping[str, Sequence[OtherEventRecord]] | None = None,
    visible: Callable[[FirstAlarms], VisibleRecord] | None = None,
    locked: bool = False,
    most_runs: float = math.inf,
    on_done: Callable[[str], None] | None = None,
) -> dict[str, IndicatorRecord]:
    """Judge every candidate of a lock, p-values Holm-adjusted over all of them.

    Strata belong to the family: each candidate brings its p-value over all runs and one for each
    stratum.

    Args:
        judgements: each candidate by name.
        variants: its window variants by name, for those that have any.
        controls: names that stand in the tables for comparison and are no candidates; each is
            adjusted as if it alone had been added to the family.
        facts: as in `judge`.
        declared: what is declared of a score, by name.
        other_events: the first alarms of each score before other events, by name.
        visible: says what could be seen at first alarms; None where nobody can say.
        locked: whether a lock fixed design and thresholds; without, no score may raise an alarm.
        most_runs: most held-out runs that there may be in all; more are asked of nobody.
        on_done: called with the name of each score that is measured.
    """
    scores = {}
    for name, judgement in judgements.items():
        scores[name] = Measured.of(judgement, (variants or {}).get(name) or {}, facts or {})
        if on_done is not None:
            on_done(name)
    by_windows = adjust({name: one.p_values for name, one in scores.items()}, controls)
    counted = {name: one.run_p_values for name, one in scores.items() if one.by_runs}
    by_runs = adjust(counted, controls)
    rivals = rivals_of({name: scores[name].judgement for name in counted})
    learned = scores[LEARNED_METRIC].judgement if LEARNED_METRIC in counted else None
    found = {}
    for name, score in scores.items():
        known = (declared or {}).get(name, Declared(name))
        record = score.conclude(
            by_windows[name],
            by_runs.get(name, []),
            rivals={
                budget: {rival: hits for rival, hits in one.items() if rival != name}
                for budget, one in rivals.items()
            },
            declared=known,
            other_events=(other_events or {}).get(name, ()),
            visible=visible,
            learned=None if name == LEARNED_METRIC else learned,
            locked=locked,
            most_runs=0 if known.family == "control" or name in controls else most_runs,
        )
        for one in (score.judgement, *score.variants.values()):
            one.forget_smoothed()
        found[name] = record.explained()
    return found


def adjust(
    p_values: Mapping[str, Sequence[float | None]], controls: Collection[str]
) -> dict[str, list[float | None]]:
    """Holm over all candidates; each control as if it alone had been added to them."""
    family = [p for name, own in p_values.items() if name not in controls for p in own]
    adjusted = iter(holm(family))
    return {
        name: holm([*family, *own])[len(family) :]
        if name in controls
        else [next(adjusted) for _ in own]
        for name, own in p_values.items()
    }


def rivals_of(
    judgements: Mapping[str, Judgement],
) -> dict[float, dict[str, NDArray[np.bool_]]]:
    """What the controls among the scores detect, at each budget of runs.

    Where the clock is not among them, and no lock would have to know its threshold, it is added.
    """
    known = {name: judgements[name] for name in RIVALS if name in judgements}
    first = next(iter(judgements.values()), None)
    if first is not None and "clock" not in known and (timed := clock_of(first)):
        known["clock"] = timed
    found: dict[float, dict[str, NDArray[np.bool_]]] = {}
    for name, one in known.items():
        for budget in one.design.run_budgets:
            found.setdefault(budget, {})[name] = one.first_alarms(budget).detected
    return found


@dataclass(frozen=True, eq=False)
class Measured:
    """Every layer of one score; concluding waits for the p-values of the whole family."""

    judgement: Judgement
    layer_a: LayerARecord
    layer_b: LayerBRecord
    layer_c: LayerCRecord
    layer_d: LayerDRecord
    strata: tuple[MeasuredStratum, ...] = ()
    variants: Variants = field(default_factory=dict)

    @classmethod
    def of(cls, judgement: Judgement, variants: Variants, facts: Facts) -> Measured:
        """Measure all layers of a score, and B and C in each stratum; see `judge`."""
        if not judgement.n_runs:
            raise InputError(f"score {judgement.evaluation.name!r}: there is no run to judge")
        layers = layer_a(judgement), layer_b(judgement), layer_c(judgement)
        robust, strata = layer_d(judgement, variants), measure_strata(judgement, facts)
        return cls(judgement, *layers, robust, strata, variants)

    @property
    def by_runs(self) -> bool:
        """Whether first alarms are judged."""
        return self.judgement.counts_runs

    @property
    def primary(self) -> OperatingPointRecord:
        """Layer C at the primary operating point."""
        return self.layer_c.at(self.judgement.design.primary_fpr)

    @cached_property
    def fault(self) -> str:
        """What is wrong with the design, if its events are; else ""."""
        return design_fault(self.judgement)

    @property
    def p_values(self) -> list[float | None]:
        """By windows: over all runs, then in each stratum; None without events."""
        return [self.primary.x_p_value, *(part.p_value for part in self.strata)]

    @property
    def run_p_values(self) -> list[float | None]:
        """By runs, at the primary budget: over all runs, then in each stratum."""
        budget = self.judgement.design.primary_run_budget
        parts = (self.judgement, *(part.judgement for part in self.strata))
        return [part.first_alarms(budget).p_value for part in parts]

    def conclude(
        self,
        p_adjusted: Sequence[float | None],
        run_p_adjusted: Sequence[float | None],
        *,
        rivals: Mapping[float, Rivals],
        declared: Declared,
        other_events: Sequence[OtherEventRecord] = (),
        visible: Callable[[FirstAlarms], VisibleRecord] | None = None,
        learned: Judgement | None = None,
        locked: bool = False,
        most_runs: float = math.inf,
    ) -> IndicatorRecord:
        """Label the score, by the gates of both units.

        Args:
            p_adjusted, run_p_adjusted: the p-values, adjusted over all candidates (`adjust`).
            rivals: what the controls detect, at each budget.
            declared: what is declared of the score.
            other_events: the same score before other events.
            visible: says what could be seen at first alarms.
            learned: the combination of the event's metric alone, where it is another score.
            locked: whether a lock fixed design and thresholds.
            most_runs: as in `judge_all`; 0 where no number of runs may be said.
        """
        judgement, design = self.judgement, self.judgement.design
        beside = rivals.get(design.primary_run_budget, {})
        cases: list[RunsCase | WindowsCase] = [
            WindowsCase(judgement, self.layer_b, self.primary, p_adjusted[0])
        ]
        layers, first = [self.layer_d], None
        if self.by_runs:
            cases.insert(0, RunsCase(judgement, beside, run_p_adjusted[0]))
            first = self._first_alarm(run_p_adjusted, rivals, other_events, visible, learned)
            layers.insert(0, first.robustness)
        gates: list[GateRecord] = []
        for case, layer in zip(cases, layers, strict=True):
            gates += [*case.gates(), _stability(case, layer)]
        gates = within_reach(gates, 0 if self.fault else most_runs)
        strata = tuple(
            part.conclude(
                self.variants,
                p_adjusted[1 + number],
                run_p_adjusted[1 + number] if self.by_runs else None,
                {name: hits[part.rows] for name, hits in beside.items()},
            )
            for number, part in enumerate(self.strata)
        )
        # The first stratum that passes everything is the scope.
        scope = next((part for part in strata if part.passed), None)
        few = few_events(judgement.n_events, judgement.n_runs, design.event_count_min)
        passed = label_of(gates, few=few is not None) == SUPPORTED
        against = _against(
            locked=locked,
            protocol=design.protocol,
            family=declared.family,
            oracle=bool(declared.sees_test_labels),
            fault=bool(self.fault),
            by_runs=first is not None,
        )
        verdict = conclude(
            Findings(
                gates=gates,
                n_runs=judgement.n_runs,
                few=few,
                supported=[case.supported() for case in cases] if passed else [],
                unranked="" if has_ranking_signal(self.layer_a) else unranked(self.layer_a),
                below_chance=self.layer_a.auc is not None and self.layer_a.auc < 0.5,
                scope=_in_scope(scope, judgement.n_runs) if scope else "",
                fault=self.fault,
                against=against,
                most_runs=most_runs,
                caveats=[
                    text for text in (_CAVEATS.get(judgement.basis, ""), design.scope) if text
                ],
            )
        )
        limited = scope if verdict.label == SCOPE_LIMITED else None
        return IndicatorRecord(
            name=declared.name,
            family=declared.family,
            layer_A=self.layer_a,
            layer_B=self.layer_b,
            layer_C=self.layer_c,
            layer_D=self.layer_d,
            label=verdict.label,
            diagnostics=diagnose(judgement, coverage=self.primary.coverage),
            x_sign=declared.sign,
            x_sees_test_labels=declared.sees_test_labels,
            x_knows_task=declared.knows_task,
            x_alarm_eligible=verdict.label == SUPPORTED and not against,
            x_reasons=verdict.reasons,
            x_sentence=verdict.sentence,
            x_gates=tuple(gates),
            x_p_adjusted=p_adjusted[0],
            x_runs_to_settle=verdict.runs_to_settle,
            x_scope=ScopeRecord(name=limited.name, where=limited.where) if limited else None,
            x_strata=strata,
            x_first_alarm=first,
        )

    def _first_alarm(
        self,
        p_adjusted: Sequence[float | None],
        rivals: Mapping[float, Rivals],
        other_events: Sequence[OtherEventRecord],
        visible: Callable[[FirstAlarms], VisibleRecord] | None,
        learned: Judgement | None,
    ) -> FirstAlarmRecord:
        """The score by runs, as it is stored."""
        judgement, design = self.judgement, self.judgement.design
        primary = design.primary_run_budget
        alarms = judgement.first_alarms(primary)
        ahead = None
        if learned is not None and learned.run_calibrated.finite(primary):
            ahead = ahead_of(alarms, learned.first_alarms(primary), LEARNED_METRIC)
        return FirstAlarmRecord(
            basis=judgement.basis,
            calibration=design.calibration,
            p_adjusted=p_adjusted[0],
            at_budget=tuple(
                measure(judgement, budget, rivals.get(budget, {})) for budget in design.run_budgets
            ),
            robustness=runs_robustness(judgement, self.variants, rivals.get(primary, {})),
            alarm_steps=alarm_steps(alarms),
            other_events=tuple(other_events),
            visible=None if visible is None else visible(alarms),
            ahead=ahead,
        )


def _in_scope(part: StratumRecord, n_runs: int) -> str:
    of_all = f"{part.n_runs} of {n_runs} runs"
    return f"{part.where} ({part.name}: {of_all}): there, {part.sentence}"


def design_fault(judgement: Judgement) -> str:
    """What is wrong with a design whose events no score can detect, else "".

    An event can be detected where a monitored checkpoint lies within the horizon before it. It is
    a fault if that holds of fewer events than the coverage must reach, or of fewer than half.
    """
    design, events, scores = judgement.design, judgement.n_events, judgement.evaluation
    ahead = scores.event_step[:, None] - scores.steps
    seen = scores.present & (scores.steps >= design.burn_in)
    within_reach = int((seen & (ahead > 0) & (ahead <= design.horizon)).any(axis=1).sum())
    if within_reach >= max(design.coverage_min, 0.5) * events:
        return ""
    sooner = ", or a shorter x_burn_in" if design.burn_in else ""
    where = " or in the burn-in" if design.burn_in else ""
    return (
        f"The design is at fault: no alarm can come before {events - within_reach} of {events} "
        f"events, which fall on a first checkpoint{where}; set x_event_t_min or "
        f"x_theta_floor{sooner}"
    )


def unranked(layer_a: LayerARecord) -> str:
    """That a score does not rank, with its AUC."""
    auc = "undefined" if layer_a.auc is None else f"{layer_a.auc:.2f}"
    return f"it does not rank the windows before an event higher (AUC {auc})"


# Strata that the design names (`SCOPE_LIMITED`): layers B and C in each, by windows and by runs.


@dataclass(frozen=True, eq=False)
class MeasuredStratum:
    """One stratum before its p-values are adjusted; None is measured where no run belongs to it.

    Attributes:
        stratum: name and predicate.
        rows: int64, row numbers of its runs.
        judgement: of those runs.
        layer_b: measured on them.
        primary: layer C at the primary operating point.
    """

    stratum: Stratum
    rows: NDArray[np.int64]
    judgement: Judgement
    layer_b: LayerBRecord | None
    primary: OperatingPointRecord | None

    @property
    def p_value(self) -> float | None:
        """By windows, at the primary operating point; None without events."""
        return self.primary.x_p_value if self.primary else None

    def conclude(
        self,
        variants: Variants,
        p_adjusted: float | None,
        run_p_adjusted: float | None,
        rivals: Rivals,
    ) -> StratumRecord:
        """Whether the stratum passes everything that a supported score must pass.

        The rules are those of the verdict over all runs: events enough, and every gate of both
        units. Ranking, which is of all runs, is not asked for again. `variants` are of all runs;
        `rivals` are what the controls detect in the stratum.
        """
        part, gate, point = self.judgement, self.layer_b, self.primary
        design = part.design
        about: dict[str, Any] = {
            "name": self.stratum.name,
            "where": self.stratum.where,
            "n_runs": len(self.rows),
            "n_events": part.n_events,
            "ok_targets": gate.ok_targets if gate else 0,
            "targets_met": gate.n_met if gate else 0,
            "p_value": self.p_value,
            "p_adjusted": p_adjusted,
        }
        if gate is None or point is None:
            reasons, sentence = ("few_events",), "no run belongs to it"
            return StratumRecord(**about, passed=False, reasons=reasons, sentence=sentence)
        cases: list[RunsCase | WindowsCase] = [WindowsCase(part, gate, point, p_adjusted)]
        first = None
        if part.counts_runs:
            cases.insert(0, RunsCase(part, rivals, run_p_adjusted))
            first = measure(part, design.primary_run_budget, rivals)
        gates = [one for case in cases for one in case.gates()]
        few = few_events(part.n_events, part.n_runs, design.event_count_min)
        flip_rate = None
        if label_of(gates, few=few is not None) == SUPPORTED:
            inside = {name: one.select(self.rows) for name, one in variants.items()}
            layers = {case: case.robustness(inside) for case in reversed(cases)}
            gates += [_stability(case, layer) for case, layer in layers.items()]
            flip_rate = max(layer.label_flip_rate or 0.0 for layer in layers.values())
        passed = label_of(gates, few=few is not None) == SUPPORTED
        supported = [case.supported() for case in cases] if passed else []
        verdict = conclude(
            Findings(gates=gates, n_runs=part.n_runs, few=few, supported=supported, most_runs=0)
        )
        target = gate.at(design.primary_fpr)
        return StratumRecord(
            **about,
            passed=passed,
            reasons=verdict.reasons,
            sentence="; ".join(supported) or verdict.sentence,
            gates=tuple(within_reach(gates, 0)),
            achieved=target.achieved,
            interval=target.x_interval,
            coverage=point.coverage,
            coverage_interval=point.x_coverage_interval,
            chance=point.chance,
            lead_time_median=point.lead_time_median,
            label_flip_rate=flip_rate,
            first_alarm=first,
            first_alarm_p_adjusted=run_p_adjusted,
        )


def _stability(case: RunsCase | WindowsCase, layer: LayerDRecord) -> GateRecord:
    """Gate D of a case."""
    allowed = case.judgement.design.max_label_flip_rate
    return stability(case.unit, layer.label_flip_rate, layer.family_size, allowed)


def measure_strata(judgement: Judgement, facts: Facts) -> tuple[MeasuredStratum, ...]:
    """Layers B and C in each stratum of the design, in its order; see `judge` for `facts`.

    Raises:
        InputError: a predicate asks for a number that is not there.
    """
    known = {**event_facts(judgement.evaluation.event_step), **facts}
    found = []
    for stratum in judgement.design.strata:
        rows = np.flatnonzero(stratum.holds(known))
        part = judgement.select(rows)
        primary = part.design.primary_fpr
        layers = (layer_b(part), operating_point(part, primary)) if len(rows) else (None, None)
        found.append(MeasuredStratum(stratum, rows, part, *layers))
    return tuple(found)
