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
    from gmb_hf.validation import InputError

    if sign not in (1, -1):
        raise InputError(f"--sign must be +1 or -1, got {sign}")


def rates(text: str) -> list[float]:
    """False positive rates from text such as `0.01,0.05`, the value of `--fpr`."""
    from gmb_hf.validation import fraction

    found = numbers("--fpr", text, kind="rates", example="0.01,0.05,0.10")
    return [fraction("--fpr", rate) for rate in found]


def numbers(option: str, text: str, *, kind: str = "numbers", example: str) -> tuple[float, ...]:
    """Numbers from text with commas between them; `kind` says what they are, for the error."""
    from gmb_hf.validation import InputError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text!r}: write {kind} with commas, e.g. {example}") from None
