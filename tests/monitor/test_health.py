"""Calibration health: by hand, then by simulation, then through a monitor."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
from live_runs import DESIGN, GAIN, NORM, SYSTEM, Evaluated, made_up

from gmb_hf import Design, make_lock
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.health import (
    Drift,
    Reference,
    conformal_bound,
    cusum,
    largest_drifts,
    lock_health,
)
from gmb_hf.design.lock import Lock
from gmb_hf.monitor.monitor import AlarmMonitor
from gmb_hf.runs.panel import Panel

ALPHA = 0.05
CHOSEN = Design.minimal(horizon=100, safe_gap=200, alpha=ALPHA)
LENGTH = 120


def panel(values: np.ndarray) -> Panel:
    names = [f"run_{row}" for row in range(len(values))]
    steps = 10 * np.arange(values.shape[1])
    return Panel.from_series(
        "score", [(name, steps, row) for name, row in zip(names, values, strict=True)]
    )


def scores(
    n_runs: int, rng: np.random.Generator, *, memory: float, effect: float, events: bool
) -> np.ndarray:
    """AR(1) scores of sd 1 with an offset of each run, and a precursor that ends high."""
    noise = rng.standard_normal((n_runs, LENGTH))
    values = noise.copy()
    for t in range(1, LENGTH):
        values[:, t] = memory * values[:, t - 1] + math.sqrt(1 - memory**2) * noise[:, t]
    values += effect * rng.standard_normal((n_runs, 1))
    if events:
        event = rng.integers(40, LENGTH + 40, size=(n_runs, 1))
        values += 3 / (1 + np.exp(-(np.arange(LENGTH) - event) / 6))
    return values


def abstaining(design: Design, explore: np.ndarray, live: np.ndarray) -> float:
    """The share of live runs that pass the bound which explore runs lock."""
    health = lock_health(design, {"score": panel(explore)})
    assert health is not None
    drift = health.candidates["score"]
    bound = conformal_bound(largest_drifts([drift]), health.alpha)
    item = Reference(np.array(health.begins), np.array(drift.knots))
    runs = panel(live)
    sums = cusum(item.ranks(runs.values, runs.steps))
    scaled = sums / [drift.up.scale, drift.down.scale]
    return float((scaled.max(axis=(1, 2)) > bound).mean())


class TestByHand:
    def test_ranks(self) -> None:
        item = Reference(np.array([10, 50]), np.array([np.arange(16.0), np.arange(16.0) + 100]))
        values = np.array([[-1.0, 3.0, 3.5, 99.0, 99.0, math.nan, 200.0]])
        steps = np.array([[10, 20, 30, 49, 50, 60, 5]])
        # 3.0 has three knots below and twelve above; what is not finite or too early counts not.
        np.testing.assert_array_equal(item.ranks(values, steps), [[-16, -9, -8, 16, -16, 0, 0]])

    def test_the_cusum_counts_what_passes_the_slack_on_either_side(self) -> None:
        sums = cusum(np.array([[10, 10, -16, 0, -16]]))
        np.testing.assert_array_equal(sums[0, :, 0], [6, 12, 0, 0, 0])
        np.testing.assert_array_equal(sums[0, :, 1], [0, 0, 12, 8, 20])

    def test_a_reference_holds_quantiles_of_each_part(self) -> None:
        values = np.tile(np.arange(32.0), (3, 1))
        item = Reference.of(panel(values), np.array([0, 160]))
        np.testing.assert_array_equal(item.knots[0], np.arange(16))
        np.testing.assert_array_equal(item.knots[1], np.arange(16, 32))

    def test_a_part_without_a_score_takes_the_nearest(self) -> None:
        values = np.tile(np.arange(32.0), (3, 1))
        values[:, 16:] = math.nan
        item = Reference.of(panel(values), np.array([0, 160]))
        np.testing.assert_array_equal(item.knots[1], np.arange(16))

    @pytest.mark.parametrize(
        ("n", "alpha", "bound"),
        [(18, 0.05, math.inf), (19, 0.05, 19), (39, 0.05, 38), (9, 0.1, 9), (8, 0.1, math.inf)],
    )
    def test_the_conformal_bound(self, n: int, alpha: float, bound: float) -> None:
        assert conformal_bound(np.arange(1, n + 1), alpha) == bound

    def test_one_checkpoint_at_a_time_is_the_same(self) -> None:
        rng = np.random.default_rng(0)
        health = lock_health(CHOSEN, {"score": panel(rng.standard_normal((40, LENGTH)))})
        assert health is not None
        drift = health.candidates["score"]
        live = panel(rng.standard_normal((1, LENGTH)) + 0.5)
        item = Reference(np.array(health.begins), np.array(drift.knots))
        sums = cusum(item.ranks(live.values, live.steps))[0]
        largest = np.maximum.accumulate((sums / [drift.up.scale, drift.down.scale]).max(axis=1))
        stream = Drift(drift, health.begins)
        got = [stream.update(int(s), v) for s, v in zip(live.steps[0], live.values[0], strict=True)]
        np.testing.assert_array_equal(got, largest)


class TestLocked:
    @pytest.mark.parametrize(
        ("n_runs", "reference", "promised"),
        [(200, 100, True), (40, 20, True), (24, 5, True), (20, 1, True), (19, 9, False)],
    )
    def test_half_of_the_runs_are_the_reference_where_alpha_allows(
        self, n_runs: int, reference: int, promised: bool
    ) -> None:
        rng = np.random.default_rng(0)
        health = lock_health(CHOSEN, {"score": panel(rng.standard_normal((n_runs, 20)))})
        assert health is not None
        assert health.n_reference_runs == reference
        assert health.n_calibration_runs == n_runs - reference
        drift = health.candidates["score"]
        assert len(drift.up.maxima) == len(drift.down.maxima) == n_runs - reference
        bound = conformal_bound(largest_drifts([drift]), ALPHA)
        assert math.isfinite(bound) == promised

    def test_the_level_is_its_own_or_that_of_the_tests(self) -> None:
        values = panel(np.random.default_rng(0).standard_normal((30, 20)))
        for design, alpha in ((CHOSEN, 0.05), (CHOSEN.replace(health_alpha=0.2), 0.2)):
            health = lock_health(design, {"score": values})
            assert health is not None
            assert health.alpha == alpha

    def test_nothing_is_locked_without_runs_to_compare(self) -> None:
        values = np.zeros((3, 5))
        assert lock_health(CHOSEN, {"score": panel(values[:1])}) is None
        assert lock_health(CHOSEN.replace(burn_in=60), {"score": panel(values)}) is None

    def test_a_score_that_is_never_finite_has_no_ranks(self) -> None:
        values = np.random.default_rng(0).standard_normal((30, 20))
        health = lock_health(CHOSEN, {"a": panel(values), "b": panel(values * math.nan)})
        assert health is not None
        assert set(health.candidates) == {"a"}

    def test_the_delay_is_that_of_runs_that_drift(self) -> None:
        rng = np.random.default_rng(3)
        explore = rng.standard_normal((200, LENGTH))
        health = lock_health(CHOSEN, {"score": panel(explore)})
        assert health is not None
        drift = health.candidates["score"]
        bound = conformal_bound(largest_drifts([drift]), ALPHA)
        for shift, told in ((1.0, drift.up.delay_steps), (-1.0, drift.down.delay_steps)):
            delays = []
            for live in rng.standard_normal((60, LENGTH)):
                stream = Drift(drift, health.begins)
                late = live + shift * (np.arange(LENGTH) >= LENGTH // 2)
                passed = [
                    10 * (t - LENGTH // 2)
                    for t, score in enumerate(late)
                    if stream.update(10 * t, score) > bound and t >= LENGTH // 2
                ]
                delays.append(passed[0] if passed else math.inf)
            assert told == pytest.approx(np.median(delays), rel=0.25)

    def test_a_shift_that_runs_have_by_themselves_is_not_noticed(self) -> None:
        rng = np.random.default_rng(0)
        values = scores(60, rng, memory=0.9, effect=2.0, events=False)
        health = lock_health(CHOSEN, {"score": panel(values)})
        assert health is not None
        assert health.candidates["score"].up.delay_steps is None


class TestBySimulation:
    @pytest.mark.parametrize("n_explore", [24, 80])
    @pytest.mark.parametrize(("memory", "effect"), [(0.0, 0.0), (0.9, 0.5), (0.98, 1.0)])
    def test_it_abstains_for_nothing_in_at_most_alpha_of_runs(
        self, n_explore: int, memory: float, effect: float
    ) -> None:
        rng = np.random.default_rng(1)
        rates = []
        for _ in range(40 if n_explore < 40 else 20):
            values = scores(n_explore + 45, rng, memory=memory, effect=effect, events=True)
            rates.append(abstaining(CHOSEN, values[:n_explore], values[n_explore:]))
        error = np.std(rates) / math.sqrt(len(rates))
        assert np.mean(rates) <= ALPHA + 2.5 * error
        assert error < 0.017

    def test_windows_taken_for_independent_would_abstain_far_more_often(self) -> None:
        rng = np.random.default_rng(1)
        values = scores(80, rng, memory=0.9, effect=0.5, events=True)
        negatives = values[:, :30]
        shuffled = rng.permutation(negatives.ravel())[: 40 * 60].reshape(40, 60)
        assert abstaining(CHOSEN, shuffled, values[:, :60]) > 0.5

    def test_a_broken_observable_is_noticed(self) -> None:
        rng = np.random.default_rng(1)
        values = scores(100, rng, memory=0.5, effect=0.2, events=True)
        live = values[40:]
        assert abstaining(CHOSEN, values[:40], np.where(np.arange(LENGTH) > 20, -9, live)) > 0.95


class TestThroughAMonitor:
    def test_held_out_runs_are_read_to_their_end(self, evaluated: Evaluated) -> None:
        abstained, monitor = 0, evaluated.monitor()
        fresh = monitor.state_dict()
        for run in range(20):
            monitor.load_state_dict(fresh)
            states = [monitor.update(**row).state for row in evaluated.rows(run)]
            abstained += "ABSTAIN" in states
        # Binomial(20, .05) exceeds 5 with a probability of .0003: three scores share one bound.
        assert abstained <= 5

    def test_a_score_that_drifts_breaks_its_ruler_for_good(self, evaluated: Evaluated) -> None:
        monitor = evaluated.monitor(NORM)
        for row in evaluated.rows():
            # A norm that leaks upwards: the fall that should warn is never seen.
            row["embedding_norm"] *= 1 + 0.002 * max(0, row["step"] - 200)
            reading = monitor.update(**row)
        item = reading.indicator(NORM)
        assert reading.state == "ABSTAIN"
        assert reading.since == item.since
        assert 200 < item.since < 1200
        assert item.drift is not None
        assert item.drift > item.drift_bound
        assert reading.reason.startswith(
            f"{NORM} is broken since step {item.since}: its scores drift (CUSUM of ranks "
        )
        assert reading.reason.endswith(f"{item.drift_bound:.3g} of whole explore runs)")

    def test_too_few_runs_promise_nothing_and_say_so(self, evaluated: Evaluated) -> None:
        few, _ = make_lock(DESIGN.replace(primary_run_budget=0.1), made_up(19, 0))
        source = evaluate_lock(few, evaluated.held_out).results.x_provenance
        # As if its verdicts were those of many runs.
        results = evaluated.results.model_copy(update={"x_provenance": source}).with_checksums()
        monitor = AlarmMonitor(few, results, act=[GAIN], show=(), budget=0.1)
        assert monitor.notes[0] == (
            "Calibration health cannot be promised: 0.05 takes 19 explore runs beside the "
            "reference, there are 10."
        )
        for row in islice(evaluated.rows(), 60):
            reading = monitor.update(**row)
        assert reading.health == monitor.notes[0]
        assert reading.indicator(GAIN).broken is None
        assert all(math.isinf(item.drift_bound) for item in reading.indicators)

    def test_a_lock_without_ranks_promises_nothing(self, evaluated: Evaluated) -> None:
        locked = evaluated.lock.x_lock
        bare = Lock.build(
            evaluated.lock.design,
            locked.candidates,
            explore_fingerprint=locked.explore_fingerprint,
            explore_runs=locked.explore_runs,
            explore_seeds=locked.explore_seeds,
            n_calibration_runs=locked.n_calibration_runs,
        )
        results = evaluate_lock(bare, evaluated.held_out).results
        monitor = AlarmMonitor(bare, results, act=[GAIN], system=SYSTEM)
        assert monitor.notes == (
            "Calibration health cannot be promised: the lock holds no ranks of explore runs; lock "
            "again.",
        )
        assert monitor.update(step=0, embedding_gini=0.3).indicator(GAIN).drift is None
