"""The answer in one sentence: what the report opens with and the first figure is titled.

A score has one label, which gates of both units of counting decide. Below, in words too, is what
the answer rests on: events, thresholds, design, provenance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gmb_hf.base.documents import load_yaml
from gmb_hf.base.escape import number, percent, shorten, steps
from gmb_hf.base.stats import IntervalRecord
from gmb_hf.benchmark.baselines import BaselineRecord
from gmb_hf.benchmark.first_alarm import AheadRecord, FirstAlarmPointRecord, worth
from gmb_hf.benchmark.gates import BY_THE_LETTER, DESIGN_FAULT
from gmb_hf.benchmark.records import (
    INCONCLUSIVE,
    LABELS,
    RANK_ONLY,
    SCOPE_LIMITED,
    SUPPORTED,
    UNSTABLE,
)
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.core.thresholds import in_words
from gmb_hf.design.candidates import ENSEMBLE
from gmb_hf.design.design import UNDECLARED, Design
from gmb_hf.design.explain import explain_design
from gmb_hf.indicators import catalogue

if TYPE_CHECKING:
    from gmb_hf.benchmark.compat import CompatSettings

_WORDS: dict[str, dict[str, str]] = load_yaml(Path(__file__).with_name("words.yaml"))
GROUPS = _WORDS["groups"]
"""The groups that indicators are shown in, in this order; they are not ranked together."""

MONITORS = ("monitor", "task", "undeclared")
"""Those that are no oracles and no controls."""

REASONS = _WORDS["reasons"]
"""Reason codes in words; those of gates without their unit of counting."""

OUTCOMES = _WORDS["outcomes"]
"""What may become of a run if one acts on the first alarm, in the order drawn."""

OTHER_REPORTS = _WORDS["other_reports"]
"""What other commands leave beside their report.html -> what writes that again."""

BASELINE, RULE = "baseline", "rule"
KINDS = _WORDS["kinds"]
"""Signals of different kinds are never ranked together."""

TIERS = _WORDS["tiers"]
"""What became of a score, best first: what passes, what is not decided, the rest."""

RUNS = {True: "held-out runs", False: "runs"}
"""What the judged runs are called: held out are those that a lock had not seen."""


def reason(code: str) -> str:
    """A reason code in words; an unknown code speaks for itself.

    >>> reason("runs_uncontrolled"), reason("oracle"), reason("of_tomorrow")
    ('too many false alarms by runs', 'an oracle', 'of tomorrow')
    """
    unit, _, gate = code.partition("_")
    if unit in ("runs", "windows"):
        return f"{REASONS.get(gate, gate.replace('_', ' '))} by {unit}"
    return REASONS.get(code, code.replace("_", " "))


def group_of(item: IndicatorRecord) -> str:
    """The key in `GROUPS` that an indicator belongs to."""
    aware = item.group == "monitor" and (item.x_knows_task or kind_of(item) == "task-aware")
    return "task" if aware else item.group


def kind_of(item: IndicatorRecord) -> str:
    """The key in `KINDS` that an indicator belongs to; what the catalogue lacks sees no label."""
    if item.family == "control":
        return BASELINE
    if item.family == ENSEMBLE:  # what its most knowing member is
        if item.x_sees_test_labels:
            return "label-using"
        return "task-aware" if item.x_knows_task else "label-free"
    if item.name not in catalogue.names():
        return "label-using" if item.x_sees_test_labels else "label-free"
    known = catalogue.get(item.name)
    return RULE if known.rule else known.kind


def tier_of(item: IndicatorRecord) -> str:
    """The key in `TIERS` that an indicator belongs to."""
    if item.label in (SUPPORTED, SCOPE_LIMITED):
        return "passes"
    return "undecided" if item.label in (INCONCLUSIVE, UNSTABLE) else "rest"


def outcome_counts(at: FirstAlarmPointRecord) -> dict[str, int]:
    """How many runs had each of `OUTCOMES`."""
    return {
        "false": at.n_false_before_event + at.n_event_free_false,
        "timely": at.n_timely,
        "early": at.n_early,
        "miss": at.n_missed,
        "rejection": at.n_event_free - at.n_event_free_false,
    }


def outcome_shares(at: FirstAlarmPointRecord) -> tuple[dict[str, float], float | None]:
    """Of 100 runs, how many had each of `OUTCOMES`, and in how many chance detects an event.

    None where there is no chance baseline.
    """
    counts = outcome_counts(at)
    hundredth = max(1, sum(counts.values())) / 100
    chance = None if at.chance is None else at.chance * at.n_events / hundredth
    return {name: count / hundredth for name, count in counts.items()}, chance


_FALSE_SHOWN = 40.0  # of 100 runs


def false_scale(shares: Iterable[float], budget: float | None) -> float:
    """How many of 100 runs with a false alarm a figure has room for, from the shares of its scores.

    What alarms falsely in more runs than that is cut, and says its number: it leaves the room to
    the others, and does not set the scale.
    """
    if budget is None:
        return 0.0
    most = max((share for share in shares if share <= _FALSE_SHOWN), default=0.0)
    return max(12.0, 150 * budget, 1.08 * most)


def _ahead(found: AheadRecord | None) -> str:
    """How much earlier first alarms come than those of what anybody has, a sentence."""
    if found is None or found.median is None:
        return ""
    within = found.interval
    shown = f" [{steps(within.low)}, {steps(within.high)}]" if within else ""
    by = f"{steps(found.median)} steps{shown}"
    than = f"{found.rival}, which learns from the metric alone"
    if found.earlier:
        return f" It comes {by} before {than}."
    return f" It is not shown to come before {than}: {by} in the median."


def ends(interval: IntervalRecord | None) -> tuple[float, float]:
    """Both ends of an interval; NaN where there is none."""
    return (math.nan, math.nan) if interval is None else (interval.low, interval.high)


_DEFAULT_TARGET = 0.05


class Detection(NamedTuple):
    """What a score detects: by runs; by windows where only those were judged."""

    rate: float | None = None
    interval: IntervalRecord | None = None
    lead: float | None = None  # the median, in steps
    chance: float | None = None
    baselines: Mapping[str, BaselineRecord] = MappingProxyType({})  # and controls


def detection_of(item: IndicatorRecord, target: float, budget: float | None) -> Detection:
    """At the primary budget by runs, else at the primary target by windows."""
    if budget is None:
        point = item.point(target)
        if point is None:
            return Detection()
        within, lead = point.x_coverage_interval, point.lead_time_median
        return Detection(point.coverage, within, lead, point.chance, point.x_baselines)
    if item.x_first_alarm is None:
        return Detection()
    at = item.x_first_alarm.at(budget)
    return Detection(at.detection_rate, at.detection_interval, at.lead_median, at.chance, at.beside)


@dataclass(frozen=True)
class RankedVerdicts:
    """What came out: every indicator by group, then label, then the share of events detected.

    Attributes:
        ranked: all of them.
        target: the primary operating point by windows, a false positive rate.
        n_runs: how many runs were judged.
        locked: whether by a lock.
        scope: a sentence on what of the boundary is undeclared, or "".
        budget: the primary budget by runs, a share of runs; None: first alarms were not judged.
    """

    ranked: tuple[IndicatorRecord, ...]
    target: float
    n_runs: int
    locked: bool
    scope: str = ""
    budget: float | None = None

    def group(self, name: str) -> tuple[IndicatorRecord, ...]:
        """The indicators of one group, ranked."""
        return tuple(item for item in self.ranked if group_of(item) == name)

    def point(self, item: IndicatorRecord) -> FirstAlarmPointRecord | None:
        """What its first alarm is worth at the primary budget; None where that was not judged."""
        points = item.x_first_alarm.at_budget if item.x_first_alarm else ()
        return next((point for point in points if point.budget == self.budget), None)

    def detection(self, item: IndicatorRecord) -> Detection:
        """What it detects at the primary operating point."""
        return detection_of(item, self.target, self.budget)

    @property
    def subject(self) -> tuple[IndicatorRecord, ...]:
        """What there is to speak about: oracles or controls only where there is nothing else."""
        monitors = tuple(i for i in self.ranked if group_of(i) in MONITORS)
        return monitors or self.group("oracle") or self.ranked

    @property
    def supported(self) -> tuple[IndicatorRecord, ...]:
        """The indicators of the subject that pass every gate, best first."""
        return tuple(item for item in self.subject if item.label == SUPPORTED)

    @property
    def may_alarm(self) -> bool:
        """Whether any score may raise an alarm."""
        return any(item.x_alarm_eligible for item in self.subject)

    @property
    def title(self) -> str:
        """A line for a figure."""
        if self.by_the_letter:
            passed = "1 passes" if len(self.supported) == 1 else f"{len(self.supported)} pass"
            return f"{self._caveat}of {self._total} {passed}, {BY_THE_LETTER}"
        if self.supported:
            return f"{self._caveat}{self._passed} {self._at}"
        undecided = sum(item.label == INCONCLUSIVE for item in self.subject)
        if undecided:
            total = len(self.subject)
            return f"{self._caveat}No alarm yet {self._at}: {undecided:,} of {total:,} not decided"
        return f"{self._caveat}None of {self._total} may raise an alarm {self._at}"

    @property
    def sentence(self) -> str:
        """The answer with its numbers, and the scope it holds for, plain text."""
        return f"{self._caveat}{self.finding}"

    @property
    def finding(self) -> str:
        """The same, where it is said elsewhere that an evaluation without a lock is exploratory."""
        said = self._said
        if self.by_the_letter and BY_THE_LETTER not in said:
            said += f" {SUPPORTED} is {BY_THE_LETTER}."
        return said if self.scope in said else f"{said} {self.scope}"

    @property
    def seen(self) -> str:
        """What could be seen when the best score rang, in a sentence; "" where nobody can say."""
        best = next(iter(self.supported or self.subject), None)
        first = None if best is None else best.x_first_alarm
        at = None if first is None else first.visible
        if best is None or first is None or at is None or at.at_alarm_median is None:
            return ""
        low, high = number(at.at_alarm_q05, 2), number(at.at_alarm_q95, 2)
        return (
            f"When {best.name} alarms, {at.metric} is {number(at.at_alarm_median, 2)} in the "
            f"median (5 to 95%: {low} to {high}); {percent(at.unseen)} of events are detected "
            f"before it is {at.line_in_words} ({number(at.line, 2)}).{_ahead(first.ahead)}"
        )

    @property
    def by_the_letter(self) -> bool:
        """Whether any score is supported by a protocol that noise can pass."""
        return any(item.by_the_letter for item in self.ranked)

    @property
    def _caveat(self) -> str:
        return "" if self.locked else "Exploratory, without a lock: "

    @property
    def _at(self) -> str:
        if self.budget is None:
            return f"at a false positive rate of {self.target * 100:g}%"
        return f"with a budget of {in_words(self.budget)}"

    @property
    def _total(self) -> str:
        return f"{len(self.subject):,} score" + ("" if len(self.subject) == 1 else "s")

    @property
    def _passed(self) -> str:
        """What may be said of those that pass everything."""
        if self.may_alarm:
            able = sum(bool(item.x_alarm_eligible) for item in self.subject)
            return f"{able} of {self._total} may raise an alarm"
        return f"{len(self.supported)} of {self._total} pass every gate, none may raise an alarm,"

    @property
    def _said(self) -> str:
        subject = self.subject
        sentence = subject[0].x_sentence if subject else ""
        if len(subject) == 1 and sentence:
            return f"{subject[0].name}: {sentence}"
        if all(DESIGN_FAULT in item.x_reasons for item in subject):
            return f"{sentence.partition('. ')[0]}."
        if self.supported:
            return f"{self._passed} {self._at}{self._best}."
        counts: Counter[str] = Counter(map(_outcome, subject))
        words = {
            INCONCLUSIVE: f"not decided by {self.n_runs:,} {RUNS[self.locked]}",
            RANK_ONLY: "no more than a ranking",
            _NO_SIGNAL: "without a ranking signal",
            UNSTABLE: "unstable",
            SCOPE_LIMITED: f"good in a stated scope only{self._scopes}",
        }
        parts = [f"{counts[label]} {what}" for label, what in words.items() if counts[label]]
        yet = " yet" if counts[INCONCLUSIVE] else ""
        none = f"None of {self._total} may raise an alarm{yet} {self._at}"
        return f"{none}: {', '.join(parts)}."

    @property
    def _best(self) -> str:
        """What the best of each class is worth, beside the strongest baseline of the same cost."""
        best, firsts = self.supported[0], dict[str, IndicatorRecord]()
        for item in self.supported:
            firsts.setdefault(group_of(item), item)
        points = {name: self.point(item) for name, item in firsts.items()}
        if None not in points.values():
            text = ""
            for name, at in points.items():
                who = firsts[name].name
                if len(self.supported) > 1:
                    who = f"the best, {who},"
                if name == "task" and len(firsts) > 1:
                    who = f"of those that know the task {who}"
                text += f"; {worth(at, who)}" if at is not None else ""
            return text
        rate, _, lead, chance, _ = self.detection(best)
        if rate is None:
            return ""
        who = f"the best, {best.name}," if len(self.supported) > 1 else f"it ({best.name})"
        ahead = "" if lead is None else f" with a median lead time of {lead:,.0f} steps"
        beside = "" if chance is None else f" (best chance baseline {chance:.0%})"
        return f"; {who} detected {rate:.0%} of events{ahead}{beside}"

    @property
    def _scopes(self) -> str:
        """The first scope, which such a label must state (spec 5)."""
        limited = [(one.name, one.x_scope.where) for one in self.subject if one.x_scope]
        if not limited:
            return ""
        name, where = limited[0]
        return f" ({name} where {where}{', ...' if len(limited) > 1 else ''})"


_NO_SIGNAL = "no_ranking_signal"


def _outcome(item: IndicatorRecord) -> str:
    no_signal = _NO_SIGNAL in item.x_reasons and item.label == RANK_ONLY
    return _NO_SIGNAL if no_signal else item.label


def answer(results: Results) -> RankedVerdicts:
    """Sum up a results file: scores by group, by label, then by the share of events detected."""
    target, groups, budget = primary_target(results), list(GROUPS), results.primary_run_budget

    def rank(item: IndicatorRecord) -> tuple[int, int, float, str]:
        rate = detection_of(item, target, budget).rate or 0.0
        return groups.index(group_of(item)), LABELS.index(item.label), -rate, item.name

    ranked = tuple(sorted(results.indicators, key=rank))
    scope = results.design.scope if results.design else ""
    return RankedVerdicts(ranked, target, results.summary.n_seeds, results.locked, scope, budget)


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
    """The p-value by windows: adjusted over the candidates, or the raw one where nothing was."""
    adjusted, point = item.x_p_adjusted, item.point(target)
    return point.x_p_value if adjusted is None and point is not None else adjusted


# What the evaluation rests on, in words.


def judged_by(results: Results) -> Design | CompatSettings | None:
    """The design, or the reference's settings in its place; None where the file holds neither."""
    if results.x_protocol != "compat":
        return results.design
    from gmb_hf.benchmark.compat import settings_of

    return settings_of(results)


