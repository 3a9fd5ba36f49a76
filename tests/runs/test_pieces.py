"""Rows logged in pieces, columns logged at different steps, and steps under other names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog, at_shared_steps

NAN = float("nan")


def log_of(**columns: list[Any]) -> RunLog:
    return RunLog.from_table(pa.table(columns), run_name="a")


LATER = list(range(100, 120))


def cells(log: RunLog, column: str) -> list[Any]:
    found: list[Any] = log.table[column].to_pylist()
    return found


class TestPieces:
    def test_rows_that_complete_one_another_are_one(self) -> None:
        log = log_of(
            step=[0, 0, 10, 20, 20, 20],
            x=[1.0, None, None, 2.0, None, None],
            y=[None, 3.0, 5.0, None, 4.0, None],
            z=[None, None, None, None, None, 6.0],
            epoch=[0.5, 0.5, 1.0, 1.5, 1.5, 1.5],
        )
        assert cells(log, "step") == [0, 10, 20]
        assert cells(log, "x") == [1, None, 2]
        assert cells(log, "y") == [3, 5, 4]
        assert cells(log, "z") == [None, None, 6]
        assert cells(log, "epoch") == [0.5, 1, 1.5]
        assert log.dropped_duplicates == {}

    @pytest.mark.parametrize(
        ("x", "y"),
        [
            ([1.0, 2.0], [None, 3.0]),  # two values of x: the step was logged again
            ([1.0, 1.0], [3.0, 3.0]),  # the same row twice
            ([1.0, 1.0], [None, 3.0]),  # the first row adds nothing
        ],
    )
    def test_a_step_that_was_logged_again_keeps_its_last_row(self, x: Any, y: Any) -> None:
        log = log_of(step=[0, 0, *LATER], x=[*x, *LATER], y=[*y, *LATER])
        assert (cells(log, "x")[:1], cells(log, "y")[:1]) == (x[1:], y[1:])
        assert log.dropped_duplicates == {"a": 1}

    def test_a_row_without_a_value_is_no_second_row_of_its_step(self) -> None:
        """Rows of a Trainer's losses, where only what it evaluates was asked for."""
        log = log_of(step=[0, 0, 5, 10, 10, 0], x=[1.0, None, None, None, 2.0, None])
        assert (cells(log, "step"), cells(log, "x")) == ([0, 5, 10], [1, None, 2])
        assert log.dropped_duplicates == {}

    def test_the_last_value_of_what_every_piece_has(self) -> None:
        log = log_of(step=[0, 0], time=[7.0, 8.0], x=[1.0, None], y=[None, 2.0])
        assert [cells(log, name) for name in ("time", "x", "y")] == [[8], [1], [2]]
        assert log.dropped_duplicates == {}

    def test_other_runs_and_rows_apart_are_no_pieces(self) -> None:
        table = pa.table({"run": ["a", "b"], "step": [0, 0], "x": [1.0, None], "y": [None, 2.0]})
        assert RunLog.from_table(table).table.num_rows == 2
        x, y = [1.0, 1.0, *LATER, None], [None, None, *LATER, 2.0]
        apart = log_of(step=[0, 10, *LATER, 0], x=x, y=y)
        assert cells(apart, "x")[:2] == [None, 1]
        assert apart.dropped_duplicates == {"a": 1}

    def test_who_keeps_all_rows_keeps_the_pieces(self) -> None:
        table = pa.table({"step": [0, 0], "x": [1.0, None], "y": [None, 2.0]})
        for rule in ("keep", "sort"):
            log = RunLog.from_table(table, run_name="a", on_duplicate=rule)  # type: ignore[arg-type]
            assert log.table.num_rows == 2

    @given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
    def test_a_log_taken_to_pieces_comes_together(self, split: list[tuple[bool, bool]]) -> None:
        rows: list[dict[str, Any]] = []
        for step, (apart, order) in enumerate(split):
            parts = [{"x": float(step)}, {"y": -float(step)}]
            whole = [parts[0] | parts[1]]
            rows += [
                {"step": step, **p} for p in (parts[:: -1 if order else 1] if apart else whole)
            ]
        log = RunLog.from_table(pa.Table.from_pylist(rows, schema=_XY), run_name="a")
        steps = [float(step) for step in range(len(split))]
        assert cells(log, "x") == steps
        assert cells(log, "y") == [-step for step in steps]


