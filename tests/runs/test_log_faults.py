"""Faults of run logs, each where it is found: its code, its place, and what the message says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog

LONG = "step,x\n0,1\n1,2\n"
STATE = '{"log_history": [{"step": 10, "acc": 0.5}, {"step": 20'

FILES: list[tuple[str, str | bytes, str, dict[str, Any], str]] = [
    # file, content, code, location besides the file, message
    ("a.csv", "", "empty_file", {}, "the file is empty; is the training still starting?"),
    ("a.csv", "\n\n", "no_header", {}, "no header; the first line of a CSV names its columns"),
    ("a.csv", "step,x\n", "no_rows", {}, "no rows below the header"),
    ("a.csv", "step;x\n0;0,5\n", "other_separator", {}, "columns are separated by semicolons"),
    ("a.csv", "step\tx\n0\t1\n", "other_separator", {}, "columns are separated by tabs"),
    ("a.csv", "step,x\n0,1\n1\n", "cut_short", {"place": "line 3"}, "has 1 cells where the header"),
    ("a.csv", "step,x\n0,1\n\n1,2,3\n", "cut_short", {"place": "line 4"}, "line 4 has 3 cells"),
    ("a.csv", "step,x,x\n0,1,2\n", "repeated_column", {"column": "x"}, "'x' stands twice"),
    ("a.csv", LONG + "2,oops\n", "bad_cell", {"place": "line 4", "column": "x"}, "holds 'oops'"),
    ("a.csv", 'step,x\n0,1\n\n1,"a\nb"\n2,3\n', "bad_cell", {"place": "line 4"}, r"'a\\nb'"),
    ("a.csv", 'step,x\n0,1\n1,"2\n2,3\n3,4\n', "bad_cell", {"place": "line 3"}, r"'2\\n2,3"),
    ("a.csv", LONG + "2.5,3\n", "not_whole", {"place": "line 4", "column": "step"}, r"is 2\.5"),
    ("a.csv", LONG + "-5,3\n", "not_whole", {"place": "line 4"}, "is -5; it must be a whole"),
    ("a.csv", LONG + "1e300,3\n", "not_whole", {"place": "line 4"}, r"1e\+300.* and below 2\^53"),
    ("a.csv", LONG + "inf,3\n", "not_whole", {"place": "line 4"}, "'step' is inf"),
    ("a.csv", LONG + ",3\n", "not_whole", {"place": "line 4"}, "column 'step' is empty"),
    (
        "a.csv",
        LONG + "ten,3\n",
        "bad_cell",
        {"column": "step"},
        "line 4: column 'step' holds 'ten'",
    ),
    ("a.csv", LONG + "0,1\n-0,1\n2,3\n1,4\n20,2\n10,3\n", "steps_backwards", {"step": 10}, "'a'"),
    ("a.csv", "run,step,x\na,0,1\n,1,2\n", "empty_run", {"place": "line 3"}, "'run' is empty"),
    ("a.csv", "_step,Step,x\n0,0,1\n", "several_step_columns", {}, "e.g. --step-column Step"),
    ("a.csv", b"step,x\n0,\xff\xfe\n", "not_utf8", {}, "not UTF-8 text; save the file as UTF-8"),
    ("a.csv", b"step,\xe9\n0,1\n", "not_utf8", {}, "not UTF-8 text"),
    ("a.csv", LONG.encode("utf-16"), "not_utf8", {}, "not UTF-8 text"),
    ("a.jsonl", '{"step": 0}\n\n{"step"', "not_json", {"place": "line 3"}, "line 3 is not JSON"),
    ("a.jsonl", '{"step": 0}\n[1]\n', "not_json", {"place": "line 2"}, "is not a JSON object"),
    ("a.jsonl", '[{"step": 0}]\n', "not_json", {"place": "line 1"}, "is not a JSON object"),
    ("a.jsonl", '{"loss": 0}\n', "missing_column", {"column": "step"}, "missing; found: loss"),
    (
        "a.jsonl",
        '{"step": 0, "x": 1}\n\n{"step": 1, "x": "bad"}\n{"step": 2, "x": 3}\n',
        "bad_cell",
        {"place": "line 3", "column": "x"},
        "holds 'bad', not a number; correct or empty this cell",
    ),
    (
        "a.jsonl",
        '{"step": 0}\n{"step": 1, "step": 2}\n',
        "repeated_key",
        {"place": "line 2"},
        "'step'",
    ),
    (
        "a.jsonl",
        '{"step": 0, "x": 1, "x": 2}\n{"step": 1, "x": "a"}\n',
        "repeated_key",
        {"place": "line 1"},
        "line 1: key 'x' is given twice",
    ),
    (
        "a.jsonl",
        '{"step": false}\n{"step": true}\n',
        "not_whole",
        {},
        "holds true or false; it must",
    ),
    ("a.jsonl", '{"step": 0}\n{"step": true}\n', "bad_cell", {"place": "line 2"}, "holds 'true'"),
    ("a.jsonl", b'{"step": 0, "x": "\xff"}\n', "not_utf8", {}, "not UTF-8 text"),
    ("a.jsonl", "\n", "missing_column", {"column": "step"}, "found: none"),
    ("a.parquet", LONG, "not_parquet", {}, "not a Parquet file, or a truncated or"),
    ("a.txt", LONG, "not_a_log", {}, "not a run log; known endings: .parquet, .csv\\(.gz\\), .jsonl"),
    ("a.csv.gz", LONG, "not_gzip", {}, "not a gzip file, or a damaged one .*; copy it again"),
    ("s/trainer_state.json", STATE, "cut_short", {}, "cut short, or no JSON"),
    ("s/trainer_state.json", '{"log_history": [{"x": 1, "x": 2}]}', "repeated_key", {}, "'x' is"),
    ("s/trainer_state.json", "{}", "bad_trainer_state", {}, "it has no list log_history"),
]


@pytest.mark.parametrize(("name", "content", "code", "location", "message"), FILES)
def test_files(
    name: str,
    content: str | bytes,
    code: str,
    location: dict[str, Any],
    message: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message) as raised:
        RunLog.read(path)
    assert raised.value.code == code
    assert raised.value.location.items() >= {"where": str(path), **location}.items()
    assert str(path) in str(raised.value)


TABLES: list[tuple[dict[str, Any], str, dict[str, Any], str]] = [
    ({"step": [0, -1]}, "not_whole", {"place": "row 2", "column": "step"}, "is -1; it must be"),
    ({"step": [False, True]}, "not_whole", {"column": "step"}, "holds true or false; it must be"),
    ({"step": [0, 2**53 + 1]}, "not_whole", {"place": "row 2"}, r"9\.0072e\+15; .* below 2\^53"),
    ({"step": pa.array([0, 2**63], pa.uint64())}, "not_whole", {"place": "row 2"}, "below 2\\^53"),
    (
        {"step": [0], "seed": pa.array([2**63], pa.uint64())},
        "not_whole",
        {"column": "seed"},
        "below 2\\^63",
    ),
    ({"step": [0, 0.5]}, "not_whole", {"place": "row 2"}, r"'step' is 0\.5"),
    ({"step": [0.0, float("inf")]}, "not_whole", {"place": "row 2"}, "'step' is inf"),
    ({"step": [0, None]}, "not_whole", {"place": "row 2"}, "'step' is empty"),
    ({"step": [0, 1], "seed": [0.5, 0.5]}, "not_whole", {"column": "seed"}, "row 1"),
    ({"step": [0, 1], "run": ["a", None]}, "empty_run", {"place": "row 2"}, "'run' is empty"),
    ({"step": [0, 1], "run": ["a", " "]}, "empty_run", {"place": "row 2"}, "'run' is empty"),
    ({"step": [0, 1], "run": [0.5, 0.5]}, "bad_run_column", {"column": "run"}, "holds double"),
    ({"step": [], "x": []}, "no_rows", {}, "no rows below the header"),
    ({"x": [0, 1]}, "missing_column", {"column": "step"}, "missing; found: x"),
    ({"step": [0, 1], "seed": [1, 2]}, "two_seeds", {"run": "a"}, "the seeds 1 and 2; name the"),
    ({"step": [0, 0], "seed": [1, 2]}, "hidden_runs", {"column": "seed"}, "--run-column seed if"),
    ({"step": [0, 1], "seed": [1, None]}, "two_seeds", {"run": "a"}, "the seeds 1 and nan"),
    ({"step": [0, 10, 5]}, "steps_backwards", {"run": "a", "step": 5}, "5 comes after step 10"),
]


@pytest.mark.parametrize(("columns", "code", "location", "message"), TABLES)
def test_tables(columns: dict[str, Any], code: str, location: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        RunLog.from_table(pa.table(columns), run_name="a")
    assert raised.value.code == code
    assert raised.value.location.items() >= {"where": "run log", **location}.items()


def test_a_reworded_fault_keeps_its_code_and_place() -> None:
    fault = InputError("a.csv: gone", code="no_such_file", where="a.csv", run=None)
    assert fault.location == {"where": "a.csv"}
    again = fault.reworded("metric: a.csv: gone")
    assert (str(again), again.code, again.location) == (
        "metric: a.csv: gone",
        "no_such_file",
        {"where": "a.csv"},
    )
    assert InputError("wrong").code == "bad_input"


def not_utf8(n: int) -> pa.Array:
    """A column of text whose bytes are no UTF-8, as another program may write one."""
    ends = np.arange(0, 2 * n + 1, 2, dtype=np.int32)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"\xff\xfe" * n)]
    return pa.Array.from_buffers(pa.string(), n, buffers)


@pytest.mark.parametrize("column", ["run", "step", "seed", "x"])
def test_parquet_with_text_that_is_not_utf8(tmp_path: Path, column: str) -> None:
    table = {"run": ["a", "a"], "step": [0, 1], "y": [0.0, 1.0], column: not_utf8(2)}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(table), path)
    match = f"a.parquet: column '{column}' holds text that is not UTF-8; write it as UTF-8"
    with pytest.raises(InputError, match=match):
        RunLog.read(path).panel("x")
    if column == "x":
        assert RunLog.read(path).observables == ("y",)


def test_runs_named_by_bytes(tmp_path: Path) -> None:
    for name, content in (("good", [b"a", b"b"]), ("bad", [b"\xff", b"b"])):
        table = pa.table({"run": pa.array(content, pa.binary()), "step": [0, 0], "x": [0.0, 1.0]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    assert RunLog.read(tmp_path / "good.parquet").runs == ("a", "b")
    with pytest.raises(InputError, match="column 'run' holds binary that is no text: Invalid UTF8"):
        RunLog.read(tmp_path / "bad.parquet")


@pytest.mark.parametrize("text", ["null", " null\n", "\ufeffnull", 'null{"step": 1}', '{"step": 1}\nnull\n'])
def test_a_row_of_json_that_is_null(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(InputError, match=r"a\.jsonl: line [12] is not"):
        RunLog.read(tmp_path / "a.jsonl")
