"""What the design linter finds, and what it is told of the runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One fault of a design."""

    code: str
    level: Literal["warning", "error"]
    message: str

    def __str__(self) -> str:
        return f"{self.level} [{self.code}] {self.message}"


@dataclass(frozen=True)
class DesignFacts:
    """What explore runs say about a design; None or empty where it is not known.

    Attributes:
        cadence: steps between checkpoints.
        n_explore: explore runs.
        n_explore_with_negatives: those with at least one negative window.
        n_eval: held-out runs that are planned.
        event_steps: t* of each explore run, NaN where there is none.
        first_steps: the first evaluated step of each explore run, in the same order.
        duplicates_dropped: rows dropped for a repeated step, by run.
        dip_recoveries: events that only regain a level that the metric had reached before.
        excluded: explore runs that the event excludes, by label.
        non_causal: candidates whose past changes when their future is cut off.
        windowed: candidates with a window parameter; None when it is not known.
        n_candidates: candidates of the lock, controls not counted.
        stratum_events: explore events in each stratum, by its name.
    """

    cadence: int | None = None
    n_explore: int | None = None
    n_explore_with_negatives: int | None = None
    n_eval: int | None = None
    event_steps: tuple[float, ...] = ()
    first_steps: tuple[int, ...] = ()
    duplicates_dropped: Mapping[str, int] = field(default_factory=dict)
    dip_recoveries: int = 0
    excluded: Mapping[str, int] = field(default_factory=dict)
    non_causal: tuple[str, ...] = ()
    windowed: tuple[str, ...] | None = None
    n_candidates: int | None = None
    stratum_events: Mapping[str, int] = field(default_factory=dict)


def error(code: str, message: str) -> Finding:
    """A fault that refuses the design."""
    return Finding(code, "error", message)


def warning(code: str, message: str) -> Finding:
    """A fault that is printed and kept."""
    return Finding(code, "warning", message)
