"""A lock in plain sentences, one for each choice that is frozen."""

from __future__ import annotations

from gmb_hf.preregistration.explain_ensemble import explain_design_of
from gmb_hf.preregistration.explain_record import ORIENTATION, explain_record, seeds_of, traits
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.preregistration.record import LockRecord


def explain(prereg: Prereg, record: LockRecord) -> tuple[str, ...]:
    """One sentence for each frozen choice, in the order of the file."""
    return (*_design(prereg), *explain_record(record, strict=prereg.protocol == "strict"))


def explain_design(prereg: Prereg) -> tuple[str, ...]:
    """One sentence for each choice of a preregistration that is not locked yet."""
    candidates = [
        f"Candidate {item.name}{traits(item.family, item.params, item.x_sees_test_labels)} is "
        f"taken {ORIENTATION[item.x_sign or 1]}."
        for item in prereg.candidates
    ]
    return (*_design(prereg), *candidates, *explain_design_of(prereg.candidates))


def _design(prereg: Prereg) -> tuple[str, ...]:
    boundary, event = prereg.boundary, prereg.event
    facts = [
        f"{label} {value}"
        for label, value in (
            ("task", boundary.task),
            ("model", boundary.model),
            ("optimizer", boundary.optimizer),
            ("schedule", boundary.schedule),
        )
        if value
    ]
    about = "; ".join(facts) or "whatever system the runs come from"
    lines = [_meta(prereg), f"The verdict speaks about {about}, and about nothing else."]
    if boundary.checkpoint_every_steps:
        lines.append(f"A checkpoint is taken every {boundary.checkpoint_every_steps:,} steps.")
    if boundary.seeds_explore:
        lines.append(f"Free search is confined to {seeds_of(boundary.seeds_explore)}.")
    if boundary.seeds_eval:
        lines.append(f"Held out, for evaluate alone, are {seeds_of(boundary.seeds_eval)}.")
    lines.append(_event(prereg))
    if event.x_event_t_min:
        lines.append(f"No event is registered before step {event.x_event_t_min:,}.")
    if event.type == "E_jump" and event.x_theta_floor is not None:
        lines.append(f"The jump must reach {event.x_theta_floor:g}.")
    if event.type == "E_jump" and event.x_require_new_max:
        lines.append("A recovery from a dip is no event: the jump must set a new maximum.")
    lines.append(
        f"An alarm in the {prereg.horizon:,} steps before t* is early warning; one at "
        f"{prereg.safe_gap:,} steps or more before t* is false; anything else is ignored."
    )
    if prereg.burn_in:
        lines.append(f"Windows before step {prereg.burn_in:,} are ignored.")
    lines.append(_targets(prereg))
    lines.append(
        f"At a rate of {prereg.primary_fpr:g} an alarm must warn of at least "
        f"{_percent(prereg.coverage_min)} of events, with a median lead of at least "
        f"{prereg.lead_time_median_min:g} steps; {prereg.lead_time_target:,} steps of lead count "
        "as success."
    )
    lines.append(
        f"With fewer than {prereg.event_count_min} events every verdict is INCONCLUSIVE, and a "
        f"score whose label flips in more than {_percent(prereg.max_label_flip_rate)} of small "
        "variations is ESTIMATOR_UNSTABLE."
    )
    lines += [_family(prereg), _protocol(prereg), *_strata(prereg), *_looks(prereg)]
    return (*lines, *_remarks(prereg))


def _meta(prereg: Prereg) -> str:
    meta = prereg.meta
    who = f" by {meta.researcher}" if meta.researcher else ""
    when = f" on {meta.date_locked}" if meta.date_locked else ""
    code = (
        f"the code is that of commit {meta.commit_hash}"
        if meta.commit_hash
        else "no commit of the code is on record"
    )
    return f"The design was fixed{who}{when}; {code}."


