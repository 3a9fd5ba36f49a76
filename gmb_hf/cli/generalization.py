"""`gmb generalization`: variants compared at equal training loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gmb_hf.cli.options import DifferentData


def generalization(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=PATH...",
            help="Run logs of each variant: files, folders or globs; a name may come again.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("generalization"),
    baseline: Annotated[
        str | None,
        typer.Option(help="Which variant the others are held against; dense, or the first."),
    ] = None,
    train: Annotated[str | None, typer.Option(help="Column of the training loss.")] = None,
    validation: Annotated[str | None, typer.Option(help="Column of the validation loss.")] = None,
    points: Annotated[int, typer.Option(help="Training losses that are looked at.")] = 32,
    allow_fingerprint_mismatch: DifferentData = False,
) -> None:
    """Validation loss at equal training loss, best and final losses, and the gap over training."""
    import shlex

    from gmb_hf.cli import show, show_retention
    from gmb_hf.workflows import generalising

    found, variants = generalising.compare_logs(
        generalising.named_sources(logs),
        train=train,
        validation=validation,
        baseline=baseline,
        points=points,
        allow_fingerprint_mismatch=allow_fingerprint_mismatch,
    )
    files = generalising.write_generalised(found, variants, out)
    show_retention.generalised(found)
    for note in found.notes:
        show.say(f"note: {note}")
    table = shlex.quote(str(out / "tables" / "generalization_losses.md"))
    show.written(files, following=f"cat {table}")
