"""One small evaluation by a lock in which some scores may act, made once."""

from __future__ import annotations

import pytest
from live_runs import Evaluated, evaluated_runs


@pytest.fixture(scope="session")
def evaluated() -> Evaluated:
    """Its lock, its results and its runs."""
    return evaluated_runs()
