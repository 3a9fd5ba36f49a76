"""D1 to D5 by hand and on processes whose effective sample size is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from score_builders import design, judged, noise_scores, scores_of

from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import (
    autocorrelation_time,
    diagnose,
    effective_sample_size,
    effective_support,
    tail_support,
    tie_dominance,
)


def test_effective_support_by_hand() -> None:
    assert effective_support(np.zeros(9)) == pytest.approx(1.0)
    assert effective_support(np.array([0.0, 1.0])) == pytest.approx(2.0)
    assert effective_support(np.array([0.0, 0.0, 0.0, 1.0])) == pytest.approx(
        math.exp(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    )
    assert effective_support(np.arange(50.0)) == pytest.approx(50.0)


@pytest.mark.parametrize(
    "pair",
    [
        (0.3, 0.1 + 0.2),
        (1.0, np.nextafter(1.0, 2.0)),
        (1e17, np.nextafter(1e17, np.inf)),
        (-1e308, 1e308),
        (0.0, 5e-324),
    ],
)
def test_effective_support_of_two_values_at_any_distance(pair: tuple[float, float]) -> None:
    assert effective_support(np.array(pair)) == pytest.approx(2.0)
    assert effective_support(np.array([pair[0]] * 4)) == pytest.approx(1.0)


@pytest.mark.parametrize("values", [np.arange(51) / 50, np.random.default_rng(0).normal(size=999)])
def test_effective_support_is_that_of_the_histogram(values: np.ndarray) -> None:
    shares = np.histogram(values, bins=50)[0] / len(values)
    shares = shares[shares > 0]
    assert effective_support(values) == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))


def test_nearly_constant_scores_can_be_diagnosed() -> None:
    values = np.where(np.arange(30) % 3, 0.3, 0.1 + 0.2)
    found = diagnose(judged([values] * 5, [300.0] * 5), coverage=None)
    assert found.effective_support_size is not None
    assert 1.0 < found.effective_support_size <= 2.0


def test_tail_support_counts_exact_values() -> None:
    # 90th percentile of 0..10: 9, so the tail is {9, 10}.
    assert tail_support(np.arange(11.0)) == pytest.approx(2.0)
    assert tail_support(np.array([0.0] * 8 + [1.0] * 2)) == pytest.approx(1.0)


def test_tie_dominance_by_hand() -> None:
    # 95th percentile of 0..20: 19.
    assert tie_dominance(np.arange(21.0)) == pytest.approx(0.5)
    assert tie_dominance(np.ones(30)) == 1.0
    # 40 values: the percentile lies at position 37.05, among the four ones.
    assert tie_dominance(np.array([*range(-36, 0), 1, 1, 1, 2], dtype=float)) == pytest.approx(
        3 / 4
    )


class TestAutocorrelationTime:
    def test_independent_windows(self) -> None:
        noise = np.random.default_rng(0).normal(size=(200, 300))
        assert autocorrelation_time(noise) == pytest.approx(1.0, abs=0.1)

    def test_an_autoregressive_process(self) -> None:
        rng = np.random.default_rng(1)
        values = rng.normal(size=(100, 800))
        for column in range(1, 800):
            values[:, column] += 0.6 * values[:, column - 1]
        # tau = (1 + rho) / (1 - rho) = 4.
        assert autocorrelation_time(values) == pytest.approx(4.0, rel=0.1)

    def test_never_below_one(self) -> None:
        alternating = np.tile([1.0, -1.0], (3, 20))
        assert autocorrelation_time(alternating) == 1.0
        assert autocorrelation_time(np.zeros((2, 5))) == 1.0


class TestEffectiveSampleSize:
    def independent(self, per_run_level: float) -> Judgement:
        rng = np.random.default_rng(2)
        values = rng.normal(size=(80, 104)) + per_run_level * rng.normal(size=(80, 1))
        return Judgement(scores_of(values, [1030.0] * 80), None, design())

    def test_independent_windows_are_worth_their_number(self) -> None:
        n_eff, effect = effective_sample_size(self.independent(0.0))
        assert effect == pytest.approx(1.0, abs=0.35)
        assert n_eff == pytest.approx(80 * 100, rel=0.35)

    def test_runs_with_levels_of_their_own_are_worth_less(self) -> None:
        n_eff, effect = effective_sample_size(self.independent(2.0))
        assert effect is not None
        assert effect > 20
        assert n_eff == pytest.approx(80 * 100 / effect)

    def test_a_run_that_always_exceeds_is_one_observation(self) -> None:
        # One of ten runs exceeds throughout: p = .1, the clusters are the observations.
        values = np.tile([[1.0]] + [[0.0]] * 9, (1, 14))
        values += 1e-6 * np.arange(14)
        judgement = Judgement(scores_of(values, [130.0] * 10), None, design(primary_fpr=0.1))
        n_eff, effect = effective_sample_size(judgement)
        # 10 negatives a run: between-run variance p (1-p) / 9, independent p (1-p) / 100.
        assert effect == pytest.approx(100 / 9, rel=1e-6)
        assert n_eff == pytest.approx(9.0, rel=1e-6)

    def test_a_constant_has_none(self) -> None:
        assert effective_sample_size(judged([[1.0] * 10] * 2, [80, 80])) == (None, None)


def test_a_diagnosis() -> None:
    judgement = Judgement(noise_scores(30, 80, np.random.default_rng(0)), None, design())
    found = diagnose(judgement, coverage=0.25)
    assert found.x_abstain_rate == 0.75
    assert found.x_n_eff is not None
    assert 0 < found.x_n_eff <= judgement.negatives.n_windows
    assert all(abs(rate - f) < 0.01 for f, rate in found.x_achievable)


def test_the_curve_shows_a_floor() -> None:
    values = np.tile((np.arange(30) % 3 == 0).astype(float), (5, 1))
    found = diagnose(judged(values, [300.0] * 5), coverage=None)
    assert {round(rate, 3) for f, rate in found.x_achievable if f < 0.3} == {round(9 / 27, 3)}
    assert found.x_abstain_rate is None
    assert "share one score" in found.comments


def test_a_constant_says_so() -> None:
    found = diagnose(judged([[1.0] * 10] * 2, [80, 80]), coverage=0.0)
    assert "constant" in found.comments
    assert found.x_n_eff is None


def test_no_negatives() -> None:
    found = diagnose(judged([[1.0] * 4], [20]), coverage=1.0)
    assert found.effective_support_size is None
    assert found.comments == "no negative windows"
