"""Scripts and functions in processes of their own, several of which may know of each other.

The processes are forked from a server that is itself forked from this process when it has collected
its tests: each starts at once, with all that was imported, and torch is imported no second time.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import runpy
import signal
import socket
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
PRELOADED = ["gmb_hf.training.seeds", "gmb_hf.hub.sources"]
_SERVER: list[socket.socket] = []  # where it is asked, once it has begun


def begin_server() -> None:
    """Fork the server, before any test has begun threads; it ends with this process."""
    asked, requests = socket.socketpair()
    with warnings.catch_warnings():
        # From 3.12 on. The threads of this moment, of pytest and of the Hub's stub, hold nothing.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        _fork(_serve, asked, requests)
    requests.close()
    _SERVER[:] = [asked]


def _serve(asked: socket.socket, requests: socket.socket) -> None:
    """Fork a process for each socket that is sent, until nobody is left who could send one."""
    asked.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in [int(name) for name in os.listdir("/dev/fd")]:
        if number not in (1, 2, nothing, requests.fileno()):
            os.dup2(nothing, number)  # none is free for what some object takes for its own
    sys.stdin = os.fdopen(nothing, encoding="utf-8")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in PRELOADED:
        with contextlib.suppress(ImportError):  # whoever needs it says so
            importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system buries those that attend
    while sockets := socket.recv_fds(requests, 1, 1)[1]:
        with socket.socket(fileno=sockets[0]) as client:
            _fork(_attend, client, requests)


def _attend(client: socket.socket, requests: socket.socket) -> None:
    """Fork the process, and tell its number and, once it has ended, its exit code."""
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process = _fork(_begin, client)
    with contextlib.suppress(BrokenPipeError):  # the client has ended
        client.sendall(b"%d\n" % process)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        client.sendall(b"%d\n" % code)


def _begin(client: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with client, client.makefile("rb") as sent:
        folder, environment, paths, call = pickle.load(sent)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update({**environment, "OMP_NUM_THREADS": "1"})
        sys.path[:] = paths
        target, arguments = pickle.loads(call)  # which may be found by those paths only
    target(*arguments)


def _fork(body: Callable[..., None], *arguments: Any) -> int:
    """Fork a process that ends as a script does whose text is `body(*arguments)`."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # else both would print what is held back
    process = os.fork()
    if process:
        return process
    code: object = 1
    try:
        body(*arguments)
        code = 0
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code if isinstance(code, int) else 1)


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
    if "gmb_hf.modeling" in sys.modules:
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


@dataclass
class Process:
    """One that the server has forked."""

    pid: int
    ending: IO[str]
    """Where its exit code is told, once it has ended."""
    code: int | None = None

    def kill(self) -> None:
        """End it as nothing can prevent, unless it is known to have ended."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def started(target: Callable[..., None], *arguments: Any) -> Process:
    """A process that runs `target(*arguments)`, with the environment and the paths of this one."""
    call = pickle.dumps((target, arguments))
    here, there = socket.socketpair()
    with here, there:
        here.settimeout(120)
        socket.send_fds(_SERVER[0], [b" "], [there.fileno()])
        there.close()
        here.sendall(pickle.dumps((os.getcwd(), dict(os.environ), sys.path, call)))
        ending = here.makefile(encoding="ascii")  # keeps the socket
    return Process(int(ending.readline()), ending)


def exit_code(process: Process) -> int:
    """The exit code of a process once it has ended, -9 when it was killed."""
    if process.code is None:
        with process.ending:
            try:
                process.code = int(process.ending.readline())
            except TimeoutError:
                raise AssertionError("the process neither ended nor died") from None
    return process.code


def succeed(target: Callable[..., None], *arguments: Any) -> None:
    """Run `target(*arguments)` in a process of its own; what it says is why it fails."""
    code, said = ended(target, *arguments)
    assert code == 0, said


def ended(target: Callable[..., None], *arguments: Any) -> tuple[int, str]:
    """Run `target(*arguments)` in a process of its own: its exit code, and what it said."""
    with tempfile.TemporaryDirectory() as name:
        said = Path(name) / "said"
        code = exit_code(started(_speaking, said, target, arguments))
        return code, said.read_text(encoding="utf-8")


def _speaking(said: Path, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    speaking_to(said, said)
    target(*arguments)


@contextlib.contextmanager
def processes_begin_with_torch() -> Iterator[None]:
    """Processes of a training are forked from this one, which has loaded torch and no threads.

    For a function in a process of its own; a new interpreter loads torch for seconds.
    """
    context = multiprocessing.get_context("fork")
    with mock.patch("multiprocessing.get_context", return_value=context):
        yield