def boundary_sentences(results: Results) -> tuple[str, ...]:
    """What was judged and how: the design, sentence by sentence, or what is known without one."""
    settings = judged_by(results)
    if isinstance(settings, Design):
        return explain_design(settings, locked=results.locked)
    if settings is not None:
        from gmb_hf.benchmark.compat import explain_settings

        return explain_settings(settings)
    task, model = results.boundary.task, results.boundary.model
    return (
        f"Task: {task or 'not declared'}.",
        f"Model: {model or 'not declared'}.",
        f"Event: {results.event.type}; the preregistration is not stored with the results.",
    )


def events_sentence(results: Results) -> str:
    """How many runs have an event, when, and which do not count."""
    summary = results.summary
    at = [float(step) for step in results.event.t_event_by_seed.values() if step is not None]
    events = summary.n_events
    known = "an unknown number" if events is None else f"{events:,}"
    text = f"{known} of {summary.n_seeds:,} {RUNS[results.locked]} have an event"
    if at:
        text += f", between step {min(at):,.0f} and {max(at):,.0f} (median {median(at):,.0f})"
    text += "."
    if summary.x_event_count_min is not None and (events or 0) < summary.x_event_count_min:
        text += f" {summary.x_event_count_min} are needed for a verdict."
    if summary.x_n_too_early:
        text += f" {summary.x_n_too_early:,} came too early to be detected and count as misses."
    if summary.x_n_excluded:
        text += f" Excluded, as neither events nor negatives: {summary.x_n_excluded:,}."
    return text


