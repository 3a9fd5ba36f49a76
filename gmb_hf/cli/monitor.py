"""`gmb monitor`: a run under watch, by the log that it writes."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Self

import typer
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from gmb_hf.base.escape import number, one_line, steps
from gmb_hf.base.tables import Column, Line, Row, Table, section
from gmb_hf.cli import output
from gmb_hf.cli import screen as show

if TYPE_CHECKING:
    from gmb_hf.monitor.reading import IndicatorReading, Reading

STYLES = {"CLEAR": "bold green", "ALARM": "bold white on red", "ABSTAIN": "bold yellow"}
_GAUGE = 16
_COLUMNS = (
    Column("indicator", shrinks_to=14),
    Column("score", align="r"),
    Column("threshold", align="r"),
    Column("", from_width=90),
    Column("", shrinks_to=16),
)
_SPENT = Column("budget", align="r")  # by windows
_MOST_SHOWN = 8
_QUIET_SECONDS = 5.0


class LivePanel:
    """A panel that is drawn again at each checkpoint; use it as a context manager."""

    def __init__(self, log: str) -> None:
        self._log = one_line(log)
        self._lowest: dict[str, float] = {}
        self._reading: Reading | None = None
        self._silent = 0.0
        self._screen = show.console()
        self._live = Live(console=self._screen, get_renderable=self.draw, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.stop()

    def reading(self, reading: Reading) -> None:
        """Show the answer at a checkpoint."""
        self._reading, self._silent = reading, 0.0
        for item in reading.indicators:
            if math.isfinite(item.score):
                low = self._lowest.get(item.name, item.score)
                self._lowest[item.name] = min(low, item.score)

    def note(self, text: str) -> None:
        """Print above the panel."""
        self._screen.print(Text(f"note: {one_line(text)}", style="dim"), soft_wrap=True)

    def waiting(self, seconds: float) -> None:
        """Show for how long nothing came."""
        self._silent = seconds

    def draw(self) -> RenderableType:
        """The panel as it is now."""
        reading = self._reading
        if reading is None:
            return Panel(Text(f"waiting for checkpoints in {self._log}"), title="gmb monitor")
        head = Text.assemble(
            (f" {reading.state} ", STYLES[reading.state]),
            f"  step {steps(reading.step)}, since step {steps(reading.since)}"
            + (f"; nothing new for {self._silent:.0f} s" if self._silent > _QUIET_SECONDS else ""),
        )
        rows: list[Row | Line] = []
        for acts, heading in ((True, "may raise the alarm"), (False, "shown only")):
            some = [self._row(item) for item in reading.indicators if item.acts == acts]
            rows += section(some, heading, _MOST_SHOWN)
        by_window = any(item.unit == "window" for item in reading.indicators)
        columns = (*_COLUMNS[:-1], _SPENT, _COLUMNS[-1]) if by_window else _COLUMNS
        table = Table(columns, rows).rich(self._screen.width - 4)
        promises = [Text(one_line(one), style="dim") for one in (reading.promise, reading.health)]
        shown = Stack(head, Text(one_line(reading.reason)), Text(), *table, Text(), *promises)
        return Panel(shown, title=Text(f"gmb monitor {self._log}"))

    def _row(self, item: IndicatorReading) -> Row:
        spent = item.budget_spent
        return (
            item.name,
            "–" if math.isnan(item.score) else f"{item.score:.4g}",
            number(item.threshold) if math.isinf(item.threshold) else f"{item.threshold:.4g}",
            self._gauge(item),
            *([] if spent is None else [Text(f"{spent:.0%}", style="red" if spent > 1 else "")]),
            item.broken or ("over" if item.over else ""),
        )

    def _gauge(self, item: IndicatorReading) -> Text:
        """How much of the way from the lowest score so far to the threshold is covered."""
        low = self._lowest.get(item.name, math.nan)
        span = item.threshold - low
        if not math.isfinite(item.score) or not math.isfinite(span):
            return Text("·" * _GAUGE, style="dim")
        share = 1.0 if span <= 0 else min(1.0, max(0.0, (item.score - low) / span))
        filled = int(share * _GAUGE)
        return Text("█" * filled + "·" * (_GAUGE - filled), style="red" if item.over else "")


class PlainLines:
    """One line for each change of state, for a file or a pipe."""

    _state: str | None = None

    def reading(self, reading: Reading) -> None:
        """Print it where the state is another one."""
        if reading.state != self._state:
            self._state = reading.state
            show.say_whole(reading.state, f"step {reading.step}: {reading.reason}")

    def note(self, text: str) -> None:
        """Print it."""
        show.say_whole("note", text)

    def waiting(self, seconds: float) -> None:
        """Say nothing: a line each second would hide the others."""


def viewer(log: str) -> AbstractContextManager[LivePanel | PlainLines]:
    """The panel in a terminal, lines elsewhere."""
    drawn = show.console().is_terminal and not output.current().json
    return LivePanel(log) if drawn else nullcontext(PlainLines())


ALARM_CODE, ABSTAINED_CODE = 3, 4


def monitor(
    lock: Path,
    follow: Path,
    results: Path | None = None,
    act: str | None = None,
    budget: float | None = None,
    unit: str = "run",
    target: float | None = None,
    accept: str = "evaluated",
    until: int | None = None,
    pid: int | None = None,
    idle: float | None = None,
    state: Path | None = None,
    run: str | None = None,
    step_column: str = "step",
) -> None:
    """Watch a growing log; exit 3 at the first ALARM, 0 after a run without one, 4 if it abstains.

    An alarm is raised once a run, at the lock's threshold of first alarms; indicators that act
    together share its budget of runs. Exit 4: at the end of the run the monitor abstains, or it
    has seen no checkpoint, so that the run was not watched.

    Options:
        lock: The lock, from gmb lock.
        follow: Log of one run, .jsonl or .csv (or .gz); it may still be to come.
        results: Held-out verdicts by the lock; by default those in its folder, or one below.
        act: Which may raise the alarm, with commas; all that may, if they can share a budget.
        budget: Share of runs with a false alarm, of the lock's; its primary one.
        unit: What the budget counts: run (one alarm a run) or window (rings while over).
        target: By windows: false positive rate of the lock; its primary one.
        accept: recalibrated: let a pretrained score act by its calibration, without results.
        until: The run ends at this step; where explore runs did by default.
        pid: The run ends with this process.
        idle: It ends after so many seconds without a line; 0: read what is there.
        state: Where the monitor is kept; beside the log by default.
        run: Which run, where a log holds several.
    """
    from gmb_hf.monitor.follow import ENDED_BY, Ending, LogWatch, begin_monitor, ending_of

    names = None if act is None else [name.strip() for name in act.split(",")]
    rule = {"unit": unit, "budget": budget, "target": target, "accept": accept}
    watcher = begin_monitor(lock, results, act=names, **rule)
    ending = ending_of(watcher, Ending(until=until, pid=pid, idle=idle))
    show.say_whole("acting", ", ".join(watcher.acting) or "none")
    show.say_whole("promise", watcher.rule.promise)
    show.notes(watcher.notes)
    if not follow.exists():
        show.notes([f"{follow} is not there yet; it is waited for"])
    with (
        LogWatch(watcher, follow, state, run=run, step_column=step_column) as watch,
        viewer(str(follow)) as shown,
    ):
        ended = watch.follow(ending, shown)
    last, raised = watch.last, watcher.alarm
    show.answered(
        acting=watcher.acting,
        promise=watcher.rule.promise,
        ended=ended,
        alarm=None if raised is None else raised.step,
        last=last,
    )
    where = "before its first checkpoint" if last is None else f"at step {last.step}: {last.state}"
    if last is None and raised is not None:
        where = f"an earlier watch raised the alarm of this run at step {raised.step}"
        show.say_whole("ended", f"{where}; to watch it anew delete {watch.state}")
        show.say_whole("reason", raised.reason)
        raise typer.Exit(ALARM_CODE)
    show.say_whole("ended", f"{where}; {ENDED_BY[ended]}")
    if last is not None and last.state != "CLEAR":
        show.say_whole("reason", last.reason)
    if ended == "alarm":
        raise typer.Exit(ALARM_CODE)
    if watcher.state in (None, "ABSTAIN"):
        raise typer.Exit(ABSTAINED_CODE)
