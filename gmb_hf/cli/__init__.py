"""The command `gmb`: its tree of commands; parse, call, print. The logic is below.

The module of a command is imported when the command is typed.

Exit codes: 0 done, 1 a check that was asked for failed, 2 bad input, 3 `gmb monitor` saw an alarm,
4 it abstained to the end of the run, 70 a defect of this package, 130 interrupted, 141 nobody reads
what is printed, 143 stopped (SIGTERM).
"""

from __future__ import annotations

import functools
import io
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from gmb_hf._version import __version__
from gmb_hf.base.errors import CheckFailed, InputError
from gmb_hf.base.escape import one_line
from gmb_hf.base.extras import needing
from gmb_hf.cli import output
from gmb_hf.cli.options import App, Quiet, Verbose

_INTERRUPTED, _STOPPED = 128 + signal.SIGINT, 128 + signal.SIGTERM
_DEFECT, _UNREAD = 70, 141
_LONGEST = 1_500  # characters of an error
_NARROWEST, _WIDEST = 36, 100  # of help


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `gmb` with the given arguments (those of the process by default); the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        _settle()
    now = output.begin(typed_name(words))
    try:
        code = _run(words)
        now.end(code)
        sys.stdout.flush()
    except BrokenPipeError:  # such as that of `gmb indicators | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left to flush
        return _UNREAD
    return code


def _settle() -> None:
    """What a process of its own needs: figures without a window, silence, any text anywhere."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # see gmb_hf.training: before torch
    os.environ["MPLBACKEND"] = "agg"  # figures go to files; another may not exist or need a screen
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # what fails is said in one line, at the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # of a few characters, such as that of a pipe
            stream.reconfigure(errors="replace")


def _run(words: Sequence[str]) -> int:

    ended, end = "interrupted", _INTERRUPTED

    def stop(*_: object) -> None:
        """SIGTERM ends a command as Ctrl-C does; only once, so that it can clean up."""
        nonlocal ended, end
        ended, end = "stopped", _STOPPED
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    own = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, stop) if own else None
    width = min(max(shutil.get_terminal_size().columns - 2, _NARROWEST), _WIDEST)
    typed = {"args": words, "prog_name": "gmb", "terminal_width": width}
    try:
        with needing(output.current().command):
            code = command(words)(**typed, standalone_mode=False)
    except InputError as error:
        return _fail(f"error: {error}", 2)
    except CheckFailed as error:
        return _fail(f"no: {error}", 1)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"error: {place}{error.strerror or error}", 2)
    except Exception as error:  # what the parser of the command line has to say
        describe = getattr(error, "format_message", None)  # its classes are not public
        if describe is None:
            if output.current().verbose:
                raise
            what = f"{type(error).__name__}: {error}"
            return _fail(f"error: a defect of gmb-hf, {what}; gmb -v shows where", _DEFECT)
        message = describe()
        if type(error).__name__ == "NoArgsIsHelpError":  # a bare `gmb`: the message is its help
            print(message)
            return 2
        context, missing = getattr(error, "ctx", None), getattr(error, "param", None)
        if message.startswith("Missing option '--out'") and missing and missing.metavar:
            message = f"Missing option '--out', e.g. --out {missing.metavar}."
        if message.startswith("Missing option '--runs'"):
            known = {*_COMMANDS, *_GROUPS, *getattr(context, "command_path", "").split()}
            logs = next((word for word in words if word[0] != "-" and word not in known), "my")
            message = f"Missing option '--runs', e.g. --runs {shlex.quote(logs)}."
        typed_so_far = context.command_path if context is not None else "gmb"
        dot = "" if message.endswith((".", "?")) else "."
        return _fail(f"error: {message}{dot} See {typed_so_far} --help.", 2)
    finally:
        if own:
            signal.signal(signal.SIGTERM, before)
    if code == _INTERRUPTED:  # the parser turns Ctrl-C into this code and says nothing
        message = f"{ended}; nothing finished is lost, the same command goes on from there"
        return _fail(message, end)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:

    if len(message) > _LONGEST:  # it quotes a cell as long as a file
        message = f"{message[: _LONGEST // 2]} [...] {message[-_LONGEST // 2 :]}"
    message = one_line(message)
    output.current().failure = message.removeprefix("error: ").removeprefix("no: ")
    print(message, file=sys.stderr)
    return code


# The tree of commands.

_HELP = """May an early-warning score of a training run be trusted as an alarm?

