"""The end of each run's log, before anything is sorted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog


def csv_file(folder: Path, text: str, name: str = "seed_3.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_restarted_log_ends_with_the_training_that_went_through(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "step,x\n0,1\n10,2\n0,3\n10,4\n20,5\n")
    kept = RunLog.read(path, on_duplicate="sort", last_rows=3)
    np.testing.assert_array_equal(kept.panel("x").values, [[3, 4, 5]])
    # One row of the first training is left, between those of the second by its step.
    kept = RunLog.read(path, on_duplicate="sort", last_rows=4)
    np.testing.assert_array_equal(kept.panel("x").values, [[3, 2, 4, 5]])


def test_each_run_of_a_file_keeps_its_own_end(tmp_path: Path) -> None:
    text = "run,step,x\na,0,1\nb,0,2\na,10,3\na,20,4\nb,10,5\n"
    log = RunLog.read(csv_file(tmp_path, text), last_rows=2)
    np.testing.assert_array_equal(log.panel("x").values, [[3, 4], [2, 5]])
    assert len(RunLog.read(csv_file(tmp_path, text), last_rows=99).table) == 5


def test_a_bad_cell_keeps_its_line(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "step,x\n0,bad\n10,2\n20,worse\n30,1\n")
    with pytest.raises(InputError, match="line 4"):
        RunLog.read(path, last_rows=2)
    np.testing.assert_array_equal(RunLog.read(path, last_rows=1).panel("x").values, [[1]])


def test_none_of_the_rows_is_refused(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "step,x\n0,1\n")
    with pytest.raises(InputError, match="last_rows must be a whole number of at least 1, got 0"):
        RunLog.read(path, last_rows=0)


def test_rows_out_of_order_are_sorted_only_where_that_is_asked_for(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "step,x\n20,1\n0,2\n20,3\n10,4\n")
    with pytest.raises(InputError, match="step 0 comes after step 20"):
        RunLog.read(path, on_duplicate="keep")
    log = RunLog.read(path, on_duplicate="sort")
    np.testing.assert_array_equal(log.panel("x").values, [[2, 4, 1, 3]])
    np.testing.assert_array_equal(log.panel("x").steps, [[0, 10, 20, 20]])
    assert not log.dropped_duplicates
