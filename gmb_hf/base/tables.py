"""Tables: columns are declared once; rows read as CSV, Markdown, LaTeX or on a terminal.

CSV holds every number in full; the other forms show what a column's `show` makes of it.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmb_hf.base import escape
from gmb_hf.base.files import write_text

if TYPE_CHECKING:
    from rich.table import Table as Grid
    from rich.text import Text

_GAP = 2  # cells between the columns of a terminal
_MARKDOWN_RULES = {"l": ":---", "r": "---:", "c": ":---:"}


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: its heading.
        show: how a value reads; None: the value is text, which is escaped where it stands.
        align: l, r or c; by default text to the left and anything shown to the right.
        take: where `Table.of` finds the cell in a record: attributes with dots between them, or a
            function of the record.
        null: what stands for None.
        shrinks_to: the width down to which it gives way on a terminal; None keeps cells whole.
        wraps: whether a cell that is too long goes on below; else it ends in an ellipsis.
        from_width: the narrowest terminal that shows the column.
    """

    name: str
    show: Callable[[Any], str] | None = None
    align: str = ""
    take: str | Callable[[Any], Any] = ""
    null: str = "–"
    shrinks_to: int | None = None
    wraps: bool = False
    from_width: int = 0

    @property
    def side(self) -> str:
        """How the column is aligned: l, r or c."""
        return self.align or ("r" if self.show else "l")

    def of(self, record: Any) -> Any:
        """The cell of a record, as `take` finds it."""
        return self.take(record) if callable(self.take) else follow(record, self.take)

    def text(self, cell: Any) -> str:
        """A cell as readers see it, not escaped."""
        if cell is None:
            return self.null
        return str(cell) if self.show is None else self.show(cell)


def follow(record: Any, path: str) -> Any:
    """The attribute at the end of a path; None where any attribute on the way is None."""
    for name in path.split("."):
        if record is None:
            return None
        record = getattr(record, name)
    return record


@dataclass(frozen=True)
class Line:
    """A line across a table on a terminal: a heading of the rows below, or how many are missing."""

    text: str


Row = Sequence[Any]


def section(
    rows: Sequence[Row | Line], heading: str = "", most: int | None = None, rest: str = ""
) -> list[Row | Line]:
    """Rows under a heading; of more than `most` the first ones, and how many more (`rest`) are.

    >>> section([[1], [2], [3]], "numbers", most=1, rest=" numbers")
    [Line(text='numbers'), [1], Line(text='and 2 more numbers')]
    """
    lines: list[Row | Line] = [Line(heading)] if heading and rows else []
    lines += rows[:most]
    if most is not None and len(rows) > most:
        lines.append(Line(f"and {len(rows) - most} more{rest}"))
    return lines


