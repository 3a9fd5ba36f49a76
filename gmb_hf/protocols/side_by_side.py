"""Groups of seeds trained side by side in several processes.

Small models leave most of a second core idle, however many seeds are stacked; two groups at a time
do not. Which process trains a group changes nothing in it but the number of threads.

A process sends its progress through a pipe. One that finds nobody listening ends; what it has saved
is gone on with.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from gmb_hf.protocols.sequential_folder import SequentialFolder
from gmb_hf.protocols.sequential_listeners import Listener, PhaseBar, Places, Together
from gmb_hf.protocols.sequential_settings import SequentialConfig
from gmb_hf.training.variants import Variant
from gmb_hf.validation import InputError

_DONE, _REFUSED = "done", "refused"


@dataclass(frozen=True)
class Group:
    """Seeds of a variant that are trained together, and how.

    Attributes:
        config, variant, seeds: as in `sequential.train_group`.
        folder: of the run.
        device: where to train.
        save_models: after the "last" phase, after "all" of them, or "none".
        trackers: installed ones that hear of it.
    """

    config: SequentialConfig
    variant: Variant
    seeds: tuple[int, ...]
    folder: str
    device: str
    save_models: str
    trackers: tuple[str, ...] = ()


def train_here(groups: Sequence[Group], bar: PhaseBar | None) -> None:
    """Train the groups one after the other in this process.

    Raises:
        InputError: a variant does not fit the model, or the folder cannot be written to.
    """
    for group in groups:
        _train(group, [] if bar is None else [bar])


def train_side_by_side(
    groups: Sequence[Group], bar: PhaseBar | None, *, jobs: int, threads: int
) -> None:
    """Train the groups in `jobs` processes, with so many threads each; one after the other in each.

    Raises:
        InputError: as `train_here`, or a process was killed.
    """
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
                said = _said(ready)
                if said is None:
                    _check_end(running.pop(ready), jobs)
                elif said[0] == _REFUSED:
                    raise InputError(said[1])
                elif said[0] == _DONE:
                    ready.send(waiting.popleft() if waiting else None)
                elif bar is not None:
                    getattr(bar, said[0])(said[1])
    finally:
        for process in running.values():
            process.terminate()


def _said(connection: Connection) -> tuple[str, Any] | None:
    """What a process has to say; None once it has said all."""
    try:
        said: tuple[str, Any] = connection.recv()
    except EOFError:
        return None
    return said


def _check_end(process: BaseProcess, jobs: int) -> None:
    process.join()
    if process.exitcode:
        raise InputError(
            f"--jobs {jobs}: a training process ended with code {process.exitcode}, as it does "
            "where memory runs out; the same command with --jobs 1 goes on from the last saved "
            "state"
        )


class _Relay(Places):
    """Sends to the bar of the process that waits what this one would show."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def advanced(self, seed_steps: int) -> None:
        self._send("advanced", seed_steps)

    def at(self, place: str) -> None:
        self._send("at", place)

    def _send(self, name: str, value: Any) -> None:
        self._connection.send((name, value))


def _work(connection: Connection, threads: int) -> None:
    """Train one group after the other, as they come."""
    import torch

    # Ctrl-C reaches every process of a terminal; the one that waits ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        while (group := connection.recv()) is not None:
            _train(group, [_Relay(connection)])
            connection.send((_DONE, None))
    except InputError as error:
        connection.send((_REFUSED, str(error)))
    except (BrokenPipeError, EOFError):
        return  # nobody waits any more
    finally:
        connection.close()


def _train(group: Group, listeners: Sequence[Listener]) -> None:
    from gmb_hf.protocols.sequential import train_group
    from gmb_hf.protocols.tracking import Tracking

    folder = SequentialFolder(group.folder)
    hearing = list(listeners)
    if group.trackers:
        hearing.append(Tracking(group.trackers, folder.path, cpu=group.device == "cpu"))
    train_group(
        group.config,
        group.variant,
        group.seeds,
        folder,
        listener=Together(hearing),
        device=group.device,
        save_models=group.save_models,
    )
