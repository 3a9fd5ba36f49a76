"""Causal statistics one checkpoint at a time: the same code, with what it has seen carried along.

A statistic that is marked by `carries` says what it must keep of the columns that it was given. In
a `carrying` block it is then called with the newest columns only, puts those it kept before them,
and returns the newest columns of the result. A function made of such statistics and of pointwise
arithmetic gives the same bits either way, and needs no second version.

    memory = Memory()
    for column in columns:                      # float64 [R, 1] each
        with carrying(memory):
            score = function(column)            # [R, 1]
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
P = ParamSpec("P")
T = TypeVar("T", Values, tuple[Values, Values])


@dataclass
class Memory:
    """What the statistics of one function keep, in the order in which the function calls them.

    Attributes:
        kept: float64 [R, k] for each call; k is bounded by its window.
        whole_run: whether one of them remembers the run from its first checkpoint on.
    """

    kept: list[Values] = field(default_factory=list)
    whole_run: bool = False
    _call: int = 0

    def before(self, columns: Values) -> Values:
        """The columns of the next call, behind those that it kept."""
        self._call += 1
        if self._call > len(self.kept):
            self.kept.append(columns[:, :0])
        return np.hstack([self.kept[self._call - 1], columns])

    def keep(self, columns: Values) -> None:
        """Keep a copy of these for the call that is under way."""
        self.kept[self._call - 1] = columns.copy()


_ACTIVE: ContextVar[Memory | None] = ContextVar("memory of the indicator", default=None)


@contextmanager
def carrying(memory: Memory) -> Iterator[None]:
    """Let the statistics that are called inside go on from this memory, and add to it."""
    memory._call = 0
    token = _ACTIVE.set(memory)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def carries(
    keep: Callable[Concatenate[Values, P], Values], *, whole_run: bool = False
) -> Callable[[Callable[Concatenate[Values, P], T]], Callable[Concatenate[Values, P], T]]:
    """Mark a causal statistic of values [R, T].

    Args:
        keep: `keep(columns, ...)`, with the statistic's own arguments, is what must stand before
            later columns for their results to come out as if all had been given.
        whole_run: what it keeps depends on every checkpoint of the run so far.
    """

    def mark(
        statistic: Callable[Concatenate[Values, P], T],
    ) -> Callable[Concatenate[Values, P], T]:
        @functools.wraps(statistic)
        def either(x: Values, /, *args: P.args, **kwargs: P.kwargs) -> T:
            memory = _ACTIVE.get()
            if memory is None:
                return statistic(x, *args, **kwargs)
            columns = memory.before(x)
            memory.keep(keep(columns, *args, **kwargs))
            memory.whole_run |= whole_run
            token = _ACTIVE.set(None)  # what it calls itself is given whole windows
            try:
                result = statistic(columns, *args, **kwargs)
            finally:
                _ACTIVE.reset(token)
            new = slice(columns.shape[1] - x.shape[1], None)
            if isinstance(result, tuple):
                return result[0][:, new], result[1][:, new]
            return result[:, new]

        return either

    return mark


def last_columns(columns: Values, width: int) -> Values:
    """What a trailing window of `width` keeps: its columns but the newest to come."""
    return columns[:, max(columns.shape[1] - (width - 1), 0) :]
