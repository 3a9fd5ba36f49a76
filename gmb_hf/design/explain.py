"""A design and a lock in plain sentences, one for each choice that is frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gmb_hf.base.errors import first_of
from gmb_hf.base.fingerprints import SHOWN
from gmb_hf.core.thresholds import effective_budget, in_words, promise, runs_needed, runs_to_promise
from gmb_hf.design.candidates import Ensemble, ParamValue, Score
from gmb_hf.design.design import Design
from gmb_hf.design.event_types import EVENT_TYPES
from gmb_hf.design.lock import CENTRAL, Lock, LockedCandidate, LockedHealth, LockRecord
from gmb_hf.design.locked_ensembles import LockedEnsemble, LockedMember, feature_name

_ORIENTATION = {1: "as declared", -1: "reversed"}
# The fields that `explain_design` speaks of; any other is told by its help text.
_NAMES = """
date_locked researcher commit_hash benchmark version
task model optimizer schedule cadence seeds_explore seeds_eval undeclared
event_type metric direction w_event jump_threshold earliest_rule event_t_min
theta_floor require_new_max
plateau_checkpoints plateau_threshold plateau_regression
regime_quantile regime_radius regime_tolerance
horizon lead_time_target safe_gap
fpr_targets fpr_eps fpr_floor_max min_targets_ok candidates
coverage_min lead_time_median_min window_sweep max_label_flip_rate
required_tables report_all_failures
protocol burn_in primary_fpr event_count_min null_draws bootstrap_draws alpha health_alpha seed
smoothing_sweep run_groups refractory nan strata looks max_eval_seeds
run_budgets primary_run_budget calibration detection_min also_events
"""
_TOLD = frozenset(_NAMES.split())
_MOST_TERMS = 12  # of an ensemble


def explain(lock: Lock) -> tuple[str, ...]:
    """One sentence for each frozen choice, in the order of the file."""
    return (*_design_sentences(lock.design, True), *_record_sentences(lock.x_lock, lock.design))


def explain_design(design: Design, *, locked: bool = False) -> tuple[str, ...]:
    """One sentence for each choice of a preregistration, which may be locked or not."""
    candidates = [f"Candidate {_member_plan(item, 'is taken ')}." for item in design.candidates]
    combined = {item.name: item.x_ensemble for item in design.candidates if item.x_ensemble}
    ensembles = [_ensemble_plan(name, ensemble) for name, ensemble in combined.items()]
    return (*_design_sentences(design, locked), *candidates, *ensembles)


def _design_sentences(design: Design, locked: bool) -> tuple[str, ...]:
    system = [
        f"{name} {value}"
        for name in ("task", "model", "optimizer", "schedule")
        if (value := getattr(design, name))
    ]
    jump, strict = design.event_type == "E_jump", design.protocol == "strict"
    by = f" by {design.researcher}" if design.researcher else ""
    on = f" on {design.date_locked}" if design.date_locked else ""
    written = " written" if by or on else ""
    code = "no commit of the code is on record"
    if design.commit_hash:
        code = f"the code is that of commit {design.commit_hash}"
    seeds = design.max_eval_seeds
    most = "" if seeds is None else f", at most {seeds:,} over all looks"
    left_out = "left out and counted" if design.nan == "ignore" else "an error"
    above = f"within {design.fpr_eps:g}"
    if strict:
        above = f"exceeded by no more than {design.fpr_eps:g} or half the target, whichever is less"
    sentences = (
        f"The design was fixed{by}{on}; {code}."
        if locked
        else f"The design{written}{by}{on} is not locked: what it finds is exploratory; {code}.",
        f"The verdict speaks about {'; '.join(system) or 'whatever system the runs come from'}, "
        "and about nothing else.",
        design.cadence and f"A checkpoint is taken every {design.cadence:,} steps.",
        design.seeds_explore and f"Free search is confined to {_seeds(design.seeds_explore)}.",
        design.seeds_eval and f"Held out, for evaluate alone, are {_seeds(design.seeds_eval)}.",
        design.undeclared and f"Left open, undeclared: {', '.join(design.undeclared)}.",
        f"The event t* is the {EVENT_TYPES[design.event_type].tell(design)}.",
        design.event_t_min and f"No event is registered before step {design.event_t_min:,}.",
        jump and design.theta_floor is not None and f"The jump must reach {design.theta_floor:g}.",
        jump
        and design.require_new_max
        and "A recovery is no event: the jump must set a new "
        f"{'minimum' if design.falling else 'maximum'}.",
        f"An alarm in the {design.horizon:,} steps before t* is early warning; one at "
        f"{design.safe_gap:,} steps or more before t* is false; anything else is ignored.",
        design.burn_in and f"Windows before step {design.burn_in:,} are ignored.",
        f"The budgets are false positive rates of {_listed(design.fpr_targets)}; at least "
        f"{design.min_targets_ok} must be met, {above}, and the lowest reachable rate must not "
        f"exceed {design.fpr_floor_max:g}.",
        f"At a rate of {design.primary_fpr:g} an alarm must detect at least "
        f"{_percent(design.coverage_min)} of events, with a median lead of at least "
        f"{design.lead_least:g} steps; {design.lead_target:,} steps of lead count "
        "as success.",
        *(_by_runs(design) if strict else ()),
        f"With fewer than {design.event_count_min} events every verdict is INCONCLUSIVE, and a "
        f"score whose label flips in more than {_percent(design.max_label_flip_rate)} of small "
        "variations is ESTIMATOR_UNSTABLE.",
        f"Stability is judged over windows of {_listed(design.window_sweep)} steps where a score "
        "has a window of its own, over .8, 1 and 1.25 times the horizon where it has none; "
        f"trailing means of {_listed(design.smoothing_sweep)} checkpoints, and "
        f"{design.run_groups} groups of runs left out in turn. Each such variant gets a "
        "point verdict: layers B and C, without intervals and without the rule on few events.",
        f"The protocol is strict: coverage must beat every chance null, {design.null_draws:,} "
        f"draws of each, at p <= {design.alpha_per_look:g}, adjusted over all candidates (Holm); "
        f"intervals rest on {design.bootstrap_draws:,} bootstrap draws; the seed of all draws is "
        f"{design.seed}."
        if strict
        else "The protocol is v0.4: the specification to the letter, without chance nulls.",
        *(
            f"A score that passes everything only where {item.where} (stratum {item.name}) is "
            "SCOPE_LIMITED to that; the test there joins the family over which p-values are "
            "adjusted."
            for item in design.strata
        ),
        "Held-out runs are looked at once: to add some after that takes a new lock, judged on new "
        f"seeds alone{most}."
        if design.looks == 1
        else f"Held-out runs may be added and looked at again, {design.looks} looks in all{most}; "
        f"each look tests at {design.alpha:g} / {design.looks} = {design.alpha_per_look:g}.",
        f"Alarms less than {design.episode_gap:,} steps apart are one episode.",
        f"A monitor may abstain for nothing in at most {_percent(design.abstention_rate)} of runs.",
        f"A labelled window without a finite score is {left_out}.",
        f"The tables to report are {', '.join(design.required_tables) or 'none'}, with every "
        "indicator and every failure.",
        *(
            f"{(field.description or name).capitalize()}: {getattr(design, name)}."
            for name, field in type(design).model_fields.items()
            if name not in _TOLD and getattr(design, name) is not None
        ),
    )
    return tuple(str(sentence) for sentence in sentences if sentence)


def _by_runs(design: Design) -> Sequence[str]:
    """What is asked of the first alarm, which decides whether a score may act."""
    budgets = ", ".join(map(in_words, design.run_budgets))
    kept = {
        "marginal": "is kept on the average over explore runs (marginal)",
        "conditional": "is kept by nine in ten draws of the explore runs (conditional)",
    }
    events = "".join(
        f" The scores are shown before another event too, {name}: the "
        f"{EVENT_TYPES[other.event_type].tell(other)}."
        for name, other in design.other_events()
    )
    return (
        f"By runs, the first alarm decides: it may be false in {budgets} at most, and "
        f"{in_words(design.primary_run_budget)} is the budget by which a score may act; a budget "
        f"{kept[design.calibration]}. The first alarm must detect at least "
        f"{_percent(design.detection_min)} of events, neither false nor missing.{events}",
    )


def _member_plan(item: Score, verb: str = "") -> str:
    traits = _traits(item.family, item.params, item.x_sees_test_labels)
    return f"{item.name}{traits} {verb}{_ORIENTATION[item.x_sign or 1]}"


def _ensemble_plan(name: str, ensemble: Ensemble) -> str:
    members = ", ".join(_member_plan(item) for item in ensemble.members)
    logistic = ensemble.method == "logistic"
    model = "a logistic regression" if logistic else "gradient-boosted trees"
    choice = (
        f"the L2 penalty out of {_listed(ensemble.penalties)} that does"
        if logistic
        else f"as many trees out of {_listed(ensemble.trees)}, of at most as many leaves out of "
        f"{_listed(ensemble.leaves)} (learning rate {ensemble.learning_rate:g}), as do"
    )
    return (
        f"{name} is the log-odds of {model} on {', '.join(ensemble.features)} of {members}: it is "
        f"fitted on {_percent(ensemble.fit_share)} of the explore runs, dealt by their names and "
        f"the split seed {ensemble.split_seed}, with {choice} best in {ensemble.folds} folds of "
        "these runs, and calibrated on the other explore runs."
    )


def _record_sentences(record: LockRecord, design: Design) -> list[str]:
    """One sentence for each choice that explore runs made."""
    strict = design.protocol == "strict"
    runs = record.n_calibration_runs
    seeds = f"{_seeds(record.explore_seeds)}; " if record.explore_seeds else ""
    lines = [
        f"Thresholds were found on {len(record.explore_runs):,} explore runs, {runs:,} of them "
        f"with negative windows ({seeds}fingerprint {record.explore_fingerprint[:16]})."
    ]
    if record.explore_hashes:
        lines.append(
            f"Content hashes of {len(record.explore_hashes):,} explore runs are kept, so that none "
            "of them is judged under another name."
        )
    lines += [
        f"The {'runs' if source.what == 'runs' else 'data that they learned'} are {source.config} "
        f"of {source.repo} on the Hub, as it was at {source.revision[:SHOWN]} (fingerprint "
        f"{source.fingerprint})."
        for source in record.x_sources
    ]
    for key, budget in record.effective_budget.items():
        target, least = float(key), runs_needed(float(key))
        lines.append(
            f"A budget of {target:g} has no finite threshold with {runs:,} calibration runs: it "
            f"takes {least:,}, and the answer is ABSTAIN."
            if runs < least
            else f"A budget of {target:g} buys an expected false positive rate of {budget:.3f} "
            f"with {runs:,} calibration runs."
        )
    if strict:
        lines += [_promised(budget, runs, design.calibration) for budget in design.run_budgets]
        lines += _promised_elsewhere(record, design)
    lines += [_candidate(name, item, strict) for name, item in record.candidates.items()]
    for name, item in record.candidates.items():
        if item.ensemble is not None:
            lines.append(_formula(name, item, strict))
    return [
        *lines,
        _health(record.x_health),
        f"All of this was locked on {record.created} by gmb-hf {record.package_version} under "
        f"the hash {record.hash[:16]} (lock schema {record.x_schema}).",
    ]


def _promised(budget: float, runs: int, calibration: str) -> str:
    """How often a first alarm at a budget is false, by so many calibration runs."""
    found, words = promise(budget, runs, calibration), in_words(budget)
    if found.rank is None:
        needed = runs_to_promise(budget, calibration)
        return (
            f"A first alarm false in at most {words} has no finite threshold with these {runs:,} "
            f"explore runs: it takes {needed:,}, {needed - runs:,} more, and the answer is ABSTAIN."
        )
    if calibration == "conditional":
        return (
            f"A first alarm is false, 90% sure, in at most {words}; with these {runs:,} explore "
            f"runs {found.expected:.2g} are expected, and 90% sure at most {found.upper:.2g}."
        )
    return (
        f"A first alarm is false in at most {words}; with these {runs:,} explore runs, 90% sure of "
        f"at most {found.upper:.2g}."
    )


def _promised_elsewhere(record: LockRecord, design: Design) -> list[str]:
    """The same at the primary budget, of whatever has calibration runs of its own."""
    budget, calibration = design.primary_run_budget, design.calibration
    counts = {
        f"{name}, which calibrates on its own": item.ensemble.n_calibration_runs
        for name, item in record.candidates.items()
        if item.ensemble is not None
    }
    for item in record.candidates.values():
        if item.ensemble is None:
            counts |= {f"Before {name}": runs for name, runs in item.other_event_runs.items()}
    sentences = {name: _promised(budget, runs, calibration) for name, runs in counts.items()}
    return [f"{name}: {sentence[0].lower()}{sentence[1:]}" for name, sentence in sentences.items()]


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
    about = _traits(item.family, item.params, item.sees_test_labels, item.needs)
    score = f"{name}, oriented {_ORIENTATION[item.sign]}"
    # `strict` locks the float just above an observed score. With six digits the two look the same,
    # and "at least" would be wrong of a score that many windows share: 0 or 1 with a threshold just
    # above 1 never alarms.
    answers = [
        (f"above {math.nextafter(tau, -math.inf):.6g}" if strict else f"of at least {tau:.6g}")
        + f" for a budget of {float(key):g}"
        for key, tau in item.members[CENTRAL].items()
        if math.isfinite(tau)
    ]
    if not answers:
        return f"{score}, never alarms: no budget has a finite threshold{about}."
    first = [
        f"above {math.nextafter(tau, -math.inf):.6g} for {in_words(float(key))}"
        for key, tau in item.first_alarm.get(CENTRAL, {}).items()
        if math.isfinite(tau)
    ]
    by_runs = f"; its first alarm counts {', '.join(first)}" if first else ""
    variants = len(item.members) - 1
    noun = (
        "variant has a threshold of its" if variants == 1 else "variants have thresholds of their"
    )
    others = f"; {variants} {noun} own" if variants else ""
    return f"{score}, alarms at scores {', '.join(answers)}{by_runs}{others}{about}."


def _formula(name: str, item: LockedCandidate, strict: bool) -> str:
    """The formula of an ensemble, and which runs it was fitted and calibrated on."""
    ensemble = item.ensemble
    assert ensemble is not None
    runs = ensemble.n_calibration_runs
    budgets = ", ".join(
        f"{effective_budget(float(key), runs):.3f} at a budget of {float(key):g}"
        for key, tau in item.members[CENTRAL].items()
        if math.isfinite(tau)
    )
    noun = "L2 penalties" if ensemble.method == "logistic" else "settings"
    used = f", with an expected rate of {budgets}" if strict and budgets else ""
    return (
        f"{name} is the log-odds {ensemble.intercept:.3g}{_terms(ensemble)}, fitted on "
        f"{len(ensemble.fit_runs):,} explore runs ({first_of(ensemble.fit_runs, 3)}) with the best "
        f"of {len(ensemble.log_losses)} {noun}, {ensemble.setting}, at a cross-validated "
        f"log loss of {ensemble.log_loss:.3g} (a coin's is 0.693); its thresholds come from "
        f"{runs:,} of the {len(ensemble.calibrate_runs):,} others{used}."
    )


def _terms(ensemble: LockedEnsemble) -> str:
    """What is added to the intercept; of many terms those that weigh most."""
    if ensemble.method == "boosted":
        most = [f"{name} ({count:.0f})" for name, count in ensemble.leans_on(_MOST_TERMS) if count]
        splits = sum(len(tree.feature) for tree in ensemble.trees)
        on = f", most of their {splits:,} splits on {', '.join(most)}" if most else ""
        return f" + {len(ensemble.trees):,} trees{on}"
    terms = [
        (k, f" {_signed(k)} {ensemble.squash}(({_feature(one, of)} {_signed(-c)}) / {s:.3g})")
        for one in ensemble.members
        for of, c, s, k in zip(
            ensemble.features, one.center, one.scale, one.coefficient, strict=True
        )
    ]
    shown = sorted(terms, key=lambda term: -abs(term[0]))[:_MOST_TERMS]
    left = len(terms) - len(shown)
    more = f" and {left:,} smaller terms" if left else ""
    return "".join(text for weight, text in (shown if left else terms)) + more


def _feature(item: LockedMember, feature: str) -> str:
    return feature_name(_member(item), feature)


def _member(item: LockedMember) -> str:
    params = ", ".join(f"{key} {value}" for key, value in item.params.items())
    return f"{'' if item.sign == 1 else '-'}{item.name}{f' [{params}]' if params else ''}"


def _traits(
    family: str | None,
    params: Mapping[str, ParamValue],
    sees_test_labels: bool | None,
    needs: Sequence[str] = (),
) -> str:
    """What is known of a candidate, in brackets; empty where nothing is."""
    known = [family] if family else []
    known += [f"{key} {value}" for key, value in params.items()]
    known += [f"from {', '.join(needs)}"] if needs else []
    if sees_test_labels is not None:
        known.append("sees held-out labels" if sees_test_labels else "sees no held-out labels")
    return f" ({'; '.join(known)})" if known else ""


def _seeds(seeds: Sequence[int]) -> str:
    """Every seed, stretches of successive ones in short: `4 seeds: 0-2, 7`."""
    stretches: list[list[int]] = []
    for seed in sorted(seeds):
        if stretches and seed == stretches[-1][-1] + 1:
            stretches[-1].append(seed)
        else:
            stretches.append([seed])
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in stretches]
    return f"{len(seeds):,} seed{'' if len(seeds) == 1 else 's'}: {', '.join(shown)}"


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {abs(value):.3g}"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"
