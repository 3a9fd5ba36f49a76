"""Labels by hand: positive, negative, ignored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_builders import design, scores_of

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.scores import score_windows


def steps_where(mask: np.ndarray, row: int = 0) -> list[int]:
    return [10 * int(column) for column in np.flatnonzero(mask[row])]


def test_labels_around_an_event() -> None:
    windows = score_windows(scores_of([[0.0] * 12], [80]), design())
    assert steps_where(windows.positive) == [60, 70]
    assert steps_where(windows.negative) == [0, 10, 20, 30, 40]
    assert steps_where(windows.monitored) == [0, 10, 20, 30, 40, 50, 60, 70]


def test_a_run_without_event_is_negative_until_one_could_hide() -> None:
    # Last step 110, W 10, gap 40: negatives up to 60.
    windows = score_windows(scores_of([[0.0] * 12], [None]), design())
    assert steps_where(windows.negative) == [0, 10, 20, 30, 40, 50, 60]
    assert not windows.positive.any()
    assert (windows.monitored == windows.negative).all()


def test_burn_in_is_ignored() -> None:
    windows = score_windows(scores_of([[0.0] * 12] * 2, [80, None]), design(burn_in=25))
    assert steps_where(windows.negative) == [30, 40]
    assert steps_where(windows.negative, 1) == [30, 40, 50, 60]
    assert steps_where(windows.monitored)[0] == 30


def test_an_event_before_burn_in_has_no_windows_at_all() -> None:
    windows = score_windows(scores_of([[0.0] * 12], [20]), design(burn_in=20))
    assert not (windows.positive | windows.negative | windows.monitored).any()


def test_absent_checkpoints_have_no_label() -> None:
    windows = score_windows(scores_of([[0.0] * 12, [0.0] * 6], [None, None]), design())
    # The short run ends at 50: 50 - 10 - 40 = 0.
    assert steps_where(windows.negative, 1) == [0]


def test_nan_in_a_labelled_window_names_run_step_and_column() -> None:
    values = [[0.0] * 12, [0.0] * 12]
    values[1][3] = np.nan
    with pytest.raises(InputError, match=r"run 'run_1', step 30: score 'score' is nan"):
        score_windows(scores_of(values, [80, 80]), design())


def test_infinity_is_no_score_either() -> None:
    with pytest.raises(InputError, match=r"step 70: score 'score' is -inf .*x_nan: ignore"):
        score_windows(scores_of([[0.0] * 7 + [-np.inf] + [0.0] * 4], [80]), design())


def test_ignored_nan_windows_are_dropped_and_counted() -> None:
    row = [0.0] * 12
    row[3] = row[5] = row[6] = np.nan  # negative, in the gap, positive
    windows = score_windows(scores_of([row], [80]), design(nan="ignore"))
    assert windows.dropped == 2
    assert steps_where(windows.negative) == [0, 10, 20, 40]
    assert steps_where(windows.positive) == [70]
    assert steps_where(windows.monitored) == [0, 10, 20, 40, 70]


def test_nan_where_nothing_is_labelled_is_no_error() -> None:
    row = [np.nan] + [0.0] * 4 + [np.nan] + [0.0] * 2 + [np.nan] * 4
    windows = score_windows(scores_of([row], [80]), design(burn_in=10))
    assert windows.dropped == 0


@pytest.mark.parametrize("horizon", [40, 50])
def test_a_horizon_that_reaches_the_gap_is_refused(horizon: int) -> None:
    with pytest.raises(InputError, match=rf"safe gap 40 must be larger than horizon {horizon}"):
        score_windows(scores_of([[0.0] * 12], [80]), design(horizon=horizon))


@given(
    event=st.one_of(st.none(), st.integers(0, 40)),
    horizon=st.integers(1, 10),
    extra=st.integers(1, 10),
    burn_in=st.integers(0, 60),
)
def test_no_window_is_both_and_all_lie_where_they_may(
    event: int | None, horizon: int, extra: int, burn_in: int
) -> None:
    chosen = design(horizon=10 * horizon, safe_gap=10 * (horizon + extra), burn_in=burn_in)
    scores = scores_of([[0.0] * 41], [None if event is None else 10 * event])
    windows = score_windows(scores, chosen)
    assert not (windows.positive & windows.negative).any()
    assert not ((windows.positive | windows.negative) & ~windows.monitored).any()
    labelled = scores.steps[windows.monitored]
    assert (labelled >= burn_in).all()
    if event is not None:
        assert (labelled < 10 * event).all()
