"""The design linter: faults that would make a verdict worthless, named before it is made.

Each fault is one finding with a code of its own. An error makes the lock refuse the design; a
warning is printed and kept, and becomes a refusal on request.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from gmb_hf.preregistration.commit import is_placeholder
from gmb_hf.preregistration.findings import DesignFacts, Finding, error, warning
from gmb_hf.preregistration.lint_events import event_findings
from gmb_hf.preregistration.plan import effective_budget, runs_advised, runs_needed
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.preregistration.strata import EVENT_STEP
from gmb_hf.validation import InputError, first_of


def lint(prereg: Prereg, facts: DesignFacts | None = None) -> list[Finding]:
    """Every fault of the design, errors first; facts that are not known are not judged."""
    facts = facts or DesignFacts(cadence=prereg.boundary.checkpoint_every_steps)
    found = [
        *_left_to_fill_in(prereg),
        *_windows(prereg, facts),
        *_seeds(prereg),
        *event_findings(prereg, facts),
        *_indicators(prereg, facts),
        *_grids(prereg, facts),
        *_strata(prereg, facts),
        *_power(prereg, facts),
    ]
    return sorted(found, key=lambda finding: finding.level != "error")


def refuse_unsound(findings: Iterable[Finding], *, warnings_too: bool = False) -> None:
    """Raise `InputError` naming each error, and each warning too on request."""
    faults = [item for item in findings if warnings_too or item.level == "error"]
    if faults:
        named = "; ".join(f"[{item.code}] {item.message}" for item in faults)
        raise InputError(f"design refused, {len(faults)} fault(s): {named}")


def _left_to_fill_in(prereg: Prereg) -> Iterator[Finding]:
    fields = {
        f"{section}.{name}": value
        for section in ("meta", "boundary")
        for name, value in getattr(prereg, section).plain().items()
    }
    # The day and the commit are filled in by the lock.
    open_ones = [
        name
        for name, value in fields.items()
        if isinstance(value, str)
        and is_placeholder(value)
        and name not in ("meta.date_locked", "meta.commit_hash")
    ]
    if open_ones:
        yield warning(
            "left_to_fill_in",
            f"{', '.join(open_ones)} still as the template has it; write what it is, or null",
        )


def _windows(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    horizon, gap, cadence = prereg.horizon, prereg.safe_gap, facts.cadence
    declared = prereg.boundary.checkpoint_every_steps
    if gap <= horizon:
        yield error(
            "horizon_reaches_gap",
            f"safe_gap_steps {gap} must be larger than horizon_steps {horizon}, or a checkpoint "
            "is positive and negative at once; widen the gap",
        )
    if prereg.lead_time_median_min > horizon:
        yield error(
            "lead_minimum_beyond_horizon",
            f"lead_time_median_min {prereg.lead_time_median_min:g} exceeds the horizon {horizon}, "
            "which censors every lead; no score can pass",
        )
    if prereg.lead_time_target > horizon:
        yield warning(
            "lead_target_beyond_horizon",
            f"lead_time_target {prereg.lead_time_target} exceeds the horizon {horizon}, so "
            "lead_time_success is always 0",
        )
    if cadence is None:
        return
    if declared is not None and declared != cadence:
        yield error(
            "cadence_differs",
            f"boundary.checkpoint_every_steps is {declared}, the logs have a checkpoint every "
            f"{cadence} steps; correct one of them",
        )
    if horizon < cadence:
        yield error(
            "horizon_below_cadence",
            f"horizon_steps {horizon} is shorter than the cadence {cadence}: hardly an event has "
            "a positive window; lengthen it",
        )


def _seeds(prereg: Prereg) -> Iterator[Finding]:
    both = sorted(set(prereg.boundary.seeds_explore) & set(prereg.boundary.seeds_eval))
    if both:
        yield error(
            "seeds_overlap",
            f"{_listed(both)} in both seeds_explore and seeds_eval; a threshold must not be "
            "judged on runs that it was found on",
        )


def _indicators(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    reversed_ones = [item.name for item in prereg.candidates if item.x_sign == -1]
    if reversed_ones and facts.n_explore is not None:
        yield warning(
            "reversed_sign",
            f"{', '.join(reversed_ones)}: reversed; if these explore runs suggested that, find the "
            "thresholds on other explore runs, or they are not exchangeable with held-out ones",
        )
    for name in facts.non_causal:
        yield error(
            "non_causal_indicator",
            f"{name} changes its past when the future is cut off; an alarm cannot use it",
        )


def _grids(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    sweep, cadence = prereg.window_sweep, facts.cadence
    if facts.windowed != () and cadence is not None:
        off = [window for window in sweep if window % cadence]
        if off:
            yield error(
                "window_off_cadence",
                f"window_sweep {_listed(off)} no multiple of the cadence {cadence}; a window is "
                "a whole number of checkpoints",
            )
        counts = [max(1, round(window / cadence)) for window in sweep]
        if len(set(counts)) < len(counts):
            yield warning(
                "sweep_without_effect",
                f"window_sweep {list(sweep)} at cadence {cadence} means {counts} checkpoints: "
                "equal members cannot change a result; space them by the cadence",
            )
    if len(set(sweep)) == 1 and facts.windowed != ():
        yield warning(
            "sweep_without_effect",
            "window_sweep holds a single window, which cannot show sensitivity; add others",
        )
    if set(prereg.x_smoothing_sweep) == {1} or len(set(prereg.x_smoothing_sweep)) < len(
        prereg.x_smoothing_sweep
    ):
        yield warning(
            "smoothing_without_effect",
            f"x_smoothing_sweep {list(prereg.x_smoothing_sweep)} holds nothing but no smoothing, "
            "or a length twice; name different lengths",
        )


def _strata(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    on_event = [item.name for item in prereg.x_strata if EVENT_STEP in item.names]
    if on_event:
        yield warning(
            "stratum_on_event",
            f"{', '.join(on_event)}: {EVENT_STEP} is known only afterwards, so the verdict will "
            "say that such runs are warned of, and not which run is one; prefer a setting",
        )
    if facts.n_eval is None or not facts.n_explore:
        return
    for name, events in facts.stratum_events.items():
        expected = events * facts.n_eval / facts.n_explore
        if expected < prereg.event_count_min:
            yield warning(
                "few_events_in_stratum",
                f"{name}: {events} explore events let expect {expected:.0f} held-out ones, fewer "
                f"than x_event_count_min {prereg.event_count_min}; widen it, or add runs",
            )


def _power(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    if facts.n_eval is not None:
        if facts.n_eval < prereg.event_count_min:
            yield warning(
                "few_held_out_runs",
                f"{facts.n_eval} held-out runs cannot give x_event_count_min "
                f"{prereg.event_count_min} events: every verdict will be INCONCLUSIVE",
            )
        if facts.n_eval < prereg.x_run_groups:
            yield error(
                "run_groups_exceed_runs",
                f"x_run_groups {prereg.x_run_groups} exceeds the {facts.n_eval} held-out runs",
            )
    if prereg.protocol != "strict":
        return
    candidates = facts.n_candidates or len(prereg.candidates) or 1
    family = candidates * (1 + len(prereg.x_strata))
    draws = math.ceil(family / prereg.alpha_per_look - 1e-9) - 1
    if prereg.x_null_draws < draws:
        strata = f", {len(prereg.x_strata)} strata each" if prereg.x_strata else ""
        yield error(
            "few_null_draws",
            f"x_null_draws {prereg.x_null_draws} cannot reach p <= {prereg.alpha_per_look:g} after "
            f"adjustment over {candidates} candidate(s){strata}; draw at least {draws}",
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
                yield error(
                    "few_runs_for_primary",
                    f"{message}, and {target:g} is the primary point; train more explore seeds, "
                    "or raise x_primary_fpr",
                )
            else:
                yield warning("few_runs_for_target", f"{message}; train more, or drop {target:g}")
        elif runs < runs_advised(target):
            yield warning(
                "thin_budget",
                f"with {runs} calibration runs a target of {target:g} buys an expected rate of "
                f"about {effective_budget(target, runs):.3f}; {runs_advised(target)} runs keep "
                "80% of it",
            )
    if len(finite) < prereg.min_targets_ok:
        yield error(
            "too_few_reachable_targets",
            f"{len(finite)} of {len(prereg.fpr_targets)} targets have a finite threshold with "
            f"{runs} calibration runs, min_targets_ok asks for {prereg.min_targets_ok}: no score "
            "can pass",
        )


def _listed(items: Sequence[int]) -> str:
    return f"{first_of(items)} {'is' if len(items) == 1 else 'are'}"
