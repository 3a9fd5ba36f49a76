"""What commands print when they are done: tables, the files written, what to type next.

Names come from other people's files, so they go into `Text`, where no markup is read, and without
control characters.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gmb_hf.cli.table import Column, Group, lay_out
from gmb_hf.escape import number, one_line, p_value, steps

if TYPE_CHECKING:
    from gmb_hf.benchmark.explore import Explored
    from gmb_hf.benchmark.results import IndicatorRecord, Results
    from gmb_hf.hub.client import Pushed


_STYLES = {
    "SUPPORTED_FOR_ALARM": "bold green",
    "RANK_ONLY": "yellow",
    "ESTIMATOR_UNSTABLE": "magenta",
    "INCONCLUSIVE": "cyan",
    "SCOPE_LIMITED": "green",
}
_FIRST_FILES = ("report.md", "label_summary.png", "results.yaml")
_MOST_FILES = 6
_MOST_SCORES = {"monitor": 10, "undeclared": 10, "oracle": 3, "control": 3}
_MOST_EXPLORED = 20
_WIDE = 160

_VERDICT_COLUMNS = (
    Column("score", shrinks_to=12),
    Column("label"),
    Column("AUC", right=True, from_width=100),
    Column("FPR", right=True),
    Column("cover", right=True),
    Column("chance", right=True),
    Column("p", right=True),
    Column("lead", right=True, from_width=100),
    Column("reasons", shrinks_to=24, wraps=True, from_width=120),
)
_EXPLORED_COLUMNS = (
    Column("score", shrinks_to=12),
    Column("sign", right=True),
    Column("labels"),
    Column("AUC", right=True),
    Column("FPR", right=True),
    Column("cover", right=True),
    Column("chance", right=True),
    Column("p", right=True),
    Column("lead", right=True, from_width=100),
)


def console(*, stderr: bool = False) -> Console:
    """Where commands print. A file or a pipe, which has no width, gets whole lines."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _WIDE
    return Console(highlight=False, stderr=stderr, width=width)


def say(text: str, style: str = "") -> None:
    """Print a paragraph, folded between words."""
    console().print(Text(one_line(text), style=style))


def say_whole(label: str, text: str) -> None:
    """Print a line that somebody may copy: it is folded by the terminal, never broken."""
    console().print(Text(f"{label:<8}{one_line(text)}"), soft_wrap=True)


def written(paths: Sequence[Path], *, following: str) -> None:
    """Name the files that were written, the ones to look at first, and the next command."""
    rank = {name: place for place, name in enumerate(_FIRST_FILES)}
    ordered = sorted(paths, key=lambda path: rank.get(path.name, len(rank)))
    shown = ordered if len(ordered) <= _MOST_FILES else ordered[: len(rank)]
    for path in shown:
        say_whole("wrote", str(path))
    folders = Counter(path.parent for path in ordered[len(shown) :])
    for folder, count in folders.items():
        say_whole("", f"and {count} more in {folder}")
    say_whole("next", following)


def pushed(done: Pushed, *, following: str) -> None:
    """Name the repository that now holds something, the commit, and the next command."""
    say_whole("pushed", f"{done.url} ({done.commit})")
    say_whole("next", following)


