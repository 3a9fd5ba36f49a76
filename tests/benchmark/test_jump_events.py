"""E_jump by hand, its options, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from score_builders import design

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.events import (
    events_the_other_way,
    find_events,
    jump_events,
    plateau_events,
)
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog


def metric(*rows: list[float], steps: list[int] | None = None) -> Panel:
    return Panel.from_series(
        "test_acc",
        [
            (f"run_{i}", np.arange(len(row)) * 10 if steps is None else steps[: len(row)], row)
            for i, row in enumerate(rows)
        ],
    )


def test_the_first_jump_counts() -> None:
    events = jump_events(metric([0.1, 0.1, 0.2, 0.6, 0.9, 0.9]), design())
    assert events.step.tolist() == [20.0]
    assert events.runs == ("run_0",)


def test_a_longer_window_sees_the_jump_earlier() -> None:
    panel = metric([0.1, 0.1, 0.2, 0.22, 0.3, 0.3])
    assert np.isnan(jump_events(panel, design()).step[0])
    assert jump_events(panel, design(w_event=30)).step.tolist() == [10.0]


def test_a_jump_of_exactly_the_threshold_counts_in_spite_of_rounding() -> None:
    assert 0.95 - 0.80 < 0.15
    assert jump_events(metric([0.80, 0.95]), design()).step.tolist() == [0.0]


def test_runs_of_unequal_length_and_without_event() -> None:
    events = jump_events(metric([0.0, 0.0, 0.0, 0.0], [0.0, 0.5]), design(w_event=20))
    assert np.isnan(events.step).all()
    assert events.n_events == 0
    shorter = jump_events(metric([0.0, 0.0, 0.5], [0.0, 0.5]), design())
    assert shorter.step.tolist() == [10.0, 0.0]


def test_a_log_that_begins_one_five_hundred_thousand() -> None:
    panel = metric([0.0, 0.1, 0.2, 0.2], steps=[1, 500, 1000, 1500])
    assert jump_events(panel, design(w_event=1000)).step.tolist() == [1.0]


def test_no_event_before_t_min() -> None:
    panel = metric([0.0, 0.5, 0.5, 0.5, 0.9])
    assert jump_events(panel, design()).step.tolist() == [0.0]
    late = jump_events(panel, design(event_t_min=10))
    assert late.step.tolist() == [30.0]
    assert late.first_step.tolist() == [10]


def test_the_level_after_the_jump_must_be_reached() -> None:
    panel = metric([0.0, 0.2, 0.2, 0.8])
    assert jump_events(panel, design(theta_floor=0.5)).step.tolist() == [20.0]
    assert jump_events(panel, design(theta_floor=0.8)).step.tolist() == [20.0]
    assert np.isnan(jump_events(panel, design(theta_floor=0.81)).step[0])


def test_dip_recoveries_are_counted_and_can_be_refused() -> None:
    panel = metric([0.8, 0.3, 0.7, 0.95, 0.95])
    literal = jump_events(panel, design())
    assert literal.step.tolist() == [10.0]
    assert literal.n_dip_recoveries == 1
    strict = jump_events(panel, design(require_new_max=True))
    assert strict.step.tolist() == [20.0]
    assert strict.n_dip_recoveries == 0


def test_a_new_maximum_is_one_above_every_value_up_to_the_event() -> None:
    # Within the window the metric stands higher than at its end: that is the jump, and no dip.
    panel = metric([0.1, 0.9, 0.5, 0.5])
    assert jump_events(panel, design(require_new_max=True, w_event=20)).step.tolist() == [0.0]


def test_detectors_ask_for_the_metric_by_name() -> None:
    log = RunLog.from_arrays(["a"], [0, 10], {"val_acc": [[0.0, 0.5]], "test_acc": [[0.0, 0.0]]})
    assert find_events(log, design(metric="val_acc")).n_events == 1


def test_a_window_off_the_cadence_is_refused() -> None:
    panel = metric([0.0, 0.1, 0.2, 0.2], steps=[1, 500, 1000, 1500])
    with pytest.raises(
        InputError, match=r"window_W_event is 50 steps.*every 500 steps.*e\.g\. 500"
    ):
        jump_events(panel, design(w_event=50))


def test_a_single_checkpoint_has_no_spacing() -> None:
    with pytest.raises(InputError, match="no run has two checkpoints"):
        jump_events(metric([0.1]), design())


def test_nan_in_the_metric_is_an_error_unless_ignored() -> None:
    panel = metric([0.0, np.nan, 0.1, 0.5])
    with pytest.raises(InputError, match=r"run 'run_0', step 10: metric 'test_acc' is NaN"):
        jump_events(panel, design())
    assert jump_events(panel, design(nan="ignore")).step.tolist() == [20.0]


def test_an_infinite_metric_is_an_error_unless_ignored_and_never_a_jump() -> None:
    panel = metric([0.0, np.inf, 0.1, 0.5])
    with pytest.raises(InputError, match=r"run 'run_0', step 10: metric 'test_acc' is infinite"):
        jump_events(panel, design())
    assert jump_events(panel, design(nan="ignore")).step.tolist() == [20.0]
    with pytest.raises(InputError, match="metric 'test_acc' is NaN or infinite at every step"):
        jump_events(metric([np.inf, np.nan]), design(nan="ignore"))


def test_a_metric_that_is_nan_throughout_is_always_an_error() -> None:
    panel = metric([0.0, 0.5], [np.nan, np.nan])
    with pytest.raises(InputError, match=r"run 'run_1': metric 'test_acc' is NaN at every step"):
        jump_events(panel, design(nan="ignore"))


class TestFalling:
    LOSS = ((4.0, 4.0, 3.5, 0.2, 0.1, 0.1), (4.0, 4.0, 4.1, 4.0, 4.0, 4.0))

    def test_a_drop_is_the_event(self) -> None:
        losses = metric(*map(list, self.LOSS))
        assert np.isnan(jump_events(losses, design(jump_threshold=2.0)).step).all()
        falling = jump_events(losses, design(jump_threshold=2.0, direction="falling"))
        assert np.array_equal(falling.step, [20.0, np.nan], equal_nan=True)

    def test_the_floor_is_a_level_to_fall_to(self) -> None:
        losses, drop = metric([4.0, 3.0, 3.0, 1.0, 0.5]), {"jump_threshold": 1.0}
        fallen = jump_events(losses, design(direction="falling", theta_floor=1.0, **drop))
        assert fallen.step.tolist() == [20.0]

    def test_a_recovery_from_a_spike_is_no_event_where_a_new_minimum_is_asked(self) -> None:
        losses = metric([1.0, 3.0, 1.2, 0.9, 0.1])
        settings = {"direction": "falling", "jump_threshold": 0.5}
        assert jump_events(losses, design(**settings)).step.tolist() == [10.0]
        assert jump_events(losses, design(**settings)).n_dip_recoveries == 1
        asked = design(require_new_max=True, **settings)
        assert jump_events(losses, asked).step.tolist() == [30.0]

    def test_it_is_the_rise_of_the_negative(self) -> None:
        rng = np.random.default_rng(0)
        values = rng.normal(size=(40, 12))
        falling = jump_events(metric(*values.tolist()), design(direction="falling"))
        rising = jump_events(metric(*(-values).tolist()), design())
        assert np.array_equal(falling.step, rising.step, equal_nan=True)

    def test_a_plateau_lies_at_or_below_the_level(self) -> None:
        settings = {"event_type": "E_plateau", "plateau_threshold": 0.5, "plateau_checkpoints": 2}
        losses = metric([4.0, 0.4, 0.9, 0.5, 0.3])
        falling = plateau_events(losses, design(direction="falling", **settings))
        assert falling.step.tolist() == [30.0]

    def test_the_other_way_is_counted_for_a_hint(self) -> None:
        log = RunLog.from_arrays(
            ["a", "b"], [0, 10, 20, 30, 40, 50], {"eval_loss": np.array(self.LOSS)}
        )
        settings = {"metric": "eval_loss", "jump_threshold": 2.0}
        assert events_the_other_way(log, design(**settings)) == 1
        assert events_the_other_way(log, design(direction="falling", **settings)) == 0
