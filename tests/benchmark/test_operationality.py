"""Layer B by hand: what is achieved, what is met, and the floor with its certificate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from score_builders import design, noise_scores, scores_of

from gmb_hf.base.stats import exact_binomial
from gmb_hf.benchmark.judgement import Basis, Judgement, Locked
from gmb_hf.benchmark.operationality import (
    LayerBRecord,
    bootstrap_rate,
    layer_b,
)
from gmb_hf.benchmark.verdict import judge
from gmb_hf.core.thresholds import pass_line

ALL_TARGETS = (0.01, 0.05, 0.10)


def locked(
    values: Any, events: Any, tau: float, basis: Basis = "shown", **overrides: Any
) -> Judgement:
    """Judge by one threshold for every target."""
    chosen = design(**overrides)
    thresholds = Locked({1: dict.fromkeys(chosen.fpr_targets, tau)})
    return Judgement(scores_of(values, events), thresholds, chosen, basis=basis)


def within(layer: LayerBRecord) -> int:
    """How many targets are within their budget by the point."""
    return sum(bool(row.x_within_budget) for row in layer.achieved)


# Run 0 has negatives at 0..40 (five), run 1 at 0, 10 (two).
TWO_RUNS = [[0, 9, 0, 0, 0, 5, 7, 7, 0, 0], [9, 0, 1, 1, 7, 7, 0, 0, 0, 0]]
EVENTS = [80, 50]


def test_runs_are_the_units_in_strict_and_windows_in_the_letter() -> None:
    strict = layer_b(locked(TWO_RUNS, EVENTS, 9.0)).at(0.10)
    letter = layer_b(locked(TWO_RUNS, EVENTS, 9.0, protocol="v0.4")).at(0.10)
    assert strict.achieved == pytest.approx((1 / 5 + 1 / 2) / 2)
    assert letter.achieved == strict.x_achieved_pooled == pytest.approx(2 / 7)
    assert strict.x_budget_used == pytest.approx(3.5)
    assert strict.x_state == "missed"
    assert strict.x_answer == "THRESHOLD"


def test_where_counts_come_from() -> None:
    layer = layer_b(locked(TWO_RUNS, EVENTS, 9.0))
    assert (layer.x_n_runs, layer.x_n_windows, layer.x_dropped_windows) == (2, 7, 0)
    assert layer.x_calibration == "locked"


class TestMet:
    """The rule of each protocol, at 20 runs with ten negatives each."""

    events = (130.0,) * 20

    def alarms(self, share: float) -> np.ndarray:
        values = np.arange(20 * 13, dtype=float).reshape(20, 13) / 1e6
        values[:, :10].ravel()[:0] = 0
        flat = [(i % 20, i // 20) for i in range(round(share * 200))]
        for run, column in flat:
            values[run, column] = 1.0 + 1e-3 * column + 1e-5 * run
        return values

    @pytest.mark.parametrize(
        ("share", "met"),
        [(0.0, True), (0.02, True), (0.05, True), (0.06, True), (0.065, False)],
    )
    def test_strict_takes_the_budget_as_a_cap(self, share: float, met: bool) -> None:
        judgement = locked(self.alarms(share), self.events, 1.0, safe_gap=40)
        assert layer_b(judgement).at(0.05).x_within_budget is met

    @pytest.mark.parametrize(
        ("share", "met"),
        [(0.0, False), (0.035, False), (0.04, True), (0.05, True), (0.06, True), (0.065, False)],
    )
    def test_the_letter_takes_it_as_a_target(self, share: float, met: bool) -> None:
        judgement = locked(self.alarms(share), self.events, 1.0, protocol="v0.4")
        assert layer_b(judgement).at(0.05).x_state == ("met" if met else "missed")

    def test_never_alarming_is_no_way_to_pass(self) -> None:
        layer = layer_b(locked(self.alarms(0.0), self.events, math.inf))
        assert [result.x_answer for result in layer.achieved] == ["ABSTAIN"] * 3
        assert (layer.ok_targets, within(layer)) == (1, 0)  # |0 - .01| <= .01, to the letter
        assert not layer.x_passed

    def test_a_small_target_has_a_small_tolerance(self) -> None:
        assert pass_line(0.01, 0.01) == pytest.approx(0.015)
        assert pass_line(0.05, 0.01) == pytest.approx(0.06)


class TestStates:
    def test_far_from_the_line_is_sure_and_near_it_straddles(self) -> None:
        rng = np.random.default_rng(0)
        values = rng.random((60, 34))
        events = [300.0] * 60
        states = {
            tau: [r.x_state for r in layer_b(locked(values, events, tau)).achieved]
            for tau in (0.995, 0.94, 0.5)
        }
        assert states[0.995][1:] == ["met", "met"]
        assert states[0.94] == ["missed", "straddles", "met"]
        assert states[0.5] == ["missed"] * 3

    def test_silence_is_bounded_by_the_number_of_runs(self) -> None:
        for n_runs, states in ((40, ["straddles", "straddles", "met"]), (256, ["met"] * 3)):
            values = np.random.default_rng(1).random((n_runs, 34))
            layer = layer_b(locked(values, [300.0] * n_runs, 2.0))
            assert [result.achieved for result in layer.achieved] == [0.0] * 3
            assert [result.x_state for result in layer.achieved] == states
            assert layer.achieved[0].x_interval is not None
            assert layer.achieved[0].x_interval.method == "exact binomial"
            assert layer.achieved[0].x_interval.high == pytest.approx(1 - 0.025 ** (1 / n_runs))

    def highs(self, n_runs: int, counts: range) -> list[float]:
        """Upper ends at .05 of `counts` runs that alarm once in 30 negatives."""
        quiet = np.random.default_rng(1).random((n_runs, 34))
        found = []
        for alarming in counts:
            values = quiet.copy()
            values[:alarming, 3] = 2.0 + np.arange(alarming)
            result = layer_b(locked(values, [300.0] * n_runs, 2.0)).at(0.05)
            assert result.x_interval is not None
            assert result.x_alarming_runs == alarming
            found.append(result.x_interval.high)
        return found

    def test_few_alarms_are_no_better_evidence_than_none(self) -> None:
        assert self.highs(40, range(4)) == pytest.approx([1 - 0.025 ** (1 / 40)] * 4)

    @pytest.mark.parametrize("n_runs", [40, 256])
    def test_the_exact_bound_fades_and_no_run_makes_it_jump(self, n_runs: int) -> None:
        highs = self.highs(n_runs, range(3, 13))
        silence, bootstrap = highs[0], highs[-1]
        assert silence == pytest.approx(1 - 0.025 ** (1 / n_runs))
        falls = -np.diff(highs)
        # It falls over four runs and more; then it rises with the bootstrap.
        assert (falls[:4] > 0).all()
        assert falls.max() < 0.55 * (silence - bootstrap)
        assert (falls[6:] <= 1e-3).all()

    def test_the_weight_by_hand(self) -> None:
        # Five of 40 alarm: .875^40 = .00479 of the resamples are blind, .1916 of the tail.
        values = np.random.default_rng(1).random((40, 34))
        values[:5, 3] = 2.0
        judgement = locked(values, [300.0] * 40, 2.0)
        found = layer_b(judgement).at(0.05).x_interval
        assert found is not None
        assert found.method == "run bootstrap and exact binomial"
        plain = bootstrap_rate(judgement, judgement.alarms(0.05))
        assert plain is not None
        weight = 0.875**40 / 0.025
        silence = exact_binomial(0, 40).high
        assert found.high == pytest.approx(weight * silence + (1 - weight) * plain.high)
        assert found.low == plain.low

    def test_few_alarming_runs_are_bounded_by_the_worst_of_them(self) -> None:
        values = np.random.default_rng(1).random((40, 34))
        values[:2] += 2.0  # throughout: run rates of 1
        interval = layer_b(locked(values, [300.0] * 40, 2.0)).at(0.05).x_interval
        assert interval is not None
        assert interval.low == 0.0
        assert interval.high == pytest.approx(exact_binomial(2, 40).high)

    def test_alarms_spread_over_runs_are_left_to_the_bootstrap(self) -> None:
        values = np.random.default_rng(1).random((40, 34))
        values[:20, 3] = 2.0
        five = layer_b(locked(values, [300.0] * 40, 2.0)).at(0.05)
        assert five.x_interval is not None
        assert five.x_interval.high < exact_binomial(0, 40).high
        assert five.x_interval.method == "run bootstrap"
        assert five.x_state == "met"

    def test_too_few_calibration_runs_leave_the_target_open(self) -> None:
        values = np.random.default_rng(1).random((40, 34))
        explore = scores_of(values[:10], [300.0] * 10, prefix="explore")
        layer = layer_b(Judgement(scores_of(values, [300.0] * 40), explore, design()))
        one, five, ten = layer.achieved
        assert (one.x_answer, one.x_state, one.x_few_runs, one.x_within_budget) == (
            "ABSTAIN",
            "straddles",
            True,
            False,
        )
        assert (five.x_answer, five.x_effective_budget) == ("ABSTAIN", 0.0)
        assert (ten.x_answer, ten.x_few_runs) == ("THRESHOLD", False)
        assert ten.x_effective_budget == pytest.approx(0.1 - 0.9 / 10)

    def test_the_letter_knows_no_straddling(self) -> None:
        values = np.random.default_rng(0).random((60, 34))
        layer = layer_b(locked(values, [300.0] * 60, 0.94, protocol="v0.4"))
        assert {result.x_state for result in layer.achieved} <= {"met", "missed"}


class TestBothRules:
    """The specification's rule and that of strict, on thresholds that achieve what is asked."""

    @staticmethod
    def gate(rates: dict[float, float], protocol: str) -> LayerBRecord:
        """Layer B of 20 runs with ten distinct negatives each, at thresholds of these rates."""
        values = np.arange(260.0).reshape(13, 20).T  # the negatives are 0 to 199
        prereg = design(protocol=protocol, safe_gap=40, fpr_targets=[*rates], primary_fpr=0.05)
        thresholds = Locked({1: {target: 200 * (1 - rate) for target, rate in rates.items()}})
        return layer_b(Judgement(scores_of(values, [130.0] * 20), thresholds, prereg))

    @pytest.mark.parametrize("protocol", ["strict", "v0.4"])
    def test_the_least_rate_is_that_of_thresholds_in_use(self, protocol: str) -> None:
        gate = self.gate({0.01: 0.50, 0.05: 0.54, 0.1: 0.58}, protocol)
        assert gate.fpr_min == 0.5
        assert gate.fpr_floor_detected
        assert (gate.ok_targets, gate.controllability_pass) == (0, False)
        assert (within(gate), gate.x_budget_pass, gate.x_passed) == (0, False, False)
        # No tie keeps it from alarming less often: for strict it is no floor.
        assert gate.floor is (protocol == "v0.4")

    @pytest.mark.parametrize("protocol", ["strict", "v0.4"])
    @pytest.mark.parametrize(
        ("rates", "near", "n_within"),
        [
            ({0.05: 0.02, 0.1: 0.05}, 0, 2),  # far below: near neither, within both
            ({0.05: 0.06, 0.01: 0.02, 0.1: 0.11}, 3, 2),  # .02 is near .01, and over .015
            ({0.05: 0.065, 0.01: 0.02, 0.02: 0.03}, 2, 1),
        ],
    )
    def test_each_field_has_its_own_rule(
        self, rates: dict[float, float], near: int, n_within: int, protocol: str
    ) -> None:
        gate = self.gate(rates, protocol)
        assert (gate.ok_targets, gate.controllability_pass) == (near, near >= 2)
        assert within(gate) == n_within
        # The primary target, .05, must be among those that are met.
        kept = gate.x_budget_state == "met"
        assert gate.x_budget_pass is kept
        decided = "x_budget_pass" if protocol == "strict" else "controllability_pass"
        assert gate.x_decided_by == decided
        assert gate.controlled is gate.x_passed is getattr(gate, decided)

    @pytest.mark.parametrize(
        ("protocol", "label"), [("strict", "SUPPORTED_FOR_ALARM"), ("v0.4", "RANK_ONLY")]
    )
    def test_the_label_follows_the_rule_of_the_protocol(self, protocol: str, label: str) -> None:
        prereg = {"fpr_targets": [0.05, 0.1], "lead_time_median_min": 10.0}
        prereg |= {"protocol": protocol, "smoothing_sweep": [1]}
        judgement = TestReached.judgement(0, **prereg)
        budgets = dict.fromkeys(judgement.design.run_budgets, 1.0)
        source = Locked({1: {0.05: 1.0, 0.1: 1.0}}, {1: budgets})
        found = judge(Judgement(judgement.evaluation, source, judgement.design))
        assert (found.layer_B.ok_targets, within(found.layer_B)) == (0, 2)
        assert found.label == label
        assert ("windows_uncontrolled" in found.x_reasons) is (protocol == "v0.4")


