"""`gmb results`: whether a results file is one, and two of them side by side; `gmb report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from gmb_hf.cli import screen
from gmb_hf.cli.options import App, argument, different_data, option
from gmb_hf.errors import InputError
from gmb_hf.tables import Column, Line, Row, Table, section

if TYPE_CHECKING:
    from gmb_hf.report.compare import Comparison, IndicatorPair

app = App()

_HEADS = {"label": "label", "AUC": "AUC", "FPR": "FPR", "coverage": "cover", "p": "p"}
_HEADS_BY_RUNS = {
    "label by runs": "label by runs",
    "warned": "warned",
    "timely": "timely",
    "false runs": "false",
    "p by runs": "p",
}


def report(
    results: Annotated[
        Path, argument("A results file, or the folder that holds results.yaml.", metavar="RESULTS")
    ],
    out: Annotated[
        Path | None, option("Where to; report.html beside the results if not given.")
    ] = None,
) -> None:
    """Make report.html again from results alone: one file, which needs no logs and no network."""
    from gmb_hf.report.page import remake_page

    made = remake_page(results, out)
    file = results / "results.yaml" if results.is_dir() else results
    screen.written([made], following=screen.command("results", "validate", file))


@app.command()
def validate(file: Annotated[Path, argument("A results file of anybody's, YAML or JSON.")]) -> None:
    """Say whether a file is results of schema v0.4, naming every violation by its path.

    Exit code 0: it is; 2: it violates the schema, or cannot be read. Keys that begin with x_ are
    extensions, which any writer may add.
    """
    from gmb_hf.benchmark.results import check_results

    found = check_results(file)
    screen.answered(valid=not found.faults, faults=found.faults, set_aside=found.set_aside)
    for path in found.set_aside:
        screen.notes([f"{path} is an extension of its writer, not ours of that name; set aside"])
    for violation in found.faults:
        screen.say(f"- {violation}")
    if found.faults or found.content is None:
        first, count = found.faults[0], len(found.faults) - 1
        more = f" ({count} more, listed above)" if count else ""
        raise InputError(f"{file}: violates the results schema v0.4: {first}{more}")
    summary = found.content.summary
    events = "an unknown number of" if summary.n_events is None else f"{summary.n_events:,}"
    indicators = len(found.content.indicators)
    screen.say(
        f"{file} matches the results schema v0.4: {indicators:,} "
        f"indicator{'' if indicators == 1 else 's'}, {summary.n_seeds:,} runs, {events} events."
    )
    screen.written([], following=screen.command("results", "compare", file, "OTHER.yaml"))


@app.command()
def compare(
    a: Annotated[Path, argument("A results file.", metavar="A")],
    b: Annotated[Path, argument("Another one.", metavar="B")],
    out: Annotated[Path | None, option("Write the comparison, as .md, .csv or .json.")] = None,
    allow_fingerprint_mismatch: Annotated[
        bool,
        different_data("Show files of different runs or designs as well; they are not comparable."),
    ] = False,
) -> None:
    """Put two evaluations side by side, indicator by indicator; what changed is marked."""
    from gmb_hf.benchmark.results import Results
    from gmb_hf.report import compare as comparing

    if out is not None:
        comparing.check_ending(out)
    found = comparing.compare(Results.read(a), Results.read(b))
    if found.differences and not allow_fingerprint_mismatch:
        raise InputError(
            f"{a} and {b} differ in their {', '.join(found.differences)}; numbers do not compare "
            "across that, pass --allow-fingerprint-mismatch to see them all the same"
        )
    screen.answered(comparable=found.comparable, comparison=found)
    screen.say_whole("A", str(a))
    screen.say_whole("B", str(b))
    if found.by_runs:
        screen.table(_table(found, _HEADS_BY_RUNS), above=True)
        screen.say(
            f"By runs, with a budget of {found.budget:g} of runs. warned and timely: shares of "
            "events. *: differs from A. –: no such number. By windows:",
            style="dim",
        )
    screen.table(_table(found, _HEADS), above=True)
    screen.say(
        f"FPR, cover and p: at a budget of {found.target:g}. *: differs from A. –: no such number.",
        style="dim",
    )
    screen.say(comparing.count_changes(found))
    screen.say(comparing.verdict(found), style="" if found.comparable else "bold")
    paths = [] if out is None else [comparing.write_comparison(found, str(a), str(b), out)]
    screen.written(paths, following=screen.command("results", "validate", b))


def _table(found: Comparison, heads: dict[str, str]) -> Table:
    """What differs in these quantities, then what is the same."""
    columns = (
        Column("score", shrinks_to=12),
        Column(""),
        *(
            Column(head, align="l" if name.startswith("label") else "r")
            for name, head in heads.items()
        ),
    )
    rows: list[Row | Line] = []
    for heading, changed in (("Different", True), ("The same", False)):
        items = [one for one in found.indicators if one.differs(tuple(heads)) == changed]
        rows += section([row for item in items for row in _rows(item, tuple(heads))], heading)
    return Table(columns, rows)


def _rows(item: IndicatorPair, names: tuple[str, ...]) -> list[Row]:
    """A line for each file; one line where they agree or only one has it."""
    from gmb_hf.report.compare import shown

    def cells(side: str) -> list[Text]:
        row = []
        for name in names:
            pair = item.values[name]
            marked = side == "B" and item.only_in is None and pair.changed
            text = shown(name, getattr(pair, side.lower())) + ("*" if marked else " ")
            row.append(Text(text, style="bold" if marked else ""))
        return row

    name = item.name
    if item.only_in:
        return [[name, f"only in {item.only_in}", *cells(item.only_in)]]
    if not item.differs(names):
        return [[name, "A, B", *cells("A")]]
    return [[name, "A", *cells("A")], ["", "B", *cells("B")]]
