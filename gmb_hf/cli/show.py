"""What commands print when they are done: tables, the files written, what to type next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from gmb_hf.benchmark.results import Results
    from gmb_hf.workflows.exploring import Explored

console = Console(highlight=False)

_STYLES = {
    "SUPPORTED_FOR_ALARM": "bold green",
    "RANK_ONLY": "yellow",
    "ESTIMATOR_UNSTABLE": "magenta",
    "INCONCLUSIVE": "cyan",
    "SCOPE_LIMITED": "green",
}


def written(paths: Sequence[Path], *, following: str) -> None:
    """Name the files that were written and the next command."""
    shown = list(paths) if len(paths) <= 8 else [*paths[:3], *paths[-1:]]
    for index, path in enumerate(shown):
        if len(paths) > 8 and index == 3:
            console.print(f"        ... {len(paths) - 4} more")
        console.print(f"wrote   {escape(str(path))}", soft_wrap=True)
    console.print(f"next    {escape(following)}", soft_wrap=True)


@contextmanager
def counting(what: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """A progress bar that advances by one at each call; it vanishes when it is done."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn(f"[bold]{what}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[item]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task(what, total=total, item="")

        def done(item: str) -> None:
            progress.update(task, advance=1, item=escape(item))

        yield done


def verdicts(results: Results) -> None:
    """The answer in a sentence, then every score with its label."""
    from rich.table import Table

    from gmb_hf.reporting.answer import answer
    from gmb_hf.reporting.words import GROUPS

    found = answer(results)
    console.print()
    console.print(f"[bold]{escape(found.sentence)}[/bold]")
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("score", no_wrap=True)
    table.add_column("label", no_wrap=True)
    for name in ("AUC", f"FPR@{found.target:g}", f"coverage@{found.target:g}", "chance", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reasons", overflow="ellipsis", no_wrap=True)
    for name, title in GROUPS.items():
        group = found.group(name)
        if group:
            table.add_row(f"[dim]{escape(title)}[/dim]")
        for item in group:
            achieved, point = item.achieved(found.target), item.point(found.target)
            nulls = [
                null.mean_coverage
                for null in (
                    (point.x_shift_null, point.x_risk_set_null) if point is not None else ()
                )
                if null is not None and null.mean_coverage is not None
            ]
            table.add_row(
                "  " + escape(item.name) + (" (reversed)" if item.x_sign == -1 else ""),
                f"[{_STYLES.get(item.label, 'white')}]{item.label}[/]",
                _number(item.layer_A.auc),
                _number(achieved.achieved if achieved else None, 3),
                _number(point.coverage if point else None),
                _number(max(nulls) if nulls else None),
                _number(item.x_p_adjusted, 3),
                escape(", ".join(item.x_reasons)),
            )
    console.print(table)
    console.print()


def explored(rows: Sequence[Explored], most: int = 20) -> None:
    """The best of both signs, and the warning that a search proves nothing."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("score", no_wrap=True)
    for name in ("sign", "labels"):
        table.add_column(name)
    for name in ("AUC", "FPR", "coverage", "lead", "shift null", "risk null", "p"):
        table.add_column(name, justify="right")
    for row in rows[:most]:
        table.add_row(
            escape(row.indicator),
            f"{row.sign:+d}",
            "test" if row.sees_test_labels else "",
            _number(row.auc),
            _number(row.achieved_fpr, 3),
            _number(row.coverage),
            "-" if row.lead_time_median is None else f"{row.lead_time_median:g}",
            _number(row.shift_null),
            _number(row.risk_set_null),
            _number(row.p_value, 3),
        )
    console.print(table)
    if len(rows) > most:
        console.print(f"... and {len(rows) - most} more rows")
    console.print(
        "Explore: nothing here is a claim. Both signs were tried on the runs that are shown; only "
        "held-out runs, judged by a lock, can support an alarm."
    )


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
