"""E_regime: which columns the signals come from, which runs have events, which are excluded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from score_builders import design, scores_of
from synthetic import synthetic_runlog

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.events import (
    PUBLISHED,
    PUBLISHED_ALTERNATES,
    find_events,
    regime_events,
    regime_signals,
    signal_columns,
)
from gmb_hf.benchmark.scores import score_windows
from gmb_hf.design.design import Design
from gmb_hf.runs.runlog import RunLog

N = 100
OURS = ("gradient_norm", "unembedding_entropy", "unembedding_rank", "correction_rate")


def regime(**overrides: Any) -> Design:
    settings = {"event_type": "E_regime", "regime_radius": 20, "regime_quantile": 0.985}
    return design(**{**settings, **overrides})


def log_of(*kinds: str, **columns: Any) -> RunLog:
    """Runs of a hundred checkpoints with the published columns, each of one of four kinds."""
    values = np.zeros((6, len(kinds), N))
    for run, kind in enumerate(kinds):
        for signal in range(6):
            values[signal, run, [50, 90 - signal]] = 1.0  # together at 500 only, so that t is 480
        if kind == "apart":
            values[0, run] = np.roll(values[0, run], 25)
        elif kind == "unstable":
            values[3, run] = np.roll(values[3, run], 25)
        elif kind == "dense":
            values[5, run] = 1.0
    named = dict(zip((*PUBLISHED, *PUBLISHED_ALTERNATES), values, strict=True))
    runs = [f"{kind}_{place}" for place, kind in enumerate(kinds)]
    return RunLog.from_arrays(runs, np.arange(N) * 10, {**named, **columns})


def events_of(log: RunLog, **overrides: Any) -> Any:
    return find_events(log, regime(**overrides))


class TestEvents:
    """From labels to events."""

    def test_registered_transitions_are_the_events(self) -> None:
        events = events_of(log_of("together", "apart", "together"))
        assert events.runs == ("apart_1", "together_0", "together_2")
        assert np.isnan(events.step[0])
        assert events.step[1:].tolist() == [480.0, 480.0]
        assert events.excluded == {}

    def test_what_nobody_can_decide_is_excluded(self) -> None:
        events = events_of(log_of("together", "unstable", "dense", "apart"))
        assert events.excluded == {"dense_2": "INCONCLUSIVE", "unstable_1": "ESTIMATOR_UNSTABLE"}
        assert events.n_events == 1
        decided = events.decided()
        assert decided.runs == ("apart_3", "together_0")
        assert decided.step[1] == 480.0
        assert len(decided.first_step) == 2
        assert decided.excluded == events.excluded

    def test_a_transition_before_t_min_is_passed_over(self) -> None:
        log = log_of("together")
        later = events_of(log, event_t_min=485)
        assert (later.first_step.tolist(), later.step.tolist()) == ([490], [490.0])
        assert np.isnan(events_of(log, event_t_min=525).step[0])

    def test_all_equal_signals_are_excluded(self) -> None:
        flat = dict.fromkeys((*PUBLISHED, *PUBLISHED_ALTERNATES), np.ones((1, N)))
        log = RunLog.from_arrays(["a"], np.arange(N) * 10, flat)
        assert events_of(log).excluded == {"a": "INCONCLUSIVE"}

    def test_negatives_end_a_gap_and_a_radius_before_the_end(self) -> None:
        # Last step 110, radius 30, gap 40: negatives up to 40, whatever W_event is.
        scores = scores_of([[0.0] * 12], [None])
        windows = score_windows(scores, regime(regime_radius=30, w_event=70))
        assert (10 * np.flatnonzero(windows.negative[0])).tolist() == [0, 10, 20, 30, 40]

    def test_runs_too_short_for_a_rarity_are_refused(self) -> None:
        log = log_of("together", "together")

        def cut(checkpoints: int) -> RunLog:
            early = pc.less(log.table["step"], 10 * checkpoints)
            return RunLog.from_table(log.table.filter(early))

        message = r"the longest run has 49 checkpoint\(s\), .* more than 2% .* at least 50 a run"
        with pytest.raises(InputError, match=message):
            events_of(cut(49))
        assert events_of(cut(50)).n_events == 0


class TestSignals:
    """Force, info and constraint."""

    def test_derived_from_our_observables(self) -> None:
        data = {
            "gradient_norm": [[1.0, 4.0, 2.0]],
            "unembedding_entropy": [[3.0, 2.5, 2.5]],
            "unembedding_rank": [[20.0, 12.0, 13.0]],
            "correction_rate": [[0.0, 0.5, 0.25]],
        }
        log = RunLog.from_arrays(["a"], [0, 10, 20], data)
        signals = regime_signals(log)
        assert signals.columns == OURS
        force, info, constraint = (panel.values[0].tolist() for panel in signals.primary)
        assert (force, info, constraint) == ([0, 3, 2], [0, 0.5, 0], [0, 0.5, 0.25])
        force, info, constraint = (panel.values[0] for panel in signals.alternate)
        # Trailing means 1, 2.5, 7/3 and 0, .25, .25; the rank is taken as it is.
        assert np.allclose(force, [0, 1.5, 1 / 6])
        assert info.tolist() == [0, 8, 1]
        assert np.allclose(constraint, [0, 0.25, 0])

    def test_trailing_means_hold_five_checkpoints(self) -> None:
        step = np.array([[0.0] * 5 + [5.0] * 7])
        log = RunLog.from_arrays(["a"], np.arange(12), dict.fromkeys(OURS, step))
        force = regime_signals(log).alternate[0].values[0]
        assert np.allclose(force, [0] * 5 + [1] * 5 + [0] * 2)

    def test_the_margin_stands_in_where_no_label_is_wrong(self) -> None:
        log = synthetic_runlog(2)
        assert signal_columns(log.observables)[3] == "test_margin_q50"
        assert signal_columns(synthetic_runlog(2, corrupted=True).observables) == OURS
        assert regime_signals(log).columns[3] == "test_margin_q50"

    def test_published_columns_are_taken_at_their_word(self) -> None:
        log = log_of("together", **dict.fromkeys(OURS, np.zeros((1, N))))
        signals = regime_signals(log)
        assert signals.columns == (*PUBLISHED, *PUBLISHED_ALTERNATES)
        assert signals.primary[0].values[0, 50] == 1.0

    def test_missing_columns_are_named_with_the_nearest(self) -> None:
        with pytest.raises(InputError) as caught:
            signal_columns(["gradient_norms", "unembedding_entropy", "test_acc"], where="a.csv")
        assert str(caught.value) == (
            "a.csv: PT-MSS needs the columns gradient_norm, unembedding_entropy, unembedding_rank "
            "and correction_rate or test_margin_q50, or else d_force, d_info, d_constraint, "
            "d_force_alt, d_info_alt, d_constraint_alt; missing: gradient_norm, unembedding_rank, "
            "correction_rate; nearest to gradient_norm: 'gradient_norms'"
        )

    def test_published_columns_without_alternates_are_not_enough(self) -> None:
        with pytest.raises(InputError, match="missing: d_force_alt, d_info_alt, d_constraint_alt"):
            signal_columns([*PUBLISHED, *OURS])

    def test_nan_is_an_error_unless_ignored(self) -> None:
        log = log_of("together")
        values = log.panel("d_info").values.copy()
        values[0, 3] = np.nan
        spoiled = log_of("together", d_info=values)
        with pytest.raises(InputError, match=r"run 'together_0', step 30: metric 'd_info' is NaN"):
            events_of(spoiled)
        assert events_of(spoiled, nan="ignore").step.tolist() == [480.0]
        with pytest.raises(InputError, match="metric 'd_info' is NaN at every step"):
            events_of(log_of("together", d_info=np.full((1, N), np.nan)), nan="ignore")


class TestPreregistration:
    """What must be said of the event, and what is filled in."""

    def test_published_settings_are_written_into_the_file(self) -> None:
        chosen = Design.minimal(horizon=20, safe_gap=40, event_type="E_regime", regime_radius=500)
        event = chosen.plain()["event"]
        assert (event["x_regime_quantile"], event["x_regime_tolerance"]) == (0.99, 15)
        assert "x_regime_radius" not in design().plain()["event"]

    @pytest.mark.parametrize(
        ("overrides", "message"),
        [
            ({"regime_radius": None}, "event: E_regime needs x_regime_radius"),
            ({"regime_radius": 0}, r"event\.x_regime_radius"),
            ({"regime_quantile": 1.0}, r"event\.x_regime_quantile"),
            ({"regime_quantile": 0.0}, r"event\.x_regime_quantile"),
            ({"regime_tolerance": -1}, r"event\.x_regime_tolerance"),
            ({"regime_radius": 20.5}, r"event\.x_regime_radius"),
        ],
    )
    def test_settings_out_of_range_are_refused(
        self, overrides: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(InputError, match=message):
            regime(**overrides)

    def test_the_event_is_what_regime_events_says(self) -> None:
        log = log_of("together")
        signals = regime_signals(log)
        assert regime_events(signals, regime()).step.tolist() == [480.0]
