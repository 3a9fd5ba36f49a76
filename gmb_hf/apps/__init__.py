"""The pages of the metrics' Spaces: paste or upload data, see the result with a figure."""

from __future__ import annotations

from typing import Any

from gmb_hf._lazy import load

_HOME = {
    "documents_app": "documents",
    "exposure_app": "items",
    "items_app": "items",
    "phases_app": "phases",
    "series_app": "series",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
