"""Fixtures that several folders share; `synthetic.py` beside this file makes the run logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from synthetic import synthetic_runlog

from gmb_hf.runs.runlog import RunLog

# The same examples on every machine, however slow: a failure here is a failure there.
settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

REFERENCE_RUNS = Path(__file__).resolve().parents[2] / "shared" / "data" / "reference_runs"


@pytest.fixture(scope="session")
def reference_runs() -> Path:
    """The folder of the 20 real reference runs, or a skip where it is not there."""
    if not REFERENCE_RUNS.is_dir():
        pytest.skip(f"the reference runs are not at {REFERENCE_RUNS}")
    return REFERENCE_RUNS


@pytest.fixture(scope="session")
def synthetic_log() -> RunLog:
    """Twelve grokking runs with every observable, some of them cut short, two without an event."""
    return synthetic_runlog(12, ragged=True, share_with_event=0.85)
