"""The catalogue: what every entry declares, and what holds for every score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from synthetic import synthetic_runlog

from gmb_hf.base.errors import InputError
from gmb_hf.indicators import catalogue as registry
from gmb_hf.indicators.catalogue import FAMILIES, available, compute, get, names, register
from gmb_hf.indicators.ensemble import external
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog

ALL = names()
EVERYTHING = {"corrupted": True, "bundles": True, "published": True}


@pytest.fixture(scope="module")
def log() -> RunLog:
    """Every observable, runs of several lengths, one of them without an event."""
    return synthetic_runlog(6, 90, ragged=True, share_with_event=0.85, **EVERYTHING)


@pytest.fixture(scope="module")
def scores(log: RunLog) -> dict[str, Panel]:
    return {name: compute(log, name) for name in ALL}


def cut(log: RunLog, step: int) -> RunLog:
    return RunLog.from_table(log.table.filter(np.asarray(log.table["step"]) <= step))


def test_the_catalogue_is_rich_and_declares_itself() -> None:
    entries = [get(name) for name in ALL]
    assert len(entries) >= 30
    assert len({entry.name for entry in entries}) == len(entries)
    assert {entry.family for entry in entries} == set(FAMILIES) - {"external", "judge", "ensemble"}
    for entry in entries:
        assert "\n" not in entry.summary
        assert entry.summary
        assert entry.source
        assert entry.needs
        # A combination may see labels for another reason than its columns; a column says enough.
        sees = any(column.startswith("test_") for column in entry.needs)
        assert entry.sees_test_labels in ((True,) if sees else (True, False))
        assert (entry.family == "oracle") <= bool(entry.sees_test_labels)
        assert (entry.kind == "label-using") == bool(entry.sees_test_labels)
        window = entry.window_parameter
        assert window is None or isinstance(entry.parameters[window], int)


def test_names_stand_by_family() -> None:
    families = [FAMILIES.index(get(name).family) for name in ALL]
    assert families == sorted(families)


def test_available_means_that_the_log_has_what_it_needs(log: RunLog) -> None:
    assert available(log) == ALL
    bare = RunLog.from_arrays(["a"], [0, 10], {"train_acc": [[0, 1]]})
    assert available(bare) == (
        "train_accuracy",
        "clock",
        "constant",
        "steps_since_memorisation",
    )


def test_a_score_is_finite_and_on_the_grid_of_its_log(
    log: RunLog, scores: dict[str, Panel]
) -> None:
    grid = log.panel("test_acc")
    for name, score in scores.items():
        assert score.name == name
        assert score.runs == grid.runs, name
        np.testing.assert_array_equal(score.steps, grid.steps, name)
        np.testing.assert_array_equal(np.isfinite(score.values), grid.present, name)
        if get(name).rule:
            assert np.isin(score.values[score.present], (0, 1)).all(), name
        elif name != "train_loss_spikes":  # the curves are smooth
            assert (np.ptp(score.values[score.present]) > 0) == (name != "constant"), name


@pytest.mark.parametrize("step", [0, 10, 250, 600])
def test_cutting_the_future_off_leaves_the_past(
    step: int, log: RunLog, scores: dict[str, Panel]
) -> None:
    past = cut(log, step)
    for name, whole in scores.items():
        early = compute(past, name, cadence=10)
        width = early.values.shape[1]
        np.testing.assert_array_equal(early.values, whole.values[:, :width], name)


def test_a_run_scores_the_same_alone_and_in_any_order(
    log: RunLog, scores: dict[str, Panel]
) -> None:
    for row, run in enumerate(log.runs):
        one = log.select([run])
        for name, whole in scores.items():
            alone = compute(one, name).values[0]
            np.testing.assert_array_equal(alone, whole.values[row, : len(alone)], f"{name}, {run}")
    table = log.table
    renamed = pa.array([f"z{99 - int(run[5:])}" for run in table["run"].to_pylist()])
    mirrored = RunLog.from_table(table.set_column(0, "run", renamed))
    for name, whole in scores.items():
        np.testing.assert_array_equal(compute(mirrored, name).values, whole.values[::-1], name)


def test_windows_are_steps_not_checkpoints(log: RunLog, scores: dict[str, Panel]) -> None:
    """The same checkpoints logged ten times as far apart, with windows ten times as long."""
    table = log.table
    stretched = RunLog.from_table(
        table.set_column(1, "step", pa.array(np.asarray(table["step"]) * 10))
    )
    for name, known in scores.items():
        parameters = get(name).parameters
        windows = {key: 10 * value for key, value in parameters.items() if "window" in key}
        found = compute(stretched, name, **windows)
        in_steps = ("clock", "steps_since_memorisation", "steps_since_norm_peak")
        factor = 10.0 if name in in_steps else 1.0
        np.testing.assert_array_equal(found.values, known.values * factor, name)


@pytest.mark.parametrize("name", [name for name in ALL if get(name).window_parameter])
def test_windows_must_fit_the_cadence(name: str, log: RunLog) -> None:
    window = str(get(name).window_parameter)
    with pytest.raises(InputError, match=f"{name}.*window is 15 steps.*multiple of 10"):
        compute(log, name, **{window: 15})
    with pytest.raises(InputError, match=f"indicator '{name}': {window} is -10 steps"):
        compute(log, name, **{window: -10})


@pytest.mark.parametrize("cadence", [1, 10, 30, 50, 500])
def test_defaults_can_be_raised_to_any_cadence(cadence: int) -> None:
    log = synthetic_runlog(2, 60, cadence, **EVERYTHING)
    for name in ALL:
        entry = get(name)
        settings = entry.defaults_for(cadence)
        assert np.isfinite(compute(log, name, **settings).values).all(), name
        for window in entry.windows:
            assert settings[window] >= entry.parameters[window]
            least = entry.minimum_checkpoints.get(window, 1)
            assert settings[window] == entry.parameters[window] or (
                settings[window] - cadence < max(entry.parameters[window], least * cadence)
            )
    assert get("weight_norm_drop").defaults_for(30) == {"window": 120}
    assert get("csd_variance").defaults_for(500) == {"window": 2000}


def test_a_window_may_be_too_short(log: RunLog) -> None:
    with pytest.raises(InputError, match="window is 20 steps, 2 checkpoints; it needs at least 4"):
        compute(log, "csd_variance", window=20)


def test_the_sign_turns_the_declared_orientation(log: RunLog, scores: dict[str, Panel]) -> None:
    for name, score in scores.items():
        np.testing.assert_array_equal(compute(log, name, sign=-1).values, -score.values, name)
        np.testing.assert_array_equal(compute(log, name, sign=1).values, score.values, name)


def test_orientations() -> None:
    log = RunLog.from_arrays(["a"], [0, 10], {"test_loss": [[3, 1]], "test_acc": [[0.1, 0.9]]})
    for name in ("test_loss", "test_accuracy", "test_loss_drop", "clock"):
        values = compute(log, name).values[0]
        assert values[1] > values[0]


def test_the_baseline_by_hand() -> None:
    entropy = [[3.0, 3.0, 2.9, 2.7, 2.8]]
    log = RunLog.from_arrays(["a"], np.arange(5) * 10, {"unembedding_entropy": entropy})
    found = compute(log, "spectral_entropy_drop", window=20, epsilon=0.1).values
    np.testing.assert_allclose(found, [[0, 0, 0.5, 1.5, 0.5]], atol=1e-12)


def test_norm_drop_by_hand() -> None:
    log = RunLog.from_arrays(["a"], np.arange(4) * 10, {"weight_norm": [[1, np.e, 1, 0]]})
    found = compute(log, "weight_norm_drop", window=20).values
    np.testing.assert_allclose(found, [[0, -1, 0, 1 - np.log(1e-12)]])


def test_fourier_losses_by_hand() -> None:
    log = RunLog.from_arrays(
        ["a"],
        np.arange(4) * 10,
        {"restricted_loss": [[2, 4, 1, 2]], "excluded_loss": [[3, 1, 2, 4]]},
    )
    expected = {
        "restricted_loss": [-2, -4, -1, -2],
        "restricted_loss_drop": np.log([1, 1, 4, 2]),
        "excluded_loss": [3, 1, 2, 4],
        "excluded_loss_rise": np.log([1, 1, 2, 4]),
    }
    for name, values in expected.items():
        assert get(name).sees_test_labels is True
        np.testing.assert_allclose(compute(log, name).values, [values])


def test_structure_and_rest_by_hand() -> None:
    log = RunLog.from_arrays(
        ["a"],
        np.arange(4) * 10,
        {
            "unembedding_gini": [[0.3, 0.1, 0.3, 0.5]],
            "prediction_change": [[0.0, 0.5, 0.5, 0.1]],
            "attention_norm": [[2.0, 2.0, 4.0, 2.0]],
        },
    )
    gain = np.array([[0, 0, 0, 0.2]])  # means over two checkpoints: .3 .2 .2 .4
    found = {
        name: compute(log, name, window=20).values
        for name in (
            "unembedding_gini_gain",
            "settled_structure",
            "settling_structure",
            "shrinking_structure",
        )
    }
    np.testing.assert_allclose(found["unembedding_gini_gain"], gain, atol=1e-12)
    np.testing.assert_allclose(found["settled_structure"], gain * 0.7, atol=1e-12)
    np.testing.assert_allclose(found["settling_structure"], gain * np.exp(0.4), atol=1e-12)
    np.testing.assert_allclose(found["shrinking_structure"], gain, atol=1e-12)
    narrow = compute(log, "shrinking_structure", window=10).values
    np.testing.assert_allclose(narrow, [[0, 0, 0.2 / 4, 0.4 * 4]], atol=1e-12)


def test_parameters_are_checked(log: RunLog) -> None:
    with pytest.raises(InputError, match=r"parameter 'window_' is unknown.*Did you mean 'window'"):
        compute(log, "weight_norm_drop", window_=100)
    for bad in ("wide", True, float("nan"), 10.5, None):
        with pytest.raises(InputError, match="'weight_norm_drop': parameter 'window' must be a"):
            compute(log, "weight_norm_drop", window=bad)
    text = compute(log, "spectral_entropy_drop", epsilon="1e-3", window=100.0)
    np.testing.assert_array_equal(text.values, compute(log, "spectral_entropy_drop").values)


def test_unknown_names_and_missing_columns(log: RunLog) -> None:
    with pytest.raises(InputError, match=r"indicator 'clok' is unknown.*Did you mean 'clock'"):
        compute(log, "clok")
    with pytest.raises(InputError, match="sign must be 1 or -1, got 0"):
        compute(log, "clock", sign=0)
    bare = RunLog.from_arrays(["a"], [0, 10], {"train_acc": [[0, 1]]})
    with pytest.raises(InputError, match=r"'csd_variance': .*column 'train_loss' missing"):
        compute(bare, "csd_variance", window=40)


def test_any_column_can_be_a_score(log: RunLog) -> None:
    mine = external("test_margin_q50", sees_test_labels=True)
    assert mine.family == "external"
    assert mine.sees_test_labels is True
    assert external("x").sees_test_labels is None
    score = compute(log, mine, sign=-1)
    np.testing.assert_array_equal(score.values, -log.panel("test_margin_q50").values)
    with pytest.raises(InputError, match=r"'lost': .*column 'lost' missing"):
        compute(log, external("lost"))


def test_nan_in_a_log_stays_where_its_windows_are(log: RunLog) -> None:
    values = np.abs(np.random.default_rng(0).standard_normal((1, 60))) + 1
    values[0, 30] = np.nan
    columns = {column for name in ALL for column in get(name).needs} - {"step"}
    holed = RunLog.from_arrays(["a"], np.arange(60) * 10, dict.fromkeys(columns, values))
    for name in ALL:
        score = compute(holed, name).values
        assert np.isfinite(score[0, :30]).all(), name
        if "step" not in get(name).needs:
            assert np.isnan(score[0, 30]), name


def test_one_checkpoint_is_enough_where_the_cadence_is_given() -> None:
    log = synthetic_runlog(3, 1, **EVERYTHING)
    for name in ALL:
        assert np.isfinite(compute(log, name, cadence=10).values).all(), name
    with pytest.raises(InputError, match="no run has two checkpoints"):
        compute(log, "weight_norm_drop")


def test_own_indicators_can_be_registered(log: RunLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))

    @register(
        "twice_the_loss",
        family="dynamics",
        summary="twice the training loss",
        needs=("train_loss",),
        source="a test",
    )
    def twice(seen: registry.Observables, *, factor: float = 2.0) -> registry.Values:
        return factor * seen["train_loss"]

    assert "twice_the_loss" in names()
    found = compute(log, "twice_the_loss", factor=3)
    np.testing.assert_array_equal(found.values, 3 * log.panel("train_loss").values)
    with pytest.raises(InputError, match="'twice_the_loss' is registered already"):
        register("twice_the_loss", family="dynamics", summary="", needs=(), source="")(twice)
    with pytest.raises(InputError, match=r"family 'spectrum' is unknown.*Did you mean 'spectral'"):
        register("b", family="spectrum", summary="", needs=(), source="")(twice)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="orientation must be 1 or -1"):
        register("c", family="control", summary="", needs=(), source="", orientation=0)(twice)
    with pytest.raises(InputError, match=r"kind 'task' is unknown"):
        register("d", family="control", summary="", needs=(), source="", kind="task")(twice)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is label-using, so that sees_test_labels must be True"):
        register("d", family="control", summary="", needs=(), source="", kind="label-using")(twice)
    with pytest.raises(InputError, match="window parameter 'window' is unknown"):
        register("d", family="control", summary="", needs=(), source="", window_parameter="window")(
            twice
        )


def test_reference_runs_score_as_they_stand(reference_runs: Path) -> None:
    log = RunLog.read(reference_runs)
    score = compute(log, external("score"), sign=1)
    np.testing.assert_array_equal(score.values, log.panel("score").values)
    assert available(log) == ("clock", "constant")
