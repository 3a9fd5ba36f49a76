"""What a training left: run logs (one row per run and step) and the panels cut from them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gmb_hf.runs.panel import Panel as Panel
    from gmb_hf.runs.runlog import RunLog as RunLog

_HOMES = {"Panel": "gmb_hf.runs.panel", "RunLog": "gmb_hf.runs.runlog"}
__all__ = ["Panel", "RunLog"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
