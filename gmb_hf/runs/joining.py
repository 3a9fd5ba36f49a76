"""Scores by run and step from anyone become a column of a run log.

A score and a row belong together by run and step alone. The joined log has the rows that have a
score; what matches nothing is named, and nothing is carried forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError, first_of, nearest, repeated
from gmb_hf.runs.columns import RUN, SEED, STEP, Wanted
from gmb_hf.runs.metadata import EXTERNAL, JOINED, JUDGE, with_entries
from gmb_hf.runs.readers import reader_of
from gmb_hf.runs.runlog import RunLog

MADE_BY = "made_by"
"""The column of text by which a file of scores says what made them."""

_COUNT = "answers"  # beside a score: what it is a mean over


def join_scores(log: RunLog, path: str | Path, columns: Sequence[str] = ()) -> RunLog:
    """The rows of a log that a file of scores has a score for, with the scores as columns.

    The file may be any that a run log may be read from; where no `columns` of it are named, it is
    its only column of numbers, `answers` apart. The `notes` of the log say which runs and how many
    rows were left out, its metadata under `joined` what made the columns: the family "judge" where
    the file says that a judge did.

    Raises:
        InputError: a run or step of the scores that the log lacks, a checkpoint with two scores or
            without one (NaN and infinities are none), seeds that differ, or a column that the log
            has already.
    """
    try:
        scores = RunLog.read(path, columns=list(columns) or None)
    except InputError as error:
        if error.code not in ("hidden_runs", "repeated_steps"):
            raise
        run = error.location.get("run")
        whose = "a run" if run is None else f"run {run!r}"
        what = f"{whose} has two scores at one step; keep one of them"
        raise InputError.at(path, "repeated_step", what, run=run) from error
    names = list(columns) or [_only_column(scores)]
    if (twice := repeated(names)) is not None:
        message = f"--score {twice}: is given twice; once is enough"
        raise InputError(message, code="repeated_column", column=twice)
    for name in names:
        if name in log.observables:
            what = f"column {name!r} is in {log.origin} already; rename it in one of them"
            raise InputError.at(path, "repeated_column", what, column=name)
    if scores.dropped_duplicates:
        run = next(iter(scores.dropped_duplicates))
        what = f"run {run!r} has two scores at one step; keep one of them"
        raise InputError.at(path, "repeated_step", what, run=run)
    place = _places(log, scores, path)
    if SEED in log.table.column_names and SEED in scores.table.column_names:
        own = log.table[SEED].take(pa.array(place))
        row = pc.index(pc.not_equal(own, scores.table[SEED]), True).as_py()
        if row >= 0:
            what = f"the seed is {scores.table[SEED][row]}, in {log.origin} {own[row]}"
            raise _fault("two_seeds", f"{what}; are these the same runs?", path, scores, row)
    table = log.table.take(pa.array(place))
    for name in names:
        values = scores.table[name]
        row = pc.index(pc.fill_null(pc.is_finite(values), False), False).as_py()
        if row >= 0:
            value = values[row].as_py()
            what = "has no value" if value is None else f"is {value}, no finite number"
            raise _fault("no_value", f"{name} {what}; leave the checkpoint out", path, scores, row)
        table = table.append_column(name, values.combine_chunks())
    joined = log.with_rows(table, *scores.notes)
    joined.metadata = _described(log, names, Path(path))
    scored = set(joined.runs)
    gone = [run for run in log.runs if run not in scored]
    if gone:
        joined.notes += (f"Without a score, and left out: {len(gone)} runs, {first_of(gone)}.",)
    rows, kept = log.select(joined.runs).table.num_rows, joined.table.num_rows
    if kept < rows:
        joined.notes += (f"Kept are the {kept} of {rows} rows of these runs that have a score.",)
    return joined


def _only_column(scores: RunLog) -> str:
    found = [name for name in scores.observables if name != _COUNT]
    if len(found) != 1:
        names = ", ".join(found) or "none"
        what = f"which column is the score? It has {names}: --score NAME"
        raise InputError.at(scores.origin, "several_columns", what)
    return found[0]


def _places(log: RunLog, scores: RunLog, path: str | Path) -> NDArray[np.int64]:
    """The row of the log for each row of scores."""
    known = set(log.runs)
    strangers = [run for run in scores.runs if run not in known]
    if strangers:
        guess = nearest(strangers[0], log.runs)
        hint = f" Did you mean {guess!r}?" if guess else ""
        what = f"no run {first_of(strangers)} in {log.origin}; there are {first_of(log.runs)}"
        raise InputError.at(path, "unknown_run", f"{what}.{hint}", run=strangers[0])
    row_of = {key: row for row, key in enumerate(_keys(log))}
    lost = [f"{run} at {step:,}" for run, step in _keys(scores) if (run, step) not in row_of]
    if lost:
        what = (
            f"no row for {first_of(lost, 4)} in {log.origin}; a score and a row belong together "
            "by run and step: remove these scores, or log these steps"
        )
        raise InputError.at(path, "unknown_step", what)
    return np.array([row_of[key] for key in _keys(scores)], dtype=np.int64)


def _keys(log: RunLog) -> Iterator[tuple[str, int]]:
    return zip(log.table[RUN].to_pylist(), log.table[STEP].to_pylist(), strict=True)


def _described(log: RunLog, names: Sequence[str], path: Path) -> dict[str, Any]:
    made_by = _made_by(path)
    is_judge = made_by is not None and made_by.startswith(JUDGE)
    made = {"family": JUDGE if is_judge else EXTERNAL, "source": path.name}
    entry = made if made_by is None else {**made, MADE_BY: made_by}
    return with_entries(log.metadata, JOINED, dict.fromkeys(names, entry))


def _made_by(path: Path) -> str | None:
    """What the file says made its scores; None where it says nothing, or several things."""
    reader = reader_of(path)
    if reader is None or reader.run_folder is not None:
        return None
    table = reader.read([path], Wanted()).table
    if MADE_BY not in table.column_names:
        return None
    makers = {str(value) for value in pc.unique(table[MADE_BY]).to_pylist() if value is not None}
    return makers.pop() if len(makers) == 1 else None


def _fault(code: str, what: str, path: str | Path, scores: RunLog, row: int) -> InputError:
    run, step = scores.table[RUN][row].as_py(), scores.table[STEP][row].as_py()
    return InputError.at(path, code, f"run {run}, step {step}: {what}", run=run, step=step)
