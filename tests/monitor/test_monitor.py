"""A monitor on held-out runs: what the batch evaluation says, one checkpoint at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gmb_hf import RunLog
from gmb_hf.indicators.registry import compute
from gmb_hf.monitor import AlarmMonitor

GAIN = "embedding_gini_gain"


def rows(log: RunLog, run: str) -> Iterator[dict[str, Any]]:
    """The checkpoints of one run, as a training would report them."""
    for row in log.select([run]).table.drop_columns(["run", "seed"]).to_pylist():
        yield row


@pytest.mark.parametrize("name", [GAIN, "settled_structure", "embedding_norm_drop"])
def test_the_first_alarm_is_that_of_the_batch_evaluation(evaluated: Any, name: str) -> None:
    lock, held_out = evaluated.lock, evaluated.held_out
    scores = compute(held_out, name, **lock.candidate(name).params)
    threshold = lock.thresholds(name)[lock.prereg.primary_fpr]
    over = (scores.values >= threshold) & (scores.steps >= lock.prereg.burn_in)
    for row in range(4):
        monitor = AlarmMonitor(lock, evaluated.results, act=[name], show=())
        alarms = [
            reading.step
            for reading in (monitor.update(**at) for at in rows(held_out, held_out.runs[row]))
            if reading.state == "ALARM"
        ]
        np.testing.assert_array_equal(alarms, scores.steps[row, over[row]])
        assert alarms
