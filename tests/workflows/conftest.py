"""Explore and held-out runs of one made-up system, and a design for them."""

from __future__ import annotations

import pytest
from synthetic import SYNTHETIC_DESIGN, synthetic_runlog

from gmb_hf import Design, RunLog


@pytest.fixture(scope="session")
def explore_log() -> RunLog:
    """30 runs, seeds 0 to 29."""
    return synthetic_runlog(30)


@pytest.fixture(scope="session")
def held_out_log() -> RunLog:
    """40 runs, seeds 100 to 139."""
    return synthetic_runlog(40, seed=1, first_seed=100)


@pytest.fixture(scope="session")
def design() -> Design:
    """One windowed candidate, one without a window, one column, one reversed."""
    return Design.minimal(
        **SYNTHETIC_DESIGN,
        window_sweep=[50, 100, 150],
        null_draws=200,
        bootstrap_draws=200,
        candidates=[
            {"name": "embedding_norm_drop", "family": "dynamics", "params": {"window": 100}},
            {"name": "embedding_gini", "family": "spectral"},
            {"name": "embedding_rank", "x_sign": -1, "x_sees_test_labels": False},
        ],
    )
