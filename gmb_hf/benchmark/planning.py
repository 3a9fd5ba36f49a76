"""Runs to train before a verdict can be expected: from assumptions, or from a pilot's runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.nulls import chance
from gmb_hf.benchmark.operationality import false_alarms, layer_b
from gmb_hf.benchmark.prepare import Runs, prepare
from gmb_hf.benchmark.utility import warnings_at
from gmb_hf.design.design import Design
from gmb_hf.design.power import Assumed, Goal, Plan, effective_budget
from gmb_hf.documents import json_like, write_yaml
from gmb_hf.errors import CheckFailed, InputError
from gmb_hf.files import write_text
from gmb_hf.stats import IntervalRecord, exact_binomial

_ENDINGS = (".json", ".yaml", ".yml")
_SLACK = 1e-12


@dataclass(frozen=True, eq=False)
class Pilot:
    """A score on pilot runs, which says what it does at any false positive rate.

    Attributes:
        judgement: the score, its runs and their events; thresholds are chosen by `assumed`.
    """

    judgement: Judgement

    @property
    def n_runs(self) -> int:
        """How many runs the pilot has."""
        return self.judgement.evaluation.n_runs

    @property
    def n_events(self) -> int:
        """How many of them have an event."""
        return self.judgement.n_events

    def assumed(self, m: int) -> Assumed:
        """What the pilot shows at the rates that `m` calibration runs buy.

        A threshold is the lowest that the pilot's own negatives allow, so that the coverage is a
        little too good where the pilot is small. How runs differ is seen at the targets
        themselves: at the rates that few runs buy, too few of a pilot's runs alarm.
        """
        prereg = self.judgement.design
        primary = prereg.primary_fpr
        bought = self._at(effective_budget(primary, m))
        covered = int(warnings_at(bought, primary).covered.sum())
        nulls = chance(bought, primary, covered)
        return Assumed(
            coverage=covered / self.n_events,
            windows={target: self._independent_windows(target) for target in prereg.fpr_targets},
            event_share=self.n_events / self.n_runs,
            negative_share=self.judgement.negatives.n_runs / self.n_runs,
            chance=max((null.mean_coverage for null in nulls.values()), default=None),
        )

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
        return replace(self.judgement, thresholds=dict.fromkeys(targets, tau))

    def _independent_windows(self, target: float) -> float:
        """k, for which the runs' rates at this target vary by f (1-f) / k; at least 1."""
        counts = self.judgement.negatives.counts
        known = counts > 0
        rates = false_alarms(self._at(target), target)[known] / counts[known]
        mean, variance = float(rates.mean()), float(rates.var(ddof=1))
        return max(1.0, mean * (1 - mean) / variance) if variance else float(counts[known].mean())


def pilot(design: Design, runs: Runs) -> Pilot:
    """A pilot from runs: the first candidate of the design is its score.

    Raises:
        InputError: there is no event, or fewer than two runs have negative windows; or the design
            does not fit the log.
    """
    prepared = prepare(runs, design.model_copy(update={"candidates": design.candidates[:1]}))
    entry, log = prepared.entries[0], prepared.log
    judgement = Judgement(prepared.scores(entry), None, prepared.completed.replace(null_draws=1))
    if not judgement.n_events:
        raise InputError(
            f"{log.origin}: none of the {len(prepared.judged.runs)} pilot runs has an event, so "
            "nothing can be planned from them; check --metric, --jump and --window, or train longer"
        )
    known = judgement.negatives.n_runs
    if known < 2:
        raise InputError(
            f"{log.origin}: {known} pilot run(s) have negative windows; it takes two at least to "
            "see how runs differ. Narrow --safe-gap or --burn-in, or add runs"
        )
    certificate = layer_b(judgement, intervals=False).x_floor_certificate
    if certificate is not None and certificate.forbids(design.primary_fpr):
        raise CheckFailed(
            f"{entry.name} cannot alarm at a false positive rate of {design.primary_fpr:g}: "
            f"{certificate.tied_windows} windows of the pilot tie at {certificate.tied_value:g}, "
            f"the least rate is {certificate.f_min_pos:.3f}; more runs do not mend that"
        )
    return Pilot(judgement)


def goal_of(prereg: Design, *, power: float, candidates: int | None = None) -> Goal:
    """What a design asks of a verdict; `candidates` replaces the number that it lists."""
    return Goal(
        targets=prereg.fpr_targets,
        primary=prereg.primary_fpr,
        min_targets_ok=prereg.min_targets_ok,
        eps=prereg.fpr_eps,
        coverage_min=prereg.coverage_min,
        event_count_min=prereg.event_count_min,
        candidates=candidates or max(1, len(prereg.candidates)),
        alpha=prereg.alpha_per_look,
        power=power,
    )


def check_ending(path: Path) -> None:
    """Raise `InputError` unless a plan can be written to this file."""
    if path.suffix not in _ENDINGS:
        raise InputError(f"{path}: a plan is written as .json or .yaml; choose one of them")


def write_plan(plan: Plan, path: Path) -> Path:
    """Write a plan as JSON or YAML, atomically."""
    check_ending(path)
    content: dict[str, Any] = json_like(asdict(plan))
    if path.suffix == ".json":
        return write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
    return write_yaml(path, content, heading="Runs to train before a verdict can be expected")
