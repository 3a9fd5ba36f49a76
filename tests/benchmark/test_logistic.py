"""The fit of an ensemble: runs are the units, the order of rows is nothing, outliers are tame."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from gmb_hf.benchmark.ensembles import (
    LARGEST,
    Chosen,
    LabelledWindows,
    LogOdds,
    choose,
    fit_log_odds,
    standard_units,
)

PENALTIES = (1e-4, 1e-2, 1.0)


def fitted(rows: LabelledWindows, penalty: float) -> LogOdds:
    return fit_log_odds(rows, [penalty])[penalty]


def chosen_of(rows: LabelledWindows, penalties: tuple[float, ...], folds: int) -> Chosen[float]:
    return choose(rows, fit_log_odds, sorted(penalties, reverse=True), folds)


def made_up(n_runs: int = 12, length: int = 30, seed: int = 0) -> LabelledWindows:
    """Windows whose first score leads to the positive ones, the second is noise, runs of one length
    and the last third of each positive."""
    rng = np.random.default_rng(seed)
    run = np.repeat(np.arange(n_runs), length)
    positive = np.tile(np.arange(length) >= 2 * length // 3, n_runs)
    features = rng.standard_normal((len(run), 2))
    features[:, 0] += 1.5 * positive
    return LabelledWindows(features, positive, run)


def test_weights_are_equal_for_every_run_in_each_class() -> None:
    run = np.array([0, 0, 0, 0, 1, 1, 1])
    positive = np.array([True, False, False, False, True, True, False])
    rows = LabelledWindows(np.zeros((7, 1)), positive, run)
    expected = np.array([1, 1 / 3, 1 / 3, 1 / 3, 1 / 2, 1 / 2, 1]) / 4
    np.testing.assert_allclose(rows.weights, expected)
    assert rows.runs_of_both_classes.tolist() == [0, 1]


def test_every_fold_leaves_both_classes_to_fit_on() -> None:
    """Two long runs of both classes, which balanced folds would put on one side, and others."""
    run = np.repeat(np.arange(6), (3, 40, 40, 3, 3, 3))
    positive = np.isin(run, (1, 2)) & (np.arange(len(run)) % 2 == 0)
    rows = LabelledWindows(np.random.default_rng(0).standard_normal((len(run), 2)), positive, run)
    fold = rows.folds(2)
    assert [len(set(fold[run == number].tolist())) for number in range(6)] == [1] * 6
    for number in range(2):
        assert set(positive[fold != number].tolist()) == {True, False}
    assert np.isfinite(chosen_of(rows, PENALTIES, 2).log_odds.intercept)


def test_a_run_that_is_repeated_in_more_windows_changes_nothing() -> None:
    rows = made_up()
    long = np.flatnonzero(rows.run == 3)
    longer = rows.select(np.concatenate([np.arange(len(rows.run)), *[long] * 4]))
    first, second = fitted(rows, 0.01), fitted(longer, 0.01)
    np.testing.assert_allclose(first.coefficients, second.coefficients, rtol=1e-6)
    np.testing.assert_allclose(first.intercept, second.intercept, rtol=1e-6)


@pytest.mark.parametrize("penalty", [1e-8, 1e-4, 1e8])
@pytest.mark.parametrize("apart", [0.0, 50.0])
def test_the_fit_is_exact_to_the_penalties_bounds(penalty: float, apart: float) -> None:
    """The gradient is nothing there, also where a score parts the classes without error."""
    rows = made_up()
    rows.features[:, 0] += apart * rows.positive
    found = fitted(rows, penalty)
    squashed = np.arcsinh((rows.features - found.center) / found.scale)
    surprise = rows.weights * (expit(found(rows.features)) - rows.positive)
    slope = surprise @ squashed + penalty * found.coefficients
    np.testing.assert_allclose([surprise.sum(), *slope], 0, atol=1e-9)


def test_the_fit_minimises_what_it_says() -> None:
    rows, penalty = made_up(), 0.05
    found = fitted(rows, penalty)
    squashed = np.arcsinh((rows.features - found.center) / found.scale)

    def objective(beta: np.ndarray) -> float:
        log_odds = beta[0] + squashed @ beta[1:]
        losses = np.logaddexp(0, np.where(rows.positive, -log_odds, log_odds))
        return float(rows.weights @ losses + penalty / 2 * (beta[1:] ** 2).sum())

    best = minimize(objective, np.zeros(3), tol=1e-12).x
    np.testing.assert_allclose([found.intercept, *found.coefficients], best, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(random) -> None:
    rows = made_up(n_runs=8, length=12)
    order = list(range(len(rows.run)))
    random.shuffle(order)
    first = chosen_of(rows, PENALTIES, 4)
    second = chosen_of(rows.select(np.array(order)), PENALTIES, 4)
    assert first.setting == second.setting
    assert first.losses == second.losses
    assert first.log_odds.intercept == second.log_odds.intercept
    np.testing.assert_array_equal(first.log_odds.coefficients, second.log_odds.coefficients)


def test_the_order_of_rows_moves_no_quartile_either() -> None:
    """A sum of weights that reaches a quarter in one order need not in another."""
    rows = made_up(20, 50, seed=5)
    order = np.random.default_rng(5).permutation(len(rows.run))
    first, second = chosen_of(rows, PENALTIES, 4), chosen_of(rows.select(order), PENALTIES, 4)
    assert (first.setting, first.losses) == (second.setting, second.losses)


def test_a_score_that_tells_is_weighed_and_noise_is_not() -> None:
    chosen = chosen_of(made_up(40), PENALTIES, 5)
    told, noise = chosen.log_odds.coefficients
    assert told > 1
    assert abs(noise) < 0.2
    assert min(chosen.losses.values()) < 0.5 < np.log(2)


def test_runs_that_were_fitted_are_not_those_that_choose_the_penalty() -> None:
    """Labels that belong to runs: a feature that is each run's own number explains them on the runs
    of the fit and no others, so that only a strong penalty does no harm outside."""
    rng = np.random.default_rng(0)
    run = np.repeat(np.arange(20), 10)
    features = np.repeat(rng.standard_normal((20, 15)), 10, axis=0)
    positive = np.repeat(rng.random(20) < 0.5, 10)
    chosen = chosen_of(LabelledWindows(features, positive, run), (1e-4, 1e-2, 1.0, 100.0), 5)
    assert chosen.setting == 100.0
    assert chosen.losses[1e-4] > 2 * np.log(2)


def test_units_are_median_and_quartiles_and_an_outlier_moves_neither() -> None:
    values = np.arange(1.0, 101.0)[:, None]
    weights = np.full(100, 0.01)
    center, scale = standard_units(values, weights)
    assert center[0] in (50, 51)
    assert scale[0] == pytest.approx(50 / 1.349, rel=0.05)
    values[-1] = 1e12
    again = standard_units(values, weights)
    assert (again[0][0], again[1][0]) == (center[0], scale[0])


def test_units_of_a_score_that_is_mostly_one_value_or_never_moves() -> None:
    rare = np.array([0.0] * 9 + [10.0])[:, None]
    weights = np.full(10, 0.1)
    assert standard_units(rare, weights)[1][0] == pytest.approx(3.0)
    assert standard_units(np.full((10, 1), 0.1), weights)[1][0] == 1.0


def test_a_score_between_nothing_and_the_largest_is_fitted() -> None:
    """Four in five windows next to nothing and the others at the edge: nothing overflows."""
    rows, rng = made_up(), np.random.default_rng(0)
    extreme = np.where(rng.random(len(rows.run)) < 0.8, 1e-320 * rng.random(len(rows.run)), LARGEST)
    features = np.column_stack([rows.features, extreme])
    found = fitted(LabelledWindows(features, rows.positive, rows.run), 0.01)
    assert np.isfinite([*found.scale, *found.coefficients, found.intercept]).all()
    assert np.isfinite(found(features)).all()


def test_a_constant_score_weighs_nothing() -> None:
    rows = made_up()
    features = np.column_stack([rows.features, np.full(len(rows.run), 0.1)])
    found = fitted(LabelledWindows(features, rows.positive, rows.run), 0.01)
    assert found.coefficients[2] == 0
