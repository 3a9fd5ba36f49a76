"""Trainings that die: by an exception of their listener, or by SIGKILL at a chosen moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import gmb_hf.files
from gmb_hf.training import stacked
from gmb_hf.training.config import RunConfig
from gmb_hf.training.progress import Silent


class Interrupted(BaseException):
    """What a listener raises in place of Ctrl-C."""


class Counting(Silent):
    """Counts its calls and does something at one of them."""

    def __init__(self, call: str, number: int, action: Callable[[], None]) -> None:
        self.heard = {"advanced": 0, "measured": 0}
        self.at, self.action = (call, number), action

    def advanced(self, seed_steps):
        """Count a step."""
        self._count("advanced")

    def measured(self, seeds, train_acc, test_acc):
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
    stacked.SAVE_EVERY_SECONDS = -1.0
    kind, *rest = moment.split()
    listener = Silent()
    if kind in ("step", "checkpoint"):
        call = "advanced" if kind == "step" else "measured"
        listener = Counting(call, int(rest[0]), die)
    elif moment == "log in place":
        write_log = stacked.write_log

        def write_and_die(*arguments):
            write_log(*arguments)
            die()

        stacked.write_log = write_and_die
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

        gmb_hf.files.os.replace = replace_or_die
    stacked.train(config, seeds, out, listener=listener)


def killed_training(config: RunConfig, seeds: Sequence[int], out: Path, moment: str) -> int:
    """Run `train_and_die` in another process; its exit code, -9 when it was killed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gmb_hf.training.stacked", "interruptions"])
    process = context.Process(target=train_and_die, args=(config, seeds, out, moment))
    process.start()
    process.join(timeout=120)
    assert process.exitcode is not None, "the training neither ended nor died"
    return process.exitcode
