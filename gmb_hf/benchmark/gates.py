"""Gates: what a score must pass in either unit of counting, and the one label that follows.

A score is counted in two units, by windows (the specification's) and by runs (an operator's). In
each of them gate B asks for its false-alarm budgets, gate C for detection, detection beyond chance
and lead time, gate D for stability. Every gate is `met`, `missed` or `straddles`, and has a reason
code that begins with its unit. They are one list, and `conclude` makes one label and one sentence
of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

from gmb_hf.base.documents import Count, OpenSection
from gmb_hf.base.stats import IntervalRecord
from gmb_hf.benchmark.records import (
    INCONCLUSIVE,
    RANK_ONLY,
    SCOPE_LIMITED,
    SUPPORTED,
    UNSTABLE,
    Label,
    WhyNull,
)
from gmb_hf.core.nulls import Unit
from gmb_hf.design.power import runs_to_events

State = Literal["met", "missed", "straddles"]
GateName = Literal["budget", "floor", "detection", "chance", "lead", "stability"]
SLACK = 1e-12
"""A share of .3 must reach a minimum of .3, and .04 misses .05 by .010000000000000002."""

DESIGN_FAULT = "events_too_early"
"""Reason code: before most events no alarm can come, whatever the score."""

NOT_LOCKED, NOT_STRICT = "not_locked", "not_strict"
BY_THE_LETTER = "by the letter of v0.4, which pure noise can pass: never eligible"
"""What every print of a supported label says where protocol strict did not judge."""

AGAINST_ALARM = {
    NOT_LOCKED: "exploratory: no lock fixed the design beforehand",
    NOT_STRICT: BY_THE_LETTER,
    "control": "it is a control",
    "oracle": "it sees test labels: an oracle",
    DESIGN_FAULT: "the design is at fault",
    "no_first_alarm": "the lock is from before first alarms were judged: lock again",
}
"""What forbids an alarm whatever the label, by reason code."""


class GateRecord(OpenSection):
    """One gate in one unit of counting."""

    unit: Unit
    gate: GateName
    state: State
    # A reason code that begins with the unit.
    code: Annotated[str | None, WhyNull("the gate is met")] = None
    detail: Annotated[str | None, WhyNull("the gate is met")] = None
    # Held-out runs in total that it takes at least, if the rates stay as they are.
    runs_to_settle: Annotated[
        Count | None, WhyNull("the gate does not straddle, or no number of runs can be said")
    ] = None

    @property
    def gate_code(self) -> str:
        """Unit and gate, such as "runs_budget"."""
        return f"{self.unit}_{self.gate}"


def met(unit: Unit, gate: GateName) -> GateRecord:
    """A gate that is met."""
    return GateRecord(unit=unit, gate=gate, state="met")


def missed(unit: Unit, gate: GateName, reason: str, detail: str) -> GateRecord:
    """A gate that is missed; `reason` without its unit, such as "lead_short"."""
    return GateRecord(unit=unit, gate=gate, state="missed", code=f"{unit}_{reason}", detail=detail)


def straddles(
    unit: Unit, gate: GateName, detail: str, *, runs: int | None = None, reason: str = "straddle"
) -> GateRecord:
    """A gate that the held-out runs do not decide, and how many would."""
    return GateRecord(
        unit=unit,
        gate=gate,
        state="straddles",
        code=f"{unit}_{reason}",
        detail=detail,
        runs_to_settle=runs,
    )


def within_reach(gates: Sequence[GateRecord], most: float) -> list[GateRecord]:
    """The same gates, without a number of runs where it is more than there may be."""
    return [
        gate.model_copy(update={"runs_to_settle": None})
        if (gate.runs_to_settle or 0) > most
        else gate
        for gate in gates
    ]


# Gate B, in both units: promise or proof.


def budget_state(
    interval: IntervalRecord | None, *, budget: float, line: float, shown: bool
) -> State:
    """Whether a false-alarm budget holds, by the 95% interval of the held-out rate.

    Thresholds are conformal over explore runs. For held-out runs of the lock's own system that is a
    promise, which held-out runs can only refute: the budget is met unless the interval lies wholly
    above `budget`. Where it must be `shown` (a transfer, nothing locked, a published rule), it is
    met only if the interval's upper end keeps the `line`.
    """
    if interval is None:
        return "straddles"
    if not shown:
        return "missed" if interval.low > budget + SLACK else "met"
    if interval.high <= line + SLACK:
        return "met"
    return "missed" if interval.low > line + SLACK else "straddles"


def enough_budgets(
    states: Sequence[tuple[float, State, bool]], *, primary: float, least: int
) -> State:
    """Whether enough budgets hold, the primary one among them.

    Args:
        states: of each budget: the budget, its state, and whether its threshold is finite.
        primary: the one that decides.
        least: how many must hold; of those with a finite threshold, and at least one.
    """
    finite = {budget: state for budget, state, known in states if known}
    if primary not in finite:
        return "straddles"
    wanted = max(1, min(least, len(finite)))
    held = sum(state == "met" for state in finite.values())
    possible = held + sum(state == "straddles" for state in finite.values())
    if finite[primary] == "missed" or possible < wanted:
        return "missed"
    return "met" if finite[primary] == "met" and held >= wanted else "straddles"


def least_state(interval: IntervalRecord | None, minimum: float) -> State:
    """Whether a share surely reaches its minimum, by its 95% interval."""
    if interval is None or interval.high < minimum - SLACK:
        return "missed"
    return "met" if interval.low >= minimum - SLACK else "straddles"


# The label.


class OpenQuestion(NamedTuple):
    """Something that the held-out runs do not decide: its code, a clause, and how many would."""

    reason: str
    text: str
    runs: int | None


class Verdict(NamedTuple):
    """One label, its reason codes, its sentence, and the runs that it takes to settle it."""

    label: Label
    reasons: tuple[str, ...]
    sentence: str
    runs_to_settle: int | None = None


@dataclass(frozen=True)
class Findings:
    """What is known of a score when it is concluded upon.

    Attributes:
        gates: of both units.
        few: that there are too few events, if there are.
        supported: what speaks for the score, a clause a unit.
        n_runs: how many held-out runs there are.
        unranked: that the score does not rank, in a clause, if so.
        below_chance: whether it ranks worse than chance.
        scope: where it passes everything, if only a stratum does.
        fault: a sentence about a design under which no score can pass, if it is one.
        against: the codes of `AGAINST_ALARM` that hold.
        most_runs: most held-out runs that there may be in all; 0 where no number may be said.
        notes: sentences that close every verdict, or (`caveats`) one that supports.
    """

    gates: Sequence[GateRecord]
    n_runs: int
    few: OpenQuestion | None = None
    supported: Sequence[str] = ()
    unranked: str = ""
    below_chance: bool = False
    scope: str = ""
    fault: str = ""
    against: Sequence[str] = ()
    most_runs: float = math.inf
    caveats: Sequence[str] = field(default=())


def label_of(gates: Sequence[GateRecord], *, few: bool, scope: bool = False) -> Label:
    """The label, by the rules in their order.

    INCONCLUSIVE with too few events, or while no gate is missed and one straddles;
    ESTIMATOR_UNSTABLE where the result flips; SUPPORTED_FOR_ALARM where every gate of both units is
    met; SCOPE_LIMITED where a stratum passes everything; else RANK_ONLY.
    """
    failing = {gate.gate for gate in gates if gate.state == "missed"}
    if few or (not failing and any(gate.state == "straddles" for gate in gates)):
        return INCONCLUSIVE
    if "stability" in failing:
        return UNSTABLE
    if not failing:
        return SUPPORTED
    return SCOPE_LIMITED if scope else RANK_ONLY


def conclude(found: Findings) -> Verdict:
    """One label, its reasons, and one sentence that is composed of them."""
    label = label_of(found.gates, few=found.few is not None, scope=bool(found.scope))
    start = f"{found.fault}. " if found.fault else ""
    codes, text, settles = _of_label(label, found)
    reasons = (*((DESIGN_FAULT,) if found.fault else ()), *codes, *found.against)
    closing = [f"{start}{text}.", *(found.caveats if label == SUPPORTED else ())]
    return Verdict(label, tuple(dict.fromkeys(reasons)), " ".join(closing), settles)


def _of_label(label: Label, found: Findings) -> tuple[tuple[str, ...], str, int | None]:
    """The codes and the clause of a label, and the runs that it takes to settle it."""
    failing = [gate for gate in _ordered(found.gates) if gate.state == "missed"]
    if label == INCONCLUSIVE:
        return _undecided(found)
    if label == UNSTABLE:
        flips = [gate for gate in failing if gate.gate == "stability"]
        return _codes(flips), f"Not to be trusted either way: {_details(flips)}", None
    if label == SUPPORTED:
        speaks = "; ".join(found.supported)
        if not found.against:
            return (), f"May raise an alarm: {speaks}", None
        if tuple(found.against) == (NOT_LOCKED,):  # which the answer says once, of all scores
            return (), f"Passes every gate on these runs: {speaks}", None
        why = "; ".join(AGAINST_ALARM[code] for code in found.against)
        return (), f"Passes every gate, but may not raise an alarm ({why}): {speaks}", None
    codes, clauses = _codes(failing), _details(failing)
    if found.unranked:
        worst = ("no_ranking_signal",)
        codes = (*worst, *codes) if found.below_chance else (*codes, *worst)
        parts = (found.unranked, clauses) if found.below_chance else (clauses, found.unranked)
        clauses = "; ".join(parts)
    if label == SCOPE_LIMITED:
        limited = f"Holds only where {found.scope}. Over all runs it may not raise an alarm"
        return codes, f"{limited}: {clauses}", None
    return codes, f"May not raise an alarm: {clauses}", None


def _undecided(found: Findings) -> tuple[tuple[str, ...], str, int | None]:
    gates = _ordered(found.gates)
    open_gates = [gate for gate in gates if gate.state == "straddles"]
    questions = [OpenQuestion(g.code or "", g.detail or "", g.runs_to_settle) for g in open_gates]
    if found.few:
        questions = [found.few, *_open_with_events(gates, questions)]
    settles = _runs_of(questions)
    if settles is not None and (found.fault or settles > found.most_runs):
        settles = None  # no number of runs mends a design
    codes = tuple(dict.fromkeys(one.reason for one in questions))
    if found.few:  # what else is open is told where it asks for more runs
        codes = (found.few.reason,)
        driving = settles is not None and found.few.runs != settles
        asks = [one for one in questions[1:] if driving and one.runs == settles]
        questions = [found.few, *asks]
    told: list[str] = []
    for one in questions:  # what leaves several gates open is said once
        told += [] if any(one.text in before for before in told) else [one.text]
    text = f"Not decided: {'; '.join(told)}"
    if settles is not None:
        more = settles - found.n_runs
        runs = "1 more run" if more == 1 else f"{more} more runs"
        text += f"; settling it takes at least {runs} ({settles} in all), if the rates stay as "
        text += "they are"
    return codes, text, settles


def _open_with_events(
    gates: Sequence[GateRecord], questions: Sequence[OpenQuestion]
) -> list[OpenQuestion]:
    """What stays open once there are events enough, if the rates stay as they are.

    Nothing where a rate is surely too low or too high. Where chance or lead time alone is missed,
    which more events may turn, what is open has no number.
    """
    missing = {gate.gate for gate in gates if gate.state == "missed"}
    if missing & {"floor", "budget", "detection"}:
        return []
    return [one._replace(runs=None) if missing else one for one in questions]


def _runs_of(questions: Sequence[OpenQuestion]) -> int | None:
    """Runs that settle all questions; None where one of them has no number."""
    numbers = [one.runs for one in questions if one.runs is not None]
    return max(numbers) if numbers and len(numbers) == len(questions) else None


def _ordered(gates: Sequence[GateRecord]) -> list[GateRecord]:
    """What says most comes first: a floor, then budgets, detection, chance; runs before windows."""
    order = ("floor", "budget", "detection", "chance", "lead", "stability")
    return sorted(gates, key=lambda gate: (order.index(gate.gate), gate.unit != "runs"))


def _codes(gates: Sequence[GateRecord]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(gate.code for gate in gates if gate.code))


def _details(gates: Sequence[GateRecord]) -> str:
    return "; ".join(dict.fromkeys(gate.detail for gate in gates if gate.detail))


def few_events(n_events: int, n_runs: int, least: int) -> OpenQuestion | None:
    """The question that fewer events than the design asks for leave open, if they are fewer."""
    if n_events >= least:
        return None
    runs = runs_to_events(n_runs, n_events, least)
    counted = "1 event is" if n_events == 1 else f"{n_events} events are"
    return OpenQuestion("few_events", f"{counted} fewer than {least}", runs)


def stability(
    unit: Unit, flip_rate: float | None, family_size: int | None, allowed: float
) -> GateRecord:
    """Gate D: how often the point result flips over the admissible family."""
    rate = flip_rate or 0.0
    if rate <= allowed + SLACK:
        return met(unit, "stability")
    text = (
        f"{rate:.0%} of {family_size} admissible variants get another result by {unit}, "
        f"{allowed:.0%} may"
    )
    return missed(unit, "stability", "unstable", text)
