"""T10: what `gmb evaluate --lock` costs on a panel of 256 runs and 40 scores.

The panel is made up, so that nothing is trained. Both sides of the comparison say the same of every
member of the robustness family: the command, which asks each run once, and a judgement of the
member's runs alone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.commands import GMB
from benchmarks.harness import Line, timed
from benchmarks.laws import CADENCE, LAWS, draws, noise, raised
from gmb_hf.benchmark.judgement import Judgement, Locked
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.prepare import prepare
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.robustness import member, run_groups
from gmb_hf.benchmark.scores import Scores
from gmb_hf.design.design import Design
from gmb_hf.design.lock import Lock
from gmb_hf.runs.runlog import RunLog

EXPLORE, HELD_OUT, CHECKPOINTS, SCORES = 136, 256, 251, 40
COMPARED = 10  # every so manieth score is judged member by member
PLAIN, DRAWN = 8, 20  # seconds, without figures and with them


def panel(n_runs: int, seed: int, prefix: str) -> RunLog:
    """Runs whose metric jumps at t*, with scores by every law, every other one raised before t*."""
    rng, laws = np.random.default_rng([36, seed]), list(LAWS.values())
    base = noise(LAWS["autocorrelated"], n_runs, CHECKPOINTS, rng, prefix)
    columns = {"test_acc": (base.steps >= base.event_step[:, None]).astype(np.float64)}
    for number in range(SCORES):
        law = laws[number % len(laws)]
        scores = replace(base, values=draws(law, n_runs, CHECKPOINTS, rng))
        shown = raised(scores, 8.0, over=10 * CADENCE) if number % 2 else scores
        columns[f"score_{number:02}"] = shown.values
    return RunLog.from_arrays(base.runs, base.steps[0], columns)


def design() -> Design:
    """Every column but the metric is a candidate."""
    names = [f"score_{number:02}" for number in range(SCORES)]
    return Design.minimal(
        horizon=200,
        safe_gap=400,
        w_event=CADENCE,
        burn_in=200,
        smoothing_sweep=[1, 3, 5],
        undeclared=["task", "model", "optimizer", "schedule", "seeds_explore", "seeds_eval"],
        candidates=[{"name": name, "family": "external", "x_sign": 1} for name in names],
    )


def one_by_one(judgement: Judgement) -> Iterator[tuple[str, bool]]:
    """Whether each member passes, as a judgement of its runs alone says it."""
    fixed, groups = judgement.design, run_groups(HELD_OUT, judgement.design.run_groups)
    for horizon in (round(fixed.horizon * factor) for factor in (0.8, 1.0, 1.25)):
        lead = fixed.lead_least * min(horizon / fixed.horizon, 1)
        changed = fixed.model_copy(update={"horizon": horizon, "lead_time_median_min": lead})
        for smooth in fixed.smoothing_sweep:
            one = judgement.smoothed(smooth)
            for group in range(fixed.run_groups):
                kept: Scores = one.evaluation.select(np.flatnonzero(groups != group))
                alone = Judgement(kept, Locked({1: one.calibrated.deployed}), changed)
                name = f"horizon={horizon},smooth={smooth},without={group}"
                yield name, member(name, alone).passes


def t10() -> Line:
    """The command without figures and with them; members pass as each by itself does."""
    with tempfile.TemporaryDirectory() as folder:
        lock, log, out = (Path(folder) / name for name in ("lock.yaml", "log.parquet", "out"))
        panel(HELD_OUT, 1, "held_out").write(log)
        make_lock(design(), panel(EXPLORE, 0, "explore"))[0].write(lock)
        command = [GMB, "evaluate", "--lock", str(lock), "--runs", str(log), "--out", str(out)]
        plain, _ = timed([*command, "--no-figures"])
        drawn, peak = timed(command)
        results = Results.read(out / "results.yaml")
        prepared = prepare(log, Lock.read(lock))
    equal, members = True, 0
    for entry in prepared.entries[::COMPARED]:
        layer = results.indicator(entry.name).layer_D
        found = {one.name: one.passes for one in layer.x_members}
        equal &= found == dict(one_by_one(prepared.judgement(entry)))
        members += len(found)
    labels = [item.label for item in results.indicators]
    details = [
        f"with figures and report {drawn:.1f} s (target <= {DRAWN} s), peak memory {peak:.2f} GB",
        f"{len(labels)} scores of {HELD_OUT} runs x {CHECKPOINTS}, {len(set(labels))} labels",
        f"{members} members judged by their runs alone: "
        + ("equal results" if equal else "WRONG, the results differ"),
    ]
    passed = plain <= PLAIN and drawn <= DRAWN and equal
    return Line("T10", f"{plain:.1f} s", f"<= {PLAIN} s", passed, details)


if __name__ == "__main__":
    line = t10()
    print(line)
    sys.exit(not line.passed)
