"""Runs to train before a verdict can be expected: from assumptions, or from a pilot's runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.documents import plain_data, write_yaml
from gmb_hf.base.errors import CheckFailed, InputError, fraction
from gmb_hf.base.files import write_text
from gmb_hf.base.stats import IntervalRecord, exact_binomial
from gmb_hf.benchmark.baselines import by_windows, hardest
from gmb_hf.benchmark.judgement import Judgement, Locked
from gmb_hf.benchmark.prepare import Entry, Prepared, Runs, prepare
from gmb_hf.core.thresholds import (
    effective_budget,
    floor_certificate,
    promise,
    runs_to_promise,
)
from gmb_hf.design.design import Design
from gmb_hf.design.power import Assumed, Goal, Plan, RunsAssumed, RunsGoal, plan, plan_by_runs

_ENDINGS = (".json", ".yaml", ".yml")
_SLACK = 1e-12
_RAREST = 1e-6  # rarer false alarms take more than a million runs to show

ASSUMED: Mapping[str, Any] = {
    "detection": 0.5,
    "coverage": 0.5,
    "event_share": 0.9,
    "negative_share": 0.75,
}
"""What is supposed of a score without a pilot."""


@dataclass(frozen=True, eq=False)
class Pilot:
    """A score on pilot runs, which says what it does at any false positive rate.

    Attributes:
        judgement: the score, its runs and their events; thresholds are chosen by `assumed`.
        score: its name.
        tried: among how many scores it is the best on these runs.
    """

    judgement: Judgement
    score: str = ""
    tried: int = 1

    @property
    def n_runs(self) -> int:
        return self.judgement.evaluation.n_runs

    @property
    def n_events(self) -> int:
        return self.judgement.n_events

    def assumed(self, m: int) -> Assumed:
        """What the pilot shows at the rates that `m` calibration runs buy.

        A threshold is the lowest that the pilot's own negatives allow, so that the coverage is a
        little too good where the pilot is small.
        """
        design = self.judgement.design
        primary = design.primary_fpr
        bought = self._at(effective_budget(primary, m))
        return Assumed(
            coverage=bought.alarms(primary).n_detected / self.n_events,
            event_share=self.n_events / self.n_runs,
            negative_share=self.judgement.negatives.n_runs / self.n_runs,
            chance=hardest(by_windows(bought, primary)),
        )

    def assumed_by_runs(self, m: int) -> RunsAssumed:
        """What its first alarms show at the false-alarm rate that `m` runs buy.

        The threshold is the lowest at which no larger share of the pilot's own runs has a false
        alarm.
        """
        design, maxima = self.judgement.design, self._maxima
        budget = design.primary_run_budget
        rate = promise(budget, m, design.calibration).expected
        kept = len(maxima) - 1 - min(math.floor(rate * len(maxima) + _SLACK), len(maxima) - 1)
        tau = float(np.nextafter(maxima[kept], np.inf))
        alarms = self._by({}, dict.fromkeys(design.run_budgets, tau)).first_alarms(budget)
        return RunsAssumed(
            detection=alarms.detection_rate or 0.0,
            event_share=self.n_events / self.n_runs,
            negative_share=len(maxima) / self.n_runs,
            chance=alarms.chance,
        )

    @cached_property
    def _maxima(self) -> NDArray[np.float64]:
        """The greatest negative score of each run that has one, ascending."""
        found = self.judgement.maxima
        return np.sort(found[~np.isnan(found)])

    def coverage_interval(self, assumed: Assumed) -> IntervalRecord:
        """The exact 95% interval of the pilot's coverage."""
        return exact_binomial(round(assumed.coverage * self.n_events), self.n_events)

    def _at(self, rate: float) -> Judgement:
        """The pilot judged at the lowest threshold that keeps a rate."""
        negatives = self.judgement.negatives
        kept = int(np.searchsorted(negatives.rates(per_run=True), rate + _SLACK, side="right"))
        below = negatives.distinct[min(kept, len(negatives.distinct) - 1)]
        tau = float(np.nextafter(below, np.inf))
        targets = self.judgement.design.fpr_targets
        return self._by(dict.fromkeys(targets, tau), {})

    def _by(self, windows: Mapping[float, float], runs: Mapping[float, float]) -> Judgement:
        """The pilot judged by given thresholds."""
        one = self.judgement
        return Judgement(
            one.evaluation, Locked({1: windows}, {1: runs}), one.design, windows=one.windows
        )


def pilot(design: Design, runs: Runs, *, best: bool = False) -> Pilot:
    """A pilot from runs: the first candidate of the design is its score.

    `best`: that of its candidates which detects the most events at the primary budget; where
    several do, the first of them.

    Raises:
        InputError: there is no event, or fewer than two runs have negative windows; or the design
            does not fit the log.
        CheckFailed: no score can alarm at the primary rate, since too many of its windows tie.
    """
    tried = design.candidates if best else design.candidates[:1]
    prepared = prepare(runs, design.model_copy(update={"candidates": tried}))
    found: list[Pilot] = []
    ties: list[str] = []
    for entry in prepared.entries[: len(tried)]:  # controls follow
        one = _pilot_of(prepared, entry, len(tried))
        certificate = floor_certificate(*one.judgement.tops, per_run=True)
        if certificate is not None and certificate.forbids(design.primary_fpr):
            ties.append(
                f"{entry.name} cannot alarm at a false positive rate of {design.primary_fpr:g}: "
                f"{certificate.tied_windows} windows of the pilot tie at "
                f"{certificate.tied_value:g}, the least rate is {certificate.f_min_pos:.3f}; more "
                "runs do not mend that"
            )
        else:
            found.append(one)
    if not found:
        raise CheckFailed(ties[0])
    least = runs_to_promise(design.primary_run_budget, design.calibration)
    return max(found, key=lambda one: one.assumed_by_runs(least).detection) if best else found[0]


