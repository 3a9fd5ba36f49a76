"""What passes between a reader of files and the rules that give its columns their meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from gmb_hf.validation import InputError

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
