"""Logs that are read while they are written: lines, files that begin anew, and checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.monitor.follow import GrowingFile, GrowingRows, LoggedCheckpoint
from gmb_hf.runs.rows import LogLine


def texts(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_come_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with GrowingFile(path) as file:
        assert file.poll() == []
        append(path, "a\nb")
        assert file.poll() == [LogLine(1, "a", True)]
        assert file.unfinished == [LogLine(2, "b", False)]
        assert file.poll() == []
        append(path, "c\r\nd\n")
        assert file.poll() == [LogLine(2, "bc", False), LogLine(3, "d", False)]
        assert file.unfinished == []


def test_a_file_that_is_cut_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, "a\nb\n")
    with GrowingFile(path) as file:
        file.poll()
        path.write_text("c\n")
        assert file.poll() == [LogLine(1, "c", True)]
        path.write_text("other, and longer than what was there\n")
        assert texts(file.poll()) == ["other, and longer than what was there"]


def test_a_writer_that_keeps_its_place_leaves_a_hole(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with path.open("w") as writer, GrowingFile(path) as file:
        writer.write("first line\n")
        writer.flush()
        file.poll()
        path.open("r+").truncate()  # as copytruncate of logrotate
        assert file.poll() == []
        writer.write("second\n")
        writer.flush()
        assert texts(file.poll()) == ["second"]


def test_a_file_that_is_moved_away_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, "a\n")
    with GrowingFile(path) as file:
        file.poll()
        moved = path.rename(tmp_path / "log.1")
        append(moved, "b\n")
        assert texts(file.poll()) == ["b"]  # the new one is not there yet
        append(moved, "c\n")
        append(path, "d\n")
        assert file.poll() == [LogLine(3, "c", False), LogLine(1, "d", True)]


def rows(*items: object, begins: bool = True) -> list[LogLine]:
    written = [item if isinstance(item, str) else json.dumps(item) for item in items]
    return [LogLine(i, text, begins and i == 1) for i, text in enumerate(written, start=1)]


def steps(checkpoints: list[LoggedCheckpoint]) -> list[int]:
    return [checkpoint.step for checkpoint in checkpoints]


def test_a_row_with_all_that_is_needed_waits_for_no_other() -> None:
    reader = GrowingRows("log.jsonl", needs=["a"], cadence=10)
    found = reader.checkpoints(rows({"step": 0, "a": 1, "note": "text", "run": "x", "b": None}))
    assert found == [LoggedCheckpoint(0, {"a": 1.0}, 1, True)]


def test_rows_of_one_step_are_one_checkpoint() -> None:
    reader = GrowingRows("log.jsonl", needs=["a", "b"], cadence=10)
    lines = rows(
        {"step": 0, "a": 1},
        {"step": 0, "b": 2},
        {"step": 0, "c": 3},  # after all that is needed: dropped
        {"step": 3, "loss": 9},  # between checkpoints
        {"step": 10, "a": 4},
        {"step": 20, "a": 5},
        {"summary": 1},
    )
    found = reader.checkpoints(lines)
    assert [dict(one.columns) for one in found] == [{"a": 1, "b": 2}, {"a": 4}]
    assert steps(found) == [0, 10]
    assert steps(reader.rest()) == [20]


def test_csv_and_other_names_of_the_step() -> None:
    reader = GrowingRows("log.csv", needs=["a"])
    found = reader.checkpoints(rows("global_step,a,b", "0,0.5,", "1,nan,x"))
    assert steps(found) == [0, 1]
    assert found[0].columns["a"] == 0.5
    named = GrowingRows("log.csv", needs=["a"], step_column="iteration")
    assert steps(named.checkpoints(rows("iteration,a", "7,1"))) == [7]


def test_lines_that_say_nothing_are_passed_over_with_a_note() -> None:
    reader = GrowingRows("log.jsonl", needs=["a"])
    found = reader.checkpoints(rows({"step": 0, "a": 1}, '{"step": 1, "a"', "[1]", {"step": "x"}))
    assert steps(found) == [0]
    assert len(reader.notes) == 3
    assert reader.notes[0].startswith("log.jsonl: line 2 is not JSON: ")
    assert reader.notes[1].endswith("is not a JSON object {column: number}; passed over")
    assert "line 4: column 'step' holds 'x', not a number; correct or" in reader.notes[2]
    table = GrowingRows("log.csv", needs=["a"])
    table.checkpoints(rows("step,a", "0,1", "1"))
    said = "log.csv: line 3 has 1 cells where the header has 2; complete or delete the line"
    assert table.notes == [f"{said} (a log that was cut short ends so); passed over"]


def test_one_run_of_several() -> None:
    lines = rows({"run": "x", "step": 0, "a": 1}, {"run": "y", "step": 0, "a": 2})
    asked = GrowingRows("log.jsonl", needs=["a"], run="y")
    assert [one.columns["a"] for one in asked.checkpoints(lines)] == [2]
    with pytest.raises(InputError, match=r"log.jsonl: holds several runs \(x, y\); say which wi"):
        GrowingRows("log.jsonl", needs=["a"]).checkpoints(lines)
    other = GrowingRows("log.jsonl", needs=["a"], run="z")
    assert other.checkpoints(lines) == []
    with pytest.raises(InputError, match="run 'z' is unknown; known: x, y"):
        other.check_run()


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("hello", r"log.jsonl: line 1 is not JSON: Expecting value \(column 1\)$"),
        ("[1]", r"line 1 is not a JSON object"),
        (
            '{"epoch": 1, "a": 2}',
            r"log.jsonl: column 'step' missing; found: epoch, a; if 'epoch' counts the steps, add "
            r"--step-column epoch",
        ),
        ('{"_step": 1, "global_step": 2}', r"may all be the steps; say which"),
    ],
)
def test_a_file_that_is_no_log(first: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GrowingRows("log.jsonl", needs=["a"]).checkpoints(rows(first))
