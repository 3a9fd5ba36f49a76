"""A logistic regression of labelled windows on scores, in which runs are the units.

Each run weighs the same in each class, spread evenly over its windows of that class, so that a long
run does not decide alone. The penalty is chosen by cross-validation in which a run is never on both
sides (windows of one run depend on each other).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.indicators.ensemble import squashed

Floats = NDArray[np.float64]
_TOLERANCE = 1e-10
_MAX_STEPS = 200
_DIGITS = 10
_NORMAL_QUARTILES = 1.3489795  # between the quartiles of a normal score of sd 1
_LEAST_SPREAD = 1e-100  # less is none: what is divided by it must stay finite

LARGEST = 1e100
"""The largest score, either way, that can be fitted: its square must be finite."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Labelled windows of some runs.

    Attributes:
        features: float64 [n, M], the members' scores, within +-`LARGEST`.
        positive: bool [n].
        run: int64 [n], which run each window is of.
    """

    features: Floats
    positive: NDArray[np.bool_]
    run: NDArray[np.int64]

    def select(self, rows: NDArray[np.int64]) -> LabelledRows:
        """These rows only."""
        return LabelledRows(self.features[rows], self.positive[rows], self.run[rows])

    @property
    def weights(self) -> Floats:
        """Of each window, float64 [n]: those of a run and class sum up to the same; all to 1."""
        _, group = np.unique(2 * self.run + self.positive, return_inverse=True)
        weights = 1 / np.bincount(group)[group]
        return np.asarray(weights / weights.sum())

    @property
    def runs_of_both_classes(self) -> NDArray[np.int64]:
        """Runs that have positive and negative windows, ascending."""
        return np.intersect1d(self.run[self.positive], self.run[~self.positive])

    def folds(self, count: int) -> NDArray[np.int64]:
        """The fold of each window, int64 [n]; those of a run are in one.

        Runs of both classes are dealt out first: with `count` of them or more, both classes are
        left whichever fold is taken away.
        """
        runs = np.unique(self.run)
        first = np.argsort(~np.isin(runs, self.runs_of_both_classes), kind="stable")
        fold = np.empty(len(runs), dtype=np.int64)
        fold[first] = np.arange(len(runs)) % count
        return np.asarray(fold[np.searchsorted(runs, self.run)])


@dataclass(frozen=True, eq=False)
class LogOdds:
    """A fitted combination: intercept + sum of coefficient * asinh((x - center) / scale)."""

    center: Floats
    scale: Floats
    coefficients: Floats
    intercept: float

    def __call__(self, features: Floats) -> Floats:
        """The log-odds of rows [..., M]."""
        scores = squashed(features, self.center, self.scale)
        return np.asarray(self.intercept + scores @ self.coefficients)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A combination with the penalty that cross-validation prefers.

    Attributes:
        log_odds: fitted with it on all rows.
        penalty: the largest of those with the least loss.
        losses: penalty -> cross-validated log loss, in nats a window.
    """

    log_odds: LogOdds
    penalty: float
    losses: Mapping[float, float]


def choose_penalty(rows: LabelledRows, penalties: Sequence[float], folds: int) -> Chosen:
    """Fit with each penalty, leaving groups of runs out in turn, and take the best.

    Args:
        rows: at least `folds` runs with windows of both classes.
        penalties: L2, on the mean log loss: loss + penalty / 2 * |coefficients|^2.
        folds: groups of runs.
    """
    tried = sorted(set(penalties))
    losses, weights = dict.fromkeys(tried, 0.0), rows.weights
    fold = rows.folds(folds)
    for number in range(folds):
        inside, outside = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        prepared = _Prepared(rows.select(inside))
        for penalty in tried:
            log_odds = prepared.fit(penalty)(rows.features[outside])
            signed = np.where(rows.positive[outside], -log_odds, log_odds)
            losses[penalty] += float(np.logaddexp(0, signed) @ weights[outside])
    losses = {penalty: _rounded(loss) for penalty, loss in losses.items()}
    best = min(losses, key=lambda penalty: (losses[penalty], -penalty))
    return Chosen(fit_log_odds(rows, best), best, losses)


def fit_log_odds(rows: LabelledRows, penalty: float) -> LogOdds:
    """The combination with one penalty; rows of both classes are needed.

    The coefficients are rounded to 10 digits, which the order of a sum does not reach.
    """
    return _Prepared(rows).fit(penalty)


class _Prepared:
    """Rows in standard units, for fits with several penalties."""

    def __init__(self, rows: LabelledRows) -> None:
        self._rows = rows
        self._weights = rows.weights
        self._center, self._scale = standard_units(rows.features, self._weights)
        self._squashed = squashed(rows.features, self._center, self._scale)

    def fit(self, penalty: float) -> LogOdds:
        """The combination with this penalty."""
        from sklearn.linear_model import LogisticRegression

        # scikit-learn's C is the inverse of a penalty on the sum of weighted losses: weights sum
        # to 1.
        model = LogisticRegression(
            C=1 / penalty, solver="newton-cholesky", tol=_TOLERANCE, max_iter=_MAX_STEPS
        ).fit(self._squashed, self._rows.positive, sample_weight=self._weights)
        coefficients = np.array([_rounded(x) for x in model.coef_[0]])
        return LogOdds(self._center, self._scale, coefficients, _rounded(model.intercept_[0]))


def standard_units(features: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Median and spread of each column, float64 [M] each.

    The spread is that between the quartiles, in units of a normal sd; the sd itself of a column
    half of whose values are one; and 1 of a column that is constant, or moves by less than 1e-100.
    """
    quartiles = np.quantile(
        features, (0.25, 0.5, 0.75), axis=0, weights=weights, method="inverted_cdf"
    )
    spread = (quartiles[2] - quartiles[0]) / _NORMAL_QUARTILES
    sd = np.sqrt(weights @ (features - weights @ features) ** 2)
    varied = np.ptp(features, axis=0) > 0  # the sd of equal numbers need not be 0 exactly
    other = np.where(varied & (sd > _LEAST_SPREAD), sd, 1.0)
    scale = np.where(spread > _LEAST_SPREAD, spread, other)
    return quartiles[1], scale


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