_XY = pa.schema([("step", pa.int64()), ("x", pa.float64()), ("y", pa.float64())])


class TestDifferentSteps:
    def sparse(self, n: int = 9, *, first: int = 0) -> RunLog:
        """x at every step, y at every fourth from `first` on."""
        y = [float(i) if i % 4 == first else None for i in range(n)]
        return log_of(step=[10 * i for i in range(n)], x=[1.0 * i for i in range(n)], y=y)

    def test_complete_rows(self) -> None:
        log = self.sparse()
        part = log.complete(["x", "y"])
        assert cells(part, "step") == [0, 40, 80]
        assert part.notes == ("Kept are the 3 of 9 rows in which x and y have a value.",)
        assert log.complete(["x"]) is log
        nan = log_of(step=[0, 1], x=[NAN, 1.0]).complete(["x"])
        assert nan.table.num_rows == 2, "a logged NaN is a value"

    def test_complete_refuses(self) -> None:
        log = log_of(step=[0, 1], x=[1.0, None], y=[None, 1.0], z=[None, None])
        match = "run 'a' has no step at which 'x' and 'y' all have a value; log them at the same"
        with pytest.raises(InputError, match=match):
            log.complete(["x", "y"])
        with pytest.raises(InputError, match="column 'z' has no value in run 'a'"):
            log.complete(["x", "z"])
        with pytest.raises(InputError, match="column 'w' missing; found: x, y, z"):
            log.complete(["w"])

    @pytest.mark.parametrize("first", range(4))
    def test_a_rhythm_is_followed(self, first: int) -> None:
        part = at_shared_steps(self.sparse(first=first), ["x", "y"])
        assert part.panel("step").cadence() == 40
        assert np.isfinite(part.panel("y").values).all()

    @pytest.mark.parametrize("gap", [[0], [4], [8], [3, 4], [0, 1]])
    def test_a_gap_is_no_rhythm(self, gap: list[int]) -> None:
        x = [None if i in gap else 1.0 for i in range(9)]
        log = log_of(step=[10 * i for i in range(9)], x=x)
        assert at_shared_steps(log, ["x"]) is log

    def test_nothing_is_carried_forward(self) -> None:
        values = self.sparse().panel("y").values[0]
        assert np.isnan(values[[1, 2, 3, 5, 6, 7]]).all()


class TestNamesOfSteps:
    @pytest.mark.parametrize("name", ["global_step", "_step", "Step", "trainer/global_step"])
    def test_one_known_name_is_taken_and_said(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / "a.csv"
        path.write_text(f"{name},x\n0,1\n10,2\n")
        log = RunLog.read(path)
        assert log.panel("step").last_step.tolist() == [10]
        assert log.observables == ("x",)
        assert log.notes == (f"The steps are the column {name!r}.",)
        assert RunLog.read(path, columns=["x"]).notes == log.notes

    def test_step_needs_no_guess(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_text("global_step,step,x\n7,0,1\n8,10,2\n")
        log = RunLog.read(path)
        assert (log.observables, log.notes) == (("global_step", "x"), ())

    def test_several_are_not_guessed_between(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_text("global_step,Step,x\n7,0,1\n8,10,2\n")
        with pytest.raises(InputError, match="'global_step' and 'Step' may all be the steps"):
            RunLog.read(path)
        assert RunLog.read(path, step_column="Step").panel("step").last_step.tolist() == [10]

    def test_an_epoch_only_where_it_is_asked_for(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_text("epoch,x\n0,1\n1,2\n")
        with pytest.raises(InputError, match="column 'step' missing; found: epoch, x"):
            RunLog.read(path)
        assert RunLog.read(path, step_column="epoch").panel("step").last_step.tolist() == [1]


def test_of_many_columns_the_nearest_come_first(tmp_path: Path) -> None:
    names = [f"layer_{i}/norm" for i in range(3000)]
    path = tmp_path / "a.csv"
    path.write_text(",".join(["step", *names]) + "\n" + ",".join(["0", *["1"] * 3000]) + "\n")
    with pytest.raises(InputError) as raised:
        RunLog.read(path, columns=["layer_1234/nrom"])
    message = str(raised.value)
    assert "found: layer_1234/norm, " in message
    assert "(2961 more). Did you mean 'layer_1234/norm'?" in message
    assert len(message) < 1200
