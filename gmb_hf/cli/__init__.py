"""The command `gmb`: parse, call, print; the logic is below.

Exit codes: 0 done, 1 a check that was asked for failed, 2 bad input, 3 `gmb monitor` saw an alarm,
70 a defect of this package, 130 interrupted, 141 nobody reads what is printed, 143 stopped
(SIGTERM).
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
import threading
from collections.abc import Sequence

import gmb_hf.training  # noqa: F401  says how threads wait, before a command loads torch

_INTERRUPTED, _STOPPED = 128 + signal.SIGINT, 128 + signal.SIGTERM
_DEFECT, _UNREAD = 70, 141
_LONGEST = 1_500  # characters of an error
_NARROWEST, _WIDEST = 36, 100  # of help


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `gmb` with the given arguments (those of the process by default); the exit code."""
    from gmb_hf.cli import output
    from gmb_hf.cli.app import typed_name

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
    os.environ["MPLBACKEND"] = "agg"  # figures go to files; another may not exist or need a screen
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # what fails is said in one line, at the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # of a few characters, such as that of a pipe
            stream.reconfigure(errors="replace")


def _run(words: Sequence[str]) -> int:
    from gmb_hf.cli import output
    from gmb_hf.cli.app import command
    from gmb_hf.errors import CheckFailed, InputError
    from gmb_hf.extras import needing

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
    from gmb_hf.cli import output
    from gmb_hf.escape import one_line

    if len(message) > _LONGEST:  # it quotes a cell as long as a file
        message = f"{message[: _LONGEST // 2]} [...] {message[-_LONGEST // 2 :]}"
    message = one_line(message)
    output.current().failure = message.removeprefix("error: ").removeprefix("no: ")
    print(message, file=sys.stderr)
    return code
