"""Every registered indicator one checkpoint at a time: the bits of the batch computation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import synthetic_runlog

from gmb_hf.base.errors import InputError
from gmb_hf.indicators.catalogue import Indicator, Observables, compute, get, names
from gmb_hf.indicators.causal import Values, trailing_mean
from gmb_hf.monitor.reading import IndicatorStream, refuse_unstreamed
from gmb_hf.runs.runlog import RunLog

ALL = names()
CADENCE = 10
EVERYTHING = {"corrupted": True, "bundles": True, "published": True}


def streamed(log: RunLog, name: str, parameters: dict[str, int]) -> np.ndarray:
    columns = {need: log.panel(need).values[0] for need in get(name).needs}
    stream = IndicatorStream(get(name), cadence=CADENCE, parameters=parameters)
    length = log.panel("step").values.shape[1]
    return np.array(
        [stream.update({need: v[t] for need, v in columns.items()}) for t in range(length)]
    )


@settings(max_examples=12)
@given(data=st.data())
def test_a_stream_gives_what_the_log_gives(data: st.DataObject) -> None:
    length = data.draw(st.integers(2, 40), label="checkpoints")
    rng = np.random.default_rng(data.draw(st.integers(0, 9999), label="seed"))
    whole = synthetic_runlog(1, length, CADENCE, int(rng.integers(99)), **EVERYTHING)
    columns = {}
    for need in whole.observables:
        # Ties, jumps, zeros and gaps: what smooth curves never show.
        values = whole.panel(need).values[0].copy()
        for at in rng.integers(length, size=rng.integers(7)):
            values[at] = rng.choice([0.0, 1.0, 1e-15, 1e6, math.nan, values[0]])
        columns[need] = values[None, :]
    log = RunLog.from_arrays(["a"], whole.panel("step").steps[0], columns)
    for name in ALL:
        least = get(name).minimum_checkpoints
        parameters = {
            window: CADENCE * int(rng.integers(least.get(window, 1), 16))
            for window in get(name).windows
        }
        found = streamed(log, name, parameters)
        expected = compute(log, name, cadence=CADENCE, **parameters).values[0]
        np.testing.assert_array_equal(found, expected, err_msg=f"{name} {parameters}")


def test_what_a_stream_keeps_is_bounded_by_its_windows() -> None:
    log = synthetic_runlog(1, 121, CADENCE, **EVERYTHING)
    for name in ALL:
        columns = {need: log.panel(need).values[0] for need in get(name).needs}
        stream = IndicatorStream(get(name), cadence=CADENCE)
        sizes = []
        for t in range(121):
            stream.update({need: values[t] for need, values in columns.items()})
            sizes.append(sum(kept.size for kept in stream.memory.kept))
        indicator = stream.indicator
        windows = sum(indicator.parameters[window] // CADENCE for window in indicator.windows)
        # Checkpoints that are no parameter: 5 of the one, the first 3 of a rule's baseline.
        fixed = 4 * (name == "steps_since_memorisation") + 3 * indicator.rule
        assert sizes[-1] == sizes[60] <= 4 * windows + 2 + fixed, name
        # Views would hold on to what they were cut from.
        assert all(kept.base is None for kept in stream.memory.kept), name


def of_somebody(function: Callable[..., Values]) -> Indicator:
    return dataclasses.replace(
        get("embedding_norm_drop"), name="mine", function=function, needs=("step",)
    )


def test_an_indicator_of_somebody_is_tried_before_it_is_trusted() -> None:
    def through_causal(seen: Observables, *, window: int = 100) -> Values:
        return trailing_mean(seen["step"], seen.checkpoints(window)) ** 2

    def otherwise(seen: Observables, *, window: int = 100) -> Values:
        return np.cumsum(seen["step"], axis=1)

    refuse_unstreamed(of_somebody(through_causal), cadence=CADENCE, parameters={"window": 50})
    with pytest.raises(InputError, match=r"^indicator 'mine': cannot be computed one checkpoint"):
        refuse_unstreamed(of_somebody(otherwise), cadence=CADENCE, parameters={})
