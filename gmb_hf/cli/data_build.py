"""`gmb data build`: tasks, texts and run logs as folders that `load_dataset` takes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gmb_hf.cli.options import Several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gmb_hf.workflows.building import About, Config

app = typer.Typer()

Out = Annotated[Path, typer.Option(help="Folder to write to.")]
Version = Annotated[
    str, typer.Option(help="Of the set; a later one may only add to what the folder holds.")
]
Tasks = Annotated[
    list[str] | None, typer.Option("--task", help="Only this task; may be given several times.")
]
Seed = Annotated[int, typer.Option(help="Seed of the splits train and test.")]
Fraction = Annotated[float, typer.Option(help="Share of rows to train on.")]

Texts = Annotated[
    list[str] | None,
    typer.Option("--text", help="NAME=FILE, or tinystories, shakespeare, wikitext2 of the Hub."),
]
TextLicense = Annotated[
    list[str] | None,
    typer.Option("--license", help="[NAME=]LICENCE of texts that are none of the three."),
]
Runs = Annotated[list[str] | None, typer.Option("--runs", help="Run logs: FOLDER, or NAME=FOLDER.")]
_RUNS_LICENSE = "[NAME=]LICENCE of run logs, as the Hub names it; Apache-2.0 for what gmb trained."
RunsLicense = Annotated[list[str] | None, typer.Option("--license", help=_RUNS_LICENSE)]


class _Heldout(Several):
    several = ("--text", "--license")


class _Runs(Several):
    several = ("--runs", "--license")


@app.callback(invoke_without_command=True)
def everything(
    context: typer.Context,
    all_: Annotated[bool, typer.Option("--all", help="Every dataset, each in its folder.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the folders.")] = Path("out"),
    text: Texts = None,
    license: TextLicense = None,
    runs: Runs = None,
    runs_license: Annotated[list[str] | None, typer.Option(help=_RUNS_LICENSE)] = None,
    version: Version = "v1",
) -> None:
    """Write datasets: one kind (below), or `--all`, texts and run logs where they are given."""
    if context.invoked_subcommand is not None:
        return
    from gmb_hf.validation import InputError

    if not all_:
        raise InputError("say what to build: modular, formal, heldout, runs, or --all")
    modular(out / "gmb-modular", version=version)
    formal(out / "gmb-formal", version=version)
    if text:
        heldout(out / "gmb-heldout", text, license, version=version)
    if runs:
        runs_(out / "gmb-runs", runs, runs_license, version=version)


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


@app.command(cls=_Heldout)
def heldout(
    out: Out,
    text: Texts = None,
    license: TextLicense = None,
    separator: Annotated[
        str, typer.Option(help="What stands between the documents of a file.")
    ] = "<|endoftext|>",
    version: Version = "v1",
) -> None:
    """Held-out text: a config for each text, its documents in pieces."""
    from gmb_hf.tasks.text_sources import read_sources
    from gmb_hf.workflows.building_heldout import HELD_OUT, heldout_configs

    texts = read_sources(text or (), separator=separator)
    _build(heldout_configs(texts, license or ()), out, HELD_OUT, version)


@app.command("runs", cls=_Runs)
def runs_(
    out: Out,
    runs: Runs = None,
    license: RunsLicense = None,
    version: Version = "v1",
) -> None:
    """Run logs: a config for each source, from which anybody may judge a score again."""
    from gmb_hf.workflows.building_runs import RUNS, runs_configs

    _build(runs_configs(runs or (), license or ()), out, RUNS, version)


def _build(configs: Sequence[Config], out: Path, about: About, version: str) -> None:
    from gmb_hf.cli import show
    from gmb_hf.workflows.building import build

    card = build(configs, out, about, version=version)
    for config in configs:
        show.say_whole("config", config.name)
    show.written([card], following=shlex.join(["gmb", "data", "verify", str(out)]))
