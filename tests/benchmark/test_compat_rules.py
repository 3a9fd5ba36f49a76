"""Protocol compat: each rule by hand, then against the reference's loops on random runs."""

from __future__ import annotations

import math

import compat_by_hand as loops
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_builders import null_paths

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.compat import (
    CompatSettings,
    average_precision,
    effective_sample_size,
    event_steps,
    explain_settings,
    false_positive_rates,
    jump,
    measure,
    nearest_thresholds,
    pooled,
    positive_windows,
    reproduce,
    roc_auc,
    settings_of,
    trailing_mean,
)
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog

LEVELS = st.sampled_from([0.0, 0.5, 0.8, 0.84, 0.85, 0.86, 0.88, 0.9, 0.92, 1.0])
TIED = st.sampled_from([-1.0, -0.0, 0.0, 0.25, 0.5, 2.0])


def panel(*rows: list[float], cadence: int = 100, name: str = "score") -> Panel:
    series = [(f"seed_{i}", np.arange(len(row)) * cadence, row) for i, row in enumerate(rows)]
    return Panel.from_series(name, series)


def settings(**changes: object) -> CompatSettings:
    return CompatSettings(**{"horizon": 200, **changes})  # type: ignore[arg-type]


def measured(*rows: list[float], events: list[float | None], **changes: object) -> IndicatorRecord:
    steps = [math.nan if event is None else event for event in events]
    return measure(Scores.from_panel(panel(*rows), steps), settings(**changes))


class TestEvent:
    def test_the_mean_starts_with_what_there_is(self):
        np.testing.assert_array_equal(trailing_mean(np.array([2.0, 4, 6, 8]), 3), [2, 3, 4, 6])
        np.testing.assert_array_equal(trailing_mean(np.array([2.0, 4]), 5), [2, 3])

    def test_a_jump(self):
        # Means over two: .5 .5 .7 .9 .9: at 3 it has risen by .4 and holds.
        assert jump(np.array([0.5, 0.5, 0.9, 0.9, 0.9]), settings()) == 3

    @pytest.mark.parametrize(
        "values",
        [
            [0.5, 0.5, 0.8, 0.8, 0.8],  # below the floor
            [0.9, 0.9, 0.92, 0.92, 0.92],  # rises by .02
            [0.5, 0.5, 0.9, 0.9],  # no later checkpoint to hold for
            [0.5, 0.5, 0.9, 0.9, 0.5, 0.5],  # falls back
            [0.5, 0.9, 0.9],  # nothing two checkpoints before
        ],
    )
    def test_no_jump(self, values: list[float]):
        assert jump(np.array(values), settings()) is None

    def test_a_fall_after_the_hold_does_not_matter(self):
        values = np.array([0.5, 0.5, 0.9, 0.9, 0.9, 0.5])
        assert jump(values, settings()) is None
        assert jump(values, settings(hold_k=2)) == 3

    @given(
        metric=st.lists(LEVELS, min_size=4, max_size=14),
        w_jump=st.integers(1, 3),
        hold_k=st.integers(2, 6),
    )
    def test_as_the_loops(self, metric: list[float], w_jump: int, hold_k: int):
        chosen = settings(w_jump=w_jump, hold_k=hold_k)
        if len(metric) < chosen.least_rows:
            return
        run = loops.Run([i * 100 for i in range(len(metric))], metric, metric)
        found = event_steps(panel(metric), chosen)[0]
        assert (None if np.isnan(found) else found) == loops.event(run, chosen)

    def test_a_short_run_and_a_gap_are_refused(self):
        with pytest.raises(InputError, match=r"'seed_1' has 3 rows, .* need at least 4"):
            event_steps(panel([0.5] * 5, [0.5] * 3), settings())
        with pytest.raises(InputError, match=r"'seed_0' has 5 rows, .* need at least 9"):
            event_steps(panel([0.5] * 5), settings(smoothing=9))
        gap = panel([0.5] * 5, [0.5, math.nan, 0.5, math.inf], name="acc")
        with pytest.raises(InputError, match=r"'seed_1', step 100: metric 'acc' is nan \(at 2 st"):
            event_steps(gap, settings())
        blank = panel([math.nan] * 4, name="acc")
        with pytest.raises(InputError, match="at every step of this run"):
            event_steps(blank, settings())