def _remarks(prereg: Prereg) -> list[str]:
    nan = (
        "A labelled window without a finite score is left out and counted."
        if prereg.x_nan == "ignore"
        else "A labelled window without a finite score is an error."
    )
    tables = ", ".join(prereg.reporting.required_tables) or "none"
    return [
        f"Alarms less than {prereg.refractory:,} steps apart are one episode.",
        f"A monitor may abstain for nothing in at most {_percent(prereg.health_alpha)} of runs.",
        nan,
        f"The tables to report are {tables}, with every indicator and every failure.",
    ]


def _event(prereg: Prereg) -> str:
    event = prereg.event
    if event.type == "E_jump":
        return (
            f"The event t* is the first step at which {event.metric} rises by at least "
            f"{event.jump_threshold:g} within {event.window_W_event:,} steps."
        )
    if event.type == "E_plateau":
        dips = event.x_plateau_regression
        allowed = f", of which up to {dips} in a row may lie below" if dips else ""
        return (
            f"The event t* is the first of {event.x_plateau_checkpoints} consecutive checkpoints "
            f"with {event.metric} at or above {event.x_plateau_threshold:g}{allowed}."
        )
    return (
        f"The event t* is the step at which force, info and constraint, each at or above its "
        f"{event.x_regime_quantile:g} quantile of the run, move together within "
        f"{event.x_regime_radius:,} steps (PT-MSS); alternate estimates must see it within "
        f"{event.x_regime_tolerance:,} steps and in the same order. Runs that PT-MSS finds "
        "INCONCLUSIVE or ESTIMATOR_UNSTABLE are excluded."
    )


def _targets(prereg: Prereg) -> str:
    targets = ", ".join(f"{target:g}" for target in prereg.fpr_targets)
    met = (
        f"within {prereg.fpr_eps:g}"
        if prereg.protocol == "v0.4"
        else f"exceeded by no more than {prereg.fpr_eps:g} or half the target, whichever is less"
    )
    return (
        f"The budgets are false positive rates of {targets}; at least {prereg.min_targets_ok} "
        f"must be met, {met}, and the lowest reachable rate must not exceed "
        f"{prereg.fpr_floor_max:g}."
    )


def _family(prereg: Prereg) -> str:
    windows = ", ".join(str(window) for window in prereg.window_sweep)
    smoothing = ", ".join(str(length) for length in prereg.x_smoothing_sweep)
    return (
        f"Stability is judged over windows of {windows} steps, trailing means of {smoothing} "
        f"checkpoints, and {prereg.x_run_groups} groups of runs left out in turn."
    )


def _protocol(prereg: Prereg) -> str:
    if prereg.protocol == "v0.4":
        return "The protocol is v0.4: the specification to the letter, without chance nulls."
    return (
        f"The protocol is strict: coverage must beat two chance nulls of "
        f"{prereg.x_null_draws:,} draws at p <= {prereg.alpha_per_look:g}, adjusted over all "
        f"candidates (Holm); intervals rest on {prereg.x_bootstrap_draws:,} bootstrap draws; the "
        f"seed of all draws is {prereg.x_seed}."
    )


def _strata(prereg: Prereg) -> list[str]:
    return [
        f"A score that passes everything only where {item.where} (stratum {item.name}) is "
        "SCOPE_LIMITED to that; the test there joins the family over which p-values are adjusted."
        for item in prereg.x_strata
    ]


def _looks(prereg: Prereg) -> list[str]:
    most = prereg.x_max_eval_seeds
    bound = "" if most is None else f", at most {most:,} over all looks"
    if prereg.x_looks == 1:
        return [
            "Held-out runs are looked at once: to add some after that takes a new lock, judged on "
            f"new seeds alone{bound}."
        ]
    return [
        f"Held-out runs may be added and looked at again, {prereg.x_looks} looks in all{bound}; "
        f"each look tests at {prereg.x_alpha:g} / {prereg.x_looks} = {prereg.alpha_per_look:g}."
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"
