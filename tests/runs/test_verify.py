"""What is looked at before runs are judged, a fault at a time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog
from gmb_hf.runs.verify import verify

STEPS = np.arange(0, 60, 10)


def two_runs() -> dict[str, NDArray[np.generic]]:
    return {
        "run": np.repeat(np.array(["a", "b"], dtype=object), 6),
        "step": np.tile(STEPS, 2),
        "acc": np.arange(12.0),
        "score": np.arange(12.0)[::-1],
    }


def log_of(columns: dict[str, NDArray[np.generic]], *, empty: tuple[int, ...] = ()) -> RunLog:
    mask = np.isin(np.arange(len(columns["step"])), empty)
    data = {name: pa.array(values) for name, values in columns.items()}
    data["score"] = pa.array(columns["score"], mask=mask)
    return RunLog.from_table(pa.table(data))


def test_sound_logs() -> None:
    log = log_of(two_runs())
    found = verify(log, ["acc", "score"])
    assert (found.faults, found.remarks) == ((), ())
    assert (found.runs, found.rows, found.steps, found.spacing) == (("a", "b"), 12, (0, 50), 10)
    assert found.fingerprint == log.fingerprint()
    assert dataclasses.astuple(found.columns[0]) == ("acc", 12, 0, 0, 0, 0.0, 11.0)
    assert verify(log).columns == found.columns


@pytest.mark.parametrize(
    ("column", "row", "value", "fault"),
    [
        ("score", 7, np.nan, "column 'score' is NaN in 1 of 12 cells, first in run 'b' at step 10"),
        ("acc", 0, np.inf, "column 'acc' is infinite in 1 of 12 cells, first in run 'a' at step 0"),
        ("step", 5, 60, "run 'a': step 60 comes 20 after the one before it, not 10"),
        ("step", 3, 35, "run 'a': step 35 comes 15 after the one before it, not 10 (and 1 more)"),
    ],
)
def test_one_fault_one_line(column: str, row: int, value: float, fault: str) -> None:
    columns = two_runs()
    columns[column][row] = value
    assert verify(log_of(columns), ["acc", "score"]).faults == (fault,)
    assert verify(log_of(columns)).faults == (fault,)


def test_every_cell() -> None:
    columns = {**two_runs(), "score": np.full(12, np.nan)}
    assert verify(log_of(columns)).faults == (
        "column 'score' is NaN in every cell, first in run 'a' at step 0",
    )


def test_empty_cells_are_faults_of_the_columns_that_are_asked_for() -> None:
    log = log_of(two_runs(), empty=(3,))
    assert verify(log).faults == ()
    assert verify(log).columns[1].empty == 1
    assert verify(log, ["acc", "score"]).faults == (
        "column 'score' is empty in 1 of 12 cells, first in run 'a' at step 30",
    )


def test_a_rhythm_is_a_fact() -> None:
    found = verify(log_of(two_runs(), empty=(1, 3, 5, 7, 9, 11)), ["acc", "score"])
    assert found.faults == ()
    assert found.remarks == ("Kept are the 6 of 12 rows in which acc and score have a value.",)
    assert (found.rows, found.spacing) == (6, 20)


def test_no_shared_step_is_a_fault() -> None:
    columns = {**two_runs(), "acc": np.where(np.arange(12) < 6, 1.0, 2.0)}
    found = verify(log_of(columns, empty=tuple(range(6))), ["acc", "score"])
    assert "column 'score' has no value in run 'a'" in found.faults[0]


def test_the_first_interval_is_free_and_runs_may_differ_in_length() -> None:
    columns = two_runs()
    columns["step"][:6] = [1, 10, 20, 30, 40, 50]
    assert verify(log_of({name: values[:-2] for name, values in columns.items()})).faults == ()


def test_one_checkpoint() -> None:
    rows = {name: values[:7] for name, values in two_runs().items()}
    assert verify(log_of(rows)).faults == ("run 'b' has one checkpoint, at step 0",)
    rows = {name: values[:1] for name, values in two_runs().items()}
    found = verify(log_of(rows))
    assert (found.spacing, found.faults) == (None, ("run 'a' has one checkpoint, at step 0",))


def test_a_copy_of_a_run() -> None:
    columns = two_runs()
    for name in ("acc", "score"):
        columns[name][6:] = columns[name][:6]
    what = "equal in acc, score at every shared step; a copy is no further run: leave one of each"
    for asked in ((), ("acc", "score")):
        (fault,) = verify(log_of(columns), asked, metric="acc").faults
        assert f"runs 'a' and 'b' are {what}" in fault


def test_runs_that_never_jump_are_no_copies() -> None:
    """Their accuracy may be equal at every step; whole rows are judged, not one column."""
    columns = two_runs()
    columns["acc"][6:] = columns["acc"][:6]
    whole = log_of(columns)
    part = RunLog.from_table(whole.table.drop_columns(["score"]))
    assert verify(whole, ["acc"]).faults == ()
    assert verify(part, ["acc"], whole=lambda: whole).faults == ()
    assert len(verify(part, ["acc"]).faults) == 1
    assert verify(log_of({**columns, "acc": np.full(12, 0.01)}), ["acc"]).faults == ()


def test_near_copies_are_a_remark() -> None:
    rng = np.random.default_rng(0)
    one = rng.normal(size=(3, 40))
    x, y = np.vstack([one, one[:1] * (1 + 1e-5 * rng.normal(size=40))]), rng.normal(size=(4, 40))
    y[3] = y[0] * 1.0001
    log = RunLog.from_arrays([*"abcd"], np.arange(40), {"acc": x, "score": y})
    (remark,) = verify(log, ["acc", "score"]).remarks
    assert remark.startswith("Near copies: 2 of 4 runs move like another one ('a' and 'd'")


def test_runs_that_begin_late_are_counted() -> None:
    rows = {name: np.delete(values, [6, 7]) for name, values in two_runs().items()}
    assert verify(log_of(rows)).remarks == (
        "1 of 2 runs begin late, at step 20, where other runs have begun by step 0: b. If their "
        "first rows were lost, what is computed from the beginning of a run is wrong in them.",
    )


def test_repeats_are_facts() -> None:
    columns = {name: np.append(values, values[-1:]) for name, values in two_runs().items()}
    found = verify(log_of(columns))
    assert found.remarks == ("1 rows of restarted logs (7.7% of 13) were dropped: b (1).",)
    assert found.faults == ()


def test_a_column_that_is_missing() -> None:
    with pytest.raises(InputError, match=r"column 'scor' missing; .*Did you mean 'score'"):
        verify(log_of(two_runs()), ["scor"])
