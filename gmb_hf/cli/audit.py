"""`gmb audit`: which runs register a transition by PT-MSS."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gmb_hf.benchmark.events import Audit


# The labels that need a look come first.
_LABELS = ("REGISTERED_TRANSITION", "ESTIMATOR_UNSTABLE", "NO_TRANSITION", "INCONCLUSIVE")
_MOST_RUNS = 12


def audit(
    runs: Annotated[
        list[str],
        typer.Option(help="Run logs: files, folders, globs, or hf://datasets/ORG/NAME@REV."),
    ],
    more_runs: Annotated[
        list[str] | None, typer.Argument(hidden=True, help="What an unquoted glob leaves.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write the labels.")] = Path("audit.json"),
    quantile: Annotated[
        float, typer.Option(help="A signal moves where it is at this quantile of its run.")
    ] = 0.99,
    radius: Annotated[int, typer.Option(help="Signals this many steps from t move together.")] = 20,
    tolerance: Annotated[
        int, typer.Option(help="Steps by which the alternate signals may differ in t.")
    ] = 15,
    step_column: Annotated[str, typer.Option(help="Column of steps.")] = "step",
    run_column: Annotated[str, typer.Option(help="Column that tells runs apart.")] = "run",
) -> None:
    """Say of each run whether force, info and constraint move together: PT-MSS, per run."""
    from gmb_hf.benchmark.events import audit_runs
    from gmb_hf.cli import screen as show
    from gmb_hf.hub.sources import read_runs

    sources = [*runs, *(more_runs or [])]
    found = audit_runs(
        sources,
        quantile=quantile,
        radius=radius,
        tolerance=tolerance,
        step_column=step_column,
        run_column=run_column,
        read=read_runs,
    )
    path = found.write(out)
    _print(found, path)
    settings = f"--event E_regime --quantile {quantile:g} --radius {radius}".split()
    judging = [*settings, "--score", "COLUMN", "--horizon", "H", "--safe-gap", "G"]
    following = shlex.join(["gmb", "evaluate", "--runs", *sources, *judging])
    show.written([path], following=following)


def _print(found: Audit, path: Path) -> None:
    from gmb_hf.cli import screen as show
    from gmb_hf.tables import Column, Line, Row, Table

    columns = (
        Column("run", shrinks_to=12),
        Column("t", "{:,}".format),
        Column("order"),
        Column("why", shrinks_to=20, wraps=True, from_width=100),
    )
    rows: list[Row | Line] = []
    for label in _LABELS:
        items = [item for item in found.runs if item.label == label]
        if not items:
            continue
        rows.append(Line(f"{label}, {len(items)} of {len(found.runs)} runs"))
        rows += [
            (item.run, item.step, " ".join(item.order), item.reason) for item in items[:_MOST_RUNS]
        ]
        if len(items) > _MOST_RUNS:
            rows.append(Line(f"and {len(items) - _MOST_RUNS} more in {path}"))
    show.table(Table(columns, rows))
    show.say(f"Signals: {', '.join(found.columns)}.", style="dim")
    for note in found.notes:
        show.say(f"note: {note}")
