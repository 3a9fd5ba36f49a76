"""Explore, lock and evaluate by each event; runs that the event excludes stay out of all three."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gmb_hf import Design, RunLog, preset
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.evaluate import evaluate_lock, evaluate_runs
from gmb_hf.benchmark.events import PUBLISHED, PUBLISHED_ALTERNATES
from gmb_hf.benchmark.locking import explore, make_lock
from gmb_hf.benchmark.prepare import decided_runs
from gmb_hf.design.lock import Lock
from gmb_hf.training.presets import design_of

REGIME = {"event_type": "E_regime", "regime_radius": 20}
PLATEAU = {"event_type": "E_plateau", "plateau_checkpoints": 5, "plateau_threshold": 0.9}


def with_signals(log: RunLog, *, unstable: int = 0, inconclusive: int = 0) -> RunLog:
    """The log with published signals that move together where the accuracy passes one half.

    The first runs are unstable, those after them inconclusive.
    """
    accuracy = log.panel("test_acc")
    rows = np.arange(accuracy.n_runs)
    at = np.maximum((accuracy.values > 0.5).argmax(axis=1), 1)
    table = log.table
    for place, name in enumerate((*PUBLISHED, *PUBLISHED_ALTERNATES)):
        values = np.zeros(accuracy.values.shape)
        values[rows, at] = 2.0
        values[:, 4 + 5 * (place % 3)] = 1.0  # early, and never together
        if place == 3:
            values[rows[:unstable], at[:unstable]] = 0.0
            values[:unstable, 25] = 2.0
        if place == 1:
            values[unstable : unstable + inconclusive] = 1.0
        table = table.append_column(name, pa.array(values[accuracy.present]))
    return RunLog.from_table(table)


@pytest.fixture(scope="module")
def explored(explore_log: RunLog) -> RunLog:
    return with_signals(explore_log, unstable=2, inconclusive=1)


@pytest.fixture(scope="module")
def held_out(held_out_log: RunLog) -> RunLog:
    return with_signals(held_out_log, unstable=3)


@pytest.fixture(scope="module")
def lock(design: Design, explored: RunLog) -> Lock:
    made, findings = make_lock(design.replace(**REGIME), explored)
    assert [item.code for item in findings if item.code == "runs_excluded"] == ["runs_excluded"]
    return made


def test_the_lock_knows_all_explore_runs_and_calibrates_on_the_decided_ones(
    design: Design, explored: RunLog, lock: Lock
) -> None:
    assert len(lock.x_lock.explore_runs) == 30
    decided, events = decided_runs(design.replace(**REGIME), explored)
    assert len(decided.runs) == 27
    assert events.excluded == {
        "seed_0": "ESTIMATOR_UNSTABLE",
        "seed_1": "ESTIMATOR_UNSTABLE",
        "seed_2": "INCONCLUSIVE",
    }
    alone, findings = make_lock(design.replace(**REGIME), decided)
    assert "runs_excluded" not in {item.code for item in findings}
    # Both give the same; only one of them knows of the other three runs.
    for name, candidate in lock.x_lock.candidates.items():
        other = alone.candidate(name)
        assert candidate.run_maxima == (None, None, None, *other.run_maxima)
        assert candidate.model_copy(update={"run_maxima": other.run_maxima}) == other
    assert lock.x_lock.n_calibration_runs == alone.x_lock.n_calibration_runs <= 27


def test_a_run_that_explore_excluded_is_not_held_out_either(
    lock: Lock, explored: RunLog, held_out: RunLog
) -> None:
    with pytest.raises(InputError, match=r"1 also used to explore \(0\)"):
        evaluate_lock(lock, RunLog.concat([explored.select(["seed_0"]), held_out]))


def test_held_out_runs_that_are_excluded_are_reported_and_not_judged(
    lock: Lock, held_out: RunLog
) -> None:
    found = evaluate_lock(lock, held_out)
    results = found.results
    assert results.event.x_excluded == dict.fromkeys(("100", "101", "102"), "ESTIMATOR_UNSTABLE")
    assert (results.summary.n_seeds, results.summary.x_n_excluded) == (40, 3)
    assert results.x_provenance is not None
    assert results.x_provenance.evaluation_fingerprint == held_out.fingerprint()
    assert len(found.log.runs) == 37
    for judgement in found.judgements.values():
        assert judgement.evaluation.runs == found.events.runs == found.log.runs


def test_without_a_lock_explore_runs_are_sifted_too(
    design: Design, explored: RunLog, held_out: RunLog
) -> None:
    chosen = design.replace(**REGIME)
    whole = evaluate_runs(chosen, held_out, explore=explored)
    decided, _ = decided_runs(chosen, explored)
    part = evaluate_runs(chosen, held_out, explore=decided)
    assert whole.results.indicators == part.results.indicators


def test_exploring_leaves_them_out(design: Design, explored: RunLog) -> None:
    chosen = design.replace(**REGIME)
    decided, _ = decided_runs(chosen, explored)
    assert explore(chosen, explored) == explore(chosen, decided)


def test_a_plateau_from_lock_to_verdict(
    design: Design, explore_log: RunLog, held_out_log: RunLog
) -> None:
    made, _ = make_lock(design.replace(**PLATEAU), explore_log)
    results = evaluate_lock(made, held_out_log).results
    assert results.event.type == "E_plateau"
    assert results.summary.n_events == 40
    assert results.event.x_excluded == {}
    labels = {item.name: item.label for item in results.indicators}
    assert labels["constant"] != "SUPPORTED_FOR_ALARM"


@pytest.mark.parametrize(
    "settings",
    [REGIME, {**PLATEAU, "plateau_regression": 1}, {"event_type": "E_regime", "regime_radius": 9}],
)
def test_the_file_brings_the_event_back(
    tmp_path: Any, design: Design, settings: dict[str, Any]
) -> None:
    chosen = design.replace(**settings)
    assert Design.read(chosen.write(tmp_path / "prereg.yaml")) == chosen


def test_regimes_need_no_metric(design: Design, explored: RunLog) -> None:
    table = explored.table.drop_columns(["test_acc"])
    chosen = design.replace(**REGIME)
    found = evaluate_runs(chosen, RunLog.from_table(table))
    assert found.results.summary.n_events == 27


class TestConfigs:
    """The event of a preset can be set as well: `gmb run --set benchmark.event=...`."""

    @pytest.mark.parametrize("name", ["smoke", "quick", "standard"])
    def test_a_preset_asks_for_a_held_level(self, name: str, explore_log: RunLog) -> None:
        design = design_of(preset(name), explore_log)
        assert design.event_name == "E_plateau 0.5 x 5"
        assert {other.event_type for _, other in design.other_events()} == {"E_jump", "E_plateau"}

    def test_a_plateau(self, explore_log: RunLog) -> None:
        config = preset("smoke").changed(
            [
                "benchmark.event=E_plateau",
                "benchmark.plateau_checkpoints=5",
                "benchmark.plateau_threshold=0.9",
                "benchmark.plateau_regression=1",
            ]
        )
        design = design_of(config, explore_log)
        found = (design.event_type, design.plateau_checkpoints, design.plateau_threshold)
        assert (*found, design.plateau_regression) == ("E_plateau", 5, 0.9, 1)
        # What the preset says of its jump is no part of this design.
        assert (design.theta_floor, design.require_new_max) == (None, False)

    def test_a_regime_takes_the_published_settings(self, explore_log: RunLog) -> None:
        config = preset("smoke").changed(["benchmark.event=E_regime", "benchmark.regime_radius=20"])
        design = design_of(config, explore_log)
        found = (design.event_type, design.regime_radius, design.regime_quantile)
        assert (*found, design.regime_tolerance) == ("E_regime", 20, 0.99, 15)

    @pytest.mark.parametrize(
        ("assignments", "message"),
        [
            (
                ["event=E_plateu"],
                "benchmark.event must be 'E_jump', 'E_plateau', 'E_onset' or 'E_regime'",
            ),
            (["event=E_regime"], "benchmark: event=E_regime needs regime_radius"),
            (["regime_radius=0"], "benchmark.regime_radius must be greater than or equal to 1"),
            (["regime_quantile=1"], "benchmark.regime_quantile must be less than 1"),
            (["plateau_threshold=nan"], "benchmark.plateau_threshold must be a finite number"),
            (["plateau_regression=-1"], "benchmark.plateau_regression must be greater than or"),
        ],
    )
    def test_what_makes_no_event_is_refused_before_anything_is_trained(
        self, assignments: list[str], message: str
    ) -> None:
        with pytest.raises(InputError, match=message):
            preset("smoke").changed([f"benchmark.{item}" for item in assignments])

    def test_a_preset_of_a_jump_knows_no_level(self) -> None:
        with pytest.raises(InputError, match=r"event=E_plateau needs plateau_checkpoints"):
            preset("paper").changed(["benchmark.event=E_plateau"])
