"""The design linter: faults that would make a verdict worthless, named before it is made.

Each fault is one finding with a code of its own. An error makes the lock refuse the design; a
warning is printed and kept, and becomes a refusal on request.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gmb_hf.preregistration.plan import effective_budget, runs_advised, runs_needed
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.validation import InputError

FIRST_STEP_SHARE_MAX = 0.05
"""Share of events on the first evaluated step above which the event definition is suspect."""


@dataclass(frozen=True)
class Finding:
    """One fault of a design."""

    code: str
    level: Literal["warning", "error"]
    message: str

    def __str__(self) -> str:
        return f"{self.level} [{self.code}] {self.message}"


@dataclass(frozen=True)
class DesignFacts:
    """What explore runs say about a design; None or empty where it is not known.

    Attributes:
        cadence: steps between checkpoints.
        n_explore: explore runs.
        n_explore_with_negatives: those with at least one negative window.
        n_eval: held-out runs that are planned.
        event_steps: t* of each explore run, NaN where there is none.
        first_steps: the first evaluated step of each explore run, in the same order.
        duplicates_dropped: rows dropped for a repeated step, by run.
        dip_recoveries: events that only regain a level that the metric had reached before.
        non_causal: candidates whose past changes when their future is cut off.
        windowed: candidates with a window parameter; None when it is not known.
        n_candidates: candidates of the lock, controls not counted.
    """

    cadence: int | None = None
    n_explore: int | None = None
    n_explore_with_negatives: int | None = None
    n_eval: int | None = None
    event_steps: tuple[float, ...] = ()
    first_steps: tuple[int, ...] = ()
    duplicates_dropped: Mapping[str, int] = field(default_factory=dict)
    dip_recoveries: int = 0
    non_causal: tuple[str, ...] = ()
    windowed: tuple[str, ...] | None = None
    n_candidates: int | None = None


def lint(prereg: Prereg, facts: DesignFacts | None = None) -> list[Finding]:
    """Every fault of the design, errors first; facts that are not known are not judged."""
    facts = facts or DesignFacts(cadence=prereg.boundary.checkpoint_every_steps)
    found = [
        *_windows(prereg, facts),
        *_seeds(prereg),
        *_events(prereg, facts),
        *_indicators(prereg, facts),
        *_grids(prereg, facts),
        *_power(prereg, facts),
    ]
    return sorted(found, key=lambda finding: finding.level != "error")


def refuse_unsound(findings: Iterable[Finding], *, warnings_too: bool = False) -> None:
    """Raise `InputError` naming each error, and each warning too on request."""
    faults = [item for item in findings if warnings_too or item.level == "error"]
    if faults:
        named = "; ".join(f"[{item.code}] {item.message}" for item in faults)
        raise InputError(f"design refused, {len(faults)} fault(s): {named}")


def _error(code: str, message: str) -> Finding:
    return Finding(code, "error", message)


def _warning(code: str, message: str) -> Finding:
    return Finding(code, "warning", message)


def _windows(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    horizon, gap, cadence = prereg.horizon, prereg.safe_gap, facts.cadence
    declared = prereg.boundary.checkpoint_every_steps
    if gap <= horizon:
        yield _error(
            "horizon_reaches_gap",
            f"safe_gap_steps {gap} must be larger than horizon_steps {horizon}, or a checkpoint "
            "is positive and negative at once; widen the gap",
        )
    if prereg.lead_time_median_min > horizon:
        yield _error(
            "lead_minimum_beyond_horizon",
            f"lead_time_median_min {prereg.lead_time_median_min:g} exceeds the horizon {horizon}, "
            "which censors every lead; no score can pass",
        )
    if prereg.lead_time_target > horizon:
        yield _warning(
            "lead_target_beyond_horizon",
            f"lead_time_target {prereg.lead_time_target} exceeds the horizon {horizon}, so "
            "lead_time_success is always 0",
        )
    if cadence is None:
        return
    if declared is not None and declared != cadence:
        yield _error(
            "cadence_differs",
            f"boundary.checkpoint_every_steps is {declared}, the logs have a checkpoint every "
            f"{cadence} steps; correct one of them",
        )
    if prereg.event.type == "E_jump" and prereg.w_event % cadence:
        nearest = max(cadence, round(prereg.w_event / cadence) * cadence)
        yield _error(
            "event_window_off_cadence",
            f"window_W_event {prereg.w_event} is no multiple of the cadence {cadence}, so "
            f"m(t + W) does not exist; use {nearest}",
        )
    if horizon < cadence:
        yield _error(
            "horizon_below_cadence",
            f"horizon_steps {horizon} is shorter than the cadence {cadence}: hardly an event has "
            "a positive window; lengthen it",
        )


def _seeds(prereg: Prereg) -> Iterator[Finding]:
    both = sorted(set(prereg.boundary.seeds_explore) & set(prereg.boundary.seeds_eval))
    if both:
        yield _error(
            "seeds_overlap",
            f"{_listed(both)} in both seeds_explore and seeds_eval; a threshold must not be "
            "judged on runs that it was found on",
        )


def _events(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    starts = facts.first_steps or (-math.inf,) * len(facts.event_steps)
    events = [
        (event, first)
        for event, first in zip(facts.event_steps, starts, strict=True)
        if not math.isnan(event)
    ]
    if facts.event_steps and not events:
        yield _warning(
            "no_events",
            f"none of {len(facts.event_steps)} explore runs has an event; check event.metric, "
            "jump_threshold and window_W_event, or train longer",
        )
    at_first = sum(event <= first for event, first in events)
    if events and at_first > FIRST_STEP_SHARE_MAX * len(events):
        yield _warning(
            "events_on_first_step",
            f"{at_first} of {len(events)} events fall on the first evaluated step, so nothing "
            "can warn of them; set x_event_t_min or x_theta_floor",
        )
    if facts.dip_recoveries and not prereg.event.x_require_new_max:
        yield _warning(
            "dip_recoveries",
            f"{facts.dip_recoveries} of {len(events)} events only regain a level reached "
            "before; set x_require_new_max: true",
        )
    dropped = {run: count for run, count in facts.duplicates_dropped.items() if count}
    if dropped:
        worst = max(dropped, key=lambda run: dropped[run])
        yield _warning(
            "duplicate_steps",
            f"{sum(dropped.values())} rows with a repeated step were dropped in {len(dropped)} "
            f"run(s), most in {worst} ({dropped[worst]}); the last row of each step was kept",
        )


def _indicators(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    reversed_ones = [item.name for item in prereg.candidates if item.x_sign == -1]
    if reversed_ones and facts.n_explore is not None:
        yield _warning(
            "reversed_sign",
            f"{', '.join(reversed_ones)}: reversed; if these explore runs suggested that, find the "
            "thresholds on other explore runs, or they are not exchangeable with held-out ones",
        )
    for name in facts.non_causal:
        yield _error(
            "non_causal_indicator",
            f"{name} changes its past when the future is cut off; an alarm cannot use it",
        )


def _grids(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    sweep, cadence = prereg.window_sweep, facts.cadence
    if facts.windowed != () and cadence is not None:
        off = [window for window in sweep if window % cadence]
        if off:
            yield _error(
                "window_off_cadence",
                f"window_sweep {_listed(off)} no multiple of the cadence {cadence}; a window is "
                "a whole number of checkpoints",
            )
        counts = [max(1, round(window / cadence)) for window in sweep]
        if len(set(counts)) < len(counts):
            yield _warning(
                "sweep_without_effect",
                f"window_sweep {list(sweep)} at cadence {cadence} means {counts} checkpoints: "
                "equal members cannot change a result; space them by the cadence",
            )
    if len(set(sweep)) == 1 and facts.windowed != ():
        yield _warning(
            "sweep_without_effect",
            "window_sweep holds a single window, which cannot show sensitivity; add others",
        )
    if set(prereg.x_smoothing_sweep) == {1} or len(set(prereg.x_smoothing_sweep)) < len(
        prereg.x_smoothing_sweep
    ):
        yield _warning(
            "smoothing_without_effect",
            f"x_smoothing_sweep {list(prereg.x_smoothing_sweep)} holds nothing but no smoothing, "
            "or a length twice; name different lengths",
        )


def _power(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    if facts.n_eval is not None:
        if facts.n_eval < prereg.event_count_min:
            yield _warning(
                "few_held_out_runs",
                f"{facts.n_eval} held-out runs cannot give x_event_count_min "
                f"{prereg.event_count_min} events: every verdict will be INCONCLUSIVE",
            )
        if facts.n_eval < prereg.x_run_groups:
            yield _error(
                "run_groups_exceed_runs",
                f"x_run_groups {prereg.x_run_groups} exceeds the {facts.n_eval} held-out runs",
            )
    if prereg.protocol != "strict":
        return
    candidates = facts.n_candidates or len(prereg.candidates) or 1
    draws = math.ceil(candidates / prereg.x_alpha - 1e-9) - 1
    if prereg.x_null_draws < draws:
        yield _error(
            "few_null_draws",
            f"x_null_draws {prereg.x_null_draws} cannot reach p <= {prereg.x_alpha:g} after "
            f"adjustment over {candidates} candidate(s); draw at least {draws}",
        )
    if facts.n_explore_with_negatives is not None:
        yield from _budgets(prereg, facts.n_explore_with_negatives, facts.n_explore)


def _budgets(prereg: Prereg, runs: int, explored: int | None) -> Iterator[Finding]:
    of = f" of {explored}" if explored is not None else ""
    finite = [target for target in prereg.fpr_targets if runs >= runs_needed(target)]
    for target in prereg.fpr_targets:
        if target not in finite:
            primary = target == prereg.primary_fpr
            message = (
                f"a threshold for {target:g} takes {runs_needed(target)} explore runs with "
                f"negative windows, there are {runs}{of}: the answer will be ABSTAIN"
            )
            if primary:
                yield _error(
                    "few_runs_for_primary",
                    f"{message}, and {target:g} is the primary point; train more explore seeds, "
                    "or raise x_primary_fpr",
                )
            else:
                yield _warning("few_runs_for_target", f"{message}; train more, or drop {target:g}")
        elif runs < runs_advised(target):
            yield _warning(
                "thin_budget",
                f"with {runs} calibration runs a target of {target:g} buys an expected rate of "
                f"about {effective_budget(target, runs):.3f}; {runs_advised(target)} runs keep "
                "80% of it",
            )
    if len(finite) < prereg.min_targets_ok:
        yield _error(
            "too_few_reachable_targets",
            f"{len(finite)} of {len(prereg.fpr_targets)} targets have a finite threshold with "
            f"{runs} calibration runs, min_targets_ok asks for {prereg.min_targets_ok}: no score "
            "can pass",
        )


def _listed(items: Sequence[int]) -> str:
    shown = ", ".join(str(item) for item in items[:8]) + (", ..." if len(items) > 8 else "")
    return f"{shown} {'is' if len(items) == 1 else 'are'}"
