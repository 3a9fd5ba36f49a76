"""Only regular files are read, and only within limits: one line each, at once."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gmb_hf.base import files
from gmb_hf.base.documents import load_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.design.design import Design
from gmb_hf.monitor.follow import GrowingFile
from gmb_hf.runs import rows
from gmb_hf.runs.runlog import RunLog

KINDS = ("a.csv", "a.jsonl", "a.parquet", "trainer_state.json", "events.out.tfevents.1", "a.csv.gz")


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def device(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("make", "kind"), [(pipe, "a pipe"), (device, "a device")])
def test_a_log_is_a_regular_file(tmp_path: Path, name: str, make, kind: str):
    path = make(tmp_path / name)
    with pytest.raises(InputError, match=f"{name}: is {kind}, and only regular files are read"):
        RunLog.read(path)


@pytest.mark.parametrize("make", [pipe, device])
@pytest.mark.parametrize("read", [load_yaml, files.read_json, files.read_jsonl, Design.read])
def test_a_document_is_a_regular_file(tmp_path: Path, make, read):
    with pytest.raises(InputError, match="only regular files are read; save its content"):
        read(make(tmp_path / "a.yaml"))


def test_a_pipe_is_not_followed(tmp_path: Path):
    with GrowingFile(pipe(tmp_path / "a.jsonl")) as log, pytest.raises(InputError, match="a pipe"):
        log.poll()


def test_a_log_to_come_is_waited_for(tmp_path: Path):
    with GrowingFile(tmp_path / "a.jsonl") as log:
        assert log.poll() == []


def test_permissions_and_places(tmp_path: Path):
    with pytest.raises(InputError, match="there is no such file"):
        files.read_text(tmp_path / "a" / "b")
    with pytest.raises(InputError, match="this is a folder; name a file in it"):
        files.read_text(tmp_path)


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("a.yaml", 2**26 + 1, "a.yaml: is larger than 64 MB"),
        ("a.json", 2**28 + 1, "a.json: is larger than 256 MB"),
        ("a.csv", 2**33 + 1, "a.csv: is larger than 8,192 MB"),
        ("a.csv", 2**30, "a.csv: line 1 is longer than 16 MB, or this is no text"),
        ("a.jsonl", 2**30, "a.jsonl: line 1 is longer than 16 MB, or this is no text"),
    ],
)
def test_a_hole_of_zeros_is_not_held(tmp_path: Path, name: str, size: int, message: str):
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(size)
    read = {".yaml": load_yaml, ".json": files.read_json}.get(path.suffix, RunLog.read)
    with pytest.raises(InputError, match=message):
        read(path)


def test_a_line_of_jsonl_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n' + '{"a": ' + "1" * 100 + "}\n")
    monkeypatch.setattr(files, "_LONGEST_LINE", 64)
    with pytest.raises(InputError, match=r"a.jsonl:2: is longer than"):
        files.read_jsonl(path)


def test_rows_are_counted_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"step": pa.repeat(0, 10**6), "acc": pa.repeat(0.5, 10**6)}), path)
    monkeypatch.setattr(files, "MOST_CELLS", 10**6)
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("it was read"))
    message = r"a\.parquet: has 1,000,000 rows of 2 columns; 1,000,000 cells are the most"
    with pytest.raises(InputError, match=message):
        RunLog.read(path)


def test_cells_are_counted_in_every_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.csv"
    path.write_text("step,acc\n0,1\n1,2\n")
    assert RunLog.read(path).runs == ("a",)
    monkeypatch.setattr(files, "MOST_CELLS", 3)
    with pytest.raises(InputError, match=r"a.csv: has 2 rows of 2 columns; 3 cells are the most"):
        RunLog.read(path)


def test_columns_are_counted_before_they_are_read(tmp_path: Path):
    names = [f"c{number}" for number in range(files.MOST_COLUMNS)]
    wide = tmp_path / "a.csv"
    wide.write_text(",".join(["step", *names]) + "\n" + ",".join("0" * (len(names) + 1)) + "\n")
    lines = tmp_path / "a.jsonl"
    lines.write_text("".join(f'{{"step": 0, "c{n}": 1, "d{n}": 1}}\n' for n in range(10_000)))
    table = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: pa.array([0.0]) for name in ["step", *names]}), table)
    for path in (wide, lines, table):
        with pytest.raises(InputError, match="has 20,001 columns; 20,000 are the most"):
            RunLog.read(path)


def test_a_long_line_of_jsonl_is_read(tmp_path: Path):
    # Arrow, which parses a megabyte at once, does not come back from a longer line.
    path = tmp_path / "a.jsonl"
    text = "x" * 2**20
    path.write_text("".join(f'{{"step": {step}, "acc": 1, "note": "{text}"}}\n' for step in (0, 1)))
    assert RunLog.read(path).panel("acc").values.tolist() == [[1.0, 1.0]]


def test_a_gz_does_not_stand_for_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rows, "_MOST_TEXT", 2**20)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"step,acc\n" + b"0,1\n" * 2**21))
    with pytest.raises(InputError, match=r"a.csv.gz: decompresses to more than \d+ MB of text"):
        RunLog.read(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"null_draws": 10**12}, "x_null_draws must be less than or equal to 1000000"),
        ({"bootstrap_draws": 10**12}, "x_bootstrap_draws must be less than or equal to 100000"),
        ({"smoothing_sweep": (1, 10**9)}, r"x_smoothing_sweep\[1\] must be less than or equal to"),
        ({"run_groups": 10**9}, "x_run_groups must be less than or equal to 10000"),
        ({"looks": 10**9}, "x_looks must be less than or equal to 1000"),
        ({"horizon": 10**18}, "horizon_steps must be less than or equal to 1000000000000000"),
        ({"window_sweep": (9,) * 101}, "window_sweep"),
    ],
)
def test_a_design_has_limits(fields: dict, message: str):
    with pytest.raises(InputError, match=message) as caught:
        Design.minimal(**{"horizon": 200, "safe_gap": 10**15, **fields})
    assert "\n" not in str(caught.value)
