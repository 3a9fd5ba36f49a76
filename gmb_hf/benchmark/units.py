"""A score in either unit of counting, as gates B and C ask about it: by windows and by runs.

Each case is a score on all runs, or on those of a stratum. It says which of its gates are met, and
what speaks for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gmb_hf.base.stats import (
    BINOMIAL,
    IntervalRecord,
    exact_binomial,
)
from gmb_hf.benchmark.first_alarm import RIVALS, Rivals, measure, run_budget_state, worth
from gmb_hf.benchmark.gates import (
    SLACK,
    GateName,
    GateRecord,
    State,
    enough_budgets,
    least_state,
    met,
    missed,
    straddles,
)
from gmb_hf.benchmark.judgement import Calibration, Judgement
from gmb_hf.benchmark.operationality import AchievedRecord, LayerBRecord
from gmb_hf.benchmark.robustness import LayerDRecord, MemberRecord, layer_d, leave_groups_out
from gmb_hf.benchmark.utility import OperatingPointRecord
from gmb_hf.core.first_alarm import FirstAlarms
from gmb_hf.core.nulls import Unit, count_tails
from gmb_hf.core.thresholds import in_words, pass_line, runs_needed, runs_to_promise, shown_line
from gmb_hf.design.design import Design
from gmb_hf.design.power import runs_to_clear, runs_to_settle

FEW = "few_runs"
NONE_NEGATIVE = "no_negative_windows"


@dataclass(frozen=True, eq=False)
class WindowsCase:
    """A score by windows.

    Attributes:
        judgement: of these runs.
        layer_b, point: of these runs; the primary operating point of layer C.
        p_adjusted: its p-value, adjusted over all candidates and strata of the lock.
    """

    unit: ClassVar[Unit] = "windows"
    judgement: Judgement
    layer_b: LayerBRecord
    point: OperatingPointRecord
    p_adjusted: float | None

    def robustness(self, variants: Mapping[str, Judgement]) -> LayerDRecord:
        """Layer D by windows."""
        return layer_d(self.judgement, variants)

    def gates(self) -> list[GateRecord]:
        """Gates B and C, by windows."""
        design, point = self.judgement.design, self.point
        found = [self._floor(), self._budget(), self._detection()]
        if self.judgement.strict and not self.judgement.calibrated.finite(point.fpr):
            # Without a threshold there is no alarm, which tells nothing of chance and lead time.
            return [*found, *_unknown(found[-1])]
        if self.judgement.strict:
            text = f"by windows it covers no more than chance{self._chance}"
            worse = _no_better("windows", text, self.p_adjusted, design)
            found += worse or [met("windows", "chance")]
        found.append(_lead("windows", point.lead_time_median, design))
        return found

    def supported(self) -> str:
        """What speaks for the score, at its primary operating point."""
        point, gate = self.point, self.layer_b
        return (
            f"by windows, at a false positive rate of {point.fpr:.0%}, it covers {self._covered}"
            f"{self._chance}, and {gate.n_met} of {len(gate.targets)} budgets are met{self._over()}"
        )

    def _over(self) -> str:
        """Points over their budget that are compatible with it."""
        over = [
            f"{row.achieved:.1%} [{row.x_interval.low:.1%}, {row.x_interval.high:.1%}] of a budget "
            f"of {row.target:.0%}: compatible with it"
            for row in self.layer_b.achieved
            if self.layer_b.by_budget
            and row.x_state == "met"
            and row.achieved is not None
            and row.x_interval is not None
            and not row.x_within_budget
        ]
        return f" ({'; '.join(over)})" if over else ""

    def _floor(self) -> GateRecord:
        if not self.layer_b.floor:
            return met("windows", "floor")
        certificate, text = self.layer_b.x_floor_certificate, "no false positive rate is achievable"
        if certificate is not None:
            tie, count = certificate.tied_value, certificate.tied_windows
            since = "" if tie is None else f", since {count} windows tie at {tie:g}"
            text = f"it cannot alarm at a false positive rate below {certificate.f_min_pos:.3f}"
            text += since
        return missed("windows", "floor", "floor", text)

    def _budget(self) -> GateRecord:
        gate, design = self.layer_b, self.judgement.design
        held = f"{gate.n_met} of {len(gate.targets)} false positive rates keep their budget"
        if not self.judgement.strict:
            if gate.controlled:
                return met("windows", "budget")
            text = f"{held}, {design.min_targets_ok} must"
            return missed("windows", "budget", "uncontrolled", text)
        if gate.x_budget_state == "met":
            return met("windows", "budget")
        if gate.x_budget_state == "missed":
            return missed("windows", "budget", "uncontrolled", f"{held} by windows")
        asked = {
            row.target: self._question(row)
            for row in gate.achieved
            if row.x_state == "straddles"
            and (row.x_answer != "ABSTAIN" or row.target == design.primary_fpr)
        }
        settled = sum(row.x_state == "met" and row.x_answer != "ABSTAIN" for row in gate.achieved)
        least = design.min_targets_ok - settled
        return _asked("windows", asked, primary=design.primary_fpr, least=least)

    def _question(self, row: AchievedRecord) -> tuple[str, str, int | None]:
        """What one target leaves open: reason, clause, and runs that would settle it."""
        judgement, interval = self.judgement, row.x_interval
        design = judgement.design
        if row.achieved is None:
            return _none_negative(design)
        if row.x_answer == "ABSTAIN" or interval is None:
            needed = runs_needed(row.target)
            return _few_runs(f"{row.target:g}", needed, judgement.calibrated)
        line = pass_line(row.target, design.fpr_eps)
        text = (
            f"the false positive rate {row.achieved:.3f} [{interval.low:.3f}, {interval.high:.3f}] "
            f"at target {row.target:g} straddles its line {line:g}"
        )
        return "straddle", text, self._runs_for_rate(row, interval, line)

    def _runs_for_rate(
        self, row: AchievedRecord, interval: IntervalRecord, line: float
    ) -> int | None:
        """Runs after which the interval clears the line; where no run alarms, that of a share."""
        n_runs, rate = self.judgement.n_runs, row.achieved or 0.0
        if interval.method == BINOMIAL:
            return runs_to_settle(n_runs, self.judgement.alarms(row.target).n_runs, 0.0, line)
        return runs_to_clear(n_runs, rate, line, interval)

    def _detection(self) -> GateRecord:
        design, point = self.judgement.design, self.point
        share, interval, least = point.coverage, point.x_coverage_interval, design.coverage_min
        text = (
            f"by windows it covers {self._covered} at a false positive rate of {point.fpr:.0%}, "
            f"{least:.0%} is the minimum"
        )
        state: State = "met" if share is not None and share >= least - SLACK else "missed"
        if self.judgement.strict and self.judgement.calibrated.finite(point.fpr):
            state = least_state(interval, least)
        if state == "straddles" and share is not None and interval is not None:
            text = (
                f"coverage {share:.2f} [{interval.low:.2f}, {interval.high:.2f}] straddles its "
                f"minimum {least:.2f}"
            )
            runs = runs_to_settle(self.judgement.n_runs, self.judgement.n_events, share, least)
            return straddles("windows", "detection", text, runs=runs)
        if state == "met":
            return met("windows", "detection")
        if self.judgement.strict and not self.judgement.calibrated.finite(point.fpr):
            reason, text, runs = self._question(self.layer_b.at(point.fpr))
            return straddles("windows", "detection", text, runs=runs, reason=reason)
        return missed("windows", "detection", "coverage_low", text)

    @property
    def _covered(self) -> str:
        return _of_events(self.point.coverage, self.point.x_n_events or 0)

    @property
    def _chance(self) -> str:
        return _beside([one.detection_rate for one in self.point.x_baselines.values()])


@dataclass(frozen=True, eq=False)
class RunsCase:
    """A score by runs: its first alarms.

    Attributes:
        judgement: of these runs.
        rivals: what controls detect at the primary budget, in these runs.
        p_adjusted: at the primary budget, adjusted over all candidates and strata of the lock.
    """

    unit: ClassVar[Unit] = "runs"
    judgement: Judgement
    rivals: Rivals
    p_adjusted: float | None

    def robustness(self, variants: Mapping[str, Judgement]) -> LayerDRecord:
        """Layer D by runs."""
        return runs_robustness(self.judgement, variants, self.rivals)

    @property
    def primary(self) -> FirstAlarms:
        """The first alarms at the budget that decides."""
        return self.judgement.first_alarms(self.judgement.design.primary_run_budget)

    def gates(self) -> list[GateRecord]:
        """Gates B and C, by runs."""
        alarms, design = self.primary, self.judgement.design
        found = [self._budget(), self._detection()]
        if not self.judgement.run_calibrated.finite(design.primary_run_budget):
            return [*found, *_unknown(found[-1])]
        text = f"its first alarm detects no more than chance{self._chance}"
        worse = _no_better("runs", text, self.p_adjusted, design)
        for name in self._not_beaten():
            share = float(self.rivals[name][alarms.has_event].mean())
            text = f"{RIVALS.get(name, name)} detects {share:.0%} at the same budget"
            worse.append(missed("runs", "chance", f"no_better_than_{name}", text))
        found += worse or [met("runs", "chance")]
        found.append(_lead("runs", alarms.lead_quantiles((0.5,))[0], design))
        return found

    def _not_beaten(self) -> list[str]:
        """The controls that detect as many events."""
        alarms = self.primary
        events, own = alarms.has_event, alarms.n_detected
        if not alarms.n_events:
            return []
        return [name for name, one in self.rivals.items() if own <= int(one[events].sum())]

    def states(self) -> list[tuple[float, State, bool]]:
        """Of each budget: itself, its state, and whether it has a finite threshold."""
        found: list[tuple[float, State, bool]] = []
        for budget in self.judgement.design.run_budgets:
            state = run_budget_state(self.judgement, budget, self._false_interval(budget))
            found.append((budget, state, self.judgement.run_calibrated.finite(budget)))
        return found

    def _false_interval(self, budget: float) -> IntervalRecord | None:
        alarms = self.judgement.first_alarms(budget)
        return exact_binomial(alarms.n_false, alarms.n_runs) if alarms.n_runs else None

    def _enough(self, states: Sequence[tuple[float, State, bool]]) -> State:
        design = self.judgement.design
        return enough_budgets(
            states, primary=design.primary_run_budget, least=design.min_targets_ok
        )

    def _budget(self) -> GateRecord:
        states = self.states()
        state = self._enough(states)
        if state == "met":
            return met("runs", "budget")
        if state == "missed":
            alarms, held = self.primary, sum(one == "met" for _, one, _ in states)
            text = (
                f"{alarms.n_false} of {alarms.n_runs} runs have a false alarm at a budget of "
                f"{in_words(self.judgement.design.primary_run_budget)}, and {held} of "
                f"{len(states)} budgets are met"
            )
            return missed("runs", "budget", "uncontrolled", text)
        design = self.judgement.design
        primary = design.primary_run_budget
        asked = {
            budget: self._question(budget)
            for budget, one, known in states
            if one == "straddles" and (known or budget == primary)
        }
        least = design.min_targets_ok - sum(one == "met" and known for _, one, known in states)
        return _asked("runs", asked, primary=design.primary_run_budget, least=least)

    def _question(self, budget: float) -> tuple[str, str, int | None]:
        found, design = self.judgement.run_calibrated, self.judgement.design
        alarms, line = self.judgement.first_alarms(budget), shown_line(budget)
        share, interval = alarms.false_alarm_rate, self._false_interval(budget)
        if interval is None or share is None:
            return _none_negative(design)
        if not found.finite(budget):
            needed = runs_to_promise(budget, design.calibration)
            return _few_runs(in_words(budget), needed, found)
        text = (
            f"false alarms in {share:.3f} of runs [{interval.low:.3f}, {interval.high:.3f}] "
            f"straddle the line {line:g} of the budget {budget:g}"
        )
        runs = runs_to_settle(self.judgement.n_runs, alarms.n_runs, share, line)
        return "straddle", text, runs

    def _detection(self) -> GateRecord:
        alarms, design = self.primary, self.judgement.design
        least, share = design.detection_min, alarms.detection_rate
        interval = exact_binomial(alarms.n_detected, alarms.n_events) if alarms.n_events else None
        if not self.judgement.run_calibrated.finite(design.primary_run_budget):
            reason, text, runs = self._question(design.primary_run_budget)
            return straddles("runs", "detection", text, runs=runs, reason=reason)
        state = least_state(interval, least)
        if state == "straddles" and share is not None and interval is not None:
            text = (
                f"the detection rate {share:.2f} [{interval.low:.2f}, {interval.high:.2f}] "
                f"straddles its minimum {least:.2f}"
            )
            runs = runs_to_settle(self.judgement.n_runs, alarms.n_events, share, least)
            return straddles("runs", "detection", text, runs=runs)
        if state == "met":
            return met("runs", "detection")
        text = f"its first alarm detects {self._detected}, {least:.0%} is the minimum"
        return missed("runs", "detection", "detection_low", text)

    def supported(self) -> str:
        """What speaks for the score."""
        return worth(measure(self.judgement, self.judgement.design.primary_run_budget, self.rivals))

    @property
    def _detected(self) -> str:
        return _of_events(self.primary.detection_rate, self.primary.n_events)

    @property
    def _chance(self) -> str:
        return _beside([float(one.mean()) for one in self.primary.chances.values()])

    # Layer D by runs: points alone.

    def controlled(self) -> bool:
        """Whether enough budgets hold: a promise that is not refuted, else the points."""
        states: list[tuple[float, State, bool]] = []
        for budget, state, finite in self.states():
            rate = self.judgement.first_alarms(budget).false_alarm_rate
            if state == "straddles" and finite:
                kept = rate is not None and rate <= shown_line(budget) + SLACK
                state = "met" if kept else "missed"
            states.append((budget, state, finite))
        return self._enough(states) == "met"

    def useful_by_points(self) -> bool:
        """Whether detection, controls and lead pass; chance is not asked."""
        alarms, design = self.primary, self.judgement.design
        share, lead = alarms.detection_rate, alarms.lead_quantiles((0.5,))[0]
        if share is None or share < design.detection_min - SLACK or self._not_beaten():
            return False
        return lead is not None and lead >= design.lead_least


def runs_robustness(
    judgement: Judgement, variants: Mapping[str, Judgement], rivals: Rivals
) -> LayerDRecord:
    """Layer D by runs: windows x smoothing x one group of runs left out.

    Args:
        judgement: of the runs that are asked about.
        variants: the same score and runs with other values of its own window, by name.
        rivals: what controls detect in these runs.
    """
    cases = {"central": RunsCase(judgement, rivals, None)}
    groups = judgement.design.run_groups
    for setting, one in _runs_settings(judgement, variants):
        for name, kept in leave_groups_out(setting, judgement.n_runs, groups):
            part = one if kept is None else one.select(kept)
            beside = rivals if kept is None else {k: v[kept] for k, v in rivals.items()}
            cases[name] = RunsCase(part, beside, None)
    central, *members = _members(cases)
    return LayerDRecord.of(central, members)


def _runs_settings(
    judgement: Judgement, variants: Mapping[str, Judgement]
) -> Iterator[tuple[str, Judgement]]:
    for smooth in judgement.design.smoothing_sweep:
        for name, one in (variants or {"": judgement}).items():
            yield f"{name},smooth={smooth}".lstrip(","), one.smoothed(smooth)


def _members(cases: Mapping[str, RunsCase]) -> list[MemberRecord]:
    """Whether each case passes by its points.

    The p-values are asked for only where nothing else stands against it, of all cases at once.
    """
    controlled = {name: case.controlled() for name, case in cases.items()}
    useful = {
        name: case.primary
        for name, case in cases.items()
        if controlled[name] and case.useful_by_points()
    }
    tails = count_tails(
        [chances for one in useful.values() for chances in one.chances.values()],
        [one.n_detected for one in useful.values() for _ in one.chances],
    )
    largest = tails.reshape(len(useful), -1).max(axis=1, initial=0.0) if useful else np.zeros(0)
    p_values = dict(zip(useful, largest.tolist(), strict=True))
    return [
        MemberRecord(
            name=name,
            passes=p_values.get(name, 1.0) <= case.judgement.design.alpha_per_look,
            layer_b_pass=controlled[name],
        )
        for name, case in cases.items()
    ]


def _unknown(detection: GateRecord) -> list[GateRecord]:
    """The gates of chance and lead time where that of detection waits for a threshold."""
    names: tuple[GateName, ...] = ("chance", "lead")
    return [detection.model_copy(update={"gate": name}) for name in names]


def _none_negative(design: Design) -> tuple[str, str, None]:
    text = (
        f"no judged run has a negative window: none goes on past burn-in {design.burn_in} to "
        f"{design.safe_gap} steps before its event"
    )
    return NONE_NEGATIVE, text, None


def _few_runs(what: str, needed: int, found: Calibration) -> tuple[str, str, None]:
    """That a threshold waits for calibration runs; with it nothing is settled yet."""
    text = (
        f"a threshold for {what} takes {needed} calibration runs with negative windows, there are "
        f"{found.n_runs}"
    )
    return FEW, text, None


def _no_better(unit: Unit, text: str, p_adjusted: float | None, design: Design) -> list[GateRecord]:
    """The gate of chance where it is missed."""
    if p_adjusted is not None and p_adjusted <= design.alpha_per_look:
        return []
    p_value = "" if p_adjusted is None else f" (p = {p_adjusted:.3f})"
    return [missed(unit, "chance", "no_better_than_chance", f"{text}{p_value}")]


def _lead(unit: Unit, lead: float | None, design: Design) -> GateRecord:
    if lead is not None and lead >= design.lead_least:
        return met(unit, "lead")
    known = "no event is detected" if lead is None else f"the median lead time is {lead:g} steps"
    text = f"{known}, {design.lead_least:g} is the minimum"
    return missed(unit, "lead", "lead_short", text)


def _asked(
    unit: Unit, asked: Mapping[float, tuple[str, str, int | None]], *, primary: float, least: int
) -> GateRecord:
    """Gate B, straddling: all that is open, and the runs that settle as much of it as must be.

    Args:
        unit: of counting.
        asked: reason, clause and runs of each open budget.
        primary: the budget that must be among those that hold.
        least: how many of the open ones must come to hold.
    """
    needed = [asked[primary]] if primary in asked else []
    others = sorted(
        (one for budget, one in asked.items() if budget != primary),
        key=lambda one: math.inf if one[2] is None else one[2],
    )
    needed += others[: max(0, least - len(needed))]
    numbers = [runs for *_, runs in needed]
    runs = None if None in numbers else max((n for n in numbers if n is not None), default=None)
    text = "; ".join(dict.fromkeys(text for _, text, _ in asked.values()))
    reason = needed[0][0] if needed else "straddle"
    return straddles(unit, "budget", text, runs=runs, reason=reason)


def _of_events(share: float | None, n_events: int) -> str:
    events = f"{n_events} event" + ("" if n_events == 1 else "s")
    return f"{'none' if share is None else f'{share:.0%}'} of {events}"


def _beside(shares: Sequence[float]) -> str:
    return f" (best chance baseline {max(shares):.0%})" if shares else ""
