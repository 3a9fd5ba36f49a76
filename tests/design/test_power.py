"""The formulas of a plan, against sums written out and against what they must do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom, binom

from gmb_hf.base.stats import IntervalRecord, exact_binomial
from gmb_hf.core.thresholds import promise
from gmb_hf.design.power import (
    Assumed,
    Goal,
    RunsAssumed,
    RunsGoal,
    draws_needed,
    plan,
    plan_by_runs,
    power_by_runs,
    power_of,
    power_of_coverage,
    power_of_rate,
    runs_for,
    runs_to_clear,
    runs_to_events,
    runs_to_settle,
)


def simulated(goal: RunsGoal, truth: RunsAssumed, m: int, n: int, shown: bool) -> list[bool]:
    """Whether each of 2,000 made-up verdicts by runs supports the score, by the verdict's rules."""
    rng, found = np.random.default_rng(7), []
    k = promise(goal.budget, m, goal.calibration).rank
    for _ in range(2000):
        rate = 1 - np.sort(rng.random(m))[k - 1]  # scores of runs are uniform
        with_negatives = math.floor(n * truth.negative_share)
        events = rng.binomial(n, truth.event_share)
        detected = rng.binomial(events, truth.detection)
        false = exact_binomial(rng.binomial(with_negatives, rate), with_negatives)
        met = false.high <= goal.line if shown else false.low <= goal.budget
        p_value = binom.sf(detected - 1, events, truth.chance)
        enough = events >= goal.event_count_min and detected > 0
        enough = enough and exact_binomial(detected, events).low >= goal.detection_min
        found.append(bool(met and enough and p_value <= goal.alpha / goal.candidates))
    return found


@pytest.mark.parametrize(
    ("m", "n", "shown", "changes"),
    [
        (19, 60, False, {}),
        (39, 90, False, {"calibration": "marginal", "candidates": 30}),
        (45, 60, False, {"calibration": "conditional", "detection_min": 0.4}),
        (99, 400, True, {"budget": 0.1}),
    ],
)
def test_a_plan_by_runs_has_the_power_that_a_simulation_has(
    m: int, n: int, shown: bool, changes: dict[str, Any]
) -> None:
    goal = RunsGoal(**changes)
    truth = RunsAssumed(detection=0.5, event_share=0.9, negative_share=0.75, chance=0.2)
    power = power_by_runs(goal, truth, m, n, shown=shown)
    share = np.mean(simulated(goal, truth, m, n, shown))
    assert 0.05 < power < 0.995
    assert share == pytest.approx(power, abs=4 * math.sqrt(0.25 / 2000))


def test_a_plan_by_runs_is_the_least_that_has_the_power() -> None:
    goal = RunsGoal()
    truth = RunsAssumed(detection=0.5, event_share=0.9, negative_share=0.75, chance=0.2)
    found = plan_by_runs(goal, lambda m: truth)
    assert [row.calibration for row in found.rows] == [19, 39, 59, 99, 199, 399]
    assert found.rows[0].upper > 2 * goal.budget
    assert found.chosen is found.rows[1]
    for row in found.rows[:2]:
        assert row.held_out is not None
        assert power_by_runs(goal, truth, row.calibration, row.held_out) >= goal.power
        assert power_by_runs(goal, truth, row.calibration, row.held_out - 1) < goal.power
    assert found.rows[0].transfer is None  # the rate of so few is too often above the line
    hopeless = plan_by_runs(goal, lambda m: replace(truth, chance=0.6))
    assert hopeless.chosen is None
    assert (
        plan_by_runs(replace(goal, calibration="conditional"), lambda m: truth).rows[0].calibration
        == 45
    )


def assumed(**changes: Any) -> Assumed:
    settings: dict[str, Any] = {
        "coverage": 0.5,
        "event_share": 0.9,
        "negative_share": 0.75,
    }
    return Assumed(**{**settings, **changes})


def test_the_draws_that_holm_asks_for() -> None:
    # (1 + 0) / (1 + draws) times the number of candidates must not exceed alpha.
    assert [draws_needed(count, 0.05) for count in (1, 2, 30, 40)] == [19, 39, 599, 799]
    assert draws_needed(1, 0.025) == 39


@pytest.mark.parametrize(
    ("count", "share", "power"), [(95, 0.75, 0.8), (19, 0.9, 0.95), (1, 1, 0.5)]
)
def test_runs_to_train_for_so_many_with_negative_windows(
    count: int, share: float, power: float
) -> None:
    n = runs_for(count, share, power)
    assert binom.sf(count - 1, n, share) >= power
    assert n == count or binom.sf(count - 1, n - 1, share) < power


