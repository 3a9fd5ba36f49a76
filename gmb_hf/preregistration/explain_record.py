"""What explore runs fixed, in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gmb_hf.fingerprints import SHOWN
from gmb_hf.preregistration.locked_ensemble import LockedEnsemble, LockedMember
from gmb_hf.preregistration.plan import effective_budget, runs_needed
from gmb_hf.preregistration.record import CENTRAL, LockedCandidate, LockedHealth, LockRecord
from gmb_hf.preregistration.sections import ParamValue
from gmb_hf.validation import first_of

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
