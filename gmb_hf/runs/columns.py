"""From whatever a file held to the typed columns of a run log.

A run log has `run` (string), `step` (int64) and, where known, `seed` (int64); every other column is
an observable, one float64 a row. A column that is no series of numbers at all (host names, time
stamps, lists) is set aside with the reason, and is an error only when somebody asks for it. A
column of numbers with a wrong cell in it is an error at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError, nearest, repeated

STEP = "step"
RUN = "run"
SEED = "seed"
KEYS = (RUN, STEP, SEED)

STEP_NAMES = ("global_step", "_step", "Step", "train/global_step", "trainer/global_step")
"""What loggers call a step, where they do not call it `step`."""

RUN_NAMES = (
    *("run_name", "run_id", "Run", "Name", "experiment", "experiment_name"),
    *("trial_id", "run_uuid"),
)
"""What loggers call the column that names a row's run, where they do not call it `run`."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What is to be read of a file: its columns of steps and of runs, and the observables.

    `step` and `run`, where the file has none, stand for the one column that has another known name
    of it; without `columns` every column of numbers is an observable.
    """

    step: str = STEP
    run: str = RUN
    columns: tuple[str, ...] | None = None

    def keeps(self, names: Sequence[str], where: str) -> list[str]:
        """Those of a file's columns that must be read."""
        if self.columns is None:
            return list(names)
        keys = {find_step(names, self.step, where), self.run, *KEYS}
        if self.run == RUN and RUN not in names:
            keys |= {*RUN_NAMES}
        return [name for name in names if name in keys or name in self.columns]


@dataclasses.dataclass(frozen=True)
class RawTable:
    """A file as read, before its columns are understood.

    Attributes:
        table: any columns; text where the file's numbers could not be read as numbers.
        where: the file, for messages.
        place: where a row number is in the file, e.g. "line 17".
        names: every column of the file, those that were not read included; the table's by default.
        aside: column -> why it is no observable, where the reader knows.
        notes: what a user should know of how the file was read, a sentence each.
        chart: whether it holds some columns of its runs, and other files may hold others.
        growing: whether more rows are to come, so that nothing is said of a column as a whole.
        reread: reads all columns of the same rows, where `table` has some of them.
    """

    table: pa.Table
    where: str
    place: Callable[[int], str] = lambda row: f"row {row + 1}"
    names: tuple[str, ...] = ()
    aside: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    chart: bool = False
    growing: bool = False
    reread: Callable[[], RawTable] | None = None

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", tuple(self.table.column_names))

    def whole(self) -> pa.Table:
        """All columns of the file, those included that were not asked for."""
        return self.table if self.reread is None else self.reread().table

    def error(self, code: str, what: str, *, row: int | None = None, **at: str) -> InputError:
        """The error for a fault in this file, in a row of it where one is given."""
        place = None if row is None else self.place(row)
        what = what if place is None else f"{place}: {what}"
        return InputError.at(self.where, code, what, place=place, **at)

    def not_numbers(self, column: str, reason: str) -> InputError:
        """The error for a column that is wanted and holds no numbers."""
        return InputError(reason, code="not_numbers", where=self.where, column=column)


def set_aside_broken_text(raw: RawTable) -> RawTable:
    """The table without its columns of text that is no UTF-8, which are set aside."""
    broken = {}
    for name, column in zip(raw.table.column_names, raw.table.columns, strict=True):
        try:
            if not pa.types.is_primitive(column.type):
                column.validate(full=True)
        except pa.ArrowInvalid:
            what = "holds text that is not UTF-8; write it as UTF-8"
            broken[name] = f"{raw.where}: column {name!r} {what}"
    if not broken:
        return raw
    table = raw.table.select([name for name in raw.table.column_names if name not in broken])
    return dataclasses.replace(raw, table=table, aside={**raw.aside, **broken})


def find_step(names: Sequence[str], wanted: str, where: str) -> str:
    """The column of steps: the one wanted, or for `step` the only one of `STEP_NAMES`.

    Where there is none, it is the one wanted, which is then found missing.

    Raises:
        InputError: several columns have a name that steps go by.
    """
    if wanted in names or wanted != STEP:
        return wanted
    known = [name for name in STEP_NAMES if name in names]
    if len(known) > 1:
        what = f"{' and '.join(map(repr, known))} may all be the steps"
        hint = f"say which, e.g. --step-column {known[-1]}"
        raise InputError.at(where, "several_step_columns", f"{what}; {hint}")
    return known[0] if known else wanted


