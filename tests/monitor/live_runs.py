"""Made-up runs of one system, judged by a lock: what the tests of monitors watch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from synthetic import FEW_MEMBERS, SYNTHETIC_DESIGN, synthetic_runlog

from gmb_hf import Design, Lock, Results, RunLog, make_lock
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.monitor.monitor import AlarmMonitor

SYSTEM = {"task": "synthetic", "model": "made-up", "optimizer": "none", "schedule": "1200 steps"}
GINI, GAIN, NORM = "embedding_gini", "embedding_gini_gain", "embedding_norm_drop"
DESIGN = Design.minimal(
    **SYNTHETIC_DESIGN,
    **FEW_MEMBERS,
    fpr_targets=[0.05, 0.1],
    primary_fpr=0.1,
    min_targets_ok=1,
    window_sweep=[80, 100, 120],
    null_draws=400,
    bootstrap_draws=200,
    candidates=[
        {"name": GINI, "family": "spectral"},
        {"name": GAIN, "family": "spectral", "params": {"window": 100}},
        {"name": "settled_structure", "family": "process"},
        {"name": NORM, "family": "dynamics"},
        {"name": "csd_variance", "family": "dynamics", "params": {"window": 100}},
    ],
)


@dataclass(frozen=True)
class Evaluated:
    """A lock, what it was made on, and the verdicts on held-out runs."""

    lock: Lock
    results: Results
    explore: RunLog
    held_out: RunLog

    def rows(self, run: int = 0, **changed: Any) -> Iterator[dict[str, Any]]:
        """The checkpoints of one held-out run, as a training would report them."""
        log = self.held_out.select([self.held_out.runs[run]])
        for row in log.table.drop_columns(["run", "seed"]).to_pylist():
            yield {**row, **changed}

    def monitor(self, *act: str, **options: Any) -> AlarmMonitor:
        """A monitor on which these act, or all that may; it shows no other."""
        options = {"show": (), "system": SYSTEM, **options}
        return AlarmMonitor(self.lock, self.results, act=act or None, **options)


def made_up(n_runs: int, first_seed: int) -> RunLog:
    """Synthetic runs that say which system they come from."""
    log = synthetic_runlog(n_runs, seed=first_seed, first_seed=first_seed)
    log.metadata.update(SYSTEM)
    return log


def evaluated_runs() -> Evaluated:
    """The gain of the Gini and two others may act on the clean curves of made-up runs."""
    explore, held_out = made_up(100, 0), made_up(100, 200)
    lock, _ = make_lock(DESIGN, explore)
    return Evaluated(lock, evaluate_lock(lock, held_out).results, explore, held_out)


class Replayed:
    """A held-out run that alarms early: its column, in place of what a tiny model shows.

    Attributes:
        values: step -> the column `embedding_gini`.
        alarm: the step of the first alarm.
    """

    def __init__(self, evaluated: Evaluated) -> None:
        self.alarm = 10**9
        monitor = evaluated.monitor(GAIN)
        fresh = monitor.state_dict()
        events = evaluated.results.event.t_event_by_seed.values()
        for run in np.argsort(list(events))[:6].tolist():
            monitor.load_state_dict(fresh)
            earlier = takewhile(lambda row: row["step"] < self.alarm, evaluated.rows(run))
            readings = (monitor.update(**row) for row in earlier)
            alarm = next((one.step for one in readings if one.state == "ALARM"), self.alarm)
            if alarm < self.alarm:
                self.alarm = alarm
                self.values = {row["step"]: row[GINI] for row in evaluated.rows(run)}

    def __call__(self, model: Any, step: int) -> dict[str, float]:
        """As `extra` of a watch."""
        return {GINI: self.values[step]}
