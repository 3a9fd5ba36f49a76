"""`gmb sequential report`: what is kept, from runs of one design or of several."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from gmb_hf.cli.options import DifferentData


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of gmb sequential run.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write; of one run its own folder, if not given."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Which variant the others are held against; dense, or the first."),
    ] = None,
    allow_fingerprint_mismatch: DifferentData = False,
) -> None:
    """Matrices, retention, forgetting and paired tests: retention.json, tables and figures."""
    from gmb_hf.cli import show, show_retention
    from gmb_hf.validation import InputError
    from gmb_hf.workflows.sequential_reporting import sequential_report

    if out is None and len(runs) > 1:
        raise InputError("--out is missing: name a folder for the report of several runs")
    target = out or runs[0]
    made = sequential_report(
        runs, target, allow_fingerprint_mismatch=allow_fingerprint_mismatch, baseline=baseline
    )
    show_retention.sums(made.summary)
    for note in made.summary.notes:
        show.say(f"note: {note}")
    matrix = shlex.quote(str(target / "tables" / "matrix_loss.md"))
    show.written(list(made.files), following=f"cat {matrix}")
