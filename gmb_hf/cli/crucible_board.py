"""A scoreboard as a table on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmb_hf.crucible.scoreboard import Scoreboard


def print_board(made: Scoreboard) -> None:
    """The scoreboard as a table, overall and by tier."""
    from rich.text import Text

    from gmb_hf.cli import show
    from gmb_hf.cli.table import Column, Group, lay_out
    from gmb_hf.reporting.escape import number

    heads = ("n", "correct", "pass", "margin", "q10", "median", "q90", "rank")
    columns = (Column("items"), *(Column(head, right=True) for head in heads))
    rows = [
        [
            Text(cell)
            for cell in (
                name,
                f"{stats.n:,}",
                f"{stats.correct:,}",
                number(stats.pass_rate),
                number(stats.mean_margin),
                number(stats.q10_margin),
                number(stats.median_margin),
                number(stats.q90_margin),
                number(stats.mean_rank, 2),
            )
        ]
        for name, stats in {"overall": made.overall, **made.by_tier}.items()
    ]
    screen = show.console()
    show.say(made.eval_header.line)
    for part in lay_out(columns, [Group(rows)], screen.width):
        screen.print(part)
    if not made.by_tier:
        show.say("note: the items have no tiers; gmb crucible tiers assign gives them some")
    screen.print()
