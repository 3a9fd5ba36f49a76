"""From whatever a file held to the typed columns of a run log.

A run log has `run` (string), `step` (int64) and, where known, `seed` (int64); every other column is
an observable, one float64 a row. A column that is no series of numbers at all (host names, time
stamps, lists) is set aside with the reason, and is an error only when somebody asks for it. A
column of numbers with a wrong cell in it is an error at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import pyarrow as pa
from gmb_hf.errors import InputError
import difflib
import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from gmb_hf.errors import nearest
import re
from typing import Literal
from typing import Any
from numpy.typing import ArrayLike


STEP = "step"
RUN = "run"
SEED = "seed"
KEYS = (RUN, STEP, SEED)

STEP_NAMES = ("global_step", "_step", "Step", "train/global_step", "trainer/global_step")
"""What loggers call a step, where they do not call it `step`."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What is to be read of a file.

    Attributes:
        step: the column of steps; `step`, where the file has none, stands for the one column that
            has another known name of it.
        run: the column that tells runs apart.
        columns: the observables; None for every column of numbers.
    """

    step: str = STEP
    run: str = RUN
    columns: tuple[str, ...] | None = None

    def keeps(self, names: Sequence[str], where: str) -> list[str]:
        """Those of a file's columns that must be read."""
        if self.columns is None:
            return list(names)
        keys = {find_step(names, self.step, where), self.run, *KEYS}
        return [name for name in names if name in keys or name in self.columns]


@dataclasses.dataclass(frozen=True)
class RawTable:
    """A file as read, before its columns are understood.

    Attributes:
        table: any columns; text where the file's numbers could not be read as numbers.
        where: the file, for messages.
        place: the spot of a row number in the file, e.g. "line 17".
        names: every column of the file, those that were not read included.
        aside: column -> why it is no observable, where the reader knows.
        notes: what a user should know of how the file was read, a sentence each.
        chart: whether it holds some columns of its runs, and other files may hold others.
    """

    table: pa.Table
    where: str
    place: Callable[[int], str]
    names: tuple[str, ...]
    aside: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    chart: bool = False


def find_step(names: Sequence[str], asked: str, where: str) -> str:
    """The column of steps: the one asked for, or for `step` the only one of `STEP_NAMES`.

    Where there is none, the answer is what was asked for, which is then found missing.

    Raises:
        InputError: several columns have a name that steps go by.
    """
    if asked in names or asked != STEP:
        return asked
    known = [name for name in STEP_NAMES if name in names]
    if len(known) > 1:
        raise InputError(
            f"{where}: {' and '.join(map(repr, known))} may all be the steps; say which, e.g. "
            f"--step-column {known[-1]}"
        )
    return known[0] if known else asked


_EMPTY = pa.array(["", "NA", "N/A", "n/a", "null", "NULL", "None"])
_LARGEST = 2**53  # whole numbers are exact in float64 up to here
_NUMBER = r"(?i)^[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf(inity)?)$"


def typed_columns(
    raw: RawTable, wanted: Wanted, *, run_name: str | None = None
) -> tuple[pa.Table, dict[str, str]]:
    """Return the table with typed columns run, step, [seed], observables, and what was set aside.

    Args:
        raw: the file.
        wanted: its keys, and the observables to take.
        run_name: the name of the one run of a file that has no `run` column.

    Returns:
        The table, and column name -> reason for each column that holds no numbers.

    Raises:
        InputError: no rows, a missing or repeated column, a wrong cell (its place is named), a step
            that is empty, negative or fractional, a run without a name.
    """
    table = raw.table
    names = raw.names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{raw.where}: column {twice!r} stands twice in the header")
    step = find_step(names, wanted.step, raw.where)
    needed = [step, *(wanted.columns or ())]
    if wanted.run in names or wanted.run != RUN or run_name is None:
        needed.append(wanted.run)
    for column in needed:
        if column in raw.aside:
            raise InputError(raw.aside[column])
        if column not in names:
            raise missing_column(column, names, raw.where)
    if not table.num_rows:
        raise InputError(f"{raw.where}: no rows below the header; is the training still starting?")

    typed = {
        "run": _runs(raw, wanted.run, run_name),
        "step": _whole_numbers(raw, step, required=True),
    }
    if "seed" in names:
        typed["seed"] = _whole_numbers(raw, "seed", required=False)
    aside = dict(raw.aside)
    taken = {step, wanted.run, *KEYS, *aside}
    for name in names if wanted.columns is None else wanted.columns:
        if name in taken:
            continue
        column, reason = _numbers(raw, name)
        if reason is None:
            typed[name] = column
        elif wanted.columns is not None:
            raise InputError(reason)
        else:
            aside[name] = reason
    return pa.table(typed), aside


