"""The answer in one sentence: what the report opens with and the summary figure is titled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.verdict import DESIGN_FAULT, IndicatorRecord
from gmb_hf.stats import IntervalRecord
from gmb_hf.tables import follow

LABELS = (
    "SUPPORTED_FOR_ALARM",
    "SCOPE_LIMITED",
    "INCONCLUSIVE",
    "ESTIMATOR_UNSTABLE",
    "RANK_ONLY",
)
"""The five labels, in the order in which they are listed."""

GROUPS = {
    "monitor": "Sees no test labels: a monitor",
    "undeclared": "Not declared whether it sees test labels",
    "oracle": "Sees test labels: an oracle, shown for comparison",
    "control": "Controls: what any monitor must beat",
}
"""The groups that indicators are shown in, in this order."""

REASONS = {
    "compat_protocol": "repeats the published computation",
    "control": "a control",
    "coverage_low": "warns of too few events",
    DESIGN_FAULT: "most events come before any alarm could",
    "few_events": "too few events",
    "few_runs": "too few calibration runs",
    "fpr_floor": "false-alarm floor",
    "fpr_uncontrolled": "false rate uncontrolled",
    "interval_straddles": "interval straddles a line",
    "label_flips": "label flips too easily",
    "lead_short": "warns too late",
    "no_better_than_chance": "no better than chance",
    "no_negative_windows": "no negative windows",
    "no_ranking_signal": "does not rank",
    "not_locked": "exploratory: not locked",
    "not_strict": "not judged by strict",
    "oracle": "an oracle",
}

RUNS = {True: "held-out runs", False: "runs"}
"""What the judged runs are called: held out are those that a lock had not seen."""


def reason(code: str) -> str:
    """A reason code in words; an unknown code speaks for itself."""
    return REASONS.get(code, code.replace("_", " "))


def group_of(item: IndicatorRecord) -> str:
    """The key in `GROUPS` that an indicator belongs to."""
    if item.family == "control":
        return "control"
    if item.x_sees_test_labels is None:
        return "undeclared"
    return "oracle" if item.x_sees_test_labels else "monitor"


def ends(interval: IntervalRecord | None) -> tuple[float, float]:
    """Both ends of an interval; NaN where it is open or unknown."""
    if interval is None or interval.low is None or interval.high is None:
        return math.nan, math.nan
    return interval.low, interval.high


_DEFAULT_TARGET = 0.05


@dataclass(frozen=True)
class Answer:
    """What came out: every indicator by group, then label, then coverage.

    `target` is the primary operating point, `n_runs` how many runs were judged, `locked` whether by
    a lock, `scope` a sentence on what of the boundary is undeclared, or "".
    """

    ranked: tuple[IndicatorRecord, ...]
    target: float
    n_runs: int
    locked: bool
    scope: str = ""

    def group(self, name: str) -> tuple[IndicatorRecord, ...]:
        """The indicators of one group, ranked."""
        return tuple(item for item in self.ranked if group_of(item) == name)

    @property
    def subject(self) -> tuple[IndicatorRecord, ...]:
        """What there is to speak about: oracles or controls only where there is nothing else."""
        monitors = tuple(i for i in self.ranked if group_of(i) in ("monitor", "undeclared"))
        return monitors or self.group("oracle") or self.ranked

    @property
    def supported(self) -> tuple[IndicatorRecord, ...]:
        """The indicators of the subject that pass every layer, best first."""
        return tuple(item for item in self.subject if item.label == LABELS[0])

    @property
    def may_alarm(self) -> bool:
        """Whether any score may raise an alarm."""
        return any(item.x_alarm_eligible for item in self.subject)

    @property
    def caveat(self) -> str:
        """What an evaluation without a lock is, before a sentence about it."""
        return "" if self.locked else "Exploratory, without a lock: "

    @property
    def _passed(self) -> str:
        """What may be said of those that pass every layer."""
        if self.may_alarm:
            able = sum(bool(item.x_alarm_eligible) for item in self.subject)
            return f"{able} of {self._total} may raise an alarm"
        return f"{len(self.supported)} of {self._total} pass every layer, none may raise an alarm,"

    @property
    def title(self) -> str:
        """A line for a figure."""
        budget, total = f"a {self.target * 100:g}% false-alarm budget", self._total
        if self.supported:
            return f"{self.caveat}{self._passed} at {budget}"
        undecided = sum(item.label == "INCONCLUSIVE" for item in self.subject)
        if undecided:
            return f"{self.caveat}No alarm yet at {budget}: {undecided} of {total} not decided"
        return f"{self.caveat}None of {total} may raise an alarm at {budget}"

    @property
    def sentence(self) -> str:
        """The answer with its numbers, and the scope it holds for, plain text."""
        said = self._said
        return said if self.scope in said else f"{said} {self.scope}"

    @property
    def _said(self) -> str:
        subject, total = self.subject, self._total
        if len(subject) == 1 and subject[0].x_sentence:
            return f"{self.caveat}{subject[0].name}: {subject[0].x_sentence}"
        budget = f"a false-alarm budget of {self.target * 100:g}%"
        if all(DESIGN_FAULT in item.x_reasons for item in subject):
            return f"{subject[0].x_sentence.partition('. ')[0]}."
        if self.supported:
            best = _best(self.supported, self.target)
            return f"{self.caveat}{self._passed} at {budget}{best}."
        counts: Counter[str] = Counter(
            _NO_SIGNAL if _NO_SIGNAL in item.x_reasons and item.label == "RANK_ONLY" else item.label
            for item in subject
        )
        words = {
            "INCONCLUSIVE": f"not decided by {self.n_runs:,} {RUNS[self.locked]}",
            "RANK_ONLY": "no more than a ranking",
            _NO_SIGNAL: "without a ranking signal",
            "ESTIMATOR_UNSTABLE": "unstable",
            "SCOPE_LIMITED": f"good in a stated scope only{_scopes(subject)}",
        }
        parts = [f"{counts[label]} {what}" for label, what in words.items() if counts[label]]
        yet = " yet" if counts["INCONCLUSIVE"] else ""
        said = f"None of {total} may raise an alarm{yet} at {budget}: {', '.join(parts)}."
        return self.caveat + said

    @property
    def _total(self) -> str:
        return f"{len(self.subject):,} score" + ("" if len(self.subject) == 1 else "s")


_NO_SIGNAL = "no_ranking_signal"


def answer(results: Results) -> Answer:
    """Sum up a results file."""
    target, groups = primary_target(results), list(GROUPS)

    def rank(item: IndicatorRecord) -> tuple[int, int, float, str]:
        coverage = follow(item.point(target), "coverage") or 0.0
        return groups.index(group_of(item)), LABELS.index(item.label), -coverage, item.name

    ranked = tuple(sorted(results.indicators, key=rank))
    scope = results.design.scope if results.design else ""
    return Answer(ranked, target, results.summary.n_seeds, results.locked, scope)


def primary_target(results: Results) -> float:
    """The operating point that the verdict is about; the nearest to .05 where none is stored."""
    design = results.design
    if design is not None:
        return design.primary_fpr
    targets = {point.fpr for item in results.indicators for point in item.layer_C.at_fpr}
    return min(targets, key=lambda fpr: abs(fpr - _DEFAULT_TARGET), default=_DEFAULT_TARGET)


def shown_name(item: IndicatorRecord) -> str:
    """The name of an indicator, and whether its score is reversed."""
    return f"{item.name} (reversed)" if item.x_sign == -1 else item.name


def shown_p(item: IndicatorRecord, target: float) -> float | None:
    """The p-value to show: adjusted over the candidates, or the raw one where nothing was."""
    point = item.point(target)
    raw = None if point is None else point.x_p_value
    return raw if item.x_p_adjusted is None else item.x_p_adjusted


def _scopes(subject: Sequence[IndicatorRecord]) -> str:
    """The first scope, which such a label must state (spec 5)."""
    limited = [(item.name, item.x_scope.where) for item in subject if item.x_scope]
    if not limited:
        return ""
    name, where = limited[0]
    return f" ({name} where {where}{', ...' if len(limited) > 1 else ''})"


def _best(eligible: Sequence[IndicatorRecord], target: float) -> str:
    best = eligible[0]
    point = best.point(target)
    if point is None or point.coverage is None:
        return ""
    lead, by_chance, several = point.lead_time_median, point.by_chance, len(eligible) > 1
    who = f"the best, {best.name}," if several else f"it ({best.name})"
    ahead = "" if lead is None else f", {lead:,.0f} steps ahead in the median"
    chance = ", where chance at the same cost warns of "
    chance = "" if by_chance is None else f"{chance}{by_chance:.0%}"
    return f"; {who} warned of {point.coverage:.0%} of events{ahead}{chance}"
