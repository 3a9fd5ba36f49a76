"""What the records of a results file share: the labels, and why a number may be null.

Each layer returns the record that results.yaml stores. Fields that the specification names are
called as there, ours begin with `x_`. A field that may be null says why in its annotation:

    auc: Annotated[Number, WhyNull(ONE_CLASS)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from gmb_hf.base.documents import OpenSection, path_text

Label = Literal[
    "SUPPORTED_FOR_ALARM", "RANK_ONLY", "ESTIMATOR_UNSTABLE", "INCONCLUSIVE", "SCOPE_LIMITED"
]
SUPPORTED: Label = "SUPPORTED_FOR_ALARM"
RANK_ONLY: Label = "RANK_ONLY"
UNSTABLE: Label = "ESTIMATOR_UNSTABLE"
INCONCLUSIVE: Label = "INCONCLUSIVE"
SCOPE_LIMITED: Label = "SCOPE_LIMITED"
LABELS = (SUPPORTED, SCOPE_LIMITED, INCONCLUSIVE, UNSTABLE, RANK_ONLY)
"""The five labels, in the order in which they are listed."""

NO_EVENT = "no judged run has an event"
NO_NEGATIVE = "no judged run has a negative window"


@dataclass(frozen=True)
class WhyNull:
    """Why a field is null: a text, or a function of the record that gives it."""

    reason: str | Callable[[Any], str]


def why_null(record: OpenSection, field: str) -> str:
    """The reason that stands on a field."""
    for note in type(record).model_fields[field].metadata:
        if isinstance(note, WhyNull):
            return note.reason if isinstance(note.reason, str) else note.reason(record)
    return "not measured"


def null_reasons(
    record: OpenSection, why: Callable[[OpenSection, str], str] = why_null
) -> dict[str, str]:
    """The path of each null in a record, such as "layer_A.auc", and why it is null.

    Args:
        record: it and the records in it.
        why: says why, from the record that holds the null and the name of the field.
    """
    return {
        path_text(location): why(owner, str(location[-1])) for location, owner in _nulls(record)
    }


def _nulls(
    value: Any, location: tuple[int | str, ...] = (), owner: Any = None
) -> Iterator[tuple[tuple[int | str, ...], Any]]:
    """Where the nulls lie, each with the record that holds it."""
    if value is None:
        yield location, owner
        return
    items: Any = ()
    if isinstance(value, OpenSection):
        items, owner = value, value  # a record iterates over its fields and their values
    elif isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (tuple, list)):
        # A null in a list of numbers is what the field says it is, such as a run without an alarm.
        items = ((place, item) for place, item in enumerate(value) if item is not None)
    for key, item in items:
        yield from _nulls(item, (*location, key), owner)