def missing_column(column: str, known: Sequence[str], where: str) -> InputError:
    """The error for a column that is not there; names what is, and the nearest."""
    guess = nearest(column, known)
    hint = f". Did you mean {guess!r}?" if guess else ""
    found = listing(column, known) or "none"
    return InputError(f"{where}: column {column!r} missing; found: {found}{hint}")


def listing(column: str, known: Sequence[str], most: int = 40) -> str:
    """The columns there are; of many the `most` that are most like `column`, the nearest first."""
    if len(known) <= most:
        return ", ".join(known)
    near = sorted(known, key=_unlike(column))[:most]
    return ", ".join(near) + f", ... ({len(known) - most} more)"


def check_seeds(
    table: pa.Table, codes: NDArray[np.int64], names: Sequence[str], where: str
) -> None:
    """Refuse a run with two seeds: it is several runs under one name.

    Args:
        table: typed columns.
        codes: the run of each row as an index into `names`, int64 [N].
        names: distinct run names.
        where: file or source, put before the message.
    """
    if "seed" not in table.column_names:
        return
    seeds = float_column(pc.cast(table["seed"], pa.float64(), safe=False))
    first = np.empty(len(names))
    first[codes[::-1]] = seeds[::-1]
    same = (seeds == first[codes]) | (np.isnan(seeds) & np.isnan(first[codes]))
    if not same.all():
        row = int(np.argmin(same))
        raise InputError(
            f"{where}: run {names[codes[row]]!r} has the seeds {first[codes[row]]:g} and "
            f"{seeds[row]:g}; name the runs apart, or read with run_column='seed'"
        )


