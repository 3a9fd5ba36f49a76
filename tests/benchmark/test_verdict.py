"""The verdict's order, its reasons, and the adjustment over candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_builders import design, noise_scores, raised_before_event, scores_of

from gmb_hf.base.stats import IntervalRecord, exact_binomial, holm
from gmb_hf.benchmark.gates import enough_budgets
from gmb_hf.benchmark.judgement import Judgement, Locked
from gmb_hf.benchmark.ranking import LayerARecord, has_ranking_signal
from gmb_hf.benchmark.records import LABELS
from gmb_hf.benchmark.verdict import Declared, IndicatorRecord, Measured, judge, judge_all
from gmb_hf.design.power import runs_to_clear, runs_to_settle

SETTINGS = {"horizon": 100, "safe_gap": 150, "burn_in": 20, "lead_time_median_min": 20.0}


def oracle(
    by: float = 9.0, *, n_runs: int = 256, n_explore: int = 136, seed: int = 0, **overrides: Any
) -> Judgement:
    """Noise that is raised by `by` in the last 100 steps before each event."""
    rng = np.random.default_rng(seed)
    explore = noise_scores(n_explore, 80, rng, spread=0.0, prefix="explore")
    held_out = noise_scores(n_runs, 80, rng, spread=0.0)
    return Judgement(
        raised_before_event(held_out, by, over=100),
        raised_before_event(explore, by, over=100),
        design(**{**SETTINGS, **overrides}),
    )


Case = tuple[Judgement, IndicatorRecord]
GATES = ("detection", "chance", "lead", "stability")
LAYERS = ("layer_a", "layer_b", "layer_c", "layer_d")


def interval(low: float, high: float) -> IntervalRecord:
    return IntervalRecord(low=low, high=high, method="run bootstrap")


@pytest.fixture(scope="module")
def supported() -> Case:
    judgement = oracle()
    return judgement, judge(judgement, locked=True)


def concluded(
    case: Case, *, p: float | None = 0.001, primary: Any = None, **changes: Any
) -> IndicatorRecord:
    """The verdict when some results of a supported score are replaced."""
    judgement, record = case
    layers = {name: getattr(record, f"layer_{name[-1].upper()}") for name in LAYERS}
    for layer, values in changes.items():
        layers[layer] = layers[layer].model_copy(update=values)
    points = tuple(
        point.model_copy(update=primary or {}) if point.fpr == 0.05 else point
        for point in record.layer_C.at_fpr
    )
    layers["layer_c"] = record.layer_C.model_copy(update={"at_fpr": points})
    return Measured(judgement, **layers).conclude(
        [p], [0.0001], rivals={}, declared=Declared("score"), locked=True
    )


def targets_of(case: Case, *states: str) -> dict[str, Any]:
    achieved = tuple(
        result.model_copy(
            update={
                "x_state": state,
                "x_within_budget": state != "missed",
                "x_interval": interval(0.0, 2 * result.target),
            }
        )
        for result, state in zip(case[1].layer_B.achieved, states, strict=True)
    )
    state = enough_budgets(
        [(row.target, row.x_state, True) for row in achieved], primary=0.05, least=2
    )
    kept = state == "met"
    return {"layer_b": {"achieved": achieved, "x_budget_state": state, "x_budget_pass": kept}}


class TestOrder:
    def test_an_oracle_with_enough_runs_is_supported(self, supported: Case) -> None:
        verdict = supported[1]
        assert verdict.label == "SUPPORTED_FOR_ALARM"
        assert (verdict.x_alarm_eligible, verdict.x_reasons) == (True, ())
        assert verdict.x_sentence.startswith("May raise an alarm: it detects")
        assert "by windows, at a false positive rate of 5%, it covers" in verdict.x_sentence
        assert "of 256 events (best chance baseline " in verdict.x_sentence
        assert {(one.unit, one.gate) for one in verdict.x_gates} == {
            *(("runs", gate) for gate in ("budget", *GATES)),
            *(("windows", gate) for gate in ("floor", "budget", *GATES)),
        }
        assert {one.state for one in verdict.x_gates} == {"met"}

    def test_without_a_lock_nothing_may_alarm(self, supported: Case) -> None:
        judgement = supported[0]
        verdict = judge(judgement)
        assert verdict.label == "SUPPORTED_FOR_ALARM"
        assert (verdict.x_alarm_eligible, verdict.x_reasons) == (False, ("not_locked",))
        assert verdict.x_sentence.startswith("Passes every gate on these runs: it detects")

    def test_few_events_come_first(self) -> None:
        judgement = oracle(n_runs=20, n_explore=60)
        verdict = judge(judgement)
        assert (verdict.label, verdict.x_reasons) == ("INCONCLUSIVE", ("few_events", "not_locked"))
        # Each run has an event, and 20 of 20 let one expect that 31 have 30.
        assert verdict.x_runs_to_settle == 31
        assert (
            "20 events are fewer than 30; settling it takes at least 11 more runs (31 in all), if "
            "the rates stay as they are." in verdict.x_sentence
        )
        assert not verdict.x_alarm_eligible

    def test_no_events_at_all(self) -> None:
        rng = np.random.default_rng(0)
        judgement = Judgement(scores_of(rng.normal(size=(30, 40)), [None] * 30), None, design())
        verdict = judge(judgement)
        assert (verdict.label, verdict.x_reasons) == ("INCONCLUSIVE", ("few_events", "not_locked"))
        assert verdict.x_runs_to_settle is None
        assert verdict.x_p_adjusted is None

    def test_flips_come_before_support(self, supported: Case) -> None:
        verdict = concluded(supported, layer_d={"label_flip_rate": 0.21})
        assert (verdict.label, verdict.x_reasons) == ("ESTIMATOR_UNSTABLE", ("windows_unstable",))
        assert "21% of 45 admissible variants" in verdict.x_sentence
        assert concluded(supported, layer_d={"label_flip_rate": 0.2}).label == LABELS[0]

    @pytest.mark.parametrize(
        ("values", "reason"),
        [
            (
                {"coverage": 0.2, "x_coverage_interval": interval(0.15, 0.25)},
                "windows_coverage_low",
            ),
            ({"lead_time_median": 19.0}, "windows_lead_short"),
        ],
    )
    def test_layer_c_decides(self, supported: Case, values: dict[str, Any], reason: str) -> None:
        verdict = concluded(supported, primary=values)
        assert (verdict.label, verdict.x_reasons) == ("RANK_ONLY", (reason,))
        assert not verdict.x_alarm_eligible

    def test_the_adjusted_p_value_decides(self, supported: Case) -> None:
        verdict = concluded(supported, p=0.051)
        assert verdict.x_reasons == ("windows_no_better_than_chance",)
        assert "(p = 0.051)" in verdict.x_sentence
        assert concluded(supported, p=0.05).label == "SUPPORTED_FOR_ALARM"

    def test_layer_b_decides(self, supported: Case) -> None:
        verdict = concluded(supported, **targets_of(supported, "missed", "met", "missed"))
        assert (verdict.label, verdict.x_reasons) == ("RANK_ONLY", ("windows_uncontrolled",))
        assert "1 of 3 false positive rates keep their budget by windows" in verdict.x_sentence

    def test_a_score_that_does_not_rank_says_so(self, supported: Case) -> None:
        verdict = concluded(supported, p=0.5, layer_a={"auc": 0.5})
        assert verdict.x_reasons == ("windows_no_better_than_chance", "no_ranking_signal")
        assert "AUC 0.50" in verdict.x_sentence


class TestStraddling:
    def test_targets_that_could_still_be_met(self, supported: Case) -> None:
        verdict = concluded(supported, **targets_of(supported, "missed", "met", "straddles"))
        assert (verdict.label, verdict.x_reasons) == ("INCONCLUSIVE", ("windows_straddle",))

    def test_targets_enough_without_the_open_one(self, supported: Case) -> None:
        verdict = concluded(supported, **targets_of(supported, "straddles", "met", "met"))
        assert verdict.label == "SUPPORTED_FOR_ALARM"

    def test_targets_too_few_even_with_the_open_one(self, supported: Case) -> None:
        verdict = concluded(supported, **targets_of(supported, "missed", "missed", "straddles"))
        assert verdict.label == "RANK_ONLY"

    def test_coverage_at_its_minimum(self, supported: Case) -> None:
        values = {"coverage": 0.35, "x_coverage_interval": interval(0.25, 0.45)}
        verdict = concluded(supported, primary=values)
        assert (verdict.label, verdict.x_reasons) == ("INCONCLUSIVE", ("windows_straddle",))
        assert verdict.x_runs_to_settle == runs_to_settle(256, 256, 0.35, 0.3)
        assert "coverage 0.35 [0.25, 0.45] straddles its minimum 0.30" in verdict.x_sentence
        more = verdict.x_runs_to_settle - 256
        assert f"settling it takes at least {more} more runs (" in verdict.x_sentence

    def test_coverage_surely_reached_at_the_line(self, supported: Case) -> None:
        values = {"coverage": 0.35, "x_coverage_interval": interval(0.30, 0.45)}
        assert concluded(supported, primary=values).label == LABELS[0]

    def test_an_estimate_on_its_line_gets_no_number(self, supported: Case) -> None:
        values = {"coverage": 0.30, "x_coverage_interval": interval(0.25, 0.35)}
        verdict = concluded(supported, primary=values)
        assert verdict.label == "INCONCLUSIVE"
        assert verdict.x_runs_to_settle is None
        assert "settling" not in verdict.x_sentence

    def test_a_floor_needs_no_more_runs(self, supported: Case) -> None:
        changes = targets_of(supported, "missed", "straddles", "straddles")
        certificate = supported[1].layer_B.x_floor_certificate
        assert certificate is not None
        floor = certificate.model_copy(update={"floor": True})
        changes["layer_b"] |= {"x_floor_certificate": floor}
        changes["primary"] = {"coverage": 0.3, "x_coverage_interval": interval(0.2, 0.4)}
        verdict = concluded(supported, **changes)
        assert verdict.label == "RANK_ONLY"
        assert verdict.x_reasons[0] == "windows_floor"

    def test_coverage_far_below_needs_no_more_runs_either(self, supported: Case) -> None:
        changes = targets_of(supported, "missed", "met", "straddles")
        changes["primary"] = {"coverage": 0.1, "x_coverage_interval": interval(0.05, 0.15)}
        assert concluded(supported, **changes).label == "RANK_ONLY"

    def test_too_few_calibration_runs_are_no_fault_of_the_score(self) -> None:
        verdict = judge(oracle(n_runs=60, n_explore=12))
        assert verdict.label == "INCONCLUSIVE"
        assert "runs_few_runs" in verdict.x_reasons
        assert (
            "a threshold for 1 run in 20 takes 19 calibration runs with negative windows, there are"
            in (verdict.x_sentence)
        )

    def test_silence_over_few_runs_names_the_number_that_settles_it(self) -> None:
        judgement = oracle(n_runs=40)
        quiet = dict.fromkeys((0.01, 0.05, 0.1), 1e9)
        design = judgement.design.replace(smoothing_sweep=[1])
        verdict = judge(Judgement(judgement.evaluation, Locked({1: quiet}), design))
        # Coverage 0 of 40 is far below its minimum: concluded.
        assert verdict.label == "RANK_ONLY"

    def test_the_letter_knows_only_few_events(self) -> None:
        verdict = judge(oracle(by=1.0, n_runs=40, protocol="v0.4"))
        assert verdict.label != "INCONCLUSIVE"

    def test_what_is_supported_by_the_letter_says_so(self) -> None:
        verdict = judge(oracle(n_runs=40, protocol="v0.4", smoothing_sweep=[1]))
        said = "by the letter of v0.4, which pure noise can pass: never eligible"
        assert repr(verdict) == f"IndicatorRecord('score', SUPPORTED_FOR_ALARM, {said})"
        assert verdict.shown_label == "SUPPORTED_FOR_ALARM (by the letter of v0.4)"
        assert said in verdict.x_sentence
        assert not verdict.x_alarm_eligible

    def test_the_nearest_targets_that_are_needed_set_the_number(self, supported: Case) -> None:
        changes = targets_of(supported, "straddles", "straddles", "met")
        one, five, ten = changes["layer_b"]["achieved"]
        # At .05: estimate .03, line .06, upper end .07. At .01: .01, line .015, .02.
        one = one.model_copy(update={"achieved": 0.01, "x_interval": interval(0.0, 0.02)})
        found = interval(0.0, 0.07)
        five = five.model_copy(update={"achieved": 0.03, "x_interval": found})
        needed = runs_to_clear(256, 0.03, 0.06, found)
        changes["layer_b"]["achieved"] = (one, five, ten)
        verdict = concluded(supported, **changes)
        # One more target suffices, which must be the primary.
        assert verdict.x_runs_to_settle == needed
        missed = one.model_copy(
            update={"x_within_budget": False, "achieved": 0.02, "x_interval": interval(0.01, 0.03)}
        )
        changes["layer_b"]["achieved"] = (missed, five, ten)
        # If .01 turns out missed, .05 decides.
        assert concluded(supported, **changes).x_runs_to_settle == needed


def shown(judgement: Judgement) -> Judgement:
    """The same where nothing is promised: the runs must show that budgets hold."""
    return Judgement(judgement.evaluation, judgement.source, judgement.design, basis="shown")


def test_few_events_ask_for_what_is_open_beyond_them() -> None:
    """30 events alone would leave the false-alarm rates open: "10 more runs", then hundreds."""
    judgement = oracle(n_runs=20, n_explore=60, smoothing_sweep=[1], bootstrap_draws=200)
    verdict = judge(shown(judgement))
    assert verdict.x_reasons[0] == "few_events"
    assert verdict.x_sentence == "Not decided: 20 events are fewer than 30."
    assert verdict.x_runs_to_settle is None


class TestHolm:
    def test_by_hand(self) -> None:
        assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
        assert holm([0.5, 0.9]) == [1.0, 1.0]
        assert holm([0.02]) == [0.02]
        assert holm([]) == []

    def test_what_has_no_p_value_still_counts(self) -> None:
        assert holm([0.01, None]) == [0.02, None]

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
    def test_rejects_what_the_step_down_test_rejects(self, p_values: list[float]) -> None:
        adjusted = holm(p_values)
        rejected = set()
        for rank, index in enumerate(np.argsort(p_values, kind="stable")):
            if p_values[index] * (len(p_values) - rank) > 0.05:
                break
            rejected.add(int(index))
        assert {i for i, p in enumerate(adjusted) if p is not None and p <= 0.05} == rejected


class TestRankingSignal:
    def layer(
        self, auc: float | None, mean: float | None, sd: float | None, n: int
    ) -> LayerARecord:
        return LayerARecord(auc=auc, ap=None, x_auc_run_mean=mean, x_auc_run_sd=sd, x_n_runs=n)

    def test_needs_the_pool_and_the_runs(self) -> None:
        assert has_ranking_signal(self.layer(0.7, 0.7, 0.2, 30))
        assert not has_ranking_signal(self.layer(0.5, 0.7, 0.2, 30))
        assert not has_ranking_signal(self.layer(0.7, 0.53, 0.2, 30))
        assert not has_ranking_signal(self.layer(None, None, None, 0))
        assert has_ranking_signal(self.layer(0.7, 0.7, None, 1))


class TestJudgeAll:
    def test_p_values_are_adjusted_over_candidates_and_not_controls(self) -> None:
        good = oracle(n_runs=60, smoothing_sweep=[1])
        noise = oracle(by=0.0, n_runs=60, smoothing_sweep=[1])
        done: list[str] = []
        found = judge_all(
            {"good": good, "noise": noise, "clock": noise},
            controls=["clock"],
            on_done=done.append,
        )
        assert done == ["good", "noise", "clock"]
        raw = {name: parts.layer_C.at(0.05).x_p_value for name, parts in found.items()}
        assert raw["good"] == 1 / 2001
        assert found["good"].x_p_adjusted == pytest.approx(2 / 2001)
        assert found["noise"].x_p_adjusted == raw["noise"]
        assert found["clock"].x_p_adjusted >= raw["clock"]

    def test_the_same_seed_gives_the_same_verdict(self) -> None:
        first = judge(oracle(by=1.5, n_runs=50, smoothing_sweep=[1]))
        again = judge(oracle(by=1.5, n_runs=50, smoothing_sweep=[1]))
        assert first == again


def test_exact_binomial_is_what_the_silence_rule_uses() -> None:
    assert exact_binomial(0, 40).high == pytest.approx(0.0881, abs=1e-4)
