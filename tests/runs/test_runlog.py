"""The run log: what it holds, how it is cut, joined, hashed and written."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import synthetic_runlog

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog


def small(first: int = 0, **extra: Any) -> RunLog:
    return RunLog.from_arrays(
        [f"seed_{first}", f"seed_{first + 1}"],
        [0, 10, 20],
        {"loss": [[3.0, 2.0, 1.0], [6.0, 5.0, 4.0]], **extra},
        metadata={"task": "sub", "first": first},
    )


def test_rectangles_become_rows_and_back() -> None:
    log = small()
    assert log.runs == ("seed_0", "seed_1")
    assert log.observables == ("loss",)
    panel = log.panel("loss")
    np.testing.assert_array_equal(panel.values, [[3, 2, 1], [6, 5, 4]])
    np.testing.assert_array_equal(panel.steps, [[0, 10, 20]] * 2)
    np.testing.assert_array_equal(log.panel("step").values, panel.steps)


def test_steps_may_differ_by_run() -> None:
    log = RunLog.from_arrays(["a", "b"], [[0, 10], [5, 15]], {"x": [[1, 2], [3, 4]]})
    np.testing.assert_array_equal(log.panel("x").steps, [[0, 10], [5, 15]])


def test_shapes_are_checked() -> None:
    with pytest.raises(InputError, match=r"'x' has shape \(2, 2\), expected \(2, 3\)"):
        small(x=[[1, 2], [3, 4]])


def test_ragged_runs_are_masked(synthetic_log: RunLog) -> None:
    panel = synthetic_log.panel("test_acc")
    assert len(set(panel.lengths.tolist())) > 1
    np.testing.assert_array_equal(np.isnan(panel.values), ~panel.present)
    assert synthetic_log.table.num_rows == panel.lengths.sum()


def test_missing_column_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"column 'los' missing; found: loss. Did you mean 'loss'"):
        small().panel("los")


def test_empty_cells_are_nan_and_an_empty_run_is_an_error() -> None:
    table = pa.table(
        {
            "run": ["a", "a", "b", "b"],
            "step": [0, 1, 0, 1],
            "x": [1.0, None, None, float("nan")],
            "y": [1.0, 2.0, None, None],
        }
    )
    log = RunLog.from_table(table)
    np.testing.assert_array_equal(log.panel("x").values, [[1, np.nan], [np.nan, np.nan]])
    assert (log.observables, log.shared_observables) == (("x", "y"), ("x",))
    with pytest.raises(InputError, match="column 'y' has no value in run 'b'"):
        log.panel("y")


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (["x", "y"], "column 'note' holds 'x', not a number"),
        ([[1.0], [2.0]], r"column 'note' holds list<.*one number per row"),
        ([{"a": 1}, {"a": 2}], r"column 'note' holds struct<.*one number per row"),
    ],
)
def test_columns_without_numbers_are_set_aside_until_asked_for(column: Any, match: str) -> None:
    table = pa.table({"step": [0, 1], "x": [1, 2], "note": column})
    log = RunLog.from_table(table, run_name="a")
    assert log.observables == ("x",)
    with pytest.raises(InputError, match=match):
        log.panel("note")
    with pytest.raises(InputError, match=match):
        RunLog.from_table(table, run_name="a", columns=["x", "note"])


def test_numbers_of_every_kind_become_float64() -> None:
    table = pa.table(
        {
            "step": pa.array([0.0, 1.0], pa.float32()),
            "small": pa.array([0.5, 1.5], pa.float16()),
            "flag": [True, None],
            "count": pa.array([1, 2], pa.uint8()),
            "text": pa.array(["1", "nan"]).dictionary_encode(),
            "none": pa.nulls(2),
        }
    )
    log = RunLog.from_table(table, run_name="a")
    assert log.observables == ("small", "flag", "count", "text", "none")
    assert {str(log.table.schema.field(name).type) for name in log.observables} == {"double"}
    np.testing.assert_array_equal(log.panel("flag").values, [[1, np.nan]])


def test_a_column_that_stands_twice_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array([0]), pa.array([1]), pa.array([2])], ["step", "x", "x"])
    with pytest.raises(InputError, match="column 'x' stands twice"):
        RunLog.from_table(table, run_name="a")


def test_a_table_without_runs_needs_a_name() -> None:
    with pytest.raises(InputError, match="column 'run' missing"):
        RunLog.from_table(pa.table({"step": [0]}))


def test_seeds_come_from_the_column_or_from_the_name() -> None:
    names = ["a1", "alpha-0", "beta-0", "seed_3"]
    table = pa.table({"run": names, "step": [0] * 4, "seed": [7, None, None, None]})
    assert RunLog.from_table(table).seeds == (7, None, None, 3)
    assert small(140).seeds == (140, 141)
    assert synthetic_runlog(2, 5, first_seed=8).seeds == (8, 9)


def test_a_seed_column_can_name_the_runs() -> None:
    table = pa.table({"seed": [10, 10, 2, 2], "step": [0, 1, 0, 1], "x": [1, 2, 3, 4]})
    log = RunLog.from_table(table, run_column="seed")
    assert log.runs == ("2", "10")
    assert log.seeds == (2, 10)
    assert log.observables == ("x",)


def test_restarts_are_counted() -> None:
    table = pa.table({"step": [*range(10), 9, 10], "x": [*range(10), 5, 2]})
    log = RunLog.from_table(table, run_name="a")
    assert log.dropped_duplicates == {"a": 1}
    assert log.restarts == "1 rows of restarted logs (8.3% of 12) were dropped: a (1)."
    np.testing.assert_array_equal(log.panel("x").values, [[*range(9), 5, 2]])
    with pytest.raises(InputError, match="on_duplicate 'first' is unknown"):
        RunLog.from_table(log.table, on_duplicate="first")  # type: ignore[arg-type]


def test_select_takes_runs_by_name(synthetic_log: RunLog) -> None:
    part = synthetic_log.select(["seed_10", "seed_2"])
    assert part.runs == ("seed_2", "seed_10")
    assert part.metadata == synthetic_log.metadata
    whole = synthetic_log.panel("test_acc")
    rows = [synthetic_log.runs.index(run) for run in part.runs]
    np.testing.assert_array_equal(part.panel("test_acc").values, whole.select(rows).values)
    with pytest.raises(InputError, match=r"run 'seed_99' is unknown.*Did you mean 'seed_"):
        synthetic_log.select(["seed_99"])
    with pytest.raises(InputError, match="no runs selected"):
        synthetic_log.select([])


def test_concat_joins_what_fits() -> None:
    joined = RunLog.concat([small(8), small(10, extra=[[1, 2, 3]] * 2)])
    assert joined.runs == ("seed_8", "seed_9", "seed_10", "seed_11")
    assert joined.metadata == {"task": "sub", "differs": {"first": [8, 10]}}
    with pytest.raises(InputError, match=r"'extra' has no value in run 'seed_8' \(and 1 more\)"):
        joined.panel("extra")
    np.testing.assert_array_equal(joined.select(["seed_10"]).panel("extra").values, [[1, 2, 3]])


def test_concat_refuses_a_run_that_comes_twice() -> None:
    with pytest.raises(InputError, match="run 'seed_1' is in two of the run logs"):
        RunLog.concat([small(0), small(1)])
    with pytest.raises(InputError, match="no run logs"):
        RunLog.concat([])


def test_repeats_that_were_kept_survive_select_and_concat() -> None:
    table = pa.table({"step": [0, 0, 1], "x": [0, 1, 2]})
    log = RunLog.from_table(table, run_name="a", on_duplicate="keep")
    assert log.table.num_rows == 3
    assert log.select(["a"]).table.num_rows == 3
    assert RunLog.concat([log, small()]).panel("step").lengths.tolist() == [3, 3, 3]


def test_fingerprint_is_of_the_content(tmp_path: Path, synthetic_log: RunLog) -> None:
    known = synthetic_log.fingerprint()
    assert len(known) == 64
    table = synthetic_log.table
    shuffled = table.take(np.argsort(np.asarray(table["step"]), kind="stable"))
    assert RunLog.from_table(shuffled).fingerprint() == known
    assert RunLog.from_table(table.select(table.column_names[::-1])).fingerprint() == known
    for name, write in {
        "a.parquet": lambda path: pq.write_table(table, path, row_group_size=7),
        "a.csv": lambda path: pa.csv.write_csv(table, path),
        "a.jsonl": lambda path: table.to_pandas().to_json(
            path, orient="records", lines=True, double_precision=15
        ),
    }.items():
        write(tmp_path / name)
        same = RunLog.read(tmp_path / name)
        if name != "a.jsonl":  # pandas rounds what it writes as JSON
            assert same.fingerprint() == known
        assert same.runs == synthetic_log.runs


def test_fingerprint_sees_every_change() -> None:
    log = small()
    assert RunLog.from_table(log.table, metadata={"other": 1}).fingerprint() == log.fingerprint()
    changed = [
        small(1),
        small(extra=[[0.0] * 3] * 2),
        log.select(["seed_0"]),
        RunLog.from_table(log.table.slice(0, 5)),
        RunLog.from_arrays(log.runs, [0, 10, 21], {"loss": log.panel("loss").values}),
        RunLog.from_arrays(log.runs, [0, 10, 20], {"loss": log.panel("loss").values + 1e-15}),
        RunLog.from_arrays(log.runs, [0, 10, 20], {"loss": log.panel("loss").values}, seeds=[0, 1]),
    ]
    hashes = {log.fingerprint(), *(other.fingerprint() for other in changed)}
    assert len(hashes) == len(changed) + 1


def test_zeros_and_nans_have_one_fingerprint() -> None:
    def of(values: list[float | None]) -> str:
        return RunLog.from_table(
            pa.table({"step": [0, 1], "x": values}), run_name="a"
        ).fingerprint()

    assert of([0.0, float("nan")]) == of([-0.0, -float("nan")]) == of([0.0, None])


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.floats(width=64), min_size=1, max_size=6), min_size=1, max_size=5).map(
        lambda rows: [(f"seed_{i}", row) for i, row in enumerate(rows)]
    )
)
def test_write_and_read_give_the_same_log(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, list[float]]]
) -> None:
    table = pa.table(
        {
            "run": [run for run, row in rows for _ in row],
            "step": [step for _, row in rows for step in range(len(row))],
            "x": [value for _, row in rows for value in row],
        }
    )
    log = RunLog.from_table(table, metadata={"nested": {"a": [1, None, "ü"]}})
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    again = RunLog.read(log.write(path))
    assert again.table.equals(log.table) or again.fingerprint() == log.fingerprint()
    assert again.metadata == log.metadata
    np.testing.assert_array_equal(again.panel("x").values, log.panel("x").values)


def test_writing_is_deterministic_and_keeps_the_count_of_repeats(tmp_path: Path) -> None:
    log = RunLog.concat([small(2), small(0)])
    one, two = log.write(tmp_path / "one.parquet"), log.write(tmp_path / "two.parquet")
    assert one.read_bytes() == two.read_bytes()
    other = RunLog.concat([small(0), small(2)])
    other.metadata = log.metadata
    assert other.write(two).read_bytes() == one.read_bytes()
    steps = [0, *range(10)]
    twice = RunLog.from_table(pa.table({"step": steps, "x": steps}), run_name="a")
    assert RunLog.read(twice.write(tmp_path / "a.parquet")).dropped_duplicates == {"a": 1}


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small().write(tmp_path / "log.parquet")
    before = path.read_bytes()

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(InputError, match=r"log\.parquet: could not be written: the disk is full"):
        small(5).write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_metadata_that_json_cannot_hold_is_refused_before_writing(tmp_path: Path) -> None:
    log = small()
    log.metadata["when"] = {1, 2}
    with pytest.raises(InputError, match="metadata cannot be written as JSON"):
        log.write(tmp_path / "log.parquet")
    assert not list(tmp_path.iterdir())


def test_it_is_fingerprinted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log = small()
    known = log.fingerprint()
    monkeypatch.setattr("gmb_hf.runs.runlog.RunItems", None)
    assert log.fingerprint() == known


def test_it_is_shown_in_one_line_and_in_a_notebook_as_a_table() -> None:
    log = small(8, extra=[[1, 2, 3]] * 2)
    assert repr(log) == ("RunLog(2 runs, 6 rows, steps 0 to 20, 2 observables: loss, extra)")
    page = log._repr_html_()
    assert "<td>seed_8</td><td>8</td><td>3</td><td>0</td><td>20</td>" in page
    hostile = RunLog.from_table(pa.table({"step": [0], "<x>": [1]}), run_name="<b>")
    assert "<b>" not in hostile._repr_html_()
    many = RunLog.from_arrays([f"r{i}" for i in range(12)], [0, 1], {"x": np.zeros((12, 2))})
    assert "and 2 more runs" in many._repr_html_()
    nothing = many.select(["r0"]).table.slice(0, 0)
    assert repr(RunLog(nothing)) == "RunLog(0 runs, 0 rows, steps 0 to 0, 1 observables: x)"
