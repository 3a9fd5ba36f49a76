"""`gmb heldout` and `gmb benchmark`: language models on text held out, and on lm-eval's tasks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from gmb_hf.cli import output, screen
from gmb_hf.cli.options import Device, Figures, argument, option, product, several
from gmb_hf.escape import number, p_value
from gmb_hf.tables import Column, Line, Row, Table

HeldoutCommand = several("--checkpoint", "--text", "--domain")
BenchmarkCommand = several()


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
    with screen.counting("held out") as done:
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
    screen.table(Table(columns, rows), above=True)
    cuts = {(about["block"], about["stride"]) for about in found.models.values()}
    shown = "; ".join(f"{block} tokens, stride {stride}" for block, stride in sorted(cuts))
    screen.say(
        f"Windows: {shown}. loss: nats per token. bits/byte compares tokenizers.", style="dim"
    )
    again = ("heldout", "--checkpoint", *checkpoint, "OTHER=FOLDER", "--text", *chosen)
    screen.written(paths, following=screen.command(*again, out=out))


def benchmark(
    checkpoints: Annotated[
        list[str],
        argument("Saved models with tokenizers, or repositories.", metavar="[NAME=]CHECKPOINT..."),
    ],
    tasks: Annotated[str, option("Of lm-eval, with commas, e.g. lambada_openai; or FILE.yaml.")],
    out: Annotated[Path, product("Folder; an earlier start resumes.", "benchmark")],
    num_fewshot: Annotated[
        int | None, option("Examples before a question; what the task says by default.")
    ] = None,
    limit: Annotated[int | None, option("Questions of each task; all by default.")] = None,
    batch_size: Annotated[int | None, option("Rows computed at once; 16 by default.")] = None,
    baseline: Annotated[
        str | None, option("Which checkpoint the others are held against; the first.")
    ] = None,
    device: Device = "auto",
    figures: Figures = True,
) -> None:
    """Standard benchmarks by lm-eval: scores with their errors, and checkpoints compared."""
    from gmb_hf.answers.standard import evaluate_standard, sentences, write_standard

    quiet = output.current().quiet or not sys.stderr.isatty()
    with screen.counting("checkpoints", len(checkpoints)) as done:
        found = evaluate_standard(
            checkpoints,
            [name.strip() for name in tasks.split(",") if name.strip()],
            out,
            shots=num_fewshot,
            limit=limit,
            batch=batch_size,
            device=device,
            baseline=baseline,
            quiet=quiet,
            on_model=done,
        )
    paths = write_standard(found, out, figures=figures)
    columns = [
        Column("task", take="task", shrinks_to=12),
        Column("metric", take="metric"),
        Column("model", take="model", shrinks_to=12),
        Column("value", number, take="value"),
        Column("± stderr", number, take="stderr"),
        Column("samples", "{:,}".format, take="samples"),
    ]
    screen.table(Table.of(found.scores, columns), above=True)
    pairs = [
        Column("task", take="task", shrinks_to=12),
        Column("metric", take="metric"),
        Column(f"less {found.baseline}", take="model", shrinks_to=12),
        Column("difference", number, take="difference"),
        Column("p", p_value, take="p_adjusted"),
    ]
    if found.comparisons:
        screen.table(Table.of(found.comparisons, pairs), above=True)
    for sentence in sentences(found):
        screen.say(sentence)
    screen.notes(found.notes)
    given = (*checkpoints, "OTHER=FOLDER")
    screen.written(paths, following=screen.command("benchmark", *given, tasks=tasks, out=out))
