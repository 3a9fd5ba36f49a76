"""`gmb model`: trained models on the Hub."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _model() -> None:
    """Models that a training kept."""


@app.command()
def push(
    checkpoint: Annotated[
        Path, typer.Argument(help="What --save-models kept, e.g. runs/quick/models/seed_1000.")
    ],
    repo: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Repository of the Hub.")],
    results: Annotated[
        Path | None, typer.Option(help="A results.yaml, for the card's table of verdicts.")
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository private.")
    ] = False,
) -> None:
    """Publish a checkpoint with its log and a card, in one commit."""
    from gmb_hf.cli.screen import pushed
    from gmb_hf.hub.models import push_model

    done = push_model(checkpoint, repo, results=results, private=private)
    call = (
        "import gmb_hf.modeling, transformers as t; "
        f"t.AutoModelForCausalLM.from_pretrained({repo!r}, revision={done.commit!r})"
    )
    pushed(done, following=f"python -c {shlex.quote(call)}")
