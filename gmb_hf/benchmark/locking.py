"""Explore runs to a lock: lint the design, find the thresholds, seal both."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.ensembles import combination_of, lock_ensembles, unwatched
from gmb_hf.benchmark.events import Events
from gmb_hf.benchmark.health import lock_health
from gmb_hf.benchmark.prepare import (
    CONTROLS,
    Entry,
    available,
    decided_runs,
    declared,
    entries_of,
    members,
    run_facts,
)
from gmb_hf.benchmark.scores import label_windows
from gmb_hf.design.design import Design, event_facts
from gmb_hf.design.lint import DesignFacts, Finding, filled_in, git_commit, lint, refuse_unsound
from gmb_hf.design.lock import Lock, LockedCandidate
from gmb_hf.design.record import LockedEnsemble, differing
from gmb_hf.errors import InputError
from gmb_hf.indicators.catalogue import compute
from gmb_hf.runs.metadata import DIFFERS, hub_sources
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig


def prereg_from_config(config: RunConfig, log: RunLog) -> Design:
    """The design that a preset fixes, with every indicator that the log can feed as candidate.

    Where the config asks for it and the explore runs can carry the fit, all of them that see no
    test label are one candidate more, combined.

    Args:
        config: its `benchmark` and `seeds` sections are the design.
        log: explore runs; their metadata names task, model and optimizer.
    """
    cadence = log.panel("step").cadence()
    candidates = [declared(indicator, cadence) for indicator in available(log)]
    boundary = boundary_of(log)
    prereg = prereg_of(config, boundary=boundary, candidates=candidates)
    if config.benchmark.combination:
        candidates += combination_of(prereg, log)
        prereg = prereg_of(config, boundary=boundary, candidates=candidates)
    return prereg


def prereg_of(
    config: RunConfig, *, boundary: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]
) -> Design:
    """The design that a preset fixes, about this system and these candidates."""
    from gmb_hf.training.config import parse_seeds

    design = config.benchmark
    # A preset whose event was set to another type keeps its jump, which that type passes over.
    jumps = design.event == "E_jump"
    return Design.parse(
        {
            "boundary": {
                **boundary,
                "seeds_explore": list(parse_seeds(config.seeds.explore)),
                "seeds_eval": list(parse_seeds(config.seeds.evaluate)),
            },
            "event": {
                "type": design.event,
                "metric": "test_acc",
                "window_W_event": design.jump_window,
                "jump_threshold": design.jump_threshold,
                "x_theta_floor": design.event_floor if jumps else None,
                "x_require_new_max": jumps and design.event_new_max,
                "x_plateau_checkpoints": design.plateau_checkpoints,
                "x_plateau_threshold": design.plateau_threshold,
                "x_plateau_regression": design.plateau_regression,
                "x_regime_radius": design.regime_radius,
                "x_regime_quantile": design.regime_quantile,
                "x_regime_tolerance": design.regime_tolerance,
            },
            "labels": {
                "positive_window": {
                    "horizon_steps": design.horizon,
                    "lead_time_target": design.lead_time_target,
                },
                "negative_window": {"safe_gap_steps": design.safe_gap},
            },
            "candidates": list(candidates),
            "decision_thresholds": {
                "coverage_at_0_05_min": design.coverage_min,
                "lead_time_median_min": design.lead_time_median_min,
                "robustness": {"window_sweep": list(design.window_sweep)},
            },
            "x_burn_in": design.burn_in,
            "x_primary_fpr": design.primary_fpr,
        },
        where=f"preset {config.preset}",
    )


def boundary_of(log: RunLog) -> dict[str, Any]:
    """What a log says about the system it comes from; keys of the prereg's `boundary`.

    Where its parts disagree it says nothing; `statements_of` has what each of them says.
    """
    said = statements_of(log)
    return {key: values[0] for key, values in said.items() if len(values) == 1}


def statements_of(log: RunLog) -> dict[str, list[Any]]:
    """What the parts of a log say about the system, by key of the prereg's `boundary`.

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


def system_of(log: RunLog) -> dict[str, list[Any]]:
    """What there is to compare with a lock's boundary: the cadence is measured, not claimed."""
    return {**statements_of(log), "checkpoint_every_steps": [log.panel("step").cadence()]}


