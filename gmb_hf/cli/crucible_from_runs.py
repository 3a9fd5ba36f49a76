"""`gmb crucible from-runs`: bundles of equations, tracked while models learn to solve them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gmb_hf.training.benchmark_settings import BenchmarkSettings
    from gmb_hf.workflows.crucible_from_runs import FromRuns


def from_runs(
    out: Annotated[Path, typer.Option(help="A folder.")],
    preset: Annotated[
        str, typer.Option(help="smoke, quick, standard, hierarchical, paper or reference.")
    ] = "quick",
    seeds: Annotated[str, typer.Option(help="Of the runs, e.g. 0:4 or 3,7.")] = "0:4",
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a field: training.lr=3e-3.")
    ] = None,
    every: Annotated[
        int | None, typer.Option(help="Steps between checkpoints; the preset's by default.")
    ] = None,
    bundles: Annotated[int, typer.Option(help="Bundles of each seed.")] = 512,
    negatives: Annotated[int, typer.Option(help="Negatives in a bundle.")] = 16,
    bundle_seed: Annotated[int, typer.Option(help="Of the drawing of the bundles.")] = 0,
    model: Annotated[
        Path | None,
        typer.Option(help="Ask this saved model instead of training; --seeds is its seed."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Train seeds and ask each the same at every checkpoint: which equations have one answer?"""
    from gmb_hf.cli import show
    from gmb_hf.cli.crucible_board import print_board
    from gmb_hf.training.presets import preset as named
    from gmb_hf.training.seeds import parse_seeds
    from gmb_hf.validation import InputError
    from gmb_hf.workflows.crucible_drawing import Drawing

    spaced = [] if every is None else [f"training.checkpoint_every={every}"]
    config = named(preset).changed([*(changes or []), *spaced])
    wanted = parse_seeds(seeds)
    drawing = Drawing(bundles, negatives, bundle_seed)
    if model is None:
        from gmb_hf.workflows.crucible_from_runs import from_runs as ask_runs

        found = ask_runs(config, wanted, out, drawing=drawing, device=device)
        _print_course(found)
        print_board(found.asked.board)
        for note in found.notes:
            show.say(f"note: {note}")
        show.say_whole("compare", _comparing(out))
        show.written(list(found.paths), following=_following(config.benchmark, out))
        return
    if len(wanted) != 1:
        raise InputError(
            f"--seeds {seeds}: a saved model is one run; give its one seed, e.g. --seeds 0"
        )
    from gmb_hf.workflows.crucible_asked import ask_model

    asked = ask_model(model, config, wanted[0], out, drawing=drawing)
    print_board(asked.board)
    show.written(list(asked.paths), following=_comparing(out))


def _print_course(found: FromRuns) -> None:
    from gmb_hf.cli import show
    from gmb_hf.reporting.escape import number
    from gmb_hf.workflows.crucible_course import course_of

    course = course_of(found.log, found.events)
    places = [("at memorisation", course.memorised), ("at t*", course.event)]
    q10 = [f"{number(value)} {when}" for when, value in places if value is not None]
    show.say(
        f"q10 of the held-out margins: {', '.join([*q10, f'{number(course.last)} at the end'])} "
        f"(medians; {course.n_runs:,} runs, {course.n_events:,} with an event).",
        style="bold",
    )
    if course.share is not None:
        show.say(f"of its rise since memorisation, {number(course.share)} came before t* (median)")


def _following(design: BenchmarkSettings, out: Path) -> str:
    command = ["gmb", "evaluate", "--runs", str(out / "logs"), "--metric", "test_acc"]
    command += ["--score", "crucible_margin_q10"]
    command += ["--horizon", str(design.horizon)]
    command += ["--safe-gap", str(design.safe_gap)]
    return shlex.join(command)


def _comparing(out: Path) -> str:
    """Of a training with the same seeds and task: the items are the same."""
    return shlex.join(
        ["gmb", "crucible", "compare", str(out / "scoreboard.json"), "OTHER/scoreboard.json"]
    )
