"""The verdict: exactly one label, its reasons, and one plain sentence (spec 5).

`judge` measures every layer of one score and concludes; `judge_all` does so for all candidates of a
lock, whose p-values are adjusted together. Both return what results.yaml stores.
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
from gmb_hf.base.stats import (
    BINOMIAL,
    BOOTSTRAP,
    IntervalRecord,
    holm,
    runs_for_zero,
    runs_to_clear,
)
from gmb_hf.benchmark.calibration import Judgement, runs_to_cross_fit
from gmb_hf.benchmark.first_alarm import OtherEventRecord
from gmb_hf.benchmark.operationality import (
    AchievedRecord,
    DiagnosticsRecord,
    LayerBRecord,
    bootstrap_rate,
    diagnose,
    layer_b,
    run_rates,
)
from gmb_hf.benchmark.ranking import LayerARecord, layer_a
from gmb_hf.benchmark.records import (
    INCONCLUSIVE,
    MAY,
    NO_EVENT,
    SCOPE_LIMITED,
    SUPPORTED,
    Label,
    OpenQuestion,
    WhyNull,
    null_reasons,
    why_null,
)
from gmb_hf.benchmark.robustness import LayerDRecord, layer_d
from gmb_hf.benchmark.rules import conclude, few_events, in_stratum
from gmb_hf.benchmark.run_verdict import FirstAlarmRecord, MeasuredRuns, rivals_of
from gmb_hf.benchmark.utility import (
    LayerCRecord,
    OperatingPointRecord,
    layer_c,
    operating_point,
    shortfalls,
)
from gmb_hf.design.design import Design
from gmb_hf.design.power import pass_line, runs_needed
from gmb_hf.design.strata import Facts, Stratum, event_facts

_NOT_DECLARED = WhyNull("not declared")
_NO_STRATUM_EVENT = WhyNull("no run of the stratum has an event")
_NO_STRATUM_NEGATIVE = WhyNull("no run of the stratum has a negative window")


class ScopeRecord(OpenSection):
    """The stratum that a `SCOPE_LIMITED` label is bound to."""

    name: str
    where: str


class StratumRecord(OpenSection):
    """What came out in one stratum, at the primary operating point."""

    name: str
    where: str
    n_runs: Count
    n_events: Count
    passed: bool  # everything that a supported score must pass, with events enough
    reasons: Many[str] = ()
    sentence: str = ""
    ok_targets: Count | None = None  # |achieved - target| <= fpr_eps
    targets_met: Count | None = None  # by what decides, see `LayerBRecord.x_decided_by`
    achieved: Annotated[Number, _NO_STRATUM_NEGATIVE] = None
    interval: Annotated[IntervalRecord | None, _NO_STRATUM_NEGATIVE] = None
    coverage: Annotated[Number, _NO_STRATUM_EVENT] = None
    coverage_interval: Annotated[IntervalRecord | None, _NO_STRATUM_EVENT] = None
    chance: Annotated[Number, _NO_STRATUM_EVENT] = None  # mean coverage of the hardest null
    lead_time_median: Annotated[Number, WhyNull("no event of the stratum was warned of")] = None
    p_value: Annotated[Number, _NO_STRATUM_EVENT] = None
    p_adjusted: Annotated[Number, _NO_STRATUM_EVENT] = None  # over the lock, strata included
    label_flip_rate: Annotated[
        Number, WhyNull("not measured, since something else already fails")
    ] = None


class IndicatorRecord(OpenSection):
    """One score, its four layers and its one label."""

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
    x_alarm_eligible: bool | None = None
    x_reasons: Many[str] = ()  # codes of what stands against an alarm
    x_sentence: str = ""
    # Of layer C's primary point, Holm-adjusted over the candidates of the lock.
    x_p_adjusted: Annotated[Number, WhyNull(NO_EVENT)] = None
    # Held-out runs in total that would settle an INCONCLUSIVE.
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
    # The same score by runs, as an operator meets it; in `strict` it decides what may act.
    x_first_alarm: Annotated[
        FirstAlarmRecord | None,
        WhyNull("only protocol strict counts by runs, with a lock that has thresholds for it"),
    ] = None
    x_null_reasons: dict[str, str] = Field(default_factory=dict)

    def __repr__(self) -> str:
        """One line: the name, both labels, and whether it may raise an alarm."""
        first = self.x_first_alarm
        by_runs = "" if first is None else f"by runs {first.label}, "
        able = ", may raise an alarm" if self.x_alarm_eligible else ""
        name = escape.cut(self.name, 60)
        return f"{type(self).__name__}({name!r}, {by_runs}by windows {self.label}{able})"

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

    def declared(
        self,
        name: str,
        *,
        family: str | None = None,
        sign: int = 1,
        sees_test_labels: bool | None = None,
        why: Callable[[OpenSection, str], str] = why_null,
    ) -> Self:
        """The record with what is declared of the score, and the reason for each null.

        Args:
            name: the score.
            family: as registered.
            sign: times the declared orientation.
            sees_test_labels: whether it is an oracle; None where that is not known.
            why: says why a field is null.
        """
        complete = self.model_copy(
            update={
                "name": name,
                "family": family,
                "x_sign": sign,
                "x_sees_test_labels": sees_test_labels,
                "x_null_reasons": {},
            }
        )
        return complete.model_copy(update={"x_null_reasons": null_reasons(complete, why)})


# All layers of one score, or of every candidate of a lock.

Variants = Mapping[str, Judgement]


def judge(
    judgement: Judgement, variants: Variants | None = None, *, facts: Facts | None = None
) -> IndicatorRecord:
    """Judge one score on its own.

    Args:
        judgement: the score as declared.
        variants: the same score with other values of its own window (see `layer_d`).
        facts: numbers of each run by name, float64 [R], that the strata of the design
            ask for; the step of the event is known without them.

    Raises:
        InputError: the scores do not fit the design (see `label_windows`), or a stratum
            asks for a number that is not known.
    """
    name = judgement.evaluation.name
    return judge_all({name: judgement}, {name: variants or {}}, facts=facts)[name]


def judge_all(
    judgements: Mapping[str, Judgement],
    variants: Mapping[str, Variants] | None = None,
    *,
    controls: Collection[str] = (),
    facts: Facts | None = None,
    declared: Mapping[str, Mapping[str, Any]] | None = None,
    other_events: Mapping[str, Sequence[OtherEventRecord]] | None = None,
    locked: bool = False,
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
        declared: what is declared of a score by name, as keywords of `IndicatorRecord.declared`.
        other_events: the first alarms of each score before other events, by name.
        locked: whether a lock fixed design and thresholds; without, no score may raise an alarm.
        on_done: called with the name of each score that is measured.
    """
    scores = {}
    for name, judgement in judgements.items():
        scores[name] = Measured.of(judgement, (variants or {}).get(name) or {}, facts or {})
        if on_done is not None:
            on_done(name)
    by_windows = adjust({name: one.p_values for name, one in scores.items()}, controls)
    counted = {name: one.runs for name, one in scores.items() if one.runs is not None}
    by_runs = adjust({name: one.p_values for name, one in counted.items()}, controls)
    rivals = rivals_of(counted)
    found = {}
    for name, score in scores.items():
        record = score.conclude(*by_windows[name])
        if name in counted:
            first = counted[name].conclude(
                *by_runs[name],
                rivals=rivals,
                fault=score.fault,
                other_events=(other_events or {}).get(name, ()),
            )
            record = record.model_copy(update={"x_first_alarm": first})
        for one in (score.judgement, *score.variants.values()):
            one.forget_smoothed()
        record = record.declared(**{"name": name, **(declared or {}).get(name, {})})
        found[name] = with_eligibility(record, score.judgement.design.protocol, locked=locked)
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


