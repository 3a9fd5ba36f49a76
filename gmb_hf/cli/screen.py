"""What commands print when they are done: tables, the files written, what to type next.

Names come from other people's files, so they go into `Text`, where no markup is read, and without
control characters.
"""

from __future__ import annotations

import itertools
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from gmb_hf.base.errors import CheckFailed
from gmb_hf.base.escape import number, one_line, p_value, percent, steps
from gmb_hf.base.tables import Column, Line, Row, Table, section
from gmb_hf.cli import output

if TYPE_CHECKING:
    from jinja2 import Template

    from gmb_hf.base.repositories import Pushed
    from gmb_hf.benchmark.locking import Explored
    from gmb_hf.benchmark.results import Results
    from gmb_hf.report.answer import RankedVerdicts
    from gmb_hf.report.tables import ScoreRow

_STYLES = {
    "SUPPORTED_FOR_ALARM": "bold green",
    "RANK_ONLY": "yellow",
    "ESTIMATOR_UNSTABLE": "magenta",
    "INCONCLUSIVE": "cyan",
    "SCOPE_LIMITED": "green",
}
_FIRST_FILES = ("report.md", "report.html", "first_alarm.png", "label_summary.png", "results.yaml")
_MOST_FILES = 6
_MOST_SCORES = {"monitor": 10, "task": 6, "undeclared": 10, "oracle": 3, "control": 3}
_MOST_EXPLORED = 20
_EXPLAINS = "dim"  # how what explains a table is shown
_WIDE = 160
_share = partial(number, digits=2)
_percent = "{:.0%}".format
_EXPLORED = (
    Column("score", shrinks_to=12, take="indicator"),
    Column("sign", "{:+d}".format, take="sign"),
    Column("labels", take=lambda row: "test" if row.sees_test_labels else ""),
    Column("detected", _share, take="detection_rate"),
    Column("timely", _share, take="timely_rate"),
    Column("false", _share, take="false_alarm_rate"),
    Column("chance", _share, take="chance"),
    Column("p", p_value, take="run_p_value"),
    Column("AUC", _share, take="auc"),
    Column("FPR", number, take="achieved_fpr", from_width=120),
    Column("cover", _share, take="coverage", from_width=100),
    Column(
        "by chance",
        _share,
        take=lambda row: max(row.nulls.values(), default=None),
        from_width=120,
    ),
    Column("lead", steps, take="lead_time_median", from_width=120),
)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Nobody reads on: `main` ends the command, which rich would do with code 1."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """Where commands print. A file or a pipe, which has no width, gets wide tables.

    With `--json` what is printed goes nowhere: the answer is collected as it is said.
    """
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _WIDE
    silent = output.current().json and not stderr
    return _Console(highlight=False, stderr=stderr, width=width, quiet=silent)


def answered(**found: object) -> None:
    """What `--json` answers, by name; dataclasses, models and arrays become plain values.

    A command that says nothing here answers with the sentences and tables that it prints.
    """
    output.current().answer.update(found)


def _paragraph(text: Text) -> None:
    """Folded between words on a terminal; a whole line in a file or a pipe, for grep and diff."""
    whole = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    console().print(text, soft_wrap=whole)


def say(text: str, style: str = "") -> None:
    """Print a paragraph; a dim one explains, and is no answer."""
    now = output.current()
    if style != _EXPLAINS:
        now.said.append(one_line(text))
    if style != _EXPLAINS or not now.quiet:
        _paragraph(Text(one_line(text), style=style))


@cache
def _words() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    words = Environment(  # for a terminal, where nothing needs to be escaped
        loader=PackageLoader("gmb_hf.cli", "."), undefined=StrictUndefined, autoescape=False
    )
    words.filters.update(number=number, percent=percent, steps=steps)
    return words.get_template("words.j2")


def tell(paragraph: str, *, style: str = "", **values: object) -> None:
    """Print a paragraph of words.j2, by the name of its block, filled in with these values."""
    words = _words()
    say("".join(words.blocks[paragraph](words.new_context(values))), style)


def hint(paragraph: str, **values: Any) -> None:
    """Print a paragraph of words.j2 about the next command, unless only the answer is asked for."""
    if not output.current().quiet:
        tell(paragraph, **values)


def say_whole(label: str, text: str) -> None:
    """Print a line that somebody may copy: it is folded by the terminal, never broken."""
    now = output.current()
    if label == "next":
        now.following = one_line(text)
    elif label == "wrote":
        now.wrote.append(text)
    elif label:
        now.facts.setdefault(label, []).append(one_line(text))
    if label not in ("next", "wrote") or not now.quiet:
        console().print(Text(f"{label:<8}{one_line(text)}"), soft_wrap=True)


def notes(texts: Iterable[str]) -> None:
    """Print remarks, each as a paragraph."""
    for text in texts:
        output.current().notes.append(one_line(text))
        if not output.current().quiet:
            _paragraph(Text(one_line(f"note: {text}")))


def trackers(given: Sequence[str] | None) -> list[str]:
    """Those of `--track` that are installed; what is said of the others is printed at once.

    `InputError` for one that is not known.
    """
    if not given:
        return []
    from gmb_hf.training.tracking import installed

    present, missing = installed(given)
    notes(missing)
    return present


def command(*words: object, **options: object) -> str:
    """A command to type next, quoted for a shell; options that are None are left out."""
    given = [(f"--{name}", value) for name, value in options.items() if value is not None]
    return shlex.join(map(str, ["gmb", *words, *itertools.chain(*given)]))


def free(*names: str, holding: str = "") -> str:
    """The first of these names that is not taken here; of the last one numbered, from 2 on.

    A folder is taken where it holds the file of the name `holding`.
    """
    last = Path(names[-1])
    numbered = (f"{last.stem}-{number}{last.suffix}" for number in itertools.count(2))
    every = itertools.chain(names, numbered)
    return next(name for name in every if not Path(name, holding).exists())


def table(shown: Table, *, above: bool = False) -> None:
    """Print a table, and an empty line below it; one above it on request."""
    output.current().tables.append(records(shown))
    screen = console()
    if above:
        screen.print()
    for part in shown.rich(screen.width):
        screen.print(part)
    screen.print()


def records(shown: Table) -> list[dict[str, object]]:
    """The rows of a table by the names of its columns, as they are before they are shown."""
    named = [column.name or f"column {place}" for place, column in enumerate(shown.columns, 1)]
    names = [name.lower().replace(" ", "_") for name in named]
    return [dict(zip(names, row, strict=True)) for row in shown.rows if not isinstance(row, Line)]


def written(paths: Sequence[Path], *, following: str | None) -> None:
    """Name the files that were written, the ones to look at first, and the next command."""
    now = output.current()
    now.wrote += map(str, paths)
    now.following = following
    if now.quiet:
        return
    rank = {name: place for place, name in enumerate(_FIRST_FILES)}
    ordered = sorted(paths, key=lambda path: rank.get(path.name, len(rank)))
    first = max(3, sum(path.name in rank for path in ordered))
    shown = ordered if len(ordered) <= _MOST_FILES else ordered[:first]
    for path in shown:
        console().print(Text(f"wrote   {one_line(str(path))}"), soft_wrap=True)
    folders = Counter(path.parent for path in ordered[len(shown) :])
    for folder, count in folders.items():
        say_whole("", f"and {count} more in {folder}")
    if following is not None:
        say_whole("next", following)


def pushed(done: Pushed, *, following: str) -> None:
    """Name the repository that now holds something, the commit, and the next command."""
    say_whole("pushed", f"{done.url} ({done.commit})")
    say_whole("next", following)


@contextmanager
def counting(what: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A progress bar that `done(item, count=1)` advances; it vanishes when all is done."""
    from rich import progress as bar

    screen = console(stderr=True)
    with bar.Progress(
        bar.SpinnerColumn(),  # moves before the first item is done, too
        bar.TextColumn(f"[bold]{what}"),
        bar.BarColumn(bar_width=20),
        bar.MofNCompleteColumn(),
        bar.TimeRemainingColumn(),
        bar.TextColumn("{task.fields[item]}", markup=False),
        console=screen,
        transient=True,
        disable=not screen.is_terminal or output.current().quiet,
    ) as progress:
        task = progress.add_task(what, total=total, item="")

        def done(item: str, count: int = 1) -> None:
            progress.update(task, advance=count, item=one_line(item))

        yield done


