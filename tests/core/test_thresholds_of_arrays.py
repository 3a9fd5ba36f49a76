"""Thresholds and promises of arrays, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.core import (
    Negatives,
    conformal_threshold,
    promise,
    run_maxima,
    run_threshold,
    spec_threshold,
)
from gmb_hf.core.thresholds import (
    effective_budget,
    floor_certificate,
    pass_line,
    runs_needed,
    runs_to_bound,
    runs_to_promise,
    shared_thresholds,
    shown_line,
)


def above(value: float) -> float:
    return math.nextafter(value, math.inf)


SCORES = np.array([[1.0, 5.0, 2.0], [4.0, 9.0, 3.0], [8.0, 8.0, 8.0]])
NEGATIVE = np.array([[True, True, True], [True, False, True], [False] * 3])


class TestNegatives:
    def test_of_arrays(self) -> None:
        found = Negatives.of(SCORES, NEGATIVE)
        assert found.values.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0]
        assert found.run.tolist() == [0, 1, 1, 0, 0]
        assert (found.n_windows, found.n_runs, found.counts.tolist()) == (5, 2, [3, 2, 0])
        assert found.rates(per_run=False).tolist() == [0.2, 0.4, 0.6, 0.8, 1.0]
        # Run 0 adds thirds, run 1 halves, over two runs.
        assert found.rates(per_run=True) == pytest.approx([1 / 6, 5 / 12, 2 / 3, 5 / 6, 1])

    def test_thresholds(self) -> None:
        found = Negatives.of(SCORES, NEGATIVE)
        assert spec_threshold(found, 0.4) == 4.0
        # m = 2, f = .5: the rates above q may sum up to .5. Above 4: 1/3; above 3: 1/3 + 1/2.
        assert conformal_threshold(found, 0.5) == above(4.0)
        assert conformal_threshold(found, 0.3) == math.inf

    def test_maxima(self) -> None:
        found = run_maxima(SCORES, NEGATIVE)
        assert np.array_equal(found, [5.0, 4.0, np.nan], equal_nan=True)
        assert run_threshold(found, 0.5) == above(5.0)  # k = ceil(.5 x 3) = 2 of 2
        assert run_threshold(found, 0.3) == math.inf  # k = 3

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("function", [run_maxima, Negatives.of])
    def test_a_score_that_is_not_finite_is_refused_not_left_out(self, function, value) -> None:
        values = SCORES.copy()
        values[1, 1] = value  # no negative window
        function(values, NEGATIVE)
        values[1, 2] = value
        with pytest.raises(InputError, match=r"run 1, checkpoint 2 is -?(nan|inf) in a negative"):
            function(values, NEGATIVE)
        function(values, NEGATIVE & np.isfinite(values))


def test_promises_by_hand() -> None:
    # 19 runs at 1 in 20: the greatest of them; the rate is Beta(1, 19).
    found = promise(0.05, 19)
    assert (found.rank, found.expected) == (19, 1 / 20)
    assert found.upper == pytest.approx(1 - 0.1 ** (1 / 19))
    assert promise(0.05, 18).rank is None
    # 39 runs leave one above: k = ceil(.95 x 40) = 38.
    assert (promise(0.05, 39).rank, promise(0.05, 39).expected) == (38, 2 / 40)
    # Conditional: nine locks in ten keep it, 1 - .1^(1/m) <= .05 from m = 45 on.
    assert 1 - 0.1 ** (1 / 45) <= 0.05 < 1 - 0.1 ** (1 / 44)
    assert runs_to_promise(0.05, "conditional") == 45
    assert [runs_needed(f) for f in (0.01, 0.05, 0.1)] == [99, 19, 9]
    assert runs_to_bound(0.1) == 11
    assert 1 - 0.1 ** (1 / 11) <= 0.2 < 1 - 0.1 ** (1 / 10)


def test_lines() -> None:
    assert pass_line(0.05, 0.01) == pytest.approx(0.06)
    assert pass_line(0.01, 0.01) == pytest.approx(0.015)  # half of the target at most
    assert [shown_line(a) for a in (0.05, 0.1, 0.2)] == pytest.approx([0.075, 0.15, 0.25])
    assert effective_budget(0.05, 100) == pytest.approx(0.05 - 0.95 / 100)
    assert effective_budget(0.05, 18) == 0.0


class TestSharedThresholds:
    def test_one_alarm_alone_keeps_its_own(self) -> None:
        maxima = {"a": list(np.arange(19.0))}
        assert shared_thresholds(maxima, 0.05, "marginal") == {"a": above(18.0)}

    def test_alarms_that_agree_share_one_rank(self) -> None:
        # 39 runs, both scores in one order: each run's highest rank is its rank, the 38th is 38,
        # and a fresh run may shift it by one: 39. By the union, half the budget: 39 of 39 too.
        rows = np.arange(39.0)
        found = shared_thresholds({"a": list(rows), "b": list(10 * rows)}, 0.05, "marginal")
        assert found == {"a": above(38.0), "b": above(380.0)}

    def test_runs_that_one_does_not_know_are_left_out(self) -> None:
        maxima = {"a": [*np.arange(19.0), 99.0], "b": [*np.arange(19.0), None]}
        found = shared_thresholds(maxima, 0.2, "marginal")
        # 19 runs: k = ceil(.8 x 20) = 16, so rank 17; by the union, ceil(.9 x 20) = 18.
        assert found == {"a": above(16.0), "b": above(16.0)}

    def test_too_few_for_so_many(self) -> None:
        maxima = {"a": list(np.arange(19.0)), "b": list(np.arange(19.0)[::-1])}
        assert set(shared_thresholds(maxima, 0.05, "marginal").values()) == {math.inf}


class TestFloor:
    def certificate(self, values: list[list[float]], positive: float = -math.inf, **how: bool):
        scores = np.array(values)
        negative = np.isfinite(scores)
        highest = scores.max(axis=1)
        ties = (scores == highest[:, None]).sum(axis=1)
        ahead = np.full(len(scores), positive)
        return floor_certificate(highest, ties, negative.sum(axis=1), ahead, **how)

    def test_a_tie_at_the_top_of_every_run(self) -> None:
        found = self.certificate([[1.0, 0.0], [1.0, 1.0]], per_run=True)
        assert (found.f_min_pos, found.tied_value, found.tied_windows) == (0.75, 1.0, 3)
        assert found.forbids(0.05)
        pooled = self.certificate([[1.0, 0.0], [1.0, 1.0]], per_run=False)
        assert pooled.f_min_pos == 0.75

    def test_a_single_window_at_the_top_forbids_nothing(self) -> None:
        found = self.certificate([[1.0, 0.0], [0.5, 0.0]], per_run=True)
        assert (found.f_min_pos, found.tied_value) == (0.25, None)
        assert not found.forbids(0.05)

    def test_positives_above_all_cost_nothing(self) -> None:
        found = self.certificate([[1.0, 1.0]], 2.0, per_run=True)
        assert (found.zero_reached, found.least, found.forbids(0.05)) == (True, 0.0, False)

    def test_without_negatives_there_is_none(self) -> None:
        none = np.zeros(2, dtype=np.int64)
        assert floor_certificate(np.zeros(2), none, none, np.zeros(2), per_run=True) is None
