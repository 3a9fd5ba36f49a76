"""`gmb run`: everything, from seeds to a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    out: Annotated[Path, typer.Option(help="Folder for all of it; an earlier start resumes.")],
    preset: Annotated[
        str, typer.Option(help="smoke, quick, standard, hierarchical, paper or reference.")
    ] = "quick",
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a field: training.lr=3e-3.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Train, explore, lock, evaluate and report; the same command goes on where it stopped."""
    from gmb_hf.cli import show
    from gmb_hf.training.presets import preset as named
    from gmb_hf.workflows.everything import run_everything

    config = named(preset).changed(changes or [])
    finished = run_everything(config, out, device=device, counting=show.counting)
    show.verdicts(finished.evaluation.results, out / "report.md")
    show.checklist(finished.evaluation.results, out)
    for warning in finished.warnings:
        show.say(warning)
    if finished.note:
        show.say(finished.note.replace("`", ""))
    show.written(finished.paths, following=finished.following)
