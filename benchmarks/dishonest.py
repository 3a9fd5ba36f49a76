"""What people do to a verdict, knowingly or not: copied runs, cheating scores, repeated looks.

    python -m benchmarks.dishonest copied 40       # one kind: attempts

Each kind counts its attempts, those that were refused, those of the others after which a score was
eligible for an alarm, and faults: an answer that should have been another one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks import gates
from benchmarks.cheats import CHEATS, outcome
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.compat import CompatSettings, reproduce
from gmb_hf.benchmark.evaluate import evaluate_lock, evaluate_runs, judge
from gmb_hf.benchmark.locking import explore, make_lock
from gmb_hf.benchmark.planning import pilot
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.series import verdict
from gmb_hf.design.design import Design
from gmb_hf.design.lock import Lock
from gmb_hf.runs.runlog import RunLog

_RUNS, _LOCKED_RUNS = 24, 40
_FIELDS: Mapping[str, Any] = {
    "metric": "acc",
    "horizon": 200,
    "safe_gap": 300,
    "w_event": 10,
    "burn_in": 20,
    "null_draws": 400,
    "bootstrap_draws": 20,
    "smoothing_sweep": [1, 3],
    "run_groups": 2,
    "event_count_min": 5,
}
_UNDECLARED = ["task", "model", "optimizer", "schedule", "seeds_eval", "seeds_explore"]
DESIGN = Design.minimal(
    **_FIELDS, undeclared=_UNDECLARED, candidates=[{"name": "score", "family": "external"}]
)


@dataclass
class Count:
    """Attempts of one kind, and what became of them."""

    attempts: int = 0
    refused: int = 0
    eligible: int = 0
    faults: int = 0


def log_of(scores: Scores) -> RunLog:
    """Scores as a run log, with a metric that jumps at the event."""
    rows = []
    for row, run in enumerate(scores.runs):
        own = scores.present[row]
        steps = scores.steps[row, own]
        acc = (steps >= scores.event_step[row]).astype(float)  # all 0 without an event
        values = {"run": [run] * len(steps), "step": steps, "acc": acc}
        rows.append(pa.table({**values, "score": scores.values[row, own]}))
    return RunLog.from_table(pa.concat_tables(rows))


def noise(kind: str, runs: int, prefix: str, seed: int) -> RunLog:
    """Runs of a score that knows nothing of the event."""
    rng = np.random.default_rng([45, runs, seed, *prefix.encode()])
    return log_of(gates.NOISE[kind](runs, rng, prefix))


def with_copies(log: RunLog, share: float, way: str, rng: np.random.Generator) -> RunLog:
    """The log with a share of its runs once more, under other names."""
    frame = log.to_pandas()
    frames = []
    chosen = rng.choice(log.runs, size=max(1, round(share * len(log.runs))), replace=False)
    for number, run in enumerate(chosen):
        twin = frame[frame["run"] == run].copy()
        if way == "jittered":
            twin["score"] += 1e-9 * rng.normal(size=len(twin))
        if way == "cut":
            twin = twin.head(round(0.8 * len(twin)))
        frames.append(twin.assign(run=f"other_{number}"))
    if way == "re-ordered":
        names = rng.permutation(len(log.runs) + len(frames))
        whole = pd.concat([*frames, frame])
        known = dict(zip(pd.unique(whole["run"]), names, strict=True))
        return RunLog.read(whole.assign(run=[f"r{known[run]}" for run in whole["run"]]))
    return RunLog.read(pd.concat([frame, *frames]))


def _series(log: RunLog) -> Any:
    panel, acc = log.panel("score"), log.panel("acc")
    lengths = panel.lengths.tolist()
    events = [
        float(acc.steps[row, np.argmax(acc.values[row] > 0)])
        if (acc.values[row] > 0).any()
        else None
        for row in range(panel.n_runs)
    ]
    return verdict(
        [panel.values[row, :n].tolist() for row, n in enumerate(lengths)],
        events,
        steps=[panel.steps[row, :n].tolist() for row, n in enumerate(lengths)],
        horizon=200,
        safe_gap=300,
        null_draws=50,
        bootstrap_draws=10,
    )


def _compat(log: RunLog) -> Any:
    settings = CompatSettings(metric="acc", horizon=200)
    return reproduce(log, [{"name": "score", "family": "external"}], settings).results


Door = Callable[[RunLog, Lock, RunLog], Any]
DOORS: Mapping[str, Door] = {
    "explore": lambda log, lock, other: explore(DESIGN, log),
    "plan": lambda log, lock, other: pilot(DESIGN, log),
    "lock": lambda log, lock, other: make_lock(DESIGN, log),
    "evaluate": lambda log, lock, other: evaluate_runs(DESIGN, log).results,
    "evaluate --lock": lambda log, lock, other: evaluate_lock(lock, log).results,
    "evaluate --explore-runs": lambda log, lock, other: evaluate_runs(DESIGN, other, explore=log),
    "evaluate --protocol v0.4": lambda log, lock, other: (
        evaluate_runs(DESIGN.replace(protocol="v0.4"), log).results
    ),
    "evaluate --protocol compat": lambda log, lock, other: _compat(log),
    "gmb_hf.judge": lambda log, lock, other: judge(log.to_pandas(), score="score", **_FIELDS),
    "gmb_verdict": lambda log, lock, other: _series(log),
}
"""Every way to a number that counts runs."""
WAYS = ("copied", "jittered", "re-ordered", "cut")


def copied(way: str, attempts: int, seed: int = 33) -> Count:
    """Noise panels with 5 to 50% of their runs copied, by each door in turn."""
    count, doors = Count(), list(DOORS.items())
    rng = np.random.default_rng([seed, WAYS.index(way)])
    kinds = [kind for kind in gates.NOISE if kind != "ties"]  # a few values are no proof
    for number in range(attempts):
        kind = kinds[number % len(kinds)]
        explored, log = (noise(kind, _LOCKED_RUNS, name, number) for name in ("e", "h"))
        lock = make_lock(DESIGN, explored)[0]
        for _, door in doors:
            twice = with_copies(log, rng.uniform(0.05, 0.5), way, rng)
            count.attempts += 1
            try:
                found = door(twice, lock, explored)
            except InputError as error:
                right = error.code == "copied_runs" or "are equal in" in str(error)
                count.refused, count.faults = count.refused + 1, count.faults + (not right)
            else:
                count.faults += 1
                count.eligible += isinstance(found, Results) and any(
                    item.x_alarm_eligible for item in found.indicators
                )
    return count


def leaked(attempts: int, seed: int = 33) -> Count:
    """Explore runs among the held-out ones: renamed, cut, rounded to 32 bits, jittered."""
    count, rng = Count(), np.random.default_rng(seed)
    for number in range(attempts):
        explored, log = (noise("AR(1)", _LOCKED_RUNS, name, number) for name in ("e", "h"))
        lock = make_lock(DESIGN, explored)[0]
        frame = explored.to_pandas()
        twin = frame[frame["run"] == rng.choice(explored.runs)].assign(run="other")
        way = number % 4
        if way == 1:
            twin = twin.head(round(rng.uniform(0.4, 1) * len(twin)))
        if way == 2:
            twin["score"] = twin["score"].astype("float32").astype("float64")
        if way == 3:
            twin["score"] += 1e-9 * rng.normal(size=len(twin))
        count.attempts += 1
        try:
            evaluate_lock(lock, RunLog.read(pd.concat([log.to_pandas(), twin])))
            count.faults += 1
        except InputError as error:
            count.refused += 1
            count.faults += error.code != "runs_overlap"
    return count


def cheats(attempts: int, seed: int = 33) -> Count:
    """Scores of other packages that look ahead, or read more than they say."""
    rng = np.random.default_rng(seed)
    steps = np.arange(121) * 10
    jump = rng.integers(40, 110, size=(12, 1))
    norm = 20 + np.cumsum(rng.normal(size=(12, 121)), axis=1) - 5 * (np.arange(121) > jump)
    columns = {"test_acc": 1.0 * (np.arange(121) >= jump), "weight_norm": norm}
    log = RunLog.from_arrays([f"seed_{n}" for n in range(12)], steps, columns)
    count = Count()
    for cheat in [*CHEATS.values()][:attempts]:
        found = outcome(cheat, log)
        count.attempts += 1
        count.refused += found == "refused"
        expected = "told" if cheat.told else "harmless" if cheat.harmless else "refused"
        count.faults += found != expected
    return count


def remade(attempts: int, seed: int = 33) -> Count:
    """Two weeks of looks in one script: each day the lock is made again, and new runs are judged.

    It is written to the same file, to another one, reached through a link, or kept in memory.
    """
    count = Count()
    for number in range(attempts):
        explored = noise("AR(1)", _LOCKED_RUNS, "e", seed + number)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "lock.yaml")
            link = Path(folder, "link.yaml")
            link.symlink_to(place)
            for day in range(1, 15):
                dated = DESIGN.replace(date_locked=f"2026-01-{day:02}")
                lock = make_lock(dated, explored)[0]
                judged: Lock | Path = lock
                if day == 1 or day % 4:
                    judged = lock.write((place, place, link, Path(folder, f"{day}.yaml"))[day % 4])
                count.attempts += day > 1
                try:
                    evaluate_lock(judged, noise("AR(1)", _RUNS, f"day_{day}", 1000 * day + number))
                    count.faults += day > 1
                except InputError as error:
                    count.refused += day > 1
                    count.faults += "x_looks" not in str(error)
    return count


def eligible(attempts: int) -> Count:
    """Locked panels of noise, as in G1: none may be eligible."""
    count = Count()
    each = max(1, attempts // (len(gates.NOISE) * len(gates.SIZES)))
    for size in gates.SIZES:
        for kind in gates.NOISE:
            found = gates.verdicts(partial(gates.noise_panel, kind, size), each)
            count.attempts += len(found)
            count.eligible += sum(able for _, able, _ in found)
    return count


KINDS: Mapping[str, tuple[str, Callable[[int], Count], int]] = {
    **{
        way: (
            f"noise panels, 5 to 50% of runs {way}, by {len(DOORS)} doors",
            partial(copied, way),
            40,
        )
        for way in WAYS
    },
    "leaked": ("explore runs among held-out ones", leaked, 40),
    "cheats": ("scores that look ahead or say less than they read", cheats, len(CHEATS)),
    "remade": ("looks by locks made again, for two weeks", remade, 3),
    "noise": ("noise panels, judged by a lock", eligible, 500),
}
"""What is tried, and how often."""


def rows(share: float = 1.0) -> tuple[list[str], int]:
    """A row of the table for each kind, and all faults; `share` of the attempts are made."""
    lines = ["| attack | attempts | refused | eligible | faults |", "|---|---|---|---|---|"]
    faults = 0
    for about, run, attempts in KINDS.values():
        one = run(max(1, round(share * attempts)))
        lines.append(
            f"| {about} | {one.attempts} | {one.refused} | {one.eligible} | {one.faults} |"
        )
        faults += one.faults + one.eligible
    return lines, faults


if __name__ == "__main__":
    _kind, *_attempts = sys.argv[1:]
    _, _run, _usual = KINDS[_kind]
    print(json.dumps(asdict(_run(*map(int, _attempts or [_usual])))))
