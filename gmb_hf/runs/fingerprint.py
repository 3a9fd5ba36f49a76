"""What a run log is known by: a hash of its content, not of the bytes of a file.

Each run is an item: its name, its number of rows, and of every column the SHA-256 of its float64
values. The log's hash is that of its items (`gmb_hf.fingerprints`), so that runs prove themselves
one by one: a log that only grew still holds every item of the older one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gmb_hf.fingerprints import ContentHash, item_hash
from gmb_hf.runs.columns import float_column, missing_column
from gmb_hf.validation import InputError, repeated


def content_hash(table: pa.Table) -> str:
    """SHA-256 (64 hex digits) of a table with `run`, `step` and columns of numbers.

    The rows of a run stand together, its steps rise.
    """
    runs = RunItems()
    for batch in table.to_batches():
        runs.add(batch)
    found = ContentHash()
    for digest in runs.finish():
        found.add_hash(digest)
    return found.hexdigest()


@dataclass
class _Run:
    """One run as far as it has been read."""

    name: str
    rows: int = 0
    columns: dict[str, Any] = field(default_factory=dict)  # name -> running SHA-256
    filled: set[str] = field(default_factory=set)


class RunItems:
    """Collects the items of a run log from batches of its rows, in constant memory for each run."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self._open: _Run | None = None

    def add(self, batch: pa.RecordBatch, *, where: str = "run log") -> None:
        """Take the next rows; a run may go on from one batch to the next.

        Raises:
            InputError: a column is named twice, `run` is not there or another column holds no
                numbers, or the rows of a run do not stand together.
        """
        if not batch.num_rows:
            return
        _check_columns(batch.schema, where)
        names = batch["run"]
        codes = np.asarray(pc.dictionary_encode(names).indices)
        starts = np.append(0, np.flatnonzero(np.diff(codes)) + 1)
        columns = {name: _canonical(batch[name]) for name in batch.schema.names if name != "run"}
        for start, stop in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            self._extend(names[int(start)].as_py(), columns, int(start), int(stop), where)

    def finish(self) -> Iterator[bytes]:
        """The items' hashes, 32 bytes each, when all rows have been taken."""
        self._close()
        yield from self._digests.values()

    def _extend(
        self, name: str, columns: dict[str, NDArray[np.float64]], start: int, stop: int, where: str
    ) -> None:
        if self._open is None or self._open.name != name:
            self._close()
            if name in self._digests:
                raise InputError(f"{where}: the rows of run {name!r} do not stand together")
            self._open = _Run(name)
        run = self._open
        for column, values in columns.items():
            part = values[start:stop]
            if column not in run.columns:
                run.columns[column] = hashlib.sha256()
            run.columns[column].update(part.tobytes())
            if not np.isnan(part).all():
                run.filled.add(column)
        run.rows += stop - start

    def _close(self) -> None:
        """A column in which the run has no value is not there: others may have brought it."""
        if self._open is None:
            return
        run, self._open = self._open, None
        columns = {name: run.columns[name].hexdigest() for name in run.filled}
        self._digests[run.name] = item_hash({"run": run.name, "rows": run.rows, "columns": columns})


def _check_columns(schema: pa.Schema, where: str) -> None:
    twice = repeated(schema.names)
    if twice is not None:
        raise InputError(f"{where}: column {twice!r} stands twice")
    if "run" not in schema.names:
        raise missing_column("run", schema.names, where)
    for column in schema:
        number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if column.name != "run" and not number:
            raise InputError(f"{where}: column {column.name!r} holds {column.type}, not numbers")


def _canonical(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """Float64 with one NaN and one zero, so that equal content has equal bytes.

    Steps and seeds go the same way: as float64 they are exact below 2**53.
    """
    values = float_column(pc.cast(column, pa.float64(), safe=False)) + 0.0
    return np.where(np.isnan(values), np.nan, values).astype("<f8")
