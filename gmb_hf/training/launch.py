"""Processes and devices: how a training script starts, and how it ends.

Launchers start a script once per process (`accelerate launch`, `torchrun`). When one process dies,
they send SIGTERM to the others; one that is waiting for the dead process's numbers finds the
connection closed instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from gmb_hf.base.errors import InputError, choose, positive_int
from gmb_hf.base.extras import needing
from gmb_hf.training.config import DEVICES, GROKKED

if TYPE_CHECKING:
    from accelerate import Accelerator


MEMORISED = 0.99  # training accuracy
INTERRUPTED = 128 + signal.SIGINT
STOPPED = 128 + signal.SIGTERM
_PEER_GONE = ("closed by peer", "reset by peer", "connection refused", "broken pipe")
# Processes wait for the slowest one at the end; the default gives up after minutes.
_PATIENCE = timedelta(days=30)
_SAVING = "accelerate.utils.other"  # remarks that tied weights are stored once
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of malloc.h
_NEVER = 2**31 - 1


class Listener:
    """Hears of a training's progress. A base class, which ignores it."""

    def advanced(self, units: int) -> None:
        """So many units of work were done since the last call."""

    def measured(self, seeds: Sequence[int], found: Mapping[str, Any]) -> None:
        """A checkpoint's row of each of these seeds: by observable, and `step`, an array [S]."""

    def show(self, text: str) -> None:
        """What is being done, in a few words; empty: nothing but steps."""


class _Rate(ProgressColumn):
    """So many units a second."""

    def render(self, task: Task) -> Text:
        speed, unit = task.finished_speed or task.speed, task.fields["unit"]
        return Text("-" if speed is None else f"{speed:,.0f} {unit}/s", style="cyan")


class TrainingBar:
    """A progress bar in the terminal, one line at 80 columns; use it as a context manager.

    Args:
        total: units of the whole work.
        done: units that an earlier start of the command has finished.
        console: where to draw; standard error when not given.
    """

    unit = "seed steps"
    """What is counted."""
    shown = ""
    """What stands beside the bar at first."""

    def __init__(self, total: int, done: int = 0, console: Console | None = None) -> None:
        self._progress = Progress(
            SpinnerColumn(),  # moves before the first unit is done, too
            TextColumn("[bold]training"),
            BarColumn(bar_width=10),
            TextColumn("{task.percentage:>3.0f}%"),
            _Rate(),
            TextColumn("{task.fields[shown]}"),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
            disable=not logging.getLogger(__name__).isEnabledFor(logging.WARNING),  # gmb -q
        )
        fields: Any = {"unit": self.unit, "shown": self.shown}
        self._task = self._progress.add_task("training", total=total, completed=done, **fields)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._progress.stop()

    def advanced(self, units: int) -> None:
        """Move the bar."""
        self._progress.advance(self._task, units)

    def show(self, text: str) -> None:
        """Show this beside the bar."""
        self._progress.update(self._task, shown=text)


class Bar(TrainingBar, Listener):
    """Of seeds x steps, with how many seeds have memorised and grokked at least once."""

    shown = "memorised 0 grokked 0"

    def __init__(self, total: int, done: int = 0, console: Console | None = None) -> None:
        super().__init__(total, done, console)
        self._memorised: set[int] = set()
        self._grokked: set[int] = set()

    def measured(self, seeds: Sequence[int], found: Mapping[str, Any]) -> None:
        """Count the seeds that have memorised and grokked at least once."""
        numbers = np.asarray(seeds)
        self._memorised.update(numbers[found["train_acc"] >= MEMORISED].tolist())
        self._grokked.update(numbers[found["test_acc"] >= GROKKED].tolist())
        self.show(f"memorised {len(self._memorised)} grokked {len(self._grokked)}")


Tell = Callable[..., None]
"""`tell("advanced", 3)` calls that method of the progress bar, in whichever process it is."""
_DONE, _REFUSED = "done", "refused"


def parallel_jobs(jobs: int | None, groups: int, device: str) -> int:
    """How many of so many groups are trained at a time; `InputError` for no positive number.

    None is one for each thread that torch may use, and 1 on a GPU: where cores are shared, threads
    of one process wait for each other at every product, and processes of one thread do not.
    """
    import torch

    if jobs is None:
        jobs = torch.get_num_threads() if device == "cpu" else 1
    positive_int("--jobs", jobs)
    return max(min(jobs, groups), 1)


