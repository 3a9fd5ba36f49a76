"""`gmb indicators`: the catalogue."""

from __future__ import annotations

from typing import Annotated

import typer


def indicators(
    name: Annotated[str | None, typer.Argument(help="Show one indicator in full.")] = None,
    runs: Annotated[
        list[str] | None, typer.Option(help="List only those that these logs can feed.")
    ] = None,
) -> None:
    """List the indicators, a line each; with a name, everything about one."""
    if name is not None:
        _one(name)
    else:
        _list(runs)


def _one(name: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from gmb_hf.cli import screen
    from gmb_hf.indicators.catalogue import get

    entry = get(name)
    facts = {
        "family": entry.family,
        "needs": ", ".join(entry.needs),
        "sees test labels": "yes: an oracle, no monitor" if entry.sees_test_labels else "no",
        "orientation": f"{entry.orientation:+d}",
        "parameters": ", ".join(f"{k}={v}" for k, v in entry.parameters.items()) or "none",
        "source": entry.source,
    }
    console = screen.console()
    console.print(Text.assemble((entry.name, "bold"), f": {entry.summary}"))
    for key, value in facts.items():
        console.print(Padding(Text(f"{key}: {value}"), (0, 0, 0, 2)))
    screen.say_whole("next", f"gmb evaluate --runs RUNS --score {name} --horizon H --safe-gap G")


def _list(runs: list[str] | None) -> None:
    from gmb_hf.cli import screen
    from gmb_hf.indicators.catalogue import available, get, names
    from gmb_hf.tables import Column, Table

    known = names()
    if runs:
        from gmb_hf.hub.sources import read_runs

        known = available(read_runs(runs))
    columns = (
        Column("indicator", take="name"),
        Column("family", take="family"),
        Column("labels", take=lambda entry: "test" if entry.sees_test_labels else ""),
        Column("what it is", take="summary", shrinks_to=12),
    )
    entries = [get(one) for one in known]
    screen.table(Table.of(entries, columns))
    screen.say(
        f"{len(entries)} indicators; 'test' marks scores that see held-out labels: oracles to "
        "compare with, no monitors."
    )
    screen.say_whole("next", "gmb indicators NAME")
