"""Measure the targets that are named, or all of them: one line each, then its figures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from benchmarks import (
    attacks,
    commands,
    evaluating,
    first_alarm,
    gates,
    judging,
    observing,
    processes,
    ranking,
    scaling,
    signals,
    steps,
    truths,
    watching,
)
from benchmarks.harness import Line

TARGETS: dict[str, Callable[[], Line]] = {
    "T1": steps.t1,
    "T1v": steps.t1v,
    "T2": steps.t2,
    "T3": commands.t3,
    "T3b": commands.t3b,
    "T4": judging.t4,
    "T5": judging.t5,
    "T5b": judging.t5b,
    "T6": ranking.t6,
    "T7": processes.t7,
    "T7b": processes.t7b,
    "T8": commands.t8,
    "T9": commands.t9,
    "T10": evaluating.t10,
    "M1": watching.m1,
    "O1": observing.o1,
    "T13": signals.t13,
    "V1": truths.v1,
    "F1": first_alarm.f1,
    "G1": gates.g1,
    "G2": gates.g2,
    "G3": gates.g3,
    "L1": scaling.l1,
    "attacks": attacks.table,
}


def main(names: list[str]) -> int:
    """Measure; 0 if every target was reached."""
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        print(f"error: unknown target {unknown[0]!r}; known: {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    passed = True
    for name in names or list(TARGETS):
        try:
            line = TARGETS[name]()
        except (RuntimeError, subprocess.CalledProcessError) as error:
            output = getattr(error, "stderr", None) or error
            line = Line(name, "WRONG", "-", passed=False, details=str(output)[-800:].splitlines())
        print(line, flush=True)
        passed &= line.passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