@contextmanager
def counting(what: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A progress bar that `done(item, count=1)` advances; it vanishes when all is done."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    screen = console(stderr=True)
    with Progress(
        TextColumn(f"[bold]{what}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[item]}", markup=False),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    ) as progress:
        task = progress.add_task(what, total=total, item="")

        def done(item: str, count: int = 1) -> None:
            progress.update(task, advance=count, item=one_line(item))

        yield done


def verdicts(results: Results, report: Path) -> None:
    """The answer in a sentence, then the best scores of each group with their labels."""
    from gmb_hf.report.answer import answer
    from gmb_hf.report.tables import GROUPS

    found = answer(results)
    groups = []
    for name, heading in GROUPS.items():
        items = found.group(name)
        shown = items[: _MOST_SCORES[name]]
        rest = len(items) - len(shown)
        more = f"and {rest} more in {one_line(str(report))}" if rest else ""
        if items:
            rows = [_verdict(item, found.target) for item in shown]
            groups.append(Group(rows, heading=heading, more=more))
    screen = console()
    screen.print()
    say(found.sentence, style="bold")
    screen.print()
    for part in lay_out(_VERDICT_COLUMNS, groups, screen.width):
        screen.print(part)
    screen.print()
    reversed_too = any(item.x_sign == -1 for item in found.ranked)
    say(
        f"FPR: false alarms, budget {found.target:g}. cover: share of events warned of. chance: "
        "the same by chance at equal cost. p: adjusted over scores. –: no finite threshold."
        + (" -score: reversed." if reversed_too else ""),
        style="dim",
    )


def checklist(results: Results, folder: Path) -> None:
    """The specification's definition of done (section 7), box by box."""
    from gmb_hf.benchmark.results import definition_of_done

    checks = definition_of_done(results, folder)
    missing = sum(not check.passed for check in checks)
    verdict = "every box is checked" if not missing else f"{missing} of {len(checks)} boxes open"
    columns = (Column(""), Column("", shrinks_to=24, wraps=True))
    rows = [
        [
            Text("[x]" if check.passed else "[ ]", style="green" if check.passed else "bold red"),
            Text(one_line(f"{check.requirement}: {check.detail}")),
        ]
        for check in checks
    ]
    screen = console()
    screen.print()
    screen.print(Text(f"Definition of done (specification, section 7): {verdict}"))
    for part in list(lay_out(columns, [Group(rows)], screen.width))[1:]:
        screen.print(part)
    screen.print()


def _verdict(item: IndicatorRecord, target: float) -> list[Text]:
    achieved, point = item.achieved(target), item.point(target)
    abstains = achieved is None or achieved.x_answer == "ABSTAIN"
    # As in the report: the raw p stands where nothing was adjusted.
    own = point.x_p_value if point else None
    p = own if item.x_p_adjusted is None else item.x_p_adjusted
    cells = (
        number(item.layer_A.auc, 2),
        "–" if achieved is None or abstains else number(achieved.achieved),
        "–" if point is None or abstains else number(point.coverage, 2),
        number(point.by_chance if point else None, 2),
        p_value(p),
        steps(point.lead_time_median if point else None),
        ", ".join([*_scope(item), *item.x_reasons]),
    )
    return [
        _name(item.name, item.x_sign),
        Text(item.label, style=_STYLES[item.label]),
        *(Text(one_line(cell)) for cell in cells),
    ]


def _scope(item: IndicatorRecord) -> list[str]:
    return [f"only where {item.x_scope.where}"] if item.x_scope else []


def _name(name: str, sign: int | None) -> Text:
    return Text(signed(name, sign))


def signed(name: str, sign: int | None) -> str:
    """A score's name; a reversed one begins with a minus, which no ellipsis takes away."""
    return ("-" if sign == -1 else "") + one_line(name)


def explored(rows: Sequence[Explored], table: Path) -> None:
    """The best of both signs, and the warning that a search proves nothing."""
    from gmb_hf.design.design import ENSEMBLE

    shown, rest = rows[:_MOST_EXPLORED], len(rows) - len(rows[:_MOST_EXPLORED])
    more = f"and {rest} more in {one_line(str(table))}" if rest else ""
    cells = [
        (
            one_line(row.indicator),
            f"{row.sign:+d}",
            "test" if row.sees_test_labels else "",
            number(row.auc, 2),
            number(row.achieved_fpr),
            number(row.coverage, 2),
            number(row.chance, 2),
            p_value(row.p_value),
            steps(row.lead_time_median),
        )
        for row in shown
    ]
    screen = console()
    body = [[Text(cell) for cell in row] for row in cells]
    for part in lay_out(_EXPLORED_COLUMNS, [Group(body, more=more)], screen.width):
        screen.print(part)
    screen.print()
    say(
        "Explore: nothing here is a claim. Both signs were tried on the runs that are shown; only "
        "held-out runs, judged by a lock, can support an alarm."
    )
    combined = [one_line(row.indicator) for row in rows if row.family == ENSEMBLE and row.sign == 1]
    if combined:
        say(
            f"{', '.join(combined)}: fitted anew for each fifth of the runs, on the other four; a "
            "lock fits once, on fewer runs, and keeps the others to calibrate."
        )