def with_boundary(prereg: Design, log: RunLog) -> Design:
    """The design with what it leaves open about the system filled in from a log.

    A lock that was made without saying so then still refuses logs of another task or cadence.
    """
    found = {**boundary_of(log), "checkpoint_every_steps": log.panel("step").cadence()}
    names = {place: name for name, place in prereg.places().items()}
    open_ones = {
        names[f"boundary.{key}"]: found[key]
        for key, stated in prereg.section("boundary").items()
        if not stated and key in found
    }
    return prereg.replace(**open_ones)


# Whether scores are causal: the past of one that is stays when the future is cut off.


_RUNS = 4
_CUTS = (1 / 16, 1 / 4, 1 / 2, 3 / 4, 15 / 16)  # of a run's checkpoints


def _empty_as_nan(log: RunLog) -> RunLog:
    """The log with NaN in its empty cells, so that a run may be cut before a score begins."""
    table = log.table
    for place, name in enumerate(table.column_names):
        if name in log.observables and table[name].null_count:
            table = table.set_column(place, name, pc.fill_null(table[name], np.nan))
    return RunLog.from_table(table)


def _computable(entry: Entry) -> list[Entry]:
    """The entry, or the members of an ensemble: a sum of causal scores is causal."""
    return [
        replace(member, indicator=replace(member.indicator, name=f"{entry.name}: {member.name}"))
        for member in entry.members
    ] or [entry]


def non_causal(entries: Sequence[Entry], log: RunLog) -> tuple[str, ...]:
    """The scores whose past changes when the future is cut off, on a few runs.

    Each run is cut at several of its checkpoints: what peeks at the largest value, say, is found
    only by a cut before it.
    """
    entries = [part for entry in entries for part in _computable(entry)]
    some = _empty_as_nan(log.select(log.runs[:_RUNS]))
    grid = some.panel("step")
    cadence = grid.cadence()

    def series(rows: RunLog, entry: Entry) -> Panel:
        parameters = {**entry.parameters, "sign": entry.sign, "cadence": cadence}
        return compute(rows, entry.indicator, **parameters)

    whole = {entry.name: series(some, entry) for entry in entries}
    found = set()
    for share in _CUTS:
        kept = np.maximum(grid.lengths * share, 1).astype(int)
        early = np.arange(grid.values.shape[1]) < kept[:, None]
        # The rows of a log stand run by run, as those of a panel do.
        cut = RunLog.from_table(some.table.filter(pa.array(early[grid.present])))
        for entry in entries:
            part = series(cut, entry)
            now, then = part.values, whole[entry.name].values[:, : part.values.shape[1]]
            same = np.isclose(now, then, rtol=1e-9, atol=1e-12, equal_nan=True)
            if not same[part.present].all():
                found.add(entry.name)
    return tuple(entry.name for entry in entries if entry.name in found)


_CADENCE = "checkpoint_every_steps"  # it is measured, and the linter's to judge
# With these there are no windows, or no events, to ask anything else of.
_UNDEFINED = ("horizon_reaches_gap", "event_window_off_cadence")


def make_lock(
    prereg: Design,
    log: RunLog,
    *,
    strict_lint: bool = False,
    on_done: Callable[[str], None] | None = None,
) -> tuple[Lock, list[Finding]]:
    """Freeze a design on explore runs.

    Args:
        prereg: the design.
        log: explore runs; no held-out run may be among them.
        strict_lint: refuse warnings as well.
        on_done: called with each candidate's name when its thresholds are found.

    Returns:
        The lock, and the linter's warnings. Where the design leaves open the day and the commit of
        the code, the lock has today's (UTC) and that of the working folder, if git knows one.

    Raises:
        InputError: the design is unsound (each fault is named), or a held-out seed is in the log.
    """
    _refuse_another_system(prereg, log)
    prereg = with_boundary(prereg, log)
    entries = entries_of(prereg, log)
    known = facts_without_events(prereg, log, entries)
    findings = lint(prereg, known)
    if any(finding.code in _UNDEFINED for finding in findings):
        refuse_unsound(findings, warnings_too=strict_lint)
    decided, events = decided_runs(prereg, log)
    with_negatives = runs_with_negatives(entries[-1], decided, events, prereg)
    findings = lint(prereg, facts_of_events(known, prereg, decided, events, with_negatives))
    refuse_unsound(findings, warnings_too=strict_lint)
    entries, ensembles, remarks = lock_ensembles(
        entries, log, decided, events, prereg, with_negatives
    )
    findings += remarks
    refuse_unsound(findings, warnings_too=strict_lint)
    locked = {}
    for entry in entries:
        locked[entry.name] = freeze(entry, decided, events, prereg, ensembles.get(entry.name))
        if on_done is not None:
            on_done(entry.name)
    health = lock_health(
        prereg,
        {entry.name: entry.panel(log) for entry in entries},
        fitted_on={name: record.fit_runs for name, record in ensembles.items()},
    )
    findings += unwatched(ensembles, health)
    refuse_unsound(findings, warnings_too=strict_lint)
    now = datetime.now(UTC)
    lock = Lock.build(
        filled_in(prereg, date=now.date().isoformat(), commit=git_commit()),
        locked,
        explore_fingerprint=log.fingerprint(),
        explore_runs=log.runs,
        explore_seeds=log.seeds,
        n_calibration_runs=with_negatives,
        sources=hub_sources(log.metadata),
        health=health,
        created=now.isoformat(timespec="seconds"),
    )
    return lock, findings


