"""Scores: selection and the trailing mean."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_builders import scores_of

from gmb_hf.base.errors import InputError


def test_trailing_mean_by_hand() -> None:
    smooth = scores_of([[3.0, 6.0, 0.0, 9.0]], [None]).smooth(3)
    assert smooth.values.tolist() == [[3.0, 4.5, 3.0, 5.0]]


def test_smoothing_over_one_checkpoint_changes_nothing() -> None:
    scores = scores_of([[1.0, 2.0]], [None])
    assert scores.smooth(1) is scores


def test_unequal_lengths_stay_unequal() -> None:
    smooth = scores_of([[1.0, 3.0, 5.0], [2.0]], [None, None]).smooth(2)
    assert smooth.values[0].tolist() == [1.0, 2.0, 4.0]
    assert smooth.values[1, 0] == 2.0
    assert np.isnan(smooth.values[1, 1:]).all()


def test_what_is_not_finite_stays_and_is_left_out_of_its_neighbours() -> None:
    smooth = scores_of([[1.0, np.nan, 5.0, np.inf, 7.0]], [None]).smooth(3)
    assert smooth.values[0, [0, 2, 4]].tolist() == [1.0, 3.0, 6.0]
    assert np.isnan(smooth.values[0, 1])
    assert np.isinf(smooth.values[0, 3])


@given(st.floats(-1e9, 1e9), st.integers(2, 9))
def test_a_constant_stays_exactly_constant(value: float, checkpoints: int) -> None:
    smooth = scores_of([[value] * 12], [None]).smooth(checkpoints)
    assert (smooth.values == value).all()


@given(st.lists(st.sampled_from([0.1, 0.7]), min_size=8, max_size=30), st.integers(2, 5))
def test_equal_windows_stay_tied(row: list[float], checkpoints: int) -> None:
    smooth = scores_of([row], [None]).smooth(checkpoints).values[0]
    highs = [row[max(0, i + 1 - checkpoints) : i + 1].count(0.7) for i in range(len(row))]
    full = range(checkpoints - 1, len(row))
    for count in {highs[i] for i in full}:
        assert len({smooth[i] for i in full if highs[i] == count}) == 1


@given(st.integers(2, 6), st.integers(0, 11))
def test_smoothing_is_causal(checkpoints: int, cut: int) -> None:
    row = np.random.default_rng(cut).normal(size=12)
    whole = scores_of([row], [None]).smooth(checkpoints).values[0, : cut + 1]
    assert np.array_equal(whole, scores_of([row[: cut + 1]], [None]).smooth(checkpoints).values[0])


def test_select_keeps_runs_and_events_together() -> None:
    chosen = scores_of([[1.0], [2.0], [3.0]], [None, 5, 7]).select([2, 0])
    assert chosen.runs == ("run_2", "run_0")
    assert chosen.values[:, 0].tolist() == [3.0, 1.0]
    assert chosen.has_event.tolist() == [True, False]


def test_an_event_for_each_run_is_required() -> None:
    scores = scores_of([[1.0], [2.0]], [None, None])
    with pytest.raises(InputError, match=r"2 runs need 2 event steps, got \(1,\)"):
        dataclasses.replace(scores, event_step=np.array([1.0]))
