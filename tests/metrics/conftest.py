"""Caches of `evaluate` that belong to the tests, in this process and in others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
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


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    """The environment of a process with empty caches and no way to the Hub."""
    (tmp_path / "home").mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return {
        **kept,
        "HOME": str(tmp_path / "home"),
        "HF_HOME": str(tmp_path / "home" / "hf"),
        "HF_HUB_OFFLINE": "1",
        "HF_EVALUATE_OFFLINE": "1",  # it does not heed the other, and would wait for an answer
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
