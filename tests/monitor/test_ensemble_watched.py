"""A locked ensemble in a monitor: the batch's bits, its memory, and what breaks it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_runs import DESIGN, GAIN, GINI, NORM, SYSTEM, Evaluated, made_up
from synthetic import synthetic_runlog

from gmb_hf import make_lock
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.ensembles import FEATURES
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.design.locked_ensembles import LockedEnsemble
from gmb_hf.indicators import catalogue as registry
from gmb_hf.indicators.catalogue import compute, get, names
from gmb_hf.indicators.ensemble import fitted_ensemble
from gmb_hf.monitor.monitor import AlarmMonitor
from gmb_hf.monitor.reading import IndicatorStream
from gmb_hf.runs.runlog import RunLog

CADENCE, BOTH = 10, "both"
MEMBERS = [
    {"name": GAIN, "params": {"window": 100}},
    {"name": NORM, "params": {"window": 100}},
    "settled_structure",
    {"name": "attention_rank", "family": "external", "x_sees_test_labels": False},
]


@pytest.fixture(scope="module")
def watched() -> Evaluated:
    """A lock by which the ensemble may act, and what it was made and judged on."""
    explore, held_out = made_up(60, 0), made_up(60, 200)
    single = {"name": GINI, "family": "spectral"}
    design = DESIGN.replace(
        candidates=[single, {"name": BOTH, "x_ensemble": {"members": MEMBERS}}], event_count_min=20
    )
    lock, _ = make_lock(design, explore)
    return Evaluated(lock, evaluate_lock(lock, held_out).results, explore, held_out)


def formula(watched: Evaluated) -> LockedEnsemble:
    found = watched.lock.candidate(BOTH).ensemble
    assert found is not None
    return found


def score(reading: Any) -> float:
    return next(item.score for item in reading.indicators if item.name == BOTH)


def test_it_may_act_and_needs_what_its_members_need(watched: Evaluated) -> None:
    monitor = watched.monitor(BOTH)
    assert monitor.acting == (BOTH,)
    assert set(monitor.needs) == {
        GINI,
        "embedding_norm",
        "unembedding_gini",
        "prediction_change",
        "attention_rank",
    }


def test_it_says_what_the_log_says_at_every_checkpoint(watched: Evaluated) -> None:
    batch = compute(watched.held_out, fitted_ensemble(BOTH, formula(watched)))
    for run in range(3):
        monitor = watched.monitor(BOTH)
        live = [score(monitor.update(**row)) for row in watched.rows(run)]
        np.testing.assert_array_equal(live, batch.values[run])


def test_it_alarms_where_its_score_passes_the_threshold(watched: Evaluated) -> None:
    monitor, tau = watched.monitor(BOTH), watched.lock.run_thresholds(BOTH)[0.05]
    readings = map_rows(monitor, watched)
    over = [one.step for one in readings if score(one) >= tau and one.step >= 150]
    assert readings[-1].alarm == over[0]


def map_rows(monitor: AlarmMonitor, watched: Evaluated, run: int = 0) -> list[Any]:
    return [monitor.update(**row) for row in watched.rows(run)]


def test_it_goes_on_from_a_saved_state(watched: Evaluated) -> None:
    whole = [score(reading) for reading in map_rows(watched.monitor(BOTH), watched)]
    rows = list(watched.rows(0))
    first, second = watched.monitor(BOTH), watched.monitor(BOTH)
    for row in rows[:60]:
        first.update(**row)
    second.load_state_dict(first.state_dict())
    assert [score(second.update(**row)) for row in rows[60:]] == whole[60:]


def test_a_broken_member_breaks_it_for_as_long_as_any_member_remembers(watched: Evaluated) -> None:
    monitor = watched.monitor(BOTH)
    readings = [
        monitor.update(**({**row, "attention_rank": math.nan} if number == 30 else row))
        for number, row in enumerate(watched.rows(0))
    ]
    assert readings[29].state != "ABSTAIN"
    # The gain of the Gini is one over the whole run, so that it is broken for good.
    assert {reading.state for reading in readings[30:]} == {"ABSTAIN"}
    assert readings[-1].reason == "both is broken since step 300: column 'attention_rank' is nan"


def test_a_member_that_cannot_be_streamed_is_refused(
    watched: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_the_whole_run(seen: Any, **_: Any) -> Any:
        return seen["embedding_norm"].cumsum(axis=1)

    entry = dataclasses.replace(get(NORM), function=of_the_whole_run)
    monkeypatch.setitem(registry._REGISTRY, NORM, entry)
    with pytest.raises(InputError, match=rf"'{NORM}': cannot be computed one checkpoint at a time"):
        AlarmMonitor(watched.lock, watched.results, act=[BOTH], show=(), system=SYSTEM)


def stump(feature: int, threshold: float, value: float) -> dict[str, Any]:
    """A tree of one split."""
    split = {"feature": [feature], "threshold": [threshold], "left": [-1], "right": [-2]}
    return {**split, "value": [value, 0.25]}


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_ensemble_of_registered_indicators_streams(data: st.DataObject) -> None:
    length = data.draw(st.integers(2, 40), label="checkpoints")
    chosen = data.draw(st.lists(st.sampled_from(names()), min_size=2, max_size=8, unique=True))
    features = data.draw(st.lists(st.sampled_from(FEATURES), min_size=1, unique=True))
    method = data.draw(st.sampled_from(["logistic", "boosted"]))
    number, each = st.floats(-5, 5, allow_nan=False), len(features)

    def several(of: st.SearchStrategy[float]) -> list[float]:
        return data.draw(st.lists(of, min_size=each, max_size=each))

    members = [
        {
            "name": name,
            "sign": data.draw(st.sampled_from([1, -1])),
            "params": {window: 10 * data.draw(st.integers(5, 12)) for window in get(name).windows},
        }
        for name in chosen
    ]
    record = {"members": members, "features": features, "method": method, "setting": "1.0"}
    record |= {"log_losses": {"1.0": 0.5}, "fit_runs": ["a"], "calibrate_runs": ["b"]}
    if method == "logistic":
        for member in members:
            member |= {"center": several(number), "coefficient": several(number)}
            member["scale"] = several(st.floats(1e-3, 10))
    else:
        of = st.integers(0, len(members) * each - 1)
        record["trees"] = [stump(data.draw(of), data.draw(number), data.draw(number))] * 3
    record |= {"intercept": data.draw(number), "n_calibration_runs": 1}
    locked = LockedEnsemble.parse(record, where="test")
    indicator = fitted_ensemble(BOTH, locked)
    log = synthetic_runlog(1, length, CADENCE, corrupted=True, bundles=True, published=True)
    columns = {}
    for need in indicator.needs:
        values = log.panel(need).values[0].copy()
        for at in data.draw(st.lists(st.integers(0, length - 1), max_size=4), label=need):
            values[at] = data.draw(st.sampled_from([0.0, 1.0, 1e-15, 1e6, math.nan]))
        columns[need] = values if need != "step" else log.panel("step").values[0]
    shown = {need: values[None, :] for need, values in columns.items() if need != "step"}
    steps = np.arange(length) * CADENCE
    shown = shown or {"test_acc": log.panel("test_acc").values}
    batch = compute(RunLog.from_arrays(["a"], steps, shown), indicator, cadence=CADENCE).values[0]
    stream = IndicatorStream(indicator, cadence=CADENCE)
    live = [
        stream.update({need: values[at] for need, values in columns.items()})
        for at in range(length)
    ]
    np.testing.assert_array_equal(live, batch)
