"""The verdict on one score by runs: what its first alarms show, its robustness and its label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from gmb_hf.base.documents import Count, Many, Number, OpenSection
from gmb_hf.base.stats import exact_binomial, runs_to_clear
from gmb_hf.benchmark.calibration import Basis, Judgement
from gmb_hf.benchmark.first_alarm import (
    BLIND,
    RIVALS,
    SLACK,
    FirstAlarmPointRecord,
    FirstAlarms,
    OtherEventRecord,
    Rivals,
    clock_of,
    count_tails,
    first_alarms,
    gate,
    measure,
)
from gmb_hf.benchmark.ranking import LayerARecord
from gmb_hf.benchmark.records import (
    NO_EVENT,
    NO_NEGATIVE,
    RANK_ONLY,
    SCOPE_LIMITED,
    SUPPORTED,
    Label,
    OpenQuestion,
    WhyNull,
)
from gmb_hf.benchmark.robustness import LayerDRecord, MemberRecord, run_groups
from gmb_hf.benchmark.rules import conclude, few_events, in_stratum
from gmb_hf.design.design import Design
from gmb_hf.design.power import in_words, runs_to_promise, shown_line
from gmb_hf.design.strata import Stratum

_CAVEATS = {
    "shown": "This was shown on another system than the lock's, and holds of that one alone.",
    "rule": "It is a published rule as it stands: nothing was calibrated.",
}


class FirstAlarmStratumRecord(OpenSection):
    """What came out in one stratum, at the primary budget."""

    name: str
    where: str
    passed: bool
    reasons: Many[str] = ()
    sentence: str = ""
    p_adjusted: Annotated[Number, WhyNull("no run of the stratum has an event")] = None
    at: FirstAlarmPointRecord | None = None


class FirstAlarmRecord(OpenSection):
    """One score by runs: the measure, its robustness and its label."""

    label: Label
    reasons: Many[str] = ()
    sentence: str = ""
    basis: Basis
    calibration: Literal["marginal", "conditional"]
    p_adjusted: Annotated[Number, WhyNull(NO_EVENT)] = None  # Holm, over the candidates of the lock
    at_budget: Many[FirstAlarmPointRecord]
    robustness: LayerDRecord
    # At the primary budget, of each judged run in their order: its first alarm, null without one.
    alarm_steps: Many[FiniteFloat | None] = ()
    runs_to_settle: Annotated[
        Count | None, WhyNull("the verdict is settled, or no number can be given")
    ] = None
    strata: Many[FirstAlarmStratumRecord] = ()
    scope: Annotated[str | None, WhyNull("the label is not SCOPE_LIMITED")] = None
    other_events: Many[OtherEventRecord] = ()

    def at(self, budget: float) -> FirstAlarmPointRecord:
        """The point at one budget."""
        return next(point for point in self.at_budget if point.budget == budget)


# What the rules are asked of.


@dataclass(frozen=True, eq=False)
class Case:
    """The first alarms of a score on all runs, or on those of a stratum.

    Attributes:
        judgement: of all runs.
        alarms: at each budget, of these runs.
        rivals: at the primary budget, of these runs.
        p_adjusted: at the primary budget, adjusted over all candidates and strata of the lock.
    """

    judgement: Judgement
    alarms: Mapping[float, FirstAlarms]
    rivals: Rivals
    p_adjusted: float | None

    @property
    def design(self) -> Design:
        """What was fixed beforehand."""
        return self.judgement.design

    @property
    def primary(self) -> FirstAlarms:
        """At the budget that decides."""
        return self.alarms[self.design.primary_run_budget]

    @property
    def n_runs(self) -> int:
        """How many of these runs there are."""
        return len(self.primary.step)

    @cached_property
    def states(self) -> dict[float, str]:
        """Of each budget: met, missed or straddles."""
        shown = self.judgement.basis != "promised"
        return {
            budget: gate(one.false_interval, budget, finite=self._finite(budget), shown=shown)
            for budget, one in self.alarms.items()
        }

    def _finite(self, budget: float) -> bool:
        return bool(np.isfinite(self.judgement.run_calibrated.thresholds[budget]).all())

    @property
    def least_met(self) -> int:
        """How many budgets must hold, the primary one among them."""
        return min(self.design.min_targets_ok, len(self.alarms))

    @cached_property
    def controlled(self) -> bool:
        """Whether enough budgets hold by the points, the primary one among them."""
        held = {budget: self._holds(budget) for budget in self.alarms}
        return held[self.design.primary_run_budget] and sum(held.values()) >= self.least_met

    def _holds(self, budget: float) -> bool:
        if self.states[budget] != "straddles" or not self._finite(budget):
            return self.states[budget] == "met"
        one = self.alarms[budget]
        return bool(one.n_runs) and one.n_false / one.n_runs <= shown_line(budget) + SLACK

    def questions(self) -> list[OpenQuestion]:
        """What is left open: reason code, clause, and how many held-out runs would settle it."""
        alarms, design = self.primary, self.design
        if few := few_events(alarms.n_events, self):
            return few
        counts = Counter(self.states.values())
        surely, possible = counts["met"], counts["met"] + counts["straddles"]
        primary = self.states[design.primary_run_budget]
        if primary == "missed" or possible < self.least_met:
            return []
        found: list[OpenQuestion] = []
        interval = exact_binomial(alarms.n_warned, alarms.n_events)
        if self._finite(design.primary_run_budget):
            if interval.high < design.warned_min:
                return []
            if interval.low < design.warned_min:
                share = alarms.n_warned / alarms.n_events
                text = (
                    f"the share warned of, {share:.2f} [{interval.low:.2f}, {interval.high:.2f}], "
                    f"straddles its minimum {design.warned_min:.2f}"
                )
                runs = runs_to_clear(self.n_runs, share, design.warned_min, interval)
                found.append(OpenQuestion("interval_straddles", text, runs))
        if primary == "straddles" or surely < self.least_met:
            found += [self._budget_question(budget) for budget in self._open()]
        return found

    def _open(self) -> list[float]:
        return [budget for budget, state in self.states.items() if state == "straddles"]

    def _budget_question(self, budget: float) -> OpenQuestion:
        found, design = self.judgement.run_calibrated, self.design
        if not self._finite(budget):
            needed = runs_to_promise(budget, design.calibration)
            text = (
                f"a threshold for {in_words(budget)} takes {needed} calibration runs with negative "
                f"windows, there are {found.n_runs}"
            )
            return OpenQuestion("few_runs", text, None)
        one, line = self.alarms[budget], shown_line(budget)
        interval = one.false_interval
        if interval is None:
            return OpenQuestion("no_negative_windows", NO_NEGATIVE, None)
        share = one.n_false / one.n_runs
        text = (
            f"false alarms in {share:.3f} of runs [{interval.low:.3f}, {interval.high:.3f}] "
            f"straddle the line {line:g} of the budget {budget:g}"
        )
        runs = runs_to_clear(self.n_runs, share, line, interval)
        return OpenQuestion("interval_straddles", text, runs)

    def faults(self) -> tuple[str, ...]:
        """The reason codes that stand against an alarm; empty if nothing does."""
        alarms, design, share = self.primary, self.design, self.primary.warned_share
        events = alarms.has_event
        beaten = self.p_adjusted is not None and self.p_adjusted <= design.alpha_per_look
        lead = median(alarms.leads.tolist()) if alarms.n_warned else None
        found = {
            "runs_uncontrolled": not self.controlled,
            "warned_low": share is None or share < design.warned_min - SLACK,
            "no_better_than_blind": not beaten,
        }
        for name, warned in self.rivals.items():
            found[f"no_better_than_{name}"] = alarms.n_warned <= int(warned[events].sum())
        found["lead_short"] = lead is None or lead < design.lead_least
        return tuple(code for code, holds in found.items() if holds)

    def supported(self) -> str:
        """What speaks for the score."""
        alarms = self.primary
        lead = f"{float(np.median(alarms.leads)):g} steps" if alarms.n_warned else "no step"
        return (
            f"with a budget of {in_words(alarms.budget)} falsely alarmed, its first alarm warned "
            f"of {self._warned}{self._compared}, in the median {lead} ahead; "
            f"{alarms.n_false} of {alarms.n_runs} runs had a false alarm"
        )

    def clause(self, code: str) -> str:
        """What a reason code means for this score."""
        alarms, design = self.primary, self.design
        if code == "runs_uncontrolled":
            held = sum(self._holds(budget) for budget in self.alarms)
            return (
                f"{alarms.n_false} of {alarms.n_runs} runs have a false alarm at a budget of "
                f"{in_words(alarms.budget)}, and {held} of {len(self.alarms)} budgets hold"
            )
        if code == "warned_low":
            return f"its first alarm warned of {self._warned}, {design.warned_min:.0%} is least"
        if code == "no_better_than_blind":
            p_value = "" if self.p_adjusted is None else f" (p = {self.p_adjusted:.3f})"
            return f"it warns no better than a blind alarm{self._compared}{p_value}"
        if code.startswith("no_better_than_"):
            name = code.removeprefix("no_better_than_")
            share = self.rivals[name][alarms.has_event].mean()
            return f"{RIVALS.get(name, name)} warns of {share:.0%} at the same budget"
        if code == "lead_short":
            lead = f"{float(np.median(alarms.leads)):g}" if alarms.n_warned else "no"
            return f"the median lead is {lead} steps, {design.lead_least:g} is the minimum"
        return "it does not rank the windows before an event higher"

    @property
    def _warned(self) -> str:
        share, events = self.primary.warned_share, self.primary.n_events
        return f"{share or 0:.0%} of {events} event" + "s" * (events != 1)

    @property
    def _compared(self) -> str:
        shares = [f"{blind.warned:.0%}" for blind in self.primary.blind.values()]
        return f" (blind alarms of that cost: {' and '.join(shares)})" if shares else ""


def point_verdicts(cases: Mapping[str, Case]) -> list[MemberRecord]:
    """The label that the point estimates alone give each: supported if nothing stands against it.

    The p-values are asked for only where nothing else does, of all these cases at once.
    """
    useful = {
        name: case.primary
        for name, case in cases.items()
        if case.controlled and case.faults() == ("no_better_than_blind",)
    }
    tails = count_tails(
        [chances for one in useful.values() for chances in one.chances.values()],
        [one.n_warned for one in useful.values() for _ in one.chances],
    )
    p_values = dict(zip(useful, tails.reshape(-1, len(BLIND)).max(axis=1), strict=True))
    return [
        MemberRecord(
            name=name,
            label=SUPPORTED if p_values.get(name, 1) <= case.design.alpha_per_look else RANK_ONLY,
            layer_b_pass=case.controlled,
        )
        for name, case in cases.items()
    ]


# All of one score: every budget, its strata and its family; concluding waits for the p-values of
# all candidates, and for what the rivals warn of.

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MeasuredRuns:
    """The first alarms of one score.

    Attributes:
        judgement: the score as declared.
        layer_a: its ranking.
        alarms: by budget.
        strata: of the design, each with the row numbers of its runs.
        variants: the same score with other values of its own window, by name.
    """

    judgement: Judgement
    layer_a: LayerARecord
    alarms: Mapping[float, FirstAlarms]
    strata: Sequence[tuple[Stratum, Rows]]
    variants: Mapping[str, Judgement]

    @classmethod
    def of(
        cls,
        judgement: Judgement,
        layer_a: LayerARecord,
        strata: Sequence[tuple[Stratum, Rows]] = (),
        variants: Mapping[str, Judgement] | None = None,
    ) -> MeasuredRuns:
        """Find the first alarms at every budget of the design."""
        return cls(judgement, layer_a, first_alarms(judgement), strata, variants or {})

    @property
    def primary(self) -> FirstAlarms:
        """At the budget that decides."""
        return self.alarms[self.judgement.design.primary_run_budget]

    @cached_property
    def in_strata(self) -> list[dict[float, FirstAlarms]]:
        """By budget, those of the runs of each stratum."""
        return [
            {budget: one.select(rows) for budget, one in self.alarms.items()}
            for _, rows in self.strata
        ]

    @property
    def p_values(self) -> list[float | None]:
        """At the primary budget over all runs, then in each stratum; None without events."""
        primary = self.judgement.design.primary_run_budget
        return [alarms[primary].p_value for alarms in (self.alarms, *self.in_strata)]

    def alone(self) -> LayerDRecord:
        """The robustness of the label of this score on its own, beside the clock if it can be."""
        name, design = self.judgement.evaluation.name, self.judgement.design
        beside = rivals_of({name: self}).get(design.primary_run_budget, {})
        return self._robustness(self.judgement.evaluation.n_runs, beside)

    def conclude(
        self,
        p_adjusted: float | None,
        *p_strata: float | None,
        rivals: Mapping[float, Rivals],
        fault: str = "",
        other_events: Sequence[OtherEventRecord] = (),
    ) -> FirstAlarmRecord:
        """Label the score, in the order of the rules.

        Args:
            p_adjusted, p_strata: the `p_values`, adjusted over all candidates of the lock.
            rivals: what the controls warn of, at each budget.
            fault: a sentence about a design under which no score can pass, if it is one.
            other_events: the same score before other events.
        """
        judgement, design = self.judgement, self.judgement.design
        own = judgement.evaluation.name
        rivals = {
            budget: {name: warned for name, warned in one.items() if name != own}
            for budget, one in rivals.items()
        }
        beside = rivals.get(design.primary_run_budget, {})
        case = Case(judgement, self.alarms, beside, p_adjusted)
        robustness = self._robustness(judgement.evaluation.n_runs, beside)
        strata = tuple(
            self._in_stratum(stratum, rows, alarms, beside, p)
            for (stratum, rows), alarms, p in zip(
                self.strata, self.in_strata, p_strata, strict=True
            )
        )
        # The first stratum that passes everything is the scope.
        part = next((part for part in strata if part.passed), None)
        found = conclude(
            case,
            self.layer_a,
            robustness,
            scope=f"{part.where} ({part.name}): there, {part.sentence}" if part else "",
            fault=fault,
            caveat=_CAVEATS.get(judgement.basis, ""),
        )
        finite = np.isfinite(self.primary.step)
        steps = np.where(finite, self.primary.step, 0.0).tolist()
        return FirstAlarmRecord(
            label=found.label,
            reasons=found.reasons,
            sentence=found.sentence,
            basis=judgement.basis,
            calibration=design.calibration,
            p_adjusted=p_adjusted,
            at_budget=tuple(
                measure(judgement, one, rivals.get(budget, {}))
                for budget, one in self.alarms.items()
            ),
            robustness=robustness,
            alarm_steps=tuple(
                step if alarmed else None for step, alarmed in zip(steps, finite, strict=True)
            ),
            runs_to_settle=found.runs_to_settle,
            strata=strata,
            scope=part.name if part and found.label == SCOPE_LIMITED else None,
            other_events=tuple(other_events),
        )

    def _in_stratum(
        self,
        stratum: Stratum,
        rows: Rows,
        alarms: Mapping[float, FirstAlarms],
        rivals: Rivals,
        p_adjusted: float | None,
    ) -> FirstAlarmStratumRecord:
        """Whether a stratum passes everything that a supported score must pass."""
        beside = {name: warned[rows] for name, warned in rivals.items()}
        case = Case(self.judgement, alarms, beside, p_adjusted)
        faults, sentence, _ = in_stratum(case, lambda: self._robustness(len(rows), beside, rows))
        return FirstAlarmStratumRecord(
            name=stratum.name,
            where=stratum.where,
            passed=not faults,
            reasons=faults,
            sentence=sentence,
            p_adjusted=p_adjusted,
            at=measure(self.judgement, case.primary, beside) if len(rows) else None,
        )

    def _robustness(self, n_runs: int, rivals: Rivals, rows: Rows | None = None) -> LayerDRecord:
        """The verdict again over the family: windows, smoothing, one group of runs left out.

        The horizon is no setting here: it decides what is timely, and no label. Members are
        labelled by their point verdict.
        """
        chosen = np.arange(n_runs) if rows is None else rows
        groups = run_groups(n_runs, self.judgement.design.run_groups)
        cases = {"central": self._case(self.judgement, self.alarms, rivals, chosen, None)}
        for name, judgement in self._settings():
            alarms = self.alarms if judgement is self.judgement else first_alarms(judgement)
            for left_out in range(int(groups.max(initial=-1)) + 1):
                kept = np.flatnonzero(groups != left_out)
                label = f"{name},without={left_out}" if len(kept) else name
                inside = kept if len(kept) else np.arange(n_runs)
                cases[label] = self._case(judgement, alarms, rivals, chosen, inside)
        central, *members = point_verdicts(cases)
        return LayerDRecord.of(central, members)

    def _settings(self) -> Iterator[tuple[str, Judgement]]:
        """Each window and smoothing, on all runs."""
        for smooth in self.judgement.design.smoothing_sweep:
            for name, one in (self.variants or {"": self.judgement}).items():
                yield f"{name},smooth={smooth}".lstrip(","), one.smoothed(smooth)

    def _case(
        self,
        judgement: Judgement,
        alarms: Mapping[float, FirstAlarms],
        rivals: Rivals,
        rows: Rows,
        kept: Rows | None,
    ) -> Case:
        """Some of the runs; `kept` are places among `rows`."""
        chosen = rows if kept is None else rows[kept]
        part = {budget: one.select(chosen) for budget, one in alarms.items()}
        places = np.arange(len(rows)) if kept is None else kept
        beside = {rival: warned[places] for rival, warned in rivals.items()}
        return Case(judgement, part, beside, None)


def rivals_of(scores: Mapping[str, MeasuredRuns]) -> dict[float, dict[str, NDArray[np.bool_]]]:
    """What the controls among the scores warn of, at each budget.

    Where the clock is not among them, and no lock would have to know its threshold, it is added.
    """
    known = {name: scores[name].alarms for name in RIVALS if name in scores}
    judgement = next((one.judgement for one in scores.values()), None)
    if judgement is not None and "clock" not in known and (timed := clock_of(judgement)):
        known["clock"] = first_alarms(timed)
    found: dict[float, dict[str, NDArray[np.bool_]]] = {}
    for name, alarms in known.items():
        for budget, one in alarms.items():
            found.setdefault(budget, {})[name] = one.warned
    return found
