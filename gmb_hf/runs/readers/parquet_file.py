"""Parquet: of a wide file only the columns that are wanted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gmb_hf.runs.raw import RawTable, Wanted
from gmb_hf.runs.readers.exports import adapt, is_export
from gmb_hf.validation import InputError


def read_parquet(path: Path, wanted: Wanted) -> RawTable:
    """Read one Parquet file.

    Raises:
        InputError: it is no Parquet file, or only the beginning of one.
    """
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            kept = names if is_export(names) else wanted.keeps(names, str(path))
            # A column that stands twice cannot be asked for by its name; it is refused later.
            twice = len(set(names)) != len(names)
            table = pa.table({}) if twice else file.read(columns=kept)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not a Parquet file, or a truncated one: {error}") from error
    raw = RawTable(table, str(path), lambda row: f"row {row + 1}", tuple(names))
    return adapt(raw, wanted)
