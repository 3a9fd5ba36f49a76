"""Truths that hold whatever law the scores follow: see `benchmarks/laws.py` for the laws.

Settings leave everything but the question at hand easy, so that each test can fail: a horizon in
which noise covers many events, a small minimum of coverage, one target that must be met.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.laws import LAWS, Law, noise, raised, with_events
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import layer_b
from gmb_hf.benchmark.records import SUPPORTED
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.utility import operating_point
from gmb_hf.benchmark.verdict import judge
from gmb_hf.design.design import Design

PANELS = 8
CHECKPOINTS = 80
DRAWS = 199

by_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def settings(**overrides: Any) -> Design:
    return Design.minimal(
        **{
            "horizon": 200,
            "safe_gap": 300,
            "w_event": 10,
            "burn_in": 20,
            "lead_time_median_min": 20.0,
            "smoothing_sweep": [1],
            "run_groups": 2,
            "null_draws": DRAWS,
            "bootstrap_draws": 100,
            **overrides,
        }
    )


def bound(repeats: int, probability: float = 0.05) -> int:
    """How often something of that probability may happen, in all but one of 1,000 test runs."""
    return int(binom.ppf(0.999, repeats, probability))


def noise_panel(law: Law, seed: int, **overrides: Any) -> Judgement:
    rng = np.random.default_rng([11, seed])
    explore = noise(law, 50, CHECKPOINTS, rng, "explore")
    easy = {"fpr_targets": [0.05, 0.1], "min_targets_ok": 1, "coverage_min": 0.05}
    chosen = settings(**{**easy, "max_label_flip_rate": 1.0, **overrides})
    return Judgement(noise(law, 64, CHECKPOINTS, rng), explore, chosen)


def test_noise_is_supported_in_no_more_than_a_twentieth_of_panels() -> None:
    """Of each law, and of all of them together, where little is left to chance."""
    supported = {
        name: sum(judge(noise_panel(law, seed)).label == SUPPORTED for seed in range(PANELS))
        for name, law in LAWS.items()
    }
    assert max(supported.values()) <= bound(PANELS), supported
    assert sum(supported.values()) <= bound(PANELS * len(LAWS)), supported


def test_nothing_but_the_chance_nulls_stands_against_that_noise() -> None:
    """The test above could fail: at an alpha of nearly 1 most of the same panels are supported."""
    panels = [noise_panel(law, seed, alpha=0.999) for law in LAWS.values() for seed in range(3)]
    open_door = [
        all(gate.state == "met" for gate in judge(panel).x_gates if gate.unit == "windows")
        for panel in panels
    ]
    assert np.mean(open_door) > 0.5


def both(law: Law, seed: int, by: float, *, stays: bool, over: int = 150) -> Judgement:
    """An oracle: noise of the law, raised before each event, on 136 explore and 256 held-out."""
    rng = np.random.default_rng([12, seed])
    explore, held_out = (
        raised(noise(law, n_runs, CHECKPOINTS, rng, prefix), by, over=over, stays=stays)
        for n_runs, prefix in ((136, "explore"), (256, "run"))
    )
    return Judgement(held_out, explore, settings(null_draws=999))


@by_law
@pytest.mark.parametrize("stays", [False, True], ids=["falls back", "stays high"])
def test_an_oracle_that_rises_before_the_event_is_supported(law: Law, stays: bool) -> None:
    # Beyond the tails of every law; at 2 degrees of freedom these are long.
    parts = judge(both(law, 0, 60.0, stays=stays))
    assert parts.label == "SUPPORTED_FOR_ALARM", parts.x_sentence
    primary = parts.layer_C.at(0.05)
    assert primary.x_baselines["risk_set"].p_value == 1 / 1000
    assert primary.coverage is not None
    # All but the events that come too early to be warned of.
    assert primary.x_n_covered >= primary.x_n_events - primary.x_n_too_early - 2


@by_law
def test_a_score_good_only_late_on_average_fails_the_risk_set_null(law: Law) -> None:
    """A clock with noise: all of its coverage it owes to the hour, and none to the run."""
    rng = np.random.default_rng([13, 0])
    late = Law(early=0.7, ragged=law.ragged)

    def clock(n_runs: int, prefix: str) -> Scores:
        base = noise(law, n_runs, CHECKPOINTS, rng, prefix).values
        scale = np.nanstd(np.clip(base, *np.nanquantile(base, [0.05, 0.95])))
        hour = np.full((n_runs, CHECKPOINTS), np.arange(CHECKPOINTS) / 8.0)
        hour[:, : base.shape[1]] += np.where(np.isnan(base), 0.0, base / scale)
        return with_events(late, hour, rng, prefix)

    held_out, explore = clock(256, "run"), clock(136, "explore")
    judgement = Judgement(held_out, explore, settings(null_draws=999, coverage_min=0.05))
    point = operating_point(judgement, 0.10)
    # A rotation within the run is deceived, the risk set is not.
    assert point.x_baselines["shift"].p_value <= 0.05
    assert point.x_baselines["risk_set"].p_value > 0.05
    assert judge(judgement).label != SUPPORTED


@by_law
@pytest.mark.parametrize("share", [0.44, 0.2])
def test_a_two_valued_score_shows_its_floor(law: Law, share: float) -> None:
    rng = np.random.default_rng([14, 0])
    raw = {n: noise(law, n, CHECKPOINTS, rng, str(n)) for n in (256, 136)}
    cut = np.nanquantile(raw[256].values, 1 - share)

    def two_valued(scores: Scores) -> Scores:
        values = np.where(scores.values > cut, 7.0, 3.0)
        return raised(dataclasses.replace(scores, values=values), 0.0, over=1)

    judgement = Judgement(two_valued(raw[256]), two_valued(raw[136]), settings())
    parts = judge(judgement)
    assert parts.label == "RANK_ONLY"
    reasons = [code for code in parts.x_reasons if code != "no_ranking_signal"]
    assert reasons[0] == "windows_floor"
    certificate, negative = parts.layer_B.x_floor_certificate, judgement.windows.negative
    assert certificate is not None
    high = negative & (judgement.evaluation.values == 7.0)
    rates = high.sum(axis=1)[negative.any(axis=1)] / negative.sum(axis=1)[negative.any(axis=1)]
    assert certificate.tied_value == 7.0
    assert certificate.tied_windows == high.sum()
    assert certificate.f_min_pos == pytest.approx(rates.mean())
    assert certificate.gaps["0.05"] == pytest.approx(rates.mean() - 0.05)
    assert certificate.gaps["0.1"] == pytest.approx(rates.mean() - 0.1)


@by_law
@pytest.mark.parametrize("m", [19, 32, 100])
def test_a_threshold_keeps_its_budget_on_fresh_runs(law: Law, m: int) -> None:
    rng, target, repeats = np.random.default_rng([15, m]), 0.05, 30
    chosen, achieved = settings(burn_in=0, horizon=60, safe_gap=80), []
    for _ in range(repeats):
        # Early events leave no negatives; m runs that have some are wanted.
        explore = noise(law, 2 * m, 60, rng, "explore")
        usable = np.flatnonzero(Judgement(explore, None, chosen).windows.negative.any(axis=1))[:m]
        judgement = Judgement(noise(law, 60, 60, rng), explore.select(usable), chosen)
        assert judgement.calibrated.n_runs == m
        rate = layer_b(judgement, intervals=False).at(target).achieved
        assert rate is not None
        achieved.append(rate)
    error = np.std(achieved, ddof=1) / math.sqrt(repeats)
    assert np.mean(achieved) <= target + 2 * error
    # Ties may cost any part of the budget, continuous scores no more than two runs' weight.
    if not law.grid:
        assert np.mean(achieved) >= target - 2 / (m + 1)
