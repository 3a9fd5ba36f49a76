"""The modules of `evaluate`, loaded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def load(own_caches: None) -> Callable[[str], Any]:
    """`gmb_hf.jobs.metrics.load`, each module once."""
    import functools

    import gmb_hf.jobs.metrics

    return functools.cache(gmb_hf.jobs.metrics.load)
