"""A lock in plain sentences, one for each choice that is frozen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from gmb_hf.design.design import Candidate, Design, Ensemble, ParamValue
from gmb_hf.design.power import effective_budget, runs_needed
from gmb_hf.design.record import (
    CENTRAL,
    LockedCandidate,
    LockedEnsemble,
    LockedHealth,
    LockedMember,
    LockRecord,
)
from gmb_hf.errors import first_of
from gmb_hf.fingerprints import SHOWN

ORIENTATION = {1: "as declared", -1: "reversed"}


def traits(
    family: str | None,
    params: Mapping[str, ParamValue],
    sees_test_labels: bool | None,
    needs: Sequence[str] = (),
) -> str:
    """What is known of a candidate, in brackets; empty where nothing is."""
    known = [
        *([family] if family else []),
        *(f"{key} {value}" for key, value in params.items()),
        *([f"from {', '.join(needs)}"] if needs else []),
    ]
    if sees_test_labels is not None:
        known.append("sees held-out labels" if sees_test_labels else "sees no held-out labels")
    return f" ({'; '.join(known)})" if known else ""


def seeds_of(seeds: tuple[int, ...]) -> str:
    """Every seed, stretches of successive ones in short: `4 seeds: 0-2, 7`."""
    stretches: list[list[int]] = []
    for seed in sorted(seeds):
        if stretches and seed == stretches[-1][-1] + 1:
            stretches[-1].append(seed)
        else:
            stretches.append([seed])
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in stretches]
    return f"{len(seeds):,} seed{'' if len(seeds) == 1 else 's'}: {', '.join(shown)}"


def explain_record(record: LockRecord, *, strict: bool) -> list[str]:
    """One sentence for each choice that explore runs made, under `strict` or `v0.4`."""
    runs = record.n_calibration_runs
    lines = [
        f"Thresholds were found on {len(record.explore_runs):,} explore runs, {runs:,} of them "
        f"with negative windows ({_explored(record)}fingerprint {record.explore_fingerprint[:16]})."
    ]
    lines.extend(
        f"The {'runs' if source.what == 'runs' else 'data that they learned'} are {source.config} "
        f"of {source.repo} on the Hub, as it was at {source.revision[:SHOWN]} (fingerprint "
        f"{source.fingerprint})."
        for source in record.x_sources
    )
    lines.extend(
        _budget(float(key), budget, runs) for key, budget in record.effective_budget.items()
    )
    lines.extend(_candidate(name, item, strict) for name, item in record.candidates.items())
    lines.extend(
        ensemble_sentence(name, item, item.ensemble, strict=strict)
        for name, item in record.candidates.items()
        if item.ensemble is not None
    )
    lines.append(_health(record.x_health))
    lines.append(
        f"All of this was locked on {record.created} by gmb-hf {record.package_version} under "
        f"the hash {record.hash[:16]} (lock format {record.format})."
    )
    return lines


def _explored(record: LockRecord) -> str:
    return f"{seeds_of(record.explore_seeds)}; " if record.explore_seeds else ""


def _budget(target: float, budget: float, runs: int) -> str:
    if runs < runs_needed(target):
        return (
            f"A budget of {target:g} has no finite threshold with {runs:,} calibration runs: it "
            f"takes {runs_needed(target):,}, and the answer is ABSTAIN."
        )
    return (
        f"A budget of {target:g} buys an expected false positive rate of {budget:.3f} with "
        f"{runs:,} calibration runs."
    )


def _health(health: LockedHealth | None) -> str:
    if health is None:
        return "The lock holds nothing by which a monitor could tell that a live score drifts."
    between = f"steps {health.begins[0]:,} to {health.last_step:,}"
    if health.n_calibration_runs < runs_needed(health.alpha):
        return (
            f"A monitor cannot promise the health of a live score between {between}: false "
            f"abstentions in at most {health.alpha:g} of runs take {runs_needed(health.alpha):,} "
            f"runs beside the reference, there are {health.n_calibration_runs:,}."
        )
    sides = [(item.up.delay_steps, item.down.delay_steps) for item in health.candidates.values()]
    found = [max(up, down) for up, down in sides if up is not None and down is not None]
    median = f", after a median of {sorted(found)[len(found) // 2]:,} steps" if found else ""
    return (
        f"A monitor ranks live scores between {between} among {health.n_reference_runs:,} explore "
        f"runs and abstains where they drift as at most {health.alpha:g} of runs would, by "
        f"{health.n_calibration_runs:,} others; of {len(sides):,} scores it notices a shift by "
        f"one sd from mid-run on within half of the runs in {len(found):,}{median}."
    )


def _candidate(name: str, item: LockedCandidate, strict: bool) -> str:
    about = traits(item.family, item.params, item.sees_test_labels, item.needs)
    score = f"{name}, oriented {ORIENTATION[item.sign]}"
    answers = [
        f"{_alarming(tau, strict)} for a budget of {float(key):g}"
        for key, tau in item.members[CENTRAL].items()
        if math.isfinite(tau)
    ]
    if not answers:
        return f"{score}, never alarms: no budget has a finite threshold{about}."
    variants = len(item.members) - 1
    noun = (
        "variant has a threshold of its" if variants == 1 else "variants have thresholds of their"
    )
    others = f"; {variants} {noun} own" if variants else ""
    return f"{score}, alarms at scores {', '.join(answers)}{others}{about}."


def ensemble_sentence(
    name: str, item: LockedCandidate, ensemble: LockedEnsemble, *, strict: bool
) -> str:
    """The formula of an ensemble, and which runs it was fitted and calibrated on."""
    terms = "".join(
        f" {_signed(one.coefficient)} {ensemble.squash}(({_member(one)} {_signed(-one.center)}) "
        f"/ {one.scale:.3g})"
        for one in ensemble.members
    )
    runs = ensemble.n_calibration_runs
    budgets = ", ".join(
        f"{effective_budget(float(key), runs):.3f} at a budget of {float(key):g}"
        for key, tau in item.members[CENTRAL].items()
        if math.isfinite(tau)
    )
    used = f", with an expected rate of {budgets}" if strict and budgets else ""
    return (
        f"{name} is the log-odds {ensemble.intercept:.3g}{terms}, fitted on "
        f"{len(ensemble.fit_runs):,} explore runs ({first_of(ensemble.fit_runs, 3)}) with the best "
        f"of {len(ensemble.log_losses)} L2 penalties, {ensemble.penalty:g}, at a cross-validated "
        f"log loss of {ensemble.log_loss:.3g} (a coin's is 0.693); its thresholds come from "
        f"{runs:,} of the {len(ensemble.calibrate_runs):,} others{used}."
    )


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {abs(value):.3g}"


def _member(item: LockedMember) -> str:
    reversed_one = "" if item.sign == 1 else "-"
    params = ", ".join(f"{key} {value}" for key, value in item.params.items())
    return f"{reversed_one}{item.name}{f' [{params}]' if params else ''}"


def _alarming(threshold: float, strict: bool) -> str:
    """Which scores alarm: `strict` locks the float just above an observed score.

    Written with six digits the two look the same, and "at least" would be wrong of a score that
    many windows share: 0 or 1 with a threshold just above 1 never alarms.
    """
    if strict:
        return f"above {math.nextafter(threshold, -math.inf):.6g}"
    return f"of at least {threshold:.6g}"


# How an ensemble is to be made, in a plain sentence; `explain_record` has what came of it.


def explain_design_of(candidates: Iterable[Candidate]) -> list[str]:
    """A sentence for each ensemble among some candidates."""
    return [_design(item.name, item.x_ensemble) for item in candidates if item.x_ensemble]


def _design(name: str, ensemble: Ensemble) -> str:
    members = ", ".join(
        f"{item.name}{traits(item.family, item.params, item.x_sees_test_labels)} "
        f"{ORIENTATION[item.x_sign or 1]}"
        for item in ensemble.members
    )
    penalties = ", ".join(f"{penalty:g}" for penalty in ensemble.penalties)
    return (
        f"{name} is the log-odds of a logistic regression on {members}: it is fitted on "
        f"{100 * ensemble.fit_share:.6g}% of the explore runs, dealt by their names and the split "
        f"seed {ensemble.split_seed}, with the L2 penalty out of {penalties} that does best in "
        f"{ensemble.folds} folds of these runs, and calibrated on the other explore runs."
    )


def explain(design: Design, record: LockRecord) -> tuple[str, ...]:
    """One sentence for each frozen choice, in the order of the file."""
    return (*_design_sentences(design), *explain_record(record, strict=design.protocol == "strict"))


def explain_design(design: Design) -> tuple[str, ...]:
    """One sentence for each choice of a preregistration that is not locked yet."""
    candidates = [
        f"Candidate {item.name}{traits(item.family, item.params, item.x_sees_test_labels)} is "
        f"taken {ORIENTATION[item.x_sign or 1]}."
        for item in design.candidates
    ]
    return (*_design_sentences(design), *candidates, *explain_design_of(design.candidates))


def _design_sentences(design: Design) -> tuple[str, ...]:
    facts = [
        f"{label} {value}"
        for label, value in (
            ("task", design.task),
            ("model", design.model),
            ("optimizer", design.optimizer),
            ("schedule", design.schedule),
        )
        if value
    ]
    about = "; ".join(facts) or "whatever system the runs come from"
    lines = [_meta(design), f"The verdict speaks about {about}, and about nothing else."]
    if design.cadence:
        lines.append(f"A checkpoint is taken every {design.cadence:,} steps.")
    if design.seeds_explore:
        lines.append(f"Free search is confined to {seeds_of(design.seeds_explore)}.")
    if design.seeds_eval:
        lines.append(f"Held out, for evaluate alone, are {seeds_of(design.seeds_eval)}.")
    lines.append(_event(design))
    if design.event_t_min:
        lines.append(f"No event is registered before step {design.event_t_min:,}.")
    if design.event_type == "E_jump" and design.theta_floor is not None:
        lines.append(f"The jump must reach {design.theta_floor:g}.")
    if design.event_type == "E_jump" and design.require_new_max:
        lines.append("A recovery from a dip is no event: the jump must set a new maximum.")
    lines.append(
        f"An alarm in the {design.horizon:,} steps before t* is early warning; one at "
        f"{design.safe_gap:,} steps or more before t* is false; anything else is ignored."
    )
    if design.burn_in:
        lines.append(f"Windows before step {design.burn_in:,} are ignored.")
    lines.append(_targets(design))
    lines.append(
        f"At a rate of {design.primary_fpr:g} an alarm must warn of at least "
        f"{_percent(design.coverage_min)} of events, with a median lead of at least "
        f"{design.lead_time_median_min:g} steps; {design.lead_time_target:,} steps of lead count "
        "as success."
    )
    lines.append(
        f"With fewer than {design.event_count_min} events every verdict is INCONCLUSIVE, and a "
        f"score whose label flips in more than {_percent(design.max_label_flip_rate)} of small "
        "variations is ESTIMATOR_UNSTABLE."
    )
    lines += [_family(design), _protocol(design), *_strata(design), *_looks(design)]
    return (*lines, *_remarks(design), *_others(design))


# The fields that the sentences here speak of; any other is told by its help text.
_NAMES = """
date_locked researcher commit_hash benchmark version
task model optimizer schedule cadence seeds_explore seeds_eval
event_type metric w_event jump_threshold earliest_rule event_t_min theta_floor require_new_max
plateau_checkpoints plateau_threshold plateau_regression
regime_quantile regime_radius regime_tolerance
horizon lead_time_target safe_gap
fpr_targets fpr_eps fpr_floor_max min_targets_ok candidates
coverage_min lead_time_median_min window_sweep max_label_flip_rate
required_tables report_all_failures
protocol burn_in primary_fpr event_count_min null_draws bootstrap_draws alpha health_alpha seed
smoothing_sweep run_groups refractory nan strata looks max_eval_seeds
"""
_TOLD = frozenset(_NAMES.split())


def _others(design: Design) -> list[str]:
    """A generic sentence for each field that has none of its own."""
    return [
        f"{(field.description or name).capitalize()}: {getattr(design, name)}."
        for name, field in type(design).model_fields.items()
        if name not in _TOLD and getattr(design, name) is not None
    ]


def _meta(design: Design) -> str:
    who = f" by {design.researcher}" if design.researcher else ""
    when = f" on {design.date_locked}" if design.date_locked else ""
    code = (
        f"the code is that of commit {design.commit_hash}"
        if design.commit_hash
        else "no commit of the code is on record"
    )
    return f"The design was fixed{who}{when}; {code}."


def _remarks(design: Design) -> list[str]:
    nan = (
        "A labelled window without a finite score is left out and counted."
        if design.nan == "ignore"
        else "A labelled window without a finite score is an error."
    )
    tables = ", ".join(design.required_tables) or "none"
    return [
        f"Alarms less than {design.episode_gap:,} steps apart are one episode.",
        f"A monitor may abstain for nothing in at most {_percent(design.abstention_rate)} of runs.",
        nan,
        f"The tables to report are {tables}, with every indicator and every failure.",
    ]


def _event(design: Design) -> str:
    if design.event_type == "E_jump":
        return (
            f"The event t* is the first step at which {design.metric} rises by at least "
            f"{design.jump_threshold:g} within {design.w_event:,} steps."
        )
    if design.event_type == "E_plateau":
        dips = design.plateau_regression
        allowed = f", of which up to {dips} in a row may lie below" if dips else ""
        return (
            f"The event t* is the first of {design.plateau_checkpoints} consecutive checkpoints "
            f"with {design.metric} at or above {design.plateau_threshold:g}{allowed}."
        )
    return (
        f"The event t* is the step at which force, info and constraint, each at or above its "
        f"{design.regime_quantile:g} quantile of the run, move together within "
        f"{design.regime_radius:,} steps (PT-MSS); alternate estimates must see it within "
        f"{design.regime_tolerance:,} steps and in the same order. Runs that PT-MSS finds "
        "INCONCLUSIVE or ESTIMATOR_UNSTABLE are excluded."
    )


def _targets(design: Design) -> str:
    targets = ", ".join(f"{target:g}" for target in design.fpr_targets)
    met = (
        f"within {design.fpr_eps:g}"
        if design.protocol == "v0.4"
        else f"exceeded by no more than {design.fpr_eps:g} or half the target, whichever is less"
    )
    return (
        f"The budgets are false positive rates of {targets}; at least {design.min_targets_ok} "
        f"must be met, {met}, and the lowest reachable rate must not exceed "
        f"{design.fpr_floor_max:g}."
    )


def _family(design: Design) -> str:
    windows = ", ".join(str(window) for window in design.window_sweep)
    smoothing = ", ".join(str(length) for length in design.smoothing_sweep)
    return (
        f"Stability is judged over windows of {windows} steps, trailing means of {smoothing} "
        f"checkpoints, and {design.run_groups} groups of runs left out in turn."
    )


def _protocol(design: Design) -> str:
    if design.protocol == "v0.4":
        return "The protocol is v0.4: the specification to the letter, without chance nulls."
    return (
        f"The protocol is strict: coverage must beat two chance nulls of "
        f"{design.null_draws:,} draws at p <= {design.alpha_per_look:g}, adjusted over all "
        f"candidates (Holm); intervals rest on {design.bootstrap_draws:,} bootstrap draws; the "
        f"seed of all draws is {design.seed}."
    )


def _strata(design: Design) -> list[str]:
    return [
        f"A score that passes everything only where {item.where} (stratum {item.name}) is "
        "SCOPE_LIMITED to that; the test there joins the family over which p-values are adjusted."
        for item in design.strata
    ]


def _looks(design: Design) -> list[str]:
    most = design.max_eval_seeds
    bound = "" if most is None else f", at most {most:,} over all looks"
    if design.looks == 1:
        return [
            "Held-out runs are looked at once: to add some after that takes a new lock, judged on "
            f"new seeds alone{bound}."
        ]
    return [
        f"Held-out runs may be added and looked at again, {design.looks} looks in all{bound}; "
        f"each look tests at {design.alpha:g} / {design.looks} = {design.alpha_per_look:g}."
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"
