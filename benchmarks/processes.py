"""T7 and T7b: two processes of one thread each against one process, the same seeds.

`python -m benchmarks.processes OUT/JOBS` trains a side of T7b and prints its seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Line, side, timed

SCRIPT = Path(__file__).parent.parent / "trainers" / "train_grokking.py"
SEEDS = 32
TOLERANCE = 1e-3
STEPS = 50
BESIDE = 1.2
"""With other work on one core two processes are to be so many times as fast as two threads."""


def t7() -> Line:
    """Whole launches of the trainer, starting and importing included."""
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder) / "one", Path(folder) / "two"
        alone, shared = _train(one, 1), _train(two, 2)
        difference = _largest_difference(one, two)
    ratio = alone / shared
    details = [
        f"{alone:.1f} s against {shared:.1f} s for {SEEDS} seeds of quick, one thread a process; "
        f"losses over the first 500 steps equal to {difference:.1e} relative"
    ]
    passed = ratio >= 1.7 and difference <= TOLERANCE
    return Line("T7", f"{ratio:.2f}x", ">= 1.7x", passed, details)


def t7b() -> Line:
    """`gmb train --jobs 2` against `--jobs 1` with two threads, alone and beside other work.

    Only the training is timed, not its start; the other work spins on one of the two cores.
    """
    details, worst, beside = [], 0.0, 0.0
    for where in ("alone", "beside other work on one core"):
        with tempfile.TemporaryDirectory() as folder, _other_work(where != "alone"):
            outs = [Path(folder) / jobs for jobs in ("1", "2")]
            threads, processes = (side("processes", str(out))["seconds"] for out in outs)
            worst = max(worst, _largest_difference(*outs))
        beside = threads / processes
        details.append(
            f"{where}: two processes {1e3 * processes:.2f} ms a seed and step, two threads "
            f"{1e3 * threads:.2f} ms, {beside:.2f}x"
        )
    details.append(f"losses over {STEPS} steps equal to {worst:.1e} relative")
    passed = beside >= BESIDE and worst <= TOLERANCE
    return Line("T7b", f"{beside:.2f}x", f">= {BESIDE:g}x", passed, details)


@contextmanager
def _other_work(wanted: bool) -> Iterator[None]:
    """Something that never waits, on one of the cores of this process."""
    if not wanted:
        yield
        return
    core = max(os.sched_getaffinity(0))
    spin = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"
    other = subprocess.Popen([sys.executable, "-c", spin])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def _train_side(out: Path) -> dict[str, Any]:
    """Seconds a seed and step, from the first step that is heard of to the last."""
    import torch

    from gmb_hf.training.launch import Listener
    from gmb_hf.training.presets import preset
    from gmb_hf.training.seeds import train_stacked

    class Clock(Listener):
        heard: list[tuple[float, int]]

        def __init__(self) -> None:
            self.heard = []

        def advanced(self, units: int) -> None:
            self.heard.append((time.perf_counter(), units))

    torch.set_num_threads(2)
    clock = Clock()
    settings = [*_SETTINGS, f"training.steps={STEPS}"]
    train_stacked(
        preset("quick").changed(settings), range(SEEDS), out, listener=clock, jobs=int(out.name)
    )
    (first, _), *others = clock.heard
    return {"seconds": (others[-1][0] - first) / sum(units for _, units in others)}


# Groups of as many seeds on both sides; compiled steps would be timed with their compiling.
_SETTINGS = (f"training.seeds_at_once={SEEDS // 2}", "training.compile=never")


def _train(out: Path, processes: int) -> float:
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *(f"--nproc_per_node={processes}", str(SCRIPT), "--cpu", "--preset", "quick"),
        *(part for setting in _SETTINGS for part in ("--set", setting)),
        *("--seeds", f"0:{SEEDS}", "--out", str(out)),
    ]
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        return timed(command)[0]
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _largest_difference(one: Path, two: Path) -> float:
    """Between the training losses of the two logs; long runs part by rounding alone."""
    from gmb_hf.runs.runlog import RunLog

    first, second = (RunLog.read(out / "logs") for out in (one, two))
    if first.runs != second.runs:
        return float("inf")
    panels = [log.panel("train_loss") for log in (first, second)]
    early = panels[0].steps[0] <= 500
    a, b = (panel.values[:, early] for panel in panels)
    return float(np.max(np.abs(a - b) / np.abs(a)))


if __name__ == "__main__":
    print(json.dumps(_train_side(Path(sys.argv[1]))))
