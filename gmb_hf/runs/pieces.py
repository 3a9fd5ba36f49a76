"""Rows of one step put together.

Trainers log in pieces: the training loss of a step in one row, its evaluation in the next. Rows
that follow one another and belong to one run and one step are one row in pieces where each holds a
column that the others lack, and no two hold different values of one column. Else the step was
logged again, which `order` deals with.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gmb_hf.runs.columns import float_column
from gmb_hf.runs.raw import KEYS, RUN, STEP


def join_pieces(table: pa.Table) -> pa.Table:
    """The table with the pieces of a row put together.

    Args:
        table: typed columns, its rows in the order in which they were logged.
    """
    start = _starts(table)
    if len(start) == table.num_rows:
        return table
    sizes = np.diff(np.append(start, table.num_rows))
    group = np.repeat(np.arange(len(start)), sizes)
    names = [name for name in table.column_names if name not in KEYS]
    clash = np.zeros(len(start), dtype=bool)
    adds = np.zeros(table.num_rows, dtype=bool)
    filled = {name: np.asarray(pc.is_valid(table[name]), dtype=bool) for name in names}
    for name, held in filled.items():
        values = float_column(table[name])
        low = np.minimum.reduceat(np.where(held, values, np.inf), start)
        high = np.maximum.reduceat(np.where(held, values, -np.inf), start)
        clash |= low < high
        adds |= held & (np.add.reduceat(held, start, dtype=np.int64)[group] == 1)
    joined = ~clash & (sizes > 1) & np.logical_and.reduceat(adds, start)
    if not joined.any():
        return table
    # A joined row stands where its last piece stood; each cell comes from the piece that has it.
    rows = np.arange(table.num_rows)
    last = np.append(start[1:], table.num_rows) - 1
    kept = rows[~joined[group] | (rows == last[group])]
    columns = {}
    for name in table.column_names:
        source = kept
        if name in filled:
            at = np.maximum.reduceat(np.where(filled[name], rows, -1), start)
            source = np.where(joined[group[kept]] & (at[group[kept]] >= 0), at[group[kept]], kept)
        columns[name] = table[name].take(pa.array(source))
    return pa.table(columns, metadata=table.schema.metadata)


def _starts(table: pa.Table) -> NDArray[np.int64]:
    """Where rows of another run or step than the row before begin."""
    step = np.asarray(table[STEP])
    codes = np.asarray(pc.dictionary_encode(table[RUN].combine_chunks()).indices)
    changes = (np.diff(step) != 0) | (np.diff(codes) != 0)
    return np.flatnonzero(np.append(True, changes)) if len(step) else np.zeros(0, dtype=np.int64)
