"""Whether a checkpoint lies within the boundary that a lock speaks about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gmb_hf.preregistration.heldout import differing
from gmb_hf.preregistration.lock import Lock
from gmb_hf.preregistration.sections import Boundary
from gmb_hf.validation import InputError, unknown

_SYSTEM = ("task", "model", "optimizer", "schedule", "checkpoint_every_steps")


class LockedBoundary:
    """Follows the steps of one run.

    Args:
        lock: its boundary, and the steps that the explore runs had.
        system: field of the boundary -> what the run says of itself, or several such statements;
            None is not compared.

    Attributes:
        cadence: steps between checkpoints.
        unstated: the fields of the lock that the run says nothing about.
        last: the latest step, None before the first.
        seen: how many checkpoints there were.
        went_back: why nothing can be read any more; None while steps increase.

    Raises:
        InputError: a field that no boundary has, or a lock without a cadence.
    """

    def __init__(self, lock: Lock, system: Mapping[str, Any] | None) -> None:
        boundary, health = lock.prereg.boundary, lock.x_lock.x_health
        if boundary.checkpoint_every_steps is None:
            raise InputError(
                "lock: boundary.checkpoint_every_steps is open, so no live run can be held against "
                "it; lock again with gmb lock, which fills it in from the logs"
            )
        self.cadence = boundary.checkpoint_every_steps
        self._first = None if health is None else health.first_step
        self._end = None if health is None else health.last_step
        said = _statements(system or {})
        self._foreign = _difference(boundary, said)
        locked = {name for name in _SYSTEM[:-1] if getattr(boundary, name) is not None}
        self.unstated = tuple(name for name in _SYSTEM if name in locked and not said.get(name))
        self.last: int | None = None
        self.seen = 0
        self.went_back: str | None = None

    def fault(self, step: int) -> str | None:
        """Take the next checkpoint; why no ruler can be read at it, None where all can.

        Raises:
            InputError: the step does not come after the one before.
        """
        if self.last is not None and step <= self.last:
            raise self._backwards(step)
        fault = self._foreign or self.went_back or self._rhythm(step)
        if fault is None and self._end is not None and step > self._end:
            fault = f"step {step} lies beyond the explore runs, which end at step {self._end}"
        self.last = step
        self.seen += 1
        return fault

    def _rhythm(self, step: int) -> str | None:
        if self.last is None:
            if self._first is not None and step > self._first:
                return f"it is watched from step {step} on, the explore runs from {self._first}"
            return None
        spacing = step - self.last
        # As in any log the first interval may be shorter: 1, 500, 1000, ...
        if spacing == self.cadence or (self.seen == 1 and spacing < self.cadence):
            return None
        return (
            f"step {step} comes {spacing} steps after the checkpoint before it, where the lock has "
            f"one every {self.cadence}"
        )

    def _backwards(self, step: int) -> InputError:
        what = f"step {step} was given already"
        if self.last is not None and step < self.last:
            what = f"step {step} comes after step {self.last}: the run went back"
            self.went_back = f"{what}, and no state was loaded"
        return InputError(
            f"{what}; after a restart load the monitor's state of that checkpoint, or begin a new "
            "monitor"
        )


def _statements(system: Mapping[str, Any]) -> dict[str, list[Any]]:
    for name in system:
        if name not in _SYSTEM:
            raise unknown("field", name, _SYSTEM, where="system")
    return {
        name: [item for item in (said if _is_several(said) else [said]) if item is not None]
        for name, said in system.items()
    }


def _is_several(said: Any) -> bool:
    return isinstance(said, Sequence) and not isinstance(said, str)


def _difference(boundary: Boundary, said: Mapping[str, Sequence[Any]]) -> str | None:
    for name, locked, found in differing(boundary, said):
        return f"the run's {name} is {found!r}, the lock is about {locked!r}"
    return None