def find_run(raw: RawTable, wanted: str) -> str:
    """The column that names the runs: the one wanted, or for `run` the one of `RUN_NAMES`.

    Only a column that has several names in it tells runs apart; of several that tell the same runs
    apart it is the first. Where there is none, it is the one wanted.

    Raises:
        InputError: columns that tell different runs apart have names that runs go by.
    """
    if wanted in raw.names or wanted != RUN:
        return wanted
    table, codes = raw.table, {}
    for name in RUN_NAMES:
        found = _identifiers(table[name]) if name in table.column_names else None
        if found is not None and found.max(initial=0) > 0:
            codes[name] = found
    several = list(codes)
    if len(several) > 1:
        together = _joint(list(codes.values())).max()
        if any(found.max() < together for found in codes.values()):
            finest = max(several, key=lambda name: codes[name].max())
            what = f"{' and '.join(map(repr, several))} may all name the runs"
            hint = f"say which does, e.g. --run-column {finest}"
            raise raw.error("several_run_columns", f"{what}; {hint}")
    return several[0] if several else wanted


# No array before it is asked for: the first one that Arrow makes imports pandas, a second's work.
_EMPTY = ("", "NA", "N/A", "n/a", "null", "NULL", "None")
_LARGEST = 2**53  # whole numbers are exact in float64 up to here
_NUMBER = r"(?i)^[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf(inity)?)$"


def typed_columns(
    raw: RawTable, wanted: Wanted, *, run_name: str | None = None
) -> tuple[pa.Table, dict[str, str]]:
    """The table with typed columns run, step, [seed], observables; and what was set aside, and why.

    `run_name` is that of the one run of a file that has no `run` column.

    Raises:
        InputError: no rows, a missing or repeated column, a wrong cell (its place is named), a step
            that is empty, negative or fractional, a run without a name.
    """
    names = raw.names
    if (twice := repeated(names)) is not None:
        what = f"column {twice!r} stands twice in the header"
        raise raw.error("repeated_column", what, column=twice)
    step = find_step(names, wanted.step, raw.where)
    needed = [step, *(wanted.columns or ())]
    if wanted.run in names or wanted.run != RUN or run_name is None:
        needed.append(wanted.run)
    needed += [SEED] if SEED in names else []
    for column in needed:
        if column in raw.aside:
            raise raw.not_numbers(column, raw.aside[column])
        if column not in names:
            remedy = _of_steps(names) if column == step == STEP else ""
            raise missing_column(column, names, raw.where, remedy=remedy)
    if not raw.table.num_rows:
        raise raw.error("no_rows", "no rows below the header; is the training still starting?")

    typed = {RUN: _runs(raw, wanted.run, run_name), STEP: _whole_numbers(raw, step, required=True)}
    if SEED in names:
        typed[SEED] = _whole_numbers(raw, SEED, required=False)
    aside = dict(raw.aside)
    taken = {step, wanted.run, *KEYS, *aside}
    for name in names if wanted.columns is None else wanted.columns:
        if name in taken:
            continue
        column, reason = _numbers(raw, name)
        if reason is None:
            typed[name] = column
        elif wanted.columns is not None:
            raise raw.not_numbers(name, reason)
        else:
            aside[name] = reason
    return pa.table(typed), aside


_COUNTERS = ("epoch", "iteration", "iter", "it", "update", "updates", "batch", "n_iter", "t")


def _of_steps(names: Sequence[str]) -> str:
    """What to type where no column is named `step`: the one that may well count them."""
    likely = next((name for name in names if name.lower() in _COUNTERS), None)
    if likely is None:
        return "; --step-column names the column of steps"
    return f"; if {likely!r} counts the steps, add --step-column {likely}"


def missing_column(
    column: str, known: Sequence[str], where: str, *, remedy: str = ""
) -> InputError:
    """The error for a column that is not there; names what is, and the nearest."""
    guess = nearest(column, known)
    hint = f". Did you mean {guess!r}?" if guess else ""
    what = f"column {column!r} missing; found: {listing(column, known) or 'none'}{remedy}{hint}"
    return InputError.at(where, "missing_column", what, column=column)