def _refuse_another_system(prereg: Design, log: RunLog) -> None:
    """A boundary that the logs contradict would refuse held-out logs of the same system."""
    said = {key: value for key, value in statements_of(log).items() if key != _CADENCE}
    for field, stated, found in differing(prereg, said):
        raise InputError(
            f"boundary.{field} is {stated!r}, the explore logs say {found!r}; leave it out and it "
            "is filled in from them, or give the logs of that system"
        )


def freeze(
    entry: Entry,
    log: RunLog,
    events: Events,
    prereg: Design,
    ensemble: LockedEnsemble | None = None,
) -> LockedCandidate:
    """The thresholds of one candidate and of its robustness family, from explore runs.

    Those of an ensemble come from the runs that its fit did not see.
    """
    found: dict[str, Mapping[float, float]] = {}
    for key, window, smooth in members(entry, prereg):
        scores = entry.scores(log, events, window=window).smooth(smooth)
        if ensemble is not None:
            others = set(ensemble.calibrate_runs)
            scores = scores.select([row for row, run in enumerate(scores.runs) if run in others])
        found[key] = Judgement(scores, scores, prereg).calibrated.deployed
    indicator = entry.indicator
    return LockedCandidate.freeze(
        found,
        sign=entry.sign,
        family=indicator.family,
        needs=indicator.needs,
        params=indicator.with_defaults(entry.parameters),
        sees_test_labels=indicator.sees_test_labels,
        ensemble=None if ensemble is None else ensemble.plain(),
    )


def runs_with_negatives(entry: Entry, log: RunLog, events: Events, prereg: Design) -> int:
    """How many runs have at least one negative window."""
    windows = label_windows(entry.scores(log, events), prereg)
    return int(windows.negative.any(axis=1).sum())


def facts_without_events(prereg: Design, log: RunLog, entries: Sequence[Entry]) -> DesignFacts:
    """What explore runs say about a design before any event is looked for."""
    candidates = [entry for entry in entries if entry.name not in CONTROLS]
    return DesignFacts(
        cadence=log.panel("step").cadence(),
        n_explore=len(log.runs),
        n_eval=len(prereg.seeds_eval) or None,
        duplicates_dropped=log.dropped_duplicates,
        non_causal=non_causal(candidates, log),
        windowed=tuple(entry.name for entry in candidates if entry.window is not None),
        n_candidates=len(candidates),
    )


def facts_of_events(
    known: DesignFacts, prereg: Design, decided: RunLog, events: Events, with_negatives: int
) -> DesignFacts:
    """The same with what the events say; `decided` holds the runs that the event decides."""
    return dataclasses.replace(
        known,
        n_explore_with_negatives=with_negatives,
        event_steps=tuple(np.asarray(events.step).tolist()),
        first_steps=tuple(np.asarray(events.first_step).tolist()),
        dip_recoveries=events.n_dip_recoveries,
        excluded=Counter(events.excluded.values()),
        stratum_events=_stratum_events(prereg, decided, events),
    )


def _stratum_events(prereg: Design, log: RunLog, events: Events) -> dict[str, int]:
    facts = {**event_facts(np.asarray(events.step)), **run_facts(prereg, log)}
    happened = np.isfinite(events.step)
    return {stratum.name: int((stratum.holds(facts) & happened).sum()) for stratum in prereg.strata}
