"""`gmb monitor`: a run under watch, by the log that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ALARM_CODE = 3


def monitor(
    lock: Annotated[Path, typer.Option(help="The lock, from gmb lock.")],
    follow: Annotated[
        Path, typer.Option(help="Log of one run, .jsonl or .csv; it may still be to come.")
    ],
    results: Annotated[
        Path | None,
        typer.Option(help="Held-out verdicts by the lock; results.yaml beside it by default."),
    ] = None,
    act: Annotated[
        str | None,
        typer.Option(help="Which indicators may raise the alarm, with commas; all eligible ones."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(help="False alarm budget, one that the lock has; its primary one."),
    ] = None,
    until: Annotated[
        int | None,
        typer.Option(help="The run ends at this step; where explore runs did by default."),
    ] = None,
    pid: Annotated[int | None, typer.Option(help="The run ends with this process.")] = None,
    idle: Annotated[
        float | None,
        typer.Option(help="It ends after so many seconds without a line; 0: read what is there."),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Where the monitor is kept; beside the log by default.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Which run, where a log holds several.")] = None,
    step_column: Annotated[str, typer.Option(help="Column of steps.")] = "step",
) -> None:
    """Watch a growing log; exit 3 at the first ALARM, 0 when the run has ended without one."""
    from gmb_hf.cli import monitor_panel, show
    from gmb_hf.workflows.monitoring import LogWatch, begin_monitor
    from gmb_hf.workflows.run_ending import ENDED_BY, Ending, ending_of

    names = None if act is None else [name.strip() for name in act.split(",")]
    watcher = begin_monitor(lock, results, act=names, target=target)
    ending = ending_of(watcher, Ending(until=until, pid=pid, idle=idle))
    for note in watcher.notes:
        show.say(f"note: {note}", style="dim")
    with (
        LogWatch(watcher, follow, state, run=run, step_column=step_column) as watch,
        monitor_panel.viewer(str(follow)) as shown,
    ):
        ended = watch.follow(ending, shown)
    last = watch.last
    where = "before its first checkpoint" if last is None else f"at step {last.step}: {last.state}"
    show.say_whole("ended", f"{where}; {ENDED_BY[ended]}")
    if ended == "alarm":
        assert last is not None
        show.say_whole("reason", last.reason)
        raise typer.Exit(ALARM_CODE)
