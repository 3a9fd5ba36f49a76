"""Learned combinations of indicators: the log-odds that a window is positive.

    logistic    s(t) = intercept + sum of coefficient * asinh((feature(t) - center) / scale)
    boosted     s(t) = intercept + sum of the leaf that feature(t) comes to in each tree

A feature is a member, its change over some checkpoints, its distance from its largest value so far,
or one of these in units of the run's own past, which survives a change of scale; so a combination
is causal because its members are. The inverse hyperbolic sine is the
identity for usual scores and a logarithm in the tails; it is strictly increasing, so that it ties
no two scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gmb_hf.base.errors import InputError
from gmb_hf.design.candidates import ENSEMBLE
from gmb_hf.design.locked_ensembles import LockedEnsemble, LockedMember, LockedTree
from gmb_hf.indicators.catalogue import Indicator, Kind, Observables, get, scored
from gmb_hf.indicators.causal import (
    Values,
    deviations_so_far,
    difference,
    place_so_far,
    relative_difference,
    running_max,
)
from gmb_hf.runs.metadata import COLUMN_FAMILIES, EXTERNAL


def external(
    column: str, sees_test_labels: bool | None = None, *, family: str = EXTERNAL
) -> Indicator:
    """The indicator whose score is `column` as it stands, +1 oriented; flip it with `sign=-1`.

    Args:
        column: a column of the run log, and the indicator's name.
        sees_test_labels: whether held-out labels went into it; None if its owner does not say.
        family: "external", or "judge" for what a judge made.
    """

    return Indicator(
        name=column,
        family=family,
        summary=f"column {column!r} of the run log, as it stands",
        needs=(column,),
        function=lambda seen: seen[column],
        source="the owner of the run log",
        sees_test_labels=sees_test_labels,
    )


_FEATURES: dict[str, Callable[[Values], Values]] = {
    "score": lambda score: score,
    "below_maximum": lambda score: score - running_max(score),
    "place": place_so_far,
    "deviations": deviations_so_far,
}


def features_of(score: Values, names: Sequence[str]) -> list[Values]:
    """Features of a member's score [R, T], in the order of their names (see `Ensemble`)."""

    def feature(name: str) -> Values:
        if name in _FEATURES:
            return _FEATURES[name](score)
        kind, _, lag = name.rpartition("_")
        return (difference if kind == "change" else relative_difference)(score, int(lag))

    with np.errstate(invalid="ignore"):  # an infinite score has no change: NaN
        return [feature(name) for name in names]


def squashed(values: Values, center: float | Values, scale: float | Values) -> Values:
    """Features as the log-odds of a regression see them."""
    return np.asarray(np.arcsinh((values - center) / scale))


def boosted(intercept: float, trees: Sequence[LockedTree]) -> Callable[[Values], Values]:
    """The log-odds [...] of features [..., F]; NaN where one of them is NaN.

    They are added up in the order of the trees, as scikit-learn does.
    """

    def log_odds(features: Values) -> Values:
        columns = np.moveaxis(features, -1, 0)
        total = np.where(np.isnan(columns).any(axis=0), np.nan, intercept)
        for tree in trees:
            # A child is a later split, or -1 - j for leaf j.
            at: dict[int, Any] = {-1 - leaf: value for leaf, value in enumerate(tree.value)}
            for split in reversed(range(len(tree.feature))):
                lower = columns[tree.feature[split]] <= tree.threshold[split]
                at[split] = np.where(lower, at[tree.left[split]], at[tree.right[split]])
            total = total + at[0 if tree.feature else -1]
        return total

    return log_odds


def member_indicators(locked: LockedEnsemble) -> list[Indicator]:
    """The members, in the order of the lock: registered indicators, or columns.

    Raises:
        InputError: one is no column, and no indicator has its name.
    """
    return [
        external(member.name, member.sees_test_labels, family=member.family)
        if member.family in COLUMN_FAMILIES
        else get(member.name)
        for member in locked.members
    ]


def fitted_ensemble(name: str, locked: LockedEnsemble) -> Indicator:
    """The indicator that a lock's ensemble is; its members are computed as they stand there."""
    members = member_indicators(locked)
    sum_of_trees = boosted(locked.intercept, locked.trees)

    def features(seen: Observables) -> Iterator[tuple[LockedMember, list[Values]]]:
        for member, indicator in zip(locked.members, members, strict=True):
            score = scored(indicator, seen, member.params, sign=member.sign)
            yield member, features_of(score, locked.features)

    def log_odds(seen: Observables) -> Values:
        if locked.method == "boosted":
            columns = np.stack([x for _, each in features(seen) for x in each])
            return sum_of_trees(np.moveaxis(columns, 0, -1))
        total = np.asarray(locked.intercept)
        for member, each in features(seen):
            units = zip(each, member.center, member.scale, member.coefficient, strict=True)
            for feature, center, scale, coefficient in units:
                total = total + coefficient * squashed(feature, center, scale)
        return total

    return _ensemble(name, members, log_odds, locked.method)


def unfitted_ensemble(
    name: str, members: Sequence[Indicator], method: str = "logistic"
) -> Indicator:
    """An ensemble whose coefficients nobody has found yet: it has no score."""

    def refuse(seen: Observables) -> Values:
        raise InputError(
            "is an ensemble, which gets its coefficients when it is locked: gmb lock on explore "
            "runs, then gmb evaluate --lock"
        )

    return _ensemble(name, members, refuse, method)


_SUMMARIES = {"logistic": "logistic combination", "boosted": "gradient-boosted trees"}


def _ensemble(
    name: str, members: Sequence[Indicator], function: Callable[[Observables], Values], method: str
) -> Indicator:
    sees = {member.sees_test_labels for member in members}
    return Indicator(
        name=name,
        family=ENSEMBLE,
        summary=f"{_SUMMARIES[method]} of {len(members)} scores",
        needs=tuple(dict.fromkeys(need for member in members for need in member.needs)),
        function=function,
        source="this package; fitted on explore runs",
        # One member that sees them makes it an oracle; one that does not say leaves it open.
        sees_test_labels=True if True in sees else None if None in sees else False,
        kind=_kind_of(members),
    )


def _kind_of(members: Sequence[Indicator]) -> Kind:
    """What a combination knows is what its most knowing member knows."""
    known = {member.kind for member in members}
    most: tuple[Kind, ...] = ("label-using", "task-aware")
    return next((kind for kind in most if kind in known), "label-free")
