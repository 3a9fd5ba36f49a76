"""`gmb sequential run`: every variant through the tasks of a suite, then the report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def run(
    context: typer.Context,
    suite: Annotated[str, typer.Option(help="modular or formal.")],
    out: Annotated[Path, typer.Option(help="Folder for all of it; an earlier start resumes.")],
    preset: Annotated[str, typer.Option(help="replication or quick.")] = "quick",
    variants: Annotated[
        str,
        typer.Option(help="E.g. dense,banded-256,sort-4,blend-8,hebbian-4; + joins two in one."),
    ] = "dense",
    seeds: Annotated[str, typer.Option(help="E.g. 0:8 or 1337,42,7.")] = "0:8",
    order: Annotated[
        str | None, typer.Option(help="Tasks in the order of training, with commas.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option(help="Updates in each phase, or one number a phase: 500,1000,...")
    ] = None,
    stop_loss: Annotated[
        float | None,
        typer.Option(help="Held-out loss at which a seed's phase ends; --set can say none."),
    ] = None,
    stop_early: Annotated[
        str | None, typer.Option(help="In which phases, e.g. 1,2; all if not given.")
    ] = None,
    carry_optimizer: Annotated[
        bool, typer.Option("--carry-optimizer", help="Keep AdamW's moments from phase to phase.")
    ] = False,
    op_token: Annotated[
        str | None,
        typer.Option(help="shared: one token for all operations, as published; or distinct."),
    ] = None,
    loss_positions: Annotated[
        str | None, typer.Option(help="answer, or all: the loss over every token of the rows.")
    ] = None,
    compat_batch: Annotated[
        bool, typer.Option("--compat-batch", help="Drop the last training row, as published.")
    ] = False,
    data_seed: Annotated[int | None, typer.Option(help="Draws the split; 42.")] = None,
    prime: Annotated[int | None, typer.Option(help="Modulus of the modular suite.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a field: training.lr=3e-3.")
    ] = None,
    save_models: Annotated[
        str, typer.Option(help="Keep models after the last phase, after all, or none.")
    ] = "last",
    track: Annotated[
        list[str] | None, typer.Option(help="tensorboard, trackio or wandb; several are possible.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Groups of seeds trained at a time; on a CPU one a core if not given."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Train tasks one after the other and evaluate all of them after each; resumes."""
    from gmb_hf.cli import show, show_retention
    from gmb_hf.training.seeds import parse_seeds
    from gmb_hf.workflows.sequential import SHORT, parse_variants, run_sequential, sequential_config

    options = {name: context.params[name] for name in ("steps", *SHORT)}
    config = sequential_config(suite, preset, options, changes or [])
    finished = run_sequential(
        config,
        parse_variants(variants),
        parse_seeds(seeds),
        out,
        device=device,
        save_models=save_models,
        track=track or [],
        jobs=jobs,
    )
    assert finished is not None  # this is the only process
    show_retention.sums(finished.summary)
    for note in finished.notes:
        show.say(f"note: {note}")
    show.written(finished.paths, following=shlex.join(finished.following))
