"""E_plateau by hand, its options, its negatives and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_builders import design, scores_of

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.events import find_events, plateau_events
from gmb_hf.benchmark.scores import score_windows
from gmb_hf.design.design import Design
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog


def metric(*rows: list[float]) -> Panel:
    return Panel.from_series(
        "test_acc", [(f"run_{i}", np.arange(len(row)) * 10, row) for i, row in enumerate(rows)]
    )


def plateau(**overrides: Any) -> Design:
    settings = {"event_type": "E_plateau", "plateau_checkpoints": 3, "plateau_threshold": 0.9}
    return design(**{**settings, **overrides})


def step_of(row: list[float], **overrides: Any) -> float | None:
    step = plateau_events(metric(row), plateau(**overrides)).step[0]
    return None if np.isnan(step) else float(step)


def test_the_first_of_three_checkpoints_at_the_level() -> None:
    assert step_of([0.1, 0.95, 0.5, 0.9, 0.91, 0.92, 0.2]) == 30.0


def test_two_of_three_at_the_end_are_no_plateau() -> None:
    assert step_of([0.1, 0.1, 0.1, 0.95, 0.95]) is None


def test_one_checkpoint_is_enough_where_one_is_asked_for() -> None:
    assert step_of([0.1, 0.95, 0.1], plateau_checkpoints=1) == 10.0


def test_a_level_of_exactly_the_threshold_holds_in_spite_of_rounding() -> None:
    assert 0.3 + 0.6 < 0.9
    assert step_of([0.3 + 0.6] * 3) == 0.0


def test_a_regression_no_longer_than_allowed_is_forgiven() -> None:
    row = [0.1, 0.95, 0.2, 0.95, 0.95, 0.2, 0.2, 0.95]
    assert step_of(row, plateau_checkpoints=4) is None
    assert step_of(row, plateau_checkpoints=4, plateau_regression=1) == 10.0
    # From 10 on, five checkpoints hold single dips; a sixth would make the second one two long.
    assert step_of(row, plateau_checkpoints=5, plateau_regression=1) == 10.0
    assert step_of(row, plateau_checkpoints=6, plateau_regression=1) is None
    assert step_of(row, plateau_checkpoints=7, plateau_regression=2) == 10.0


def test_a_plateau_never_begins_below_the_level() -> None:
    assert step_of([0.2, 0.95, 0.95, 0.95], plateau_checkpoints=3, plateau_regression=1) == 10.0


def test_no_event_before_t_min() -> None:
    events = plateau_events(metric([0.95] * 6), plateau(event_t_min=15))
    assert events.step.tolist() == [20.0]
    assert events.first_step.tolist() == [20]


def test_runs_of_unequal_length() -> None:
    events = plateau_events(metric([0.1] * 6, [0.95] * 2, [0.1, 0.95, 0.95, 0.95]), plateau())
    assert np.isnan(events.step[:2]).all()
    assert events.step[2] == 10.0
    assert (events.n_events, events.n_dip_recoveries) == (1, 0)


def test_the_preregistration_finds_it_by_its_metric() -> None:
    log = RunLog.from_arrays(["a"], [0, 10, 20], {"val_acc": [[0.95] * 3]})
    events = find_events(log, plateau(metric="val_acc"))
    assert events.step.tolist() == [0.0]


def test_more_checkpoints_than_the_longest_run_has_are_refused() -> None:
    with pytest.raises(InputError, match="x_plateau_checkpoints is 7, but the longest run has 6 "):
        plateau_events(metric([0.1] * 6, [0.1] * 2), plateau(plateau_checkpoints=7))


def test_nan_in_the_metric_is_an_error_unless_ignored() -> None:
    panel = metric([0.95, np.nan, 0.95, 0.95, 0.95])
    with pytest.raises(InputError, match=r"run 'run_0', step 10: metric 'test_acc' is NaN"):
        plateau_events(panel, plateau())
    assert plateau_events(panel, plateau(nan="ignore")).step.tolist() == [20.0]
    with pytest.raises(InputError, match="is NaN at every step"):
        plateau_events(metric([np.nan] * 4), plateau(nan="ignore"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"plateau_threshold": None}, "event: E_plateau needs x_plateau_checkpoints and x_plateau"),
        ({"plateau_checkpoints": 0}, r"event\.x_plateau_checkpoints"),
        ({"plateau_threshold": float("nan")}, r"event\.x_plateau_threshold"),
        ({"plateau_regression": 3}, "x_plateau_regression 3 must be less than x_plateau_check"),
        ({"plateau_regression": -1}, r"event\.x_plateau_regression"),
    ],
)
def test_settings_that_make_no_plateau_are_refused(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plateau(**overrides)


class TestWindows:
    """A plateau that begins just past the end of a log was never registered."""

    def test_negatives_end_a_gap_and_k_minus_one_checkpoints_before_the_end(self) -> None:
        # Last step 110, two checkpoints ahead, gap 40: negatives up to 50, whatever W_event is.
        windows = score_windows(scores_of([[0.0] * 12], [None]), plateau(w_event=70))
        assert (10 * np.flatnonzero(windows.negative[0])).tolist() == [0, 10, 20, 30, 40, 50]

    def test_the_last_checkpoints_of_a_run_count_at_their_own_steps(self) -> None:
        panel = Panel.from_series("s", [("a", [1, 500, 1000, 1500, 2000, 2500], np.zeros(6))])
        scores = scores_of([[0.0] * 6], [None]).from_panel(panel, [np.nan])
        design = plateau(horizon=100, safe_gap=600)
        # 2500 less two checkpoints is 1500; less the gap, 900.
        assert scores.steps[score_windows(scores, design).negative].tolist() == [1, 500]

    def test_a_run_too_short_for_a_plateau_has_no_negatives(self) -> None:
        scores = scores_of([[0.0] * 12, [0.0] * 3], [None, None])
        design = plateau(plateau_checkpoints=4)
        assert score_windows(scores, design).negative.any(axis=1).tolist() == [True, False]

    def test_labels_around_an_event_are_those_of_any_event(self) -> None:
        scores = scores_of([[0.0] * 12], [80])
        here, there = (score_windows(scores, chosen) for chosen in (plateau(), design()))
        assert (here.positive == there.positive).all()
        assert (here.negative == there.negative).all()


def slow(row: list[float], length: int, level: float, allowed: int) -> int | None:
    """The definition, checkpoint by checkpoint."""
    for start in range(len(row) - length + 1):
        below = "".join("x" if value < level else "." for value in row[start : start + length])
        if below[0] == "." and "x" * (allowed + 1) not in below:
            return start
    return None


@given(
    rows=st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=12), min_size=1),
    length=st.integers(1, 6),
    allowed=st.integers(0, 5),
)
def test_it_is_the_definition_for_any_runs(
    rows: list[list[float]], length: int, allowed: int
) -> None:
    rows = [*rows, [0.0] * 6]  # at least one run is long enough
    allowed = min(allowed, length - 1)
    design = plateau(plateau_checkpoints=length, plateau_threshold=0.5, plateau_regression=allowed)
    found = plateau_events(metric(*rows), design).step
    wanted = [slow(row, length, 0.5, allowed) for row in rows]
    assert [None if np.isnan(step) else int(step) // 10 for step in found] == wanted
