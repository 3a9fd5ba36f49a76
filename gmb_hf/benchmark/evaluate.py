"""Held-out runs to verdicts: by a lock, or by a design on runs of one's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.events import Events
from gmb_hf.benchmark.first_alarm import OtherEventRecord, before_event
from gmb_hf.benchmark.foresight import Seen
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.prepare import (
    CONTROLS,
    Prepared,
    Runs,
    namesakes,
    prepare,
    refuse_copies_between,
    refuse_marked,
    statements_of,
    with_explored,
)
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.sections import CalibrationRecord
from gmb_hf.benchmark.verdict import judge_all
from gmb_hf.core.thresholds import effective_budget
from gmb_hf.design.candidates import ENSEMBLE
from gmb_hf.design.design import Design
from gmb_hf.design.ledger import PanelLooks, panel_looks
from gmb_hf.design.lint import DesignFacts, lint, refuse_unsound
from gmb_hf.design.lock import Lock, differing, refuse_shared_runs
from gmb_hf.design.looks import Look, look_notes, next_look
from gmb_hf.runs.readers import Sources
from gmb_hf.runs.runlog import RunLog

if TYPE_CHECKING:
    from pandas import DataFrame

# With too few runs there is no verdict but INCONCLUSIVE, which says so itself.
_FEW_RUNS = ("run_groups_exceed_runs", "few_held_out_runs", "few_runs_for_run_budget")
_LEANS_ON = 5  # members of an ensemble that a note names
_FAMILIES = 5


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An evaluation with all that its report needs.

    Attributes:
        results: what results.yaml will say.
        judgements: each score, by name.
        events: of the held-out runs that were judged; `excluded` names the others.
        log: the held-out runs that were judged.
        design: the design.
        lock: the lock it was judged by, if any.
        panel_looks: how many have looked at the panels that these runs are of, a sentence each.
    """

    results: Results
    judgements: Mapping[str, Judgement]
    events: Events
    log: RunLog
    design: Design
    lock: Lock | None
    panel_looks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Evaluation({self.results!r})"

    def _repr_html_(self) -> str:
        return self.results._repr_html_()