def listing(column: str, known: Sequence[str], most: int = 40) -> str:
    """The columns there are; of many the `most` that are most like `column`, the nearest first."""
    if len(known) <= most:
        return ", ".join(known)

    def likeness(name: str) -> float:
        return difflib.SequenceMatcher(a=name.casefold(), b=column.casefold()).ratio()

    near = sorted(known, key=likeness, reverse=True)[:most]
    return ", ".join(near) + f", ... ({len(known) - most} more)"


def run_codes(table: pa.Table) -> tuple[NDArray[np.int64], list[str]]:
    """The run of each row as an index into the distinct run names, int64 [N], and those names."""
    encoded = pc.dictionary_encode(table[RUN].combine_chunks())
    return np.asarray(encoded.indices, dtype=np.int64), encoded.dictionary.to_pylist()


def check_seeds(table: pa.Table, where: str) -> None:
    """Refuse a run with two seeds: it is several runs under one name."""
    if SEED not in table.column_names:
        return
    codes, names = run_codes(table)
    seeds = float_column(pc.cast(table[SEED], pa.float64(), safe=False))
    first = np.empty(len(names))
    first[codes[::-1]] = seeds[::-1]
    same = (seeds == first[codes]) | (np.isnan(seeds) & np.isnan(first[codes]))
    if not same.all():
        row = int(np.argmin(same))
        run = names[codes[row]]
        what = f"run {run!r} has the seeds {first[codes[row]]:g} and {seeds[row]:g}"
        hint = "name the runs apart, or by their seeds: --run-column seed"
        raise InputError.at(where, "two_seeds", f"{what}; {hint}", run=run)


def float_column(column: pa.ChunkedArray | pa.Array) -> NDArray[np.float64]:
    """A float64 column as an array, with NaN where it has no value."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values: NDArray[np.float64] = flat.to_numpy(zero_copy_only=False)
    return values.astype(np.float64, copy=False)


def _runs(raw: RawTable, run_column: str, run_name: str | None) -> pa.ChunkedArray:
    if run_column not in raw.table.column_names:
        return pa.chunked_array([pa.repeat(pa.scalar(run_name, pa.string()), raw.table.num_rows)])
    column = raw.table[run_column]
    if pa.types.is_floating(column.type):
        column = whole_as_integers(column)
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
        what = f"column {run_column!r} holds {column.type}"
        hint = "a run is named by text or by a whole number"
        raise raw.error("bad_run_column", f"{what}; {hint}", column=run_column)
    try:
        text = pc.cast(column, pa.string())
    except pa.ArrowException as error:
        what = f"column {run_column!r} holds {column.type} that is no text: {error}"
        raise raw.error("bad_run_column", what, column=run_column) from error
    empty = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(text), ""), True)
    if pc.any(empty).as_py():
        row = pc.index(empty, True).as_py()
        raise raw.error("empty_run", f"column {run_column!r} is empty", row=row, column=run_column)
    return text


def whole_as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of floats that are all whole numbers as int64; any other as it is."""
    try:
        return pc.cast(column, pa.int64())
    except pa.ArrowInvalid:
        return column


def _whole_numbers(raw: RawTable, name: str, *, required: bool) -> pa.ChunkedArray:
    """Column `name` as int64; every cell a whole number from 0 on, empty only if not required.

    Steps and whatever is no integer end at 2^53; the integers of a seed at 2^63.
    """
    column, most, end = raw.table[name], _LARGEST, "2^53"
    if pa.types.is_boolean(column.type):
        what = f"column {name!r} holds true or false; it must be whole numbers from 0 on"
        raise raw.error("not_whole", what, column=name)
    if not pa.types.is_integer(column.type):
        column, reason = _numbers(raw, name)
        if reason is not None:
            raise raw.not_numbers(name, reason)
        values = float_column(column)
        empty = np.isnan(values)
        with np.errstate(invalid="ignore"):
            wrong = ~empty & ((np.floor(values) != values) | (values > most))
    else:
        empty = np.asarray(pc.is_null(column))
        values = np.asarray(pc.fill_null(column, 0))
        values = values if values.dtype == np.uint64 else values.astype(np.int64)
        if not required:
            most, end = np.iinfo(np.int64).max, "2^63"
        wrong = values > most
    wrong |= ~empty & (values < 0) & (name != "seed")
    if required:
        wrong |= empty
    if wrong.any():
        row = int(wrong.argmax())
        shown = "empty" if empty[row] else f"{values[row]:g}"
        large = f" and below {end}" if not empty[row] and values[row] > most else ""
        what = f"column {name!r} is {shown}; it must be a whole number from 0 on{large}"
        raise raw.error("not_whole", what, row=row, column=name)
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
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.uint8())
    elif not any(is_kind(kind) for is_kind in numeric):
        reason = f"{raw.where}: column {name!r} holds {kind}; a run log has one number per row"
        return column, reason
    # Whole numbers beyond 2**53 are rounded: an observable is a measurement, not a key.
    return pc.cast(column, pa.float64(), safe=False), None


