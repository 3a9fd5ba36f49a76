"""Layer C by hand: coverage, leads, the burden of false alarms, and episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_builders import design, scores_of

from gmb_hf.benchmark.judgement import Judgement, Locked
from gmb_hf.benchmark.utility import layer_c, operating_point
from gmb_hf.core.utility import episode_starts

# Horizon 30, gap 50. Run 0: t* = 80, positives 50 60 70, negatives 0..30; run 1 likewise;
# run 2: t* = 60, positives 30 40 50, negatives 0, 10; run 3: too early for any window after
# burn-in; run 4: no event, ends at 100, negatives 0..40.
SETTINGS = {"horizon": 30, "safe_gap": 50, "lead_time_target": 20}
VALUES = [
    [0, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1],
    [1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0],
    [0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1],
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1],
]
EVENTS = [80, 80, 60, 0, None]


def point(**overrides: Any) -> Any:
    chosen = design(**{**SETTINGS, **overrides})
    locked = Locked({1: dict.fromkeys(chosen.fpr_targets, 1.0)})
    judgement = Judgement(scores_of(VALUES, EVENTS), locked, chosen)
    return operating_point(judgement, 0.05)


def test_coverage_counts_every_event() -> None:
    found = point()
    assert (found.x_n_events, found.x_n_covered, found.x_n_too_early) == (4, 2, 1)
    assert found.coverage == 0.5


def test_leads_run_from_the_first_alarm_in_the_horizon() -> None:
    found = point()
    assert found.x_lead_times == (20.0, 30.0)
    assert (found.lead_time_median, found.lead_time_iqr) == (25.0, 5.0)
    assert (found.x_lead_time_q05, found.x_lead_time_q95) == pytest.approx((20.5, 29.5))
    # Run 1 already alarms in its first positive window: its true lead may be longer.
    assert found.x_n_censored == 1


def test_success_is_a_share_of_all_events() -> None:
    assert point().lead_time_success == 0.5
    assert point(lead_time_target=25).lead_time_success == 0.25
    assert point(lead_time_target=31).lead_time_success == 0.0


def test_false_alarms_per_run_and_per_step() -> None:
    found = point()
    # Alarmed negatives: step 20 of run 0, steps 0 and 10 of run 1, step 0 of run 4.
    # Runs 0, 1, 2, 4 have 4 + 4 + 2 + 5 negatives, of ten steps each.
    assert found.x_false_alarms_per_run == pytest.approx(4 / 4)
    assert found.x_false_alarms_per_10k_steps == pytest.approx(4 / 150 * 10_000)


def test_time_in_warning_includes_the_gap() -> None:
    # Monitored: 8 + 8 + 6 + 0 + 5 rows; alarmed 4 + 3 + 1 + 1.
    assert point().x_time_in_warning == pytest.approx(9 / 27)


def test_episodes() -> None:
    # Refractory = horizon = 30. Run 0: 20 (negative), 60 (positive; 40 is silenced). Run 1: 0
    # (negative), 50 (positive). Run 2: 20 lies between the labels. Run 4: 0 (negative).
    found = point()
    assert (found.x_episodes, found.x_episodes_between) == (5, 1)
    assert found.x_episode_precision == pytest.approx(2 / 5)
    # With a refractory period of 60 the alarm at 60 belongs to the one at 20.
    assert point(refractory=60).x_episode_precision == pytest.approx(0 / 3)


def test_intervals_stand_where_their_numbers_do() -> None:
    found = point()
    assert 0.0 <= found.x_coverage_interval.low < 0.5 < found.x_coverage_interval.high <= 1.0
    assert found.x_lead_time_interval.low == 20.0
    assert found.x_lead_time_interval.high == 30.0
    assert found.x_lead_time_intervals.keys() == {"median", "iqr", "q05", "q95"}
    assert found.x_lead_time_success_interval.method == "run bootstrap"


def test_nothing_covered() -> None:
    chosen = design(**SETTINGS)
    locked = Locked({1: dict.fromkeys(chosen.fpr_targets, 9.0)})
    judgement = Judgement(scores_of(VALUES, EVENTS), locked, chosen)
    found = operating_point(judgement, 0.05)
    assert (found.coverage, found.lead_time_median, found.x_lead_times) == (0.0, None, ())
    assert found.x_coverage_interval is not None
    assert found.x_coverage_interval.method == "exact binomial"
    assert (found.x_episode_precision, found.x_p_value) == (None, 1.0)
    assert found.lead_time_success == 0.0


def test_no_events() -> None:
    chosen = design(**SETTINGS)
    locked = Locked({1: dict.fromkeys(chosen.fpr_targets, 1.0)})
    judgement = Judgement(scores_of(VALUES, [None] * 5), locked, chosen)
    found = operating_point(judgement, 0.05)
    assert (found.coverage, found.x_coverage_interval, found.x_p_value) == (None, None, None)
    assert found.x_baselines == {}
    assert found.x_n_events == 0


def test_one_checkpoint_has_no_spacing() -> None:
    locked = Locked({1: dict.fromkeys((0.01, 0.05, 0.1), 1.0)})
    judgement = Judgement(scores_of([[1.0]], [None]), locked, design())
    assert operating_point(judgement, 0.05).x_false_alarms_per_10k_steps is None


def test_every_target_has_a_point_and_the_primary_is_one_of_them() -> None:
    chosen = design(**SETTINGS, primary_fpr=0.10)
    locked = Locked({1: {0.01: 9.0, 0.05: 2.0, 0.10: 1.0}})
    judgement = Judgement(scores_of(VALUES, EVENTS), locked, chosen)
    layer = layer_c(judgement)
    assert [one.fpr for one in layer.at_fpr] == [0.01, 0.05, 0.10]
    assert layer.at(0.10) is layer.at_fpr[2]
    assert layer.at(0.10).coverage == 0.5


@given(st.integers(0, 100_000), st.integers(1, 60))
def test_episode_starts_equal_a_walk_along_each_run(seed: int, refractory: int) -> None:
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.integers(1, 12, size=(3, 20)), axis=1)
    alarms = rng.random((3, 20)) < 0.4
    found = episode_starts(steps, alarms, refractory)
    for run in range(3):
        begun: list[int] = []
        for column in np.flatnonzero(alarms[run]):
            if not begun or steps[run, column] - steps[run, begun[-1]] >= refractory:
                begun.append(int(column))
        assert np.flatnonzero(found[run]).tolist() == begun
