"""Caches of `evaluate` that belong to the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def own_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is loaded in this process lies in a folder of its own, and nothing asks the Hub."""
    from evaluate import config

    cache = tmp_path_factory.mktemp("hf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "HF_MODULES_CACHE", cache / "modules")
        patch.setattr(config, "HF_METRICS_CACHE", cache / "metrics")
        patch.setattr(config, "HF_EVALUATE_OFFLINE", True)
        yield


@pytest.fixture(scope="session")
def load(own_caches: None) -> Callable[[str], Any]:
    """`gmb_hf.metrics.load`, each module once."""
    import functools

    import gmb_hf.metrics

    return functools.cache(gmb_hf.metrics.load)
