"""`gmb benchmark`: checkpoints on the tasks of lm-eval."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from gmb_hf.cli import output, screen
from gmb_hf.cli.options import Device, Figures, argument, option, product, several
from gmb_hf.escape import number, p_value
from gmb_hf.tables import Column, Table

BenchmarkCommand = several()


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
