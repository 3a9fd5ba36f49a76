"""`gmb trial`: every signal on every panel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gmb_hf.cli import screen
from gmb_hf.cli.options import Figures, option, product
from gmb_hf.escape import number
from gmb_hf.tables import Column, Table


def trial(
    out: Annotated[Path, product("Folder for all of it; an earlier start resumes.", "trial")],
    panels: Annotated[str, option("Names with commas, or all.")] = "all",
    figures: Figures = True,
    jobs: Annotated[int | None, option("Panels judged at a time; one a core if not given.")] = None,
) -> None:
    """Lock every signal on each panel's explore runs, and judge it once on the held-out ones."""
    from gmb_hf.report.answer import KINDS, hardest
    from gmb_hf.trial import trial as hold

    found = hold(
        [name.strip() for name in panels.split(",")],
        out,
        figures=figures,
        jobs=jobs,
        counting=screen.counting,
    )
    columns = (
        Column("panel"),
        Column("kind"),
        Column("best signal", shrinks_to=16),
        Column("warned", number),
        Column("false", number),
        Column("blind", number),
        Column("label by runs", shrinks_to=12),
    )
    rows = []
    for panel in found.panels:
        for kind in KINDS:
            own = [row for row in found.rows if (row.panel, row.kind) == (panel, kind)]
            best = max(own, key=lambda row: row.at.warned or 0.0, default=None)
            if best is not None:
                worth = best.at.warned, best.at.false_share, hardest(best.at)
                rows.append((panel, kind, best.item.name, *worth, best.first.label))
    screen.table(Table(columns, rows))
    screen.written(found.paths, following=screen.command("panel", "show", found.panels[0]))
