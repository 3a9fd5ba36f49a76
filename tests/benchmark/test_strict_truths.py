"""Scores whose truth is known by construction, judged by the strict protocol."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from score_builders import design, noise_scores, raised_before_event, scores_of

from gmb_hf.base.stats import holm
from gmb_hf.benchmark import baselines
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.records import SUPPORTED
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.utility import operating_point
from gmb_hf.benchmark.verdict import judge, judge_all

# A horizon of 20 checkpoints: noise that alarms one window in twenty covers half of the events.
SETTINGS = {
    "horizon": 200,
    "safe_gap": 300,
    "burn_in": 20,
    "null_draws": 999,
    "smoothing_sweep": [1],
    "run_groups": 2,
}


def noise(rng: np.random.Generator, n_runs: int = 40, n_explore: int = 40) -> Judgement:
    explore = noise_scores(n_explore, 100, rng, prefix="explore")
    return Judgement(noise_scores(n_runs, 100, rng), explore, design(**SETTINGS))


def p_value_of(judgement: Judgement) -> float:
    primary = judgement.design.primary_fpr
    p_value = baselines.largest_p(baselines.by_windows(judgement, primary))
    assert p_value is not None
    return p_value


def bound(repeats: int, probability: float = 0.05) -> int:
    """How often something of that probability may happen, in all but one of 1,000 test runs."""
    return int(binom.ppf(0.999, repeats, probability))


@pytest.mark.parametrize(("cross_fitted", "panels"), [(False, 100), (True, 60)])
def test_the_p_value_of_noise_is_no_smaller_than_it_says(cross_fitted: bool, panels: int) -> None:
    found = []
    for seed in range(panels):
        judgement = noise(np.random.default_rng(seed))
        if cross_fitted:
            judgement = Judgement(judgement.evaluation, None, judgement.design)
        found.append(p_value_of(judgement))
    for level in (0.05, 0.2, 0.5):
        assert (np.array(found) <= level).sum() <= bound(panels, level)


def with_shared_events(rng: np.random.Generator, count: int, n_runs: int) -> list[Judgement]:
    """So many noise scores of the same runs: one lock's candidates."""
    events = 10.0 * rng.integers(33, 100, size=n_runs)
    found = []
    for _ in range(count):
        judgement = noise(rng, n_runs)
        raw = judgement.evaluation
        shared = Scores.from_panel(raw, events)
        found.append(Judgement(shared, judgement.source, judgement.design))
    return found


def test_forty_noise_candidates_of_one_lock_crown_none() -> None:
    """999 draws: with 199 the smallest p-value, .005, could not pass times forty."""
    crowned = unadjusted = 0
    for repeat in range(12):
        candidates = with_shared_events(np.random.default_rng([9, repeat]), 40, 40)
        p_values = [p_value_of(judgement) for judgement in candidates]
        adjusted = [p for p in holm(p_values) if p is not None]
        crowned += min(adjusted) <= 0.05
        unadjusted += min(p_values) <= 0.05
    assert crowned <= bound(12)
    # The test can fail: it is the adjustment that keeps luck out.
    assert unadjusted > bound(12)


def test_eight_noise_candidates_of_one_lock_crown_none_either() -> None:
    """199 draws give p = .005 at best, which passes times eight; all of `judge_all` is run."""
    crowned, below = 0, 0
    for repeat in range(8):
        rng = np.random.default_rng([10, repeat])
        candidates = {
            f"noise_{index}": Judgement(
                one.evaluation,
                one.source,
                one.design.replace(null_draws=199, bootstrap_draws=20),
            )
            for index, one in enumerate(with_shared_events(rng, 8, 40))
        }
        found = judge_all(candidates)
        crowned += any(parts.label == SUPPORTED for parts in found.values())
        adjusted = [parts.x_p_adjusted for parts in found.values()]
        # The test can fail: what is adjusted is the p-value of all of them, by Holm.
        assert adjusted == holm([p_value_of(judgement) for judgement in candidates.values()])
        below += min(p for p in adjusted if p is not None) <= 0.05
    assert crowned <= bound(8)
    assert below <= bound(8)