# Whether a score may raise an alarm: decided here, and nowhere else.

DESIGN_FAULT = "events_too_early"
"""Reason code: before most events no alarm can come, whatever the score."""

AGAINST_ALARM = {
    "not_locked": "exploratory: no lock fixed the design beforehand",
    "not_strict": "only protocol strict asks for more than chance gives",
    "control": "it is a control",
    "oracle": "it sees test labels: an oracle",
    DESIGN_FAULT: "the design is at fault",
    "no_first_alarm": "the lock is from before first alarms were judged: lock again",
}
"""What forbids an alarm whatever the label, by reason code."""


def against_alarm(item: IndicatorRecord, protocol: str | None, *, locked: bool) -> tuple[str, ...]:
    """The codes of `AGAINST_ALARM` that hold for a score of an evaluation."""
    holds = (
        not locked,
        protocol != "strict",
        item.family == "control",
        bool(item.x_sees_test_labels),
        DESIGN_FAULT in item.x_reasons,
        locked and protocol == "strict" and item.x_first_alarm is None,
    )
    return tuple(code for code, forbids in zip(AGAINST_ALARM, holds, strict=True) if forbids)


def with_eligibility(
    item: IndicatorRecord, protocol: str | None, *, locked: bool
) -> IndicatorRecord:
    """The record with `x_alarm_eligible`, and with the reasons and the sentence that belong to it.

    Eligible is what is SUPPORTED_FOR_ALARM by runs and has nothing of `AGAINST_ALARM` against it:
    whoever acts, acts on the first alarm.
    """
    codes, first = against_alarm(item, protocol, locked=locked), item.x_first_alarm
    why = [AGAINST_ALARM[code] for code in codes]

    def amended(sentence: str, against: Sequence[str]) -> str:
        refused = f"Passes every layer, but may not raise an alarm ({'; '.join(against)})"
        return sentence.replace(MAY, refused, 1) if against else sentence

    by_runs = [f"by runs it is {first.label}"] if first and first.label != SUPPORTED else []
    update: dict[str, Any] = {
        "x_alarm_eligible": first is not None and first.label == SUPPORTED and not codes,
        "x_reasons": tuple(dict.fromkeys((*item.x_reasons, *codes))),
        "x_sentence": amended(item.x_sentence, why or by_runs),
    }
    if first is not None:
        own = {
            "reasons": tuple(dict.fromkeys((*first.reasons, *codes))),
            "sentence": amended(first.sentence, why),
        }
        update["x_first_alarm"] = first.model_copy(update=own)
    return item.model_copy(update=update)


