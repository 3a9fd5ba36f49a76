"""The models here are tiny: one thread is fastest, and the same on every machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers_builders import save_causal, save_classifier
from threads import one_thread

_one_thread = pytest.fixture(autouse=True, scope="module")(one_thread)


@pytest.fixture(scope="session")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal model of bytes with random weights."""
    return save_causal(tmp_path_factory.mktemp("models") / "causal")


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of words with random weights, its labels bad and good."""
    return save_classifier(tmp_path_factory.mktemp("models") / "classifier")