def finding(found: RankedVerdicts) -> None:
    """The answer in a sentence, below the word that it is exploratory, if so."""
    if not found.locked:
        say("Exploratory: without a lock no score may raise an alarm.", style="bold yellow")
    say(found.finding, style="bold")
    if found.seen:
        say(found.seen)


def verdicts(results: Results, report: Path) -> None:
    """The answer in a sentence, then the best scores of each group with their labels."""
    from gmb_hf.report.answer import GROUPS, answer
    from gmb_hf.report.tables import score_columns, score_rows

    found = answer(results)
    numbers = score_columns(found)
    wide = 120 if found.budget is None else 140
    columns = (
        Column("score", shrinks_to=10, take=lambda row: signed(row.item.name, row.item.x_sign)),
        Column("label", take=lambda row: Text(row.item.shown_label, style=_STYLES[row.item.label])),
        *(
            Column(one.short, one.show, take=one.on_terminal, from_width=one.from_width)
            for one in numbers
        ),
        Column("reasons", shrinks_to=24, wraps=True, from_width=wide, take=_reasons),
    )
    rows: list[Row | Line] = []
    scores: list[dict[str, object]] = []
    for name, heading in GROUPS.items():
        own = score_rows(found, found.group(name))
        shown = Table.of(own, columns).rows
        rows += section(shown, heading, _MOST_SCORES[name], f" in {report}")
        scores += [
            {
                "group": name,
                "indicator": one.item.name,
                "sign": one.item.x_sign,
                "label": one.item.label,
                "alarm_eligible": one.item.x_alarm_eligible,
                **{column.name: column.on_terminal(one) for column in numbers},
                "reasons": list(one.item.x_reasons),
            }
            for one in own
        ]
    answered(sentence=found.sentence, may_alarm=found.may_alarm, scores=scores)
    console().print()
    finding(found)
    table(Table(columns, rows), above=True)
    width = console().width
    said = [f"{one.short}: {one.about}." for one in numbers if one.from_width <= width]
    reversed_too = ["-score: reversed."] * any(item.x_sign == -1 for item in found.ranked)
    say(
        " ".join([*said, "–: no finite threshold, or no such number.", *reversed_too]),
        style=_EXPLAINS,
    )


