"""The order of a run log's rows: runs by name, steps within a run, and what a restart repeats.

A training that was restarted logs some steps again. The rule that tells this from a mistake: read
in the order of the file, every row's step is either **larger than all steps before it** in its run,
or **one that its run has already logged**. The last row of a repeated step is the one that belongs
to the training that went on, so it is kept and the earlier ones are dropped and counted. A step
that is new but smaller than one before it is no repetition: the rows are out of order, or two runs
share a name, and that is an error.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gmb_hf.validation import InputError

OnDuplicate = Literal["last", "keep", "sort"]


@dataclasses.dataclass(frozen=True)
class RowOrder:
    """Which rows of a table make the log, and in what order.

    Attributes:
        runs: R run names in natural order (seed_2 before seed_10).
        rows: row numbers run by run, or None when they are all rows as they stand.
        lengths: rows of each run, int64 [R].
        dropped: run name to the number of its rows that a later row of the same step replaced.
    """

    runs: tuple[str, ...]
    rows: NDArray[np.int64] | None
    lengths: NDArray[np.int64]
    dropped: dict[str, int]


def natural_key(name: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """Sort key under which digits compare as numbers: seed_2 comes before seed_10."""
    parts = re.split(r"([0-9]+)", name)
    ascii_digits = [part.isascii() and part.isdigit() for part in parts]
    key = [(0, int(p), "") if d else (1, 0, p) for p, d in zip(parts, ascii_digits, strict=True)]
    return tuple(key), name


def order_rows(
    codes: NDArray[np.int64],
    names: Sequence[str],
    steps: NDArray[np.int64],
    *,
    on_duplicate: OnDuplicate = "last",
    where: str = "run log",
) -> RowOrder:
    """Order rows by run and step under the rule above.

    Args:
        codes: int64 [N], the run of each row as an index into `names`.
        names: distinct run names, each of which has a row.
        steps: int64 [N].
        on_duplicate: "last" keeps the last row of a repeated step; "keep" keeps all of them, in a
            stable order; "sort" keeps all and does not ask whether steps went backwards, for
            protocols that were published that way.
        where: file or source, put before the message.

    Raises:
        InputError: a step goes backwards; the run and the step are named.
    """
    by_name = sorted(range(len(names)), key=lambda i: natural_key(names[i]))
    rank = np.empty(len(names), dtype=np.int64)
    rank[by_name] = np.arange(len(names))
    ranks = rank[codes]
    rows: NDArray[np.int64] | None = None
    if (np.diff(ranks) < 0).any():
        rows = np.argsort(ranks, kind="stable")
        steps = steps[rows]
    runs = tuple(names[i] for i in by_name)
    lengths = np.bincount(ranks, minlength=len(names)).astype(np.int64)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    back = np.flatnonzero(np.diff(steps) <= 0) + 1
    back = back[~np.isin(back, starts)]
    if not len(back):
        return RowOrder(runs, rows, lengths, {})

    kept = np.ones(len(steps), dtype=bool)
    moved = np.arange(len(steps)) if rows is None else rows
    dropped = {}
    for run in np.unique(np.searchsorted(ends, back, side="right")):
        part = slice(starts[run], ends[run])
        if on_duplicate != "sort":
            _refuse_backwards(steps[part], f"{where}: run {runs[run]!r}")
        stable = np.argsort(steps[part], kind="stable")
        moved[part] = moved[part][stable]
        if on_duplicate == "last":
            again = np.diff(steps[part][stable]) == 0
            kept[part][:-1] = ~again
            if again.any():
                dropped[runs[run]] = int(again.sum())
    lengths = np.add.reduceat(kept, starts, dtype=np.int64)
    return RowOrder(runs, moved[kept], lengths, dropped)


def _refuse_backwards(steps: NDArray[np.int64], where: str) -> None:
    """Check that no row of one run is out of order."""
    highest = np.maximum.accumulate(steps)
    _, first = np.unique(steps, return_index=True)
    wrong = np.sort(first[steps[first] < highest[first]])
    if len(wrong):
        row = wrong[0]
        raise InputError(
            f"{where}: step {steps[row]} comes after step {highest[row]} and was not logged "
            "before it; sort the rows by step (a restarted log may repeat steps, not go back to "
            "new ones), or give each run its own name"
        )
