"""An ensemble of made-up scores, the runs that it is locked on, and runs that are held out."""

from __future__ import annotations

from typing import Any

from synthetic import FEW_MEMBERS, SYNTHETIC_DESIGN, synthetic_runlog

from gmb_hf import Design, Lock, RunLog
from gmb_hf.design.locked_ensembles import LockedEnsemble

MEMBERS: tuple[Any, ...] = (
    {"name": "embedding_gini", "family": "spectral"},
    {"name": "embedding_norm_drop", "params": {"window": 100}},
    {"name": "csd_variance", "params": {"window": 100}},
    {"name": "attention_rank", "x_sign": -1, "x_sees_test_labels": False},
)
"""Two indicators with a window, one that is a column's name as well, and a column."""


def ensemble(name: str = "both", members: Any = MEMBERS, **design: Any) -> dict[str, Any]:
    """A candidate."""
    return {"name": name, "x_ensemble": {"members": list(members), **design}}


def design_with(*candidates: Any, **overrides: Any) -> Design:
    """A design with one score beside the ensembles."""
    settings = {
        **SYNTHETIC_DESIGN,
        **FEW_MEMBERS,
        "fpr_targets": [0.05, 0.1],
        "primary_fpr": 0.1,
        "min_targets_ok": 1,
        "window_sweep": [80, 100, 120],
        "null_draws": 200,
        "bootstrap_draws": 100,
        "candidates": [{"name": "embedding_norm_drop", "params": {"window": 100}}, *candidates],
    }
    return Design.minimal(**{**settings, **overrides})


def runs(n_runs: int = 60, first_seed: int = 0, **options: Any) -> RunLog:
    """Runs of one made-up system."""
    return synthetic_runlog(n_runs, seed=first_seed, first_seed=first_seed, **options)


def with_formula(lock: Lock, name: str, other: LockedEnsemble) -> Lock:
    """The same lock with another formula for its combination `name`."""
    held = lock.x_lock
    swapped = held.candidates[name].model_copy(update={"ensemble": other})
    return Lock.build(
        lock.design,
        {**held.candidates, name: swapped},
        explore_fingerprint=held.explore_fingerprint,
        explore_runs=held.explore_runs,
        explore_seeds=held.explore_seeds,
        n_calibration_runs=held.n_calibration_runs,
    )
