"""`gmb demo`: a frozen panel judged, and fresh runs watched, in a few minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gmb_hf.cli import screen
from gmb_hf.cli.options import Figures, option, panel_names, product


def demo(
    out: Annotated[Path, product("Folder for all of it; an earlier start resumes.", "runs/demo")],
    panel: Annotated[
        str, option("The panel that is judged.", autocompletion=panel_names)
    ] = "quick-29",
    seeds: Annotated[str, option("Fresh ones, trained and watched.")] = "700000:700006",
    figures: Figures = True,
) -> None:
    """Judge a frozen panel, then train a few fresh runs and watch them with what passed."""
    from gmb_hf.demo import demo as hold
    from gmb_hf.demo import watched_table

    found = hold(
        out,
        panel=panel,
        seeds=seeds,
        figures=figures,
        counting=screen.counting,
        on_verdicts=lambda results: screen.verdicts(results, out / panel / "report.md"),
        say=screen.say,
    )
    screen.answered(acting=found.acting, watched=found.watched)
    screen.say(f"Fresh runs, watched with {', '.join(found.acting)}:")
    screen.table(watched_table(found.watched), above=True)
    following = screen.command("run", preset="quick", out=Path("runs/quick"))
    screen.written(found.paths, following=following)