@dataclass(frozen=True)
class Table:
    """A table of plain values.

    Attributes:
        columns: what each cell of a row is.
        rows: one cell per column each; on a terminal a cell may be a `rich.text.Text`, which is
            shown as it is, and a `Line` may stand between rows.
        name: of the files.
        caption: above the table in LaTeX.
        chosen: the row that is bold on a terminal.
        notes: without which the numbers are not to be read; they go with the table into every file.
    """

    columns: Sequence[Column]
    rows: Sequence[Row | Line]
    name: str = ""
    caption: str = ""
    notes: Sequence[str] = ()
    chosen: int | None = None

    @classmethod
    def of(
        cls, records: Iterable[Any], columns: Sequence[Column], name: str = "", caption: str = ""
    ) -> Table:
        """A row for each record, with what the columns' `take` find in it."""
        rows = [tuple(column.of(record) for column in columns) for record in records]
        return cls(columns, rows, name, caption)

    def csv(self) -> str:
        """CSV (RFC 4180) with every digit; an empty cell is a number that does not exist.

        Text that a spreadsheet would compute (`=1+1`) begins with an apostrophe. Notes stand in a
        last column, `note`, of every row.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\r\n")
        head, note = (["note"], [_plain("; ".join(self.notes))]) if self.notes else ([], [])
        writer.writerow([*(_plain(column.name) for column in self.columns), *head])
        writer.writerows([*map(_plain, row), *note] for row in self._body())
        return out.getvalue()

    def md(self) -> str:
        """A pipe table, its notes below."""
        lines = [
            [escape.markdown(column.name) for column in self.columns],
            [_MARKDOWN_RULES[column.side] for column in self.columns],
        ]
        lines += [list(map(_markdown, self.columns, row)) for row in self._body()]
        below = "".join(f"\n{escape.markdown(note)}\n" for note in self.notes)
        return "".join(f"| {' | '.join(line)} |\n" for line in lines) + below

    def tex(self) -> str:
        """A `table` environment; it needs the packages booktabs and graphicx."""
        head = " & ".join(escape.latex(column.name) for column in self.columns)
        body = "".join(
            f"  {' & '.join(map(_latex, self.columns, row))} \\\\\n" for row in self._body()
        )
        return (
            "% needs \\usepackage{booktabs,graphicx}\n"
            "\\begin{table}\n  \\centering\n"
            f"  \\caption{{{escape.latex('. '.join([self.caption, *self.notes]))}}}\n"
            "  \\resizebox{\\textwidth}{!}{%\n"
            f"  \\begin{{tabular}}{{{''.join(column.side for column in self.columns)}}}\n"
            f"  \\toprule\n  {head} \\\\\n  \\midrule\n{body}  \\bottomrule\n"
            "  \\end{tabular}}\n\\end{table}\n"
        )

    def rich(self, width: int) -> Iterator[Grid | Text]:
        """The parts to print on a terminal of `width` cells; heads come first if there are any.

        Columns that do not belong on so narrow a terminal are left out; where the rest is too
        wide, the last column that can gives way first. Where even that is not enough, a row has a
        line for each of its cells. Text of other people is no markup.
        """
        from rich.table import Table as Grid
        from rich.text import Text

        shown = [index for index, column in enumerate(self.columns) if column.from_width <= width]
        columns = [self.columns[index] for index in shown]

        def styled(column: Column, cell: Any, style: str) -> Text:
            if isinstance(cell, Text):
                return cell
            return Text(escape.one_line(column.text(cell)), style=style)

        def cells(row: Row, place: int) -> list[Text]:
            style = "bold" if place == self.chosen else ""
            return [styled(self.columns[index], row[index], style) for index in shown]

        lines: list[Any] = [
            row if isinstance(row, Line) else cells(row, place)
            for place, row in enumerate(self.rows)
        ]
        widths = _widths(columns, [line for line in lines if not isinstance(line, Line)], width)

        fits = sum(widths) + _GAP * (len(widths) - 1) <= width

        def stacked(rows: Sequence[Sequence[Text]]) -> Grid:
            made = Grid.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
            made.add_column(style="dim", overflow="fold")
            made.add_column(overflow="fold")
            for head, *others in rows:
                made.add_row(Text(escape.one_line(columns[0].name)), Text(head.plain, "bold"))
                for column, cell in zip(columns[1:], others, strict=True):
                    if cell.plain:
                        made.add_row(Text(f"  {escape.one_line(column.name)}"), cell)
            return made

        def grid(rows: Sequence[Sequence[Text]]) -> Grid:
            if not fits:
                return stacked(rows)
            made = Grid.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
            for column, size in zip(columns, widths, strict=True):
                made.add_column(
                    justify="right" if column.side == "r" else "left",
                    width=size,
                    no_wrap=not column.wraps,
                    overflow="fold" if column.wraps else "ellipsis",
                )
            for row in rows:
                made.add_row(*row)
            return made

        if fits and any(column.name for column in columns):
            yield grid([[Text(escape.one_line(c.name), style="bold") for c in columns]])
        for divides, block in itertools.groupby(lines, lambda line: isinstance(line, Line)):
            if divides:
                yield from (Text(escape.one_line(line.text), style="dim") for line in block)
            else:
                yield grid(list(block))

    def write(self, folder: str | Path) -> list[Path]:
        """Write `name`.csv, .md and .tex, each atomically; returns the paths."""
        texts = {"csv": self.csv(), "md": self.md(), "tex": self.tex()}
        return [
            write_text(Path(folder) / f"{self.name}.{suffix}", text)
            for suffix, text in texts.items()
        ]

    def _body(self) -> Iterator[Row]:
        return (row for row in self.rows if not isinstance(row, Line))


def _plain(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return repr(cell) if isinstance(cell, float) else escape.spreadsheet(str(cell))


def _markdown(column: Column, cell: Any) -> str:
    return column.text(cell) if column.show else escape.markdown(column.text(cell))


def _latex(column: Column, cell: Any) -> str:
    text = column.text(cell)
    special = {"–": "--", "∞": r"$\infty$", "−∞": r"$-\infty$"}
    return special.get(text) or escape.latex(text)


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> list[int]:
    """As wide as the longest cell, less what has to give way."""
    from rich.cells import cell_len

    widths = [
        max(cell_len(column.name), *(row[index].cell_len for row in rows), 0)
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
