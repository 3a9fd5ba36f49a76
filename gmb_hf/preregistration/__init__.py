"""Everything fixed before evaluation: the preregistration, its lock, and the design linter."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Candidate": "sections",
    "Prereg": "prereg",
    "Lock": "lock",
    "LockedCandidate": "record",
    "DesignFacts": "findings",
    "Finding": "findings",
}

__all__ = ["Candidate", "DesignFacts", "Finding", "Lock", "LockedCandidate", "Prereg"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
