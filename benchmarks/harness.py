"""Run a side of a comparison in its own process, and print a target's line."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """The outcome of one target.

    Attributes:
        target: its name, e.g. "T1".
        value: what was measured, formatted.
        goal: what it is held against.
        passed: whether it was reached; False also when the two sides differ.
        details: the figures below the line.
    """

    target: str
    value: str
    goal: str
    passed: bool
    details: Sequence[str] = ()

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "MISSED"
        head = f"{self.target:<4} {self.value:>10}  target {self.goal:<10} {verdict}"
        return "\n".join([head, *(f"       {detail}" for detail in self.details)])


def side(module: str, *arguments: str) -> dict[str, Any]:
    """Run `python -m benchmarks.module arguments` and read the JSON of its last line."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def timed(command: Sequence[str]) -> tuple[float, float]:
    """Wall-clock seconds and peak memory (GB, of the largest process) of a command.

    Raises:
        RuntimeError: the command failed; the end of what it printed is in the message.
    """
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(list(command), stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            output.seek(0)
            raise RuntimeError(
                f"{' '.join(command)} exited {child.returncode}: {output.read()[-800:]}"
            )
    return seconds, usage.ru_maxrss / 1024**2


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)
