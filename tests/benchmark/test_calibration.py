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
from gmb_hf.benchmark.calibration import calibrate
from gmb_hf.benchmark.judgement import Judgement, folds, runs_to_cross_fit
from gmb_hf.benchmark.scores import NegativeScores
from gmb_hf.core.thresholds import conformal_threshold, runs_needed, spec_threshold

TARGETS = st.sampled_from([0.01, 0.05, 0.10, 0.15, 0.2, 0.25, 0.5])


def negatives_of(*runs: list[float]) -> NegativeScores:
    """The negatives of runs whose every window is negative."""
    values = np.concatenate([np.asarray(run, dtype=float) for run in runs])
    run = np.repeat(np.arange(len(runs)), [len(one) for one in runs])
    order = np.argsort(-values, kind="stable")
    return NegativeScores(values[order], run[order], np.array([len(one) for one in runs]))


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


class TestCalibrate:
    def test_locked_thresholds_are_taken_as_they_are(self) -> None:
        scores, locked = scores_of([[1.0], [2.0]], [None, None]), {0.01: 9.0, 0.05: 7.0, 0.1: 5.0}
        found = Judgement(scores, None, design(), locked, calibration_runs=32).calibrated
        assert found.method == "locked"
        assert found.thresholds[0.05].tolist() == [7.0, 7.0]
        assert found.n_runs == 32

    def test_a_missing_locked_target_is_named(self) -> None:
        judgement = Judgement(scores_of([[1.0]], [None]), None, design(), {0.01: 9.0, 0.05: 7.0})
        with pytest.raises(InputError, match=r"no locked threshold for the target 0\.1;.*0\.05"):
            _ = judgement.calibrated

    def test_explore_runs_are_used_when_given(self) -> None:
        explore = negatives_of(*[[float(i)] for i in range(9)])
        found = calibrate("strict", [0.1], negatives_of([50.0], [60.0]), calibration=explore)
        assert found.method == "explore"
        assert found.thresholds[0.1].tolist() == [above(8.0)] * 2
        assert found.n_runs == 9

    def test_the_letter_of_the_spec_calibrates_in_sample(self) -> None:
        found = calibrate("v0.4", [0.5], negatives_of([1.0], [2.0]))
        assert found.method == "in_sample"
        assert found.deployed == {0.5: 2.0}

    def test_cross_fitting_leaves_each_run_out(self) -> None:
        # f = .5: with two other runs, the rates above q may sum up to .5, so q is their maximum.
        found = calibrate("strict", [0.5], negatives_of([1.0], [2.0], [3.0]))
        assert found.method == "cross_run"
        assert found.thresholds[0.5].tolist() == [above(3.0), above(3.0), above(2.0)]
        # All three together: 1 may exceed.
        assert found.deployed == {0.5: above(2.0)}
        assert found.n_runs == 2

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
        before = calibrate("strict", [0.2], negatives_of(*runs)).thresholds[0.2]
        runs[4] = [100.0] * 5
        after = calibrate("strict", [0.2], negatives_of(*runs)).thresholds[0.2]
        assert after[4] == before[4]
        assert (after != before).sum() > 0


class TestJudgement:
    values = np.arange(24.0).reshape(2, 12)

    def test_alarms_are_at_or_above_the_threshold(self) -> None:
        judgement = Judgement(
            scores_of(self.values, [80, None]),
            None,
            design(),
            thresholds=dict.fromkeys((0.01, 0.05, 0.10), 13.0),
        )
        assert np.flatnonzero(judgement.alarms(0.05)).tolist() == list(range(13, 24))

    def test_what_is_not_finite_raises_no_alarm(self) -> None:
        values = self.values.copy()
        values[1, 11] = np.inf
        judgement = Judgement(
            scores_of(values, [80, None]), None, design(), dict.fromkeys((0.01, 0.05, 0.1), 22.0)
        )
        assert judgement.alarms(0.05).sum() == 1

    def test_smoothing_takes_the_thresholds_locked_for_it(self) -> None:
        locked = dict.fromkeys((0.01, 0.05, 0.10), 13.0)
        judgement = Judgement(
            scores_of(self.values, [80, None]), None, design(), locked, {3: {**locked, 0.05: 5.0}}
        )
        assert judgement.smoothed(1) is judgement
        assert judgement.smoothed(3).calibrated.deployed[0.05] == 5.0
        with pytest.raises(InputError, match=r"no locked thresholds for smoothing over 5"):
            judgement.smoothed(5)

    def test_selected_runs_are_judged_by_the_thresholds_they_had(self) -> None:
        rng = np.random.default_rng(0)
        values, events = rng.normal(size=(30, 40)), [*rng.integers(9, 40, 25) * 10, *[None] * 5]
        explore = scores_of(rng.normal(size=(20, 40)), [None] * 20, prefix="explore")
        rows = np.array([3, 29, 7, 11])
        for calibration in (None, explore):
            whole = Judgement(scores_of(values, events), calibration, design(primary_fpr=0.10))
            chosen = whole.select(rows)
            alone = Judgement(whole.evaluation.select(rows), calibration, whole.design)
            assert (chosen.windows.negative == alone.windows.negative).all()
            assert (chosen.negatives.values == alone.negatives.values).all()
            assert (chosen.alarms(0.10) == whole.alarms(0.10)[rows]).all()
