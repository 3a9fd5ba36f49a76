"""Causal functions of a run's observables to a score s(t); higher means higher risk."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gmb_hf.indicators.registry import Indicator as Indicator
    from gmb_hf.indicators.registry import Observables as Observables
    from gmb_hf.indicators.registry import available as available
    from gmb_hf.indicators.registry import compute as compute
    from gmb_hf.indicators.registry import get as get
    from gmb_hf.indicators.registry import names as names
    from gmb_hf.indicators.registry import register as register

__all__ = ["Indicator", "Observables", "available", "compute", "get", "names", "register"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("gmb_hf.indicators.registry"), name)


def __dir__() -> list[str]:
    return __all__
