"""The command `gmb`: parse, call, print; the logic is below.

Exit codes: 0 done, 1 a check that was asked for failed, 2 bad input, 3 `gmb monitor` saw an alarm,
130 interrupted, 143 stopped (SIGTERM).
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence

import gmb_hf.training  # noqa: F401  says how threads wait, before a command loads torch

_INTERRUPTED, _STOPPED = 128 + signal.SIGINT, 128 + signal.SIGTERM
_LONGEST = 1_500  # characters of an error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `gmb` with the given arguments (those of the process by default); the exit code."""
    from gmb_hf.cli.app import command, typed_name
    from gmb_hf.errors import CheckFailed, InputError
    from gmb_hf.extras import needing

    words = list(sys.argv[1:] if arguments is None else arguments)
    ended, end = "interrupted", _INTERRUPTED

    def stop(*_: object) -> None:
        """SIGTERM ends a command as Ctrl-C does; only once, so that it can clean up."""
        nonlocal ended, end
        ended, end = "stopped", _STOPPED
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    own = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, stop) if own else None
    try:
        with needing(typed_name(words)):
            code = command(words)(args=words, prog_name="gmb", standalone_mode=False)
    except InputError as error:
        return _fail(f"error: {error}", 2)
    except CheckFailed as error:
        return _fail(f"no: {error}", 1)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"error: {place}{error.strerror or error}", 2)
    except Exception as error:  # what the parser of the command line has to say
        describe = getattr(error, "format_message", None)  # its classes are not public
        if describe is None:
            raise
        message = describe()
        if not message:  # a bare `gmb`, which has shown its help
            return 2
        context, missing = getattr(error, "ctx", None), getattr(error, "param", None)
        if message.startswith("Missing option '--out'") and missing and missing.metavar:
            message = f"Missing option '--out', e.g. --out {missing.metavar}."
        typed = context.command_path if context is not None else "gmb"
        dot = "" if message.endswith((".", "?")) else "."
        return _fail(f"error: {message}{dot} See {typed} --help.", 2)
    finally:
        if own:
            signal.signal(signal.SIGTERM, before)
    if code == _INTERRUPTED:  # the parser turns Ctrl-C into this code and says nothing
        message = f"{ended}; nothing finished is lost, the same command goes on from there"
        return _fail(message, end)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    from gmb_hf.escape import one_line

    if len(message) > _LONGEST:  # it quotes a cell as long as a file
        message = f"{message[: _LONGEST // 2]} [...] {message[-_LONGEST // 2 :]}"
    print(one_line(message), file=sys.stderr)
    return code
