"""The options that define an event, and which event each of them belongs to."""

from __future__ import annotations

from typing import Annotated

import typer

from gmb_hf.cli.options import typed

EVENTS = ("E_jump", "E_plateau", "E_regime")

EventType = Annotated[str, typer.Option(help="E_jump, E_plateau or E_regime.")]
PlateauCheckpoints = Annotated[
    int | None, typer.Option(help="E_plateau: consecutive checkpoints that hold the level.")
]
PlateauLevel = Annotated[float | None, typer.Option(help="E_plateau: the level of the metric.")]
PlateauRegression = Annotated[
    int | None, typer.Option(help="E_plateau: so many of them in a row may lie below.")
]
Quantile = Annotated[
    float | None, typer.Option(help="E_regime: a signal moves at this quantile; 0.99.")
]
Radius = Annotated[
    int | None, typer.Option(help="E_regime: signals so many steps from t move together.")
]
Tolerance = Annotated[
    int | None, typer.Option(help="E_regime: steps by which alternate signals may differ; 15.")
]

OPTION_OF = {
    "event: E_plateau needs x_plateau_checkpoints and x_plateau_threshold": (
        "--event E_plateau needs --plateau-checkpoints and --plateau-level"
    ),
    "event: E_regime needs x_regime_radius": "--event E_regime needs --radius",
    "event.x_plateau_checkpoints": "--plateau-checkpoints",
    "event.x_plateau_threshold": "--plateau-level",
    "event.x_plateau_regression": "--plateau-regression",
    "event.x_regime_quantile": "--quantile",
    "event.x_regime_radius": "--radius",
    "event.x_regime_tolerance": "--tolerance",
    "event: x_plateau_regression": "--plateau-regression",
    "x_plateau_checkpoints": "--plateau-checkpoints",
    "x_plateau_threshold": "--plateau-level",
    "x_regime_quantile": "--quantile",
    "x_regime_radius": "--radius",
}
"""Fields of a preregistration as they are called on the command line."""

_BELONGS = {
    "window": "E_jump",
    "jump": "E_jump",
    "floor": "E_jump",
    "plateau_checkpoints": "E_plateau",
    "plateau_level": "E_plateau",
    "plateau_regression": "E_plateau",
    "quantile": "E_regime",
    "radius": "E_regime",
    "tolerance": "E_regime",
}


def check_event(context: typer.Context, event: str) -> str:
    """The event, if it exists and no option of another one was typed.

    Raises:
        InputError: either; an option that would be passed over must not look as if it counted.
    """
    from gmb_hf.validation import InputError, choose

    choose("value", event, EVENTS, where="--event")
    for name, option in typed(context).items():
        other = _BELONGS.get(name, event)
        if other != event:
            raise InputError(
                f"{option} belongs to {other}; leave it out with --event {event}, or choose "
                f"--event {other}"
            )
    return event
