"""One evaluation: every score judged, and all of it put into results.

`evaluating` says which scores, runs and thresholds; nothing here depends on where they come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gmb_hf.benchmark.events import Events
from gmb_hf.benchmark.indicator_record import indicator_record
from gmb_hf.benchmark.judge import IndicatorVerdictParts, judge_all
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.result_records import CalibrationRecord
from gmb_hf.benchmark.results import Results
from gmb_hf.preregistration.candidate import ENSEMBLE
from gmb_hf.preregistration.lock import Lock
from gmb_hf.preregistration.plan import effective_budget
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs import RunLog
from gmb_hf.workflows.candidates import CONTROLS, Entry
from gmb_hf.workflows.facts import run_facts
from gmb_hf.workflows.hub_sources import sources_of
from gmb_hf.workflows.occurring import count_labels

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
    prereg: Prereg
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
    prereg: Prereg
    lock: Lock | None = None
    lock_path: str | None = None
    notes: Sequence[str] = ()
    look: int | None = None

    def all_notes(self) -> list[str]:
        """What a reader must know, the log's own peculiarities included."""
        notes = list(self.notes)
        if not self.events.n_events:
            why = _NO_EVENT[self.prereg.event.type].format(metric=self.prereg.metric)
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
    ).pulled_from(sources_of(given))
    return Evaluation(results, judgements, parts, case.events, case.log, prereg, case.lock)


def _run_id(prereg: Prereg, fingerprint: str) -> str:
    """The task's name, without what qualifies it, and the runs' fingerprint."""
    name = (prereg.boundary.task or "runs").partition(",")[0]
    return f"{name.replace(' ', '_')}_{fingerprint[:8]}"


def _calibration_record(method: str, n_runs: int | None, prereg: Prereg) -> CalibrationRecord:
    budgets = (
        {}
        if n_runs is None or prereg.protocol != "strict"
        else {f"{target:g}": effective_budget(target, n_runs) for target in prereg.fpr_targets}
    )
    return CalibrationRecord.parse(
        {"method": method, "n_runs": n_runs, "effective_budget": budgets}, where="calibration"
    )
