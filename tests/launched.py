"""Scripts and functions in processes of their own, several of which may know of each other.

The processes are forked from a server that has imported torch once, so each starts at once.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Done:
    """How a script ended: the worst exit code of its processes, and all that they said."""

    returncode: int
    stdout: str
    stderr: str


def run(script: Path, *arguments: object, processes: int = 1, **environment: str) -> Done:
    """Run a script as `python SCRIPT ARGUMENT...` does, or as torchrun does in several processes.

    Args:
        script: the script.
        arguments: its arguments.
        processes: how many know of each other.
        environment: variables that are set as well.
    """
    words = [str(script), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as name:
        out, err = (Path(name) / stream for stream in ("out", "err"))
        codes = together(_run, environment, words, out, err, processes=processes)
        return Done(
            max(codes, key=abs), out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")
        )


def _run(
    launch: Mapping[str, str],
    environment: Mapping[str, str],
    words: Sequence[str],
    out: Path,
    err: Path,
) -> None:
    os.environ.update({**launch, **environment})
    speaking_to(out, err)
    os.chdir(ROOT)
    sys.argv = list(words)
    runpy.run_path(words[0], run_name="__main__")


def speaking_to(out: Path, err: Path) -> None:
    """Let this process print to files."""
    for stream, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)


def together(target: Callable[..., None], *arguments: Any, processes: int) -> list[int]:
    """Run `target(environment, *arguments)` in processes that know of each other; exit codes."""
    shared = {}
    if processes > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]
    places = [{**shared, **rank} for rank in ranks] if shared else [{}]
    running = [started(target, place, *arguments) for place in places]
    return [exit_code(process) for process in running]


def started(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """A process that runs `target(*arguments)`, with the environment and the paths of this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gmb_hf.training.seeds"])
    process = context.Process(target=_begin, args=(dict(os.environ), target, arguments))
    process.start()
    return process


def _begin(
    environment: dict[str, str], target: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    os.environ.clear()
    os.environ.update({**environment, "OMP_NUM_THREADS": "1"})
    target(*arguments)


def exit_code(process: BaseProcess) -> int:
    """The exit code of a process once it has ended, -9 when it was killed."""
    process.join(timeout=120)
    assert process.exitcode is not None, "the process neither ended nor died"
    return process.exitcode