# The label, by the rules in their order.


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
    runs: MeasuredRuns | None = None

    @classmethod
    def of(cls, judgement: Judgement, variants: Variants, facts: Facts) -> Measured:
        """Measure all layers of a score, and B and C in each stratum; see `judge`."""
        if not judgement.evaluation.n_runs:
            raise InputError(f"score {judgement.evaluation.name!r}: there is no run to judge")
        layers = layer_a(judgement), layer_b(judgement), layer_c(judgement)
        robust, strata = layer_d(judgement, variants), measure_strata(judgement, facts)
        runs = None
        # A lock from before first alarms has no thresholds for them.
        if judgement.strict and judgement.run_thresholds != {}:
            parts = [(part.stratum, part.rows) for part in strata]
            runs = MeasuredRuns.of(judgement, layers[0], parts, variants)
        return cls(judgement, *layers, robust, strata, variants, runs)

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
        """Over all runs, then in each stratum; None without events."""
        return [self.primary.x_p_value, *(part.p_value for part in self.strata)]

    def conclude(self, p_adjusted: float | None, *p_strata: float | None) -> IndicatorRecord:
        """Label the score, in the order of the rules.

        Args:
            p_adjusted, p_strata: the `p_values`, adjusted over all candidates of the lock (`holm`).
        """
        judgement = self.judgement
        case = Case(judgement, self.layer_a, self.layer_b, self.primary, p_adjusted)
        strata = tuple(
            part.conclude(self.layer_a, self.variants, p)
            for part, p in zip(self.strata, p_strata, strict=True)
        )
        # The first stratum that passes everything is the scope.
        part, scope = next((part for part in strata if part.passed), None), ""
        if part:
            of_all = f"{part.n_runs} of {case.n_runs} runs"
            scope = f"{part.where} ({part.name}: {of_all}): there, {part.sentence}"
        found = conclude(case, self.layer_a, self.layer_d, scope=scope, fault=self.fault)
        limited = part if found.label == SCOPE_LIMITED else None
        return IndicatorRecord(
            name=judgement.evaluation.name,
            family=None,
            layer_A=self.layer_a,
            layer_B=self.layer_b,
            layer_C=self.layer_c,
            layer_D=self.layer_d,
            label=found.label,
            diagnostics=diagnose(judgement, coverage=self.primary.coverage),
            x_alarm_eligible=False,  # until `with_eligibility` says otherwise
            x_reasons=(DESIGN_FAULT, *found.reasons) if self.fault else found.reasons,
            x_sentence=found.sentence,
            x_p_adjusted=p_adjusted,
            x_runs_to_settle=found.runs_to_settle,
            x_scope=ScopeRecord(name=limited.name, where=limited.where) if limited else None,
            x_strata=strata,
        )