class TestWindows:
    def test_t_star_is_positive_and_all_else_negative(self):
        scores = Scores.from_panel(panel([0.0] * 7, [0.0] * 3), [400, math.nan])
        expected = [[0, 0, 1, 1, 1, 0, 0], [0] * 7]
        np.testing.assert_array_equal(positive_windows(scores, 200), expected)

    def test_pooled_runs_stand_by_name_as_text(self):
        rows = [(f"seed_{i}", [0, 1], [i, i]) for i in (2, 10)]
        scores = Scores.from_panel(Panel.from_series("s", rows), [0, math.nan])
        positive, values = pooled(positive_windows(scores, 5), scores)
        np.testing.assert_array_equal(values, [10, 10, 2, 2])
        np.testing.assert_array_equal(positive, [0, 0, 1, 0])


class TestRanking:
    def test_ties_are_broken_by_time(self):
        early, late = np.array([True, True, False, False]), np.array([False, False, True, True])
        tied = np.zeros(4)
        assert (roc_auc(early, tied), roc_auc(late, tied)) == (1.0, 0.0)
        assert average_precision(early, tied) == 1.0
        assert average_precision(late, tied) == pytest.approx((1 / 3 + 2 / 4) / 2)

    def test_one_class(self):
        values = np.arange(3.0)
        nothing, everything = np.zeros(3, dtype=bool), np.ones(3, dtype=bool)
        assert roc_auc(nothing, values) is average_precision(nothing, values) is None
        assert (roc_auc(everything, values), average_precision(everything, values)) == (None, 1.0)

    @given(st.lists(st.tuples(st.booleans(), TIED), min_size=1, max_size=30))
    def test_as_the_loops(self, windows: list[tuple[bool, float]]):
        positive, values = [p for p, _ in windows], [s for _, s in windows]
        found = (roc_auc, average_precision)
        for ours, theirs in zip(found, (loops.roc_auc, loops.average_precision), strict=True):
            expected = theirs(positive, values)
            result = ours(np.array(positive), np.array(values))
            assert result == (None if expected is None else pytest.approx(expected, abs=1e-12))


class TestThresholds:
    def test_infinity_is_no_candidate(self):
        # Half of the negatives share the top: no threshold costs less.
        positive = np.array([False] * 4 + [True])
        values = np.array([0.0, 0.0, -1.0, -2.0, 0.0])
        tau, rates = nearest_thresholds(positive, values, (0.01, 0.05))
        np.testing.assert_array_equal(tau, [0, 0])
        np.testing.assert_array_equal(rates, [0.5, 0.5])

    def test_the_score_of_a_positive_window_is_a_candidate(self):
        positive = np.array([False, False, True])
        tau, rates = nearest_thresholds(positive, np.array([1.0, 2.0, 3.0]), (0.01,))
        assert (tau.tolist(), rates.tolist()) == ([3.0], [0.0])

    def test_of_equally_near_rates_the_smaller_then_the_higher_threshold(self):
        positive = np.array([False, False, True])
        tau, rates = nearest_thresholds(positive, np.array([3.0, 1.0, 2.0]), (0.75, 0.5))
        assert (tau.tolist(), rates.tolist()) == ([3.0, 3.0], [0.5, 0.5])

    def test_minus_zero_reads_zero(self):
        tau, _ = nearest_thresholds(np.array([False]), np.array([-0.0]), (0.05,))
        assert math.copysign(1, tau[0]) == 1

    def test_rates_of_given_thresholds(self):
        positive, values = np.array([False, True, False]), np.array([1.0, 5.0, 2.0])
        rates = false_positive_rates(positive, values, np.array([9.0, 2.0, 1.5, 0.0]))
        np.testing.assert_array_equal(rates, [0, 0.5, 0.5, 1])

    @given(
        st.lists(st.tuples(st.booleans(), TIED), min_size=1, max_size=25),
        st.lists(st.floats(0.01, 0.99), min_size=1, max_size=3),
    )
    def test_as_the_loops(self, windows: list[tuple[bool, float]], targets: list[float]):
        positive, values = [p for p, _ in windows], [s for _, s in windows]
        if all(positive):
            return
        tau, rates = nearest_thresholds(np.array(positive), np.array(values), targets)
        assert list(zip(tau, rates, strict=True)) == loops.thresholds(positive, values, targets)


