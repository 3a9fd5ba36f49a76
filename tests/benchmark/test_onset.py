"""E_onset: when a metric leaves chance for good."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gmb_hf import Design, InputError, RunLog
from gmb_hf.benchmark.events import find_events
from gmb_hf.benchmark.prepare import prepare, preview_events
from gmb_hf.tasks.registry import get_task

STEPS = [10 * place for place in range(9)]
VALUES = {
    "leaves": [0.03, 0.13, 0.05, 0.12, 0.13, 0.2, 0.3, 0.5, 0.9],  # .13 alone is no onset
    "at once": [0.2] * 9,
    "never": [0.03, 0.05, 0.02, 0.04, 0.05, 0.03, 0.04, 0.05, 0.119],
    "too late": [0.0] * 5 + [0.5] * 4,  # four checkpoints, five are asked for
}
LENGTHS = {"horizon": 10, "safe_gap": 20}


def log(chance: float | None = None) -> RunLog:
    runs = [
        pd.DataFrame({"run": run, "step": STEPS, "test_acc": own}) for run, own in VALUES.items()
    ]
    made = RunLog.read(pd.concat(runs))
    if chance is not None:
        made.metadata["chance"] = chance
    return made


def onset(**fields: object) -> Design:
    return Design.minimal(**LENGTHS, event_type="E_onset", **fields)


def test_the_first_of_five_checkpoints_at_three_times_chance():
    found = find_events(log(), onset(chance=0.04))  # the level is .12
    by_run = dict(zip(found.runs, found.step.tolist(), strict=True))
    assert by_run["leaves"] == 30
    assert by_run["at once"] == 0
    assert np.isnan(by_run["never"])
    assert np.isnan(by_run["too late"])


def test_multiple_and_length_can_be_chosen():
    found = find_events(log(), onset(chance=0.04, chance_multiple=1.25, plateau_checkpoints=2))
    by_run = dict(zip(found.runs, found.step.tolist(), strict=True))
    assert by_run["leaves"] == 10
    assert by_run["never"] == 70


def test_chance_is_what_the_logs_say():
    prepared = prepare(log(0.04), onset(), entries=())
    assert prepared.design.chance == 0.04
    assert prepared.events.n_events == 2
    assert prepare(log(0.5), onset(chance=0.04), entries=()).design.chance == 0.04
    assert get_task("sub_p29").chance == pytest.approx(1 / 29)
    assert get_task("copy_8").chance is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "event.x_chance is missing: E_onset asks when the metric leaves chance"),
        (
            {"chance": 0.5},
            "x_chance_multiple 3 times x_chance 0.5 is 1.5, which no accuracy reaches",
        ),
        ({"chance": 1.0}, "event.x_chance must be less than 1, got 1"),
        ({"chance": 0.0}, "event.x_chance must be greater than 0, got 0"),
        ({"chance": 0.1, "chance_multiple": 1.0}, "x_chance_multiple must be greater than 1"),
    ],
)
def test_what_cannot_be_asked(fields: dict[str, float], message: str):
    with pytest.raises(InputError, match=message):
        preview_events(log(), event_type="E_onset", **fields)


def test_it_is_told_in_a_sentence():
    found = preview_events(log(0.04), event_type="E_onset")
    told = "first of 5 consecutive checkpoints with test_acc at or above 3 times chance (0.04)"
    assert found.event == f"E_onset: {told}"
    assert (found.events, found.at_first) == (2, 1)
