"""What a run log is known by: a hash of its content, not of the bytes of a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gmb_hf.runs.columns import float_column


def content_hash(table: pa.Table, runs: Sequence[str], lengths: NDArray[np.int64]) -> str:
    """SHA-256 (64 hex digits) over one run after another, columns by name.

    Args:
        table: `run`, `step` and columns of numbers, its rows run by run.
        runs: R run names, in the order of the rows.
        lengths: rows of each run, [R].
    """
    names = sorted(name for name in table.column_names if name != "run")
    columns = [_canonical(table[name]) for name in names]
    digest = hashlib.sha256(json.dumps(names).encode())
    stops = np.cumsum(lengths)
    for run, start, stop in zip(runs, stops - lengths, stops, strict=True):
        digest.update(json.dumps([run, int(stop - start)]).encode())
        for column in columns:
            digest.update(column[start:stop].tobytes())
    return digest.hexdigest()


def _canonical(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Float64 with one NaN and one zero, so that equal content has equal bytes.

    Steps and seeds go the same way: as float64 they are exact below 2**53.
    """
    values = float_column(pc.cast(column, pa.float64(), safe=False)) + 0.0
    return np.where(np.isnan(values), np.nan, values).astype("<f8")