def _numbers_from_text(
    raw: RawTable, name: str, column: pa.ChunkedArray
) -> tuple[pa.ChunkedArray, str | None]:
    text = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
    empty = pc.is_in(text, value_set=pa.array(_EMPTY))
    text = pc.if_else(empty, pa.scalar(None, pa.string()), text)
    text = pc.utf8_ltrim(text, characters="+")
    numeric = pc.match_substring_regex(text, _NUMBER)
    wrong = pc.fill_null(pc.invert(numeric), False)
    n_wrong = pc.sum(wrong).as_py() or 0
    if not n_wrong:
        return pc.cast(text, pa.float64()), None
    row = pc.index(wrong, True).as_py()
    what = f"column {name!r} holds {text[row].as_py()[:40]!r}, not a number"
    wrong_cell = raw.error("bad_cell", f"{what}; correct or empty this cell", row=row, column=name)
    if not raw.growing and 2 * n_wrong > len(text) - text.null_count:
        return column, f"{raw.where}: {wrong_cell.location['place']}: {what}"
    raise wrong_cell


OnDuplicate = Literal["last", "keep", "sort"]


def natural_key(name: str) -> tuple[Any, ...]:
    """Sort key under which digits compare as numbers: seed_2 comes before seed_10."""
    parts = re.split(r"([0-9]+)", name)  # text and digits in turn
    return [int(part) if at % 2 else part for at, part in enumerate(parts)], name


def order_rows(
    table: pa.Table, *, on_duplicate: OnDuplicate = "last", where: str = "run log"
) -> tuple[pa.Table, dict[str, int]]:
    """Order the rows of a table by `run` (seed_2 before seed_10) and `step`.

    Args:
        on_duplicate: "last" keeps the last row of a repeated step; "keep" keeps all of them, in a
            stable order; "sort" keeps all and does not ask whether steps went backwards, for
            protocols that were published that way.

    Returns:
        The ordered table, and run -> how many rows a later row of the same step replaced.

    Raises:
        InputError: a step goes backwards; the run and the step are named.
    """
    codes, names = run_codes(table)
    steps = np.asarray(table[STEP])
    by_name = sorted(range(len(names)), key=lambda code: natural_key(names[code]))
    runs = [names[code] for code in by_name]
    rank = np.argsort(by_name)[codes]
    if ((np.diff(rank) > 0) | ((np.diff(rank) == 0) & (np.diff(steps) > 0))).all():
        return table, {}
    if on_duplicate != "sort":
        logged = steps[np.argsort(rank, kind="stable")]
        ends = np.cumsum(np.bincount(rank))[:-1]
        for run, own in zip(runs, np.split(logged, ends), strict=True):
            highest = np.maximum.accumulate(own)
            _, first = np.unique(own, return_index=True)
            wrong = first[own[first] < highest[first]]
            if len(wrong):
                step, after = int(own[wrong.min()]), highest[wrong.min()]
                what = (
                    f"run {run!r}: step {step} comes after step {after} and was not logged before "
                    "it; sort the rows by step (a restarted log may repeat steps, not go back to "
                    "new ones), or give each run its own name"
                )
                raise InputError.at(where, "steps_backwards", what, run=run, step=step)
    rows = np.lexsort((steps, rank))  # stable: rows of one step stay in the order of the file
    dropped = {}
    if on_duplicate == "last":
        again = (np.diff(rank[rows]) == 0) & (np.diff(steps[rows]) == 0)
        counts = np.bincount(rank[rows[:-1][again]], minlength=len(runs)).tolist()
        dropped = {run: count for run, count in zip(runs, counts, strict=True) if count}
        rows = rows[np.append(~again, True)]
    return table.take(pa.array(rows)), dropped


