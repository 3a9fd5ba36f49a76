"""A plan on the terminal: what is supposed, what each number of runs buys, and the advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from gmb_hf.cli import show
from gmb_hf.cli.table import Column, Group, lay_out
from gmb_hf.reporting.escape import number

if TYPE_CHECKING:
    from gmb_hf.preregistration.power import Plan
    from gmb_hf.workflows.planning import Pilot


def show_plan(found: Plan, measured: Pilot | None, null_draws: int) -> None:
    """Print a plan; `null_draws` is what the design draws of each chance null."""
    goal = found.goal
    show.say(_suppositions(found, measured))
    screen = show.console()
    screen.print()
    columns = (
        Column("calibrating", right=True),
        Column("explore", right=True),
        *(Column(f"rate at {target:g}", right=True) for target in goal.targets),
        Column("coverage", right=True),
        Column("held-out", right=True),
        Column("in all", right=True),
    )
    rows = []
    for row in found.rows:
        cells = [
            f"{row.calibration:,}",
            f"{row.explore:,}",
            *(number(rate) if rate else "–" for rate in row.budgets.values()),
            number(row.coverage, 2),
            "–" if row.held_out is None else f"{row.held_out:,}",
            "–" if row.total is None else f"{row.total:,}",
        ]
        rows.append([Text(cell, style="bold" if row is found.chosen else "") for cell in cells])
    for part in lay_out(columns, [Group(rows)], screen.width):
        screen.print(part)
    screen.print()
    alone = (Column("held-out runs for one requirement alone"), Column("runs", right=True))
    lines = [
        [Text(what), Text("–" if runs is None else f"{runs:,}")]
        for what, runs in found.alone.items()
    ]
    for part in lay_out(alone, [Group(lines)], screen.width):
        screen.print(part)
    screen.print()
    show.say(
        "calibrating: explore runs with negative windows. explore: to train, so that there are so "
        "many of those. rate: the false positive rate to expect; –: no finite threshold. held-out "
        "–: no number of runs is enough.",
        style="dim",
    )
    if found.chosen is not None:
        show.say(_advice(found), style="bold")
    enough = (
        f"{null_draws:,} are enough"
        if null_draws >= found.null_draws
        else f"set x_null_draws, which is {null_draws:,}"
    )
    scores = "score" if goal.candidates == 1 else "scores"
    show.say(
        f"Holm over {goal.candidates:,} {scores} at {goal.alpha:g} takes {found.null_draws:,} "
        f"draws of each chance null: {enough}."
    )


def _suppositions(found: Plan, measured: Pilot | None) -> str:
    assumed, goal = found.assumed, found.goal
    windows = assumed.windows[goal.primary]
    rate = goal.primary
    scatter = (rate * (1 - rate) / windows) ** 0.5
    chance = (
        "chance is left out (--assume-chance)"
        if assumed.chance is None
        else f"chance covers {assumed.chance:.2f}"
    )
    if measured is None:
        source, coverage = "Supposed", f"coverage {assumed.coverage:.2f} at whatever rate"
    else:
        source = f"From {measured.n_runs:,} pilot runs with {measured.n_events:,} events"
        interval = measured.coverage_interval(assumed)
        coverage = (
            f"coverage {assumed.coverage:.2f} [{interval.low:.2f}, {interval.high:.2f}] at the "
            "rate that is bought (to plan for less: --coverage)"
        )
    return (
        f"{source}: {coverage}; rates of runs that scatter by {scatter:.3f} around {rate:g}, as "
        f"with {windows:.1f} independent negative windows a run; an event in "
        f"{assumed.event_share:.0%} of runs, negative windows in {assumed.negative_share:.0%}; "
        f"{chance}."
    )


def _advice(found: Plan) -> str:
    goal, row = found.goal, found.chosen
    if row is None or row.held_out is None:
        return ""
    return (
        f"Train {row.explore:,} explore runs, of which {row.calibration:,} should have negative "
        f"windows and buy an expected rate of {row.budgets[goal.primary]:.3f} at {goal.primary:g}, "
        f"and {row.held_out:,} held-out runs: a score as good as supposed is then supported with "
        f"a probability of about {goal.power:.0%}."
    )
