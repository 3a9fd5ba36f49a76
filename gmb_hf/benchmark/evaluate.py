"""One evaluation: every score judged, and all of it put into results.

`evaluating` says which scores, runs and thresholds; nothing here depends on where they come from.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.events import Events
from gmb_hf.benchmark.judge import IndicatorVerdictParts, judge_all
from gmb_hf.benchmark.locking import runs_with_negatives, system_of, with_boundary
from gmb_hf.benchmark.prepare import (
    CONTROLS,
    Entry,
    count_labels,
    decided_runs,
    entries_of,
    judged_rows,
    namesakes,
    resolve,
    run_facts,
)
from gmb_hf.benchmark.results import CalibrationRecord, Results, indicator_record
from gmb_hf.design.design import ENSEMBLE, Design
from gmb_hf.design.lint import DesignFacts, lint, refuse_unsound
from gmb_hf.design.lock import CENTRAL, Lock, look_notes, member_key, next_look
from gmb_hf.design.power import effective_budget
from gmb_hf.design.record import refuse_shared_runs
from gmb_hf.errors import InputError
from gmb_hf.indicators.catalogue import get
from gmb_hf.indicators.ensemble import fitted_ensemble
from gmb_hf.runs.metadata import hub_sources
from gmb_hf.runs.runlog import RunLog

_NO_EVENT = {
    "E_jump": "{metric} never jumps as E_jump asks",
    "E_plateau": "{metric} never settles as E_plateau asks",
    "E_regime": "PT-MSS registers no transition",
}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An evaluation with all that its report needs.

    Attributes:
        results: what results.yaml will say.
        judgements: each score, by name.
        parts: what was measured of it.
        events: of the held-out runs that were judged; `excluded` names the others.
        log: the held-out runs that were judged.
        prereg: the design.
        lock: the lock it was judged by, if any.
    """

    results: Results
    judgements: Mapping[str, Judgement]
    parts: Mapping[str, IndicatorVerdictParts]
    events: Events
    log: RunLog
    prereg: Design
    lock: Lock | None


@dataclass(frozen=True)
class Case:
    """What is judged: the scores, the runs and their events, and the design.

    `log` holds the runs that are judged, `given` those that the event excludes as well.
    """

    entries: Sequence[Entry]
    events: Events
    log: RunLog
    given: RunLog
    prereg: Design
    lock: Lock | None = None
    lock_path: str | None = None
    notes: Sequence[str] = ()
    look: int | None = None

    def all_notes(self) -> list[str]:
        """What a reader must know, the log's own peculiarities included."""
        notes = list(self.notes)
        if not self.events.n_events:
            why = _NO_EVENT[self.prereg.event_type].format(metric=self.prereg.metric)
            notes.append(f"No run has an event: {why}.")
        if self.events.excluded:
            notes.append(
                f"Excluded, as neither events nor negatives: {len(self.events.excluded)} of "
                f"{len(self.given.runs)} runs; PT-MSS cannot say whether they have a transition "
                f"({count_labels(self.events)})."
            )
        notes.extend(self.given.notes)
        dropped = self.given.dropped_duplicates
        if dropped:
            runs = ", ".join(f"{run} ({count})" for run, count in dropped.items())
            total = sum(dropped.values())
            notes.append(f"{total} rows of restarted logs were dropped: {runs}.")
        return notes