def design_fault(judgement: Judgement) -> str:
    """What is wrong with a design whose events no score can warn of, else "".

    An event can be warned of where a monitored checkpoint lies within the horizon before it. It is
    a fault if that holds of fewer events than the coverage must reach, or of fewer than half.
    """
    design, events, scores = judgement.design, judgement.n_events, judgement.evaluation
    ahead = scores.event_step[:, None] - scores.steps
    seen = scores.present & (scores.steps >= design.burn_in)
    within_reach = int((seen & (ahead > 0) & (ahead <= design.horizon)).any(axis=1).sum())
    if within_reach >= max(design.coverage_min, 0.5) * events:
        return ""
    sooner = ", or a shorter x_burn_in" if design.burn_in else ""
    return (
        f"The design is at fault: no alarm can come before {events - within_reach} of {events} "
        f"events, which fall on a first checkpoint{' or in the burn-in' * bool(sooner)}; set "
        f"x_event_t_min or x_theta_floor{sooner}"
    )


def uncontrolled(layer_b: LayerBRecord, least: int) -> str:
    """How many budgets hold, and how many must."""
    return f"{layer_b.n_met} of {len(layer_b.targets)} false-alarm budgets hold, {least} must"


def unranked(layer_a: LayerARecord) -> str:
    """That a score does not rank, with its AUC."""
    auc = "undefined" if layer_a.auc is None else f"{layer_a.auc:.2f}"
    return f"it does not rank the windows before an event higher (AUC {auc})"


