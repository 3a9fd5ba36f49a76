"""A growing log is read as a whole one is: the same rows, the same faults, and `.gz` as well."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.monitor.follow import GrowingFile, GrowingRows, LoggedCheckpoint
from gmb_hf.runs.rows import LogLine
from gmb_hf.runs.runlog import RunLog

TABLE = "step,x\n0,1\n1,2\n"
LINES = '{"step": 0, "x": 1}\n{"step": 1, "x": 2}\n'


def write(path: Path, content: str | bytes) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def followed(path: Path) -> tuple[list[LoggedCheckpoint], list[str]]:
    """The checkpoints of a log whose writer has ended, and what was noted."""
    rows = GrowingRows(str(path), needs=["x"])
    with GrowingFile(path) as file:
        found = rows.checkpoints(file.poll())
        last = file.unfinished
    found += rows.checkpoints(last)
    return found + rows.rest(), rows.notes


GOOD = {
    "plain.csv": TABLE,
    "mark.csv": b"\xef\xbb\xbf" + TABLE.encode(),
    "spaces.csv": "step, x\n 0 , 1 \n\n1,2\n",
    "index.csv": ",step,x\n0,0,1\n1,1,2\n",
    "quoted.csv": 'step,x,"a, b"\n"0",1,"one\ntwo ""lines"""\n1,2,\n',
    "other.csv": "global_step,x,host\n0,+1,a\n1,2e0,b\n",
    "empty.csv": "step,x\n0,1\n1,2\n2,NA\n3,null\n4,\n",
    "returns.csv": "step,x\r0,1\r1,2\r",
    "text.jsonl": '{"step": 0, "x": "1", "host": "a"}\n\n{"step": 1.0, "x": 2, "y": [1]}\n',
    "keys.jsonl": '{"run": 7, "seed": 3, "_step": 0, "x": true}\n'
    '{"run": 7, "seed": 3, "_step": 1, "x": 2}\n',
    "endings.NDJSON": LINES.rstrip(),
}


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("name", GOOD)
def test_rows_are_the_same(tmp_path: Path, name: str, ending: str) -> None:
    path = write(tmp_path / f"{name}{ending}", GOOD[name])
    log = RunLog.read(path, columns=["x"])
    assert log.runs == (("7",) if name == "keys.jsonl" else (name.split(".")[0],))
    rows = log.table.select(["step", "x"]).to_pylist()
    found, notes = followed(path)
    assert notes == []
    assert [{"step": one.step, "x": one.columns.get("x")} for one in found] == rows
    assert rows[:2] == [{"step": 0, "x": 1.0}, {"step": 1, "x": 2.0}]


BAD: list[tuple[str, str | bytes]] = [
    ("a.csv", TABLE + "2\n"),
    ("a.csv", TABLE + "2,3,4\n"),
    ("a.csv", TABLE + "2.5,3\n"),
    ("a.csv", TABLE + "-5,3\n"),
    ("a.csv", TABLE + "1e300,3\n"),
    ("a.csv", TABLE + "inf,3\n"),
    ("a.csv", TABLE + ",3\n"),
    ("a.csv", TABLE + "ten,3\n"),
    ("a.csv", TABLE + "1_0,3\n"),
    ("a.csv", TABLE + "2,oops\n"),
    ("a.csv", TABLE + '2,"3\n3,4\n'),
    ("a.csv", TABLE + "2,3," + "x" * 200_000 + "\n"),
    ("a.csv", TABLE.encode() + b"2,\xff\n"),
    ("a.csv", "run,step,x\na,0,1\n,1,2\n"),
    ("a.csv", "step,x,x\n0,1,2\n"),
    ("a.csv", "step;x\n0;0,5\n"),
    ("a.csv", "step\tx\n0\t1\n"),
    ("a.csv", "epoch,x\n0,1\n"),
    ("a.csv", "_step,Step,x\n0,0,1\n"),
    ("a.csv", "run,step,x\n0.5,0,1\n0.5,1,2\n0.5,2,x\n"),
    ("a.jsonl", LINES + '{"step"'),
    ("a.jsonl", LINES + "[1]\n"),
    ("a.jsonl", LINES + '{"step": 2, "step": 3}\n'),
    ("a.jsonl", LINES + '{"step": true, "x": 1}\n'),
    ("a.jsonl", LINES + '{"step": 9007199254740993, "x": 1}\n'),
    ("a.jsonl", LINES + '{"step": 2, "x": "bad"}\n'),
    ("a.jsonl", LINES + '{"config": 1}\n'),
    ("a.jsonl", LINES + '{"step": 2, "x": ' + "[" * 200 + "]" * 200 + "}\n"),
    ("a.jsonl", LINES.encode() + b'{"step": 2, "x": "\xff"}\n'),
    ("a.jsonl", '{"run": "a", "step": 0, "x": 1}\n{"step": 1, "x": 2}\n'),
    ("a.jsonl", '{"loss": 0}\n'),
    ("a.jsonl", "hello\n"),
    ("a.jsonl", '{"_step": 1, "global_step": 2}\n'),
]