@pytest.mark.parametrize("stays", [False, True], ids=["falls back", "stays high"])
def test_a_score_that_fires_within_the_horizon_is_supported(stays: bool) -> None:
    rng = np.random.default_rng(5)
    explore = noise_scores(136, 100, rng, spread=0.0, prefix="explore")
    held_out = noise_scores(256, 100, rng, spread=0.0)
    judgement = Judgement(
        raised_before_event(held_out, 6.0, over=150, stays=stays),
        raised_before_event(explore, 6.0, over=150, stays=stays),
        design(**SETTINGS),
    )
    parts = judge(judgement)
    assert parts.label == "SUPPORTED_FOR_ALARM"
    assert parts.layer_C.at(0.05).x_baselines["risk_set"].p_value == 1 / 1000
    assert parts.layer_C.at(0.05).lead_time_median == 150.0


def clock_like(rng: np.random.Generator, n_runs: int, prefix: str) -> Scores:
    """High late in training, whatever the run does; events are late too."""
    steps = np.arange(100.0)
    values = steps + 8 * rng.normal(size=(n_runs, 100))
    events = 10.0 * np.clip(rng.normal(75, 8, size=n_runs).round(), 45, 99)
    return scores_of(values, list(events), prefix=prefix)


def test_a_score_good_only_on_average_late_in_training_fails_the_risk_set_null() -> None:
    rng = np.random.default_rng(6)
    explore, held_out = clock_like(rng, 136, "explore"), clock_like(rng, 256, "run")
    judgement = Judgement(held_out, explore, design(**SETTINGS))
    point = operating_point(judgement, 0.05)
    assert point.coverage is not None
    # It covers most events, more than a rotation would: the shift null alone is deceived.
    assert point.coverage > 0.5
    assert point.x_baselines["shift"].p_value <= 0.05
    assert point.x_baselines["risk_set"].p_value > 0.05
    verdict = judge(judgement)
    assert verdict.label != SUPPORTED
    assert "windows_no_better_than_chance" in verdict.x_reasons


def test_a_two_valued_score_is_refused_for_its_floor() -> None:
    rng = np.random.default_rng(7)

    def two_valued(n_runs: int, prefix: str) -> Scores:
        raw = noise_scores(n_runs, 100, rng, prefix=prefix)
        return scores_of((raw.values > 0).astype(float), list(raw.event_step), prefix=prefix)

    held_out = two_valued(256, "run")
    parts = judge(Judgement(held_out, two_valued(136, "explore"), design(**SETTINGS)))
    assert parts.label == "RANK_ONLY"
    assert parts.x_reasons[0] == "windows_floor"
    certificate = parts.layer_B.x_floor_certificate
    assert certificate is not None
    assert certificate.tied_value == 1.0
    negative = Judgement(held_out, None, design(**SETTINGS)).windows.negative
    rates = [held_out.values[i][negative[i]].mean() for i in range(256) if negative[i].any()]
    assert certificate.f_min_pos == pytest.approx(np.mean(rates))
    # The threshold lies just above the tie, where a two-valued score never comes.
    assert [result.x_state for result in parts.layer_B.achieved] == ["missed"] * 3
    assert parts.layer_C.at(0.05).coverage == 0.0


@pytest.mark.parametrize("control", ["clock", "constant"])
def test_controls_are_never_eligible(control: str) -> None:
    rng = np.random.default_rng(8)

    def controlled(n_runs: int, prefix: str) -> Scores:
        raw = noise_scores(n_runs, 100, rng, prefix=prefix)
        values: Any = np.tile(np.arange(100.0) * 10, (n_runs, 1))
        values = values if control == "clock" else np.zeros_like(values)
        return scores_of(values, list(raw.event_step), prefix=prefix)

    judgement = Judgement(controlled(256, "run"), controlled(136, "explore"), design(**SETTINGS))
    verdict = judge(judgement)
    assert verdict.label != SUPPORTED
    assert verdict.x_p_adjusted is not None
    assert verdict.x_p_adjusted > 0.9
