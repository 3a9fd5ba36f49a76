"""`gmb audit`: which runs register a transition by PT-MSS."""

from __future__ import annotations

from typing import Annotated

from gmb_hf.cli import screen as show
from gmb_hf.cli.options import Answer, MoreRuns, RunColumn, Runs, StepColumn, option, sources
from gmb_hf.tables import Column, Line, Row, Table, section

# The labels that need a look come first.
_LABELS = ("REGISTERED_TRANSITION", "ESTIMATOR_UNSTABLE", "NO_TRANSITION", "INCONCLUSIVE")
_MOST_RUNS = 12


def audit(
    runs: Runs,
    more_runs: MoreRuns = None,
    out: Answer = None,
    quantile: Annotated[
        float, option("A signal moves where it is at this quantile of its run.")
    ] = 0.99,
    radius: Annotated[int, option("Signals this many steps from t move together.")] = 20,
    tolerance: Annotated[int, option("Steps by which the alternate signals may differ in t.")] = 15,
    step_column: StepColumn = "step",
    run_column: RunColumn = "run",
) -> None:
    """Say of each run whether force, info and constraint move together: PT-MSS, per run."""
    from gmb_hf.benchmark.events import audit_runs
    from gmb_hf.hub.sources import read_runs

    given = sources(runs, more_runs)
    found = audit_runs(
        given,
        quantile=quantile,
        radius=radius,
        tolerance=tolerance,
        step_column=step_column,
        run_column=run_column,
        read=read_runs,
    )
    show.answered(runs=found.runs, columns=found.columns, settings=found.settings)
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
        rows += section(items, heading, _MOST_RUNS, show.elsewhere(out))
    show.table(Table(columns, rows))
    show.say(f"Signals: {', '.join(found.columns)}.", style="dim")
    show.notes(found.notes)
    settings = f"--event E_regime --quantile {quantile:g} --radius {radius}".split()
    judging = (*settings, "--score", "COLUMN", "--horizon", "H", "--safe-gap", "G")
    paths = [] if out is None else [found.write(out)]
    show.written(paths, following=show.command("evaluate", "--runs", *given, *judging))