def covers(k: int, events: int, minimum: float) -> bool:
    """Whether the bootstrap interval of k of n events ends at or above the minimum."""
    return bool(binom.ppf(0.025, events, k / events) / events >= minimum - 1e-12)


@pytest.mark.parametrize(
    ("n", "coverage", "minimum"), [(40, 0.5, 0.3), (33, 0.6, 0.4), (50, 1, 0.3)]
)
def test_the_power_of_coverage_is_the_sum_over_events_and_covered_ones(
    n: int, coverage: float, minimum: float
) -> None:
    goal, share, expected = Goal(coverage_min=minimum), 0.9, 0.0
    for events in range(goal.event_count_min, n + 1):
        good = [k for k in range(1, events + 1) if covers(k, events, minimum)]
        expected += binom.pmf(events, n, share) * binom.pmf(good, events, coverage).sum()
    found = power_of_coverage(goal, assumed(coverage=coverage, event_share=share), n)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("chance", [0.2, 0.45])
@pytest.mark.parametrize("candidates", [1, 30])
def test_chance_must_be_beaten_as_well(chance: float, candidates: int) -> None:
    goal, n, expected = Goal(candidates=candidates), 60, 0.0
    for events in range(30, n + 1):
        counts = np.arange(1, events + 1)
        rare = binom.sf(counts - 1, events, chance) <= 0.05 / candidates
        wide = np.array([covers(int(k), events, 0.3) for k in counts])
        expected += binom.pmf(events, n, 0.9) * binom.pmf(counts[rare & wide], events, 0.6).sum()
    found = power_of_coverage(goal, assumed(coverage=0.6, chance=chance), n)
    assert found == pytest.approx(expected, abs=1e-9)


def test_too_few_runs_have_no_power_at_all() -> None:
    goal = Goal()
    assert power_of_coverage(goal, assumed(), 29) == 0  # fewer events than are asked for
    assert power_of(goal, assumed(), 18, 10_000) == 0  # no finite threshold
    by_runs, truth = RunsGoal(), RunsAssumed(0.5, 0.9, 0.75)
    assert power_of_rate(by_runs, 18, 1000) == 0
    assert power_of_rate(by_runs, 39, 0) == 0
    assert power_of_rate(by_runs, 399, 47, shown=True) == 0  # silence proves nothing yet
    assert power_of_rate(by_runs, 399, 48, shown=True) > 0
    assert power_by_runs(by_runs, truth, 39, 29) == 0


def test_a_promise_by_windows_asks_held_out_runs_for_coverage_alone() -> None:
    found = plan(Goal(), lambda m: assumed())
    assert len({row.held_out for row in found.rows}) == 1
    for n in (40, 60, 150):
        assert power_of(Goal(), assumed(), 19, n) == power_of_coverage(Goal(), assumed(), n)


@given(n=st.integers(30, 2000), coverage=st.floats(0.45, 1.0), share=st.floats(0.5, 1.0))
def test_a_probability_is_one_and_more_runs_never_hurt(
    n: int, coverage: float, share: float
) -> None:
    truth = assumed(coverage=coverage, event_share=share)
    power = power_of(Goal(), truth, 19, n)
    assert 0 <= power <= 1
    assert power_of(Goal(), truth, 19, 2 * n) >= power - 1e-9


@given(
    m=st.integers(19, 500),
    n=st.integers(1, 500),
    calibration=st.sampled_from(["marginal", "conditional"]),
)
def test_what_is_shown_is_not_refuted(m: int, n: int, calibration: str) -> None:
    goal = RunsGoal(calibration=calibration)
    shown, promised = (power_of_rate(goal, m, n, shown=shown) for shown in (True, False))
    assert -1e-9 <= shown <= promised + 1e-9
    assert promised <= 1 + 1e-9


def test_the_plan_of_round_numbers() -> None:
    found = plan(Goal(), lambda m: assumed())
    assert [row.calibration for row in found.rows] == [19, 38, 95, 190, 380, 760]
    assert found.chosen is not None
    row = found.chosen
    assert row.calibration == 95  # 80% of the budget
    assert row.budgets[0.05] == pytest.approx(0.04)
    assert row.explore == runs_for(95, 0.75, 0.8)
    assert row.held_out is not None
    assert row.total == row.explore + row.held_out
    assert power_of(Goal(), assumed(), 95, row.held_out) >= 0.8
    assert power_of(Goal(), assumed(), 95, row.held_out - 1) < 0.8
    alone = [runs for runs in found.alone.values() if runs is not None]
    assert len(alone) == 2  # events, and coverage
    assert max(alone) <= row.held_out
    assert found.null_draws == 19


