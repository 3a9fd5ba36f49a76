"""Explore runs to a lock: lint the design, find the thresholds, seal both."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from gmb_hf.benchmark.events import Events
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.windows import label_windows
from gmb_hf.monitor.lock_health import lock_health
from gmb_hf.preregistration.commit import filled_in, git_commit
from gmb_hf.preregistration.findings import DesignFacts, Finding
from gmb_hf.preregistration.heldout import differing
from gmb_hf.preregistration.lint import lint, refuse_unsound
from gmb_hf.preregistration.lock import Lock, LockedCandidate
from gmb_hf.preregistration.locked_ensemble import LockedEnsemble
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.preregistration.strata import event_facts
from gmb_hf.runs import RunLog
from gmb_hf.validation import InputError
from gmb_hf.workflows.candidates import CONTROLS, Entry, entries_of, members
from gmb_hf.workflows.causality import non_causal
from gmb_hf.workflows.combining import lock_ensembles
from gmb_hf.workflows.combining_findings import unwatched
from gmb_hf.workflows.design import statements_of, with_boundary
from gmb_hf.workflows.facts import run_facts
from gmb_hf.workflows.hub_sources import sources_of
from gmb_hf.workflows.occurring import decided_runs

_CADENCE = "checkpoint_every_steps"  # it is measured, and the linter's to judge
# With these there are no windows, or no events, to ask anything else of.
_UNDEFINED = ("horizon_reaches_gap", "event_window_off_cadence")


def make_lock(
    prereg: Prereg,
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
    meta = filled_in(prereg.meta, date=now.date().isoformat(), commit=git_commit())
    lock = Lock.build(
        prereg.model_copy(update={"meta": meta}),
        locked,
        explore_fingerprint=log.fingerprint(),
        explore_runs=log.runs,
        explore_seeds=log.seeds,
        n_calibration_runs=with_negatives,
        sources=sources_of(log),
        health=health,
        created=now.isoformat(timespec="seconds"),
    )
    return lock, findings


def _refuse_another_system(prereg: Prereg, log: RunLog) -> None:
    """A boundary that the logs contradict would refuse held-out logs of the same system."""
    said = {key: value for key, value in statements_of(log).items() if key != _CADENCE}
    for field, stated, found in differing(prereg.boundary, said):
        raise InputError(
            f"boundary.{field} is {stated!r}, the explore logs say {found!r}; leave it out and it "
            "is filled in from them, or give the logs of that system"
        )


def freeze(
    entry: Entry,
    log: RunLog,
    events: Events,
    prereg: Prereg,
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


def runs_with_negatives(entry: Entry, log: RunLog, events: Events, prereg: Prereg) -> int:
    """How many runs have at least one negative window."""
    windows = label_windows(entry.scores(log, events), prereg)
    return int(windows.negative.any(axis=1).sum())


def facts_without_events(prereg: Prereg, log: RunLog, entries: Sequence[Entry]) -> DesignFacts:
    """What explore runs say about a design before any event is looked for."""
    candidates = [entry for entry in entries if entry.name not in CONTROLS]
    return DesignFacts(
        cadence=log.panel("step").cadence(),
        n_explore=len(log.runs),
        n_eval=len(prereg.boundary.seeds_eval) or None,
        duplicates_dropped=log.dropped_duplicates,
        non_causal=non_causal(candidates, log),
        windowed=tuple(entry.name for entry in candidates if entry.window is not None),
        n_candidates=len(candidates),
    )


def facts_of_events(
    known: DesignFacts, prereg: Prereg, decided: RunLog, events: Events, with_negatives: int
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


def _stratum_events(prereg: Prereg, log: RunLog, events: Events) -> dict[str, int]:
    facts = {**event_facts(np.asarray(events.step)), **run_facts(prereg, log)}
    happened = np.isfinite(events.step)
    return {
        stratum.name: int((stratum.holds(facts) & happened).sum()) for stratum in prereg.x_strata
    }
