"""Run logs and a design, or a lock, to what is judged.

    prepared = prepare("runs/quick/logs", design)
    prepared.events.step, prepared.scores(prepared.entries[0]).values

Explore, lock, evaluate, plan, the `evaluate` modules and the monitor all begin here, so that they
agree on which rows of a log count, where its events are, and which score a name means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError, first_of, nearest, unknown
from gmb_hf.benchmark.causality import Series, Tried, alone, refuse_peeking
from gmb_hf.benchmark.events import (
    EVENTS,
    Events,
    events_the_other_way,
    find_events,
    slow_rises,
)
from gmb_hf.benchmark.judgement import Basis, Judgement, Locked, Source
from gmb_hf.benchmark.scores import Scores, score_windows
from gmb_hf.benchmark.verdict import Declared
from gmb_hf.core.windows import Windows
from gmb_hf.design.candidates import Candidate, Ensemble, Score
from gmb_hf.design.design import UNDECLARED, Design
from gmb_hf.design.event_types import EVENT_TYPES
from gmb_hf.design.lint import in_percent, nearest_multiple
from gmb_hf.design.lock import CENTRAL, SEEN_AS, Lock, LockedSystem, member_key
from gmb_hf.design.locked_ensembles import LockedEnsemble
from gmb_hf.design.pretrained import PretrainedScore, pretrained
from gmb_hf.design.strata import EVENT_STEP
from gmb_hf.indicators import catalogue
from gmb_hf.indicators.catalogue import Indicator, Observables, get, is_foreign, names, scored
from gmb_hf.indicators.causal import Values
from gmb_hf.indicators.ensemble import (
    external,
    fitted_ensemble,
    member_indicators,
    unfitted_ensemble,
)
from gmb_hf.runs.columns import filled, float_column, listing
from gmb_hf.runs.copies import (
    Marks,
    NearCopies,
    copied_from,
    joined,
    marks_of,
    refuse_copies,
)
from gmb_hf.runs.metadata import (
    COLUMN_FAMILIES,
    DIFFERS,
    EXTERNAL,
    SYSTEM,
    column_family,
    stated,
)
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog, at_shared_steps

CONTROLS = ("clock", "constant", "steps_since_memorisation")
SEED = "seed"
_COLUMNS_SHOWN = 24
_NAMED = 4  # columns that a message names
LABEL_FREE = ("train_loss", "train_acc")
"""Metrics that are made without held-out labels."""


@dataclass(frozen=True)
class Entry:
    """One score to be judged.

    Attributes:
        indicator: the catalogue's entry, or a column of the log.
        sign: +1 for the declared orientation, -1 for its opposite.
        parameters: over the indicator's defaults.
        members: of an ensemble, in the order of its design; its indicator has no score until it is
            fitted.
        ensemble: how they are to be combined; None for every other score.
        pretrained: the formula of a combination that was fitted on other runs.
    """

    indicator: Indicator
    sign: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)
    members: tuple[Entry, ...] = ()
    ensemble: Ensemble | None = None
    pretrained: LockedEnsemble | None = None

    @property
    def name(self) -> str:
        """The score's name in tables."""
        return self.indicator.name

    @property
    def declared(self) -> Declared:
        """What a results file states of the score beside its verdict."""
        sees, knows = self.indicator.sees_test_labels, self.indicator.kind == "task-aware"
        sign: Literal[1, -1] = 1 if self.sign > 0 else -1
        return Declared(self.name, self.indicator.family, sign, sees, knows)

    @property
    def window(self) -> int | None:
        """The indicator's own window in steps, None where it has none."""
        parameter = self.indicator.window_parameter
        if parameter is None:
            return None
        return int(self.indicator.with_defaults(self.parameters)[parameter])

    def windows(self, design: Design) -> tuple[int, ...]:
        """The windows of the robustness family; empty where the indicator has none."""
        return () if self.window is None else design.window_sweep

    def with_window(self, window: int | None) -> Entry:
        """The same score with another window of its own; None keeps the declared one."""
        parameter = self.indicator.window_parameter
        if window is None or parameter is None:
            return self
        return replace(self, parameters={**self.parameters, parameter: window})

    @property
    def trial(self) -> Tried:
        """The score as its causality is tried."""
        return Tried(self.indicator, self.parameters, self.sign)

    def panel(self, log: RunLog, known: Mapping[tuple[Any, ...], Values] | None = None) -> Panel:
        """The score of every run of a log; `known` is as `Observables` takes it."""
        grid = log.panel("step")
        seen = Observables(lambda column: log.panel(column).values, grid.cadence, known or {})
        values = scored(self.indicator, seen, self.parameters, sign=self.sign)
        return grid.with_values(values, name=self.name)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Runs as they are judged; `prepare` makes it. Scores and events are computed once.

    Attributes:
        design: as it was given, its leads filled in, or the lock's.
        entries: every candidate of the design and, after them, the controls; of a lock, all that
            it holds.
        log: all runs, with the rows at which the metric and what the scores are made of are known.
        left_out: a sentence about the other rows, if any.
        lock: what they are judged by; None without one.
        transferred: whether they are of another system than the lock's; see `Judgement`.
        near: the runs that move like another one.
    """

    design: Design
    entries: tuple[Entry, ...]
    log: RunLog
    left_out: tuple[str, ...] = ()
    lock: Lock | None = None
    transferred: bool = False
    near: NearCopies = field(default=NearCopies((), 0))
    _panels: dict[Any, Panel] = field(default_factory=dict, repr=False)

    @cached_property
    def completed(self) -> Design:
        """The design with what it leaves open about the system filled in from the runs.

        Raises:
            InputError: the checkpoints of the runs are not evenly spaced.
        """
        return with_boundary(self.design, self.log)

    @cached_property
    def _decided(self) -> tuple[RunLog, Events]:
        return decided_runs(self.design, self.log)

    @property
    def judged(self) -> RunLog:
        """The runs of which it can be said whether they had an event.

        Raises:
            InputError: there is none; or what `find_events` raises.
        """
        return self._decided[0]

    @property
    def events(self) -> Events:
        """The events of the runs that are judged; `excluded` names the others."""
        return self._decided[1]

    @cached_property
    def other_events(self) -> dict[str, Prepared]:
        """The same runs and scores before each event of `x_also_events`, by its name."""
        others = self.design.other_events()
        return {name: replace(self, design=other) for name, other in others}

    @cached_property
    def facts(self) -> dict[str, NDArray[np.float64]]:
        """What the strata of the design ask of the runs that are judged; see `run_facts`."""
        return run_facts(self.design, self.judged)

    @cached_property
    def windows(self) -> Windows:
        """The labels of the windows of the runs that are judged."""
        return score_windows(
            Scores.from_panel(self.judged.panel("step"), self.events.step), self.design
        )

    @property
    def runs_with_negatives(self) -> int:
        """How many of the runs that are judged have a negative window at least."""
        return int(self.windows.negative.any(axis=1).sum())

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the runs, a sentence each."""
        notes = []
        if not self.events.n_events:
            why = EVENTS[self.design.event_type].absent.format(metric=self.design.metric)
            notes.append(f"No run has an event: {why}{self._hint}.")
        if slow := slow_rises(self.judged, self.design, self.events):
            moves = "falls" if self.design.falling else "rises"
            notes.append(
                f"In {slow} of the {len(self.judged.runs) - self.events.n_events} runs without an "
                f"event {self.design.metric} {moves} as far, but slower, and a score that sees "
                "it is counted as wrong: a longer event.window_W_event takes such runs in, or "
                "event.type: E_plateau, a level that is held."
            )
        if self.events.excluded:
            notes.append(
                f"Excluded, as neither events nor negatives: {len(self.events.excluded)} of "
                f"{len(self.log.runs)} runs; PT-MSS cannot say whether they have a transition "
                f"({_count_labels(self.events)})."
            )
        notes += self.log.notes
        health = None if self.lock is None else self.lock.x_lock.x_health
        late = self.log.panel("step").late_starts(health.first_step if health else None)
        notes += filter(None, [self.near.note(), self.log.restarts, late])
        return notes + [one.message for one in in_percent(self.design, self.metric_range)]

    @property
    def metric_range(self) -> tuple[float, float] | None:
        """The least and the largest finite value of the metric; None where it has none."""
        if self.design.metric not in self.log.observables:
            return None
        values = float_column(self.log.table[self.design.metric])
        finite = values[np.isfinite(values)]
        return (float(finite.min()), float(finite.max())) if len(finite) else None

    @property
    def _hint(self) -> str:
        """What to change where no run has an event, but a metric that falls would have some."""
        falls = events_the_other_way(self.judged, self.design)
        if not falls:
            return ""
        runs = f"{falls} of {len(self.judged.runs)} runs"
        return f"; it falls that way in {runs}: for a loss set x_direction: falling"

    def panel(self, entry: Entry) -> Panel:
        """A score on all runs, those that the event excludes too.

        Raises:
            InputError: it is of another package, and not causal on these runs.
        """
        settings = entry.indicator.with_defaults(entry.parameters)
        key = (entry.name, entry.indicator.family, entry.sign, *sorted(settings.items()))
        if key not in self._panels:
            self._panels[key] = self._causal(entry)
        return self._panels[key]

    def _causal(self, entry: Entry) -> Panel:
        """A score on all runs, tried run by run where other packages compute a part of it."""
        tried = [part for part in self._parts(entry) if is_foreign(part.indicator)]
        if not tried:
            return entry.panel(self.log)
        if not is_foreign(entry.indicator):  # an ensemble is made of the numbers that were tried
            known = {part.trial.key: self.panel(part).values for part in tried}
            return entry.panel(self.log, known)
        alone = self.alone  # before the score has seen a whole run
        panel, salt = entry.panel(self.log), self.log.fingerprint()
        return refuse_peeking(entry.trial, panel, alone[entry.trial.key], salt=salt)

    @cached_property
    def alone(self) -> dict[tuple[Any, ...], Series]:
        """The scores of other packages, members and windows included, of each run by itself.

        Raises:
            InputError: one cannot be computed in a fresh process; it is named.
        """
        tried = [
            part.with_window(window).trial
            for entry in self.entries
            for part in self._parts(entry)
            if is_foreign(part.indicator)
            for window in (None, *part.windows(self.design))
        ]
        return alone(list({trial.key: trial for trial in tried}.values()), self.log)

    def _parts(self, entry: Entry) -> list[Entry]:
        """The scores that one is computed from: itself, or the members of an ensemble."""
        of_lock = {} if self.lock is None else self.lock.x_lock.candidates
        locked = of_lock[entry.name].ensemble if entry.name in of_lock else None
        if locked is None:
            return list(entry.members) or [entry]
        members = zip(locked.members, member_indicators(locked), strict=True)
        return [Entry(indicator, one.sign, one.params) for one, indicator in members]

    def scores(self, entry: Entry, *, window: int | None = None) -> Scores:
        """A score (an ensemble with its formula) on the runs that are judged, with their events.

        `window` replaces the declared one; such a score is not kept.
        """
        if window is None or window == entry.window:
            panel = self.panel(entry)
        else:
            panel = self._causal(entry.with_window(window))
        if self.events.excluded:
            place = {run: row for row, run in enumerate(panel.runs)}
            panel = panel.select([place[run] for run in self.judged.runs])
        return Scores.from_panel(panel, self.events.step)

    def judgement(
        self,
        entry: Entry,
        *,
        window: int | None = None,
        explore: Prepared | None = None,
    ) -> Judgement:
        """A score as the layers judge it: by the lock's thresholds, where there is a lock.

        `window` is as in `scores`; without a lock thresholds are found on the runs of `explore`, or
        on these.
        """
        source: Source = None
        if self.lock is not None:
            source = self._locked(self.lock, entry.name, window)
        elif explore is not None:
            source = explore.scores(entry, window=window)
        scores = self.scores(entry, window=window)
        return Judgement(scores, source, self.design, basis=self._basis(entry))

    def _locked(self, lock: Lock, name: str, window: int | None) -> Locked:
        windows, runs = {}, {}
        for smooth in dict.fromkeys((1, *self.design.smoothing_sweep)):
            declared = window is None and smooth == 1
            key = CENTRAL if declared else member_key(window=window, smooth=smooth)
            windows[smooth] = lock.thresholds(name, key)
            runs[smooth] = lock.run_thresholds(name, key)
        known = runs if any(runs.values()) else {}  # a lock from before first alarms has none
        return Locked(windows, known, lock.calibration_runs(name))

    def _basis(self, entry: Entry) -> Basis:
        if entry.indicator.rule:
            return "rule"
        return "shown" if self.transferred or self.lock is None else "promised"

    def before_event(
        self, name: str, entry: Entry, *, explore: Prepared | None = None
    ) -> Judgement:
        """A score before another event of `other_events`; by the lock's thresholds for it."""
        other = self.other_events[name]
        source: Source = None
        if explore is not None:
            source = explore.other_events[name].scores(entry)
        if self.lock is not None:
            runs = self.lock.candidate(entry.name).other_event_runs.get(name)
            source = Locked({}, {1: self.lock.run_thresholds(entry.name, name)}, runs)
        return Judgement(other.scores(entry), source, other.design, basis=self._basis(entry))


