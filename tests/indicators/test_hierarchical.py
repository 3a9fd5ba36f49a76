"""HC-1 to HC-5 on columns that are written down: by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.indicators.catalogue import available, compute, get, names
from gmb_hf.runs.metadata import LEVELS, at_level
from gmb_hf.runs.runlog import RunLog

FAMILY = [name for name in names() if get(name).family == "hierarchical_convergence"]


def log_of(**columns: list[float]) -> RunLog:
    length = len(next(iter(columns.values())))
    return RunLog.from_arrays(
        ["a"], np.arange(length) * 10, {name: [values] for name, values in columns.items()}
    )


def levels(column: str, **by_level: list[float]) -> dict[str, list[float]]:
    """Columns of all levels: `at_10=...`, and nine at the others."""
    length = len(next(iter(by_level.values())))
    return {
        at_level(column, level): by_level.get(f"at_{level}", [9.0] * length) for level in LEVELS
    }


def test_the_family_is_all_of_hc_1_to_5_and_sees_no_label() -> None:
    numbers = {get(name).summary.split(":")[0] for name in FAMILY}
    assert numbers == {f"HC-{i}" for i in range(1, 6)}
    assert not any(get(name).sees_test_labels for name in FAMILY)


@pytest.mark.parametrize("name", ["fast_settling", "fast_settling_q90"])
def test_hc_1_by_hand(name: str) -> None:
    column = "settling_q50" if name == "fast_settling" else "settling_q90"
    log = log_of(**levels(column, at_10=[3, 2, 1], at_50=[1, 1, 2]))
    # Means over two checkpoints; soon at rest is more risk.
    np.testing.assert_allclose(compute(log, name, window=20).values, [[-3, -2.5, -1.5]])
    np.testing.assert_allclose(compute(log, name, window=10, eps=0.5).values, [[-1, -1, -2]])


def test_hc_2_by_hand() -> None:
    log = log_of(
        **levels("reset_share", at_10=[0.2, 0.4, 1.0], at_5=[1, 1, 0]),
        reset_spike=[0.1, 0.3, 0.2],
    )
    found = compute(log, "reset_share", window=20).values
    np.testing.assert_allclose(found, [[0.2, 0.3, 0.7]])
    lower = compute(log, "reset_share", window=20, theta=0.05).values
    np.testing.assert_allclose(lower, [[1, 1, 0.5]])
    np.testing.assert_allclose(compute(log, "reset_spike", window=20).values, [[0.1, 0.2, 0.25]])


def test_hc_3_by_hand() -> None:
    log = log_of(state_distance_q50=[0.5, 0.3], state_distance_q90=[0.9, 0.7])
    np.testing.assert_allclose(compute(log, "state_distance", window=20).values, [[-0.5, -0.4]])
    found = compute(log, "state_distance_q90", window=20).values
    np.testing.assert_allclose(found, [[-0.9, -0.8]])


def test_hc_4_by_hand() -> None:
    log = log_of(slow_participation=[4, 8, 8], fast_participation=[4, 2, 8])
    found = compute(log, "dimension_ratio", window=20).values
    np.testing.assert_allclose(found, [[0, np.log(4) / 2, np.log(4) / 2]])


def test_hc_5_by_hand() -> None:
    log = log_of(halting_steps=[2, 1], halting_margin=[0, 3], halting_variance=[0.25, 0.05])
    expected = {
        "halting_steps": [-2, -1.5],
        "halting_margin": [0, 1.5],
        "halting_variance": [-0.25, -0.15],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(compute(log, name, window=20).values, [values])


@pytest.mark.parametrize(
    ("name", "level"),
    [("fast_settling", "eps"), ("fast_settling_q90", "eps"), ("reset_share", "theta")],
)
@pytest.mark.parametrize("share", [0.15, 0, -0.1, 10])
def test_a_level_that_logs_are_not_counted_at_is_refused(
    name: str, level: str, share: float
) -> None:
    log = log_of(**levels("settling_q50", at_10=[1, 1]), **levels("settling_q90", at_10=[1, 1]))
    message = f"indicator '{name}': {level} must be one of 0.05, 0.1, 0.2, 0.5, at which logs"
    with pytest.raises(InputError, match=message):
        compute(log, name, window=10, **{level: share})


def test_logs_of_other_models_have_none_of_them() -> None:
    assert not set(available(log_of(train_loss=[1, 0.5]))) & set(FAMILY)
    without_halting = log_of(state_distance_q50=[1, 2], state_distance_q90=[1, 2])
    assert set(available(without_halting)) & set(FAMILY) == {"state_distance", "state_distance_q90"}
