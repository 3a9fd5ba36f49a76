"""Everything fixed before evaluation: the preregistration, its lock, and the design linter."""

from __future__ import annotations

from typing import Any

from gmb_hf._lazy import load

_HOME = {
    "Candidate": "candidate",
    "Prereg": "prereg",
    "Lock": "lock",
    "LockedCandidate": "record",
    "DesignFacts": "findings",
    "Finding": "findings",
}

__all__ = ["Candidate", "DesignFacts", "Finding", "Lock", "LockedCandidate", "Prereg"]


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