class TestFloor:
    """A score that is 1 in 44% of the negative windows of every run and 0 in the others."""

    values = np.tile((np.arange(30) % 25 < 11).astype(float), (40, 1))
    events = (300.0,) * 40  # negatives: columns 0..26; of these 13 are 1

    @pytest.mark.parametrize("protocol", ["strict", "v0.4"])
    def test_a_two_valued_score_shows_its_floor(self, protocol: str) -> None:
        layer = layer_b(
            Judgement(scores_of(self.values, self.events), None, design(protocol=protocol))
        )
        assert layer.fpr_floor_detected
        assert not layer.x_passed
        assert layer.fpr_min == pytest.approx(13 / 27)
        certificate = layer.x_floor_certificate
        assert certificate is not None
        assert certificate.f_min_pos == pytest.approx(13 / 27)
        assert certificate.tied_value == 1.0
        assert certificate.tied_windows == 13 * 40
        assert certificate.gaps["0.05"] == pytest.approx(13 / 27 - 0.05)

    def test_the_letter_would_not_alarm_and_yet_has_the_floor(self) -> None:
        layer = layer_b(
            Judgement(scores_of(self.values, self.events), None, design(protocol="v0.4"))
        )
        assert [result.x_threshold for result in layer.achieved] == [math.inf] * 3
        assert layer.at(0.01).x_state == "met"  # |0 - .01| <= .01: the hole that strict closes

    def test_strict_abstains_beyond_doubt(self) -> None:
        layer = layer_b(Judgement(scores_of(self.values, self.events), None, design()))
        # With 39 others there are runs enough; it is the tie that forbids a rate of .05.
        assert [result.x_state for result in layer.achieved[1:]] == ["missed", "missed"]

    def test_a_small_floor_counts_in_strict_alone(self) -> None:
        values = np.zeros((40, 30))
        values[:, 3] = 1.0  # 1 of 27 negatives: .037 > .01 + .01
        for protocol, floor in (("strict", True), ("v0.4", False)):
            layer = layer_b(
                Judgement(scores_of(values, self.events), None, design(protocol=protocol))
            )
            assert layer.floor is floor

    def test_a_single_window_at_the_top_is_no_floor(self) -> None:
        values = np.random.default_rng(0).random((40, 30))
        values[0, 0] = 2.0
        events = [40.0, *self.events[1:]]  # run 0 has this negative only: 1/40 > .01 + .01
        layer = layer_b(locked(values, events, 3.0))
        assert layer.x_floor_certificate is not None
        assert layer.x_floor_certificate.f_min_pos == pytest.approx(1 / 40)
        assert not layer.x_floor_certificate.floor
        assert not layer.fpr_floor_detected
        assert layer.achieved[0].x_state == "straddles"

    def test_few_runs_with_single_windows_are_no_floor_in_strict(self) -> None:
        values = [[3.0] + [0.0] * 4, [2.0] + [0.0] * 4, [1.0] + [0.0] * 4]
        for protocol, floor in (("strict", False), ("v0.4", True)):
            layer = layer_b(locked(values, [40.0] * 3, 4.0, protocol=protocol))
            assert layer.x_n_windows == 3
            assert layer.fpr_min == pytest.approx(1 / 3)
            assert layer.floor is floor

    def test_a_continuous_score_has_none(self) -> None:
        values = np.random.default_rng(0).random((40, 30))
        layer = layer_b(Judgement(scores_of(values, self.events), None, design()))
        assert not layer.fpr_floor_detected
        assert layer.x_floor_certificate is not None
        assert layer.x_floor_certificate.f_min_pos == pytest.approx(1 / 27 / 40)
        assert layer.x_floor_certificate.tied_value is None

    def test_a_constant_score_has_the_largest(self) -> None:
        layer = layer_b(Judgement(scores_of(self.values * 0, self.events), None, design()))
        assert layer.fpr_min == 1.0


