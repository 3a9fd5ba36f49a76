"""`gmb run`: everything, from seeds to a verdict."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gmb_hf.cli.options import DesignCommand, Figures, check_event, design_fields


class RunCommand(DesignCommand):
    """`gmb run`: what is trained, and on which seeds, is said by --preset and --set."""

    without: ClassVar[Sequence[str]] = ("boundary",)


def run(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for all of it; an earlier start resumes.")],
    preset: Annotated[
        str, typer.Option(help="smoke, quick, standard, hierarchical, paper or reference.")
    ] = "quick",
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a field: training.lr=3e-3.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    figures: Figures = True,
) -> None:
    """Train, explore, lock, evaluate and report; the same command goes on where it stopped."""
    from gmb_hf.cli import screen as show
    from gmb_hf.run import run as run_all
    from gmb_hf.training.presets import preset as named

    config = named(preset).changed(changes or [])
    fields = design_fields(context)
    check_event(context, fields.get("event_type", config.benchmark.design().event_type))
    config = config.judged_by(**fields)
    finished = run_all(config, out, device=device, figures=figures, counting=show.counting)
    show.verdicts(finished.evaluation.results, out / "report.md")
    show.checklist(finished.evaluation.results, out)
    for warning in finished.warnings:
        show.say(warning)
    if finished.note:
        show.say(finished.note.replace("`", ""))
    show.written(finished.paths, following=finished.following)


# `gmb train`: run logs only.


def train(
    out: Annotated[Path, typer.Option(help="Folder for the run logs; an earlier start resumes.")],
    preset: Annotated[
        str, typer.Option(help="smoke, quick, standard, hierarchical, paper or reference.")
    ] = "quick",
    seeds: Annotated[
        str | None, typer.Option(help="E.g. 0:64 or 3,7; the preset's seeds by default.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a field: training.lr=3e-3.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="stacked: many seeds at once; single: one model at a time.")
    ] = "stacked",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data: Annotated[
        str | None, typer.Option(help="The task's rows from the Hub: ORG/NAME@REV.")
    ] = None,
    save_models: Annotated[
        str | None, typer.Option(help="Keep the models of these seeds, e.g. 0:4, in OUT/models.")
    ] = None,
) -> None:
    """Train many seeds of a preset and log what happens inside them."""
    from gmb_hf.cli.screen import written
    from gmb_hf.hub.sources import data_source
    from gmb_hf.training.config import parse_seeds
    from gmb_hf.training.presets import preset as named
    from gmb_hf.training.single import train_seeds

    config = named(preset).changed(changes or [])
    wanted = parse_seeds(seeds or f"{config.seeds.explore},{config.seeds.evaluate}")
    keep = parse_seeds(save_models) if save_models else ()
    about = data_source(data, config.task) if data else None
    paths = train_seeds(config, wanted, out, engine=engine, device=device, about=about, keep=keep)
    written(paths, following=shlex.join(["gmb", "explore", "--runs", str(out / "logs")]))
