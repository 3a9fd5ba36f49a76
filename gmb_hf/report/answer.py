"""The answer in one sentence: what the report opens with and the first figure is titled.

Whoever acts, acts on the first alarm: where it was judged, the answer is by runs. The label by
windows is the specification's view, shown beside it. Below, in words too, is what the answer rests
on: events, thresholds, design, provenance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from gmb_hf.base.escape import shorten, steps
from gmb_hf.base.stats import IntervalRecord
from gmb_hf.base.tables import follow
from gmb_hf.benchmark.compat import explain_settings, settings_of
from gmb_hf.benchmark.first_alarm import FirstAlarmPointRecord
from gmb_hf.benchmark.gates import DESIGN_FAULT
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
from gmb_hf.design.explain import explain_design
from gmb_hf.indicators import catalogue

GROUPS = {
    "monitor": "Sees no test labels: a monitor",
    "task": "Sees no test labels, but knows the task: a monitor of this task alone",
    "undeclared": "Not declared whether it sees test labels",
    "oracle": "Sees test labels: an oracle, shown for comparison",
    "control": "Controls: what any monitor must beat",
}
"""The groups that indicators are shown in, in this order; they are not ranked together."""

MONITORS = ("monitor", "task", "undeclared")
"""Those that are no oracles and no controls."""

REASONS = {
    "compat_protocol": "repeats the published computation",
    "control": "a control",
    "coverage_low": "warns of too few events",
    DESIGN_FAULT: "most events come before any alarm could",
    "few_events": "too few events",
    "few_runs": "too few calibration runs",
    "fpr_floor": "false-alarm floor",
    "fpr_uncontrolled": "false rate uncontrolled",
    "interval_straddles": "too few runs to decide",
    "label_flips": "label flips too easily",
    "lead_short": "warns too late",
    "no_better_than_blind": "no better than a blind alarm",
    "no_better_than_chance": "no better than chance",
    "no_better_than_clock": "no better than the clock",
    "no_better_than_steps_since_memorisation": "no better than steps since memorisation",
    "no_first_alarm": "locked before first alarms",
    "no_negative_windows": "no negative windows",
    "no_ranking_signal": "does not rank",
    "not_locked": "exploratory: not locked",
    "not_strict": "not judged by strict",
    "oracle": "an oracle",
    "runs_uncontrolled": "too many runs falsely alarmed",
    "warned_low": "warns of too few events",
}

COMBINATION, BLIND_ALARM, RULE = "combination", "blind alarm", "rule"
KINDS = {
    "label-free": "Label-free signals",
    "task-aware": "Task-aware signals: they know the operation or the Fourier basis",
    COMBINATION: "Learned combinations of signals that see no test label",
    RULE: "Published alarm rules as they stand, without calibration",
    "label-using": "Label-using signals: oracles, no monitors",
    BLIND_ALARM: "Blind alarms",
}
"""Signals of different kinds are never ranked together (DECISIONS 13)."""

RUNS = {True: "held-out runs", False: "runs"}
"""What the judged runs are called: held out are those that a lock had not seen."""


def reason(code: str) -> str:
    """A reason code in words; an unknown code speaks for itself."""
    return REASONS.get(code, code.replace("_", " "))


def group_of(item: IndicatorRecord) -> str:
    """The key in `GROUPS` that an indicator belongs to."""
    aware = item.group == "monitor" and kind_of(item) == "task-aware"
    return "task" if aware else item.group


def kind_of(item: IndicatorRecord) -> str:
    """The key in `KINDS` that an indicator belongs to; what the catalogue lacks sees no label."""
    if item.family == "control":
        return BLIND_ALARM
    if item.family == ENSEMBLE:
        return COMBINATION
    if item.name not in catalogue.names():
        return "label-using" if item.x_sees_test_labels else "label-free"
    known = catalogue.get(item.name)
    return RULE if known.rule else known.kind


def label_of(item: IndicatorRecord) -> str:
    """The label that counts: by runs; by windows where first alarms were not judged."""
    return item.label if item.x_first_alarm is None else item.x_first_alarm.label


def reasons_of(item: IndicatorRecord) -> Sequence[str]:
    """The codes that stand against an alarm, of the label that counts."""
    return item.x_reasons if item.x_first_alarm is None else item.x_first_alarm.reasons


def sentence_of(item: IndicatorRecord) -> str:
    """The sentence of the label that counts, "" where none is stored."""
    first = item.x_first_alarm
    return item.x_sentence if first is None else first.sentence


def hardest(point: FirstAlarmPointRecord) -> float | None:
    """What the hardest of all blind alarms of the same cost warns of, a share of events."""
    return max(point.blind.values(), default=None)


def ends(interval: IntervalRecord | None) -> tuple[float, float]:
    """Both ends of an interval; NaN where there is none."""
    return (math.nan, math.nan) if interval is None else (interval.low, interval.high)


_DEFAULT_TARGET = 0.05


@dataclass(frozen=True)
class RankedVerdicts:
    """What came out: every indicator by group, then label, then the share of events warned of.

    Attributes:
        ranked: all of them.
        target: the primary operating point, a share of windows.
        n_runs: how many runs were judged.
        locked: whether by a lock.
        scope: a sentence on what of the boundary is undeclared, or "".
        budget: the share of runs that decides; None: the answer is by windows.
        beside: whether the answer by windows stands beside one by runs, which is what counts.
    """

    ranked: tuple[IndicatorRecord, ...]
    target: float
    n_runs: int
    locked: bool
    scope: str = ""
    budget: float | None = None
    beside: bool = False

    def group(self, name: str) -> tuple[IndicatorRecord, ...]:
        """The indicators of one group, ranked."""
        return tuple(item for item in self.ranked if group_of(item) == name)

    def label(self, item: IndicatorRecord) -> str:
        """The label in this view."""
        return item.label if self.budget is None else label_of(item)

    def reasons(self, item: IndicatorRecord) -> Sequence[str]:
        """The codes that stand against an alarm in this view."""
        return item.x_reasons if self.budget is None else reasons_of(item)

    @property
    def subject(self) -> tuple[IndicatorRecord, ...]:
        """What there is to speak about: oracles or controls only where there is nothing else."""
        monitors = tuple(i for i in self.ranked if group_of(i) in MONITORS)
        return monitors or self.group("oracle") or self.ranked

    @property
    def supported(self) -> tuple[IndicatorRecord, ...]:
        """The indicators of the subject that pass everything, best first."""
        return tuple(item for item in self.subject if self.label(item) == SUPPORTED)

    @property
    def may_alarm(self) -> bool:
        """Whether any score may raise an alarm."""
        return any(item.x_alarm_eligible for item in self.subject)

    @property
    def caveat(self) -> str:
        """What an evaluation without a lock is, before a sentence about it."""
        by = "By windows (the specification's view): " if self.beside else ""
        return by if self.locked else f"Exploratory, without a lock: {by}"

    @property
    def _passed(self) -> str:
        """What may be said of those that pass everything."""
        passed = f"{len(self.supported)} of {self._total} pass every layer"
        if self.beside:
            return passed
        if self.may_alarm:
            able = sum(bool(item.x_alarm_eligible) for item in self.subject)
            return f"{able} of {self._total} may raise an alarm"
        if self.budget is not None:
            passed = f"{len(self.supported)} of {self._total} pass every rule"
        return f"{passed}, none may raise an alarm,"

    @property
    def title(self) -> str:
        """A line for a figure."""
        at, total = f"at a {self.target * 100:g}% false-alarm budget", self._total
        if self.budget is not None:
            at = f"with a budget of {in_words(self.budget)}"
        if self.supported:
            return f"{self.caveat}{self._passed} {at}"
        undecided = sum(self.label(item) == INCONCLUSIVE for item in self.subject)
        none = "None" if self.beside else "No alarm"
        if undecided:
            return f"{self.caveat}{none} yet {at}: {undecided} of {total} not decided"
        does = "passes every layer" if self.beside else "may raise an alarm"
        return f"{self.caveat}None of {total} {does} {at}"

    @property
    def sentence(self) -> str:
        """The answer with its numbers, and the scope it holds for, plain text."""
        said = self._said
        return said if self.scope in said else f"{said} {self.scope}"

    @property
    def _said(self) -> str:
        subject, total = self.subject, self._total
        sentence = subject[0].x_sentence if subject and self.budget is None else ""
        if subject and self.budget is not None:
            sentence = sentence_of(subject[0])
        if len(subject) == 1 and sentence:
            return f"{self.caveat}{subject[0].name}: {sentence}"
        at = f"at a false-alarm budget of {self.target * 100:g}%"
        if self.budget is not None:
            at = f"with a budget of {in_words(self.budget)}"
        if all(DESIGN_FAULT in self.reasons(item) for item in subject):
            return f"{sentence.partition('. ')[0]}."
        if self.supported:
            best = _best(self.supported, self.target, self.budget)
            return f"{self.caveat}{self._passed} {at}{best}."
        counts: Counter[str] = Counter(map(self._outcome, subject))
        words = {
            INCONCLUSIVE: f"not decided by {self.n_runs:,} {RUNS[self.locked]}",
            RANK_ONLY: "no more than a ranking",
            _NO_SIGNAL: "without a ranking signal",
            UNSTABLE: "unstable",
            SCOPE_LIMITED: f"good in a stated scope only{self._scopes}",
        }
        parts = [f"{counts[label]} {what}" for label, what in words.items() if counts[label]]
        yet = " yet" if counts[INCONCLUSIVE] else ""
        does = "passes every layer" if self.beside else "may raise an alarm"
        said = f"None of {total} {does}{yet} {at}: {', '.join(parts)}."
        return self.caveat + said

    def _outcome(self, item: IndicatorRecord) -> str:
        label = self.label(item)
        no_signal = _NO_SIGNAL in self.reasons(item) and label == RANK_ONLY
        return _NO_SIGNAL if no_signal else label

    @property
    def _scopes(self) -> str:
        """The first scope, which such a label must state (spec 5)."""
        limited = [(item.name, scope_of(item, self.budget is not None)) for item in self.subject]
        limited = [(name, where) for name, where in limited if where]
        if not limited:
            return ""
        name, where = limited[0]
        return f" ({name} where {where}{', ...' if len(limited) > 1 else ''})"

    @property
    def _total(self) -> str:
        return f"{len(self.subject):,} score" + ("" if len(self.subject) == 1 else "s")


_NO_SIGNAL = "no_ranking_signal"


def answer(results: Results, *, by_windows: bool = False) -> RankedVerdicts:
    """Sum up a results file by runs; by windows on request, and where only those were judged."""
    target, groups = primary_target(results), list(GROUPS)
    run_budget = primary_budget(results)
    budget = None if by_windows else run_budget

    def rank(item: IndicatorRecord) -> tuple[int, int, float, str]:
        share = follow(item.point(target), "coverage")
        if budget is not None and item.x_first_alarm is not None:
            share = item.x_first_alarm.at(budget).warned
        label = item.label if budget is None else label_of(item)
        return groups.index(group_of(item)), LABELS.index(label), -(share or 0.0), item.name

    ranked = tuple(sorted(results.indicators, key=rank))
    scope = results.design.scope if results.design else ""
    beside = by_windows and run_budget is not None
    return RankedVerdicts(
        ranked, target, results.summary.n_seeds, results.locked, scope, budget, beside
    )


def primary_budget(results: Results) -> float | None:
    """The share of runs that decides; None where first alarms were not judged at it."""
    return results.primary_run_budget


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


def scope_of(item: IndicatorRecord, by_runs: bool) -> str:
    """The condition that a `SCOPE_LIMITED` label is bound to, "" without one."""
    first = item.x_first_alarm
    if not by_runs or first is None:
        return item.x_scope.where if item.x_scope else ""
    return next((part.where for part in first.strata if part.name == first.scope), "")


def _best(eligible: Sequence[IndicatorRecord], target: float, budget: float | None) -> str:
    """What the best is worth, beside what is gained by chance at the same cost."""
    best, first = eligible[0], eligible[0].x_first_alarm
    if budget is not None and first is not None:
        point = first.at(budget)
        share, lead, by_chance = point.warned, point.lead_median, hardest(point)
        chance = "a blind alarm of the same cost"
    else:
        at = best.point(target)
        share, lead = follow(at, "coverage"), follow(at, "lead_time_median")
        by_chance, chance = follow(at, "by_chance"), "chance at the same cost"
    if share is None:
        return ""
    who = f"the best, {best.name}," if len(eligible) > 1 else f"it ({best.name})"
    ahead = "" if lead is None else f", {lead:,.0f} steps ahead in the median"
    beaten = "" if by_chance is None else f", where {chance} warns of {by_chance:.0%}"
    return f"; {who} warned of {share:.0%} of events{ahead}{beaten}"


# What the evaluation rests on, in words.

# Where thresholds come from, in a sentence and in a few words.
_SOURCES = {
    "locked": (
        "Thresholds were locked on explore runs before a held-out run was looked at.",
        "thresholds locked on {} explore runs",
    ),
    "explore": ("Thresholds were found on explore runs.", "thresholds from {} explore runs"),
    "cross_run": (
        "There were no explore runs: each run was judged by thresholds found on the other "
        "runs (grouped cross-fitting). A deployed threshold would come from all of them.",
        "thresholds cross-fitted over runs",
    ),
    "given": ("Thresholds were given from outside.", "thresholds from outside"),
    "in_sample": (
        "Thresholds were found on the same negative windows that they were measured on, as the "
        "specification allows; this makes the gate easy to pass.",
        "thresholds from the same runs",
    ),
}


def boundary_sentences(results: Results) -> tuple[str, ...]:
    """What was judged and how: the design, sentence by sentence, or what is known without one."""
    design, compat = results.design, settings_of(results)
    if compat is not None:
        return explain_settings(compat)
    if design is not None:
        return explain_design(design, locked=results.locked)
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
        text += f" {summary.x_n_too_early:,} came too early to be warned of and count as uncovered."
    if summary.x_n_excluded:
        text += f" Excluded, as neither events nor negatives: {summary.x_n_excluded:,}."
    return text


def calibration_sentence(results: Results) -> str:
    """Where the thresholds come from."""
    calibration = results.x_calibration
    if calibration is None:
        return "Where the thresholds come from is not stored."
    said, n_runs = _SOURCES[calibration.method][0], calibration.n_runs
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
    parts = [*(shorten(name, most) for name, most in about if name), judged]
    if calibration is not None:
        count = "the" if calibration.n_runs is None else f"{calibration.n_runs:,}"
        parts.append(_SOURCES[calibration.method][1].format(count))
    return " · ".join(part for part in parts if part)