def evaluate_case(
    case: Case,
    judgement: Callable[[Entry, int | None], Judgement],
    on_done: Callable[[str], None] | None,
) -> Evaluation:
    """Judge every score of a case; `judgement(entry, window)` says by which thresholds."""
    judgements = {entry.name: judgement(entry, None) for entry in case.entries}
    variants = {
        entry.name: {
            f"window={window}": (
                judgements[entry.name] if window == entry.window else judgement(entry, window)
            )
            for window in entry.windows(case.prereg)
        }
        for entry in case.entries
        if entry.windows(case.prereg)
    }
    parts = judge_all(
        judgements,
        variants,
        controls=CONTROLS,
        facts=run_facts(case.prereg, case.log),
        on_done=on_done,
    )
    records = [
        indicator_record(
            entry.name,
            parts[entry.name],
            family=entry.indicator.family,
            sign=entry.sign,
            sees_test_labels=entry.indicator.sees_test_labels,
        )
        for entry in case.entries
    ]
    # Of all scores but ensembles, which calibrate on fewer runs; the controls are among them.
    usual = next(entry.name for entry in case.entries if entry.indicator.family != ENSEMBLE)
    calibrated = judgements[usual].calibrated
    given, prereg = case.given, case.prereg
    fingerprint = given.fingerprint()
    step_of = dict(zip(case.events.runs, case.events.step.tolist(), strict=True))
    results = Results.assemble(
        records,
        prereg=prereg,
        runs=given.runs,
        seeds=given.seeds,
        event_steps=[step_of.get(run, math.nan) for run in given.runs],
        last_steps=[int(step) for step in given.panel("step").last_step],
        excluded=case.events.excluded,
        calibration=_calibration_record(calibrated.method, calibrated.n_runs, prereg),
        lock=case.lock,
        prereg_path=case.lock_path,
        look=case.look,
        evaluation_fingerprint=fingerprint,
        run_id=_run_id(prereg, fingerprint),
        # A lock has its day; with it a run that is taken up again leaves equal bytes.
        date=None if case.lock is None else case.lock.x_lock.created.partition("T")[0],
        notes=case.all_notes(),
    ).pulled_from(hub_sources(given.metadata))
    return Evaluation(results, judgements, parts, case.events, case.log, prereg, case.lock)


def _run_id(prereg: Design, fingerprint: str) -> str:
    """The task's name, without what qualifies it, and the runs' fingerprint."""
    name = (prereg.task or "runs").partition(",")[0]
    return f"{name.replace(' ', '_')}_{fingerprint[:8]}"


def _calibration_record(method: str, n_runs: int | None, prereg: Design) -> CalibrationRecord:
    budgets = (
        {}
        if n_runs is None or prereg.protocol != "strict"
        else {f"{target:g}": effective_budget(target, n_runs) for target in prereg.fpr_targets}
    )
    return CalibrationRecord.parse(
        {"method": method, "n_runs": n_runs, "effective_budget": budgets}, where="calibration"
    )


# Held-out runs to verdicts: by a lock, or by a design on runs of one's own.


# With too few runs there is no verdict but INCONCLUSIVE, which says so itself.
_FEW_RUNS = ("run_groups_exceed_runs",)
_LEANS_ON = 5  # members of an ensemble that a note names


