"""Tables that fit the terminal: columns that give way, and rows under headings of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

_GAP = 2


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        head: its heading.
        right: whether it is aligned to the right.
        shrinks_to: the width down to which it gives way; None keeps every cell whole.
        wraps: whether a cell that is too long goes on below; else it ends in an ellipsis.
        from_width: the narrowest terminal that shows the column.
    """

    head: str
    right: bool = False
    shrinks_to: int | None = None
    wraps: bool = False
    from_width: int = 0


@dataclass(frozen=True)
class Group:
    """Rows under a heading; each row has one cell per column. `more` stands below them."""

    rows: Sequence[Sequence[Text]]
    heading: str = ""
    more: str = ""


def lay_out(
    columns: Sequence[Column], groups: Sequence[Group], width: int
) -> Iterator[Table | Text]:
    """The lines to print on a terminal of `width` cells: the heads, then group by group.

    Columns that do not belong on so narrow a terminal are left out; where the rest is too wide,
    the last column that can gives way first.
    """
    shown = [index for index, column in enumerate(columns) if column.from_width <= width]
    kept = [columns[index] for index in shown]
    bodies = [[[row[index] for index in shown] for row in group.rows] for group in groups]
    widths = _widths(kept, [row for body in bodies for row in body], width)
    yield _table(kept, widths, [[Text(column.head, style="bold") for column in kept]])
    for group, body in zip(groups, bodies, strict=True):
        if group.heading:
            yield Text(group.heading, style="dim")
        yield _table(kept, widths, body)
        if group.more:
            yield Text(group.more, style="dim")


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> list[int]:
    widths = [
        max(cell_len(column.head), *(row[index].cell_len for row in rows), 0)
        for index, column in enumerate(columns)
    ]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    for index in reversed(range(len(columns))):
        least = columns[index].shrinks_to
        if least is not None and excess > 0:
            given = min(excess, max(0, widths[index] - least))
            widths[index] -= given
            excess -= given
    return widths


def _table(
    columns: Sequence[Column], widths: Sequence[int], rows: Sequence[Sequence[Text]]
) -> Table:
    table = Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
    for column, size in zip(columns, widths, strict=True):
        table.add_column(
            justify="right" if column.right else "left",
            width=size,
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
        )
    for row in rows:
        table.add_row(*row)
    return table
