"""Held-out runs to verdicts: by a lock, or by a design on runs of one's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gmb_hf.benchmark.events import Events, find_events
from gmb_hf.benchmark.indicator_record import indicator_record
from gmb_hf.benchmark.judge import IndicatorVerdictParts, judge_all
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.result_records import CalibrationRecord
from gmb_hf.benchmark.results import Results
from gmb_hf.preregistration.lock import CENTRAL, Lock, member_key
from gmb_hf.preregistration.plan import effective_budget
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs import RunLog
from gmb_hf.validation import InputError
from gmb_hf.workflows.candidates import CONTROLS, Entry, entries_of, resolve
from gmb_hf.workflows.design import with_boundary


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An evaluation with all that its report needs.

    Attributes:
        results: what results.yaml will say.
        judgements: each score, by name.
        parts: what was measured of it.
        events: of the held-out runs.
        log: the held-out runs.
        prereg: the design.
        lock: the lock it was judged by, if any.
    """

    results: Results
    judgements: Mapping[str, Judgement]
    parts: Mapping[str, IndicatorVerdictParts]
    events: Events
    log: RunLog
    prereg: Prereg
    lock: Lock | None


def evaluate_lock(
    lock: Lock,
    log: RunLog,
    *,
    lock_path: str | None = None,
    on_done: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge held-out runs by a lock.

    Args:
        lock: what was frozen.
        log: held-out runs, none of which the lock has seen.
        lock_path: where the lock lies, for the record.
        on_done: called with each score's name when it has been measured.

    Raises:
        InputError: a run was in explore, the boundary differs, or a column is missing.
    """
    prereg = lock.prereg
    entries = [
        dataclasses.replace(_locked_entry(name, lock, log), sign=lock.candidate(name).sign)
        for name in lock.x_lock.candidates
    ]
    notes = lock.check_evaluation(
        log.runs,
        log.seeds,
        fingerprint=log.fingerprint(),
        cadence=log.panel(prereg.metric).cadence(),
        task=log.metadata.get("task"),
        model=log.metadata.get("model"),
        candidates=[entry.name for entry in entries],
    )
    events = find_events(log.panel, prereg)
    judgements, variants = {}, {}
    for entry in entries:
        judgements[entry.name] = _locked_judgement(entry, lock, log, events)
        variants[entry.name] = {
            f"window={window}": (
                judgements[entry.name]
                if window == entry.window
                else _locked_judgement(entry, lock, log, events, window=window)
            )
            for window in entry.windows(prereg)
        }
    return _judged(
        entries, judgements, variants, events, log, prereg, lock, lock_path, notes, on_done
    )


def evaluate_runs(
    prereg: Prereg,
    log: RunLog,
    *,
    explore: RunLog | None = None,
    on_done: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge the candidates of a design on runs of one's own, without a lock.

    With explore runs the thresholds come from them; without, `strict` cross-fits over the runs
    themselves and `v0.4` calibrates on what it measures. The results say which.

    Raises:
        InputError: explore and evaluation runs overlap, or a column is missing.
    """
    prereg = with_boundary(prereg, log)
    both = sorted(set(log.runs) & set(explore.runs)) if explore is not None else []
    if both:
        raise InputError(
            f"run {both[0]!r} is among the explore runs and the evaluated ones; a run must not "
            "be judged by a threshold that it helped to find"
        )
    entries = entries_of(prereg, log)
    events = find_events(log.panel, prereg)
    earlier = None if explore is None else find_events(explore.panel, prereg)
    judgements: dict[str, Judgement] = {}
    variants: dict[str, dict[str, Judgement]] = {}

    def judgement(entry: Entry, window: int | None = None) -> Judgement:
        calibration = (
            None
            if explore is None or earlier is None
            else entry.scores(explore, earlier, window=window)
        )
        return Judgement(entry.scores(log, events, window=window), calibration, prereg)

    for entry in entries:
        judgements[entry.name] = judgement(entry)
        variants[entry.name] = {
            f"window={window}": judgement(entry, window) for window in entry.windows(prereg)
        }
    return _judged(entries, judgements, variants, events, log, prereg, None, None, (), on_done)


def _locked_entry(name: str, lock: Lock, log: RunLog) -> Entry:
    frozen = lock.candidate(name)
    declared = {candidate.name: candidate for candidate in lock.prereg.candidates}
    if name in declared:
        candidate = declared[name].model_copy(update={"params": frozen.params})
        return resolve(candidate, log)
    return next(entry for entry in entries_of(lock.prereg, log) if entry.name == name)


def _locked_judgement(
    entry: Entry, lock: Lock, log: RunLog, events: Events, *, window: int | None = None
) -> Judgement:
    prereg = lock.prereg

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
            for smooth in prereg.x_smoothing_sweep
            if smooth != 1
        },
        calibration_runs=lock.x_lock.n_calibration_runs,
    )


def _judged(
    entries: Sequence[Entry],
    judgements: Mapping[str, Judgement],
    variants: Mapping[str, Mapping[str, Judgement]],
    events: Events,
    log: RunLog,
    prereg: Prereg,
    lock: Lock | None,
    lock_path: str | None,
    notes: Sequence[str],
    on_done: Callable[[str], None] | None,
) -> Evaluation:
    if not events.n_events:
        notes = [
            *notes,
            f"No run has an event: {prereg.metric} never jumps as {prereg.event.type} asks.",
        ]
    parts = judge_all(
        judgements,
        {name: family for name, family in variants.items() if family},
        controls=CONTROLS,
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
        for entry in entries
    ]
    dropped = sum(log.dropped_duplicates.values())
    if dropped:
        runs = ", ".join(f"{run} ({count})" for run, count in log.dropped_duplicates.items())
        notes = [*notes, f"{dropped} rows of restarted logs were dropped: {runs}."]
    calibrated = next(iter(judgements.values())).calibrated
    grid = log.panel("step")
    results = Results.assemble(
        records,
        prereg=prereg,
        runs=log.runs,
        seeds=log.seeds,
        event_steps=[float(step) for step in events.step],
        last_steps=[int(step) for step in grid.last_step],
        calibration=_calibration_record(calibrated.method, calibrated.n_runs, prereg),
        lock=lock,
        prereg_path=lock_path,
        evaluation_fingerprint=log.fingerprint(),
        notes=list(notes),
    )
    return Evaluation(results, judgements, parts, events, log, prereg, lock)


def _calibration_record(method: str, n_runs: int | None, prereg: Prereg) -> CalibrationRecord:
    budgets = (
        {}
        if n_runs is None or prereg.protocol != "strict"
        else {f"{target:g}": effective_budget(target, n_runs) for target in prereg.fpr_targets}
    )
    return CalibrationRecord.parse(
        {"method": method, "n_runs": n_runs, "effective_budget": budgets}, where="calibration"
    )
