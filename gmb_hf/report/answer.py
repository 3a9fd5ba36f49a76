"""The answer in one sentence: what the report opens with and the summary figure is titled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.verdict import IndicatorRecord

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
    "coverage_low": "warns of too few events",
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
}


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


_DEFAULT_TARGET = 0.05


@dataclass(frozen=True)
class Answer:
    """What came out.

    Attributes:
        title: a line for a figure.
        sentence: the answer with its numbers, plain text.
        supported: indicators that may raise an alarm, best first.
        ranked: every indicator by group, then label, then coverage.
        target: the primary operating point.
    """

    title: str
    sentence: str
    supported: tuple[IndicatorRecord, ...]
    ranked: tuple[IndicatorRecord, ...]
    target: float

    def group(self, name: str) -> tuple[IndicatorRecord, ...]:
        """The indicators of one group, ranked."""
        return tuple(item for item in self.ranked if group_of(item) == name)

    @property
    def may_alarm(self) -> bool:
        """Whether any score may raise an alarm; an oracle counts where there is nothing else."""
        return any(item.x_alarm_eligible for item in _judged(self.ranked))


def answer(results: Results) -> Answer:
    """Sum up a results file."""
    target = primary_target(results)
    ranked = tuple(sorted(results.indicators, key=lambda item: _rank(item, target)))
    subject = _judged(ranked) or ranked
    eligible = [item for item in subject if item.label == "SUPPORTED_FOR_ALARM"]
    budget = f"a {target * 100:g}% false-alarm budget"
    counts: Counter[str] = Counter(item.label for item in subject)
    return Answer(
        title=_title(eligible, subject, counts, budget),
        sentence=_sentence(eligible, subject, counts, results, target),
        supported=tuple(item for item in ranked if item.label == "SUPPORTED_FOR_ALARM"),
        ranked=ranked,
        target=target,
    )


def _judged(ranked: Sequence[IndicatorRecord]) -> list[IndicatorRecord]:
    """What there is to speak about: where everything sees test labels, oracles; never controls."""
    judged = [item for item in ranked if group_of(item) in ("monitor", "undeclared")]
    return judged or [item for item in ranked if group_of(item) == "oracle"]


def primary_target(results: Results) -> float:
    """The operating point that the verdict is about; the nearest to .05 where none is stored."""
    prereg = results.design
    if prereg is not None:
        return prereg.primary_fpr
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


def _rank(item: IndicatorRecord, target: float) -> tuple[int, int, float, str]:
    point = item.point(target)
    coverage = point.coverage if point is not None and point.coverage is not None else 0.0
    return list(GROUPS).index(group_of(item)), LABELS.index(item.label), -coverage, item.name


def _title(
    eligible: Sequence[IndicatorRecord],
    subject: Sequence[IndicatorRecord],
    counts: Counter[str],
    budget: str,
) -> str:
    if eligible:
        return f"{len(eligible)} of {_scores(len(subject))} may raise an alarm at {budget}"
    undecided = counts["INCONCLUSIVE"]
    if undecided:
        return f"No alarm yet at {budget}: {undecided} of {_scores(len(subject))} not decided"
    return f"None of {_scores(len(subject))} may raise an alarm at {budget}"


def _sentence(
    eligible: Sequence[IndicatorRecord],
    subject: Sequence[IndicatorRecord],
    counts: Counter[str],
    results: Results,
    target: float,
) -> str:
    if len(subject) == 1 and subject[0].x_sentence:
        return f"{subject[0].name}: {subject[0].x_sentence}"
    budget = f"a false-alarm budget of {target * 100:g}%"
    total = _scores(len(subject))
    if eligible:
        return (
            f"{len(eligible)} of {total} may raise an alarm at {budget}{_best(eligible, target)}."
        )
    words = {
        "INCONCLUSIVE": f"not decided by {results.summary.n_seeds:,} held-out runs",
        "RANK_ONLY": "no more than a ranking",
        "ESTIMATOR_UNSTABLE": "unstable",
        "SCOPE_LIMITED": f"good in a stated scope only{_scopes(subject)}",
    }
    parts = [f"{counts[label]} {what}" for label, what in words.items() if counts[label]]
    yet = " yet" if counts["INCONCLUSIVE"] else ""
    return f"None of {total} may raise an alarm{yet} at {budget}: {', '.join(parts)}."


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
    lead = (
        ""
        if point.lead_time_median is None
        else (f", {point.lead_time_median:,.0f} steps ahead in the median")
    )
    by_chance = point.by_chance
    chance = (
        "" if by_chance is None else f", where chance at the same cost warns of {by_chance:.0%}"
    )
    first = "the best" if len(eligible) > 1 else "it"
    name = f", {best.name}," if len(eligible) > 1 else f" ({best.name})"
    return f"; {first}{name} warned of {point.coverage:.0%} of events{lead}{chance}"


def _scores(count: int) -> str:
    return f"{count:,} score" + ("" if count == 1 else "s")