def calibration_sentence(results: Results) -> str:
    """Where the thresholds come from."""
    calibration = results.x_calibration
    if calibration is None:
        return "Where the thresholds come from is not stored."
    said, n_runs = _WORDS["thresholds"][calibration.method], calibration.n_runs
    return said if n_runs is None else f"{said} {n_runs:,} runs with negative windows were used."


def provenance(results: Results) -> Iterator[tuple[str, str]]:
    """What would have to be the same for the same numbers to come out: what it is, its value."""
    yield "Date", results.meta.date
    if results.meta.prereg_path:
        yield "Preregistration", results.meta.prereg_path
    for pulled in results.x_sources:
        place = f"{pulled.repo}@{pulled.revision}"
        yield f"From the Hub: {pulled.what}", f"{place}, {pulled.config}, {pulled.fingerprint}"
    source = results.x_provenance
    if source is None:
        return
    versions = ", ".join(f"{name} {version}" for name, version in source.packages.items())
    yield "Software", f"gmb-hf {source.package_version}, Python {source.python}, {versions}"
    known = {
        "Lock": source.lock_hash,
        "Preregistration hash": source.prereg_hash,
        "Explore log": source.explore_fingerprint,
        "Held-out log": source.evaluation_fingerprint,
    }
    yield from ((name, value) for name, value in known.items() if value)
    if source.seed_of_draws is not None:
        yield "Seed of all draws", str(source.seed_of_draws)


def subtitle(results: Results) -> str:
    """What was judged, in one line."""
    summary, calibration = results.summary, results.x_calibration
    judged = f"{summary.n_seeds:,} {RUNS[results.locked]}, {steps(summary.n_events)} events"
    about = ((results.boundary.task, 40), (results.boundary.model, 24))
    parts = [
        *(shorten(name, most) for name, most in about if name and name != UNDECLARED),
        judged,
    ]
    if calibration is not None:
        count = "the" if calibration.n_runs is None else f"{calibration.n_runs:,}"
        parts.append(_WORDS["thresholds_shortly"][calibration.method].format(count))
    return " · ".join(part for part in parts if part)
