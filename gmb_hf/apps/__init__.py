"""The pages of the metrics' Spaces: paste or upload data, see the result with a figure."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {"exposure_app": "items", "items_app": "items", "series_app": "series"}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
