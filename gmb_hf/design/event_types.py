"""Types of events: what a design, its linter and `gmb lock --explain` must know of each of them.

`benchmark/events.py` finds the events in run logs. Spec: GMB v0.4, section 1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from gmb_hf.base.documents import Section


@dataclass(frozen=True)
class EventDefinition:
    """What a design must know of a type of event; `benchmark/events.py` finds it in run logs.

    Attributes:
        tell: which step t* is, in a sentence, from a `Design`.
        fields: the fields of the design that it reads; check them where no run has such an event.
        required: those of them that must be given.
        published: values of fields that are written into the design where none is given.
    """

    tell: Callable[[Any], str]
    fields: tuple[str, ...]
    required: tuple[str, ...] = ()
    published: Mapping[str, Any] = field(default_factory=dict)


def _tell_jump(design: Any) -> str:
    moves = "falls" if design.falling else "rises"
    return (
        f"first step at which {design.metric} {moves} by at least {design.jump_threshold:g} within "
        f"{design.w_event:,} steps"
    )


def _tell_plateau(design: Any) -> str:
    dips = design.plateau_regression
    inside, outside = ("below", "above") if design.falling else ("above", "below")
    allowed = f", of which up to {dips} in a row may lie {outside}" if dips else ""
    return (
        f"first of {design.plateau_checkpoints} consecutive checkpoints with {design.metric} at or "
        f"{inside} {design.plateau_threshold:g}{allowed}"
    )


def _tell_onset(design: Any) -> str:
    known = f" ({design.chance:.3g})" if design.chance else ", which the logs say"
    return (
        f"first of {design.plateau_checkpoints} consecutive checkpoints with {design.metric} at or "
        f"above {design.chance_multiple:g} times chance{known}"
    )


def _tell_regime(design: Any) -> str:
    return (
        f"step at which force, info and constraint, each at or above its "
        f"{design.regime_quantile:g} quantile of the run, move together within "
        f"{design.regime_radius:,} steps (PT-MSS); alternate estimates must see it within "
        f"{design.regime_tolerance:,} steps and in the same order. Runs that PT-MSS finds "
        "INCONCLUSIVE or ESTIMATOR_UNSTABLE are excluded"
    )


EVENT_TYPES: dict[str, EventDefinition] = {
    "E_jump": EventDefinition(_tell_jump, ("metric", "direction", "jump_threshold", "w_event")),
    "E_plateau": EventDefinition(
        _tell_plateau,
        ("metric", "direction", "plateau_threshold", "plateau_checkpoints"),
        required=("plateau_checkpoints", "plateau_threshold"),
    ),
    "E_onset": EventDefinition(
        _tell_onset,
        ("metric", "chance", "chance_multiple", "plateau_checkpoints"),
        published={"chance_multiple": 3.0, "plateau_checkpoints": 5},
    ),
    "E_regime": EventDefinition(
        _tell_regime,
        ("regime_quantile", "regime_radius"),
        required=("regime_radius",),
        published={"regime_quantile": 0.99, "regime_tolerance": 15},
    ),
}
"""Every type by its name in a design; `register_event` of `benchmark/events.py` adds to them."""


def registered_event(name: Any) -> Any:
    """The name of a registered type; pydantic's error of a wrong choice where it is none."""
    if isinstance(name, str) and name in EVENT_TYPES:
        return name
    *others, last = map(repr, EVENT_TYPES)
    known = {"expected": f"{', '.join(others)} or {last}"}
    raise PydanticCustomError("literal_error", "Input should be {expected}", known)


class AlsoEvent(Section):
    """Another event of the same runs, of which the same scores are to warn."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[str, BeforeValidator(registered_event)] = Field(
        description="its type; further keys as in the section `event`, the rest as there",
        examples=["E_jump"],
    )

    @property
    def keys(self) -> dict[str, Any]:
        """What it changes in the section `event`."""
        return {"type": self.type, **(self.model_extra or {})}
