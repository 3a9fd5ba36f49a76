"""From whatever a file held to the typed columns of a run log.

A run log has `run` (string), `step` (int64) and, where known, `seed` (int64); every other column is
an observable, one float64 a row. A column that is no series of numbers at all (host names, time
stamps, lists) is set aside with the reason, and is an error only when somebody asks for it. A
column of numbers with a wrong cell in it is an error at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gmb_hf.runs.raw import KEYS, RUN, RawTable, Wanted, find_step
from gmb_hf.validation import InputError, nearest

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
