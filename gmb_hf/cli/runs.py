"""`gmb runs`: anybody's logs to one table, and a look at them before they are judged."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gmb_hf.runs.verify import Verification


app = typer.Typer(no_args_is_help=True)

Sources = Annotated[
    list[str],
    typer.Option("--runs", help="Run logs: files, folders, globs, or hf://datasets/ORG/NAME@REV."),
]
More = Annotated[
    list[str] | None, typer.Argument(hidden=True, help="What an unquoted glob leaves.")
]
Columns = Annotated[
    str | None,
    typer.Option(help="Metric and scores, with commas: only rows in which all have a value."),
]
StepColumn = Annotated[str, typer.Option(help="Column of steps.")]
RunColumn = Annotated[str, typer.Option(help="Column that tells runs apart.")]

_COUNTS = ("values", "empty", "NaN", "infinite")
_MOST_COLUMNS = 24
_WINDOW = 50  # of `gmb evaluate`, in steps


@app.command("merge", hidden=True)  # reading many logs into one table is merging them
@app.command("read")
def read(
    runs: Sources,
    more_runs: More = None,
    out: Annotated[Path, typer.Option(help="The Parquet file to write.")] = Path("runs.parquet"),
    columns: Columns = None,
    step_column: StepColumn = "step",
    run_column: RunColumn = "run",
    last_rows: Annotated[
        int | None, typer.Option(help="Only so many rows at the end of each log.")
    ] = None,
) -> None:
    """Read logs of any known format into one table."""
    from gmb_hf.cli import screen
    from gmb_hf.errors import InputError
    from gmb_hf.hub.sources import read_runs

    if out.suffix != ".parquet":
        raise InputError(f"--out {out}: the table is written as Parquet; name it *.parquet")
    asked = _names(columns)
    log = read_runs(
        [*runs, *(more_runs or [])],
        step_column=step_column,
        run_column=run_column,
        columns=asked or None,
        last_rows=last_rows,
    )
    log = log.complete(asked)
    path = log.write(out)
    clock = log.panel("step")
    first, last = clock.first_step.min(), clock.last_step.max()
    screen.say(
        f"{len(log.runs)} runs, {log.table.num_rows} rows, {len(log.observables)} columns, steps "
        f"{first:,} to {last:,}."
    )
    _say_notes(log.notes)
    screen.written([path], following=_judging([str(path)], asked))


@app.command("verify")
def verify(
    runs: Sources,
    more_runs: More = None,
    columns: Columns = None,
    step_column: StepColumn = "step",
    run_column: RunColumn = "run",
) -> None:
    """Look at logs before they are judged; exit 1 where something is wrong with them."""
    from gmb_hf.cli import screen
    from gmb_hf.errors import CheckFailed
    from gmb_hf.hub.sources import read_runs
    from gmb_hf.runs import verify as verifying

    sources = [*runs, *(more_runs or [])]
    asked = _names(columns)
    log = read_runs(sources, step_column=step_column, run_column=run_column, columns=asked or None)
    found = verifying.verify(log, asked)
    _print(found)
    for fault in found.faults:
        screen.say_whole("fault", fault)
    if found.faults:
        count = len(found.faults)
        raise CheckFailed(f"{count} fault{'s' * (count > 1)} in these logs, named above")
    screen.say("Nothing is wrong with these logs.")
    keys = ["--step-column", step_column] if step_column != "step" else []
    keys += ["--run-column", run_column] if run_column != "run" else []
    screen.written([], following=_judging([*sources, *keys], asked, spacing=found.spacing))


@app.command("join")
def join(
    runs: Sources,
    scores: Annotated[
        Path, typer.Option(help="Scores by run and step, from anyone: CSV, JSONL or Parquet.")
    ],
    more_runs: More = None,
    score: Annotated[
        list[str] | None,
        typer.Option(help="Its column; several times for several. By default the only one."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The Parquet file to write.")] = Path("joined.parquet"),
    step_column: StepColumn = "step",
    run_column: RunColumn = "run",
) -> None:
    """Scores of the same runs become a column of their log, to be judged like any other."""
    from gmb_hf.cli import screen
    from gmb_hf.errors import InputError
    from gmb_hf.hub.sources import read_runs
    from gmb_hf.runs.joining import join_scores

    if out.suffix != ".parquet":
        raise InputError(f"--out {out}: the table is written as Parquet; name it *.parquet")
    log = read_runs([*runs, *(more_runs or [])], step_column=step_column, run_column=run_column)
    joined = join_scores(log, scores, score or ())
    path = joined.write(out)
    new = [name for name in joined.observables if name not in log.observables]
    screen.say(
        f"{', '.join(new)}: {joined.table.num_rows} checkpoints of {len(joined.runs)} runs have "
        "a score."
    )
    _say_notes(joined.notes)
    screen.written([path], following=_judging([str(path)], ["METRIC", *new]))


@app.command("push")
def push(
    source: Annotated[
        str, typer.Argument(help="Run logs, NAME=LOGS, or a dataset of them (gmb data build runs).")
    ],
    repo: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Repository of the Hub.")],
    license: Annotated[
        str | None, typer.Option(help="Of the logs; Apache-2.0 for what gmb trained.")
    ] = None,
    version: Annotated[
        str, typer.Option(help="Of the set; a later one may only add to what is there.")
    ] = "v1",
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository private.")
    ] = False,
) -> None:
    """Publish run logs as a dataset, in one commit, so that anybody may judge them again."""
    from gmb_hf.cli.screen import pushed
    from gmb_hf.hub.sources import push_runs

    done = push_runs(source, repo, license=license, version=version, private=private)
    pushed(done, following=f"gmb runs verify --runs hf://datasets/{repo}@{done.commit}")


def _print(found: Verification) -> None:
    from gmb_hf.cli import screen
    from gmb_hf.tables import Column, Line, Row, Table

    first, last = found.steps
    spacing = f", every {found.spacing:,}" if found.spacing else ""
    screen.say_whole("runs", f"{len(found.runs):,}: {found.runs[0]} to {found.runs[-1]}")
    screen.say_whole("rows", f"{found.rows:,}, steps {first:,} to {last:,}{spacing}")
    screen.say_whole("hash", found.fingerprint)
    columns = (
        Column("column", shrinks_to=16, take="name"),
        *(Column(head, "{:,}".format, take=head.lower()) for head in _COUNTS),
        Column("lowest", "{:.4g}".format, take="low"),
        Column("highest", "{:.4g}".format, take="high"),
    )
    rows: list[Row | Line] = [*Table.of(found.columns[:_MOST_COLUMNS], columns).rows]
    if len(found.columns) > _MOST_COLUMNS:
        rest = len(found.columns) - _MOST_COLUMNS
        rows.append(Line(f"and {rest} more columns; --columns chooses"))
    screen.console().print()
    screen.table(Table(columns, rows))
    _say_notes(found.remarks)


def _say_notes(notes: Sequence[str]) -> None:
    from gmb_hf.cli import screen

    for note in notes:
        screen.say(f"note: {note}")


def _names(text: str | None) -> list[str]:
    from gmb_hf.errors import InputError

    names = [] if text is None else [name.strip() for name in text.split(",")]
    if "" in names:
        raise InputError(f"--columns {text!r}: write names with commas, e.g. test_acc,score")
    return list(dict.fromkeys(names))


def _judging(sources: Sequence[str], columns: Sequence[str], spacing: int | None = None) -> str:
    """The command that judges these logs: the first column is the metric, the others are scores."""
    metric, *scores = columns or ["COLUMN"]
    command = ["gmb", "evaluate", "--runs", *sources, "--metric", metric]
    for score in scores or ["COLUMN"]:
        command += ["--score", score]
    if spacing and _WINDOW % spacing:
        command += ["--window", str(spacing)]
    return shlex.join([*command, "--horizon", "H", "--safe-gap", "G"])