class TestEffectiveSampleSize:
    def test_by_hand(self):
        # 1, -1, 1, -1: rho_1 = -1, so the sum is empty.
        assert effective_sample_size(np.array([1.0, -1, 1, -1])) == 4
        # Deviations -1, -1, 1, 1: rho_1 = 1/3, rho_2 = -1.
        assert effective_sample_size(np.array([0.0, 0, 2, 2])) == pytest.approx(4 / (1 + 2 / 3))

    def test_a_constant_and_nothing_have_none(self):
        assert effective_sample_size(np.full(5, 0.1)) is None
        assert effective_sample_size(np.zeros(0)) is None

    @pytest.mark.parametrize("seed", range(8))
    def test_as_the_loops(self, seed: int):
        rng = np.random.default_rng(seed)
        values = np.convolve(rng.normal(size=60), np.ones(1 + seed))
        expected = loops.effective_sample_size(values.tolist())
        assert effective_sample_size(values) == pytest.approx(expected, rel=1e-9)


class TestMeasure:
    def test_points_by_hand(self):
        found = measured(
            [0, 0, 5, 1, 0, 0], [0, 9, 0, 2, 7, 0], [1, 0, 0, 0, 0, 0],
            events=[400, 400, None], fpr_targets=(0.2,), thresholds=(5.0,),
        )  # fmt: skip
        (point,), rows = found.layer_C.at_fpr, found.x_per_run
        # Windows 2, 3, 4 of the first two runs are positive: 12 negatives, of which 9 alarms.
        assert found.layer_B.at(0.2).achieved == 1 / 12
        assert (point.x_n_covered, point.x_n_events, point.coverage) == (2, 2, 1)
        assert (point.x_abstain_rate, point.x_lead_time_mean) == (0, 100)
        assert point.x_lead_times == (200, 0)
        assert [(row["n_pos"], row["n_neg"]) for row in rows] == [(3, 3), (3, 3), (0, 6)]
        assert rows[2]["roc_auc"] is rows[2]["average_precision"] is None
        assert (rows[2]["k_eff"], rows[2]["tie_dom"]) == (pytest.approx(1.569, abs=1e-3), 1)

    def test_runs_of_unequal_length(self):
        found = measured([3, 2, 1], [0, 0, 0, 0, 4], events=[None, None])
        assert [row["n_neg"] for row in found.x_per_run] == [3, 5]
        point = found.layer_C.at_fpr[0]
        assert point.coverage is point.x_abstain_rate is None

    def test_no_negative_window(self):
        with pytest.raises(
            InputError, match="no run has a negative window, since a horizon of 900"
        ):
            measured([0, 1, 2, 3], events=[300], horizon=900)

    def test_thresholds_without_targets_stand_at_their_own_rates(self):
        found = measured([0, 1, 2, 3], events=[None], fpr_targets=(), thresholds=(3.0, 1.0))
        achieved = [(row.target, row.achieved) for row in found.layer_B.achieved]
        assert achieved == [(0.25,) * 2, (0.75,) * 2]
        assert found.layer_B.controllability_pass is None
        assert (found.layer_B.fpr_min, found.layer_B.x_budget_pass) == (0.25, None)


def ramps(n_runs: int) -> list[list[float]]:
    """Scores that are low, then high from two windows before an event at window 7 of 10."""
    rng = np.random.default_rng(0)
    noise = rng.random((n_runs, 50))
    noise[:, 40:43] += 2
    return [list(row) for row in noise]


