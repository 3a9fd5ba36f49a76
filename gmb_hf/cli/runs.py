"""`gmb runs` and `gmb audit`: anybody's logs, looked at before they are judged.

Options:
    columns: Metric and scores, with commas: only rows in which all have a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gmb_hf.base.errors import InputError
from gmb_hf.base.tables import Column, Line, Row, Table, section
from gmb_hf.cli import options, screen
from gmb_hf.cli.options import App

if TYPE_CHECKING:
    from gmb_hf.runs.runlog import RunLog

app = App()
LogsCommand = options.several("--runs")

_COUNTS = ("values", "empty", "NaN", "infinite")
_MOST_COLUMNS = 24
# Labels of PT-MSS; those that need a look come first.
_LABELS = ("REGISTERED_TRANSITION", "ESTIMATOR_UNSTABLE", "NO_TRANSITION", "INCONCLUSIVE")
_MOST_RUNS = 12  # of a label


@app.command("example")
def example(out: Path) -> None:
    """Write finished trainings as CSV files, one a run, to try the other commands on.

    Options:
        out (my): The folder for them.
    """
    from gmb_hf.runs.example import COLUMNS, write_example

    paths = write_example(out)
    columns = ",".join(COLUMNS[-2:])
    screen.say(f"{len(paths)} trainings of a small transformer that learns subtraction modulo 29.")
    screen.written(paths, following=screen.command("runs", "verify", runs=out, columns=columns))


# Reading many logs into one table is merging them.
@app.command("merge", cls=LogsCommand, hidden=True)
@app.command("read", cls=LogsCommand)
def read(
    runs: list[str],
    out: Path,
    columns: str | None = None,
    step_column: str = "step",
    run_column: str = "run",
    last_rows: int | None = None,
) -> None:
    """Read logs of any known format into one table.

    Options:
        out (runs.parquet): The Parquet file to write.
        last_rows: Only so many rows at the end of each log.
    """
    from gmb_hf.hub.sources import read_runs

    _check_parquet(out)
    asked = _names(columns)
    log = read_runs(
        runs,
        step_column=step_column,
        run_column=run_column,
        columns=asked or None,
        last_rows=last_rows,
    ).complete(asked)
    path, clock = log.write(out), log.panel("step")
    first, last = clock.first_step.min(), clock.last_step.max()
    screen.answered(
        runs=log.runs, rows=log.table.num_rows, columns=log.observables, steps=[first, last]
    )
    screen.say(
        f"{len(log.runs)} runs, {log.table.num_rows} rows, {len(log.observables)} columns, steps "
        f"{first:,} to {last:,}."
    )
    screen.notes(log.notes)
    screen.written([path], following=_judging(log, [str(path)], *asked))


class VerifyCommand(options.DesignCommand):
    """With the options that define an event."""

    only = ("event", "x_nan", "x_also_events")


@app.command("verify", cls=VerifyCommand)
def verify(
    context: typer.Context,
    runs: list[str],
    columns: str | None = None,
    step_column: str = "step",
    run_column: str = "run",
) -> None:
    """Look at logs before they are judged; exit 1 where something is wrong with them.

    It says where the events of --metric fall, of test_acc where that is a column.
    """
    from gmb_hf.hub.sources import read_runs
    from gmb_hf.runs import verify as verifying

    event = options.design_fields(context)
    metric = [event["metric"]] if "metric" in event else []
    asked = list(dict.fromkeys([*metric, *_names(columns)]))
    read = partial(read_runs, runs, step_column=step_column, run_column=run_column)
    log = read(columns=asked or None)
    usual = verifying.likely_metric(log)
    shown_by = next(iter(metric), usual)
    found = verifying.verify(log, asked, metric=shown_by, whole=read)
    screen.answered(verification=found)
    first, last = found.steps
    spaced = f", every {found.spacing:,}" if found.spacing else ""
    screen.say_whole("runs", f"{len(found.runs):,}: {found.runs[0]} to {found.runs[-1]}")
    screen.say_whole("rows", f"{found.rows:,}, steps {first:,} to {last:,}{spaced}")
    screen.say_whole("hash", found.fingerprint)
    shown = (
        Column("column", shrinks_to=16, take="name"),
        *(Column(head, "{:,}".format, take=head.lower()) for head in _COUNTS),
        Column("lowest", "{:.4g}".format, take="low"),
        Column("highest", "{:.4g}".format, take="high"),
    )
    every = Table.of(found.columns, shown).rows
    rows = section(every, most=_MOST_COLUMNS, rest=" columns; --columns chooses")
    screen.table(Table(shown, rows), above=True)
    screen.notes(found.remarks)
    falls = False
    if event or usual:
        faulty = bool(found.faults) or not event
        about = {"metric": usual or verifying.USUAL_METRIC, **event}
        falls = _print_events(log, about, found.remarks, faulty=faulty)
    screen.refuse_faults(found.faults, " in these logs")
    screen.say("Nothing is wrong with these logs.")
    keys = options.again(context, "step_column", "run_column")
    keys += ["--falling"] * falls
    whole = log if len(asked) > 1 or not asked else read()
    following = _judging(whole, [*runs, *keys], *asked, of_metric="E_regime" not in keys)
    screen.written([], following=following)


@app.command("join", cls=LogsCommand)
def join(
    runs: list[str],
    scores: Path,
    out: Path,
    score: list[str] | None = None,
    step_column: str = "step",
    run_column: str = "run",
) -> None:
    """Scores of the same runs become a column of their log, to be judged like any other.

    Options:
        scores: Scores by run and step, from anyone: CSV, JSONL or Parquet.
        out (joined.parquet): The Parquet file to write.
        score: Its column; several times for several. By default the only one.
    """
    from gmb_hf.hub.sources import named, read_runs
    from gmb_hf.runs.joining import join_scores

    _check_parquet(out)
    log = read_runs(runs, step_column=step_column, run_column=run_column)
    joined = join_scores(log, scores, score or ())
    path = joined.write(out)
    new = [name for name in joined.observables if name not in log.observables]
    screen.answered(new=new, runs=joined.runs, rows=joined.table.num_rows)
    screen.say(
        f"{', '.join(new)}: {joined.table.num_rows} checkpoints of {len(joined.runs)} runs have "
        "a score."
    )
    screen.notes(joined.notes)
    # Nothing in a file of numbers says what went into them; only without labels may they alarm.
    declared = ["--no-test-labels"]
    if named(runs) is None:
        following = _judging(joined, [str(path), *declared], None, *new)
    else:  # a panel, whose design says the rest
        asked = [word for name in new for word in ("--score", name)]
        lock = screen.free("lock.yaml")
        following = screen.command("lock", "--runs", path, *asked, *declared, out=lock)
    if following is not None:
        screen.hint("declares_labels", names=new)
    screen.written([path], following=following)


@app.command("push")
def push(
    source: str,
    repo: str,
    license: str | None = None,
    version: str = "v1",
    private: bool = False,
) -> None:
    """Publish run logs as a dataset, in one commit, so that anybody may judge them again.

    Arguments:
        source: Run logs, NAME=LOGS, or a dataset of them (gmb data build runs).

    Options:
        license: Of the logs; Apache-2.0 for what gmb trained.
        version: Of the set; a later one may only add to what is there.
    """
    from gmb_hf.hub.datasets import push_runs

    done = push_runs(source, repo, license=license, version=version, private=private)
    screen.pushed(done, following=f"gmb runs verify --runs hf://datasets/{repo}@{done.commit}")


def audit(
    runs: list[str],
    out: Path | None = None,
    quantile: float = 0.99,
    radius: int = 20,
    tolerance: int = 15,
    step_column: str = "step",
    run_column: str = "run",
) -> None:
    """Say of each run whether force, info and constraint move together: PT-MSS, per run.

    Options:
        quantile: A signal moves where it is at this quantile of its run.
        radius: Signals this many steps from t move together.
        tolerance: Steps by which the alternate signals may differ in t.
    """
    from gmb_hf.benchmark.events import audit_runs
    from gmb_hf.hub.sources import read_runs

    found = audit_runs(
        runs,
        quantile=quantile,
        radius=radius,
        tolerance=tolerance,
        step_column=step_column,
        run_column=run_column,
        read=read_runs,
    )
    screen.answered(runs=found.runs, columns=found.columns, settings=found.settings)
    columns = (
        Column("run", shrinks_to=12),
        Column("t", "{:,}".format),
        Column("order"),
        Column("why", shrinks_to=20, wraps=True, from_width=100),
    )
    rows: list[Row | Line] = []
    for label in _LABELS:
        items = [
            (item.run, item.step, " ".join(item.order), item.reason)
            for item in found.runs
            if item.label == label
        ]
        heading = f"{label}, {len(items)} of {len(found.runs)} runs"
        rows += section(items, heading, _MOST_RUNS, screen.elsewhere(out))
    screen.table(Table(columns, rows))
    screen.say(f"Signals: {', '.join(found.columns)}.", style="dim")
    screen.notes(found.notes)
    settings = f"--event E_regime --quantile {quantile:g} --radius {radius}".split()
    paths = [] if out is None else [found.write(out)]
    screen.written(paths, following=screen.command("runs", "verify", "--runs", *runs, *settings))


def _print_events(
    log: RunLog, event: Mapping[str, Any], known: Sequence[str], *, faulty: bool
) -> bool:
    """Print when events occur; whether there are some only if the metric falls."""
    from gmb_hf.benchmark.prepare import preview_events

    try:
        found = preview_events(log, **event)
    except InputError as error:
        message = options.in_options(str(error))
        if not faulty:
            raise error.reworded(message) from error
        screen.say_whole("events", f"cannot be found: {message}")
        return False
    screen.answered(events=[found, *found.others])
    for one in (found, *found.others):
        where = ""
        if one.steps:
            first, middle, last = (f"{step:,}" for step in one.steps)
            where = f", from step {first} to {last}, median {middle}"
        screen.say_whole("event", one.event)
        screen.say_whole("events", f"{one.events:,} of {one.runs:,} runs have one{where}")
        for warning in one.warnings:
            screen.say_whole("warning", options.in_options(warning))
    screen.notes([options.in_options(one) for one in found.notes if one not in known])
    return found.falling > 0


def _check_parquet(out: Path) -> None:
    if out.suffix != ".parquet":
        raise InputError(f"--out {out}: the table is written as Parquet; name it *.parquet")


def _names(text: str | None) -> list[str]:
    names = [] if text is None else [name.strip() for name in text.split(",")]
    if "" in names:
        raise InputError(f"--columns {text!r}: write names with commas, e.g. test_acc,score")
    return list(dict.fromkeys(names))


_HORIZON = 10  # checkpoints, of the evaluation that is proposed; its gap is twice that


def _judging(
    log: RunLog,
    given: Sequence[str],
    metric: str | None = None,
    *scores: str,
    of_metric: bool = True,
) -> str | None:
    """The command that judges these logs by what was named; what was not is guessed, and said.

    None where nothing says what shows the event, or what may be judged; a sentence says it then.
    """
    from gmb_hf.runs.verify import propose

    named = [*scores] if of_metric or metric is None else [metric, *scores]
    found = propose(log, metric if of_metric else None, named, of_metric=of_metric)
    if not found.scores or (of_metric and found.metric is None):
        screen.hint("nothing_to_judge", found=found, columns=log.observables)
        return None
    if found.guessed:
        screen.hint("guessed", found=found)
    words = ["evaluate", "--runs", *given]
    if of_metric and "--metric" not in given:
        words += ["--metric", str(found.metric)]
    for score in found.scores:
        words += ["--score", score]
    for option, times in {"--horizon": 1, "--safe-gap": 2}.items():
        length = str(times * _HORIZON * (found.spacing or 1))
        words += [option, length] * (option not in given)
    out = screen.free("results", "first", holding="results.yaml")
    return screen.command(*words, out=None if out == "results" else out)