def row_pairs(table: pa.Table) -> NDArray[np.int64]:
    """The run and step of each row as one number, from 0 on and the same for the same pair."""
    steps, (codes, _) = np.asarray(table[STEP]), run_codes(table)
    order = np.lexsort((steps, codes))
    differs = (np.diff(codes[order]) != 0) | (np.diff(steps[order]) != 0)
    pairs = np.zeros(len(order), dtype=np.int64)
    pairs[order[1:]] = np.cumsum(differs)
    return pairs


def merge_split_rows(table: pa.Table) -> pa.Table:
    """Merge consecutive rows of one run and step that complement each other.

    They were logged by several calls, and each has a value in a column that the others leave empty;
    of a column that several of them have, as the time, the last value counts. A row without any
    value is no second row of its step. Rows that do not complement each other are left as they are.
    `table` has typed columns, its rows in the order in which they were logged.
    """
    has_value = {name: filled(table, [name]) for name in table.column_names if name not in KEYS}
    steps, (codes, _) = np.asarray(table[STEP]), run_codes(table)
    bare = ~np.logical_or.reduce([np.zeros(len(steps), dtype=bool), *has_value.values()])
    if bare.any() and not bare.all():
        pair = row_pairs(table)
        known = np.bincount(pair[~bare], minlength=pair.max() + 1) > 0
        if (extra := bare & known[pair]).any():
            return merge_split_rows(table.filter(pa.array(~extra)))
    changes = (np.diff(steps) != 0) | (np.diff(codes) != 0)
    start = np.flatnonzero(np.append(True, changes)) if len(steps) else np.zeros(0, dtype=np.int64)
    if len(start) == table.num_rows:
        return table
    sizes = np.diff(np.append(start, table.num_rows))
    group = np.repeat(np.arange(len(start)), sizes)
    adds = np.zeros(table.num_rows, dtype=bool)
    for held in has_value.values():
        adds |= held & (np.add.reduceat(held, start, dtype=np.int64)[group] == 1)
    merged = (sizes > 1) & np.logical_and.reduceat(adds, start)
    if not merged.any():
        return table
    # A merged row stands where the last of its rows stood.
    rows = np.arange(table.num_rows)
    last = np.append(start[1:], table.num_rows) - 1
    kept = rows[~merged[group] | (rows == last[group])]
    columns = {}
    for name in table.column_names:
        source = kept
        if name in has_value:
            at = np.maximum.reduceat(np.where(has_value[name], rows, -1), start)[group[kept]]
            source = np.where(merged[group[kept]] & (at >= 0), at, kept)
        columns[name] = table[name].take(pa.array(source))
    return pa.table(columns, metadata=table.schema.metadata)


def filled(table: pa.Table, columns: Sequence[str]) -> NDArray[np.bool_]:
    """Whether every one of the columns has a value in a row, bool [N]; a logged NaN is one."""
    masks = [np.asarray(pc.is_valid(table[name]), dtype=bool) for name in columns]
    return np.logical_and.reduce(masks, axis=0) if masks else np.ones(table.num_rows, dtype=bool)


# Steps that a run has twice: a restart logged them again, or several runs go by one name. A restart
# goes back to a checkpoint and then on, so that few rows repeat a step, and the last of them counts.
# Rows that a column tells apart, and rows in larger numbers, are refused: they would be lost.


MOST_REPEATED = 0.1
"""Share of all rows that restarts may have logged again."""

_MOST_OF_A_RUN = 0.5  # of its steps; with more of them it is another training under its name
_KEEP_LAST = "if a restart logged them again, keep the last row of each step and read that"


def refuse_hidden_runs(raw: RawTable, typed: pa.Table, step: str) -> None:
    """Refuse repeated steps that another column tells apart: it names the runs.

    Args:
        raw: the file.
        typed: its typed columns, as they were logged.
        step: the column of steps in the file.

    Raises:
        InputError: there is such a column, or two that do so together; they are named.
    """
    repeated = 0 if _is_ordered(typed) else _n_repeated(typed)
    names = _naming_columns(raw, typed, step, repeated) if repeated else ()
    if not names:
        return
    if len(names) == 1:
        how = f"the column {names[0]!r} tells them apart: --run-column {names[0]} if it names runs"
    else:
        both = " and ".join(map(repr, names))
        how = f"only {both} together tell them apart: write both into one column, --run-column NAME"
    what = f"{repeated:,} of {typed.num_rows:,} rows repeat a step of their run"
    raise raw.error("hidden_runs", f"{what}, and {how}; {_KEEP_LAST}", column=names[0])


