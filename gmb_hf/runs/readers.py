"""One run log file, of whatever format, as a table. What its columns mean is decided elsewhere.

Speed and clear errors pull apart: Arrow reads a million rows in half a second and says little about
a bad cell. So a file is read fast first, and only a file that fails is read again for its line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from gmb_hf.runs.columns import KEYS, RawTable
from gmb_hf.validation import InputError


def read_file(
    path: Path,
    *,
    step_column: str = "step",
    run_column: str = "run",
    columns: Sequence[str] | None = None,
) -> RawTable:
    """Read one Parquet, CSV or JSONL file; of a wide one only what `columns` and the keys need.

    Raises:
        InputError: the file is empty, unreadable, not UTF-8, or not of the format its ending says.
    """
    try:
        if not path.stat().st_size:
            raise InputError(f"{path}: the file is empty; is the training still starting?")
        keep = None if columns is None else {step_column, run_column, *KEYS, *columns}
        suffix = path.suffix.lower()
        if suffix == ".parquet":
            return _read_parquet(path, keep)
        if suffix == ".csv":
            return _read_csv(path, keep, text={run_column}, whole={step_column, "seed"})
        return _read_jsonl(path)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; save the file as UTF-8") from error
    except OSError as error:
        raise InputError(f"{path}: could not be read: {error.strerror or error}") from error


def _read_parquet(path: Path, keep: set[str] | None) -> RawTable:
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            wanted = names if keep is None else [name for name in names if name in keep]
            table = file.read(columns=wanted)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not a Parquet file, or a truncated one: {error}") from error
    return RawTable(table, str(path), lambda row: f"row {row + 1}", tuple(names))


def _read_csv(path: Path, keep: set[str] | None, *, text: set[str], whole: set[str]) -> RawTable:
    names = next(_csv_rows(path), (0, []))[1]
    if not names:
        raise InputError(f"{path}: no header; the first line of a CSV names its columns")
    wanted = names if keep is None else [name for name in names if name in keep]
    kinds = {
        name: pa.string() if name in text else pa.int64() if name in whole else pa.float64()
        for name in wanted
    }
    try:
        table = _parse_csv(path, names, wanted, kinds)
    except pa.ArrowInvalid:
        # Some cell is no number: take the cells as text and let the columns be told apart.
        try:
            table = _parse_csv(path, names, wanted, dict.fromkeys(wanted, pa.string()))
        except pa.ArrowInvalid as error:
            raise _csv_fault(path, len(names), error) from error
    return RawTable(table, str(path), lambda row: f"line {_csv_line(path, row)}", tuple(names))


def _parse_csv(
    path: Path, names: list[str], wanted: list[str], kinds: dict[str, pa.DataType]
) -> pa.Table:
    return pacsv.read_csv(
        path,
        read_options=pacsv.ReadOptions(column_names=names, skip_rows_after_names=1),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types=kinds,
            # An empty list would mean all columns, not none.
            include_columns=wanted or names[:1],
            null_values=[""],
            strings_can_be_null=False,
        ),
    )


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank as (line number of its end, cells), the header first."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, [cell.strip() for cell in cells]
        except csv.Error as error:
            raise InputError(f"{path}: line {reader.line_num}: {error}") from error


def _csv_line(path: Path, row: int) -> int:
    return next(islice(_csv_rows(path), row + 1, None), (row + 2, []))[0]


def _csv_fault(path: Path, width: int, error: pa.ArrowInvalid) -> InputError:
    for line, cells in _csv_rows(path):
        if len(cells) != width:
            return InputError(
                f"{path}: line {line} has {len(cells)} cells where the header has {width}; "
                "complete or delete the line (a log that was cut short ends so)"
            )
    return InputError(f"{path}: not a CSV file: {error}")


def _read_jsonl(path: Path) -> RawTable:
    try:
        table = pajson.read_json(path)
        table.validate(full=True)  # the reader does not check that strings are UTF-8
    except pa.ArrowInvalid:
        # Arrow gives up on a column that changes its type; row by row the reason can be named.
        table = _parse_jsonl(path)
    names = tuple(table.column_names)
    return RawTable(table, str(path), lambda row: f"line {_json_line(path, row)}", names)


def _json_lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


def _json_line(path: Path, row: int) -> int:
    return next(islice(_json_lines(path), row, None), (row + 1, ""))[0]


def _parse_jsonl(path: Path) -> pa.Table:
    columns: dict[str, list[Any]] = {}
    for count, (number, line) in enumerate(_json_lines(path)):
        try:
            item = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}: line {number} is not JSON: {error}") from error
        if not isinstance(item, dict):
            raise InputError(f"{path}: line {number} is not a JSON object {{column: number}}")
        for name in item.keys() - columns.keys():
            columns[name] = [None] * count
        for name, values in columns.items():
            values.append(item.get(name))
    return pa.table({name: _json_column(values) for name, values in columns.items()})


def _json_column(values: list[Any]) -> pa.Array:
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
