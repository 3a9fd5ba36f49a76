"""`gmb data`: tasks as files, and datasets as folders."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from gmb_hf.cli import data_build

app = typer.Typer(no_args_is_help=True)
app.add_typer(data_build.app, name="build", help="Write datasets as Parquet with a card.")


@app.callback()
def _data() -> None:
    """Tasks, texts and run logs as datasets."""


@app.command()
def export(
    task: Annotated[str, typer.Option(help="A task, e.g. modular_add or parity_8.")],
    out: Annotated[Path, typer.Option(help="Folder for train.bin and val.bin.")],
    prime: Annotated[int | None, typer.Option(help="Modulus of a modular task.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split and the order.")] = 42,
    fraction: Annotated[float, typer.Option(help="Share of rows to train on.")] = 0.5,
    op_token: Annotated[
        str, typer.Option(help="shared: one token for all operations; distinct: one each.")
    ] = "shared",
) -> None:
    """Write a task as binary shards in the llm.c format, byte for byte as the protocol's."""
    from gmb_hf.cli.show import written
    from gmb_hf.tasks import export_shards
    from gmb_hf.validation import InputError

    try:
        paths = export_shards(task, prime, seed, out, fraction=fraction, op_token=op_token)
    except InputError as error:
        # Shards have the protocol's row length, which is no option here.
        message, _, way_out = str(error).partition(", or a sequence_length of at least")
        if not way_out:
            raise
        raise InputError(f"{message}; shards have rows of the protocol's length") from error
    written(paths, following=f"train on {paths[0]} with any llm.c style trainer")


@app.command()
def verify(
    dataset: Annotated[
        str, typer.Argument(help="A dataset: a folder with its card, or ORG/NAME@REV of the Hub.")
    ],
    config: Annotated[str | None, typer.Option(help="Only this config.")] = None,
    previous: Annotated[
        str | None, typer.Option(help="An earlier version, every item of which must be here.")
    ] = None,
) -> None:
    """Hash a dataset anew and compare it with its card; exit 1 where they differ."""
    from gmb_hf.cli import show
    from gmb_hf.validation import CheckFailed
    from gmb_hf.workflows.frozen import refuse_shrunk
    from gmb_hf.workflows.pulling import dataset_folder
    from gmb_hf.workflows.verifying import verify as verifying

    folder, only = dataset_folder(dataset)
    with show.counting("verifying") as done:
        found = verifying(folder, config or only, on_done=done)
    for one in found.configs:
        verdict = "differs" if one.faults else "as its card says"
        known = f"{one.name} {one.entry.version} {one.entry.fingerprint}"
        show.say_whole("config", f"{known} {verdict}")
        for fact in one.facts:
            show.say(f"note: {fact}")
    for name in found.without:
        show.say(f"note: {name}: the card has no fingerprint of it; it was not verified")
    for fault in found.faults:
        show.say_whole("fault", fault)
    if found.faults:
        count = len(found.faults)
        raise CheckFailed(f"{dataset}: {count} fault{'s' * (count > 1)}, named above")
    if previous is not None:
        refuse_shrunk(folder, dataset_folder(previous)[0])
        show.say(f"Everything in {previous} is in {dataset}.")
    name = found.configs[0].name
    arguments = ", ".join(map(json.dumps, (str(folder), name)))
    call = f"from datasets import load_dataset; print(load_dataset({arguments}))"
    show.written([], following=shlex.join(["python", "-c", call]))


@app.command()
def push(
    folder: Annotated[Path, typer.Argument(help="What `gmb data build` wrote.")],
    repo: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Repository of the Hub.")],
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository private.")
    ] = False,
) -> None:
    """Publish a dataset in one commit, if it is what its card says and nothing frozen changes."""
    from gmb_hf.cli.show import pushed
    from gmb_hf.workflows.pushing import push_dataset

    done = push_dataset(folder, repo, private=private)
    pushed(done, following=f"gmb data verify {repo}@{done.commit}")
