"""`gmb indicators`: the catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def indicators(
    name: Annotated[str | None, typer.Argument(help="Show one indicator in full.")] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Show only those that these logs can feed.")
    ] = None,
) -> None:
    """List the indicators, a line each; with a name, everything about one."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from gmb_hf.indicators.registry import get, names

    console = Console()
    if name is not None:
        entry = get(name)
        console.print(f"[bold]{entry.name}[/bold]  {escape(entry.summary)}")
        facts = {
            "family": entry.family,
            "needs": ", ".join(entry.needs) or "nothing",
            "sees test labels": "yes: an oracle, no monitor" if entry.sees_test_labels else "no",
            "orientation": f"{entry.orientation:+d}",
            "parameters": ", ".join(f"{k}={v}" for k, v in entry.parameters.items()) or "none",
            "source": entry.source,
        }
        for key, value in facts.items():
            console.print(f"  {key:<17} {escape(value)}", highlight=False)
        return
    shown = [get(one) for one in names()]
    if runs is not None:
        from gmb_hf.runs import RunLog

        have = {*RunLog.read(runs).observables, "step"}
        shown = [entry for entry in shown if set(entry.needs) <= have]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("indicator", "family", "labels", "what it is"):
        table.add_column(column, no_wrap=column != "what it is")
    for entry in shown:
        labels = "test" if entry.sees_test_labels else ""
        table.add_row(entry.name, entry.family, labels, escape(entry.summary))
    console.print(table)
    console.print(
        f"{len(shown)} indicators; 'test' marks scores that see held-out labels: oracles to "
        "compare with, no monitors. next: gmb indicators NAME"
    )
