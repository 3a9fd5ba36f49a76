"""`gmb scaling`: a grid of trainings, and the law that its losses follow."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gmb_hf.cli import screen
from gmb_hf.cli.options import App, Changes, Device, Figures, argument, option, product, several
from gmb_hf.errors import InputError
from gmb_hf.tables import Column, Table

if TYPE_CHECKING:
    from gmb_hf.scaling.fit import ScalingFit

app = App()


@app.command(cls=several("--grid", "--text"))
def run(
    grid: Annotated[list[str], option("params=1k,3k,10k tokens=64k,256k; all combinations.")],
    out: Annotated[Path, product("Folder of the grid; the same command resumes.", "runs/scaling")],
    source: Annotated[
        str | None, option("markov, or markov:seed=1,symbols=4,order=8,scale=1.2,decay=0.5.")
    ] = None,
    text: Annotated[
        list[str] | None, option("NAME=FILE ..., or tinystories, shakespeare from the Hub.")
    ] = None,
    variants: Annotated[str, option("E.g. dense,banded-64,sort-4.")] = "dense",
    seeds: Annotated[str, option("E.g. 0:3 or 1337,42,7.")] = "0:3",
    changes: Changes = None,
    save_models: Annotated[bool, option("Keep the trained models.", "--save-models")] = False,
    device: Device = "auto",
) -> None:
    """Train a grid of sizes, tokens, variants and seeds, on text or a source of known entropy."""
    from gmb_hf.scaling.grid import ScalingConfig, grid_notes, parse_grid, run_grid
    from gmb_hf.scaling.source import parse_source
    from gmb_hf.sequential.run import parse_variants
    from gmb_hf.tasks.text import read_sources
    from gmb_hf.training.config import parse_seeds
    from gmb_hf.training.launch import chosen_device, make_accelerator

    if text and source is not None:
        raise InputError("--text and --source are both given; train a grid on one of them")
    config, cells = ScalingConfig().changed(changes or []), parse_grid(grid)
    chosen = None if text else parse_source(source or "markov")
    accelerator = make_accelerator(cpu=chosen_device(device) == "cpu")
    found = run_grid(
        config,
        cells,
        parse_variants(variants),
        parse_seeds(seeds),
        out,
        source=chosen,
        texts=read_sources(text, held_out=False) if text else (),
        accelerator=accelerator,
        save_models=save_models,
    )
    if not accelerator.is_main_process:
        return
    columns = (
        Column("variant", take="variant", shrinks_to=12),
        Column("N", "{:,}".format, take="non_embedding"),
        Column("tokens", "{:,}".format, take="tokens"),
        Column("seed", str, take="seed"),
        Column("FLOPs", "{:.2e}".format, take="flops"),
        Column("loss", "{:.4f}".format, take=lambda one: None if one.diverged else one.loss),
        Column("floor", "{:.4f}".format, take="floor"),
    )
    screen.table(Table.of(found, columns), above=True)
    screen.say("loss: held out, nats per token; N: parameters without embeddings.", style="dim")
    screen.notes(grid_notes(found))
    following = shlex.join(["gmb", "scaling", "fit", str(out)])
    screen.written([out / "scaling.yaml", out / "cells"], following=following)


@app.command()
def fit(
    folder: Annotated[Path, argument("Folder of gmb scaling run.")],
    out: Annotated[Path | None, option("Where to write; fit/ in the folder if not given.")] = None,
    count: Annotated[
        str, option("What N counts: non_embedding, or parameters for all of them.")
    ] = "non_embedding",
    draws: Annotated[int, option("Of the bootstrap.")] = 1000,
    seed: Annotated[int, option("Of the draws.")] = 0,
    baseline: Annotated[
        str | None, option("Which variant the others are held against; dense, or the first.")
    ] = None,
    figures: Figures = True,
) -> None:
    """Fit L(N, D) = A/N^alpha + B/D^beta + E with intervals; compare variants at equal compute."""
    from gmb_hf.scaling.report import scaling_report

    options = {"count": count, "draws": draws, "seed": seed, "baseline": baseline}
    found, files = scaling_report(folder, out, figures=figures, **options)  # type: ignore[arg-type]
    _print_fit(found)
    target = files[0].parent
    following = shlex.join(["cat", str(target / "tables" / "law.md")])
    screen.written(files, following=following)


def _print_fit(found: ScalingFit) -> None:
    """The laws, the sentences and the notes."""
    from gmb_hf.scaling.report import scaling_sentences, shown

    names = ("alpha", "beta", "E", "optimal_n")
    columns = [Column("variant", shrinks_to=12), Column("cells", str)]
    columns += [Column(name.replace("_", " "), shown, align="r") for name in names]
    columns.append(Column("exact E", "{:.4f}".format))
    rows = [
        (name, one.cells, *(one.numbers[key] for key in names), one.known)
        for name, one in found.variants.items()
    ]
    screen.answered(fit=found)
    screen.table(Table(columns, rows), above=True)
    for sentence in scaling_sentences(found):
        screen.say(sentence)
    notes = [*found.notes, *(note for one in found.variants.values() for note in one.notes)]
    screen.notes(notes)
