"""One small evaluation by a lock in which some scores may act, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_runs import Evaluated, Replayed, evaluated_runs


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
def replayed(evaluated: Evaluated) -> Replayed:
    """A column of a run that alarms."""
    return Replayed(evaluated)