def evaluate_lock(
    lock: Lock,
    log: RunLog,
    *,
    lock_path: str | None = None,
    keep_looks: bool = False,
    on_done: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge held-out runs by a lock.

    Args:
        lock: what was frozen.
        log: held-out runs, none of which the lock has seen.
        lock_path: where the lock lies, for the record.
        keep_looks: count this look at held-out runs and write it down beside the lock; not where
            no runs can be added, as in a folder of the main job.
        on_done: called with each score's name when it has been measured.

    Raises:
        InputError: a run was in explore, the boundary differs, a column is missing, or runs were
            added beyond the looks that the lock allows.
    """
    prereg = lock.design
    entries = [
        dataclasses.replace(_locked_entry(name, lock, log), sign=lock.candidate(name).sign)
        for name in lock.x_lock.candidates
    ]
    notes = lock.check_evaluation(
        log.runs,
        log.seeds,
        fingerprint=log.fingerprint(),
        declared=system_of(log),
        candidates=[entry.name for entry in entries],
    )
    look = next_look(lock, lock_path, log) if keep_looks and lock_path is not None else None
    judged, events = decided_runs(prereg, log)

    def judgement(entry: Entry, window: int | None) -> Judgement:
        return _locked_judgement(entry, lock, judged, events, window=window)

    notes = (*notes, *_ensemble_notes(lock), *look_notes(lock, look))
    number = look.number if look else 1
    case = Case(entries, events, judged, log, prereg, lock, lock_path, notes, number)
    evaluation = evaluate_case(case, judgement, on_done)
    if look is not None:
        look.keep()
    return evaluation


def evaluate_runs(
    prereg: Design,
    log: RunLog,
    *,
    explore: RunLog | None = None,
    on_done: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge the candidates of a design on runs of one's own, without a lock.

    With explore runs the thresholds come from them; without, `strict` cross-fits over the runs
    themselves and `v0.4` calibrates on what it measures. The results say which.

    Raises:
        InputError: the design is unsound, explore and evaluation runs overlap or differ in
            cadence, or a column is missing.
    """
    entries = entries_of(prereg, log)
    log = judged_rows(log, prereg, entries)
    prereg = with_boundary(prereg, log)
    if explore is not None:
        explore = judged_rows(explore, prereg, entries)
        _refuse_explore(explore, log)
    judged, events = decided_runs(prereg, log)
    earlier = None if explore is None else decided_runs(prereg, explore)
    calibrating = None if earlier is None else runs_with_negatives(entries[-1], *earlier, prereg)
    facts = DesignFacts(
        cadence=log.panel("step").cadence(),
        n_explore=None if explore is None else len(explore.runs),
        n_explore_with_negatives=calibrating,
        n_eval=len(judged.runs),
        # That no run has an event, and what was dropped, is noted in any case.
        event_steps=tuple(np.asarray(events.step).tolist()) if events.n_events else (),
        first_steps=tuple(np.asarray(events.first_step).tolist()) if events.n_events else (),
        dip_recoveries=events.n_dip_recoveries,
        windowed=tuple(entry.name for entry in entries if entry.window is not None),
    )
    findings = lint(prereg, facts)
    refuse_unsound(finding for finding in findings if finding.code not in _FEW_RUNS)
    notes = [*namesakes(entries, log), *(f"[{item.code}] {item.message}" for item in findings)]

    def judgement(entry: Entry, window: int | None) -> Judgement:
        calibration = None if earlier is None else entry.scores(*earlier, window=window)
        return Judgement(entry.scores(judged, events, window=window), calibration, prereg)

    return evaluate_case(
        Case(entries, events, judged, log, prereg, notes=notes), judgement, on_done
    )


def _refuse_explore(explore: RunLog, log: RunLog) -> None:
    """Thresholds must come from other runs than those judged, seen at the same cadence."""
    if explore.fingerprint() == log.fingerprint():
        raise InputError("the explore runs are the runs to judge; give other runs")
    refuse_shared_runs(explore.runs, explore.seeds, log.runs, log.seeds, "the runs to judge")
    earlier, now = (rows.panel("step").cadence() for rows in (explore, log))
    if earlier != now:
        raise InputError(
            f"the explore runs have a checkpoint every {earlier} steps, the runs to judge every "
            f"{now}; a threshold does not carry over to another cadence"
        )


def _locked_entry(name: str, lock: Lock, log: RunLog) -> Entry:
    frozen = lock.candidate(name)
    if frozen.ensemble is not None:
        return Entry(fitted_ensemble(name, frozen.ensemble))
    declared = {candidate.name: candidate for candidate in lock.design.candidates}
    if name in declared:
        taken = {"params": frozen.params, "family": frozen.family}
        candidate = declared[name].model_copy(update=taken)
        return resolve(candidate, log)
    return Entry(get(name))  # a control


def _ensemble_notes(lock: Lock) -> list[str]:
    """What each ensemble was made on, and which members it leans on most."""
    notes = []
    for name, item in lock.x_lock.candidates.items():
        if item.ensemble is None:
            continue
        weights = {member.name: member.coefficient for member in item.ensemble.members}
        most = sorted(weights, key=lambda member: -abs(weights[member]))[:_LEANS_ON]
        notes.append(
            f"{name} was fitted on {len(item.ensemble.fit_runs)} explore runs; its thresholds come "
            f"from {item.ensemble.n_calibration_runs} others, where those of single scores come "
            f"from {lock.x_lock.n_calibration_runs}. Its largest coefficients of {len(weights)}: "
            f"{', '.join(f'{member} {weights[member]:+.2g}' for member in most)}."
        )
    return notes


def _locked_judgement(
    entry: Entry, lock: Lock, log: RunLog, events: Events, *, window: int | None = None
) -> Judgement:
    prereg = lock.design

    def key(smooth: int) -> str:
        if window is None:
            return CENTRAL if smooth == 1 else member_key(smooth=smooth)
        return member_key(window=window, smooth=smooth)

    return Judgement(
        entry.scores(log, events, window=window),
        None,
        prereg,
        thresholds=lock.thresholds(entry.name, key(1)),
        smoothed_thresholds={
            smooth: lock.thresholds(entry.name, key(smooth))
            for smooth in prereg.smoothing_sweep
            if smooth != 1
        },
        calibration_runs=lock.calibration_runs(entry.name),
    )
