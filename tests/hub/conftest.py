"""One stub and one process of commands for each file of tests; every test begins with nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hub_client import Terminal, terminal
from hub_store import Hub
from hub_stub import loopback_hub


@pytest.fixture(scope="module")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Terminal]]:
    with loopback_hub() as hub, terminal(hub, tmp_path_factory.mktemp("home")) as commands:
        yield hub, commands


@pytest.fixture
def hub(_running: tuple[Hub, Terminal]) -> Hub:
    """A Hub that holds nothing; what it did not understand before is a failure."""
    found = _running[0]
    assert found.unknown == []
    found.repositories.clear()
    found.large.clear()
    found.requests.clear()
    found.faults.clear()
    found.spoils = None
    return found


@pytest.fixture
def commands(_running: tuple[Hub, Terminal]) -> Terminal:
    """Where `gmb` is typed; its home and its cache last as long as the file of tests."""
    return _running[1]
