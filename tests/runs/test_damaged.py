"""A run log that is not as it was written is found when it is read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic import synthetic_runlog

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog


def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path: Path) -> None:
    values = {"loss": [[3.0, 2.0, 1.0]] * 2, "acc": [[0.1, 0.2, 0.9], [0.1, 0.1, 0.8]]}
    log = RunLog.from_arrays(["a", "b"], [0, 10, 20], values, seeds=[1, 2], metadata={"task": "t"})
    log.dropped_duplicates, path = {"b": 3}, tmp_path / "log.parquet"
    whole = log.write(path).read_bytes()
    found = tried = 0
    for at in range(5, len(whole), len(whole) // 150):
        tried += 1
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        try:
            read = RunLog.read(path)
        except InputError as error:
            found += str(error).startswith(f"{path}: ")
            continue
        # Statistics and the like, which nothing here is read from.
        assert read.table.equals(log.table)
        assert (read.metadata, read.dropped_duplicates) == (log.metadata, log.dropped_duplicates)
    assert found > tried / 2


def test_what_was_changed_since_is_refused_and_can_be_written_anew(tmp_path: Path) -> None:
    path = synthetic_runlog(2, 6).write(tmp_path / "log.parquet")
    table = pq.read_table(path)
    at = table.column_names.index("test_acc")
    changed = table.set_column(at, "test_acc", pa.array([0.5] * len(table)))
    pq.write_table(changed, path)
    match = r"the content is not what gmb wrote \(its hash differs\): damaged, or changed; copy it"
    with pytest.raises(InputError, match=match) as raised:
        RunLog.read(path)
    assert raised.value.code == "damaged"
    RunLog.from_table(changed).write(path)
    assert RunLog.read(path).panel("test_acc").values.max() == 0.5
    about = {**table.schema.metadata, b"gmb": b'{"task":"another"}'}
    pq.write_table(table.replace_schema_metadata(about), path)
    with pytest.raises(InputError, match=match):
        RunLog.read(path)


def test_a_page_is_checked_where_some_columns_are_read(tmp_path: Path) -> None:
    path = synthetic_runlog(2, 60).write(tmp_path / "log.parquet")
    with pq.ParquetFile(path) as file:
        place = file.schema_arrow.names.index("test_acc")
        chunk = file.metadata.row_group(0).column(place)
    whole = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    whole[start + chunk.total_compressed_size - 20] ^= 4
    path.write_bytes(whole)
    assert RunLog.read(path, columns=["train_acc"]).observables == ("train_acc",)
    with pytest.raises(InputError, match=r"or a truncated or damaged one: .*copy it again"):
        RunLog.read(path, columns=["test_acc"])
