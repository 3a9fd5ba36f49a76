"""Thresholds from negative windows, and what they promise (spec 4.2).

Two units of counting. By windows: the rate is a share of negative windows, and the strict threshold
is a conformal quantile over runs, each of which weighs the same (hierarchical conformal prediction:
Lee, Barber and Willett 2023, "Distribution-free inference with hierarchical data"). By runs: the
rate is the share of runs with a false alarm, and the threshold is a quantile of the runs' greatest
negative scores (split conformal prediction: Vovk, Gammerman and Shafer 2005).

An alarm is a score at or above the threshold. Where too few calibration runs allow no finite one,
the threshold is +infinity: the answer is ABSTAIN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from gmb_hf.base.errors import InputError

# 1/f and 5(1-f)/f of round targets are whole numbers that floats may miss from above. And sums of
# 1/n over many windows carry rounding errors: without slack m = 19 runs at f = .05, whose bound is
# exactly 0, would get a false infinity. In units of one run's rate.
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class Negatives:
    """The scores of the N negative windows of R runs, sorted once.

    Attributes:
        values: float64 [N], descending.
        run: int64 [N], the row of the run that each belongs to.
        counts: int64 [R], how many each run has.
    """

    values: NDArray[np.float64]
    run: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, values: NDArray[np.float64], negative: NDArray[np.bool_]) -> Negatives:
        """Collect and sort the scores, float64 [R, T], of the negative windows, bool [R, T].

        Raises:
            InputError: one of them is not finite.
        """
        _check_finite(values, negative)
        run, column = np.nonzero(negative)
        found = values[run, column]
        order = np.argsort(-found, kind="stable")
        return cls(found[order], run[order], negative.sum(axis=1, dtype=np.int64))

    @property
    def n_windows(self) -> int:
        """N, the number of negative windows."""
        return len(self.values)

    @property
    def n_runs(self) -> int:
        """How many runs have negative windows."""
        return int((self.counts > 0).sum())

    def select(self, rows: NDArray[Any]) -> Negatives:
        """The negatives of the runs at these row numbers, renumbered in this order."""
        place = np.full(len(self.counts), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        run = place[self.run]
        kept = run >= 0
        return Negatives(self.values[kept], run[kept], self.counts[rows])

    @cached_property
    def group_ends(self) -> NDArray[np.int64]:
        """Index of the last window of each group of tied scores, int64 [G], highest group first."""
        if not len(self.values):
            return np.zeros(0, dtype=np.int64)
        return np.append(np.flatnonzero(self.values[1:] != self.values[:-1]), len(self.values) - 1)

    @cached_property
    def distinct(self) -> NDArray[np.float64]:
        """The distinct scores, descending, float64 [G]."""
        return self.values[self.group_ends]

    @cached_property
    def windows_at_or_above(self) -> NDArray[np.int64]:
        """Alarmed windows at each distinct threshold, int64 [G]."""
        return self.group_ends + 1

    @cached_property
    def rate_sums(self) -> NDArray[np.float64]:
        """Sum over runs of each run's alarm rate, at each distinct threshold, float64 [G]."""
        return np.asarray(np.cumsum(1.0 / self.counts[self.run])[self.group_ends])

    def rates(self, *, per_run: bool) -> NDArray[np.float64]:
        """False positive rate at each distinct threshold, ascending, float64 [G].

        Args:
            per_run: the mean over runs of each run's rate, else the pooled rate over windows.
        """
        if per_run:
            # A sum of many 1/n may pass the whole by a rounding error.
            return np.minimum(self.rate_sums / max(self.n_runs, 1), 1.0)
        return self.windows_at_or_above / max(self.n_windows, 1)


def spec_threshold(negatives: Negatives, target: float) -> float:
    """The threshold of `v0.4`: |achieved - target| least, the smaller achieved rate on a tie.

    Candidates are the distinct scores and +infinity, at which nothing alarms. O(n log n) through
    the sort in `negatives`; the comparison is exact.

    >>> scores = np.arange(20.0)[None, :]
    >>> spec_threshold(Negatives.of(scores, np.ones((1, 20), dtype=bool)), 0.1)
    18.0
    """
    if not negatives.n_windows:
        return math.inf
    # The target as it is written, .05 and not its binary neighbour: ties depend on it.
    wanted = Fraction(repr(float(target))) * negatives.n_windows
    above = int(np.searchsorted(negatives.windows_at_or_above, math.floor(wanted), side="right"))
    below_count = int(negatives.windows_at_or_above[above - 1]) if above else 0
    if above < len(negatives.distinct):
        above_count = int(negatives.windows_at_or_above[above])
        if above_count - wanted < wanted - below_count:
            return float(negatives.distinct[above])
    return float(negatives.distinct[above - 1]) if above else math.inf


