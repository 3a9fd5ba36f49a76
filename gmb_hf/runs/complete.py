"""Which rows of a log have a value in which columns; an empty cell is none, a logged NaN is one.

A training that logs its loss every 10 steps and its accuracy every 100 leaves empty cells. Nothing
is ever carried forward into them: a score would then stand at steps at which nobody measured it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gmb_hf.validation import InputError


def filled(table: pa.Table, columns: Sequence[str]) -> NDArray[np.bool_]:
    """Whether every one of the columns has a value in a row, bool [N]."""
    masks = [np.asarray(pc.is_valid(table[name]), dtype=bool) for name in columns]
    return np.logical_and.reduce(masks, axis=0) if masks else np.ones(table.num_rows, dtype=bool)


def bare_runs(rows: NDArray[np.bool_], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of the runs without a single row of `filled`; arguments as in `require_rows`."""
    return np.flatnonzero(np.add.reduceat(rows.astype(np.int64), starts) == 0)


def require_rows(
    rows: NDArray[np.bool_],
    starts: NDArray[np.int64],
    runs: Sequence[str],
    columns: Sequence[str],
    where: str,
) -> None:
    """Refuse a run without a single row in which the columns have a value.

    Args:
        rows: of `filled`, bool [N].
        starts: where each run's rows begin, [R].
        runs: R run names.
        columns: what was asked for.
        where: for the message.
    """
    bare = bare_runs(rows, starts)
    if not len(bare):
        return
    more = f" (and {len(bare) - 1} more)" if len(bare) > 1 else ""
    run = f"{runs[bare[0]]!r}{more}"
    if len(columns) == 1:
        raise InputError(
            f"{where}: column {columns[0]!r} has no value in run {run}; leave the run out or "
            "choose another column"
        )
    names = " and ".join(map(repr, columns))
    raise InputError(
        f"{where}: run {run} has no step at which {names} all have a value; log them at the same "
        "steps"
    )
