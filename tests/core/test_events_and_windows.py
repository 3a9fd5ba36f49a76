"""Events and windows of arrays, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.core import jump_steps, label_windows, plateau_steps, ranking

STEPS = [0, 10, 20, 30, 40, 50]


class TestJumps:
    def test_the_first_rise_that_is_great_enough(self) -> None:
        metric = [[0.1, 0.2, 0.8, 0.9, 0.1, 0.9], [0.1, 0.1, 0.1, 0.1, 0.2, 0.2]]
        found = jump_steps(metric, STEPS, ahead=1, threshold=0.5)
        assert np.array_equal(found.step, [10.0, np.nan], equal_nan=True)
        assert found.n_dip_recoveries == 0

    def test_a_rise_of_just_the_threshold_counts_whatever_floats_say(self) -> None:
        assert 0.95 - 0.80 < 0.15
        assert jump_steps([[0.80, 0.95]], [0, 10], ahead=1, threshold=0.15).step.tolist() == [0.0]

    def test_it_looks_so_many_checkpoints_ahead(self) -> None:
        found = jump_steps([[0.0, 0.2, 0.4, 0.6, 0.6, 0.6]], STEPS, ahead=3, threshold=0.5)
        assert found.step.tolist() == [0.0]

    def test_a_level_a_first_step_and_no_recovery_can_be_asked(self) -> None:
        dip = [[0.9, 0.1, 0.8, 0.8, 0.2, 1.0]]
        plain = jump_steps(dip, STEPS, ahead=1, threshold=0.5)
        assert (plain.step.tolist(), plain.n_dip_recoveries) == ([10.0], 1)
        assert jump_steps(dip, STEPS, ahead=1, threshold=0.5, level=0.95).step.tolist() == [40.0]
        new = jump_steps(dip, STEPS, ahead=1, threshold=0.5, new_max=True)
        assert (new.step.tolist(), new.n_dip_recoveries) == ([40.0], 0)
        late = np.array([[False] * 3 + [True] * 3])
        assert jump_steps(dip, STEPS, ahead=1, threshold=0.5, allowed=late).step.tolist() == [40.0]

    def test_what_is_not_known_is_no_jump(self) -> None:
        metric = [[0.1, np.nan, 0.9, 0.9, 0.9, 0.9]]
        assert np.isnan(jump_steps(metric, STEPS, ahead=1, threshold=0.5).step).all()

    def test_a_run_shorter_than_the_look_ahead_has_none(self) -> None:
        assert np.isnan(jump_steps([[0.0, 1.0]], [0, 10], ahead=5, threshold=0.5).step).all()

    def test_of_falls_give_the_negative(self) -> None:
        loss = np.array([[2.0, 1.9, 0.3, 0.3, 0.3, 0.3]])
        assert jump_steps(-loss, STEPS, ahead=1, threshold=1.0).step.tolist() == [10.0]


class TestPlateaus:
    metric = ((0.9, 0.1, 0.9, 0.4, 0.9, 0.9), (0.1,) * 6)

    def test_the_first_of_so_many_in_a_row(self) -> None:
        found = plateau_steps(self.metric, STEPS, level=0.5, length=2)
        assert np.array_equal(found, [40.0, np.nan], equal_nan=True)

    def test_a_dip_may_be_allowed_but_never_at_the_first(self) -> None:
        found = plateau_steps(self.metric, STEPS, level=0.5, length=3, dips=1)
        assert found[0] == 0.0
        second = plateau_steps([self.metric[0][1:]], STEPS[1:], level=0.5, length=3, dips=1)
        assert second.tolist() == [20.0]

    def test_where_it_may_begin(self) -> None:
        allowed = np.array([[False] * 5 + [True]] * 2)
        found = plateau_steps(self.metric, STEPS, level=0.5, length=1, allowed=allowed)
        assert found[0] == 50.0

    def test_padding_holds_no_level(self) -> None:
        present = np.array([[True] * 5 + [False]])
        found = plateau_steps([self.metric[0]], STEPS, level=0.5, length=2, present=present)
        assert np.isnan(found).all()


class TestWindows:
    def test_an_event_and_none(self) -> None:
        steps = np.arange(0, 120, 10)
        found = label_windows(
            steps, [80.0, np.nan], horizon=20, safe_gap=40, last_registrable=[100, 100]
        )
        assert steps[found.positive[0]].tolist() == [60, 70]
        assert steps[found.negative[0]].tolist() == [0, 10, 20, 30, 40]
        assert steps[found.monitored[0]].tolist() == [0, 10, 20, 30, 40, 50, 60, 70]
        assert not found.positive[1].any()
        assert steps[found.negative[1]].tolist() == [0, 10, 20, 30, 40, 50, 60]
        assert (found.monitored[1] == found.negative[1]).all()

    def test_without_more_said_a_run_is_watched_to_its_last_checkpoint(self) -> None:
        present = np.array([[True] * 6, [True] * 3 + [False] * 3])
        found = label_windows(STEPS, [np.nan] * 2, horizon=10, safe_gap=20, present=present)
        assert found.negative.sum(axis=1).tolist() == [4, 1]

    def test_steps_may_differ_between_runs(self) -> None:
        steps = np.array([[0, 10, 20], [5, 15, 25]])
        found = label_windows(steps, [25.0, 25.0], horizon=10, safe_gap=20)
        assert found.positive.tolist() == [[False, False, True], [False, True, False]]
        assert found.negative.tolist() == [[True, False, False], [True, False, False]]

    def test_burn_in(self) -> None:
        found = label_windows(STEPS, [50.0], horizon=10, safe_gap=20, burn_in=25)
        assert found.negative[0].tolist() == [False, False, False, True, False, False]
        assert found.monitored[0].tolist() == [False, False, False, True, True, False]

    def test_the_gap_must_be_larger_than_the_horizon(self) -> None:
        with pytest.raises(InputError, match="safe gap 20 must be larger than horizon 20 steps"):
            label_windows(STEPS, [50.0], horizon=20, safe_gap=20)

    def test_some_runs_and_some_checkpoints(self) -> None:
        found = label_windows(STEPS, [50.0, 40.0], horizon=10, safe_gap=20)
        assert (found.select(np.array([1])).positive == found.positive[[1]]).all()
        usable = np.array([[False] + [True] * 5] * 2)
        some = found.where(usable, dropped=2)
        assert some.dropped == 2
        assert some.negative.sum(axis=1).tolist() == [3, 2]


def test_ranking_with_ties() -> None:
    # Positives .9 and .5; negatives .5 and .1: 3 wins and half a tie of 4 pairs.
    values = np.array([[0.9, 0.5, 0.5, 0.1, 7.0], [1.0, 2.0, 3.0, 4.0, 5.0]])
    positive = np.array([[True, True, False, False, False], [False] * 5])
    labelled = np.array([[True] * 4 + [False], [True] * 5])
    auc, ap = ranking(values, positive, labelled)
    assert auc[0] == 3.5 / 4
    # At .9: precision 1, recall 1/2; at .5: precision 2/3, recall 1.
    assert ap[0] == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert np.isnan([auc[1], ap[1]]).all()
