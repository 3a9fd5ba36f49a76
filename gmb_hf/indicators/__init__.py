"""Causal functions of a run's observables to a score s(t); higher means higher risk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gmb_hf._lazy import load

if TYPE_CHECKING:
    from gmb_hf.indicators.registry import Indicator as Indicator
    from gmb_hf.indicators.registry import Observables as Observables
    from gmb_hf.indicators.registry import available as available
    from gmb_hf.indicators.registry import compute as compute
    from gmb_hf.indicators.registry import get as get
    from gmb_hf.indicators.registry import names as names
    from gmb_hf.indicators.registry import register as register

_HOME = {
    "Indicator": "registry",
    "Observables": "registry",
    "available": "registry",
    "compute": "registry",
    "get": "registry",
    "names": "registry",
    "register": "registry",
}
__all__ = ["Indicator", "Observables", "available", "compute", "get", "names", "register"]


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
