"""Panels: the rectangle, its mask, and the spacing of checkpoints."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.runs.panel import Panel, prefix_mask

TWO = [("a", [1, 500, 1000], [1.0, 2.0, 3.0]), ("b", [1, 500], [4.0, float("nan")])]


def test_series_become_a_left_aligned_rectangle() -> None:
    panel = Panel.from_series("score", TWO)
    assert panel.runs == ("a", "b")
    assert panel.n_runs == 2
    np.testing.assert_array_equal(panel.values, [[1, 2, 3], [4, np.nan, np.nan]])
    np.testing.assert_array_equal(panel.steps, [[1, 500, 1000], [1, 500, 0]])
    np.testing.assert_array_equal(panel.present, [[True] * 3, [True, True, False]])
    np.testing.assert_array_equal(panel.lengths, [3, 2])
    np.testing.assert_array_equal(panel.first_step, [1, 1])
    np.testing.assert_array_equal(panel.last_step, [1000, 500])
    assert panel.last_step.dtype == panel.steps.dtype == np.int64


def test_select_keeps_the_order_asked_for_and_trims() -> None:
    panel = Panel.from_series("score", TWO)
    short = panel.select([1])
    assert short.runs == ("b",)
    assert short.values.shape == (1, 2)
    assert panel.select([1, 0]).runs == ("b", "a")
    assert panel.select([]).n_runs == 0


def test_with_values_masks_what_is_absent() -> None:
    panel = Panel.from_series("score", TWO)
    other = panel.with_values(np.zeros((2, 3)), name="zero")
    assert other.name == "zero"
    np.testing.assert_array_equal(np.isnan(other.values), ~panel.present)
    assert panel.with_values(panel.values).name == "score"


@pytest.mark.parametrize(
    ("series", "cadence"),
    [
        ([("a", [1, 500, 1000], [0, 0, 0])], 500),
        ([("a", [0, 10, 20], [0, 0, 0]), ("b", [5], [0])], 10),
        ([("a", [0, 10], [0, 0]), ("b", [3, 13], [0, 0])], 10),
        ([("a", [1, 500, 1000], [0] * 3), ("b", [1, 500], [0, 0])], 500),
    ],
)
def test_cadence_is_the_spacing_after_the_first_interval(series: list, cadence: int) -> None:
    assert Panel.from_series("x", series).cadence() == cadence


def test_cadence_that_varies_names_run_and_step() -> None:
    series = [("a", [0, 10, 20], [0] * 3), ("b", [0, 10, 20, 40, 50], [0] * 5)]
    with pytest.raises(InputError, match=r"run 'b'.*10 steps apart, but step 40 comes 20 after"):
        Panel.from_series("x", series).cadence()


def test_one_checkpoint_has_no_cadence() -> None:
    with pytest.raises(InputError, match="no run has two checkpoints"):
        Panel.from_series("x", [("a", [0], [1.0])]).cadence()


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ([], "no runs"),
        ([("a", [0], [1]), ("a", [0], [1])], "run 'a' is given twice"),
        ([("a", [0, 1], [1])], "equally long"),
        ([("a", [], [])], "not empty"),
        ([("a", [[0]], [[1]])], "equally long"),
        ([("a", [0, 5, 4], [1, 1, 1])], "step 4 follows step 5"),
        ([("a", [0, 5, 5], [1, 1, 1])], "step 5 follows step 5"),
        ([("a", [-1, 5], [1, 1])], "step -1 is not a whole number"),
        ([("a", [0, 0.5], [1, 1])], "step 0.5 is not a whole number"),
    ],
)
def test_bad_series_are_refused(series: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Panel.from_series("x", series)


def test_shapes_must_agree() -> None:
    good = Panel.from_series("x", TWO)
    with pytest.raises(InputError, match="share one shape"):
        Panel("x", good.runs, good.values[:, :2], good.steps, good.present)
    with pytest.raises(InputError, match="1 run names for 2 rows"):
        Panel("x", ("a",), good.values, good.steps, good.present)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_mask_and_lengths_say_the_same(lengths: list[int]) -> None:
    mask = prefix_mask(lengths)
    np.testing.assert_array_equal(mask.sum(axis=1), lengths)
    series = [(f"r{i}", np.arange(n), np.arange(n) + i) for i, n in enumerate(lengths)]
    panel = Panel.from_series("x", series)
    np.testing.assert_array_equal(panel.present, mask)
    np.testing.assert_array_equal(panel.last_step, np.array(lengths) - 1)
    np.testing.assert_array_equal(np.isnan(panel.values), ~mask)
