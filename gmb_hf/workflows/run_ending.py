"""When a run that is watched from another process counts as ended."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gmb_hf.monitor.monitor import AlarmMonitor
from gmb_hf.validation import InputError

ENDED_BY = {
    "alarm": "an alarm was raised",
    "until": "its last step was reached",
    "pid": "the process that trains has ended",
    "idle": "nothing more was written",
}
"""Why a watch ended."""


@dataclass(frozen=True)
class Ending:
    """When a run counts as ended; whichever comes first.

    Attributes:
        until: its last step.
        pid: the process that trains.
        idle: seconds without a new line.
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
            raise InputError(
                f"--pid {self.pid}: there is no such process; is the run over? --idle 0 reads "
                "what its log holds"
            )


def ending_of(monitor: AlarmMonitor, asked: Ending) -> Ending:
    """Where nothing is asked, a run ends where the longest explore run of the lock did."""
    health = monitor.lock.x_lock.x_health
    return Ending(until=health.last_step) if asked == Ending() and health else asked


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