def test_no_plan_where_no_number_of_runs_helps() -> None:
    found = plan(Goal(), lambda m: assumed(coverage=0.29))
    assert found.chosen is None
    assert all(row.held_out is None and row.total is None for row in found.rows)
    assert found.alone["coverage surely at least 0.3"] is None
    worse_than_chance = plan(Goal(), lambda m: assumed(chance=0.6))
    assert worse_than_chance.chosen is None
    assert worse_than_chance.alone["better than chance (0.60)"] is None


def test_targets_beside_the_primary_one_take_no_more_runs() -> None:
    """Those that the runs cannot pay for do not count; the others are promised like it."""
    one, three = Goal(), Goal(targets=(0.01, 0.05, 0.1))
    assert power_of(three, assumed(), 95, 150) == power_of(one, assumed(), 95, 150) > 0.5
    row = plan(three, lambda m: assumed()).chosen
    assert row is not None
    assert (row.calibration, row.budgets[0.01]) == (95, 0.0)
    assert row.budgets[0.1] == pytest.approx(0.1 - 0.9 / 95)


def test_the_coverage_may_depend_on_the_rate_that_is_bought() -> None:
    found = plan(Goal(), lambda m: assumed(coverage=0.9 - 10 / m))
    assert [row.coverage for row in found.rows] == [
        0.9 - 10 / row.calibration for row in found.rows
    ]
    assert found.chosen is not None
    assert math.isclose(found.assumed.coverage, found.chosen.coverage)


def test_the_number_of_runs_that_is_said_settles_it() -> None:
    """True shares of any size; the first 40 runs are among those that decide in the end."""
    rng, settled = np.random.default_rng(0), []
    for line, truths in ((0.3, (0.1, 0.6)), (0.075, (0.0, 0.3)), (0.8, (0.5, 1.0))):
        told, said = 0, [runs_to_settle(40, 40, seen / 40, line) for seen in range(41)]
        while told < 200:
            truth = rng.uniform(*truths)
            seen = rng.binomial(40, truth)
            interval = exact_binomial(seen, 40)
            if not interval.low <= line <= interval.high or said[seen] is None:
                continue
            runs = said[seen]
            told += 1
            found = exact_binomial(seen + rng.binomial(runs - 40, truth), runs)
            settled.append(not found.low <= line <= found.high)
    assert np.mean(settled) >= 0.85


def test_the_runs_that_settle_a_share_by_hand() -> None:
    # 0 of 40 lies below .075 for good once 0 to 3 of 115 were seen: P(Bin(115, .075) <= 3) <= .025.
    assert runs_to_settle(40, 40, 0.0, 0.075) == 115
    assert binom.cdf(3, 115, 0.075) <= 0.025 < binom.cdf(4, 115, 0.075)
    # Of the 75 further ones, by Jeffreys' posterior, at most 3 (or more than enough above it).
    above = next(k for k in range(115) if binom.sf(k - 1, 115, 0.075) <= 0.025)
    further = betabinom(75, 0.5, 40.5)
    assert further.cdf(3) + further.sf(above - 1) == pytest.approx(0.92, abs=0.02)
    # On its line, or of one run in 40 that hardly differs from it, nobody knows.
    assert runs_to_settle(40, 40, 0.3, 0.3) is None
    assert runs_to_settle(40, 40, 0.05, 0.075) is None
    assert runs_to_clear(40, 0.3, 0.3, IntervalRecord(low=0.2, high=0.4)) is None
    near = runs_to_clear(40, 0.45, 0.3, IntervalRecord(low=0.3, high=0.6))
    exact = runs_to_settle(40, 40, 0.45, 0.3)
    assert (near, exact) == (244, 235)


def test_the_runs_that_have_events_enough() -> None:
    assert runs_to_events(40, 0, 30) is None
    # 10 more of 28 further runs, of which about half have an event.
    assert runs_to_events(40, 20, 30) == 68
    assert betabinom(28, 20.5, 20.5).sf(9) == pytest.approx(0.9, abs=0.02)
    assert runs_to_events(20, 20, 30) == 31