Runs = RunLog | str | Path | Sequence[str | Path]
"""A run log, or the files, folders and globs that `RunLog.read` reads one from."""


def prepare(
    runs: Runs | Prepared,
    design: Design | Lock,
    *,
    entries: Sequence[Entry] | None = None,
    leave_out: Collection[str] = (),
) -> Prepared:
    """Turn run logs and a design, or a lock, into what is judged.

    Where some of what the scores and the event are made of was logged less often than the rest,
    the rows are kept in which all of it is known, if those are evenly spaced.

    Args:
        runs: to explore, to lock on, or to judge; what is prepared already is given back.
        design: what is asked of them.
        entries: the scores, where they are resolved already.
        leave_out: scores of a lock that are not to be measured.

    Raises:
        InputError: the design has no candidates, one is unknown, a run has no row in which all
            that is needed is known, or two runs are copies.
    """
    if isinstance(runs, Prepared):
        return runs
    log = runs if isinstance(runs, RunLog) else RunLog.read(runs)
    lock = design if isinstance(design, Lock) else None
    design = design.design if isinstance(design, Lock) else design
    if lock is not None:
        names = [name for name in lock.x_lock.candidates if name not in leave_out]
        entries = [locked_entry(lock, name, log) for name in names]
    elif entries is None:
        entries = entries_of(design, log)
    known = [name for name in sum(_read(design, entries), ()) if name in log.observables]
    kept = at_shared_steps(log, known) if known else log
    near = NearCopies((), len(kept.runs))
    if entries:  # or nothing is judged
        near = refuse_copied_runs(kept, design, entries=entries)
    design = with_chance(with_leads(design, kept.panel("step")), kept)
    left_out = kept.notes[len(log.notes) :]
    return Prepared(design, tuple(entries), kept, left_out, lock, near=near)


