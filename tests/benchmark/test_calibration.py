"""Thresholds by hand, against brute force in exact fractions, and the budget that they keep."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_builders import design, judged, scores_of

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.judgement import (
    Calibration,
    Judgement,
    Locked,
    Source,
    folds,
    runs_to_cross_fit,
)
from gmb_hf.benchmark.scores import Scores
from gmb_hf.core.thresholds import (
    Negatives,
    conformal_threshold,
    run_maxima,
    run_threshold,
    runs_needed,
    spec_threshold,
)

TARGETS = st.sampled_from([0.01, 0.05, 0.10, 0.15, 0.2, 0.25, 0.5])


def negatives_of(*runs: list[float]) -> Negatives:
    """The negatives of runs whose every window is negative."""
    values = np.concatenate([np.asarray(run, dtype=float) for run in runs])
    run = np.repeat(np.arange(len(runs)), [len(one) for one in runs])
    order = np.argsort(-values, kind="stable")
    return Negatives(values[order], run[order], np.array([len(one) for one in runs]))


def above(value: float) -> float:
    return float(np.nextafter(value, math.inf))


class TestNegatives:
    def test_collects_the_negative_windows_in_order(self) -> None:
        judgement = judged([[3.0, 1.0, 2.0] + [9.0] * 9, [4.0] + [9.0] * 5], [60, None])
        negatives = judgement.negatives
        # Run 0: steps 0, 10, 20; run 1 ends at 50, so only step 0.
        assert negatives.values.tolist() == [4.0, 3.0, 2.0, 1.0]
        assert negatives.run.tolist() == [1, 0, 0, 0]
        assert negatives.counts.tolist() == [3, 1]

    def test_rates_at_each_distinct_score(self) -> None:
        negatives = negatives_of([3.0, 3.0, 1.0, 1.0], [3.0, 2.0])
        assert negatives.distinct.tolist() == [3.0, 2.0, 1.0]
        assert negatives.rates(per_run=False).tolist() == [3 / 6, 4 / 6, 1.0]
        assert negatives.rates(per_run=True).tolist() == [0.5, 0.75, 1.0]

    def test_selecting_runs_equals_starting_with_them(self) -> None:
        runs = [[3.0, 1.0], [3.0], [], [2.0, 5.0, 1.0]]
        chosen = negatives_of(*runs).select(np.array([3, 0, 2]))
        direct = negatives_of(runs[3], runs[0], runs[2])
        assert chosen.values.tolist() == direct.values.tolist()
        assert sorted(zip(chosen.values, chosen.run, strict=True)) == sorted(
            zip(direct.values, direct.run, strict=True)
        )
        assert chosen.counts.tolist() == direct.counts.tolist()


class TestSpec:
    ten = negatives_of([float(v) for v in range(1, 11)])

    @pytest.mark.parametrize(
        ("target", "threshold"),
        [
            (0.10, 10.0),
            (0.11, 10.0),
            (0.16, 9.0),
            (0.05, math.inf),  # 0 and .1 are equally near: the smaller rate
            (0.15, 10.0),  # .1 and .2 are equally near, whatever floats say
            (0.35, 8.0),
            (0.99, 1.0),
        ],
    )
    def test_by_hand(self, target: float, threshold: float) -> None:
        assert spec_threshold(self.ten, target) == threshold

    def test_a_tie_may_leave_only_infinity(self) -> None:
        two_valued = negatives_of([0.0] * 6 + [1.0] * 4)
        assert spec_threshold(two_valued, 0.10) == math.inf
        assert spec_threshold(two_valued, 0.25) == 1.0

    def test_no_negatives(self) -> None:
        assert spec_threshold(negatives_of([]), 0.1) == math.inf

    @given(st.lists(st.integers(0, 6), min_size=1, max_size=40), TARGETS)
    def test_brute_force(self, values: list[int], target: float) -> None:
        n, wanted = len(values), Fraction(str(target))
        candidates = [*sorted(set(values)), math.inf]
        rate = {tau: Fraction(sum(v >= tau for v in values), n) for tau in candidates}
        best = min(candidates, key=lambda tau: (abs(rate[tau] - wanted), rate[tau]))
        assert spec_threshold(negatives_of([float(v) for v in values]), target) == best


class TestConformal:
    @pytest.mark.parametrize(("target", "m"), [(0.05, 19), (0.10, 9), (0.01, 99), (0.2, 4)])
    def test_the_fewest_runs_that_give_a_threshold(self, target: float, m: int) -> None:
        assert runs_needed(target) == m
        enough = negatives_of(*[[float(i)] for i in range(m)])
        assert conformal_threshold(enough, target) == above(m - 1.0)
        assert conformal_threshold(negatives_of(*[[1.0]] * (m - 1)), target) == math.inf

    def test_one_run_more_than_the_least_may_exceed(self) -> None:
        # m = 39 at f = .05: the rates above q may sum up to .05 * 40 - 1 = 1.
        negatives = negatives_of(*[[float(i)] for i in range(1, 40)])
        assert conformal_threshold(negatives, 0.05) == above(38.0)

    def test_a_long_run_weighs_no_more_than_a_short_one(self) -> None:
        # f = .5, m = 3: rates above q may sum up to 1, which the long run alone may use.
        negatives = negatives_of([9.0] * 100, [1.0], [2.0])
        assert conformal_threshold(negatives, 0.5) == above(2.0)

    def test_runs_without_negatives_do_not_count(self) -> None:
        negatives = negatives_of(*[[float(i)] for i in range(18)], [])
        assert conformal_threshold(negatives, 0.05) == math.inf

    @given(
        st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=25),
        TARGETS,
    )
    def test_brute_force(self, runs: list[list[int]], target: float) -> None:
        weighted = [(v, Fraction(1, len(run))) for run in runs for v in run]
        m = sum(1 for run in runs if run)
        wanted = 1 - Fraction(str(target))
        expected = math.inf
        for value in sorted({v for v, _ in weighted}, reverse=True):
            if sum(w for v, w in weighted if v <= value) / (m + 1) >= wanted:
                expected = above(float(value))
        found = conformal_threshold(negatives_of(*[[float(v) for v in r] for r in runs]), target)
        assert found == expected

    @pytest.mark.parametrize("m", [19, 32, 100])
    @pytest.mark.parametrize("law", ["continuous", "two-valued"])
    def test_the_budget_holds_on_fresh_runs_of_the_same_law(self, m: int, law: str) -> None:
        rng, target, repeats, fresh = np.random.default_rng(m), 0.05, 150, 50

        def runs(n: int) -> list[list[float]]:
            level = rng.normal(size=n)
            lengths = rng.integers(3, 40, size=n)
            drawn = [level[i] + 0.7 * rng.normal(size=lengths[i]) for i in range(n)]
            return [
                list(values if law == "continuous" else (values > 2.5).astype(float))
                for values in drawn
            ]

        achieved = []
        for _ in range(repeats):
            tau = conformal_threshold(negatives_of(*runs(m)), target)
            achieved.append(np.mean([np.mean(np.array(run) >= tau) for run in runs(fresh)]))
        error = np.std(achieved, ddof=1) / math.sqrt(repeats)
        assert np.mean(achieved) <= target + 2 * error
        if law == "continuous":
            assert np.mean(achieved) >= target - 2 / (m + 1)


def all_negative(*runs: list[float], prefix: str = "run") -> Scores:
    """Runs without an event whose windows are negative, but for the five that close each log."""
    return scores_of([[*run, *[0.0] * 5] for run in runs], [None] * len(runs), prefix=prefix)


def calibrated(
    protocol: str, targets: list[float], judged: Scores, source: Source = None
) -> Calibration:
    """By windows."""
    chosen = design(
        protocol=protocol, fpr_targets=targets, primary_fpr=targets[0], min_targets_ok=1
    )
    return Judgement(judged, source, chosen).calibrated


class TestCalibrate:
    def test_locked_thresholds_are_taken_as_they_are(self) -> None:
        scores, locked = scores_of([[1.0], [2.0]], [None, None]), {0.01: 9.0, 0.05: 7.0, 0.1: 5.0}
        found = Judgement(scores, Locked({1: locked}, n_runs=32), design()).calibrated
        assert found.method == "locked"
        assert found.thresholds[0.05].tolist() == [7.0, 7.0]
        assert found.n_runs == 32

    def test_a_missing_locked_target_is_named(self) -> None:
        locked = Locked({1: {0.01: 9.0, 0.05: 7.0}})
        judgement = Judgement(scores_of([[1.0]], [None]), locked, design())
        with pytest.raises(InputError, match=r"no locked threshold for the target 0\.1;.*0\.05"):
            _ = judgement.calibrated

    def test_a_missing_locked_budget_of_runs_is_named(self) -> None:
        locked = Locked({}, {1: {0.05: 7.0, 0.2: 1.0}})
        judgement = Judgement(scores_of([[1.0]], [None]), locked, design())
        with pytest.raises(InputError, match=r"for the run budget 0\.1; .* for 0\.05, 0\.2"):
            _ = judgement.run_calibrated

    def test_explore_runs_are_used_when_given(self) -> None:
        explore = all_negative(*[[float(i)] for i in range(9)], prefix="explore")
        found = calibrated("strict", [0.1], all_negative([50.0], [60.0]), explore)
        assert found.method == "explore"
        assert found.thresholds[0.1].tolist() == [above(8.0)] * 2
        assert found.n_runs == 9

    def test_explore_runs_give_the_thresholds_of_first_alarms_too(self) -> None:
        explore = all_negative(*[[0.0, float(i), 0.0] for i in range(9)], prefix="explore")
        chosen = design(run_budgets=[0.1], primary_run_budget=0.1, min_targets_ok=1)
        found = Judgement(all_negative([50.0], [60.0]), explore, chosen).run_calibrated
        assert (found.method, found.n_runs) == ("explore", 9)
        assert found.thresholds[0.1].tolist() == [above(8.0)] * 2

    @pytest.mark.parametrize("source", [None, "in_sample"])
    def test_the_letter_of_the_spec_calibrates_in_sample(self, source: Source) -> None:
        found = calibrated("v0.4", [0.5], all_negative([1.0], [2.0]), source)
        assert found.method == "in_sample"
        assert found.deployed == {0.5: 2.0}

    def test_the_letter_of_the_spec_can_be_cross_fitted(self) -> None:
        # Each run by the other alone: of one negative, nothing and all are equally near to half.
        found = calibrated("v0.4", [0.5], all_negative([1.0], [2.0]), "cross_run")
        assert found.method == "cross_run"
        assert found.thresholds[0.5].tolist() == [math.inf, math.inf]
        assert found.deployed == {0.5: 2.0}

    def test_cross_fitting_leaves_each_run_out(self) -> None:
        # f = .5: with two other runs, the rates above q may sum up to .5, so q is their maximum.
        found = calibrated("strict", [0.5], all_negative([1.0], [2.0], [3.0]))
        assert found.method == "cross_run"
        assert found.thresholds[0.5].tolist() == [above(3.0), above(3.0), above(2.0)]
        # All three together: 1 may exceed.
        assert found.deployed == {0.5: above(2.0)}
        assert found.n_runs == 2

    def test_first_alarms_are_cross_fitted_likewise(self) -> None:
        # At .4: k = ceil(.6 x 3) = 2 of the two others; of all three, ceil(.6 x 4) = 3.
        chosen = design(run_budgets=[0.4], primary_run_budget=0.4, min_targets_ok=1)
        scores = all_negative([1.0, 0.0], [2.0], [0.0, 3.0])
        found = Judgement(scores, None, chosen).run_calibrated
        assert found.method == "cross_run"
        assert found.thresholds[0.4].tolist() == [above(3.0), above(3.0), above(2.0)]
        assert (found.deployed, found.n_runs) == ({0.4: above(3.0)}, 2)

    @pytest.mark.parametrize(
        ("source", "basis"),
        [
            (None, "shown"),
            ("cross_run", "shown"),
            ("in_sample", "shown"),
            (Locked({}), "promised"),
            (all_negative([1.0], prefix="explore"), "promised"),
        ],
    )
    def test_only_other_runs_promise_a_budget(self, source: Source, basis: str) -> None:
        assert Judgement(all_negative([1.0]), source, design()).basis == basis

    def test_folds(self) -> None:
        assert folds(40).tolist() == list(range(40))
        assert np.bincount(folds(41)).tolist() == [5] + [4] * 9

    @pytest.mark.parametrize("needed", [1, 19, 38, 39, 40, 41, 44, 45, 99, 100])
    def test_the_fewest_runs_that_leave_enough_outside_every_fold(self, needed: int) -> None:
        def outside(n_runs: int) -> int:
            return n_runs - int(np.bincount(folds(n_runs)).max())

        found = runs_to_cross_fit(needed)
        assert outside(found) >= needed
        assert all(outside(fewer) < needed for fewer in range(1, found))

    def test_a_target_of_a_hundredth_takes_a_hundred_and_ten_runs(self) -> None:
        assert (runs_to_cross_fit(19), runs_to_cross_fit(99)) == (20, 110)

    def test_a_run_never_sees_its_own_scores(self) -> None:
        rng = np.random.default_rng(3)
        runs = [list(rng.normal(size=5)) for _ in range(12)]
        before = calibrated("strict", [0.2], all_negative(*runs)).thresholds[0.2]
        runs[4] = [100.0] * 5
        after = calibrated("strict", [0.2], all_negative(*runs)).thresholds[0.2]
        assert after[4] == before[4]
        assert (after != before).sum() > 0


class TestJudgement:
    values = np.arange(24.0).reshape(2, 12)

    def judgement(self, values: np.ndarray, **of_lengths: dict[float, float]) -> Judgement:
        locked = {int(name[1:]): thresholds for name, thresholds in of_lengths.items()}
        return Judgement(scores_of(values, [80, None]), Locked(locked), design())

    def test_alarms_are_at_or_above_the_threshold(self) -> None:
        judgement = self.judgement(self.values, _1=dict.fromkeys((0.01, 0.05, 0.10), 13.0))
        alarms = judgement.alarms(0.05).grid.alarm
        assert np.flatnonzero(alarms).tolist() == list(range(13, 24))

    def test_what_is_not_finite_raises_no_alarm(self) -> None:
        values = self.values.copy()
        values[1, 11] = np.inf
        judgement = self.judgement(values, _1=dict.fromkeys((0.01, 0.05, 0.10), 22.0))
        assert judgement.alarms(0.05).grid.alarm.sum() == 1

    def test_smoothing_takes_the_thresholds_locked_for_it(self) -> None:
        locked = dict.fromkeys((0.01, 0.05, 0.10), 13.0)
        judgement = self.judgement(self.values, _1=locked, _3={**locked, 0.05: 5.0})
        assert judgement.smoothed(1) is judgement
        assert judgement.smoothed(3).calibrated.deployed[0.05] == 5.0
        assert judgement.smoothed(3) is judgement.smoothed(3)
        with pytest.raises(InputError, match=r"no locked thresholds for smoothing over 5"):
            judgement.smoothed(5)

    def test_selected_runs_are_judged_by_the_thresholds_they_had(self) -> None:
        rng = np.random.default_rng(0)
        values, events = rng.normal(size=(30, 40)), [*rng.integers(9, 40, 25) * 10, *[None] * 5]
        explore = scores_of(rng.normal(size=(20, 40)), [None] * 20, prefix="explore")
        rows = np.array([3, 29, 7, 11])
        for source in (None, explore):
            whole = Judgement(scores_of(values, events), source, design(primary_fpr=0.10))
            chosen = whole.select(rows)
            alone = Judgement(whole.evaluation.select(rows), source, whole.design)
            assert chosen.n_runs == alone.n_runs == 4
            assert chosen.n_events == alone.n_events == 3
            assert chosen.evaluation.runs == alone.evaluation.runs
            assert (chosen.windows.negative == alone.windows.negative).all()
            assert (chosen.negatives.values == alone.negatives.values).all()
            assert np.array_equal(chosen.maxima, alone.maxima, equal_nan=True)
            assert all(map(np.array_equal, chosen.tops, alone.tops))
            assert chosen.basis == whole.basis
            for by_all, by_some in (
                (whole.calibrated.thresholds[0.1], chosen.calibrated.thresholds[0.1]),
                (whole.run_calibrated.thresholds[0.05], chosen.run_calibrated.thresholds[0.05]),
                (whole.alarms(0.1).detected, chosen.alarms(0.1).detected),
                (whole.alarms(0.1).false_alarm_rates, chosen.alarms(0.1).false_alarm_rates),
                (whole.first_alarms(0.05).step, chosen.first_alarms(0.05).step),
            ):
                assert np.array_equal(by_all[rows], by_some, equal_nan=True)

    def test_a_part_of_a_part_is_a_part_of_the_whole(self) -> None:
        rng = np.random.default_rng(1)
        whole = Judgement(scores_of(rng.normal(size=(30, 40)), [300] * 30), None, design())
        part = whole.select(np.arange(5, 25)).select(np.array([3, 0]))
        assert part.evaluation.runs == ("run_8", "run_5")
        assert np.array_equal(part.smoothed(3).maxima, whole.smoothed(3).maxima[[8, 5]])

    def test_in_sample_calibrates_on_the_chosen_runs_alone(self) -> None:
        rng = np.random.default_rng(2)
        chosen = design(protocol="v0.4")
        whole = Judgement(scores_of(rng.normal(size=(30, 40)), [300] * 30), "in_sample", chosen)
        rows = np.arange(7)
        alone = Judgement(whole.evaluation.select(rows), "in_sample", chosen)
        assert whole.select(rows).calibrated.deployed == alone.calibrated.deployed


def test_a_published_rule_is_calibrated_by_nobody() -> None:
    judgement = Judgement(all_negative([0.0, 1.0]), None, design(), basis="rule")
    found = judgement.run_calibrated
    assert set(found.deployed.values()) == {0.5}
    assert found.n_runs is None


def test_run_thresholds_come_from_the_greatest_negative_of_each_run() -> None:
    scores = scores_of([[3.0, 7.0, 1.0] + [9.0] * 9, [4.0] + [9.0] * 5, [0.0] * 3], [60, None, 20])
    judgement = Judgement(scores, None, design())
    # Steps 0, 10, 20 of run 0; step 0 of run 1, which ends at 50; none of run 2.
    assert np.array_equal(judgement.maxima, [7.0, 4.0, np.nan], equal_nan=True)
    maxima = run_maxima(scores.values, judgement.windows.negative)
    assert np.array_equal(maxima, judgement.maxima, equal_nan=True)
    assert run_threshold(maxima, 0.5) == above(7.0)
