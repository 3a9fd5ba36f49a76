"""The ensemble that presets ask for: every score that sees no held-out label, as one."""

from __future__ import annotations

from typing import Any

from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.windows import label_windows
from gmb_hf.preregistration.candidate import ENSEMBLE, Candidate
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs import RunLog
from gmb_hf.validation import InputError
from gmb_hf.workflows.combining import split_runs
from gmb_hf.workflows.occurring import decided_runs

COMBINATION = "logistic_combination"
"""Its name."""


def combination_of(prereg: Prereg, log: RunLog) -> list[dict[str, Any]]:
    """The candidate that combines every score of a design that sees no held-out label.

    There is none where fewer than two scores are such, or where so few of the explore runs that it
    would be fitted on have windows of both classes that it cannot be fitted.

    Args:
        prereg: the design so far.
        log: runs, of which the declared explore runs are looked at and no others.
    """
    members = [
        {"name": item.name, "family": item.family, "params": dict(item.params)}
        for item in prereg.candidates
        if item.x_sees_test_labels is False
    ]
    if len(members) < 2:
        return []
    candidate = {
        "name": COMBINATION,
        "family": ENSEMBLE,
        "x_sees_test_labels": False,
        "x_ensemble": {"members": members},
    }
    design = Candidate.parse(candidate, where=COMBINATION).x_ensemble
    assert design is not None
    seeds = set(prereg.boundary.seeds_explore)
    explored = [run for run, seed in zip(log.runs, log.seeds, strict=True) if seed in seeds]
    fit = split_runs(explored, design)[0]
    if len(fit) < design.folds:
        return []
    try:
        decided, events = decided_runs(prereg, log.select(fit))
        windows = label_windows(Scores.from_panel(decided.panel("step"), events.step), prereg)
    except InputError:
        return []  # what is wrong with the design is said when it is locked
    both = int((windows.positive.any(axis=1) & windows.negative.any(axis=1)).sum())
    return [candidate] if both >= design.folds else []
