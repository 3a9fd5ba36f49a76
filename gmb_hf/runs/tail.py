"""The end of each run's log, as it was written."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gmb_hf.runs.raw import RawTable


def keep_last_rows(raw: RawTable, count: int, *, run_column: str = "run") -> RawTable:
    """The last `count` rows of each run, in the order of the file.

    It comes before any sorting by step: a restarted training appends to its log, so that the end
    of the file is the training that went through.

    Args:
        raw: one file as read.
        count: at least 1; a run with fewer rows keeps all of them.
        run_column: what tells runs apart; without it the file is one run.
    """
    n = raw.table.num_rows
    if run_column in raw.table.column_names:
        encoded = pc.dictionary_encode(raw.table[run_column].combine_chunks())
        run = np.asarray(pc.fill_null(encoded.indices, -1), dtype=np.int64)
    else:
        run = np.zeros(n, dtype=np.int64)
    by_run = np.argsort(run, kind="stable")
    ends = np.searchsorted(run[by_run], run[by_run], side="right")
    rows = np.sort(by_run[ends - np.arange(n) <= count])
    return dataclasses.replace(
        raw,
        table=raw.table.take(pa.array(rows)),
        place=lambda row: raw.place(int(rows[row])),
    )
