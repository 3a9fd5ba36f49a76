"""The columns of a looped model that count at a level: their levels, and their names.

The trainer writes them and indicators read them; both take the names from here.
"""

from __future__ import annotations

LEVELS = (5, 10, 20, 50)
"""Per cent of the length of a state."""


def at_level(column: str, level: int) -> str:
    """The name of a column that counts at a level, e.g. `reset_share_at_10`."""
    return f"{column}_at_{level}"
