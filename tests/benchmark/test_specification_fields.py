"""Fields that the specification names follow its letter in every mode: rates pooled over windows.

By hand: 20 runs of unequal length, 10 of 50 negative windows and 10 of 450, so 5,000 in all. At the
three thresholds 3, 102 and 249 windows alarm: .0006, .0204 and .0498 of them. Most of these lie in
the short runs, so that the mean over runs is .003, .0504 and .0997, within .01 of each target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from score_builders import design, scores_of

from gmb_hf.benchmark.judgement import Judgement, Locked
from gmb_hf.benchmark.operationality import LayerBRecord, layer_b
from gmb_hf.core.thresholds import Negatives

TARGETS = (0.01, 0.05, 0.10)
POOLED = (3 / 5000, 102 / 5000, 249 / 5000)
LOCKED = Locked({1: {0.01: 3.0, 0.05: 2.0, 0.10: 1.0}}, None, n_runs=110)


def levels(counts: tuple[int, int, int], n_windows: int) -> np.ndarray:
    """That many windows at 3, at 2 or above, and at 1 or above; the others at 0."""
    found = np.zeros(n_windows)
    for level, count in zip((1, 2, 3), reversed(counts), strict=True):
        found[:count] = level
    return found


@pytest.fixture
def values() -> list[list[float]]:
    short = levels((3, 44, 81), 500).reshape(50, 10).T  # dealt out among the ten
    long = levels((0, 58, 168), 4500).reshape(450, 10).T
    ahead = [0.0] * 5  # the last windows of a run without an event are ignored
    return [[*row, *ahead] for row in (*short.tolist(), *long.tolist())]


def measured(values: list[list[float]], protocol: str, **overrides: Any) -> LayerBRecord:
    chosen = design(protocol=protocol, fpr_targets=list(TARGETS), **overrides)
    return layer_b(Judgement(scores_of(values, [None] * 20), LOCKED, chosen))


@pytest.mark.parametrize("protocol", ["strict", "v0.4"])
def test_ok_targets_is_of_pooled_windows(values: list[list[float]], protocol: str) -> None:
    found = measured(values, protocol)
    assert (found.x_n_runs, found.x_n_windows) == (20, 5000)
    assert [row.x_achieved_pooled for row in found.achieved] == list(POOLED)
    # |.0006 - .01| is within .01; |.0204 - .05| and |.0498 - .10| are not.
    assert found.ok_targets == 1
    assert found.controllability_pass is False
    assert (found.fpr_min, found.fpr_floor_detected) == (0.0006, False)


def test_means_over_runs_would_have_met_all_three(values: list[list[float]]) -> None:
    found = measured(values, "strict")
    means = [row.achieved for row in found.achieved]
    by_hand = [3 / 50, 44 / 50 + 58 / 450, 81 / 50 + 168 / 450]
    assert means == pytest.approx([total / 20 for total in by_hand], abs=1e-12)
    assert all(abs(mean - f) <= 0.01 for mean, f in zip(means, TARGETS, strict=True))


def test_beside_them_strict_decides_by_a_cap_on_the_mean_over_runs(
    values: list[list[float]],
) -> None:
    found = measured(values, "strict")
    assert found.x_decided_by == "x_budget_pass"
    assert all(row.x_within_budget for row in found.achieved)
    assert [row.x_state for row in found.achieved] == ["met"] * 3  # promised, and not refuted
    assert (found.n_met, found.x_budget_pass, found.controlled) == (3, True, True)


def test_in_v04_the_letter_decides(values: list[list[float]]) -> None:
    found = measured(values, "v0.4")
    assert found.x_decided_by == "controllability_pass"
    assert [row.achieved for row in found.achieved] == list(POOLED)
    assert [row.x_state for row in found.achieved] == ["met", "missed", "missed"]
    assert (found.n_met, found.controlled, found.x_passed) == (1, False, False)
    enough = measured(values, "v0.4", min_targets_ok=1)
    assert (enough.ok_targets, enough.controllability_pass) == (1, True)


def test_the_rates_themselves(values: list[list[float]]) -> None:
    judgement = Judgement(scores_of(values, [None] * 20), LOCKED, design())
    negatives = Negatives.of(judgement.evaluation.values, judgement.windows.negative)
    assert negatives.distinct.tolist() == [3.0, 2.0, 1.0, 0.0]
    assert negatives.rates(per_run=False).tolist() == [*POOLED, 1.0]
    assert negatives.rates(per_run=True)[:3] == pytest.approx([0.003, 0.0504444, 0.0996667])
