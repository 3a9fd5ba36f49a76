"""The command `gmb`: parse, call, print; the logic is below.

Exit codes: 0 done, 1 a check that was asked for failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `gmb` with the given arguments (those of the process by default); the exit code."""
    from gmb_hf.cli.app import build
    from gmb_hf.validation import CheckFailed, InputError

    try:
        code = build()(args=arguments, prog_name="gmb", standalone_mode=False)
    except InputError as error:
        return _fail(f"error: {error}", 2)
    except CheckFailed as error:
        return _fail(f"no: {error}", 1)
    except KeyboardInterrupt:
        return _fail("interrupted; the same command goes on from the last saved state", 130)
    except Exception as error:
        # Usage errors of the command-line parser; its classes are not public.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        return _fail(f"error: {' '.join(message().split())} See gmb --help.", 2)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code