def said_of(path: Path) -> list[str]:
    try:
        return followed(path)[1]
    except InputError as error:
        return [str(error)]


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(("name", "content"), BAD, ids=[repr(text)[-24:] for _, text in BAD])
def test_faults_are_said_in_the_same_line(
    tmp_path: Path, name: str, content: str | bytes, ending: str
) -> None:
    path = write(tmp_path / f"{name}{ending}", content)
    with pytest.raises(InputError) as raised:
        RunLog.read(path, columns=["x"])
    if str(raised.value) not in (said := said_of(path)):  # of the file, or of its first row
        assert said[0] == f"{raised.value}; passed over"
    assert "\n" not in str(raised.value)


def test_a_stray_quote_loses_its_own_row_alone(tmp_path: Path) -> None:
    rows = [f"{step},{step}" for step in range(300)]
    rows[5] = '5,"5'
    path = write(tmp_path / "a.csv", "\n".join(["step,x", *rows, ""]))
    found, notes = followed(path)
    assert [one.step for one in found] == [*range(300)]
    assert notes == []  # the cell "5 of its own line is 5
    rows[5] = '5,"5 and more'
    found, notes = followed(write(path, "\n".join(["step,x", *rows, ""])))
    assert [one.step for one in found] == [*range(300)]
    assert "x" not in found[5].columns
    said = (
        f"{path}: line 7: column 'x' holds '5 and more', not a number; correct or empty this cell"
    )
    assert notes == [f"{said}; passed over"]


@pytest.mark.parametrize("cut", [1, 9, 10, 30])
def test_a_compressed_log_that_was_cut(tmp_path: Path, cut: int) -> None:
    for name, content in (("a.csv.gz", TABLE), ("a.jsonl.gz", LINES)):
        whole = write(tmp_path / name, content)
        whole.write_bytes(whole.read_bytes()[:cut])
        with pytest.raises(InputError, match=f"{name}: cut short: its compressed data has no end"):
            RunLog.read(whole)
        assert {one.step for one in followed(whole)[0]} <= {0, 1}  # the lines that are complete


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
def test_a_file_that_is_named_gz_and_is_none(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(TABLE)
    message = rf"{name}: not a gzip file, or a damaged one \(.*\); copy it again, or name it"
    with pytest.raises(InputError, match=message):
        RunLog.read(path)
    with pytest.raises(InputError, match=message):
        followed(path)


def test_a_compressed_log_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    writer = zlib.compressobj(wbits=31)
    reader = GrowingRows(str(path), needs=["x"])
    steps: list[list[int]] = []
    with path.open("wb") as log, GrowingFile(path) as file:
        for piece in (
            writer.compress(LINES.encode()),  # nothing is flushed yet
            writer.flush(zlib.Z_SYNC_FLUSH),
            writer.compress(b'{"step": 2, "x"') + writer.flush(zlib.Z_SYNC_FLUSH),
            writer.compress(b": 3}\n") + writer.flush(),  # its end
            gzip.compress(b'{"step": 3, "x": 4}\n'),  # appended by another process
        ):
            log.write(piece)
            log.flush()
            steps.append([one.step for one in reader.checkpoints(file.poll())])
    assert steps == [[], [0, 1], [], [2], [3]]
    assert RunLog.read(path).panel("x").values.tolist() == [[1.0, 2.0, 3.0, 4.0]]


@pytest.mark.parametrize("name", ["a.parquet", "trainer_state.json", "events.out.tfevents.1"])
def test_a_format_without_lines_cannot_be_followed(name: str) -> None:
    message = f"{name}: a file of this format cannot be followed while it grows; write .jsonl or"
    with pytest.raises(InputError, match=message):
        GrowingRows(name, needs=["x"])


def test_a_name_that_says_nothing_is_taken_for_json_lines() -> None:
    rows = GrowingRows("train.log", needs=["x"])
    assert len(rows.checkpoints([LogLine(1, '{"step": 0, "x": 1}')])) == 1
    with pytest.raises(InputError, match=r"line 1 is not JSON: .*name a log of JSON lines, or a "):
        GrowingRows("train.log", needs=["x"]).checkpoints([LogLine(1, "epoch 1")])