def _pilot_of(prepared: Prepared, entry: Entry, tried: int) -> Pilot:
    log, given = prepared.log, prepared.judgement(entry)
    judgement = Judgement(given.evaluation, given.source, prepared.completed.replace(null_draws=1))
    if not judgement.n_events:
        what = f"none of the {len(prepared.judged.runs)} pilot runs has an event"
        hint = (
            "nothing can be planned from them; check --metric, --jump and --window, or train longer"
        )
        raise InputError(f"{log.origin}: {what}, so {hint}")
    known = judgement.negatives.n_runs
    if known < 2:
        what = f"{known} pilot run(s) have negative windows; it takes two at least to see how"
        hint = "Narrow --safe-gap or --burn-in, or add runs"
        raise InputError(f"{log.origin}: {what} runs differ. {hint}")
    return Pilot(judgement, entry.name, tried)


def plan_runs(
    design: Design,
    measured: Pilot | None = None,
    *,
    power: float = 0.8,
    candidates: int | None = None,
    detection: float | None = None,
    coverage: float | None = None,
    event_share: float | None = None,
    negative_share: float | None = None,
    chance: float | None = None,
) -> Plan:
    """How many explore and held-out runs to train for a verdict, and what each number buys.

    Args:
        design: what the verdict must show.
        measured: what pilot runs show; without, `ASSUMED` is supposed.
        power: probability of a conclusive verdict, if the score is as good as supposed.
        candidates: scores in the lock; those that the design lists, or 1, by default.
        detection: share of events that its first alarm detects, in place of what is measured or
            `ASSUMED`; so are the others.
        coverage: share of events that the score covers, by windows.
        event_share, negative_share: shares of runs that have an event, and negative windows.
        chance: share of events by chance at equal cost, in either unit; None
            without a pilot leaves that test out.

    Raises:
        InputError: one of these is out of its range.
    """
    fraction("--power", power)
    if candidates is not None and candidates < 1:
        raise InputError(f"--candidates must be at least 1, got {candidates}")
    for rate in design.fpr_targets:
        if not _RAREST <= rate <= 1 - _RAREST:
            raise InputError(f"--f {rate!r}: rates from {_RAREST:f} to {1 - _RAREST:f} are planned")
    goal = Goal(
        targets=design.fpr_targets,
        primary=design.primary_fpr,
        coverage_min=design.coverage_min,
        event_count_min=design.event_count_min,
        candidates=candidates or max(1, len(design.candidates)),
        alpha=design.alpha_per_look,
        power=power,
    )
    options: dict[str, tuple[str, float | None]] = {
        "detection": ("--detection", detection),
        "coverage": ("--coverage", coverage),
        "event_share": ("--assume-events", event_share),
        "negative_share": ("--assume-negatives", negative_share),
        "chance": ("--assume-chance", chance),
    }
    for option, value in options.values():
        if value is not None and not 0 < value <= 1:
            raise InputError(f"{option} must be a number above 0 and at most 1, got {value:g}")
    minima = {"coverage": goal.coverage_min, "detection": design.detection_min}
    for name, least in minima.items():
        option, value = options[name]
        if value is not None and value <= least:
            what = f"{option} {value:g} must exceed the minimum {least:g}"
            raise InputError(f"{what}: what lies at it is never surely above it")
    given = {name: value for name, (_, value) in options.items() if value is not None}
    usual = ASSUMED if measured is None else {}

    def assumed(m: int) -> Assumed:
        said = _of(Assumed, {**usual, **given})
        return Assumed(**said) if measured is None else replace(measured.assumed(m), **said)

    def assumed_by_runs(m: int) -> RunsAssumed:
        said = _of(RunsAssumed, {**usual, **given})
        if measured is None:
            return RunsAssumed(**said)
        return replace(measured.assumed_by_runs(m), **said)

    by_runs = plan_by_runs(_goal_by_runs(design, goal), assumed_by_runs)
    return replace(plan(goal, assumed), by_runs=by_runs)


def _of(kind: type[Assumed | RunsAssumed], values: Mapping[str, float]) -> dict[str, Any]:
    """Those of the values that are its fields."""
    return {one.name: values[one.name] for one in fields(kind) if one.name in values}


def _goal_by_runs(design: Design, goal: Goal) -> RunsGoal:
    return RunsGoal(
        budget=design.primary_run_budget,
        calibration=design.calibration,
        detection_min=design.detection_min,
        event_count_min=goal.event_count_min,
        candidates=goal.candidates,
        alpha=goal.alpha,
        power=goal.power,
    )


def check_ending(path: Path) -> None:
    """Raise `InputError` unless a plan can be written to this file."""
    if path.suffix not in _ENDINGS:
        raise InputError(f"{path}: a plan is written as .json or .yaml; choose one of them")


def write_plan(found: Plan, path: Path) -> Path:
    """Write a plan as JSON or YAML, atomically."""
    check_ending(path)
    content: dict[str, Any] = plain_data(asdict(found), number=float)
    if path.suffix == ".json":
        return write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
    return write_yaml(path, content, heading="Runs to train before a verdict can be expected")
