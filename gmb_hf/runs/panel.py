"""One observable or score of many runs as arrays: values, steps and the mask of what exists.

Rows are runs, columns are checkpoints, and a run of n checkpoints fills the first n columns. What
lies behind a run's last checkpoint is absent, which the mask says; NaN inside a run is a value that
was logged as NaN, never an absence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.base.errors import InputError, first_of, repeated
from gmb_hf.base.escape import cut, html_table


@dataclasses.dataclass(frozen=True, eq=False)
class Panel:
    """One column of a run log, [R, T]: R runs, T checkpoints of the longest run.

    Attributes:
        name: the observable or score.
        runs: R run names.
        values: float64 [R, T], NaN where absent.
        steps: int64 [R, T], not decreasing within a run, 0 where absent.
        present: bool [R, T], True on the first `lengths[i]` columns of row i.
    """

    name: str
    runs: tuple[str, ...]
    values: NDArray[np.float64]
    steps: NDArray[np.int64]
    present: NDArray[np.bool_]

    def __post_init__(self) -> None:
        shape = self.values.shape
        if len(shape) != 2 or self.steps.shape != shape or self.present.shape != shape:
            got = f"{shape}, {self.steps.shape} and {self.present.shape}"
            what = "values, steps and present must share one shape [runs, checkpoints]"
            raise InputError(f"panel {self.name!r}: {what}, got {got}")
        if len(self.runs) != shape[0]:
            what = f"{len(self.runs)} run names for {shape[0]} rows of values"
            raise InputError(f"panel {self.name!r}: {what}")

    @classmethod
    def from_series(cls, name: str, series: Sequence[tuple[str, ArrayLike, ArrayLike]]) -> Panel:
        """Build a panel from one (run name, steps, values) triple per run.

        Raises:
            InputError: no series at all, an empty one, a repeated run name, lengths that differ,
                or steps that are not whole, not negative and strictly increasing.
        """
        if not series:
            raise InputError(f"panel {name!r}: no runs", code="no_runs", column=name)
        runs = tuple(run for run, _, _ in series)
        if (twice := repeated(runs)) is not None:
            message = f"panel {name!r}: run {twice!r} is given twice"
            raise InputError(message, code="repeated_run", column=name, run=twice)
        rows = [_series(name, *one) for one in series]
        lengths = np.array([len(steps) for steps, _ in rows])
        present = prefix_mask(lengths)
        values = np.full(present.shape, np.nan)
        steps = np.zeros(present.shape, dtype=np.int64)
        values[present] = np.concatenate([row for _, row in rows])
        steps[present] = np.concatenate([row for row, _ in rows])
        return cls(name, runs, values, steps, present)

    def __repr__(self) -> str:
        runs, checkpoints = self.values.shape
        name, steps = cut(self.name, 40), self.steps[self.present]
        first, last = (int(steps.min()), int(steps.max())) if len(steps) else (0, 0)
        return (
            f"Panel({name!r}, {runs} runs of up to {checkpoints} checkpoints, "
            f"steps {first} to {last})"
        )

    def _repr_html_(self) -> str:
        """The first runs as a table, for a notebook."""
        names = ("run", "checkpoints", "first step", "last step", "first value", "last value")
        rows = []
        for row in range(min(10, self.n_runs)):
            own = self.present[row]
            steps, values = self.steps[row, own].tolist(), self.values[row, own].tolist()
            ends = (*steps[:1], *steps[-1:], *(f"{x:.4g}" for x in (*values[:1], *values[-1:])))
            rows.append((self.runs[row], len(steps), *ends))
        return html_table(repr(self), names, rows, self.n_runs, "runs")

    @property
    def n_runs(self) -> int:
        """R, the number of runs."""
        return len(self.runs)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of checkpoints of each run, int64 [R]."""
        lengths: NDArray[np.int64] = self.present.sum(axis=1, dtype=np.int64)
        return lengths

    @cached_property
    def first_step(self) -> NDArray[np.int64]:
        """First step of each run, int64 [R]."""
        return self.steps[:, 0].copy()

    @cached_property
    def last_step(self) -> NDArray[np.int64]:
        """Last step of each run, int64 [R]."""
        last: NDArray[np.int64] = self.steps[np.arange(self.n_runs), self.lengths - 1]
        return last

    def late_starts(self, first_step: int | None = None) -> str:
        """How many runs begin a checkpoint later than others, as a sentence; empty where none does.

        `first_step` is a step by which other runs of the system had begun, where that is known.
        """
        begin, (spacing, counted) = self.first_step, self.spacings()
        usual = int(begin.min()) if first_step is None else min(int(begin.min()), first_step)
        late = np.flatnonzero(begin - usual >= (spacing[counted].min() if counted.any() else 1))
        if not len(late):
            return ""
        low, high = begin[late].min(), begin[late].max()
        steps = f"step {low:,}" if low == high else f"steps {low:,} to {high:,}"
        others = "other runs" if len(late) < self.n_runs else "the explore runs"
        return (
            f"{len(late)} of {self.n_runs} runs begin late, at {steps}, where {others} have begun "
            f"by step {usual:,}: {first_of([self.runs[row] for row in late])}. If their first rows "
            "were lost, what is computed from the beginning of a run is wrong in them."
        )

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Panel:
        """The panel of the runs at these row numbers, in this order, cut to the longest of them."""
        rows = np.asarray(indices, dtype=np.int64)
        width = int(self.lengths[rows].max(initial=0))
        return Panel(
            self.name,
            tuple(self.runs[i] for i in rows),
            self.values[rows, :width],
            self.steps[rows, :width],
            self.present[rows, :width],
        )

    def with_values(self, values: ArrayLike, name: str | None = None) -> Panel:
        """The same runs, steps and mask with other values [R, T]; what is absent becomes NaN."""
        filled = np.where(self.present, np.asarray(values, dtype=np.float64), np.nan)
        return dataclasses.replace(self, values=filled, name=self.name if name is None else name)

    def spacings(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The steps between neighbouring checkpoints, int64 [R, T - 1], and which of them count.

        The first interval of a run does not count (many logs begin 1, 500, 1000, ...), unless no
        run has a third checkpoint.
        """
        counted = self.present[:, 1:].copy()
        if counted[:, 1:].any():
            counted[:, 0] = False
        return np.where(self.present[:, 1:], np.diff(self.steps, axis=1), 0), counted

    def cadence(self) -> int:
        """The one spacing between checkpoints that count, in steps; see `spacings`.

        Raises:
            InputError: the spacing varies (run and step are named), or no run has two checkpoints.
        """
        spacing, counted = self.spacings()
        if not counted.any():
            what = "no run has two checkpoints, so there is no spacing between them"
            message = f"{self.name!r}: {what}; log more of them"
            raise InputError(message, code="one_checkpoint", column=self.name)
        cadence = int(spacing[counted][0])
        for row, column in np.argwhere(counted & (spacing != cadence))[:1]:
            run, step = self.runs[row], int(self.steps[row, column + 1])
            what = f"step {step} comes {spacing[row, column]} after the one before it"
            message = (
                f"run {run!r}: checkpoints are {cadence} steps apart, but {what}; log every run"
            )
            raise InputError(f"{message} at one spacing", code="uneven_steps", run=run, step=step)
        return cadence


def prefix_mask(lengths: ArrayLike) -> NDArray[np.bool_]:
    """The mask [R, max(lengths)] that is True on the first `lengths[i]` columns of row i."""
    sizes = np.asarray(lengths, dtype=np.int64)
    return np.arange(int(sizes.max(initial=0))) < sizes[:, None]


def _series(
    name: str, run: str, steps: ArrayLike, values: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """One run's steps and values as checked one-dimensional arrays."""
    row = np.atleast_1d(np.asarray(values, dtype=np.float64))
    raw = np.atleast_1d(np.asarray(steps))
    where = f"panel {name!r}, run {run!r}"
    if raw.ndim != 1 or raw.shape != row.shape or not len(row):
        what = "steps and values must be equally long and not empty"
        message = f"{where}: {what}, got shapes {raw.shape} and {row.shape}"
        raise InputError(message, code="bad_shape", run=run)
    whole = raw.astype(np.int64)
    for step in raw[(whole != raw) | (whole < 0)][:1]:
        message = f"{where}: step {step} is not a whole number from 0 on"
        raise InputError(message, code="not_whole", run=run)
    for back in np.flatnonzero(np.diff(whole) <= 0)[:1]:
        before, step = whole[back : back + 2].tolist()
        message = f"{where}: step {step} follows step {before}; steps must increase"
        raise InputError(message, code="steps_backwards", run=run, step=step)
    return whole, row