Start with `gmb run --preset quick --out runs/quick`, or judge a column of your own logs:
`gmb evaluate --runs 'my/*.csv' --score COL --metric COL --horizon H --safe-gap G`."""

# Name -> its function, and the class of its parser if it has one of its own.
_COMMANDS: dict[str, tuple[str, str | None]] = {
    "run": ("run.run", "run.RunCommand"),
    "train": ("run.train", None),
    "indicators": ("catalogue.indicators", None),
    "plan": ("design.plan", "design.PlanCommand"),
    "explore": ("design.explore", "options.DesignCommand"),
    "lock": ("design.lock", "options.DesignCommand"),
    "evaluate": ("evaluate.evaluate", "options.DesignCommand"),
    "decide": ("decide.decide", "decide.DecideCommand"),
    "trial": ("panel.trial", None),
    "submit": ("panel.submit", "panel.SubmitCommand"),
    "demo": ("panel.demo", None),
    "report": ("evaluate.report", None),
    "audit": ("runs.audit", "runs.LogsCommand"),
    "monitor": ("monitor.monitor", None),
    "heldout": ("language.heldout", "language.HeldoutCommand"),
    "benchmark": ("language.benchmark", "language.BenchmarkCommand"),
    "generalization": ("sequential.generalization", None),
}
# Name -> its commands, and what they are about.
_GROUPS = {
    "crucible": ("crucible.app", "Are the hardest known cases still ranked?"),
    "sequential": ("sequential.app", "Does it remember? Tasks in turn."),
    "icl": ("sequential.icl", "Does it learn from its prompt? In-context probes."),
    "scaling": ("language.app", "How does loss fall with size and data?"),
    "data": ("data.app", "Datasets: build, verify, export; tokenizers."),
    "runs": ("runs.app", "Anybody's logs to one table, and a look at them."),
    "panel": ("panel.app", "Frozen runs on which scores are compared."),
    "leaderboard": ("panel.leaderboard", "Submissions on panels: checked, and as a site."),
    "score": ("score.app", "Pretrained scores: fitted elsewhere, calibrated on your runs."),
    "judge": ("language.judging", "Answers of checkpoints, rated by a model."),
    "model": ("run.app", "Models: made anew, and pushed to the Hub."),
    "metrics": ("catalogue.app", "Metrics as `evaluate` modules."),
    "prereg": ("design.app", "Begin a preregistration."),
    "results": ("evaluate.app", "Check results files, and compare two."),
}


def build(only: str | None = None) -> typer.Typer:
    """The application, with all its commands or with one of them."""
    app = App(name="gmb", help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})

    @app.callback(invoke_without_command=True)
    def _root(
        version: bool = typer.Option(False, "--version", help="Show the version and stop."),
        quiet: Quiet = False,
        verbose: Verbose = 0,
    ) -> None:
        if version:
            print(f"gmb-hf {__version__}")
            raise typer.Exit

    for name, (function, parser) in _COMMANDS.items():
        if only in (None, name):
            app.command(name, cls=_load(parser) if parser else None)(_load(function))
    for name, (commands, about) in _GROUPS.items():
        if only in (None, name):
            app.add_typer(_load(commands), name=name, help=about)
    return app


def _load(place: str) -> Any:
    module, _, name = place.partition(".")
    return getattr(import_module(f"gmb_hf.cli.{module}"), name)


def command(words: Sequence[str]) -> Any:
    """The parser of a command line.

    Building it takes longer than most commands, so that of a known command has no others in it.
    """
    first = next((word for word in words if not word.startswith("-")), None)
    return _parser(first if first in _COMMANDS or first in _GROUPS else None)


@functools.cache
def _parser(only: str | None) -> Any:
    return typer.main.get_command(build(only))


def typed_name(words: Sequence[str]) -> str:
    """The command of a command line, e.g. `gmb crucible score`."""
    names = [word for word in words if not word.startswith("-")]
    depth = 2 if names and names[0] in _GROUPS else 1
    return " ".join(["gmb", *names[:depth]])
