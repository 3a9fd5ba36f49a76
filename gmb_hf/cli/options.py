"""What commands with the same options ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer
from typer.core import TyperCommand

DifferentData = Annotated[
    bool,
    typer.Option(
        "--allow-fingerprint-mismatch",
        help="Compare runs on different data all the same; every table says so.",
    ),
]


class Several(TyperCommand):
    """A command without arguments, some of whose options take several values after one name."""

    several: ClassVar[Sequence[str]] = ()

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """`--text a b --out c` is read as `--text a --text b --out c`."""
        return super().parse_args(ctx, spread(args, self.several))


def spread(words: Sequence[str], several: Sequence[str]) -> list[str]:
    """Each value of the options named with the option before it.

    >>> spread(["--text", "a", "b", "--out", "c"], ["--text"])
    ['--text', 'a', '--text', 'b', '--out', 'c']
    """
    found: list[str] = []
    option, values = "", 0
    for word in words:
        if word.startswith("-"):
            option, values = word, 0
        else:
            if option in several and values:
                found.append(option)
            values += 1
        found.append(word)
    return found


def typed(context: typer.Context) -> dict[str, str]:
    """The options that stand on the command line: name of the parameter -> as it is typed."""
    return {
        str(parameter.name): parameter.opts[0]
        for parameter in context.command.params
        if getattr(context.get_parameter_source(str(parameter.name)), "name", "") == "COMMANDLINE"
    }


def check_sign(sign: int) -> None:
    """Refuse any sign but +1 and -1."""
    from gmb_hf.errors import InputError

    if sign not in (1, -1):
        raise InputError(f"--sign must be +1 or -1, got {sign}")


def rates(text: str) -> list[float]:
    """False positive rates from text such as `0.01,0.05`, the value of `--fpr`."""
    from gmb_hf.errors import fraction

    found = numbers("--fpr", text, kind="rates", example="0.01,0.05,0.10")
    return [fraction("--fpr", rate) for rate in found]


def numbers(option: str, text: str, *, kind: str = "numbers", example: str) -> tuple[float, ...]:
    """Numbers from text with commas between them; `kind` says what they are, for the error."""
    from gmb_hf.errors import InputError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text!r}: write {kind} with commas, e.g. {example}") from None


# The options that define an event, and which event each of them belongs to.


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
    from gmb_hf.errors import InputError, choose

    choose("value", event, EVENTS, where="--event")
    for name, option in typed(context).items():
        other = _BELONGS.get(name, event)
        if other != event:
            raise InputError(
                f"{option} belongs to {other}; leave it out with --event {event}, or choose "
                f"--event {other}"
            )
    return event
