"""CSV: fast by Arrow; where a cell or a line is wrong, again for its place.

Speed and clear errors pull apart: Arrow reads a million rows in half a second and says little about
a bad cell. So a file is read fast first, and only a file that fails is read again for its line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv

from gmb_hf.runs.raw import SEED, RawTable, Wanted, find_step
from gmb_hf.runs.readers.exports import adapt, is_export
from gmb_hf.validation import InputError


def read_csv(path: Path, wanted: Wanted) -> RawTable:
    """Read one CSV file.

    Raises:
        InputError: no header, or a line with too few or too many cells; its number is given.
    """
    header = next(_rows(path), (0, []))[1]
    if not header:
        raise InputError(f"{path}: no header; the first line of a CSV names its columns")
    _refuse_other_separator(path, header)
    # A table that was written with its index begins with a column that has no name.
    names = header[1:] if not header[0] else header
    kept = names if is_export(names) else wanted.keeps(names, str(path))
    whole = {find_step(names, wanted.step, str(path)), SEED}
    kinds = {
        name: pa.string() if name == wanted.run else pa.int64() if name in whole else pa.float64()
        for name in kept
    }
    try:
        table = _parse(path, header, kept, kinds)
    except pa.ArrowInvalid:
        # Some cell is no number: take the cells as text and let the columns be told apart.
        try:
            table = _parse(path, header, kept, dict.fromkeys(kept, pa.string()))
        except pa.ArrowInvalid as error:
            raise _fault(path, len(header), error) from error
    raw = RawTable(table, str(path), lambda row: f"line {_line_of(path, row)}", tuple(names))
    return adapt(raw, wanted)


def _parse(
    path: Path, header: list[str], kept: list[str], kinds: dict[str, pa.DataType]
) -> pa.Table:
    return pacsv.read_csv(
        path,
        read_options=pacsv.ReadOptions(column_names=header, skip_rows_after_names=1),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types=kinds,
            # An empty list would mean all columns, not none.
            include_columns=kept or header[:1],
            null_values=[""],
            strings_can_be_null=False,
        ),
    )


def _refuse_other_separator(path: Path, header: list[str]) -> None:
    """A header that is one name with semicolons or tabs in it was written with those."""
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            raise InputError(
                f"{path}: columns are separated by {name}; separate them by commas, and write "
                "numbers with a decimal point"
            )


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank as (number of its first line, cells), the header first.

    The first: a quote that is never closed takes all lines that follow into its cell.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader, begins = csv.reader(file), 1
        try:
            for cells in reader:
                if cells:
                    yield begins, [cell.strip() for cell in cells]
                begins = reader.line_num + 1
        except csv.Error as error:
            raise InputError(f"{path}: line {reader.line_num}: {error}") from error


def _line_of(path: Path, row: int) -> int:
    return next(islice(_rows(path), row + 1, None), (row + 2, []))[0]


def _fault(path: Path, width: int, error: pa.ArrowInvalid) -> InputError:
    for line, cells in _rows(path):
        if len(cells) != width:
            return InputError(
                f"{path}: line {line} has {len(cells)} cells where the header has {width}; "
                "complete or delete the line (a log that was cut short ends so)"
            )
    return InputError(f"{path}: not a CSV file: {error}")
