"""The runs here are tiny: one thread is fastest, and the same on every machine."""

from __future__ import annotations

import pytest
from threads import one_thread

_one_thread = pytest.fixture(autouse=True, scope="session")(one_thread)