def train_groups(groups: Sequence[Callable[..., object]], bar: object | None, *, jobs: int) -> None:
    """Train groups of seeds, in this process or in `jobs` processes that share its threads.

    A group is a call with `tell=`, which can be pickled; `bar` shows the progress of all.
    `InputError` is a group's, or that a process was killed.
    """

    def tell(method: str, *about: Any) -> None:
        if bar is not None:
            getattr(bar, method)(*about)

    if jobs == 1:
        keep_freed_memory()
        for group in groups:
            group(tell=tell)
        return
    import torch

    threads = max(torch.get_num_threads() // jobs, 1)
    context = multiprocessing.get_context("spawn")  # a forked process may inherit held locks
    waiting, running = deque(groups), dict[Connection, BaseProcess]()
    try:
        for _ in range(min(jobs, len(groups))):
            here, there = context.Pipe()
            process: BaseProcess = context.Process(target=_work, args=(there, threads), daemon=True)
            process.start()
            there.close()
            running[here] = process
            here.send(waiting.popleft())
        while running:
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                try:
                    kind, about = ready.recv()
                except (EOFError, ConnectionResetError):  # the process has ended
                    _check_exit(running.pop(ready), jobs)
                    continue
                if kind == _REFUSED:
                    raise about
                if kind == _DONE:
                    ready.send(waiting.popleft() if waiting else None)
                else:
                    tell(kind, *about)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.join()


def _check_exit(process: BaseProcess, jobs: int) -> None:
    process.join()
    if process.exitcode:
        raise InputError(
            f"--jobs {jobs}: a training process ended with code {process.exitcode}, as it does "
            "where memory runs out; the same command with --jobs 1 goes on from the last saved "
            "state"
        )


def _work(connection: Connection, threads: int) -> None:
    """Train one group after the other, as they are received."""
    import torch

    # Ctrl-C reaches every process of a terminal; the main process ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    keep_freed_memory()
    try:
        while (group := connection.recv()) is not None:
            group(tell=lambda method, *about: connection.send((method, about)))
            connection.send((_DONE, None))
    except InputError as error:
        connection.send((_REFUSED, error))
    except (BrokenPipeError, EOFError):
        return  # the main process has ended
    finally:
        connection.close()


class Stopped(BaseException):
    """This process was asked to stop."""


def exit_code(work: Callable[[], None]) -> int:
    """Do the work of a script and return its exit code; the reason goes to standard error.

    0 done, 2 bad input, 130 interrupted, 143 stopped. The work must resume from what it has saved.
    """
    again = "the same command goes on from the last saved state"

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise Stopped("the launcher asked, as it does when another process has died")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with needing("training"):
            work()
        # Left to the interpreter's end, one process may still speak when the other is gone, and
        # abort.
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            distributed.barrier()
            distributed.destroy_process_group()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted; {again}", file=sys.stderr)
        return INTERRUPTED
    except (Stopped, RuntimeError) as error:
        gone = any(words in str(error).lower() for words in _PEER_GONE)
        if isinstance(error, RuntimeError) and not gone:
            raise
        reason = "another process of this training is gone" if gone else error
        print(f"stopped: {reason}; {again}", file=sys.stderr)
        return STOPPED
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def make_accelerator(*, cpu: bool, **settings: Any) -> Accelerator:
    """An Accelerator that cuts each batch over its processes, on the CPU where `cpu`.

    Several processes that share a CPU need that, and `InputError` says so where they do not see
    each other; `settings` are the Accelerator's, such as `mixed_precision`.
    """
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration, InitProcessGroupKwargs

    accelerator = Accelerator(
        cpu=cpu,
        dataloader_config=DataLoaderConfiguration(split_batches=True),
        kwargs_handlers=[InitProcessGroupKwargs(timeout=_PATIENCE)],
        **settings,
    )
    world, seen = int(os.environ.get("WORLD_SIZE", "1")), accelerator.num_processes
    if world != seen:
        raise InputError(
            f"{world} processes were launched but each sees {seen}; on a CPU pass --cpu "
            "and launch with torchrun --nproc_per_node N"
        )
    return accelerator


def own_share(seeds: Sequence[int], accelerator: Accelerator) -> Sequence[int]:
    """The seeds that this process trains: every n-th, so that all have equally many."""
    return seeds[accelerator.process_index :: accelerator.num_processes]


def on_main(accelerator: Accelerator, work: Callable[[], Any]) -> None:
    """Do work in the main process, for which the others wait; its InputError is raised in all."""
    from accelerate.utils import broadcast_object_list

    faults: list[str | None] = [None]
    if accelerator.is_main_process:
        try:
            work()
        except InputError as error:
            faults = [str(error)]
    fault = broadcast_object_list(faults)[0]
    if fault is not None:
        raise InputError(fault)


def chosen_device(device: str) -> str:
    """What "auto", "cpu" or "cuda" means here; `InputError` for CUDA where torch sees none."""
    choose("device", device, DEVICES, where="--device")
    import torch

    has_cuda = torch.cuda.is_available()
    if device == "cuda" and not has_cuda:
        raise InputError("--device cuda: torch sees no CUDA device here; use --device cpu")
    return "cuda" if has_cuda and device != "cpu" else "cpu"


@contextlib.contextmanager
def silence_transformers() -> Iterator[None]:
    """No progress bars and no warnings of transformers, and none of saving by Accelerate."""
    from transformers.utils import logging as remarks

    saving = logging.getLogger(_SAVING)
    with contextlib.ExitStack() as afterwards:
        afterwards.callback(remarks.set_verbosity, remarks.get_verbosity())
        afterwards.callback(saving.setLevel, saving.level)
        if remarks.is_progress_bar_enabled():
            afterwards.callback(remarks.enable_progress_bar)
        remarks.set_verbosity_error()
        remarks.disable_progress_bar()
        saving.setLevel(logging.ERROR)
        yield


def keep_freed_memory() -> bool:
    """Ask glibc to reuse freed memory, so that a step does not fault in fresh pages.

    Returns whether it agreed. The process stays so.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, _NEVER))
