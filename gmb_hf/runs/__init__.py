"""What a training left: run logs (one row per run and step) and the panels cut from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gmb_hf._lazy import load

if TYPE_CHECKING:
    from gmb_hf.runs.panel import Panel as Panel
    from gmb_hf.runs.runlog import RunLog as RunLog

_HOME = {"Panel": "panel", "RunLog": "runlog"}
__all__ = ["Panel", "RunLog"]


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
