"""What a monitor remembers of a run, as a document that is checked when it is read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import FiniteFloat

from gmb_hf.files import check_file
from gmb_hf.indicators.carried import Memory
from gmb_hf.monitor.boundary import LockedBoundary
from gmb_hf.monitor.reading import State
from gmb_hf.monitor.ruler import Ruler
from gmb_hf.preregistration.documents import Many, Section
from gmb_hf.validation import InputError

FORMAT = 1
_FOLLOWED = ("last", "seen", "went_back")
_COUNTED = ("broken", "since", "drifted", "alarms", "watched")


class RunState(Section):
    """How far the run has come; see `LockedBoundary`."""

    last: int | None = None
    seen: int
    went_back: str | None = None

    @classmethod
    def of(cls, boundary: LockedBoundary) -> RunState:
        """The state that it is in."""
        return cls(**{name: getattr(boundary, name) for name in _FOLLOWED})

    def restore(self, boundary: LockedBoundary) -> None:
        """Let it go on from here."""
        for name in _FOLLOWED:
            setattr(boundary, name, getattr(self, name))


class DriftState(Section):
    """The CUSUM of a score's ranks now, and the largest drift so far."""

    up: int
    down: int
    largest: FiniteFloat


class RulerState(Section):
    """All that an indicator remembers; see `Ruler`. JSON has no NaN: it stands as text."""

    kept: Many[Many[FiniteFloat | Literal["nan", "inf", "-inf"]]]
    whole_run: bool
    broken: str | None = None
    since: int | None = None
    drifted: bool
    alarms: int
    watched: int
    drift: DriftState | None = None

    @classmethod
    def of(cls, ruler: Ruler) -> RulerState:
        """The state that it is in."""
        memory, drift = ruler.stream.memory, ruler.drift
        rows = [kept[0].tolist() for kept in memory.kept]
        data = {
            **{name: getattr(ruler, name) for name in _COUNTED},
            "kept": [[x if math.isfinite(x) else str(x) for x in row] for row in rows],
            "whole_run": memory.whole_run,
        }
        if drift is not None:
            up, down = drift.sums[0].tolist()
            data["drift"] = {"up": up, "down": down, "largest": drift.largest}
        return cls.parse(data, where=ruler.name)

    def restore(self, ruler: Ruler) -> None:
        """Let it go on from here."""
        kept = [np.array([[float(x) for x in row]], dtype=np.float64) for row in self.kept]
        ruler.stream.memory = Memory(kept, self.whole_run)
        if ruler.drift is not None and self.drift is not None:
            ruler.drift.sums = np.array([[self.drift.up, self.drift.down]], dtype=np.int64)
            ruler.drift.largest = self.drift.largest
        for name in _COUNTED:
            setattr(ruler, name, getattr(self, name))


class MonitorState(Section):
    """The state of a monitor; one that names no target is of its lock's primary one."""

    format: int = FORMAT
    lock_hash: str
    target: float | None = None
    acting: Many[str]
    state: State | None = None
    since: int
    run: RunState
    rulers: dict[str, RulerState]

    def check(self, lock_hash: str, acting: tuple[str, ...], rulers: set[str], where: str) -> None:
        """Raise `InputError` unless it is of a monitor with this lock and these indicators."""
        if self.format != FORMAT:
            raise InputError(
                f"{where}: state format {self.format} is not readable here, format {FORMAT} is; "
                "begin a new monitor"
            )
        if self.lock_hash != lock_hash:
            raise InputError(
                f"{where}: is of lock {self.lock_hash[:16]}, not of {lock_hash[:16]}; load it with "
                "the lock that it was made with"
            )
        if self.acting != acting or set(self.rulers) != rulers:
            raise InputError(
                f"{where}: is of a monitor with other indicators; give the same act and show"
            )

    def check_target(self, target: float, primary: float, where: str) -> None:
        """Raise `InputError` unless its alarms were counted by the thresholds of this target."""
        held = primary if self.target is None else self.target
        if held != target:
            raise InputError(
                f"{where}: is of a monitor with target {held:g}, not {target:g}; give the same "
                "target, or begin a new monitor"
            )


def read_state(path: str | Path) -> Any:
    """The plain data in a state file.

    Raises:
        InputError: there is no such file, or it holds something else.
    """
    check_file(path)
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(
            f"{path}: is not the state of a monitor ({error}); give the file that it saved"
        ) from None