def conformal_threshold(negatives: Negatives, target: float) -> float:
    """The threshold of `strict`: just above the weighted (1 - f) quantile over runs.

    Each of the m runs with negatives weighs 1/(m+1), spread evenly over its windows, and 1/(m+1)
    lies at +infinity. The quantile q is the smallest score at or below which lies a weight of
    1 - f at least; that is, the runs' rates of exceeding q sum up to at most f (m+1) - 1.

    Returns:
        nextafter(q, inf), or +infinity where the answer is ABSTAIN: m < 1/f - 1.

    >>> scores = np.arange(19.0)[:, None]  # 19 runs of one window
    >>> conformal_threshold(Negatives.of(scores, np.ones((19, 1), dtype=bool)), 0.05) > 18
    True
    """
    allowed = target * (negatives.n_runs + 1) - 1
    if not negatives.n_windows or allowed < -_SLACK:
        return math.inf
    exceeding = np.concatenate([[0.0], negatives.rate_sums[:-1]])
    last = int(np.searchsorted(exceeding, allowed + _SLACK, side="right")) - 1
    return float(np.nextafter(negatives.distinct[last], math.inf))


def runs_needed(target: float) -> int:
    """Calibration runs with negative windows below which the threshold is infinite.

    >>> [runs_needed(target) for target in (0.01, 0.05, 0.10)]
    [99, 19, 9]
    """
    return math.ceil(1 / target - _SLACK) - 1


def runs_advised(target: float) -> int:
    """Calibration runs that leave 80% of the budget: 5 (1-f) / f.

    >>> runs_advised(0.10), runs_advised(0.05)
    (45, 95)
    """
    return math.ceil(5 * (1 - target) / target - _SLACK)


def effective_budget(target: float, n_runs: int) -> float:
    """The expected false positive rate that a target buys with `n_runs` calibration runs.

    About f - (1-f)/m; zero where the threshold is infinite.

    >>> effective_budget(0.05, 95), effective_budget(0.05, 18)
    (0.04, 0.0)
    """
    if n_runs < runs_needed(target):
        return 0.0
    return max(0.0, target - (1 - target) / n_runs)


def pass_line(target: float, eps: float) -> float:
    """The highest rate by windows that keeps a target in `strict`: f + min(eps, f/2).

    >>> round(pass_line(0.05, 0.01), 6), pass_line(0.01, 0.01)
    (0.06, 0.015)
    """
    return target + min(eps, target / 2)


# The first alarm: a budget of runs, whose threshold lies among the runs' greatest negative scores.

BOUND = 0.9
"""How sure the upper bound on the true rate of one set of calibration runs is."""


