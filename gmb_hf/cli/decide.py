"""`gmb decide`: what it is worth to stop runs by the alarms of a lock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gmb_hf.base.errors import InputError
from gmb_hf.base.tables import Line, Row, Table, section
from gmb_hf.cli import screen as show
from gmb_hf.cli.options import several

if TYPE_CHECKING:
    from gmb_hf.benchmark.decisions import Decisions
    from gmb_hf.design.lock import Lock
    from gmb_hf.runs.runlog import RunLog

DecideCommand = several("--runs", "--explore-runs")
_MOST = {"monitor": 5, "task": 5, "undeclared": 5, "oracle": 3}
_FILE = "decisions.yaml"


def decide(
    lock: Path,
    runs: list[str],
    explore_runs: list[str] | None = None,
    score: list[str] | None = None,
    lost: float = 0.05,
    budget: float | None = None,
    out: Path = Path("decisions"),
    step_column: str = "step",
    run_column: str = "run",
    figures: bool = True,
    force: bool = False,
) -> None:
    """What stopping runs by the alarms of a lock saves in steps, and loses in events.

    Options:
        lock: The lock whose alarms decide.
        explore_runs: The runs that the lock was made on; by default those of them among --runs.
        score (column): A score of the lock; may be given several times. All if not given.
        lost (share): The share of events that may be lost.
        out (folder): Folder for decisions.yaml, the table and the figure.

    More options:
        budget (share): The lock's budget of runs whose threshold raises the alarm; by default
            chosen on the explore runs.
        force: Replace other decisions in --out.
    """
    from functools import partial

    from gmb_hf.base.errors import fraction
    from gmb_hf.benchmark.decisions import decide as decide_runs
    from gmb_hf.design.lock import Lock
    from gmb_hf.hub.sources import naming_panels, part_of, read_runs
    from gmb_hf.report.decisions import write_decisions

    fraction("--lost", lost)
    read = partial(read_runs, step_column=step_column, run_column=run_column)
    locked, log = Lock.read(lock), read(runs)
    if not force:  # before the held-out runs are looked at
        _refuse_others(out, locked)
    earlier = _explored(locked, read(explore_runs) if explore_runs else log)
    part, aside = part_of(log, locked.design, "held-out")
    if aside and explore_runs:
        show.say(f"{aside} runs were set aside: they are not declared as held out.")
    count = len(score or locked.x_lock.candidates)
    with naming_panels(log), show.counting("deciding", count) as done:
        found = decide_runs(
            locked, part, explore=earlier, scores=score, lost=lost, budget=budget, on_done=done
        )
    figure = None
    if figures:  # without it, nothing loads matplotlib
        from gmb_hf.report.decision_curves import plot_decisions

        figure = plot_decisions(found)
    paths = write_decisions(found, out, figure)
    _tell(found, out)
    show.notes(found.notes)
    following = show.command("evaluate", "--runs", *runs, lock=lock)
    show.written(paths, following=following)


def _explored(lock: Lock, log: RunLog) -> RunLog:
    """Of a log those runs that the lock was made on; all of one that has no others."""
    own = {*lock.x_lock.explore_runs}
    known = [run for run in log.runs if run in own]
    if not known:
        raise InputError(
            f"--explore-runs: none of the {len(own)} runs that the lock was made on is among these "
            f"{len(log.runs)}; the step is chosen on those alone, give their logs: --explore-runs "
            "PATH",
            code="missing_runs",
        )
    return log if len(known) == len(log.runs) else log.select(known)


def _refuse_others(out: Path, lock: Lock) -> None:
    """Decisions are replaced only by those of the same lock."""
    from gmb_hf.benchmark.decisions import Decisions

    path = out / _FILE
    if not path.exists():
        return
    try:
        held = Decisions.read(path).lock_hash
    except InputError:
        held = None
    if held != lock.hash:
        raise InputError.at(
            path,
            "other_results",
            "holds decisions by another lock; choose another --out, or replace them with --force",
        )


def _tell(found: Decisions, out: Path) -> None:
    """The answer in a sentence for each rule, then the scores of each group and the rivals."""
    from gmb_hf.benchmark.decisions import RULES
    from gmb_hf.report.decisions import HEADINGS, RULE_TITLES, answers, ordered, shown_columns

    said = answers(found)
    show.answered(
        sentences=said,
        tolerated=found.tolerated,
        decisions=[one.model_dump(exclude={"curve"}) for one in found.decisions],
    )
    show.console().print()
    for text in said:
        show.say(text, style="bold")
    columns = shown_columns(found)
    for rule in RULES:
        rows: list[Row | Line] = []
        for name, of in ordered([*found.of(rule), *found.rivals(rule)]).items():
            heading, own = HEADINGS[name], Table.of(of, columns).rows
            rows += section(own, heading, _MOST.get(name), f" in {out / 'tables'}")
        show.console().print()
        show.say(f"{RULE_TITLES[rule]}:", style="bold")
        show.table(Table(columns, rows))
    show.tell("legend_of_decisions", style="dim", tolerated=found.tolerated)
