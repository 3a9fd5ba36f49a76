"""Any column of somebody's own log as a score, and which score a lock's entry is."""

from __future__ import annotations

from types import MappingProxyType

from gmb_hf.indicators.causal import Values
from gmb_hf.indicators.registry import Indicator, Observables, get
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

    def read(seen: Observables) -> Values:
        return seen[column]

    return Indicator(
        name=column,
        family=family,
        summary=f"column {column!r} of the run log, as it stands",
        needs=(column,),
        sees_test_labels=sees_test_labels,
        orientation=1,
        parameters=MappingProxyType({}),
        minimum_checkpoints=MappingProxyType({}),
        source="the owner of the run log",
        window_parameter=None,
        function=read,
    )


def locked_score(name: str, family: str | None, sees_test_labels: bool | None) -> Indicator:
    """The score that a lock records by name and family: a column, or a registered indicator.

    Raises:
        InputError: it is no column, and no indicator has this name.
    """
    if family in COLUMN_FAMILIES:
        return external(name, sees_test_labels, family=family)
    return get(name)