class TestReached:
    """A score that is 1 before each event: a threshold above the negatives is one that alarms."""

    @staticmethod
    def judgement(n_false: int, **overrides: Any) -> Judgement:
        events = 200 + 10 * (np.arange(120) % 13)
        steps = np.arange(34) * 10
        # The horizon of 20 steps; columns 0 to 15 are negative in every run.
        values = ((steps < events[:, None]) & (steps >= events[:, None] - 20)).astype(float)
        place = np.arange(n_false)
        values[place * 7 % 120, place // 120 + place * 5 % 11] = 1.0
        return Judgement(scores_of(values, list(events)), None, design(**overrides))

    @pytest.mark.parametrize(("n_false", "reached"), [(0, True), (1, False), (28, False)])
    def test_a_perfect_two_valued_score_may_alarm(self, n_false: int, reached: bool) -> None:
        found = judge(self.judgement(n_false, lead_time_median_min=10.0))
        certificate = found.layer_B.x_floor_certificate
        assert certificate is not None
        assert certificate.zero_reached is reached
        assert found.layer_B.x_passed
        assert not found.layer_B.fpr_floor_detected
        assert found.layer_B.at(0.05).x_achieved_pooled == n_false / found.layer_B.x_n_windows
        assert found.layer_C.at(0.05).coverage == 1.0
        by_windows = [gate for gate in found.x_gates if gate.unit == "windows"]
        assert {gate.state for gate in by_windows if gate.gate != "stability"} == {"met"}
        # Of 120 runs 28 have a false alarm: by runs no threshold of a budget alarms at all.
        assert (found.label == "SUPPORTED_FOR_ALARM") is (n_false < 28)

    @pytest.mark.parametrize("protocol", ["strict", "v0.4"])
    def test_rates_begin_at_zero_where_positives_lie_above(self, protocol: str) -> None:
        judgement = self.judgement(0, protocol=protocol)
        layer = layer_b(judgement)
        assert judgement.achievable_rates(per_run=protocol == "strict").tolist() == [0.0, 1.0]
        certificate = layer.x_floor_certificate
        assert certificate is not None
        assert (certificate.f_min_pos, certificate.least) == (1.0, 0.0)
        assert certificate.gaps == pytest.approx({"0.01": 0.01, "0.05": 0.05, "0.1": 0.1})
        assert not certificate.floor
        assert not layer.fpr_floor_detected

    def test_positives_that_only_tie_do_not_lift_a_floor(self) -> None:
        judgement = self.judgement(600)
        assert not layer_b(judgement).x_passed
        assert layer_b(judgement).fpr_floor_detected


def test_without_negative_windows_there_is_no_rate() -> None:
    layer = layer_b(Judgement(scores_of([[0.0] * 4] * 3, [20, 30, 30]), None, design()))
    assert layer.x_floor_certificate is None
    assert layer.fpr_min is None
    assert not layer.x_passed
    assert [result.achieved for result in layer.achieved] == [None] * 3
    assert {result.x_state for result in layer.achieved} == {"straddles"}


def test_without_intervals_the_points_are_the_same() -> None:
    rng = np.random.default_rng(5)
    judgement = Judgement(noise_scores(50, 60, rng), None, design(burn_in=20))
    full, quick = layer_b(judgement), layer_b(judgement, intervals=False)
    assert quick.x_passed == full.x_passed
    assert [r.achieved for r in quick.achieved] == [r.achieved for r in full.achieved]
    assert [r.x_interval for r in quick.achieved] == [None] * 3


def test_what_is_stored() -> None:
    plain = layer_b(locked(TWO_RUNS, EVENTS, math.inf)).plain()
    assert plain["achieved"][0]["x_threshold"] == math.inf
    assert plain["x_floor_certificate"]["gaps"].keys() == {"0.01", "0.05", "0.1"}
