"""Explore runs: both signs of every candidate are tried; then a design is linted and locked."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isnan
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import spreadsheet
from gmb_hf.base.files import write_text
from gmb_hf.benchmark.ensembles import cross_fitted, lock_ensembles, unwatched
from gmb_hf.benchmark.events import events_the_other_way
from gmb_hf.benchmark.health import lock_health
from gmb_hf.benchmark.judgement import RULE_THRESHOLD, Judgement, by_runs, by_windows
from gmb_hf.benchmark.operationality import layer_b
from gmb_hf.benchmark.prepare import (
    CONTROLS,
    Entry,
    Prepared,
    Runs,
    marks_by,
    prepare,
    statements_of,
    system_of,
    with_explored,
)
from gmb_hf.benchmark.ranking import layer_a
from gmb_hf.benchmark.scores import Scores, score_windows
from gmb_hf.benchmark.utility import operating_point
from gmb_hf.core.nulls import labels_of
from gmb_hf.core.thresholds import Negatives, run_maxima
from gmb_hf.design.design import Design
from gmb_hf.design.ledger import panel_looks
from gmb_hf.design.lint import (
    DesignFacts,
    Finding,
    declared,
    filled_in,
    git_commit,
    lint,
    refuse_unsound,
)
from gmb_hf.design.lock import CENTRAL, Lock, LockedCandidate, columns_read, differing, member_key
from gmb_hf.design.locked_ensembles import LockedEnsemble
from gmb_hf.design.strata import event_facts
from gmb_hf.indicators.catalogue import compute
from gmb_hf.runs.metadata import hub_sources
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog

_CADENCE = "checkpoint_every_steps"  # it is measured, and the linter's to judge
# With these there are no windows, or no events, to ask anything else of.
_UNDEFINED = ("horizon_reaches_gap", "event_window_off_cadence")


def make_lock(
    design: Design,
    runs: Runs | Prepared,
    *,
    strict_lint: bool = False,
    on_done: Callable[[str], None] | None = None,
) -> tuple[Lock, list[Finding]]:
    """Freeze a design on explore runs.

    Args:
        design: what is to be frozen.
        runs: explore runs, no held-out run among them: a run log, files, folders or globs; or what
            `prepare` made of them.
        strict_lint: refuse warnings as well.
        on_done: called with each candidate's name when its thresholds are found.

    Returns:
        The lock, and the linter's warnings. Where the design leaves open the day and the commit of
        the code, the lock has today's (UTC) and that of the working folder, if git knows one.

    Raises:
        InputError: the design is unsound (each fault is named), its boundary is not declared, or a
            held-out seed is in the log.
    """
    prepared = prepare(runs, design)
    at_panels = panel_looks(design, design.metric, prepared.log)  # none, of explore runs
    said = {key: value for key, value in statements_of(prepared.log).items() if key != _CADENCE}
    for field, stated, found in differing(design, said):
        # Such a boundary would refuse held-out logs of the same system.
        raise InputError(
            f"boundary.{field} is {stated!r}, the explore logs say {found!r}; leave it out and it "
            "is filled in from them, or give the logs of that system"
        )
    design = declared_design(prepared)
    known = _facts_without_events(prepared)
    findings = lint(design, known)
    if any(finding.code in _UNDEFINED for finding in findings):
        refuse_unsound(findings, warnings_too=strict_lint)
    findings = lint(design, _facts_of_events(known, prepared))
    refuse_unsound(findings, warnings_too=strict_lint)
    entries, ensembles, remarks = lock_ensembles(prepared)
    findings += remarks
    refuse_unsound(findings, warnings_too=strict_lint)
    locked = {}
    for entry in entries:
        locked[entry.name] = _freeze(entry, prepared, ensembles.get(entry.name))
        if on_done is not None:
            on_done(entry.name)
    health = lock_health(
        design,
        {entry.name: prepared.panel(entry) for entry in entries},
        fitted_on={name: record.fit_runs for name, record in ensembles.items()},
    )
    findings += unwatched(ensembles, health)
    refuse_unsound(findings, warnings_too=strict_lint)
    now = datetime.now(UTC)
    lock = Lock.build(
        filled_in(design, date=now.date().isoformat(), commit=git_commit()),
        locked,
        explore_fingerprint=prepared.log.fingerprint(),
        explore_runs=prepared.log.runs,
        explore_seeds=prepared.log.seeds,
        explore_hashes=prepared.log.run_hashes(read := columns_read(design, locked)),
        explore_marks=marks_by(prepared.log, read),
        near_copies=prepared.near.note(),
        n_calibration_runs=prepared.runs_with_negatives,
        sources=hub_sources(prepared.log.metadata),
        health=health,
        system=system_of(design, prepared.log),
        created=now.isoformat(timespec="seconds"),
    )
    at_panels.keep()
    return lock, findings


def declared_design(prepared: Prepared) -> Design:
    """The design of explore runs with its boundary whole, by what they say of it and their seeds.

    Raises:
        InputError: as `declared`.
    """
    return declared(with_explored(prepared.completed, prepared.log))


def _freeze(entry: Entry, prepared: Prepared, ensemble: LockedEnsemble | None) -> LockedCandidate:
    """The thresholds of one candidate and of its robustness family, from explore runs.

    Those of an ensemble come from the runs that its fit did not see.
    """
    design = prepared.design
    found: dict[str, Mapping[float, float]] = {}
    first: dict[str, Mapping[float, float]] = {}
    maxima: dict[str, float] = {}
    series: dict[int | None, Scores] = {}
    for key, window, smooth in family_members(entry, design):
        if window not in series:
            series[window] = _of_calibration(prepared.scores(entry, window=window), ensemble)
        scores = series[window].smooth(smooth)
        negative = score_windows(scores, design).negative
        found[key], _ = by_windows(design, Negatives.of(scores.values, negative))
        if design.protocol == "strict":
            greatest = run_maxima(scores.values, negative)
            if key == CENTRAL:
                pairs = zip(scores.runs, greatest.tolist(), strict=True)
                maxima = {run: most for run, most in pairs if not isnan(most)}
            first[key], _ = by_runs(design, greatest)
            if entry.indicator.rule:
                first[key] = dict.fromkeys(design.run_budgets, RULE_THRESHOLD)
    others, known = {}, {}
    for name, other in prepared.other_events.items():
        scores = _of_calibration(other.scores(entry), ensemble)
        greatest = run_maxima(scores.values, score_windows(scores, other.design).negative)
        others[name], known[name] = by_runs(other.design, greatest)
        if entry.indicator.rule:
            others[name] = dict.fromkeys(design.run_budgets, RULE_THRESHOLD)
    indicator = entry.indicator
    return LockedCandidate.freeze(
        found,
        first_alarm=first,
        other_events=others,
        other_event_runs=known,
        run_maxima=[maxima.get(run) for run in prepared.log.runs],
        sign=entry.sign,
        family=indicator.family,
        needs=indicator.needs,
        params=indicator.with_defaults(entry.parameters),
        sees_test_labels=indicator.sees_test_labels,
        ensemble=None if ensemble is None else ensemble.plain(),
    )


def _of_calibration(scores: Scores, ensemble: LockedEnsemble | None) -> Scores:
    """The scores of the runs that thresholds come from, which no ensemble was fitted on."""
    if ensemble is None:
        return scores
    calibrate = set(ensemble.calibrate_runs)
    return scores.select([row for row, run in enumerate(scores.runs) if run in calibrate])


def family_members(entry: Entry, design: Design) -> Iterator[tuple[str, int | None, int]]:
    """The members of the family with thresholds of their own: key, window, smoothing."""
    yield CENTRAL, None, 1
    for smooth in design.smoothing_sweep:
        if smooth != 1:
            yield member_key(smooth=smooth), None, smooth
    for window in entry.windows(design):
        if window != entry.window:
            for smooth in sorted({1, *design.smoothing_sweep}):
                yield member_key(window=window, smooth=smooth), window, smooth


def _facts_without_events(prepared: Prepared) -> DesignFacts:
    """What explore runs say about a design before any event is looked for."""
    candidates = [entry for entry in prepared.entries if entry.name not in CONTROLS]
    log, design = prepared.log, prepared.design
    _ = prepared.alone  # a score that ends its process ends that one, not this
    return DesignFacts(
        cadence=log.panel("step").cadence(),
        n_explore=len(log.runs),
        n_eval=design.n_eval,
        duplicates_dropped=log.dropped_duplicates,
        near_copies=prepared.near.note(),
        metric_range=prepared.metric_range,
        non_causal=non_causal(candidates, log),
        windowed=tuple(entry.name for entry in candidates if entry.window is not None),
        n_candidates=len(candidates),
    )


def _facts_of_events(known: DesignFacts, prepared: Prepared) -> DesignFacts:
    """The same with what the events say."""
    events = prepared.events
    facts, happened = {**event_facts(events.step), **prepared.facts}, np.isfinite(events.step)
    held = {one.name: one.holds(facts) & happened for one in prepared.design.strata}
    return dataclasses.replace(
        known,
        n_explore_with_negatives=prepared.runs_with_negatives,
        event_steps=tuple(events.step.tolist()),
        first_steps=tuple(events.first_step.tolist()),
        other_way=0 if events.n_events else events_the_other_way(prepared.judged, prepared.design),
        dip_recoveries=events.n_dip_recoveries,
        excluded=Counter(events.excluded.values()),
        stratum_events={name: int(rows.sum()) for name, rows in held.items()},
    )


# Whether scores are causal: the past of one that is stays when the future is cut off.


_RUNS = 4
_CUTS = (1 / 16, 1 / 4, 1 / 2, 3 / 4, 15 / 16)  # of a run's checkpoints


def non_causal(entries: Sequence[Entry], log: RunLog) -> tuple[str, ...]:
    """The scores whose past changes when the future is cut off, on a few runs.

    Each run is cut at several of its checkpoints: what peeks at the largest value, say, is found
    only by a cut before it. Of an ensemble the members are tried: a sum of causal scores is causal.
    """
    tried = [part for entry in entries for part in _with_scores(entry)]
    some = _empty_as_nan(log.select(log.runs[:_RUNS]))
    grid = some.panel("step")
    cadence = grid.cadence()

    def series(rows: RunLog, entry: Entry) -> Panel:
        parameters = {**entry.parameters, "sign": entry.sign, "cadence": cadence}
        return compute(rows, entry.indicator, **parameters)

    whole = {entry.name: series(some, entry).values for entry in tried}
    found = set()
    for share in _CUTS:
        kept = np.maximum(grid.lengths * share, 1).astype(int)
        early = np.arange(grid.values.shape[1]) < kept[:, None]
        # The rows of a log stand run by run, as those of a panel do.
        cut = RunLog.from_table(some.table.filter(pa.array(early[grid.present])))
        for entry in tried:
            part = series(cut, entry)
            then = whole[entry.name][:, : part.values.shape[1]]
            same = np.isclose(part.values, then, rtol=1e-9, atol=1e-12, equal_nan=True)
            if not same[part.present].all():
                found.add(entry.name)
    return tuple(entry.name for entry in tried if entry.name in found)


def _with_scores(entry: Entry) -> list[Entry]:
    """The entry, or the members of an ensemble, with its name before theirs."""
    members = []
    for member in entry.members:
        named = dataclasses.replace(member.indicator, name=f"{entry.name}: {member.name}")
        members.append(dataclasses.replace(member, indicator=named))
    return members or [entry]


def _empty_as_nan(log: RunLog) -> RunLog:
    """The log with NaN in its empty cells, so that a run may be cut before a score begins."""
    table = log.table
    for place, name in enumerate(table.column_names):
        if name in log.observables and table[name].null_count:
            table = table.set_column(place, name, pc.fill_null(table[name], np.nan))
    return RunLog.from_table(table)


# Before a lock: both signs of every candidate, a search and no claim.


# Field of `Explored` -> of the first alarms.
_BY_RUNS = {
    **{name: name for name in ("detection_rate", "timely_rate", "false_alarm_rate", "chance")},
    "run_p_value": "p_value",
}
DRAWS = 200  # of the nulls and the bootstrap: a search needs no third digit


@dataclass(frozen=True)
class Explored:
    """One candidate with one sign on explore runs: by runs, then by windows.

    Thresholds are cross-fitted over runs.

    Attributes:
        indicator, family, sign, sees_test_labels: what was tried.
        detection_rate, timely_rate: at the primary budget of runs, shares of events that the first
            alarm detects.
        false_alarm_rate: share of runs with a false alarm.
        chance: the detection rate of the hardest chance baseline of that cost.
        run_p_value: exact, that it detects as many; not adjusted for the search. These five are
            None where no threshold keeps the budget.
        auc, ap: pooled over windows.
        achieved_fpr: mean over runs of each run's rate, at the primary operating point.
        coverage: share of events with an alarm in their horizon. lead_time_median: in steps.
        nulls: coverage by chance at equal false-alarm cost, by the name of the baseline.
        p_value: the largest of the nulls', not adjusted for the search.
    """

    indicator: str
    family: str
    sign: int
    sees_test_labels: bool | None
    detection_rate: float | None
    timely_rate: float | None
    false_alarm_rate: float | None
    chance: float | None
    run_p_value: float | None
    auc: float | None
    ap: float | None
    achieved_fpr: float | None
    coverage: float | None
    lead_time_median: float | None
    nulls: Mapping[str, float]
    p_value: float | None


def explore(
    design: Design,
    runs: Runs | Prepared,
    *,
    combinations: bool = True,
    on_done: Callable[[str], None] | None = None,
) -> list[Explored]:
    """Both signs of every candidate and control on explore runs, what detects most events first.

    Thresholds are cross-fitted over the runs, so no run is judged by one that it helped to find.

    Args:
        design: what is asked.
        runs: a run log, files, folders or globs; or what `prepare` made of them.
        combinations: whether to try those too; each is fitted once for every fold.
        on_done: called with each candidate's name when both signs have been tried.
    """
    prepared = prepare(runs, design)
    panel_looks(design, design.metric, prepared.log).keep()  # none, of explore runs
    quick = design.model_copy(update={"null_draws": DRAWS, "bootstrap_draws": DRAWS})
    rows = []
    for entry in prepared.entries:
        fitted = entry.ensemble is not None
        if fitted and not combinations:
            continue
        scores = cross_fitted(entry, prepared) if fitted else prepared.scores(entry)
        for sign in (entry.sign, -entry.sign):
            turned = dataclasses.replace(scores, values=scores.values * (sign * entry.sign))
            rows.append(_explored(entry, sign, Judgement(turned, None, quick)))
        if on_done is not None:
            on_done(entry.name)
    return sorted(
        rows,
        key=lambda row: (-(row.detection_rate or 0.0), -(row.coverage or 0.0), row.p_value or 1.0),
    )


def _explored(entry: Entry, sign: int, judgement: Judgement) -> Explored:
    primary, ranking = judgement.design.primary_fpr, layer_a(judgement)
    gate = layer_b(judgement, intervals=False)
    point = operating_point(judgement, primary)
    budget = judgement.design.primary_run_budget
    alarms = judgement.first_alarms(budget)
    known = judgement.run_calibrated.finite(budget)
    first = {name: getattr(alarms, of) if known else None for name, of in _BY_RUNS.items()}
    return Explored(
        indicator=entry.name,
        family=entry.indicator.family,
        sign=sign,
        sees_test_labels=entry.indicator.sees_test_labels,
        auc=ranking.auc,
        ap=ranking.ap,
        achieved_fpr=gate.at(primary).achieved,
        coverage=point.coverage,
        lead_time_median=point.lead_time_median,
        nulls={name: one.detection_rate for name, one in point.x_baselines.items()},
        p_value=point.x_p_value,
        **first,
    )


def write_explored(rows: Sequence[Explored], path: str | Path) -> Path:
    """Write the rows as CSV, atomically; a number that does not exist is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")  # None is an empty cell
    names = [entry.name for entry in dataclasses.fields(Explored)]
    at = names.index("nulls")
    nulls = labels_of("windows")
    writer.writerow([*names[:at], *(f"{null}_coverage" for null in nulls), *names[at + 1 :]])
    for row in rows:
        values = [getattr(row, name) for name in names]
        values = [spreadsheet(one) if isinstance(one, str) else one for one in values]
        writer.writerow([*values[:at], *map(row.nulls.get, nulls), *values[at + 1 :]])
    return write_text(path, text.getvalue())
