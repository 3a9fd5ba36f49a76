"""Strata: parts of the runs, named before evaluation, in which a score may work though it fails
over all of them. A score that passes everything there is `SCOPE_LIMITED`: its verdict holds where
the predicate holds, which it states, and nowhere else (spec 5).

A predicate compares one number of each run at a time, e.g. `event_step > 1000` or
`weight_decay >= 0.5 and seed < 100`. It is parsed, never evaluated as code.

What may it honestly use? What is known before the first alarm: a setting (weight decay, data
share) or the seed. Then an operator knows whether the alarm speaks about the run at hand. A number
that only the finished run shows, `event_step` above all, is admissible as a boundary that was
declared beforehand: the verdict then says that such runs are warned of, and not which run is one.
The chance nulls are drawn within the stratum, so that choosing late events, say, is no evidence in
itself. A column that joins the outcome to each row, such as the final accuracy, cannot be told from
a setting by its numbers; it falls under the same rule.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from gmb_hf.preregistration.documents import Section
from gmb_hf.validation import unknown

EVENT_STEP = "event_step"
"""t* of a run; infinite where no event came by the end of its log, which is later than any step."""

Facts = Mapping[str, NDArray[np.float64]]
"""One number per run by name, float64 [R]; NaN: not known."""

_COMPARISON = re.compile(
    r"\s*(?P<name>[A-Za-z_][\w./-]*)\s*(?P<sign><=|>=|==|!=|<|>)\s*(?P<number>\S+)\s*"
)
_AND = re.compile(r"\s+and\s+")
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Comparison:
    """`name sign number`, e.g. `event_step > 1000`."""

    name: str
    sign: str
    number: float


def parse(where: str) -> tuple[Comparison, ...]:
    """The comparisons of a predicate, all of which must hold.

    Raises:
        ValueError: it is no predicate; the message shows one.

    >>> parse("weight_decay >= 0.5 and seed < 100")[1]
    Comparison(name='seed', sign='<', number=100.0)
    """
    found = []
    for part in _AND.split(where):
        match = _COMPARISON.fullmatch(part)
        number = _number(match["number"]) if match else None
        if match is None or number is None:
            raise ValueError(
                f"{where!r} is no predicate: write comparisons of a name with a number, joined by "
                f"'and', e.g. {EVENT_STEP} > 1000 and weight_decay >= 0.5"
            )
        found.append(Comparison(match["name"], match["sign"], number))
    return tuple(found)


class Stratum(Section):
    """A part of the runs in which a score is judged as well."""

    name: Annotated[str, Field(min_length=1)] = Field(
        description="what the part is called", examples=["late_events"]
    )
    where: str = Field(
        description="comparisons of a run's numbers, joined by 'and'",
        examples=[f"{EVENT_STEP} > 1000"],
    )

    @field_validator("where")
    @classmethod
    def _is_predicate(cls, where: str) -> str:
        parse(where)
        return where

    @property
    def names(self) -> tuple[str, ...]:
        """The facts that the predicate asks for, each once."""
        return tuple(dict.fromkeys(item.name for item in parse(self.where)))

    def holds(self, facts: Facts) -> NDArray[np.bool_]:
        """Which runs belong to the stratum, bool [R].

        A run whose number is not known belongs to no stratum that asks for it.

        Args:
            facts: by name; the step of the event under `event_step`.

        Raises:
            InputError: a name is not among the facts (the nearest is named).
        """
        chosen: NDArray[np.bool_] | None = None
        for item in parse(self.where):
            if item.name not in facts:
                raise unknown("number of a run", item.name, facts, where=f"stratum {self.name!r}")
            values = facts[item.name]
            met = _COMPARE[item.sign](values, item.number) & ~np.isnan(values)
            chosen = met if chosen is None else chosen & met
        assert chosen is not None
        return chosen


def event_facts(event_step: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The fact `event_step` of steps t* [R] that are NaN where there was no event."""
    return {EVENT_STEP: np.where(np.isnan(event_step), np.inf, event_step)}


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None
