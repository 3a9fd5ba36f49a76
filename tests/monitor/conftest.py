"""One small evaluation by a lock in which some scores may act, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_runs import SYSTEM, Evaluated, Replayed, evaluated_runs

from gmb_hf import RunLog
from gmb_hf.benchmark.evaluate import evaluate_lock


@pytest.fixture(scope="session")
def evaluated() -> Evaluated:
    """Its lock, its results and its runs."""
    return evaluated_runs()


@pytest.fixture(scope="session")
def judged(evaluated: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with its lock.yaml and results.yaml."""
    folder = tmp_path_factory.mktemp("judged")
    evaluated.lock.write(folder / "lock.yaml")
    evaluated.results.write(folder / "results.yaml")
    return folder


@pytest.fixture(scope="session")
def transferred(evaluated: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with its lock.yaml and the verdicts of a transfer, on runs of another task."""
    folder = tmp_path_factory.mktemp("transferred")
    evaluated.lock.write(folder / "lock.yaml")
    other = RunLog.from_table(evaluated.held_out.table, metadata={**SYSTEM, "task": "another"})
    judged = evaluate_lock(evaluated.lock, other, transfer=True)
    judged.results.write(folder / "results.yaml")
    return folder


@pytest.fixture(scope="session")
def replayed(evaluated: Evaluated) -> Replayed:
    """A column of a run that alarms."""
    return Replayed(evaluated)
