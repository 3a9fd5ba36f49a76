"""How far q10 has come before the event, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gmb_hf.crucible.grokking import MarginProgress, margin_progress
from gmb_hf.runs.runlog import RunLog


def log(q10, train_acc):
    names = [f"seed_{seed}" for seed in range(len(q10))]
    steps = 10 * np.arange(len(q10[0]))
    return RunLog.from_arrays(names, steps, {"crucible_margin_q10": q10, "train_acc": train_acc})


def test_the_rise_before_the_event_is_counted_from_memorisation():
    found = margin_progress(log([[0.0, -0.8, -0.6, 0.2]], [[0.1, 1.0, 1.0, 1.0]]), np.array([20.0]))
    assert found.share == pytest.approx(0.2)
    assert found == MarginProgress(1, 1, -0.8, -0.6, 0.2, found.share)


def test_runs_of_which_nothing_can_be_said_are_left_out():
    q10 = [[0.0, -0.5, 0.0, 0.5], [0.0, 0.0, 0.0, 0.1], [0.3, 0.3, 0.3, 0.1], [0.0, 0.2, 0.3, 0.4]]
    knows = [[0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]]
    # The first counts; the second has no event, the third falls, the fourth memorises after t*.
    found = margin_progress(log(q10, knows), np.array([20.0, np.nan, 10.0, 10.0]))
    assert found.share == pytest.approx(0.5)
    assert (found.n_runs, found.n_events) == (4, 3)
    assert found.memorised == pytest.approx(np.median([-0.5, 0.3, 0.4]))
    assert found.event == pytest.approx(np.median([0.0, 0.3, 0.2]))


def test_without_events_and_memorisation_there_is_no_share():
    found = margin_progress(log([[0.0, 0.1]], [[0.0, 0.5]]), np.array([np.nan]))
    assert found == MarginProgress(1, 0, None, None, 0.1, None)
