"""Layer D: the family, its members' labels, and the rates over them."""

from __future__ import annotations

import numpy as np
import pytest
from score_builders import design, noise_scores, raised_before_event, scores_of

from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.robustness import family, layer_d, member, run_groups
from gmb_hf.benchmark.scores import Scores

SETTINGS = {"horizon": 100, "safe_gap": 150, "burn_in": 20, "lead_time_median_min": 20.0}


def oracle(seed: int, by: float, *, n_runs: int = 60, **overrides: object) -> Judgement:
    """Noise that is raised by `by` in the last 100 steps before each event."""
    rng = np.random.default_rng(seed)
    explore = noise_scores(100, 80, rng, spread=0.0, prefix="explore")
    held_out = noise_scores(n_runs, 80, rng, spread=0.0)
    return Judgement(
        raised_before_event(held_out, by, over=100),
        raised_before_event(explore, by, over=100),
        design(**{**SETTINGS, **overrides}),
    )


def test_a_score_without_a_window_is_swept_over_the_horizon() -> None:
    names = [name for name, _ in family(oracle(0, 9.0, smoothing_sweep=[1, 3]), {})]
    assert len(names) == 3 * 2 * 5
    assert names[0] == "horizon=80,smooth=1,without=0"
    assert names[-1] == "horizon=125,smooth=3,without=4"


def test_the_horizon_stays_below_the_gap() -> None:
    judgement = oracle(0, 9.0, safe_gap=101)
    horizons = {name.split(",")[0] for name, _ in family(judgement, {})}
    assert horizons == {"horizon=80", "horizon=100"}


def test_a_shorter_horizon_asks_for_a_shorter_lead() -> None:
    judgement = oracle(0, 9.0, lead_time_median_min=90.0)
    least = {
        name.split(",")[0]: one.design.lead_time_median_min for name, one in family(judgement, {})
    }
    assert least == {"horizon=80": 72.0, "horizon=100": 90.0, "horizon=125": 90.0}
    # Raised throughout the horizon, it warns as early as a horizon lets it: .8 of it is no flip.
    layer = layer_d(judgement)
    assert layer.x_central_passes is True
    assert layer.label_flip_rate == 0.0


def test_runs_left_out_do_not_starve_a_cross_fitted_target() -> None:
    # 10 folds of 112 leave 100 runs, one more than .01 takes; with a fifth left out it is 80.
    held_out = oracle(0, 12.0, n_runs=112).evaluation
    chosen = design(**SETTINGS, primary_fpr=0.01, smoothing_sweep=[1])
    layer = layer_d(Judgement(held_out, None, chosen))
    assert layer.x_central_passes is True
    assert layer.label_flip_rate == 0.0


def test_window_variants_take_the_place_of_the_horizon() -> None:
    central = oracle(0, 9.0, smoothing_sweep=[1])
    variants = {"window=50": oracle(1, 9.0), "window=100": central}
    names = [name for name, _ in family(central, variants)]
    assert names == [f"window={w},smooth=1,without={g}" for w in (50, 100) for g in range(5)]


def test_each_group_is_left_out_once() -> None:
    judgement = oracle(0, 9.0, smoothing_sweep=[1], run_groups=3)
    left = [set(one.evaluation.runs) for name, one in family(judgement, {}) if "=100," in name]
    everything = set(judgement.evaluation.runs)
    missing = [everything - runs for runs in left]
    assert set.union(*missing) == everything
    assert sum(len(runs) for runs in missing) == len(everything)
    assert np.bincount(run_groups(40, 3)).tolist() == [14, 13, 13]


def test_a_strong_score_keeps_its_label() -> None:
    layer = layer_d(oracle(0, 9.0))
    assert layer.x_central_passes is True
    assert (layer.family_size, layer.pass_rate, layer.label_flip_rate) == (45, 1.0, 0.0)
    assert layer.sensitivity_notes == ""


def test_a_useless_score_keeps_its_label_too() -> None:
    layer = layer_d(oracle(0, 0.0))
    assert layer.x_central_passes is False
    assert layer.label_flip_rate == 0.0


def test_flips_are_counted_and_located() -> None:
    strong, useless = oracle(0, 9.0, smoothing_sweep=[1]), oracle(0, 0.0, smoothing_sweep=[1])
    layer = layer_d(strong, {"window=50": strong, "window=90": useless})
    assert layer.label_flip_rate == 0.5
    assert [m.passes for m in layer.x_members] == [True] * 5 + [False] * 5
    assert layer.sensitivity_notes == "5 of 5 members with window=90 get another result"
    assert layer.pass_rate == pytest.approx(np.mean([m.layer_b_pass for m in layer.x_members]))


def test_few_events_are_no_flip() -> None:
    layer = layer_d(oracle(0, 9.0, n_runs=20))
    assert layer.x_central_passes is True
    assert layer.label_flip_rate == 0.0


def test_one_run_cannot_be_left_out() -> None:
    judgement = Judgement(scores_of([np.arange(40.0)], [300.0]), None, design(protocol="v0.4"))
    layer = layer_d(judgement)
    assert layer.family_size == 9
    assert layer.x_members[0].name == "horizon=16,smooth=1"


def test_a_run_keeps_the_threshold_of_its_fold() -> None:
    judgement = Judgement(oracle(3, 2.0).evaluation, None, design(**SETTINGS))
    rows = np.array([3, 5, 58])
    chosen = judgement.select(rows).calibrated
    assert chosen.method == "cross_run"
    for target, thresholds in judgement.calibrated.thresholds.items():
        np.testing.assert_array_equal(chosen.thresholds[target], thresholds[rows])


@pytest.mark.parametrize("calibration", ["explore", "in_sample"])
def test_members_equal_judgements_made_from_scratch(calibration: str) -> None:
    judgement = oracle(3, 2.0, smoothing_sweep=[1, 3])
    if calibration == "in_sample":
        design = judgement.design.replace(protocol="v0.4")
        judgement = Judgement(judgement.evaluation, None, design)
    for name, one in list(family(judgement, {}))[7::11]:
        horizon, smooth, without = (int(part.split("=")[1]) for part in name.split(","))
        kept = np.flatnonzero(run_groups(60, 5) != without)
        explore = judgement.source
        fresh = Judgement(
            judgement.evaluation.select(kept).smooth(smooth),
            explore.smooth(smooth) if isinstance(explore, Scores) else None,
            judgement.design.replace(horizon=horizon),
        )
        assert member(name, one) == member(name, fresh)
