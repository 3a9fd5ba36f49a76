"""A run log from a pandas DataFrame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog

ONE = pd.DataFrame({"step": [0, 10, 20], "acc": [0.1, np.nan, 0.9], "done": [False, False, True]})


def test_a_frame_is_read_as_the_same_table_in_a_file(tmp_path: Any) -> None:
    runs = pd.concat({"seed_1": ONE, "seed_2": ONE.assign(acc=0.5)}, names=["run"])
    log = RunLog.read(runs.reset_index("run"))
    assert (log.runs, log.seeds, log.origin) == (("seed_1", "seed_2"), (1, 2), "DataFrame")
    assert log.table["acc"].null_count == 1
    runs.reset_index("run").to_csv(tmp_path / "a.csv", index=False)
    csv = RunLog.read(tmp_path / "a.csv", columns=["acc"])
    assert csv.fingerprint() == RunLog.read(runs.reset_index("run"), columns=["acc"]).fingerprint()
    # Steps and runs in the index, as after a groupby.
    indexed = runs.set_index("step", append=True).droplevel(1)
    assert RunLog.read(indexed).fingerprint() == log.fingerprint()


def test_a_frame_without_runs_is_one_run() -> None:
    log = RunLog.read(ONE.rename(columns={"step": "global_step"}), last_rows=2)
    assert (log.runs, log.notes) == (("run",), ("The steps are the column 'global_step'.",))
    assert log.panel("step").values.tolist() == [[10, 20]]
    assert log.observables == ("acc", "done")


def test_the_history_of_a_tracker() -> None:
    history = pd.DataFrame({"_step": [0, 1], "_runtime": [0.1, 0.2], "loss": [3.0, 2.0]})
    assert RunLog.read(history).observables == ("loss",)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame(), "DataFrame: it has no rows"),
        (ONE.drop(columns="step"), "DataFrame: column 'step' missing; found: acc, done"),
        (ONE.assign(acc=[0, 1, "oops"]), "row 3: column 'acc' holds 'oops', not a number"),
        (ONE.assign(step=[0, 1, 0.5]), "row 3: column 'step' is 0.5; it must be a whole number"),
        (ONE.assign(step=[0, 1, np.nan]), "row 3: column 'step' is empty"),
        (ONE.assign(step=[False, True, True]), "column 'step' holds true or false"),
        (pd.DataFrame([[0, 1, 2]], columns=["step", "x", "x"]), "column 'x' stands twice"),
    ],
)
def test_what_is_wrong_with_a_frame(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RunLog.read(frame)
