"""Trainings in processes of their own: some are killed at a chosen moment, some work together."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from launched import exit_code as ended
from launched import started, together

import gmb_hf.base.files
from gmb_hf.training import launch as processes
from gmb_hf.training import seeds as training
from gmb_hf.training.config import RunConfig
from gmb_hf.training.launch import Listener


class Interrupted(BaseException):
    """What a listener raises in place of Ctrl-C."""


class Counting(Listener):
    """Counts its calls and does something at one of them."""

    def __init__(self, call: str, number: int, action: Callable[[], None]) -> None:
        self.heard = {"advanced": 0, "measured": 0}
        self.at, self.action = (call, number), action

    def advanced(self, units):
        """Count a step."""
        self._count("advanced")

    def measured(self, seeds, found):
        """Count a checkpoint."""
        self._count("measured")

    def _count(self, call):
        self.heard[call] += 1
        if (call, self.heard[call]) == self.at:
            self.action()


def interrupting(call: str, number: int) -> Counting:
    """A listener that raises `Interrupted` at its call of that name and number."""

    def stop():
        raise Interrupted

    return Counting(call, number, stop)


def die() -> None:
    """End this process as nothing can prevent."""
    os.kill(os.getpid(), signal.SIGKILL)


def train_and_die(config: RunConfig, seeds: Sequence[int], out: Path, moment: str) -> None:
    """Train with a state saved at each checkpoint, and be killed at `moment`; runs in a child.

    Moments: "step 7", "checkpoint 3", "state 2 written" and "log written" (complete, but not yet
    in its place), "log in place" (the state not yet dropped).
    """
    torch.set_num_threads(1)
    training.SAVE_EVERY_SECONDS = -1.0
    kind, *rest = moment.split()
    listener = Listener()
    if kind in ("step", "checkpoint"):
        call = "advanced" if kind == "step" else "measured"
        listener = Counting(call, int(rest[0]), die)
    elif moment == "log in place":
        write_log = training.write_log

        def write_and_die(*arguments):
            write_log(*arguments)
            die()

        training.write_log = write_and_die
    else:
        suffix = ".safetensors" if kind == "state" else ".parquet"
        left = int(rest[0]) if kind == "state" else 1
        replace = os.replace

        def replace_or_die(source, target):
            nonlocal left
            left -= Path(target).suffix == suffix
            if left == 0 and Path(target).suffix == suffix:
                die()
            replace(source, target)

        gmb_hf.base.files.os.replace = replace_or_die
    training.train_stacked(config, seeds, out, listener=listener)


def killed_training(config: RunConfig, seeds: Sequence[int], out: Path, moment: str) -> int:
    """Run `train_and_die` in another process; its exit code, -9 when it was killed."""
    return ended(started(train_and_die, config, seeds, out, moment))


def train_data_parallel(
    environment: Mapping[str, str], config: RunConfig, seeds: Sequence[int], out: Path
) -> None:
    """Train with the single engine as one of several processes; runs in a child."""
    os.environ.update(environment)
    torch.set_num_threads(1)
    accelerator = processes.make_accelerator(cpu=True)
    assert accelerator.num_processes == int(environment["WORLD_SIZE"])
    training.train_single(config, seeds, out, accelerator=accelerator)


def data_parallel_training(
    config: RunConfig, seeds: Sequence[int], out: Path, processes: int
) -> list[int]:
    """Run `train_data_parallel` in so many processes; their exit codes."""
    return together(train_data_parallel, config, seeds, out, processes=processes)
