"""Guardrails in the terminal: the level first, then what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from gmb_hf.cli.table import Column, Group, lay_out
from gmb_hf.reporting.escape import one_line

if TYPE_CHECKING:
    from rich.table import Table

    from gmb_hf.crucible.guardrails import Finding

_STYLES = {"OK": "green", "WARNING": "yellow", "CRITICAL": "bold red", "SEVERE": "bold red"}
_COLUMNS = (Column("guardrail"), Column("", shrinks_to=30, wraps=True))


def levels(findings: Sequence[Finding], width: int) -> Iterator[Table | Text]:
    """The lines to print on a terminal of `width` cells, the worst first."""
    ordered = sorted(findings, key=lambda finding: -finding.level)
    rows = [
        [
            Text(finding.level.name, style=_STYLES[finding.level.name]),
            Text(one_line(finding.message)),
        ]
        for finding in ordered
    ]
    yield from lay_out(_COLUMNS, [Group(rows)], width)
