"""Figures that are saved empty, where their names matter and rendering would take the time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock


@contextlib.contextmanager
def empty_figures() -> Iterator[None]:
    """Figures are drawn and saved as empty files meanwhile."""
    from matplotlib.figure import Figure

    def save(_: Figure, target: Any, **__: Any) -> None:
        if hasattr(target, "write"):
            target.write(b"")
        else:
            Path(target).touch()

    with mock.patch.object(Figure, "savefig", save):
        yield
