"""By simulation: members that are pure noise, and what calibrating on other runs is worth.

Scores are autocorrelated and each run has a level of its own, as in real logs. Sixteen of them are
fitted to events that they know nothing of, with next to no penalty, on 30 runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gmb_hf import Design
from gmb_hf.benchmark.ensembles import MemberScores, split_runs
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import layer_b
from gmb_hf.benchmark.prepare import Entry
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.utility import operating_point
from gmb_hf.design.candidates import Ensemble
from gmb_hf.indicators.ensemble import external, unfitted_ensemble

TARGET, ALPHA = 0.1, 0.05
N_SIMULATED, N_EXPLORE, N_FRESH, LENGTH = 25, 60, 60, 50
NAMES = tuple(f"noise_{number}" for number in range(16))
CHOSEN = Design.minimal(
    horizon=10,
    safe_gap=12,
    w_event=1,
    fpr_targets=[TARGET],
    primary_fpr=TARGET,
    min_targets_ok=1,
    null_draws=100,
    bootstrap_draws=20,
    lead_time_median_min=1,
    lead_time_target=1,
)
DESIGN = Ensemble.parse(
    {"members": NAMES, "fit_share": 0.5, "penalties": [1e-4], "folds": 2}, where="test"
)
COLUMNS = [external(name, False) for name in NAMES]
ENTRY = Entry(
    unfitted_ensemble("all", COLUMNS), members=tuple(map(Entry, COLUMNS)), ensemble=DESIGN
)
MADE_BY = ("other runs", "the fitted runs", "single scores")


def noise(rng: np.random.Generator, n_runs: int) -> NDArray[np.float64]:
    """Scores [R, T, M]: AR(1) with coefficient .8 about each run's own level."""
    shocks = rng.standard_normal((n_runs, LENGTH, len(NAMES)))
    found = shocks.copy()
    for step in range(1, LENGTH):
        found[:, step] = 0.8 * found[:, step - 1] + 0.6 * shocks[:, step]
    return found + rng.standard_normal((n_runs, 1, len(NAMES)))


def scores(name: str, values: NDArray[np.float64], event: NDArray[np.float64]) -> Scores:
    n_runs = len(values)
    steps = np.tile(np.arange(LENGTH), (n_runs, 1))
    runs = tuple(f"run_{number}" for number in range(n_runs))
    return Scores(name, runs, values, steps, np.ones(steps.shape, dtype=bool), event)


def outcome(judgement: Judgement) -> tuple[float, bool]:
    """The rate on fresh runs, and whether chance is beaten at the level of a single test."""
    gate = layer_b(judgement, intervals=False)
    point = operating_point(judgement, judgement.design.primary_fpr)
    achieved, p_value = gate.achieved[0].achieved, point.x_p_value
    assert achieved is not None
    assert p_value is not None
    return achieved, p_value <= ALPHA


def simulated(seed: int) -> list[list[tuple[float, bool]]]:
    """Outcomes on fresh runs, by what calibrated: other runs, the fitted ones, single scores."""
    rng = np.random.default_rng(seed)
    values = noise(rng, N_EXPLORE + N_FRESH)
    event = rng.integers(25, LENGTH, size=len(values)).astype(float)
    seen, fresh = slice(N_EXPLORE), slice(N_EXPLORE, None)
    singles = [
        [scores(name, values[part, :, number], event[part]) for part in (seen, fresh)]
        for number, name in enumerate(NAMES)
    ]
    members = MemberScores(ENTRY, tuple(one[0] for one in singles), CHOSEN)
    fit, others = split_runs(members.scores[0].runs, DESIGN)
    log_odds = members.fit(fit).log_odds
    combined, judged = (
        scores("all", log_odds(values[part]), event[part]) for part in (seen, fresh)
    )

    def calibrated_on(runs: tuple[str, ...]) -> Judgement:
        rows = [row for row, run in enumerate(combined.runs) if run in runs]
        return Judgement(judged, combined.select(rows), CHOSEN)

    return [
        [outcome(calibrated_on(others))],
        [outcome(calibrated_on(fit))],
        [outcome(Judgement(after, before, CHOSEN)) for before, after in singles[:4]],
    ]


@pytest.fixture(scope="module")
def found() -> dict[str, NDArray[np.float64]]:
    """Rate and success, [simulations, 2], by what calibrated."""
    each = [simulated(seed) for seed in range(N_SIMULATED)]
    return {
        name: np.array([one[number] for one in each], dtype=float).reshape(-1, 2)
        for number, name in enumerate(MADE_BY)
    }


def standard_error(rates: NDArray[np.float64]) -> float:
    return float(rates.std(ddof=1) / np.sqrt(len(rates)))


def test_the_budget_is_kept_on_fresh_runs(found: dict[str, NDArray[np.float64]]) -> None:
    rates = found["other runs"][:, 0]
    assert rates.mean() <= TARGET
    # What 30 calibrating runs are expected to buy, and no less: the rate is no trivial zero.
    assert abs(rates.mean() - (TARGET - (1 - TARGET) / 30)) < 4 * standard_error(rates)


def test_on_the_fitted_runs_themselves_it_would_not_be(
    found: dict[str, NDArray[np.float64]],
) -> None:
    rates = found["the fitted runs"][:, 0]
    assert rates.mean() - 2 * standard_error(rates) > TARGET


def test_noise_combined_is_no_more_often_better_than_chance_than_noise_alone(
    found: dict[str, NDArray[np.float64]],
) -> None:
    combined, single = found["other runs"][:, 1], found["single scores"][:, 1]
    slack = 3 * np.sqrt(ALPHA * (1 - ALPHA) / N_SIMULATED)
    assert combined.mean() <= ALPHA + slack
    assert combined.mean() <= single.mean() + slack
