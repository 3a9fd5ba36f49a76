"""`gmb data build`: tasks, texts and run logs as folders that `load_dataset` takes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gmb_hf.workflows.building import About, Config

app = typer.Typer(no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder to write to.")]
Version = Annotated[
    str, typer.Option(help="Of the set; a later one may only add to what the folder holds.")
]
Tasks = Annotated[
    list[str] | None, typer.Option("--task", help="Only this task; may be given several times.")
]
Seed = Annotated[int, typer.Option(help="Seed of the splits train and test.")]
Fraction = Annotated[float, typer.Option(help="Share of rows to train on.")]


@app.command()
def modular(
    out: Out,
    task: Tasks = None,
    seed: Seed = 42,
    fraction: Fraction = 0.5,
    op_token: Annotated[
        str, typer.Option(help="distinct: one token for each operation; shared: one for all.")
    ] = "distinct",
    version: Version = "v1",
) -> None:
    """Modular arithmetic: a config for each task, `add_p97` and so on."""
    from gmb_hf.workflows.building_tasks import MODULAR, modular_configs

    configs = modular_configs(task or (), data_seed=seed, fraction=fraction, op_token=op_token)
    _build(configs, out, MODULAR, version)


@app.command()
def formal(
    out: Out,
    task: Tasks = None,
    seed: Seed = 42,
    fraction: Fraction = 0.5,
    version: Version = "v1",
) -> None:
    """Formal languages over bits: a config for each task, `parity_8` and so on."""
    from gmb_hf.workflows.building_tasks import FORMAL, formal_configs

    _build(formal_configs(task or (), data_seed=seed, fraction=fraction), out, FORMAL, version)


def _build(configs: Sequence[Config], out: Path, about: About, version: str) -> None:
    from gmb_hf.cli import show
    from gmb_hf.workflows.building import build

    card = build(configs, out, about, version=version)
    for config in configs:
        show.say_whole("config", config.name)
    show.written([card], following=shlex.join(["gmb", "data", "verify", str(out)]))
