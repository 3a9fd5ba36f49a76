"""The rules of the verdict, in their order (spec 5): the same by windows and by runs.

INCONCLUSIVE while anything is open, ESTIMATOR_UNSTABLE where the label flips, SUPPORTED_FOR_ALARM
where nothing stands against it, SCOPE_LIMITED where a stratum passes, and else RANK_ONLY.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gmb_hf.benchmark.ranking import LayerARecord, has_ranking_signal
from gmb_hf.benchmark.records import (
    INCONCLUSIVE,
    MAY,
    RANK_ONLY,
    SCOPE_LIMITED,
    SUPPORTED,
    UNSTABLE,
    Label,
    OpenQuestion,
)
from gmb_hf.benchmark.robustness import LayerDRecord
from gmb_hf.design.design import Design


class Case(Protocol):
    """What the rules are asked of: a score on all runs, or on those of a stratum."""

    @property
    def design(self) -> Design:
        """What was fixed beforehand."""

    @property
    def n_runs(self) -> int:
        """How many runs are judged."""

    def questions(self) -> Sequence[OpenQuestion]:
        """What is left open."""

    def faults(self) -> tuple[str, ...]:
        """The reason codes that stand against an alarm; empty if nothing does."""

    def clause(self, code: str) -> str:
        """What a reason code means for this score."""

    def supported(self) -> str:
        """What speaks for the score."""


class Verdict(NamedTuple):
    """One label, its reason codes, its sentence, and the runs that would settle it."""

    label: Label
    reasons: tuple[str, ...]
    sentence: str
    runs_to_settle: int | None = None


def conclude(
    case: Case,
    layer_a: LayerARecord,
    robustness: LayerDRecord,
    *,
    scope: str = "",
    fault: str = "",
    caveat: str = "",
) -> Verdict:
    """The verdict on all runs.

    Args:
        case: the score on all runs.
        layer_a, robustness: its ranking, and how often its label flips.
        scope: where the score passes and why, if only a stratum passes everything.
        fault: a sentence about a design under which no score can pass, if it is one.
        caveat: what a supported score holds of, beside the scope of the design.
    """
    start = f"{fault}. " if fault else ""
    questions, design = case.questions(), case.design
    if questions:
        numbers = [question.runs for question in questions if question.runs is not None]
        settles = None
        if not fault and len(numbers) == len(questions):  # no number of runs mends a design
            settles = max(numbers)
        sentence = f"{start}Not decided: {'; '.join(dict.fromkeys(one.text for one in questions))}"
        if settles is not None:
            more = settles - case.n_runs
            sentence += f"; about {settles} runs ({more} more) would settle it"
        return Verdict(INCONCLUSIVE, _codes(questions), f"{sentence}.", settles)
    if unstable := flips(robustness, design):
        sentence = f"{start}Not to be trusted either way: {unstable}."
        return Verdict(UNSTABLE, ("label_flips",), sentence)
    faults = case.faults()
    if not faults:
        holds = (f"{start}{MAY}: {case.supported()}.", caveat, design.scope)
        return Verdict(SUPPORTED, (), " ".join(filter(None, holds)))
    if not has_ranking_signal(layer_a):
        below = layer_a.auc is not None and layer_a.auc < 0.5
        worst = ("no_ranking_signal",)
        faults = (*worst, *faults) if below else (*faults, *worst)
    clauses = "; ".join(map(case.clause, faults))
    if scope:
        limited = f"{start}Holds only where {scope}. Over all runs it may not raise an alarm"
        return Verdict(SCOPE_LIMITED, faults, f"{limited}: {clauses}.")
    return Verdict(RANK_ONLY, faults, f"{start}May not raise an alarm: {clauses}.")


def in_stratum(
    case: Case, robustness: Callable[[], LayerDRecord]
) -> tuple[tuple[str, ...], str, float | None]:
    """What stands against a stratum, a sentence, and how often the label flips there.

    The rules are those of all runs, in their order. Robustness is measured, and a rate given, only
    where nothing else fails; ranking, which is of all runs, is not asked for again.
    """
    if questions := case.questions():
        return _codes(questions), "; ".join(question.text for question in questions), None
    if faults := case.faults():
        return faults, "; ".join(map(case.clause, faults)), None
    robust = robustness()
    rate = robust.label_flip_rate or 0.0
    if unstable := flips(robust, case.design):
        return ("label_flips",), unstable, rate
    return (), case.supported(), rate


def flips(robustness: LayerDRecord, design: Design) -> str:
    """How often the label flips, where it does so more often than it may; else ""."""
    allowed = design.max_label_flip_rate
    if (robustness.label_flip_rate or 0.0) <= allowed:
        return ""
    return (
        f"{robustness.label_flip_rate:.0%} of {robustness.family_size} admissible variants get "
        f"another label, {allowed:.0%} may"
    )


def few_events(n_events: int, case: Case) -> list[OpenQuestion]:
    """The question that fewer events than the design asks for leave open, if they are fewer."""
    least = case.design.event_count_min
    if n_events >= least:
        return []
    runs = math.ceil(case.n_runs * least / n_events) if n_events else None
    counted = "1 event is" if n_events == 1 else f"{n_events} events are"
    return [OpenQuestion("few_events", f"{counted} fewer than {least}", runs)]


def _codes(questions: Sequence[OpenQuestion]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(question.reason for question in questions))
