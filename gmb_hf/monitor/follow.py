"""A run watched from another process, by the log that it writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from gmb_hf.errors import InputError
from gmb_hf.monitor.monitor import AlarmMonitor, StateFile, read_state
from gmb_hf.monitor.reading import Reading
from gmb_hf.runs.follow import Checkpoint, GrowingFile, GrowingRows

ENDED_BY = {
    "alarm": "an alarm was raised",
    "until": "its last step was reached",
    "pid": "the process that trains has ended",
    "idle": "nothing more was written",
}
"""Why a watch ended."""
POLL_SECONDS = 0.5
_FIRST, _STEP, _MONITOR = "first_checkpoint", "step", "monitor"  # of the state file


@dataclass(frozen=True)
class Ending:
    """When a run counts as ended, whichever comes first.

    At its step `until`, with the process `pid` that trains, or `idle` seconds without a new line.
    """

    until: int | None = None
    pid: int | None = None
    idle: float | None = None

    def __post_init__(self) -> None:
        if self.idle is not None and not self.idle >= 0:
            raise InputError(f"--idle {self.idle:g}: give seconds, 0 or more")
        if self.until is not None and self.until < 0:
            raise InputError(f"--until {self.until}: give a step, 0 or more")
        if self.pid is not None and not is_running(self.pid):
            hint = "is the run over? --idle 0 reads what its log holds"
            raise InputError(f"--pid {self.pid}: there is no such process; {hint}")


def ending_of(monitor: AlarmMonitor, ending: Ending) -> Ending:
    """Where nothing is said of it, a run ends where the longest explore run of the lock did."""
    health = monitor.lock.x_lock.x_health
    return Ending(until=health.last_step) if ending == Ending() and health else ending


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    import psutil

    return bool(psutil.pid_exists(pid))


class Viewer(Protocol):
    """What shows a watch to a person."""

    def reading(self, reading: Reading) -> None:
        """The answer at a checkpoint."""

    def note(self, text: str) -> None:
        """What was passed over, and why."""

    def waiting(self, seconds: float) -> None:
        """Nothing was written for so long."""


def begin_monitor(
    lock: Path, results: Path | None, *, act: Sequence[str] | None = None, **rule: Any
) -> AlarmMonitor:
    """A monitor by a lock and its results; those beside the lock where none are named.

    `rule`: unit, budget and target, as in `AlarmMonitor`.
    """
    usual = lock.parent / "results.yaml"
    if results is None and usual.exists():
        results = usual
    return AlarmMonitor(lock, results, act=act, **rule)


class LogWatch:
    """One log under watch; use it as a context manager.

    Args:
        monitor: a new one; it goes on from what `state` holds.
        log: a JSONL or CSV file; it may not be there yet.
        state: where the monitor is kept, so that a restarted one goes on; beside the log if None.
        run, step_column: as in `GrowingRows`.

    Attributes:
        last: the latest reading; None before the first.
        state: the file that it is kept in.

    Raises:
        InputError: the state is another monitor's or none, or another monitor is at work on it.
    """

    def __init__(
        self,
        monitor: AlarmMonitor,
        log: Path,
        state: Path | None = None,
        *,
        run: str | None = None,
        step_column: str = "step",
    ) -> None:
        if log.is_dir():
            raise InputError(f"{log}: this is a folder; name the log of one run in it")
        state = state or log.with_name(f"{log.name}.monitor.json")
        self.monitor = monitor
        self.last: Reading | None = None
        self._log = log
        self._rows = GrowingRows(
            str(log), needs=monitor.needs, cadence=monitor.cadence, run=run, step_column=step_column
        )
        self._unsaved = False
        self._first: dict[str, str] | None = None
        self._step: int | None = None  # up to where the run was seen
        self.state = state
        self._file = StateFile(state)
        try:
            self._load(state)
        except InputError:
            self._file.close()
            raise
        self._seen_to: int | None = self._step

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()

    def follow(
        self,
        ending: Ending,
        viewer: Viewer,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> str:
        """Watch until the first alarm, or until the run has ended; a key of `ENDED_BY`.

        Where the state holds a raised alarm it ends at once: no run has a second one.

        `InputError` where the file is no log of checkpoints, or its steps go backwards.
        """
        heard = clock()
        with GrowingFile(self._log) as file:
            while True:
                # Asked before the log is read: nothing that was written until then is missed.
                trains = ending.pid is None or is_running(ending.pid)
                try:
                    lines = file.poll()
                except OSError as error:
                    what = f"could not be read: {error.strerror or error}"
                    raise InputError.at(self._log, "unreadable", what) from error
                if lines:
                    heard = clock()
                silent = clock() - heard
                over = not trains or (ending.idle is not None and silent >= ending.idle)
                checkpoints = self._rows.checkpoints(lines)
                if over:  # nothing more will be written: the last row, whole or cut short
                    line = file.unfinished
                    checkpoints += self._rows.checkpoints([line] if line else [])
                    checkpoints += self._rows.rest()
                ended = self._read_all(checkpoints, viewer, ending.until)
                if over and ended is None:
                    ended = "idle" if trains else "pid"
                if ended is not None:
                    self._rows.check_run()
                    return ended
                if not lines:
                    viewer.waiting(silent)
                    sleep(POLL_SECONDS)

    def _read_all(
        self, checkpoints: Sequence[Checkpoint], viewer: Viewer, until: int | None
    ) -> str | None:
        """Read checkpoints up to the one that ends the watch; why it does, if one does."""
        ended = None
        before = self._step
        for checkpoint in checkpoints:
            reading = self._read(checkpoint)
            if reading is not None:
                viewer.reading(reading)
                ended = "alarm" if reading.state == "ALARM" else None
            if ended is None and until is not None and checkpoint.step >= until:
                ended = "until"
            if ended is not None:
                break
        if ended is None and self.monitor.alarm is not None:
            ended = "alarm"
        if self._step != before:
            state = self.monitor.state_dict()
            try:
                self._file.write({_FIRST: self._first, _STEP: self._step, _MONITOR: state})
            except InputError as error:  # a full disk is no reason to stop watching
                if not self._unsaved:
                    viewer.note(f"{error}; until then a monitor that is started again lacks this")
                self._unsaved = True
        for note in self._rows.notes:
            viewer.note(note)
        self._rows.notes.clear()
        return ended

    def _read(self, checkpoint: Checkpoint) -> Reading | None:
        """The answer at a checkpoint; None where it was seen before, or the alarm was raised.

        Another run than the one that is watched is refused: it tells itself by its first row.
        """
        needs = {name: checkpoint.columns.get(name) for name in self.monitor.needs}
        known = {name: str(value) for name, value in {"step": checkpoint.step, **needs}.items()}
        self._first = known if self._first is None else self._first
        if self._first.get("step") == known["step"] and self._first != known:
            raise InputError(
                f"{self._log}: line {checkpoint.line}: another run begins here than the one that "
                f"was watched; to watch it, delete {self._file.path} and start again"
            )
        if checkpoint.begins:
            self._seen_to = self._step
        if self._seen_to is not None and checkpoint.step <= self._seen_to:
            return None
        if self.monitor.alarm is not None:
            return None
        self._seen_to = None
        needed = {*self.monitor.needs, *self.monitor.shown_needs}
        columns = {name: value for name, value in checkpoint.columns.items() if name in needed}
        try:
            self.last = self.monitor.update(step=checkpoint.step, **columns)
        except InputError as error:
            raise InputError(f"{self._log}: line {checkpoint.line}: {error}") from None
        self._step = checkpoint.step
        return self.last

    def _load(self, path: Path) -> None:
        if not path.exists():
            return
        held = read_state(path)
        kinds = {_FIRST: dict, _STEP: int, _MONITOR: dict}
        if not all(isinstance(held.get(key), kind) for key, kind in kinds.items()):
            raise InputError(
                f"{path}: is not the state of a watched log; delete it, or name another --state"
            )
        self.monitor.load_state_dict(held[_MONITOR], where=str(path))
        self._first, self._step = held[_FIRST], held[_STEP]
