"""`gmb heldout`: how well language models predict text held out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gmb_hf.cli import screen as show
from gmb_hf.cli.options import Device, Figures, option, product, several
from gmb_hf.escape import number
from gmb_hf.tables import Column, Line, Row, Table

HeldoutCommand = several("--checkpoint", "--text", "--domain")


def heldout(
    checkpoint: Annotated[
        list[str], option("Folders of saved models with tokenizers: [NAME=]FOLDER ...")
    ],
    out: Annotated[Path, product("Folder for the tables, the figure and heldout.json.", "heldout")],
    text: Annotated[list[str] | None, option("NAME=FILE ..., or names as of --domain.")] = None,
    domain: Annotated[
        list[str] | None,
        option("From the Hub: tinystories, shakespeare, wikitext2, wikitext103, ptb, lambada."),
    ] = None,
    stride: Annotated[
        int | None, option("Tokens between windows; half of a block by default.")
    ] = None,
    block: Annotated[
        int | None, option("Tokens of a window; the model's longest input by default.")
    ] = None,
    batch_size: Annotated[int | None, option("Windows computed at once; 16 by default.")] = None,
    separator: Annotated[
        str | None, option("Between documents of a file; <|endoftext|> by default.")
    ] = None,
    device: Device = "auto",
    figures: Figures = True,
) -> None:
    """Loss, perplexity and bits per byte of language models on text held out."""
    from gmb_hf.errors import choose
    from gmb_hf.language.heldout import evaluate_heldout, write_heldout
    from gmb_hf.tasks.text import DOMAINS, SEPARATOR, read_sources

    domains = [choose("domain", name, tuple(DOMAINS), where="--domain") for name in domain or ()]
    chosen = [*(text or ()), *domains]
    texts = read_sources(chosen, separator=SEPARATOR if separator is None else separator)
    with show.counting("held out") as done:
        found = evaluate_heldout(
            checkpoint,
            texts,
            block=block,
            stride=stride,
            batch=batch_size,
            device=device,
            on_bytes=lambda what, read: done(f"{what}: {read:,} bytes"),
        )
    paths = write_heldout(found, out, figures=figures)
    columns = (
        Column("model", take="model", shrinks_to=16),
        Column("loss", number, take="score.loss"),
        Column("perplexity", lambda value: number(value, 1), take="score.perplexity"),
        Column("bits/byte", number, take="score.bits_per_byte"),
        Column("tokens", "{:,}".format, take="score.tokens"),
    )
    rows: list[Row | Line] = []
    for name, about in found.texts.items():
        counts = f"{about['bytes']:,} bytes, documents: {about['documents']:,}"
        rows.append(Line(f"{name} ({counts})"))
        rows += Table.of((row for row in found.rows if row.text == name), columns).rows
    show.table(Table(columns, rows), above=True)
    cuts = {(about["block"], about["stride"]) for about in found.models.values()}
    shown = "; ".join(f"{block} tokens, stride {stride}" for block, stride in sorted(cuts))
    show.say(f"Windows: {shown}. loss: nats per token. bits/byte compares tokenizers.", style="dim")
    again = ("heldout", "--checkpoint", *checkpoint, "OTHER=FOLDER", "--text", *chosen)
    show.written(paths, following=show.command(*again, out=out))