def float_column(column: pa.ChunkedArray | pa.Array) -> NDArray[np.float64]:
    """A float64 column as an array, with NaN where it has no value."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values: NDArray[np.float64] = flat.to_numpy(zero_copy_only=False)
    return values.astype(np.float64, copy=False)


def _unlike(column: str) -> Callable[[str], float]:
    matcher = difflib.SequenceMatcher(b=column.casefold())

    def distance(name: str) -> float:
        matcher.set_seq1(name.casefold())
        return -matcher.ratio()

    return distance


def _runs(raw: RawTable, run_column: str, run_name: str | None) -> pa.ChunkedArray:
    if run_column not in raw.table.column_names:
        return pa.chunked_array([pa.repeat(pa.scalar(run_name, pa.string()), raw.table.num_rows)])
    column = raw.table[run_column]
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
        raise InputError(
            f"{raw.where}: column {run_column!r} holds {column.type}; a run is named by text or "
            "by a whole number"
        )
    text = pc.cast(column, pa.string())
    empty = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(text), ""), True)
    if pc.any(empty).as_py():
        row = pc.index(empty, True).as_py()
        raise InputError(f"{raw.where}: {raw.place(row)}: column {run_column!r} is empty")
    return text


def _whole_numbers(raw: RawTable, name: str, *, required: bool) -> pa.ChunkedArray:
    """Column `name` as int64; every cell a whole number from 0 on, empty only if not required."""
    column = raw.table[name]
    if not pa.types.is_integer(column.type):
        column, reason = _numbers(raw, name)
        if reason is not None:
            raise InputError(reason)
        values = float_column(column)
        empty = np.isnan(values)
        with np.errstate(invalid="ignore"):
            wrong = ~empty & ((np.floor(values) != values) | (values > _LARGEST))
    else:
        empty = np.asarray(pc.is_null(column))
        values = np.asarray(pc.fill_null(column, 0))
        wrong = np.zeros(len(values), dtype=bool)
    wrong |= ~empty & (values < 0) & (name != "seed")
    if required:
        wrong |= empty
    if wrong.any():
        row = int(wrong.argmax())
        shown = "empty" if empty[row] else f"{values[row]:g}"
        large = " and below 2^53" if not empty[row] and values[row] > _LARGEST else ""
        raise InputError(
            f"{raw.where}: {raw.place(row)}: column {name!r} is {shown}; it must be a whole "
            f"number from 0 on{large}"
        )
    return pa.chunked_array([pa.array(np.where(empty, 0, values).astype(np.int64), mask=empty)])


def _numbers(raw: RawTable, name: str) -> tuple[pa.ChunkedArray, str | None]:
    """Column `name` as float64, or the reason why it is no column of numbers.

    Raises:
        InputError: most cells are numbers and one is not; its place is named.
    """
    column = raw.table[name]
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _numbers_from_text(raw, name, column)
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.uint8())
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        reason = f"{raw.where}: column {name!r} holds {kind}; a run log has one number per row"
        return column, reason
    # Whole numbers beyond 2**53 are rounded: an observable is a measurement, not a key.
    return pc.cast(column, pa.float64(), safe=False), None


def _numbers_from_text(
    raw: RawTable, name: str, column: pa.ChunkedArray
) -> tuple[pa.ChunkedArray, str | None]:
    text = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
    text = pc.if_else(pc.is_in(text, value_set=_EMPTY), pa.scalar(None, pa.string()), text)
    text = pc.utf8_ltrim(text, characters="+")
    numeric = pc.match_substring_regex(text, _NUMBER)
    wrong = pc.fill_null(pc.invert(numeric), False)
    n_wrong = pc.sum(wrong).as_py() or 0
    if not n_wrong:
        return pc.cast(text, pa.float64()), None
    row = pc.index(wrong, True).as_py()
    reason = (
        f"{raw.where}: {raw.place(row)}: column {name!r} holds {text[row].as_py()[:40]!r}, "
        "not a number"
    )
    if 2 * n_wrong > len(text) - text.null_count:
        return column, reason
    raise InputError(f"{reason}; correct or empty this cell")


# The order of a run log's rows: runs by name, steps within a run, and what a restart repeats.


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


# Equally long runs, given as arrays, as a table.


def rectangle(
    runs: Sequence[str],
    steps: ArrayLike,
    observables: Mapping[str, ArrayLike],
    seeds: Sequence[int] | None = None,
) -> pa.Table:
    """One row per run and step, run by run.

    Args:
        runs: R run names.
        steps: whole numbers, [T] (the same for all) or [R, T].
        observables: name -> values [R, T].
        seeds: R whole numbers, or None.

    Raises:
        InputError: a shape that differs.
    """
    grid = np.atleast_1d(np.asarray(steps))
    shape = (len(runs), grid.shape[-1])
    data: dict[str, Any] = {
        "run": np.repeat(np.asarray(runs, dtype=object), shape[1]),
        "step": np.broadcast_to(grid, shape).ravel(),
    }
    if seeds is not None:
        data["seed"] = np.repeat(np.asarray(seeds), shape[1])
    for name, values in observables.items():
        array = np.asarray(values, dtype=np.float64)
        if array.shape != shape:
            raise InputError(f"observable {name!r} has shape {array.shape}, expected {shape}")
        data[name] = array.ravel()
    return pa.table(data)


# Which rows of a log have a value in which columns; an empty cell is none, a logged NaN is one.


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