@dataclass(frozen=True, eq=False)
class Case:
    """A score by windows, on all runs or on those of a stratum.

    Attributes:
        judgement: of these runs.
        layer_a: of all runs.
        layer_b, primary: of these runs; the primary operating point of layer C.
        p_adjusted: its p-value, adjusted over all candidates and strata of the lock.
    """

    judgement: Judgement
    layer_a: LayerARecord
    layer_b: LayerBRecord
    primary: OperatingPointRecord
    p_adjusted: float | None

    @property
    def design(self) -> Design:
        """What was fixed beforehand."""
        return self.judgement.design

    @property
    def n_runs(self) -> int:
        """How many of these runs there are."""
        return self.judgement.evaluation.n_runs

    def questions(self) -> list[OpenQuestion]:
        """Too few events; in `strict`, what the intervals do not decide.

        A layer that fails beyond doubt settles the verdict, whatever else is open: a floor at .5
        needs no more runs.
        """
        judgement, layer_b, primary = self.judgement, self.layer_b, self.primary
        design, n_runs = self.design, self.n_runs
        if few := few_events(judgement.n_events, self):
            return few
        least = design.min_targets_ok
        surely_possible = layer_b.surely_met + layer_b.open_targets >= least
        if not judgement.strict or layer_b.floor or not surely_possible:
            return []
        result = layer_b.at(primary.fpr)
        interval, minimum = primary.x_coverage_interval, design.coverage_min
        questions = []
        if interval is not None and primary.coverage is not None and not result.x_few_runs:
            if interval.high < minimum:
                return []
            if interval.low < minimum:
                text = (
                    f"coverage {primary.coverage:.2f} [{interval.low:.2f}, {interval.high:.2f}] "
                    f"straddles its minimum {minimum:.2f}"
                )
                runs = runs_to_clear(n_runs, primary.coverage, minimum, interval)
                questions.append(OpenQuestion("interval_straddles", text, runs))
        if layer_b.surely_met < least:
            questions += _budget_questions(judgement, layer_b)
        elif result.x_few_runs:
            questions.append(_target_question(judgement, result))
        return questions

    def faults(self) -> tuple[str, ...]:
        """The reason codes for which layers B and C do not pass; empty if they do."""
        gate, point = self.layer_b, self.primary
        found = {
            "fpr_floor": gate.floor,
            "fpr_uncontrolled": not gate.controlled,
            "few_runs": not gate.controlled and any(x.x_few_runs for x in gate.achieved),
        }
        worth = point.coverage, point.lead_time_median, self.p_adjusted
        reasons = (reason for reason, holds in found.items() if holds)
        return (*reasons, *shortfalls(self.judgement, *worth))

    def supported(self) -> str:
        """What speaks for the score, at its primary operating point."""
        point, gate = self.primary, self.layer_b
        return (
            f"at a budget of {point.fpr:.0%} false alarms it warned of {self._warned}{self._chance}"
            f", in the median {point.lead_time_median:g} steps ahead, and {gate.n_met} of "
            f"{len(gate.targets)} budgets held"
        )

    def clause(self, reason: str) -> str:
        """What a reason code means for this score."""
        design, gate, point = self.design, self.layer_b, self.primary
        if reason == "fpr_floor":
            certificate = gate.x_floor_certificate
            if certificate is None:
                return "it has no achievable false positive rate"
            tie, count = certificate.tied_value, certificate.tied_windows
            since = "" if tie is None else f", since {count} windows tie at {tie:g}"
            least = f"{certificate.f_min_pos:.3f}"
            return f"it cannot alarm at a false positive rate below {least}{since}"
        if reason == "fpr_uncontrolled":
            return uncontrolled(gate, design.min_targets_ok)
        if reason == "few_runs":
            short = ", ".join(f"{result.target:g}" for result in gate.achieved if result.x_few_runs)
            return f"too few calibration runs for a threshold at {short}"
        if reason == "coverage_low":
            return (
                f"it warned of {self._warned} at a budget of {point.fpr:.0%}, "
                f"{design.coverage_min:.0%} is the minimum"
            )
        if reason == "no_better_than_chance":
            p_value = "" if self.p_adjusted is None else f" (p = {self.p_adjusted:.3f})"
            return f"it warns no better than chance{self._chance}{p_value}"
        if reason == "lead_short":
            lead = point.lead_time_median
            known = (
                "no event is warned of" if lead is None else f"the median lead is {lead:g} steps"
            )
            return f"{known}, {design.lead_least:g} is the minimum"
        return unranked(self.layer_a)

    @property
    def _warned(self) -> str:
        share, n_events = self.primary.coverage, self.primary.x_n_events
        events = f"{n_events} event" + ("" if n_events == 1 else "s")
        return f"{'none' if share is None else f'{share:.0%}'} of {events}"

    @property
    def _chance(self) -> str:
        shares = [f"{null.mean_coverage:.0%}" for null in self.primary.nulls.values()]
        return f" (chance gives {' and '.join(shares)})" if shares else ""


# The power rule: how many held-out runs would settle what is open.


