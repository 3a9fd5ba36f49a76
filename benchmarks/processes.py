"""T7: two processes of one thread each against one, the same seeds."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness import Line, timed

SCRIPT = Path(__file__).parent.parent / "trainers" / "train_grokking.py"
SEEDS = 32
TOLERANCE = 1e-3


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


def _train(out: Path, processes: int) -> float:
    # Groups of as many seeds on both sides; compiled steps would be timed with their compiling.
    settings = [f"training.seeds_at_once={SEEDS // 2}", "training.compile=never"]
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *(f"--nproc_per_node={processes}", str(SCRIPT), "--cpu", "--preset", "quick"),
        *(part for setting in settings for part in ("--set", setting)),
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
