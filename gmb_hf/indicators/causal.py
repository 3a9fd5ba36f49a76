"""What indicators are made of: trailing statistics of values [R, T] that never look ahead.

Column t of every result depends on columns 0..t alone. Near the start a window holds what there is:
the statistic of the first t + 1 checkpoints, and differences to the first checkpoint; a run's score
is thus defined from its first checkpoint on.

The loops below go over the lags within one window, never over runs, windows or time. Unlike
differences of running sums they lose no digits, let a NaN spoil only the windows it lies in, and
give a run the same bits in any company, and one checkpoint at a time (see `carried`).
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

    def mark(statistic: Callable[Concatenate[Values, P], T]) -> Callable[Concatenate[Values, P], T]:
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


_window = carries(last_columns)


def counts(length: int, width: int) -> NDArray[np.int64]:
    """Checkpoints that a trailing window of `width` holds at each of `length` columns, [T]."""
    return np.minimum(np.arange(1, length + 1), width)


@_window
def trailing_mean(x: Values, width: int) -> Values:
    """Mean of the last `width` checkpoints."""
    total = x.copy()
    for now, past, _ in _lags(x, width):
        total[:, now] += x[:, past]
    return total / counts(x.shape[1], width)


@_window
def trailing_max(x: Values, width: int) -> Values:
    """Largest of the last `width` checkpoints."""
    best = x.copy()
    for now, past, _ in _lags(x, width):
        np.maximum(best[:, now], x[:, past], out=best[:, now])
    return best


def trailing_min(x: Values, width: int) -> Values:
    """Smallest of the last `width` checkpoints."""
    return -trailing_max(-x, width)


@_window
def trailing_variance(x: Values, width: int) -> Values:
    """Population variance of the last `width` checkpoints; 0 for one, exactly 0 for equal ones."""
    n = counts(x.shape[1], width)
    # Deviations from the newest value: no digits are lost where a trend is large.
    mean = np.zeros_like(x)
    for now, past, _ in _lags(x, width):
        mean[:, now] += x[:, past] - x[:, now]
    mean /= n
    total = mean**2
    for now, past, _ in _lags(x, width):
        total[:, now] += (x[:, past] - x[:, now] - mean[:, now]) ** 2
    return total / n


@_window
def trailing_slope(x: Values, width: int) -> Values:
    """Least-squares slope per checkpoint over the last `width` checkpoints; 0 for one."""
    n = counts(x.shape[1], width)
    total = np.zeros_like(x)
    for now, past, lag in _lags(x, width):
        total[:, now] += ((n[now] - 1) / 2 - lag) * (x[:, past] - x[:, now])
    return total / np.where(n > 1, n * (n**2 - 1) / 12, 1)


@_window
def detrended_moments(x: Values, width: int) -> tuple[Values, Values]:
    """Variance and lag-1 autocorrelation of what a straight line leaves of the trailing window.

    The critical-slowing-down statistics of Dakos et al. (2012), with a linear trend removed within
    each window. The autocorrelation is 0 until the window is full and where nothing is left.
    """
    n = counts(x.shape[1], width)
    slope = trailing_slope(x, width)
    # The line's value now, relative to the newest value: mean deviation plus half a window's rise.
    level = np.zeros_like(x)
    for now, past, _ in _lags(x, width):
        level[:, now] += x[:, past] - x[:, now]
    level = level / n + slope * (n - 1) / 2

    newer = -level
    squares = newer**2
    products = np.zeros_like(x)
    for now, past, lag in _lags(x, width):
        residual = x[:, past] - x[:, now] - level[:, now] + lag * slope[:, now]
        squares[:, now] += residual**2
        products[:, now] += residual * newer[:, now]
        newer[:, now] = residual
    # Below this, what is left is rounding, whose autocorrelation would be noise.
    left = squares > n * (1e-12 * (1 + np.abs(x))) ** 2
    full = (n == width) & (width > 2)
    correlation = np.divide(products, squares, out=np.zeros_like(x), where=left & full)
    return np.where(left, squares / n, 0 * squares), np.where(
        np.isnan(squares), np.nan, correlation
    )


@_window
def trailing_correlation(x: Values, width: int) -> Values:
    """Correlation of the trailing window's values with those one checkpoint before, trend included.

    0 for fewer than four checkpoints, and where one of the two does not vary.
    """
    n = counts(x.shape[1], width)
    # Deviations from the newest value: of each pair the newer one, then the older one.
    newer, sums, squares = np.zeros_like(x), np.zeros((2, *x.shape)), np.zeros((2, *x.shape))
    products = np.zeros_like(x)
    for now, past, _ in _lags(x, width):
        older = x[:, past] - x[:, now]
        for each, values in enumerate((newer[:, now], older)):
            sums[each, :, now] += values
            squares[each, :, now] += values**2
        products[:, now] += newer[:, now] * older
        newer[:, now] = older
    pairs = np.maximum(n - 1, 1)
    variances = squares - sums**2 / pairs
    # Below this, what is left is rounding.
    vary = (variances > pairs * (1e-12 * (1 + np.abs(x))) ** 2).all(axis=0) & (n >= 4)
    scale = np.sqrt(np.where(vary, variances[0] * variances[1], 1.0))
    covariance = products - sums[0] * sums[1] / pairs
    found = np.clip(np.where(vary, covariance / scale, 0.0), -1, 1)
    return np.where(np.isnan(squares).any(axis=0), np.nan, found)


def _first_columns(columns: Values, /, count: int, *, median: bool = True) -> Values:
    return columns[:, :count]


@carries(_first_columns, whole_run=True)
def baseline(x: Values, /, count: int, *, median: bool = True) -> Values:
    """Median (or mean) of the first `count` checkpoints, from the last of these on; NaN before."""
    found = np.full_like(x, np.nan)
    if x.shape[1] >= count:
        first = x[:, :count]
        found[:, count - 1 :] = (np.median if median else np.mean)(first, axis=1, keepdims=True)
    return found


def _first_number(x: Values) -> Values:
    found = ~np.isnan(x)
    first = np.take_along_axis(x, found.argmax(axis=1)[:, None], axis=1)
    return np.where(np.maximum.accumulate(found, axis=1), first, np.nan)


@carries(lambda columns: _first_number(columns)[:, -1:], whole_run=True)
def first_number(x: Values) -> Values:
    """The first value of the run that is a number, from there on; NaN before."""
    return _first_number(x)


def first_where(x: Values, there: NDArray[np.bool_]) -> Values:
    """The first value of the run at which `there` holds, from there on; NaN before."""
    return first_number(np.where(there, x, np.nan))


def alarms(fired: NDArray[np.bool_], *seen: Values) -> Values:
    """The values of a rule: 1 where it fired, 0 elsewhere, NaN where something seen is NaN."""
    unknown = np.any([np.isnan(values) for values in seen], axis=0)
    return np.where(unknown, np.nan, np.where(fired, 1.0, 0.0))


@carries(lambda columns, lag: last_columns(columns, lag + 1))
def lagged(x: Values, lag: int) -> Values:
    """The value `lag` checkpoints ago; the first value where the run is younger."""
    columns = np.maximum(np.arange(x.shape[1]) - lag, 0)
    return x[:, columns]


def difference(x: Values, lag: int = 1) -> Values:
    """Change over the last `lag` checkpoints, or since the first one where the run is younger."""
    return x - lagged(x, lag)


@carries(lambda columns: np.fmax.reduce(columns, axis=1, keepdims=True), whole_run=True)
def running_max(x: Values) -> Values:
    """Largest value so far; a NaN counts at its own checkpoint only."""
    return np.where(np.isnan(x), np.nan, np.fmax.accumulate(x, axis=1))


@carries(lambda columns: np.fmin.reduce(columns, axis=1, keepdims=True), whole_run=True)
def running_min(x: Values) -> Values:
    """Smallest value so far; a NaN counts at its own checkpoint only."""
    return np.where(np.isnan(x), np.nan, np.fmin.accumulate(x, axis=1))


def _running_total(x: Values) -> Values:
    return np.cumsum(np.where(np.isnan(x), 0.0, x), axis=1)  # one after the other, so bit for bit


@carries(lambda columns: _running_total(columns)[:, -1:], whole_run=True)
def running_total(x: Values) -> Values:
    """Sum so far; a NaN adds nothing."""
    return _running_total(x)


def place_so_far(x: Values) -> Values:
    """Where a value lies between the least, 0, and the largest, 1, so far; .5 where all are one."""
    least = running_min(x)
    return _share(x - least, running_max(x) - least, alike=0.5)


def deviations_so_far(x: Values) -> Values:
    """Distance from the mean so far, in standard deviations so far; 0 where all are one."""
    first = first_number(x)
    moved = x - first  # no digits are lost where the values are large
    known = running_total(np.where(np.isnan(x), np.nan, 1.0))
    mean = running_total(moved) / np.maximum(known, 1)
    variance = running_total(moved**2) / np.maximum(known, 1) - mean**2
    # Below this, what is left is rounding.
    varies = variance > (1e-7 * (np.abs(mean) + np.abs(moved)) + 1e-12 * np.abs(first)) ** 2
    spread = np.sqrt(np.where(varies, variance, 0.0))
    return _share(moved - mean, spread, alike=0.0)


def relative_difference(x: Values, lag: int = 1) -> Values:
    """Change over the last `lag` checkpoints, by the range so far; 0 where all values are one."""
    return _share(difference(x, lag), running_max(x) - running_min(x), alike=0.0)


def _share(part: Values, whole: Values, *, alike: float) -> Values:
    """One by the other, `alike` where that is 0 and NaN where either is."""
    known = np.divide(part, whole, out=np.full_like(part, alike), where=whole != 0)
    return np.where(np.isnan(part) | np.isnan(whole), np.nan, known)


def gain(x: Values, width: int) -> Values:
    """Rise of the trailing mean above its smallest value so far; never below 0."""
    smooth = trailing_mean(x, width)
    return smooth - running_min(smooth)


def log_floored(x: Values) -> Values:
    """Natural logarithm of max(x, 1e-12), so that a loss or norm of 0 stays finite."""
    return np.log(np.maximum(x, 1e-12))


def _lags(x: Values, width: int) -> Iterator[tuple[slice, slice, int]]:
    """For each lag within the window: the columns that have it, where it leads to, and the lag."""
    length = x.shape[1]
    for lag in range(1, min(width, length)):
        yield slice(lag, None), slice(0, length - lag), lag
