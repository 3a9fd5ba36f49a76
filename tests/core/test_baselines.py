"""Chance baselines of arrays, and what a new one takes: one function for both units."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.core import NULLS, first_alarms, label_windows, register_null, window_alarms
from gmb_hf.core.nulls import (
    Alarms,
    count_tails,
    detects_more,
    drawn_p_value,
    hazard_rate,
    shift_chances,
)
from gmb_hf.core.utility import episode_starts

STEPS = np.arange(0, 120, 10)
LENGTHS = {"horizon": 20.0, "safe_gap": 40.0}
EVENTS = np.array([80.0, 80.0, np.nan])


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(NULLS)
    yield
    NULLS.clear()
    NULLS.update(before)


def both(scores: np.ndarray) -> tuple[Alarms, Alarms]:
    windows = label_windows(STEPS, EVENTS, **LENGTHS)
    arguments = scores, STEPS, EVENTS, 1.0, windows
    return first_alarms(*arguments, **LENGTHS), window_alarms(*arguments, **LENGTHS)


def scores_at(*columns: list[int]) -> np.ndarray:
    scores = np.zeros((3, 12))
    for run, at in enumerate(columns):
        scores[run, at] = 1.0
    return scores


def test_each_unit_has_its_baselines() -> None:
    runs, windows = both(scores_at([6], [], [1]))
    assert list(runs.chances) == ["constant_hazard", "risk_set"]
    assert list(windows.chances) == ["shift", "risk_set"]


def test_a_new_baseline_is_one_function_and_reaches_both_units(registry: None) -> None:
    @register_null("coin", label="a coin")
    def coin(alarms: Alarms) -> np.ndarray:
        return np.where(alarms.has_event, 0.5, np.nan)

    for alarms in both(scores_at([6], [7], [])):
        assert alarms.n_detected == 2
        assert alarms.chances["coin"].tolist() == [0.5, 0.5]
    runs, _ = both(scores_at([6], [7], []))
    assert runs.p_values["coin"] == 0.25  # two heads
    assert runs.p_value == max(runs.p_values.values())


@pytest.mark.parametrize(
    ("name", "stream", "message"),
    [
        ("risk_set", None, "null 'risk_set' is registered already; choose another name"),
        ("a null", None, "null 'a null': the name must be letters, digits and _"),
        ("mine", 3, "null 'mine': stream 3 is that of 'risk_set'; take another"),
    ],
)
def test_what_cannot_be_registered(
    registry: None, name: str, stream: int | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        register_null(name, label="x", stream=stream)(lambda alarms: np.zeros(3))


def test_a_selection_is_judged_as_if_it_were_all() -> None:
    scores = scores_at([6], [2], [1])
    rows = np.array([2, 0])
    for alarms in both(scores):
        windows = label_windows(STEPS, EVENTS[rows], **LENGTHS)
        function = first_alarms if alarms.unit == "runs" else window_alarms
        alone = function(scores[rows], STEPS, EVENTS[rows], 1.0, windows, **LENGTHS)
        some = alarms.select(rows)
        assert some.detected.tolist() == alone.detected.tolist() == [False, True]
        assert (some.n_runs, some.n_events) == (alone.n_runs, alone.n_events) == (2, 1)
        for name, chances in alone.chances.items():
            assert some.chances[name].tolist() == chances.tolist(), name


def test_without_events_there_is_no_baseline() -> None:
    for alarms in both(scores_at([6], [2], [1])):
        none = alarms.select(np.array([2]))
        assert (none.n_events, none.detection_rate, none.chances) == (0, None, {})


def test_rotations_by_hand() -> None:
    # Five rows, an alarm at the second, the last two count: rotations by 2 and by 3 put it there.
    alarms = np.array([[False, True, False, False, False], [True, False, False, True, False]])
    rows, last = np.ones((2, 5), dtype=bool), np.array([2, 2])
    # Alarms at 0 and 3: only that rotation fails which lays both places into the gap of two.
    assert shift_chances(alarms, rows, last) == pytest.approx([2 / 5, 4 / 5])
    assert shift_chances(alarms & False, rows, last).tolist() == [0.0, 0.0]
    every = [np.roll(alarms, by, axis=1)[:, -2:].any(axis=1) for by in range(5)]
    assert np.mean(every, axis=0) == pytest.approx([2 / 5, 4 / 5])


def test_tails_are_exact_and_draws_agree() -> None:
    chances = np.array([0.2, 0.5, np.nan, 0.9])
    known = chances[~np.isnan(chances)]
    # All three: .09; at least two: .09 + .2 x .5 x .1 + .2 x .5 x .9 + .8 x .5 x .9.
    tails = count_tails([known] * 3, [3, 2, 0])
    assert tails == pytest.approx([0.09, 0.09 + 0.01 + 0.09 + 0.36, 1.0])
    drawn = drawn_p_value(chances, 2, draws=20_000, seed=0, stream=3)
    assert drawn == pytest.approx(tails[1], abs=0.015)
    assert drawn == drawn_p_value(chances, 2, draws=20_000, seed=0, stream=3)


def test_more_than_a_control_by_the_discordant_events() -> None:
    ours, theirs = np.array([1, 1, 1, 0, 1], dtype=bool), np.array([0, 0, 0, 1, 1], dtype=bool)
    # Three of four discordant: (4 + 1) / 16.
    assert detects_more(ours, theirs) == pytest.approx(5 / 16)
    assert detects_more(theirs, theirs) == 1.0


def test_episodes() -> None:
    alarms = np.array([[1, 1, 0, 1, 0, 1]], dtype=bool)
    steps = np.arange(0, 60, 10)[None, :]
    assert np.flatnonzero(episode_starts(steps, alarms, 30)[0]).tolist() == [0, 3]
    assert np.flatnonzero(episode_starts(steps, alarms, 20)[0]).tolist() == [0, 3, 5]


@pytest.mark.parametrize("share", [1 / 5000, 0.05, 0.5, 0.999])
def test_the_hazard_rate_gives_the_share(share: float):
    equal = np.full(9, 40.0)
    assert hazard_rate(equal, share) == pytest.approx(-np.log1p(-share) / 40, rel=1e-12)
    mixed = np.array([1.0, 7, 7, 300, 5000])
    rate = hazard_rate(mixed, share)
    assert -np.expm1(-rate * mixed).mean() == pytest.approx(share, rel=1e-12)