def _read(design: Design, entries: Sequence[Entry]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The metrics in which events are found, and the other columns that scores are made of."""
    asked = (design, *(one for _, one in design.other_events()))
    metrics = [one.metric for one in asked if EVENTS[one.event_type].reads_metric]
    needs = [name for entry in entries for name in entry.indicator.needs]
    scores = [name for name in dict.fromkeys(needs) if name not in metrics]
    return tuple(dict.fromkeys(metrics)), tuple(scores)


def refuse_copied_runs(
    log: RunLog, design: Design, where: str | None = None, *, entries: Sequence[Entry] | None = None
) -> NearCopies:
    """Refuse a log in which one run stands twice; the runs that nearly do.

    Args:
        log: the runs.
        design: by which they are judged, and its scores, where they are resolved already.
        where: what the log is, for messages.

    Raises:
        InputError: two runs are copies; both are named.
    """
    metrics, scores = _read(design, entries_of(design, log) if entries is None else entries)
    have = log.shared_observables

    def others() -> Iterator[Panel]:
        return (log.panel(name) for name in have if name not in (*metrics, *scores))

    metric, columns = (
        [log.panel(name) for name in some if name in have] for some in (metrics, scores)
    )
    return refuse_copies(metric, columns, others, where=where or log.origin)


def refuse_copies_between(explore: Prepared, judged: Prepared) -> NearCopies:
    """Refuse runs to judge that are copies of explore runs; those that nearly are.

    Raises:
        InputError: two runs are copies; both are named.
    """
    sides = [side.log for side in (explore, judged)]
    have = set.intersection(*({*log.shared_observables} for log in sides))

    def both(names: Sequence[str]) -> list[Panel]:
        return [joined(*(log.panel(name) for log in sides)) for name in names if name in have]

    metrics, scores = _read(judged.design, judged.entries)
    others = sorted(have.difference(metrics, scores))
    where = "explore runs and runs to judge"
    near = refuse_copies(both(metrics), both(scores), lambda: both(others), where=where)
    known = {f"explore {run}" for run in explore.log.runs}
    pairs = (pair for pair in near.pairs if len(known.intersection(pair)) == 1)
    return replace(near, pairs=tuple(pairs))


def marks_by(log: RunLog, columns: Sequence[str]) -> list[Marks]:
    """What a lock keeps of explore runs, to know their copies; empty where nothing is read."""
    have = log.shared_observables
    return marks_of([log.panel(name) for name in columns]) if {*columns} <= {*have} else []


def refuse_marked(lock: Lock, log: RunLog) -> None:
    """Refuse held-out runs that are copies of explore runs, by the marks that a lock keeps.

    Raises:
        InputError: one is; both are named.
    """
    marks = lock.explore_marks
    if not any(marks) or not {*lock.columns} <= {*log.shared_observables}:
        return
    copies = copied_from([log.panel(name) for name in lock.columns], marks)
    for run, place in copies[:1]:
        raise InputError(
            f"held-out runs: {len(copies)} also used to explore (run {run!r} is explore run "
            f"{lock.x_lock.explore_runs[place]!r} at every step that both have); a threshold must "
            "not be judged on runs that it was found on, give other runs",
            code="runs_overlap",
            run=run,
        )


def with_leads(design: Design, clock: Panel) -> Design:
    """The design with the leads that it leaves open, in steps: what is frozen says them."""
    spacing, counted = clock.spacings()
    least = design.lead_least
    if design.cadence is None and counted.any():
        cadence = int(spacing[counted].min())
        least = design.model_copy(update={"cadence": cadence}).lead_least
    leads = {"lead_time_median_min": least, "lead_time_target": design.lead_target}
    return design.model_copy(update=leads)


def with_chance(design: Design, log: RunLog) -> Design:
    """The design of an onset with the chance level that the runs say, where it says none."""
    chance = chance_of(design, log) if design.event_type == "E_onset" else None
    return design if chance is None else design.replace(chance=chance)


def chance_of(design: Design, log: RunLog) -> float | None:
    """The metric of a guess, as the design or else the runs say; None where neither does."""
    said = {value for value in stated(log.metadata, "chance") if isinstance(value, float)}
    return design.chance or (said.pop() if len(said) == 1 else None)


def decided_runs(design: Design, log: RunLog) -> tuple[RunLog, Events]:
    """The runs of which it can be said whether they had an event, and their events.

    Raises:
        InputError: every run is excluded; or what `find_events` raises.
    """
    events = find_events(log, design)
    if not events.excluded:
        return log, events
    kept = [run for run in log.runs if run not in events.excluded]
    if not kept:
        raise InputError(
            f"{log.origin}: PT-MSS cannot say of any run whether it has an event "
            f"({_count_labels(events)}), so there is nothing to judge; gmb audit --runs ... says "
            "why, x_regime_quantile and x_regime_radius are what can be changed"
        )
    return log.select(kept), events.decided()


def _count_labels(events: Events) -> str:
    """How many runs are excluded under which label, in words."""
    counts = Counter(events.excluded.values())
    return ", ".join(f"{count} {label}" for label, count in sorted(counts.items()))


# The scores of a design: which indicator, column or ensemble each candidate is.


def entries_of(design: Design, log: RunLog) -> list[Entry]:
    """Every candidate of the design and, after them, the controls.

    Raises:
        InputError: the design has no candidates, or one is unknown.
    """
    if not design.candidates:
        raise InputError(
            "the preregistration has no candidates; list at least one indicator or column"
        )
    have = {candidate.name for candidate in design.candidates}
    entries = [resolve(candidate, log) for candidate in design.candidates]
    needed = {name for entry in entries for name in entry.indicator.needs} | {design.metric}
    controls = [Entry(get(name)) for name in controls_of(log, needed) if name not in have]
    return [_told(entry, design) for entry in entries] + controls


def _told(entry: Entry, design: Design) -> Entry:
    """The score of another package that reads the metric of an event sees its labels."""
    metrics = {one.metric for one in (design, *(other for _, other in design.other_events()))}
    parts = [part.indicator for part in entry.members or (entry,)]
    read = {name for part in parts if is_foreign(part) for name in part.needs}
    return _seeing(entry) if read & metrics - {*LABEL_FREE} else entry


def _seeing(entry: Entry) -> Entry:
    return replace(entry, indicator=replace(entry.indicator, sees_test_labels=True))


def controls_of(log: RunLog, needed: Collection[str] = ()) -> list[str]:
    """The controls that the log can feed in every row in which `needed` columns have a value."""
    held = catalogue.available(log)
    rows = filled(log.table, [name for name in needed if name in log.observables])

    def fed(name: str) -> bool:
        return bool(filled(log.table, get(name).needs)[rows].all())

    return [name for name in CONTROLS if name in held and fed(name)]


def locked_entry(lock: Lock, name: str, log: RunLog | None = None) -> Entry:
    """The score that a candidate of a lock is, as it was frozen.

    `log` has the runs to judge by the lock; None where the run is live and its columns are still
    to come. Raises what `resolve` does.
    """
    frozen = lock.candidate(name)
    declared = {candidate.name: candidate for candidate in lock.design.candidates}
    if frozen.ensemble is not None:
        entry = Entry(fitted_ensemble(name, frozen.ensemble), frozen.sign)
    elif name not in declared:
        return Entry(get(name), frozen.sign, frozen.params)  # a control
    else:
        taken = {"params": frozen.params, "family": frozen.family, "x_sign": frozen.sign}
        entry = resolve(declared[name].model_copy(update=taken), log)
    return _seeing(entry) if frozen.sees_test_labels else entry


def resolve(candidate: Candidate, log: RunLog | None) -> Entry:
    """The score that a candidate names: a registered indicator, a column of the log, an ensemble.

    A candidate of the family "external" or "judge" is a column; one that has the name of an
    indicator and another family is the indicator. Without a log every column is taken to be there.

    Raises:
        InputError: it is neither (the nearest name is given), it may be either, or it is said to
            see other labels than its registration says. The same of a member of an ensemble; or the
            ensemble has the name of an indicator or a column.
    """
    where, ensemble = f"candidate {candidate.name!r}", candidate.x_ensemble
    if ensemble is None and candidate.x_pretrained is None:
        return _resolve_score(candidate, log, where)
    if candidate.name in names() or (log is not None and candidate.name in log.observables):
        raise InputError(f"{where}: is the name of an indicator or a column; rename the ensemble")
    if ensemble is None:
        return _resolve_pretrained(candidate, log, where)
    members = tuple(
        _resolve_score(one, log, f"{where}, member {one.name!r}") for one in ensemble.members
    )
    parts = [member.indicator for member in members]
    indicator = unfitted_ensemble(candidate.name, parts, ensemble.method)
    said, found = candidate.x_sees_test_labels, indicator.sees_test_labels
    if said not in (None, found):
        but = "a member does not say" if found is None else f"by its members it is {found}"
        raise InputError(
            f"{where}: x_sees_test_labels is {said}, but {but}; say it of the members alone"
        )
    return Entry(indicator, candidate.x_sign or 1, {}, members, ensemble)


def _resolve_pretrained(candidate: Candidate, log: RunLog | None, where: str) -> Entry:
    """A combination that was fitted elsewhere, for the checkpoints of a log.

    Raises:
        InputError: it is not there, is another one than was declared, or the log lacks columns.
    """
    assert candidate.x_pretrained is not None
    found = pretrained(candidate.x_pretrained, where)
    cadence = found.cadence
    if log is not None:
        lacking = [name for name in found.needs if name not in log.observables]
        if lacking:
            raise _lacking_columns(found, lacking, where)
        cadence = at_shared_steps(log, list(found.needs)).panel("step").cadence()
    formula = found.at_cadence(cadence)
    indicator = fitted_ensemble(candidate.name, formula)
    sees = candidate.x_sees_test_labels
    if sees not in (None, indicator.sees_test_labels):
        raise InputError(
            f"{where}: x_sees_test_labels is {sees}, but by its members it is "
            f"{indicator.sees_test_labels}; leave the key out"
        )
    return Entry(indicator, candidate.x_sign or 1, pretrained=formula)


def _lacking_columns(found: PretrainedScore, lacking: Sequence[str], where: str) -> InputError:
    """What a log lacks for a pretrained score, and what would have recorded it."""
    of_survey, usual = (
        {name for one in map(get, names()) if one.published is which for name in one.needs}
        for which in (True, False)
    )
    trained = [name for name in lacking if name in of_survey - usual]
    own = [name for name in lacking if name not in trained]
    how = [
        *(
            [f"gmb_hf.monitor.observe.ModelObserver measures {first_of(own, _NAMED)}"]
            if own
            else []
        ),
        *(
            [f"gmb run --set training.observables=published records {first_of(trained, _NAMED)}"]
            if trained
            else []
        ),
    ]
    return InputError(
        f"{where}: the logs lack {len(lacking)} of the {len(found.needs)} columns that it is made "
        f"of; {'; '.join(how)}",
        code="missing_columns",
        name=found.name,
    )


def _resolve_score(score: Score, log: RunLog | None, where: str) -> Entry:
    family = score.family if score.family in COLUMN_FAMILIES else None
    registered = score.name in names()
    column = family is not None if log is None else score.name in log.observables
    if score.name in CONTROLS and family:
        raise InputError(f"{where}: is the name of a control; rename the column")
    if registered and column and score.family is None and score.name not in CONTROLS:
        raise InputError(
            f"{where}: is a column of the log and an indicator; set family: {EXTERNAL} for the "
            f"column, or family: {get(score.name).family} for the indicator"
        )
    if registered and not family:
        indicator = get(score.name)
        if score.x_sees_test_labels not in (None, indicator.sees_test_labels):
            raise InputError(
                f"{where}: x_sees_test_labels is {score.x_sees_test_labels}, but this indicator is "
                f"registered with {indicator.sees_test_labels}; leave the key out"
            )
    elif column:
        if family is None and log is not None:
            family = column_family(log.metadata, score.name)
        indicator = external(score.name, score.x_sees_test_labels, family=family or EXTERNAL)
    elif log is None:
        indicator = get(score.name)
    else:
        if score.name in log.set_aside:
            raise InputError(log.set_aside[score.name])
        guess = nearest(score.name, [*log.observables, *names()])
        columns = listing(score.name, log.observables, most=_COLUMNS_SHOWN)
        hint = f" Did you mean {guess!r}?" if guess else ""
        raise InputError(
            f"{log.origin}: {score.name!r} is neither a column nor an indicator; columns: "
            f"{columns}; gmb indicators lists the others.{hint}"
        )
    return Entry(indicator, score.x_sign or 1, score.params)


def available_candidates(log: RunLog) -> list[dict[str, Any]]:
    """Every registered indicator that the log can feed, but the controls, with its defaults.

    Signals of the survey are among them where the training recorded what such signals need.
    """
    cadence = log.panel("step").cadence()
    surveyed = set(stated(log.metadata, "config.training.observables")) - {"usual"}
    return [
        {
            "name": name,
            "family": get(name).family,
            "params": get(name).defaults_for(cadence),
            "x_sees_test_labels": get(name).sees_test_labels,
        }
        for name in catalogue.available(log)
        if name not in CONTROLS and (surveyed or not get(name).published)
    ]


def namesakes(entries: Sequence[Entry], log: RunLog) -> list[str]:
    """Notes that say which was taken where a column and an indicator have the same name."""
    both = [entry for entry in entries if entry.name in log.observables and entry.name in names()]
    columns = [entry.name for entry in both if entry.indicator.family in COLUMN_FAMILIES]
    others = [entry.name for entry in both if entry.name not in columns]
    taken = {
        "Columns of the log, not the indicators of that name": columns,
        "Indicators, not the columns of the log of that name": others,
    }
    return [f"{which}: {', '.join(some)}." for which, some in taken.items() if some]


def boundary_of(log: RunLog) -> dict[str, Any]:
    """What a log says about the system it comes from; keys of the design's `boundary`.

    Where its parts disagree it says nothing; `statements_of` has what each of them says.
    """
    said = statements_of(log)
    return {key: values[0] for key, values in said.items() if len(values) == 1}


def statements_of(log: RunLog) -> dict[str, list[Any]]:
    """What the parts of a log say about the system, by key of the design's `boundary`.

    Metadata is anybody's JSON: what is no text, or no number of steps, says nothing here.
    """
    kinds: dict[str, type] = dict.fromkeys(("task", "model", "optimizer", "schedule"), str)
    kinds["checkpoint_every_steps"] = int
    differs = log.metadata.get(DIFFERS)
    said = {}
    for key, kind in kinds.items():
        parts = differs.get(key) if isinstance(differs, dict) else None
        values = parts if isinstance(parts, list) else [log.metadata.get(key)]
        said[key] = [value for value in values if isinstance(value, kind)]
    return {key: values for key, values in said.items() if values}


def system_of(design: Design, log: RunLog) -> LockedSystem:
    """What a log says that a callback can see of the system, as far as the design declares it.

    A field that it does not say, or about which its parts disagree, is left open.
    """
    boundary = design.section("boundary")
    wanted = {
        name
        for part, names in SEEN_AS.items()
        for name in names
        if boundary[part] not in (None, UNDECLARED)
    }
    found = {}
    for name in sorted(wanted):
        values = set()
        for value in stated(log.metadata, f"{SYSTEM}.{name}"):
            with suppress(InputError):  # metadata is anybody's JSON
                values.add(getattr(LockedSystem.parse({name: value}, where=SYSTEM), name))
        if len(values) == 1:
            found[name] = values.pop()
    return LockedSystem(**found)


def with_boundary(design: Design, log: RunLog) -> Design:
    """The design with what it leaves open about the system filled in from a log.

    A lock that was made without saying so then still refuses logs of another task or cadence.
    """
    found = {**boundary_of(log), "checkpoint_every_steps": log.panel("step").cadence()}
    names = {place: name for name, place in design.places().items()}
    open_ones = {
        names[f"boundary.{key}"]: found[key]
        for key, stated in design.section("boundary").items()
        if not stated and key in found
    }
    return design.replace(**open_ones)


def with_explored(design: Design, log: RunLog) -> Design:
    """The design with the seeds of the runs that were explored, where it names none."""
    if design.seeds_explore or design.runs_explore or None in log.seeds:
        return design
    seen = tuple(sorted(seed for seed in {*log.seeds} if seed is not None))
    return design.model_copy(update={"seeds_explore": seen})


def run_facts(design: Design, log: RunLog) -> dict[str, NDArray[np.float64]]:
    """Numbers of each run that the strata of a design ask for: its seed, or a column of settings.

    Each is float64 [R], by name, NaN where it is not known.

    Raises:
        InputError: a stratum asks for a number that the log lacks, or for a column that changes
            within a run, so that nobody could tell which of its values is meant.
    """
    facts = {}
    for stratum in design.strata:
        for name in stratum.names:
            where = f"stratum {stratum.name!r} ({stratum.where})"
            if name in facts or name == EVENT_STEP:
                continue
            if name == SEED:
                facts[name] = np.array(log.seeds, dtype=np.float64)  # None is NaN
            elif name in log.observables:
                facts[name] = _one_value(log.panel(name), where)
            else:
                raise unknown("column", name, [EVENT_STEP, SEED, *log.observables], where=where)
    return facts


def _one_value(panel: Panel, where: str) -> NDArray[np.float64]:
    low, high = (np.where(panel.present, panel.values, fill) for fill in (np.inf, -np.inf))
    # fmin and fmax pass over NaN: an empty cell is no other value.
    least: NDArray[np.float64] = np.fmin.reduce(low, axis=1)
    most = np.fmax.reduce(high, axis=1)
    for run in np.flatnonzero(least != most).tolist():
        raise InputError(
            f"{where}: column {panel.name!r} goes from {least[run]:g} to {most[run]:g} within run "
            f"{panel.runs[run]!r}; a stratum needs a number that is one for each run"
        )
    return least


# Where events fall, before anything is judged.


@dataclass(frozen=True)
class EventPreview:
    """The events of a log by one definition.

    Attributes:
        event: the type of event, and which step it is.
        window: W of E_jump, in steps.
        runs: how many runs there are.
        events: how many of them have an event.
        steps: the earliest, the median and the latest t*; empty without events.
        at_first: how many fall on the first row at which there could be one.
        falling: where no run has an event, how many would if the metric were to fall.
        warnings: what is wrong with them, a sentence each.
        notes: what else a reader must know of the runs.
        others: the same of each event of `also_events`.
    """

    event: str
    window: int
    runs: int
    events: int
    steps: tuple[int, ...]
    at_first: int
    falling: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    others: tuple[EventPreview, ...] = ()


def preview_events(log: RunLog, **fields: Any) -> EventPreview:
    """The events of every run, by the fields of a design that define them (metric, jump_threshold).

    Where no window is given and the usual one is no multiple of the checkpoints' distance, it is
    the nearest multiple.

    Raises:
        InputError: a field is unknown or does not fit the checkpoints, or the metric is missing or
            no finite number somewhere.
    """
    spacing = log.complete([fields["metric"]] if "metric" in fields else []).panel("step").cadence()
    # Horizon and gap play no part in where events are.
    design = Design.minimal(**{"horizon": spacing, "safe_gap": 2 * spacing, **fields})
    if "w_event" not in fields and design.w_event % spacing:
        design = design.replace(w_event=nearest_multiple(design.w_event, spacing))
    prepared = prepare(log, design, entries=())
    others = tuple(map(_preview, prepared.other_events.values()))
    return replace(_preview(prepared), notes=tuple(prepared.notes), others=others)


def _preview(prepared: Prepared) -> EventPreview:
    found, design = prepared.events, prepared.design
    happened = np.isfinite(found.step)
    own = found.step[happened]
    at_first, warnings = int((own <= found.first_step[happened]).sum()), []
    if at_first:
        floor = " or x_theta_floor" if design.event_type == "E_jump" else ""
        what = f"{at_first} of {len(own)} events fall on the first row, so nothing can detect them"
        warnings.append(f"{what}; set x_event_t_min{floor}")
    if found.n_dip_recoveries:
        what = f"{found.n_dip_recoveries} of {len(own)} events only regain a level reached before"
        warnings.append(f"{what}; x_require_new_max: true leaves them out")
    ends = [own.min(), np.median(own), own.max()] if len(own) else []
    return EventPreview(
        event=f"{design.event_type}: {EVENT_TYPES[design.event_type].tell(design)}",
        window=design.w_event,
        runs=len(prepared.log.runs),
        events=int(happened.sum()),
        steps=tuple(int(step) for step in ends),
        at_first=at_first,
        falling=0 if found.n_events else events_the_other_way(prepared.judged, design),
        warnings=tuple(warnings),
        notes=(),
    )
