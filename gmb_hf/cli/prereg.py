"""`gmb prereg`: begin a preregistration."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _prereg() -> None:
    """Begin a preregistration."""


@app.command()
def init(
    out: Annotated[Path, typer.Option(help="Where to write it.")] = Path("prereg.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented preregistration to fill in."""
    from gmb_hf.cli.show import written
    from gmb_hf.files import write_text
    from gmb_hf.preregistration.prereg import Prereg
    from gmb_hf.validation import InputError

    if out.exists() and not force:
        raise InputError(f"{out}: is there already; choose another --out, or pass --force")
    write_text(out, Prereg.template())
    lock = shlex.join(["gmb", "lock", "--prereg", str(out), "--runs", "RUNS", "--out", "lock.yaml"])
    written([out], following=f"edit it, then {lock}")