def evaluate_lock(
    lock: Lock | str | Path,
    runs: Runs | Prepared,
    *,
    lock_path: str | None = None,
    transfer: bool = False,
    counted: bool = False,
    on_done: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge held-out runs by a lock.

    The look is counted, and kept beside the lock's file; of a lock that was never written, in this
    process. That of a panel's held-out runs, by whatever file they came, is in its ledger, too.

    Args:
        lock: what was frozen, or its file.
        runs: held-out runs, none of which the lock has seen: a run log, files, folders or globs.
        lock_path: where the lock lies, for the record; where it was read from by default.
        transfer: whether the runs may be of another system than the lock's, though seen at the same
            cadence. What explore runs promise does not hold there, so that a budget of runs is met
            only if these runs show it, and what is supported is so of their system alone. Scores
            whose columns these runs lack are left out, with a note.
        counted: whether the ledger of the panel knows this look by another name: a trial with its
            transfers is one, and who recomputes what was published sees nothing new.
        on_done: called with each score's name when it has been measured.

    Raises:
        InputError: a run was in explore, the boundary differs, a column is missing, these are
            other runs than those of the looks that the lock allows, or of a panel that as many
            have looked at as may.
    """
    held_out = may_judge(lock, runs, transfer=transfer, counted=counted)
    lock, look = held_out.lock, held_out.look
    if lock_path is None and lock.path is not None:
        lock_path = str(lock.path)
    looked = look_notes(lock, look)
    evaluation = _evaluate(
        held_out.prepared,
        lock.design,
        notes=(*held_out.notes, *_ensemble_notes(lock), *looked, *held_out.at_panels.notes),
        panel_looks=held_out.at_panels.notes,
        lock_path=lock_path,
        look=look.number,
        system=held_out.said if transfer else None,
        on_done=on_done,
    )
    held_out.keep()
    return evaluation


@dataclass(frozen=True, eq=False)
class HeldOutRuns:
    """Held-out runs that a lock may judge, and the look at them that is about to be taken.

    Attributes:
        lock: by what they are judged.
        prepared: they.
        said: what they say of their system, by field of the boundary.
        notes: what a reader must know of the runs.
        look: of the lock. at_panels: of the panels that the runs are of.
    """

    lock: Lock
    prepared: Prepared
    said: Mapping[str, Sequence[Any]]
    notes: tuple[str, ...]
    look: Look
    at_panels: PanelLooks

    def keep(self) -> None:
        """Write the look down; call it before anybody sees a result.

        Raises:
            InputError: as `PanelLooks.keep` and `Look.keep`.
        """
        self.at_panels.keep()
        self.look.keep()


def may_judge(
    lock: Lock | str | Path,
    runs: Runs | Prepared,
    *,
    transfer: bool = False,
    counted: bool = False,
) -> HeldOutRuns:
    """The held-out runs, where the lock may judge them; arguments and errors of `evaluate_lock`."""
    lock = lock if isinstance(lock, Lock) else Lock.read(lock)
    lacking: dict[str, list[str]] = {}
    if transfer and not isinstance(runs, Prepared):
        runs = runs if isinstance(runs, RunLog) else RunLog.read(runs)
        lacking = _lacking(lock, runs)
    prepared = replace(prepare(runs, lock, leave_out=lacking), transferred=transfer)
    log = prepared.log
    at_panels = panel_looks(None if counted else lock, lock.design.metric, log)
    gone = {column for of in lacking.values() for column in of}
    columns = [name for name in lock.columns if name not in gone]
    # The cadence is measured, not claimed.
    said = {**statements_of(log), "checkpoint_every_steps": [log.panel("step").cadence()]}
    notes = lock.check_evaluation(
        log.runs,
        log.seeds,
        hashes=log.run_hashes(columns),
        fingerprint=log.fingerprint(),
        declared=said,
        candidates=[entry.name for entry in prepared.entries],
        transfer=transfer,
    )
    refuse_marked(lock, log)
    if lock.x_lock.near_copies:
        notes = (*notes, f"Of the lock's explore runs: {lock.x_lock.near_copies}")
    if transfer:
        said_lacking = [_lacking_note(lacking)] if lacking else []
        notes = (_transfer_note(lock.design, said), *said_lacking, *notes)
    return HeldOutRuns(
        lock, prepared, said, notes, next_look(lock, log, remembered=not counted), at_panels
    )


def _lacking(lock: Lock, log: RunLog) -> dict[str, list[str]]:
    """The locked scores that cannot be measured on a log, and the columns that they lack there.

    Runs of another system may lack what its task has no use for. An operator there would have no
    such score. Empty where no score is left: the error that follows names the column.
    """
    needs = {name: item.needs for name, item in lock.x_lock.candidates.items()}
    have = {*log.shared_observables, "step"}
    lacking = {name: [one for one in of if one not in have] for name, of in needs.items()}
    found = {name: columns for name, columns in lacking.items() if columns}
    return found if len(found) < len(needs) else {}


def _lacking_note(lacking: Mapping[str, Sequence[str]]) -> str:
    listed = "; ".join(
        name if list(columns) == [name] else f"{name} (needs {', '.join(columns)})"
        for name, columns in lacking.items()
    )
    were = "1 locked score was" if len(lacking) == 1 else f"{len(lacking)} locked scores were"
    return f"{were} not judged, because these runs, or some of them, lack columns: {listed}"


def evaluate_runs(
    design: Design,
    runs: Runs | Prepared,
    *,
    explore: Runs | Prepared | None = None,
    on_done: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge the candidates of a design on runs of one's own, without a lock.

    With explore runs the thresholds come from them; without, `strict` cross-fits over the runs
    themselves and `v0.4` calibrates on what it measures. The results say which. The look at a
    panel's held-out runs is counted in its ledger, once for each design.

    Args:
        design: what is asked.
        runs: the runs to judge: a run log, files, folders or globs.
        explore: other runs of the same system.
        on_done: called with each score's name when it has been measured.

    Raises:
        InputError: the design is unsound, explore and evaluation runs overlap or differ in
            cadence, a column is missing, or as many have looked at these runs of a panel as may.
    """
    prepared = prepare(runs, design)
    asked, design, logs = design, prepared.completed, [prepared.log]
    earlier, near = None, []
    if explore is not None:
        earlier = prepare(explore, design, entries=prepared.entries)
        _refuse_explore(earlier.log, prepared.log)
        logs.append(earlier.log)
        if earlier.near.pairs:
            near.append(f"Of the explore runs: {earlier.near.note()}")
        near += filter(None, [refuse_copies_between(earlier, prepared).note()])
        design = with_explored(design, earlier.log)
    at_panels = panel_looks(asked, asked.metric, *logs)
    events, entries = prepared.events, prepared.entries
    facts = DesignFacts(
        cadence=prepared.log.panel("step").cadence(),
        n_explore=None if earlier is None else len(earlier.log.runs),
        n_explore_with_negatives=None if earlier is None else earlier.runs_with_negatives,
        n_eval=len(prepared.judged.runs),
        # That no run has an event, and what was dropped, is noted in any case.
        event_steps=tuple(events.step.tolist()) if events.n_events else (),
        first_steps=tuple(events.first_step.tolist()) if events.n_events else (),
        dip_recoveries=events.n_dip_recoveries,
        windowed=tuple(entry.name for entry in entries if entry.window is not None),
    )
    findings = lint(design, facts)
    refuse_unsound(finding for finding in findings if finding.code not in _FEW_RUNS)
    notes = [
        *namesakes(entries, prepared.log),
        *(f"[{item.code}] {item.message}" for item in findings),
        *near,
        *at_panels.notes,
    ]
    evaluation = _evaluate(
        prepared,
        design,
        explore=earlier,
        notes=notes,
        panel_looks=at_panels.notes,
        on_done=on_done,
    )
    at_panels.keep()  # before a result is seen
    return evaluation


def judge(
    runs: Sources | DataFrame,
    *,
    score: str | Sequence[str],
    metric: str,
    horizon: int,
    safe_gap: int,
    explore: Sources | DataFrame | None = None,
    run: str = "run",
    step: str = "step",
    sign: Literal[1, -1] = 1,
    sees_test_labels: bool | None = None,
    **fields: Any,
) -> Results:
    """Judge scores on runs of one's own: a table in, a verdict a score out.

    The evaluation has no lock, so that it is exploratory and no score of it may raise an alarm.

        results = gmb_hf.judge(df, score="my_score", metric="test_acc", horizon=200, safe_gap=400)
        results.to_pandas()

    Args:
        runs: a DataFrame with a row for each run and step, or files that `RunLog.read` reads.
        score: a column, or the name of an indicator; or several of them.
        metric: the column in which the event is found.
        horizon, safe_gap: in steps; see `Design`.
        explore: other runs of the same system, which the thresholds are then found on.
        run, step: the columns that name a row's run and step.
        sign: -1 where low scores mean risk.
        sees_test_labels: whether held-out labels went into the scores.
        fields: more fields of the design by name, such as `event_type="E_plateau"`.

    Raises:
        InputError: a column is missing, steps are unsorted or repeated, a score is NaN in a
            labelled window, or the design is unsound.
    """
    from gmb_hf.benchmark.own_runs import own_design

    read = partial(RunLog.read, run_column=run, step_column=step)
    log = read(runs)
    names = [score] if isinstance(score, str) else list(score)
    known: Any = {"sign": sign, "sees_test_labels": sees_test_labels, **fields}
    design = own_design(log, names, metric=metric, horizon=horizon, safe_gap=safe_gap, **known)
    earlier = None if explore is None else read(explore)
    return evaluate_runs(design, log, explore=earlier).results


def reversed_detection(judgement: Judgement) -> float | None:
    """The detection rate of a score with its sign reversed, at the primary budget of runs.

    For a hint after an exploratory evaluation. None where the thresholds are a lock's, or none
    keeps the budget.
    """
    source = judgement.source
    if not judgement.counts_runs or not (source is None or isinstance(source, Scores)):
        return None
    budget, own = judgement.design.primary_run_budget, judgement.evaluation
    turned = replace(own, values=-own.values)
    source = None if source is None else replace(source, values=-source.values)
    found = Judgement(turned, source, judgement.design, basis=judgement.basis)
    known = found.run_calibrated.finite(budget)
    return found.first_alarms(budget).detection_rate if known else None


def _evaluate(
    prepared: Prepared,
    design: Design,
    *,
    explore: Prepared | None = None,
    notes: Sequence[str],
    lock_path: str | None = None,
    look: int | None = None,
    system: Mapping[str, Sequence[Any]] | None = None,
    panel_looks: Sequence[str] = (),
    on_done: Callable[[str], None] | None,
) -> Evaluation:
    """Judge every score, by the lock's thresholds, those of explore runs, or of the runs alone."""
    entries, log, events, lock = prepared.entries, prepared.log, prepared.events, prepared.lock
    judgements = {entry.name: prepared.judgement(entry, explore=explore) for entry in entries}
    variants: dict[str, dict[str, Judgement]] = {}
    for entry in entries:
        for window in entry.windows(design):
            one = judgements[entry.name]
            if window != entry.window:
                one = prepared.judgement(entry, window=window, explore=explore)
            variants.setdefault(entry.name, {})[f"window={window}"] = one
    seen = Seen.of(prepared)
    judged = judge_all(
        judgements,
        variants,
        controls=CONTROLS,
        facts=prepared.facts,
        declared={entry.name: entry.declared for entry in entries},
        other_events=before_other_events(prepared, explore),
        visible=None if seen is None else seen.at,
        locked=lock is not None,
        most_runs=_most_runs(design, log, look, of_panel=bool(panel_looks)),
        on_done=on_done,
    )
    # Of all scores but ensembles, which calibrate on fewer runs; the controls are among them.
    usual = next(entry.name for entry in entries if entry.indicator.family != ENSEMBLE)
    calibrated = judgements[usual].calibrated
    m = calibrated.n_runs
    budgets: dict[str, float | None] = {}
    if m is not None and design.protocol == "strict":
        budgets = {f"{target:g}": effective_budget(target, m) for target in design.fpr_targets}
    step_of = dict(zip(events.runs, events.step.tolist(), strict=True))
    results = Results.assemble(
        [judged[entry.name] for entry in entries],
        log,
        [step_of.get(run, math.nan) for run in log.runs],
        design=design,
        calibration=CalibrationRecord(method=calibrated.method, n_runs=m, effective_budget=budgets),
        lock=lock,
        prereg_path=lock_path,
        look=look,
        # A lock has its day; with it a run that is taken up again leaves equal bytes.
        date=None if lock is None else lock.x_lock.created.partition("T")[0],
        notes=[*notes, *prepared.notes, *filter(None, [design.scope])],
        excluded=events.excluded,
        system=system,
    )
    looked = tuple(panel_looks)
    return Evaluation(results, judgements, events, prepared.judged, design, lock, looked)


def _most_runs(design: Design, log: RunLog, look: int | None, *, of_panel: bool) -> float:
    """Most held-out runs that there may be in all: none can be added to a panel, or at a last look.

    Of an evaluation without a lock `look` is None.
    """
    if of_panel or (look is not None and look >= design.looks):
        return len(log.runs)
    bounds = (design.max_eval_seeds, design.n_eval)
    return math.inf if look is None else min((n for n in bounds if n is not None), default=math.inf)


def before_other_events(
    prepared: Prepared, explore: Prepared | None = None
) -> dict[str, list[OtherEventRecord]]:
    """The first alarms of every score before each event of `x_also_events`, by its name."""
    found: dict[str, list[OtherEventRecord]] = {}
    asked = prepared.other_events if prepared.design.protocol == "strict" else {}
    for event in asked:
        judgements = {
            entry.name: prepared.before_event(event, entry, explore=explore)
            for entry in prepared.entries
        }
        for name, point in before_event(judgements).items():
            found.setdefault(name, []).append(OtherEventRecord(event=event, at=point))
    return found


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


def _transfer_note(design: Design, said: Mapping[str, Sequence[Any]]) -> str:
    """That the runs are of another system than the lock's, and in what they differ."""
    found = [f"{field} {new!r}, locked {old!r}" for field, old, new in differing(design, said)]
    differ = f"differ in {'; '.join(found)}" if found else "do not say in what they differ"
    return (
        f"Transfer: the judged runs are of another system than the lock's, and {differ}. What the "
        "lock promises does not hold there: a budget of runs is met only where these runs show "
        "it, and what is supported is so of their system alone."
    )


def _ensemble_notes(lock: Lock) -> list[str]:
    """What each ensemble was made on, and which members it leans on most."""
    notes = []
    fitted = {name: item.ensemble for name, item in lock.x_lock.candidates.items() if item.ensemble}
    for name, ensemble in fitted.items():
        logistic = ensemble.method == "logistic"
        form = "+.2g" if logistic else ".0f"
        most = ensemble.leans_on(_LEANS_ON)
        made = (
            f"{name} was fitted on {len(ensemble.fit_runs)} explore runs; its thresholds come from "
            f"{ensemble.n_calibration_runs} others, where those of single scores come from "
            f"{lock.x_lock.n_calibration_runs}. "
        )
        if ensemble.pretrained:
            made = (
                f"{name} is pretrained ({ensemble.pretrained[:16]}): it was fitted on other "
                f"runs, and {ensemble.n_calibration_runs} explore runs gave its thresholds. "
            )
        families = ", ".join(f"{of} {share:.0%}" for of, share in ensemble.by_family()[:_FAMILIES])
        notes.append(
            f"{made}By family, its log-odds are {families}. "
            f"{'Its largest coefficients of' if logistic else 'Most of its splits are on, of'} "
            f"{len(ensemble.members) * len(ensemble.features)}: "
            f"{', '.join(f'{name} {weight:{form}}' for name, weight in most)}."
        )
    return notes