def _reasons(row: ScoreRow) -> str:
    scope = [f"only where {row.item.x_scope.where}"] if row.item.x_scope else []
    # That nothing is locked stands above all of them.
    return ", ".join([*scope, *(code for code in row.item.x_reasons if code != "not_locked")])


def checklist(results: Results, folder: Path) -> None:
    """The specification's definition of done (section 7), box by box."""
    from gmb_hf.benchmark.validation import definition_of_done

    checks = definition_of_done(results, folder)
    missing = sum(not check.passed for check in checks)
    verdict = "every box is checked" if not missing else f"{missing} of {len(checks)} boxes open"
    columns = (Column(""), Column("", shrinks_to=24, wraps=True))
    boxes = (Text("[ ]", style="bold red"), Text("[x]", style="green"))
    rows = [(boxes[one.passed], f"{one.requirement}: {one.detail}") for one in checks]
    answered(done=[check._asdict() for check in checks])
    screen = console()
    if output.current().quiet:
        return
    screen.print()
    screen.print(Text(f"Definition of done (specification, section 7): {verdict}"))
    table(Table(columns, rows))


def signed(name: str, sign: int | None) -> str:
    """A score's name; a reversed one begins with a minus, which no ellipsis takes away."""
    return ("-" if sign == -1 else "") + one_line(name)


def refuse_faults(faults: Sequence[str], of: str = "", *, where: str = "") -> None:
    """Print each fault; `CheckFailed` where there is any: `where`, how many and `of` what."""
    for fault in faults:
        say_whole("fault", fault)
    if faults:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        raise CheckFailed(f"{where}{count}{of}, named above")


def elsewhere(path: Path | None) -> str:
    """Where the rows are that a table leaves out."""
    return "; --out writes all" if path is None else f" in {path}"


def explored(rows: Sequence[Explored], path: Path | None, budget: float) -> None:
    """The best of both signs, and the warning that a search proves nothing."""
    from gmb_hf.core.thresholds import in_words
    from gmb_hf.design.candidates import ENSEMBLE

    answered(explored=rows)
    every = Table.of(rows, _EXPLORED).rows
    table(Table(_EXPLORED, section(every, most=_MOST_EXPLORED, rest=elsewhere(path))))
    tell("legend_of_explored", style="dim", budget=in_words(budget))
    tell("explored")
    combined = [row.indicator for row in rows if row.family == ENSEMBLE and row.sign == 1]
    if combined:
        tell("combined", names=combined)