def run_maxima(values: NDArray[np.float64], negative: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The greatest score over each run's negative windows, float64 [R]; NaN where it has none.

    `values` are float64 [R, T], `negative` bool [R, T].

    Raises:
        InputError: the score of a negative window is not finite.

    >>> negative = np.array([[True, True, False], [False, False, False]])
    >>> run_maxima(np.array([[1.0, 3.0, 9.0], [2.0, 1.0, 9.0]]), negative).tolist()
    [3.0, nan]
    """
    _check_finite(values, negative)
    maxima = np.where(negative, values, -np.inf).max(axis=1, initial=-np.inf)
    return np.where(negative.any(axis=1), maxima, np.nan)


def _check_finite(values: NDArray[np.float64], negative: NDArray[np.bool_]) -> None:
    """Refuse what would leave a whole run out of the calibration without a word."""
    if not np.isfinite(values[negative]).all():
        run, column = (int(i) for i in np.argwhere(negative & ~np.isfinite(values))[0])
        raise InputError(
            f"the score of run {run}, checkpoint {column} is {values[run, column]} in a negative "
            "window; mend it, or leave such windows out: windows.where(np.isfinite(values))"
        )


@dataclass(frozen=True)
class Promise:
    """What a first-alarm threshold promises of fresh runs of the same configuration.

    The explore runs drawn, the true share of runs with a false alarm is Beta(m + 1 - k, k)
    distributed where no two runs tie (Vovk 2012), and lies below that where some do.

    Attributes:
        rank: k, the threshold lies just above the k-th smallest of the runs' greatest negative
            scores; None: no finite threshold keeps the budget, ABSTAIN.
        expected: the mean of that distribution; 0 where the threshold is infinite.
        upper: its 90% quantile.
    """

    rank: int | None
    expected: float
    upper: float


@cache
def promise(budget: float, n_runs: int, calibration: str = "marginal") -> Promise:
    """What `n_runs` calibration runs with negative windows promise at a budget of runs.

    `marginal`: k = ceil((1 - alpha)(m + 1)), the expected rate is at most alpha. `conditional`: the
    least k whose 90% bound is at most alpha, so that the promise holds of nine locks in ten.

    >>> promise(0.05, 19).rank, promise(0.05, 18).rank, promise(0.1, 22, "conditional").rank
    (19, None, 22)
    """
    m = n_runs
    if calibration == "conditional":
        ranks = np.arange(1, m + 1)
        holds = betaincinv(m + 1 - ranks, ranks, BOUND) <= budget + _SLACK
        rank = int(ranks[holds][0]) if holds.any() else m + 1
    else:
        # The budget as it is written, .05 and not its binary neighbour.
        rank = max(1, math.ceil((1 - Fraction(repr(float(budget)))) * (m + 1)))
    if rank > m:
        return Promise(None, 0.0, 0.0)
    upper = float(betaincinv(m + 1 - rank, rank, BOUND))
    return Promise(rank, (m + 1 - rank) / (m + 1), upper)


def run_threshold(
    maxima: NDArray[np.float64], budget: float, calibration: str = "marginal"
) -> float:
    """The threshold at which at most a share `budget` of fresh runs has a false alarm.

    Exact in finite samples where runs are exchangeable, ties included.

    Args:
        maxima: `run_maxima` of the calibration runs, NaN where a run has no negative window.
        budget: the share of runs.
        calibration: see `promise`.

    Returns:
        Just above the k-th smallest; +infinity where k exceeds their number: ABSTAIN.

    >>> run_threshold(np.arange(19.0), 0.05), run_threshold(np.arange(18.0), 0.05)
    (18.000000000000004, inf)
    """
    known = np.sort(maxima[~np.isnan(maxima)])
    rank = promise(budget, len(known), calibration).rank
    return math.inf if rank is None else float(np.nextafter(known[rank - 1], math.inf))


def runs_to_promise(budget: float, calibration: str = "marginal") -> int:
    """Calibration runs with negative windows below which no first-alarm threshold is finite.

    >>> runs_to_promise(0.05), runs_to_promise(0.1), runs_to_promise(0.05, "conditional")
    (19, 9, 45)
    """
    if calibration == "conditional":
        return math.ceil(math.log(1 - BOUND) / math.log1p(-budget) - _SLACK)
    return runs_needed(budget)


def runs_to_bound(budget: float, calibration: str = "marginal") -> int:
    """Calibration runs that keep the 90% bound of a budget within twice the budget.

    >>> runs_to_bound(0.05), runs_to_bound(0.1), runs_to_bound(0.05, "conditional")
    (22, 11, 45)
    """
    runs = runs_to_promise(budget, calibration)
    while promise(budget, runs, calibration).upper > 2 * budget:
        runs += 1
    return runs


def shown_line(budget: float) -> float:
    """The highest share of runs that keeps a budget of runs where it must be shown.

    >>> round(shown_line(0.05), 6), round(shown_line(0.2), 6)
    (0.075, 0.25)
    """
    return pass_line(budget, 0.05)


def in_words(budget: float) -> str:
    """A share of runs as one says it.

    >>> in_words(0.05), in_words(0.03)
    ('1 run in 20', '3% of runs')
    """
    one_in = round(1 / budget)
    if abs(one_in * budget - 1) < _SLACK:
        return f"1 run in {one_in}"
    return f"{100 * budget:.3g}% of runs"


def shared_thresholds(
    maxima: Mapping[str, Sequence[float | None]], budget: float, calibration: str
) -> dict[str, float]:
    """Thresholds of several alarms that share one budget of runs, whichever of them comes first.

    Each explore run is as odd as its highest rank among the scores says. Thresholds lie just above
    the same rank q of every score: the least of two that are valid in finite samples. Conformal:
    with the k-th smallest of those highest ranks, q = that + 1, since a fresh run may shift each
    rank by one. Union: each of n alarms keeps budget / n.

    Args:
        maxima: of each score, its greatest negative score in every explore run; None: not known.
            Runs that one of them does not know are left out.
        budget: the share of runs.
        calibration: see `promise`.

    Returns:
        A threshold for each; +infinity where the runs are too few for so many alarms.

    >>> maxima = {"a": [0.1 * run for run in range(40)], "b": [0.2 * run for run in range(40)]}
    >>> {name: round(tau, 3) for name, tau in shared_thresholds(maxima, 0.1, "marginal").items()}
    {'a': 3.7, 'b': 7.4}
    """
    table = np.array([[np.nan if x is None else x for x in row] for row in maxima.values()], float)
    table = table[:, ~np.isnan(table).any(axis=0)]
    n_alarms, m = table.shape
    ordered = np.sort(table, axis=1)
    ranks = [
        np.searchsorted(row, own, side="right") for row, own in zip(ordered, table, strict=True)
    ]
    single = promise(budget, m, calibration).rank
    chosen = [promise(budget / n_alarms, m, calibration).rank or m + 1]
    if single is not None:
        chosen.append(int(np.sort(np.max(ranks, axis=0))[single - 1]) + (n_alarms > 1))
    rank = min(chosen)
    if rank > m:
        return dict.fromkeys(maxima, math.inf)
    taus = np.nextafter(ordered[:, rank - 1], math.inf).tolist()
    return dict(zip(maxima, taus, strict=True))


# Why a target by windows cannot be reached: ties at the top of the negative scores.


@dataclass(frozen=True)
class Floor:
    """The least false positive rate that a finite threshold which alarms can have.

    Attributes:
        f_min_pos: the smallest rate that is not 0.
        tied_value: the score that several windows share at the top; None where it is not tied.
        tied_windows: how many windows share the greatest negative score.
        zero_reached: a positive window lies above every negative: a threshold there costs nothing.
    """

    f_min_pos: float
    tied_value: float | None
    tied_windows: int
    zero_reached: bool

    @property
    def least(self) -> float:
        """The least rate of any threshold that alarms: 0 where positives lie above negatives."""
        return 0.0 if self.zero_reached else self.f_min_pos

    def forbids(self, rate: float) -> bool:
        """Whether the score, by ties, keeps every threshold that alarms above a rate.

        A single window at the top is no property of the score: it counts 1/(runs x windows of its
        run), which only tells how few of them there are, and more runs would bring smaller steps.
        """
        return self.tied_windows > 1 and self.least > rate + 1e-12


def floor_certificate(
    highest: NDArray[np.float64],
    ties: NDArray[np.int64],
    counts: NDArray[np.int64],
    positive: NDArray[np.float64],
    *,
    per_run: bool,
) -> Floor | None:
    """The floor of a score's false positive rate on R runs; None without negative windows.

    Args:
        highest: float64 [R], the greatest negative score of each run (`run_maxima`).
        ties: int64 [R], how many of its negative windows share it.
        counts: int64 [R], its negative windows.
        positive: float64 [R], the greatest score of its positive windows, or -infinity.
        per_run: whether a rate is the mean over runs of each run's rate, or pooled.

    >>> runs = np.array([1.0, 0.5]), np.array([2, 1]), np.array([10, 10]), np.array([2.0, 2.0])
    >>> floor_certificate(*runs, per_run=False)
    Floor(f_min_pos=0.1, tied_value=1.0, tied_windows=2, zero_reached=True)
    """
    known = counts > 0
    if not known.any():
        return None
    top = float(highest[known].max())
    at_top = highest == top
    own, tied = counts[at_top], int(ties[at_top].sum())
    rate = tied / int(counts.sum())
    if per_run:
        # Added up in the order of the windows, as in `Negatives.rate_sums`.
        rate = min(float(np.cumsum(np.repeat(1.0 / own, ties[at_top]))[-1] / known.sum()), 1.0)
    zero_reached = bool((positive > top).any())
    return Floor(rate, top if tied > 1 else None, tied, zero_reached)
