"""Runs whose alarm and event stand where a test says, and a lock on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gmb_hf import Design, Lock, RunLog, make_lock

CADENCE, LAST = 10, 800

Run = tuple[int | None, int | None]
"""The steps of the first alarm, and of the event; None: none."""

EXPLORE: list[Run] = [(max(150, event - 300), event) for event in range(210, 610, 10)]
EXPLORE += [(None, None)] * 60
"""Events at 210 to 600, alarms up to 300 steps before them, and 60 runs that never have one."""


def log_of(
    runs: Iterable[Run], *, first_seed: int = 0, last: int = LAST, chance: float | None = None
) -> RunLog:
    """The metric rises from .03 to .9 at the event, the score from about 0 to 1 at the alarm.

    The score of the first three runs without an event is .5 at step 300, so that thresholds for
    1 run in 20 lie above the noise of all others.
    """
    rng = np.random.default_rng(first_seed)
    steps, cases = np.arange(0, last + 1, CADENCE), list(runs)
    metric, score = (0.03 + 0.01 * rng.random((len(cases), len(steps))) for _ in range(2))
    for row, (alarm, event) in enumerate(cases):
        if event is not None:
            metric[row, steps >= event] += 0.9
        if alarm is not None:
            score[row, steps >= alarm] += 1
    quiet = [row for row, case in enumerate(cases) if case == (None, None)]
    score[np.ix_(quiet[:3], steps == 300)] = 0.5
    seeds = [first_seed + row for row in range(len(cases))]
    log = RunLog.from_arrays(
        [f"seed_{seed}" for seed in seeds],
        steps,
        {
            "test_acc": metric,
            "test_loss": 4 - 4 * metric,
            "score": score,
            "other": rng.random(metric.shape),
        },
        seeds=seeds,
    )
    if chance is not None:
        log.metadata["chance"] = chance
    return log


def lock_on(log: RunLog, **fields: Any) -> Lock:
    """A lock of the columns `score`, label-free, and `other`, of which nothing is said."""
    design = Design.minimal(
        **{
            "horizon": 80,
            "safe_gap": 400,
            "burn_in": 100,
            "event_type": "E_plateau",
            "plateau_threshold": 0.5,
            "plateau_checkpoints": 2,
            "metric": "test_acc",
            "null_draws": 200,
            "bootstrap_draws": 200,
            "smoothing_sweep": [1, 3],
            "run_groups": 2,
            "run_budgets": [0.05],
            "undeclared": ["task", "model", "optimizer", "schedule", "seeds_eval"],
            "candidates": [
                {"name": "score", "family": "external", "x_sees_test_labels": False},
                {"name": "other", "family": "external"},
            ],
            **fields,
        }
    )
    return make_lock(design, log)[0]
