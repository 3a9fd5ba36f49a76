"""Strata: parts of the runs, named before evaluation, in which a score may work though it fails
on all of them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from gmb_hf.base.documents import Section
from gmb_hf.base.errors import unknown

EVENT_STEP = "event_step"
"""t* of a run; infinite where no event came by the end of its log, which is later than any step."""

Facts = Mapping[str, NDArray[np.float64]]
"""One number per run by name, float64 [R]; NaN: not known."""

_COMPARISON = re.compile(
    r"\s*(?P<name>[A-Za-z_][\w./-]*)\s*(?P<sign><=|>=|==|!=|<|>)\s*(?P<number>\S+)\s*"
)
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Condition:
    """`name sign number`, e.g. `event_step > 1000`."""

    name: str
    sign: str
    number: float


def parse_predicate(where: str) -> tuple[Condition, ...]:
    """The comparisons of a predicate, all of which must hold.

    Raises:
        ValueError: it is no predicate; the message shows one.

    >>> parse_predicate("weight_decay >= 0.5 and seed < 100")[1]
    Condition(name='seed', sign='<', number=100.0)
    """
    found = []
    for part in re.split(r"\s+and\s+", where):
        match = _COMPARISON.fullmatch(part)
        number = _number(match["number"]) if match else np.nan
        if match is None or not np.isfinite(number):
            raise ValueError(
                f"{where!r} is no predicate: write comparisons of a name with a number, joined by "
                f"'and', e.g. {EVENT_STEP} > 1000 and weight_decay >= 0.5"
            )
        found.append(Condition(match["name"], match["sign"], number))
    return tuple(found)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


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
        parse_predicate(where)
        return where

    @property
    def names(self) -> tuple[str, ...]:
        """The facts that the predicate asks for, each once."""
        return tuple(dict.fromkeys(item.name for item in parse_predicate(self.where)))

    def holds(self, facts: Facts) -> NDArray[np.bool_]:
        """Which runs belong to the stratum, bool [R].

        A run whose number is not known belongs to no stratum that asks for it.

        Args:
            facts: by name; the step of the event under `event_step`.

        Raises:
            InputError: a name is not among the facts (the nearest is named).
        """
        met = []
        for item in parse_predicate(self.where):
            if item.name not in facts:
                raise unknown("number of a run", item.name, facts, where=f"stratum {self.name!r}")
            values = facts[item.name]
            met.append(_COMPARE[item.sign](values, item.number) & ~np.isnan(values))
        return np.asarray(np.logical_and.reduce(met))


def event_facts(event_step: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The fact `event_step` of steps t* [R] that are NaN where there was no event."""
    return {EVENT_STEP: np.where(np.isnan(event_step), np.inf, event_step)}