def refuse_lost_rows(dropped: Mapping[str, int], kept: Mapping[str, int], where: str) -> None:
    """Refuse a log of which more rows repeat a step than restarts log again.

    Args:
        dropped: run -> rows that a later row of the same step replaced.
        kept: run -> its other rows.
        where: the log, for messages.

    Raises:
        InputError: it is more than `MOST_REPEATED` of all rows, or half of the steps of a run.
    """
    lost, rows = sum(dropped.values()), sum(kept.values()) + sum(dropped.values())
    twice = [run for run, count in dropped.items() if count > _MOST_OF_A_RUN * kept[run]]
    run = next(iter([*twice, *dropped]), None)
    if lost > MOST_REPEATED * rows:
        what = f"{lost:,} of {rows:,} rows ({lost / rows:.0%}) repeat a step of their run"
        what += f", more than the {MOST_REPEATED:.0%} that restarts may have logged again"
    elif twice:
        what = f"run {run!r}: {dropped[twice[0]]:,} of its {kept[twice[0]]:,} steps are logged"
        what += " again, more than a restart would"
    else:
        return
    hint = "if several runs go by one name, --run-column NAME names the column that tells them"
    raise InputError.at(where, "repeated_steps", f"{what}; {hint} apart; {_KEEP_LAST}", run=run)


def _naming_columns(raw: RawTable, typed: pa.Table, step: str, repeated: int) -> tuple[str, ...]:
    """The one column, or the two, by which hardly a row repeats a step of its run.

    Runs begin alike: most values of such a column are there at the first step. Those of a column
    that tells a restart from what was before it (a host, a job, a time) are not.
    """
    whole, steps = raw.whole(), np.asarray(typed[STEP])
    begin = steps == steps.min()
    codes = {}
    for name in whole.column_names:
        found = None if name == step or name in raw.aside else _identifiers(whole[name])
        if found is not None and 2 * (n := len(np.unique(found[begin]))) > found.max() and n > 1:
            codes[name] = found
    for size in (1, 2):
        groups = {}
        for names in combinations(codes, size):
            group = _joint([codes[name] for name in names])
            named = pc.cast(pa.array(group), pa.string())
            table = typed.set_column(typed.column_names.index(RUN), RUN, named)
            if 10 * _n_repeated(table) <= repeated:
                groups[names] = int(group.max())
        if groups:
            return min(groups, key=lambda names: groups[names])
    return ()


def _is_ordered(table: pa.Table) -> bool:
    """Whether the rows of each run stand together, and its steps increase."""
    codes, names = run_codes(table)
    same = np.diff(codes) == 0
    together = int((~same).sum()) == len(names) - 1
    return together and bool((np.diff(np.asarray(table[STEP]))[same] > 0).all())


def _n_repeated(table: pa.Table) -> int:
    """Rows whose run and step a later row has, but for those that complete one another."""
    if row_pairs(table).max() + 1 == table.num_rows:
        return 0
    merged = merge_split_rows(table)
    return int(merged.num_rows - row_pairs(merged).max() - 1)


def _identifiers(column: pa.ChunkedArray) -> NDArray[np.int64] | None:
    """What each row of a column of text or whole numbers is called, from 0 on; None of others."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = pc.cast(column, kind.value_type)
    elif pa.types.is_floating(kind):
        column = whole_as_integers(column)
    elif pa.types.is_string_view(kind):
        column = pc.cast(column, pa.string())
    kind = column.type
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
    if column.null_count or not any(is_kind(kind) for is_kind in kinds):
        return None
    encoded = pc.dictionary_encode(column.combine_chunks())
    return np.asarray(encoded.indices, dtype=np.int64)


def _joint(codes: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """One number for what several columns together call a row, from 0 on."""
    joint = np.zeros(len(codes[0]), dtype=np.int64)
    for own in codes:
        joint = np.unique(joint * (own.max() + 1) + own, return_inverse=True)[1]
    return joint
