"""JSONL: one object {column: number} a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from gmb_hf.runs.raw import RawTable, Wanted
from gmb_hf.runs.readers.exports import adapt
from gmb_hf.validation import InputError


def read_jsonl(path: Path, wanted: Wanted) -> RawTable:
    """Read one JSONL file.

    Raises:
        InputError: a line is no JSON object; its number is given.
    """
    try:
        table = pajson.read_json(path)
        table.validate(full=True)  # the reader does not check that strings are UTF-8
    except pa.ArrowInvalid:
        # Arrow gives up on a column that changes its type; row by row the reason can be named.
        table = columns_of([item for _, item in _objects(path)])
    names = tuple(table.column_names)
    raw = RawTable(table, str(path), lambda row: f"line {_line_of(path, row)}", names)
    return adapt(raw, wanted)


def columns_of(items: Sequence[Mapping[str, Any]]) -> pa.Table:
    """A table of objects {column: value}, empty where an object lacks the column."""
    names = dict.fromkeys(name for item in items for name in item)
    return pa.table({name: _column([item.get(name) for item in items]) for name in names})


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


def _line_of(path: Path, row: int) -> int:
    return next(islice(_lines(path), row, None), (row + 1, ""))[0]


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(path):
        try:
            item = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}: line {number} is not JSON: {error}") from error
        if not isinstance(item, dict):
            raise InputError(f"{path}: line {number} is not a JSON object {{column: number}}")
        yield number, item


def _column(values: list[Any]) -> pa.Array:
    """Numbers as float64; a column with anything else as text, to be judged cell by cell."""
    values = [float(value) if isinstance(value, (int, float)) else value for value in values]
    if all(value is None or isinstance(value, float) for value in values):
        return pa.array(values, pa.float64())
    return pa.array(
        [
            value if value is None or isinstance(value, str) else json.dumps(value)
            for value in values
        ],
        pa.string(),
    )
