"""How a training script ends: its exit code, and one line that says why.

Launchers start a script once per process (`accelerate launch`, `torchrun`). When one process dies,
they send SIGTERM to the others; one that is waiting for the dead process's numbers finds the
connection closed instead.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from gmb_hf.validation import InputError

INTERRUPTED = 128 + signal.SIGINT
STOPPED = 128 + signal.SIGTERM
_PEER_GONE = ("closed by peer", "reset by peer", "connection refused", "broken pipe")


class Stopped(BaseException):
    """This process was asked to stop, or another one of its training is gone."""


def exit_code(work: Callable[[], None]) -> int:
    """Do the work of a script and return its exit code; the reason goes to standard error.

    0 done, 2 bad input, 130 interrupted, 143 stopped. The work must resume from what it has saved.
    """
    again = "the same command goes on from the last saved state"
    try:
        with ending_together():
            work()
            leave_together()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted; {again}", file=sys.stderr)
        return INTERRUPTED
    except Stopped as reason:
        print(f"stopped: {reason}; {again}", file=sys.stderr)
        return STOPPED
    return 0


def leave_together() -> None:
    """Close the connections between processes, once all have come to their end.

    Left to the interpreter's end, one process may still speak when the other is gone, and abort.
    """
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()


@contextlib.contextmanager
def ending_together() -> Iterator[None]:
    """Turn the launcher's signal to stop, and the loss of another process, into `Stopped`."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    except RuntimeError as error:
        if not any(words in str(error).lower() for words in _PEER_GONE):
            raise
        raise Stopped("another process of this training is gone") from error
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped("the launcher asked, as it does when another process has died")
