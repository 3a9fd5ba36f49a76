"""A small evaluation by a lock in which some scores may act, made once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from synthetic import synthetic_runlog

from gmb_hf import Lock, Prereg, Results, RunLog, make_lock
from gmb_hf.workflows.evaluating import evaluate_lock

SYSTEM = {"task": "synthetic", "model": "made-up", "optimizer": "none", "schedule": "1200 steps"}


@dataclass(frozen=True)
class Evaluated:
    """A lock, what it was made on, and the verdicts on held-out runs."""

    lock: Lock
    results: Results
    explore: RunLog
    held_out: RunLog


def made_up(n_runs: int, first_seed: int) -> RunLog:
    """Synthetic runs that say which system they come from."""
    log = synthetic_runlog(n_runs, seed=first_seed, first_seed=first_seed)
    log.metadata.update(SYSTEM)
    return log


@pytest.fixture(scope="session")
def evaluated() -> Evaluated:
    """Gini and its gain may act on the clean curves of made-up runs; the constant may not."""
    explore, held_out = made_up(100, 0), made_up(100, 200)
    design = Prereg.minimal(
        horizon=100,
        safe_gap=200,
        w_event=50,
        jump_threshold=0.2,
        burn_in=150,
        lead_time_target=30,
        lead_time_median_min=20,
        fpr_targets=[0.05, 0.1],
        primary_fpr=0.1,
        min_targets_ok=1,
        window_sweep=[80, 100, 120],
        null_draws=400,
        bootstrap_draws=200,
        candidates=[
            {"name": "embedding_gini", "family": "spectral"},
            {"name": "embedding_gini_gain", "family": "spectral", "params": {"window": 100}},
            {"name": "unembedding_gini_gain", "family": "spectral", "params": {"window": 100}},
            {"name": "settled_structure", "family": "process"},
            {"name": "embedding_norm_drop", "family": "dynamics"},
            {"name": "csd_variance", "family": "dynamics", "params": {"window": 100}},
        ],
    )
    lock, _ = make_lock(design, explore)
    return Evaluated(lock, evaluate_lock(lock, held_out).results, explore, held_out)
