"""A logistic combination of indicators: the log-odds that a window is positive.

    s(t) = intercept + sum of coefficient * asinh((member(t) - center) / scale)

It is causal because its members are. The inverse hyperbolic sine is the identity for usual scores
and a logarithm in the tails; it is strictly increasing, so that it ties no two scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gmb_hf.design.design import ENSEMBLE
from gmb_hf.design.lock import LockedEnsemble
from gmb_hf.errors import InputError
from gmb_hf.indicators.catalogue import Indicator, Observables, get, scored
from gmb_hf.indicators.causal import Values
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


def squashed(values: Values, center: float | Values, scale: float | Values) -> Values:
    """Members' scores as the log-odds see them."""
    return np.asarray(np.arcsinh((values - center) / scale))


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

    def log_odds(seen: Observables) -> Values:
        total = np.asarray(locked.intercept)
        for member, indicator in zip(locked.members, members, strict=True):
            score = scored(indicator, seen, member.params, sign=member.sign)
            total = total + member.coefficient * squashed(score, member.center, member.scale)
        return total

    return _ensemble(name, members, log_odds)


def unfitted_ensemble(name: str, members: Sequence[Indicator]) -> Indicator:
    """An ensemble whose coefficients nobody has found yet: it has no score."""

    def refuse(seen: Observables) -> Values:
        raise InputError(
            "is an ensemble, which gets its coefficients when it is locked: gmb lock on explore "
            "runs, then gmb evaluate --lock"
        )

    return _ensemble(name, members, refuse)


def _ensemble(
    name: str, members: Sequence[Indicator], function: Callable[[Observables], Values]
) -> Indicator:
    sees = {member.sees_test_labels for member in members}
    return Indicator(
        name=name,
        family=ENSEMBLE,
        summary=f"logistic combination of {len(members)} scores",
        needs=tuple(dict.fromkeys(need for member in members for need in member.needs)),
        function=function,
        source="this package; fitted on explore runs",
        # One member that sees them makes it an oracle; one that does not say leaves it open.
        sees_test_labels=True if True in sees else None if None in sees else False,
    )
