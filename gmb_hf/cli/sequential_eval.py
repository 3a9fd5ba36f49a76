"""`gmb sequential eval`: a saved model on every task of a suite."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    context: typer.Context,
    checkpoint: Annotated[Path, typer.Option(help="A folder that save_pretrained left.")],
    suite: Annotated[str, typer.Option(help="modular or formal.")],
    preset: Annotated[
        str | None,
        typer.Option(help="replication or quick; if not given, that of the checkpoint's own run."),
    ] = None,
    op_token: Annotated[str | None, typer.Option(help="shared or distinct.")] = None,
    prime: Annotated[int | None, typer.Option(help="Modulus of the modular suite.")] = None,
    loss_positions: Annotated[str | None, typer.Option(help="answer or all.")] = None,
    data_seed: Annotated[int | None, typer.Option(help="Draws the split; 42.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a field: suite.train_fraction=0.6.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[Path, typer.Option(help="Where to write it.")] = Path("evaluation.json"),
) -> None:
    """Held-out loss and accuracy of a checkpoint on every task, through the model itself."""
    from rich.text import Text

    from gmb_hf.cli import show
    from gmb_hf.cli.table import Column, Group, lay_out
    from gmb_hf.reporting.escape import number
    from gmb_hf.workflows.sequential_evaluating import evaluate_checkpoint

    names = ("op_token", "prime", "loss_positions", "data_seed")
    found = evaluate_checkpoint(
        checkpoint,
        suite,
        out,
        preset=preset,
        options={name: context.params[name] for name in names},
        changes=changes or [],
        device=device,
    )
    if found.design is not None:
        show.say(f"asked as {found.design} says")
    columns = (Column("task"), Column("loss", right=True), Column("accuracy", right=True))
    rows = [
        [Text(result.task), Text(number(result.loss)), Text(number(result.accuracy))]
        for result in found.results
    ]
    screen = show.console()
    for part in lay_out(columns, [Group(rows)], screen.width):
        screen.print(part)
    screen.print()
    following = ["cat", str(found.path)]
    if found.design is not None:
        following = ["gmb", "sequential", "report", str(found.design.parent)]
    show.written([found.path], following=shlex.join(following))
