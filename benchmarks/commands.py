"""T3, T3b, T8 and T9: whole commands, timed from outside."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Line, median, timed

GMB = str(Path(sys.executable).parent / "gmb")


def t3() -> Line:
    """`gmb run --preset quick` in an empty folder."""
    return _main_job("T3", "quick", seconds=180, gigabytes=2.0)


def t3b() -> Line:
    """`gmb run --preset standard` in an empty folder."""
    return _main_job("T3b", "standard", seconds=720, gigabytes=6.0)


def t8() -> Line:
    """`import gmb_hf` and `gmb --help`, medians of 7."""
    bare = _median_seconds([sys.executable, "-c", "pass"])
    package = _median_seconds([sys.executable, "-c", "import gmb_hf"])
    command = _median_seconds([GMB, "--help"])
    passed = package < 0.3 and command < 0.6
    details = [f"python alone {bare:.2f} s, import gmb_hf {package:.2f} s (target < 0.3 s)"]
    return Line("T8", f"{command:.2f} s", "< 0.6 s", passed, details)


def t9() -> Line:
    """The whole test command."""
    root = Path(__file__).parent.parent
    seconds, _ = timed(["make", "--directory", str(root), "test"])
    return Line("T9", f"{seconds:.0f} s", "<= 480 s", seconds <= 480)


def _main_job(target: str, preset: str, *, seconds: float, gigabytes: float) -> Line:
    from gmb_hf.benchmark.results import Results

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / preset
        spent, peak = timed([GMB, "run", "--preset", preset, "--out", str(out)])
        results = Results.read(out / "results.yaml")
    calibration = results.x_calibration
    explored = (calibration.n_runs or 0) if calibration is not None else 0
    events = results.summary.n_events
    enough = explored >= 19 and events >= 30
    passed = spent <= seconds and peak <= gigabytes and enough
    details = [
        f"peak memory {peak:.2f} GB (target <= {gigabytes:g} GB); {explored} explore runs with "
        f"negatives (>= 19), {events} held-out events (>= 30)"
    ]
    return Line(target, f"{spent:.0f} s", f"<= {seconds:g} s", passed, details)


def _median_seconds(command: list[str]) -> float:
    spent = []
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        spent.append(time.perf_counter() - start)
    return median(spent)