class TestVerdict:
    def test_a_perfect_score_is_not_supported(self):
        found = measured(*ramps(40), events=[4200] * 40)
        assert found.layer_C.at(0.05).coverage == 1
        assert found.layer_B.x_passed
        assert (found.label, found.x_reasons) == ("INCONCLUSIVE", ("compat_protocol",))
        opening = "Not decided: compat repeats the published computation"
        assert found.x_sentence.startswith(opening)

    def test_few_events(self):
        found = measured(*ramps(5), events=[4200] * 5)
        assert found.x_reasons == ("few_events", "compat_protocol")
        assert "5 events are fewer than 30" in found.x_sentence

    def test_a_floor_is_a_failure_in_sample_too(self):
        found = measured(*[[0.0] * 50] * 40, events=[4200] * 40)
        assert found.label == "RANK_ONLY"
        assert found.x_reasons == (
            "windows_floor", "windows_uncontrolled", "no_ranking_signal", "compat_protocol",
        )  # fmt: skip
        assert "no threshold has a false positive rate below 1.000" in found.x_sentence

    def test_given_thresholds_prove_no_floor(self):
        found = measured(
            *ramps(40), events=[4200] * 40, fpr_targets=(0.05,), thresholds=(0.0,), min_targets_ok=1
        )
        assert found.layer_B.fpr_floor_detected is None
        assert found.x_reasons == ("windows_uncontrolled", "compat_protocol")


class TestSettings:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"w_jump": 0}, "w_jump must be a whole number of at least 1, got 0"),
            ({"hold_k": 1}, "hold_k must be at least 2"),
            ({"delta_jump": math.nan}, "delta_jump must be a finite number, got nan"),
            ({"delta_back": -0.1}, "delta_back must not be negative, got -0.1"),
            ({"fpr_targets": (1.5,)}, r"fpr_targets must be a number in \(0, 1\), got 1.5"),
            ({"fpr_targets": (0.1, 0.1)}, "fpr_targets names a rate twice"),
            ({"fpr_targets": ()}, "fpr_targets is empty"),
            ({"thresholds": ()}, "thresholds is empty"),
            ({"thresholds": (1.0,)}, "thresholds names 1 and fpr_targets 3; give one threshold"),
            ({"thresholds": (1.0, 2.0, math.inf)}, "thresholds must be finite numbers, got inf"),
        ],
    )
    def test_out_of_range(self, change: dict[str, object], message: str):
        with pytest.raises(InputError, match=message):
            CompatSettings(**change)  # type: ignore[arg-type]

    def test_in_sentences(self):
        text = " ".join(explain_settings(CompatSettings(metric="acc", smoothing=3)))
        assert "the mean of acc over 2 checkpoints has risen by 0.04" in text
        assert "its mean over 3 checkpoints" in text


class TestRecord:
    def results(self, events: list[float | None], **changes: object) -> Results:
        """Of runs whose accuracy rises, and stays, so that its mean over two holds at the event."""
        steps = np.arange(50) * 100
        accuracy = [np.where(steps < (event or math.inf) - 100, 0.5, 0.9) for event in events]
        runs = [f"seed_{i}" for i in range(len(events))]
        columns = {"test_acc": np.array(accuracy), "score": np.array(ramps(len(events)))}
        log = RunLog.from_arrays(runs, steps, columns)
        found = reproduce(log, [{"name": "score"}], settings(**changes))
        assert list(found.events) == pytest.approx([e or math.nan for e in events], nan_ok=True)
        return found.results

    @pytest.mark.parametrize(
        ("events", "changes"),
        [
            ([4200, 4200, None], {}),
            ([None, None], {}),
            ([4200], {"thresholds": (9.0,), "fpr_targets": (0.05,)}),
            ([4200, None], {"thresholds": (0.5, 9.0), "fpr_targets": ()}),
        ],
    )
    def test_every_null_has_a_reason(
        self, events: list[float | None], changes: dict[str, object], tmp_path
    ):
        results = self.results(events, **changes)
        assert Results.read(results.write(tmp_path / "results.yaml")) == results
        plain = results.plain()["indicators"][0]
        reasons = plain.pop("x_null_reasons")
        assert null_paths(plain) == set(reasons)
        assert all(reasons.values())
        assert not results.indicators[0].x_alarm_eligible

    def test_settings_come_back(self):
        results = self.results([4200, None], delta_jump=0.07)
        assert settings_of(results) == settings(delta_jump=0.07)
        other = results.model_copy(update={"x_protocol": "v0.4"})
        assert settings_of(other) is None

    def test_settings_of_another_version_are_named(self):
        plain = self.results([4200]).plain()
        plain["x_compat"]["odd"] = 1
        with pytest.raises(InputError, match=r"x_compat: .*odd"):
            settings_of(Results.parse(plain, where="r"))