def _budget_questions(judgement: Judgement, layer_b: LayerBRecord) -> list[OpenQuestion]:
    """One question per open target; enough of them must be decided, the nearest first."""
    unsettled = [result for result in layer_b.achieved if result.x_state == "straddles"]
    asked = [_target_question(judgement, result) for result in unsettled]
    met, possible = layer_b.surely_met, layer_b.surely_met + len(asked)
    runs: int | None = 0
    least = judgement.design.min_targets_ok
    pairs = zip(asked, unsettled, strict=True)
    for question, result in sorted(pairs, key=lambda pair: pair[0].runs or math.inf):
        if met >= least or possible < least:
            break
        runs = question.runs
        within = bool(result.x_within_budget)
        met, possible = met + within, possible - (not within)
    return [question._replace(runs=runs) for question in asked]


def _target_question(judgement: Judgement, result: AchievedRecord) -> OpenQuestion:
    design, n_runs = judgement.design, judgement.evaluation.n_runs
    with_negatives, interval = judgement.negatives.n_runs, result.x_interval
    if not with_negatives or interval is None or result.achieved is None:
        text = (
            "no judged run has a negative window: none goes on past burn-in "
            f"{design.burn_in} to {design.safe_gap} steps before its event"
        )
        return OpenQuestion("no_negative_windows", text, None)
    if result.x_few_runs:
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
    line = pass_line(result.target, design.fpr_eps)
    text = (
        f"the rate {result.achieved:.3f} [{interval.low:.3f}, {interval.high:.3f}] at target "
        f"{result.target:g} straddles its line {line:g}"
    )
    runs = _runs_for_rate(judgement, result, interval, line)
    return OpenQuestion("interval_straddles", text, runs)


def _runs_for_rate(
    judgement: Judgement, result: AchievedRecord, interval: IntervalRecord, line: float
) -> int | None:
    """Runs after which the interval clears the line: its bootstrap, and what silence proves."""
    n_runs, rate = judgement.evaluation.n_runs, result.achieved or 0.0
    if interval.method == BOOTSTRAP:
        return runs_to_clear(n_runs, rate, line, interval)
    silent = math.ceil(n_runs * runs_for_zero(line) / judgement.negatives.n_runs)
    if interval.method == BINOMIAL:
        return silent
    sampled = bootstrap_rate(judgement, *run_rates(judgement, result.target))
    if sampled is None or not sampled.low <= line < sampled.high:
        return max(silent, n_runs + 1)
    enough = runs_to_clear(n_runs, rate, line, sampled)
    return None if enough is None else max(silent, enough)


# Strata that the design names (`SCOPE_LIMITED`): layers B and C in each.


@dataclass(frozen=True, eq=False)
class MeasuredStratum:
    """One stratum before its p-value is adjusted; None is measured where no run belongs to it.

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
        """Of the primary operating point; None without events."""
        return self.primary.x_p_value if self.primary else None

    def conclude(
        self, layer_a: LayerARecord, variants: Variants, p_adjusted: float | None
    ) -> StratumRecord:
        """Whether the stratum passes everything that a supported score must pass.

        The rules are those of the verdict over all runs, in their order: events enough, nothing
        left open, layers B and C. Layer D is measured only where all of that holds. Ranking
        (`layer_a`, of all runs) is not asked for again; `variants` are of all runs, too.
        """
        part, gate, point = self.judgement, self.layer_b, self.primary
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
        case = Case(part, layer_a, gate, point, p_adjusted)

        def robustness() -> LayerDRecord:
            return layer_d(part, {name: one.select(self.rows) for name, one in variants.items()})

        faults, sentence, rate = in_stratum(case, robustness)
        target = gate.at(part.design.primary_fpr)
        return StratumRecord(
            **about,
            passed=not faults,
            reasons=faults,
            sentence=sentence,
            achieved=target.achieved,
            interval=target.x_interval,
            coverage=point.coverage,
            coverage_interval=point.x_coverage_interval,
            chance=point.by_chance,
            lead_time_median=point.lead_time_median,
            label_flip_rate=rate,
        )


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
