"""Scripts and functions in processes of their own, several of which may know of each other.

The processes are forked from a server that is itself forked from this process when it has collected
its tests: each starts at once, with all that was imported, and torch is imported no second time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
PRELOADED = ["gmb_hf.training.seeds", "gmb_hf.hub.sources"]


def begin_server() -> None:
    """Fork the server, before any test has begun threads; without it a slow one is started."""
    if sys.platform == "linux":
        resource_tracker.ensure_running()
        multiprocessing.set_forkserver_preload(PRELOADED)
        with mock.patch("multiprocessing.util.spawnv_passfds", _forked):
            forkserver.ensure_running()


def _forked(program: str, words: Sequence[str], kept: Sequence[int]) -> int:
    """As `multiprocessing.util.spawnv_passfds`, of what Python would run after `-c`."""
    process = os.fork()
    if process:
        return process
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in [int(name) for name in os.listdir("/proc/self/fd")]:
            if number not in (0, 1, 2, nothing, *kept):
                os.dup2(nothing, number)  # none is free for what some object takes for its own
        exec(words[-1], {})
    finally:
        os._exit(0)


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


def run_code(
    code: str,
    *arguments: object,
    package: Path | None,
    folder: Path,
    others: Sequence[Path] = (),
    **environment: str,
) -> Done:
    """Run code as a process does that has imported the libraries, but nothing of this package.

    Args:
        code: what would be given after `python -c`.
        arguments: its arguments.
        package: the folder in which it finds the package; None: it is not installed.
        folder: where it runs.
        others: folders of further packages.
        environment: variables that are set as well; libraries may have read theirs before.
    """
    with tempfile.TemporaryDirectory() as name:
        out, err = (Path(name) / stream for stream in ("out", "err"))
        words, others = ["-c", *map(str, arguments)], [*map(str, others)]
        process = started(_run_code, environment, code, words, package, others, folder, out, err)
        ended = exit_code(process)
        return Done(ended, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def _run_code(
    environment: Mapping[str, str],
    code: str,
    words: Sequence[str],
    package: Path | None,
    others: Sequence[str],
    folder: Path,
    out: Path,
    err: Path,
) -> None:
    os.environ.update(environment)
    speaking_to(out, err)
    os.chdir(folder)
    sys.argv = list(words)
    _forget_the_package()
    sys.path[:0] = others
    if package is None:
        sys.modules["gmb_hf"] = None  # type: ignore[assignment]
    else:
        sys.path.insert(0, str(package))
    exec(code, {"__name__": "__main__"})


def _forget_the_package() -> None:
    """Nothing of it is imported, and transformers knows none of its models."""
    from transformers.models.auto import configuration_auto, modeling_auto, tokenization_auto

    for module in (configuration_auto, modeling_auto, tokenization_auto):
        for mapping in vars(module).values():
            with contextlib.suppress(AttributeError):
                mapping._extra_content.clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "gmb_hf"]:
        del sys.modules[name]


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
    context.set_forkserver_preload(PRELOADED)
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
