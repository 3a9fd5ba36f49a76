"""The chance nulls against every rotation and every member of the risk set, one by one."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_builders import design, noise_scores, scores_of

from gmb_hf.benchmark import baselines
from gmb_hf.benchmark.judgement import Judgement, Locked
from gmb_hf.benchmark.scores import Scores
from gmb_hf.core.nulls import NULLS, drawn_p_value, risk_set, shift_chances, uniform_draws
from gmb_hf.design.design import Design


def alarming(values: Any, events: Any, tau: float = 1.0, **overrides: Any) -> Judgement:
    chosen = design(**overrides)
    locked = Locked({1: dict.fromkeys(chosen.fpr_targets, tau)})
    return Judgement(scores_of(values, events), locked, chosen)


class Found(NamedTuple):
    detection_rate: float
    fpr: float | None
    p_value: float


def null_of(name: str, judgement: Judgement, target: float, n_covered: int) -> Found | None:
    """A baseline, and its p-value at a number of covered events."""
    record = baselines.by_windows(judgement, target).get(name)
    if record is None:
        return None
    alarms, design = judgement.alarms(target), judgement.design
    p_value = drawn_p_value(
        alarms.of_runs(alarms.chances[name]),
        n_covered,
        draws=design.null_draws,
        seed=design.seed,
        stream=NULLS[name].stream,
    )
    if n_covered == alarms.n_detected:
        assert p_value == record.p_value
    return Found(record.detection_rate, record.fpr, p_value)


shift = partial(null_of, "shift")
at_random = partial(null_of, "risk_set")


def at_risk(judgement: Judgement) -> np.ndarray:
    return risk_set(judgement.alarms(0.05))


class TestShift:
    def test_one_alarm_covers_as_often_as_the_horizon_is_long(self) -> None:
        # Eight rows 0..70 before t* = 80, the horizon holds the last two.
        judgement = alarming([[0, 1, 0, 0, 0, 0, 0, 0, 1, 1]], [80])
        null = shift(judgement, 0.05, n_covered=0)
        assert null is not None
        assert null.detection_rate == pytest.approx(2 / 8)
        # Five negatives, each alarmed in one rotation of eight.
        assert null.fpr == pytest.approx(1 / 8)
        assert null.p_value == 1.0

    def test_rows_before_burn_in_and_from_the_event_on_stay_out(self) -> None:
        judgement = alarming([[1, 1, 0, 0, 0, 0, 0, 0, 1, 1]], [80], burn_in=20)
        null = shift(judgement, 0.05, n_covered=1)
        assert null is not None
        assert null.detection_rate == 0.0
        assert null.p_value == 1 / 2001

    def test_a_run_without_event_costs_but_covers_nothing(self) -> None:
        judgement = alarming([[0] * 10, [1, 0, 0, 0, 0] + [1] * 5], [80, None])
        null = shift(judgement, 0.05, n_covered=0)
        assert null is not None
        assert null.detection_rate == 0.0
        # Run 1 has the negatives 0..40, one of them alarmed; run 0 none.
        assert null.fpr == pytest.approx((0 + 1 / 5) / 2)

    def test_no_events_no_null(self) -> None:
        judgement = alarming([[0] * 10], [None])
        assert shift(judgement, 0.05, 0) is None
        assert at_random(judgement, 0.05, 0) is None

    def test_dropped_windows_are_no_rows(self) -> None:
        row = [0, 1, 0, 0, np.nan, np.nan, 0, 0, 1, 1]
        judgement = alarming([row], [80], nan="ignore")
        null = shift(judgement, 0.05, 0)
        assert null is not None
        assert null.detection_rate == pytest.approx(2 / 6)

    @given(st.integers(0, 100_000))
    def test_equals_counting_every_rotation(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n_runs, width = int(rng.integers(1, 5)), int(rng.integers(1, 12))
        alarms = rng.random((n_runs, width)) < rng.choice([0.1, 0.5, 0.9])
        rows = rng.random((n_runs, width)) < 0.8
        n_last = np.minimum(rng.integers(0, 5, n_runs), rows.sum(axis=1))
        found = shift_chances(alarms, rows, n_last)
        for run in range(n_runs):
            line = alarms[run][rows[run]]
            hits = [
                np.roll(line, offset)[len(line) - n_last[run] :].any()
                for offset in range(len(line))
            ]
            assert found[run] == pytest.approx(np.mean(hits) if hits else 0.0)

    def test_the_draws_follow_the_rotations(self) -> None:
        """Drawing offsets outright gives the p-value that the chances give."""
        rng = np.random.default_rng(2)
        judgement = Judgement(
            noise_scores(30, 60, rng), None, design(horizon=80, safe_gap=120, primary_fpr=0.1)
        )
        alarms, windows = judgement.alarms(0.10).grid.alarm, judgement.windows
        totals = np.zeros(4000, dtype=int)
        for run in range(30):
            line = alarms[run][windows.monitored[run]]
            last = int(windows.positive[run].sum())
            rotations = [np.roll(line, offset) for offset in range(len(line))]
            covers = np.array([one[len(line) - last :].any() for one in rotations])
            totals += covers[rng.integers(0, len(line), 4000)]
        for n_covered in (int(totals.mean()), int(totals.mean()) + 3):
            null = shift(judgement, 0.10, n_covered)
            assert null is not None
            assert null.detection_rate == pytest.approx(totals.mean() / 30, abs=0.01)
            assert null.p_value == pytest.approx((totals >= n_covered).mean(), abs=0.04)


class TestRiskSet:
    # t* = 40, 60, none; alarms of run 0 in [20, 40), of run 1 in [20, 40) and none in [40, 60),
    # of run 2 in [40, 60).
    values = (
        (0, 0, 1, 0, 0, 0, 0, 0, 0, 0),
        (0, 0, 0, 1, 0, 0, 0, 0, 0, 0),
        (0, 0, 0, 0, 1, 0, 0, 0, 0, 0),
    )

    def test_by_hand(self) -> None:
        judgement = alarming(self.values, [40, 60, None])
        null = at_random(judgement, 0.05, n_covered=1)
        assert null is not None
        # Event of run 0: runs 0, 1, 2 at risk, two alarm in [20, 40). Event of run 1: runs 1, 2.
        assert null.detection_rate == pytest.approx((2 / 3 + 1 / 2) / 2)
        assert null.p_value == pytest.approx(1 - (1 / 3) * (1 / 2), abs=0.03)

    def test_a_run_that_ended_is_not_at_risk(self) -> None:
        judgement = alarming([*self.values[:2], self.values[2][:6]], [40, 60, None])
        chances = at_risk(judgement)
        assert chances[:2].tolist() == pytest.approx([2 / 3, 0.0])
        assert np.isnan(chances[2])

    def test_equal_events_are_in_each_others_risk_sets(self) -> None:
        judgement = alarming([[0, 0, 1, 0, 0], [0] * 5], [40, 40])
        assert at_risk(judgement).tolist() == [0.5, 0.5]

    def test_an_event_in_burn_in_has_no_horizon(self) -> None:
        judgement = alarming(self.values, [40, 60, None], burn_in=50)
        chances = at_risk(judgement)
        assert chances[0] == 0.0
        # Only [50, 60) is left of the second horizon, and nothing alarms there.
        assert chances[1] == 0.0

    def test_the_clock_is_no_better_than_chance(self) -> None:
        rng = np.random.default_rng(0)
        events = 10.0 * rng.integers(20, 60, size=60)
        judgement = alarming(np.tile(np.arange(60.0) * 10, (60, 1)), list(events), 350.0)
        covered = int(((events > 350) & (events <= 590)).sum())
        null = at_random(judgement, 0.05, covered)
        assert null is not None
        assert null.p_value > 0.9

    @given(st.integers(0, 100_000))
    def test_equals_asking_every_run(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n_runs = int(rng.integers(1, 6))
        lengths = rng.integers(2, 14, n_runs)
        values = [list((rng.random(n) < 0.3).astype(float)) for n in lengths]
        # A run whose log ends before its event is in its own risk set all the same.
        beyond = 3 * int(rng.random() < 0.2)
        ends = lengths + beyond
        events = [None if rng.random() < 0.3 else 10.0 * int(rng.integers(0, n)) for n in ends]
        chosen = design(horizon=30, safe_gap=50, burn_in=int(rng.integers(0, 40)))
        scores = scores_of(values, events)
        locked = Locked({1: dict.fromkeys(chosen.fpr_targets, 1.0)})
        judgement = Judgement(scores, locked, chosen)
        found = at_risk(judgement)
        for run, event in enumerate(events):
            if event is None:
                assert np.isnan(found[run])
            else:
                assert found[run] == _asked(scores, run, event, chosen)


def _asked(scores: Scores, own: int, event: float, design: Design) -> float:
    answers = []
    for run in range(scores.n_runs):
        steps = scores.steps[run][scores.present[run]]
        if run != own and (scores.event_step[run] < event or steps[-1] < event):
            continue
        start = max(event - design.horizon, design.burn_in)
        answers.append(
            any(
                value >= 1 and start <= step < event
                for step, value in zip(steps, scores.values[run], strict=False)
            )
        )
    return float(np.mean(answers))


def test_draws_depend_on_the_seed_and_nothing_else() -> None:
    draws = uniform_draws(5, 100, 7, 2)
    assert np.array_equal(draws, uniform_draws.__wrapped__(5, 100, 7, 2))
    assert not np.array_equal(draws, uniform_draws(5, 100, 8, 2))
    assert not np.array_equal(draws, uniform_draws(5, 100, 7, 3))
    with pytest.raises(ValueError, match="read-only"):
        draws[0, 0] = 0
