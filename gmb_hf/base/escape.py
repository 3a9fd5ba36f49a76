"""Names and numbers as they are safe to read: other people's text never becomes markup."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
# An underscore inside a word is literal in Markdown, as in embedding_norm_drop.
# GitHub makes links of addresses that begin so: the colon or the dot is escaped.
_MARKDOWN = re.compile(
    r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=\bwww)\.", re.IGNORECASE
)
_MAIL = re.compile(r"(?<=\S)@(?=[^\s@]*\.)")  # a link even where it is escaped, unless it is parted
_FORMULA = tuple("=+-@\t\r＝＋－＠")  # some spreadsheets compute those of full width, too


def one_line(text: str) -> str:
    """The text without line breaks and control characters."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    kept = (" " if unicodedata.category(char).startswith("C") else char for char in text)
    return " ".join("".join(kept).split())


def shorten(name: str, length: int) -> str:
    """The name on one line, cut in the middle with an ellipsis beyond `length` characters."""
    flat = one_line(name) or "(no name)"
    if len(flat) <= length:
        return flat
    head = (length - 1) * 2 // 3
    return f"{flat[:head]}…{flat[len(flat) - (length - 1 - head) :]}"


def markdown(text: str) -> str:
    """The text within a line or a table cell of Markdown, shown as it is.

    >>> markdown("a_b"), markdown("a|b")
    ('a_b', 'a\\\\|b')
    """
    return _MAIL.sub("<!-- -->@", _MARKDOWN.sub(r"\\\g<0>", one_line(text)))


def spreadsheet(text: str) -> str:
    """The text for a cell of a CSV table: a formula is shown, not computed.

    >>> spreadsheet("=1+1"), spreadsheet("-0.5"), spreadsheet("drop")
    ("'=1+1", '-0.5', 'drop')
    """
    if not text.startswith(_FORMULA) or text == "-":
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def latex(text: str) -> str:
    """The text for a cell of a LaTeX table.

    >>> latex("50% of a_b")
    '50\\\\% of a\\\\_b'
    """
    return "".join(_LATEX.get(character, character) for character in one_line(text))


_PAGE, _CELL = 1_900, 40  # characters that a notebook shows of an object, and of a cell


def html_table(
    title: str, names: Sequence[str], rows: Iterable[Sequence[object]], total: int, what: str
) -> str:
    """A title and the first rows of a table for a notebook, everything escaped, below 2 kB.

    Args:
        title: a line above.
        names: of the columns; none: no head.
        rows: of cells; None is shown as nothing.
        total: how many rows there are in all; how many are left out is said below.
        what: what a row is, in the plural.
    """

    def line(cells: Iterable[object], tag: str) -> str:
        texts = (cut("" if cell is None else one_line(str(cell)), _CELL) for cell in cells)
        return f"<tr>{''.join(f'<{tag}>{html.escape(text)}</{tag}>' for text in texts)}</tr>"

    head = f"<thead>{line(names, 'th')}</thead>" if names else ""
    # Escaped, a character may become six.
    room, shown = _PAGE - len(head) - len(title := html.escape(cut(title, 150))), []
    for row in rows:
        shown.append(line(row, "td"))
        room -= len(shown[-1])
        if room < 100:
            shown.pop()
            break
    left = total - len(shown)
    more = f"<p>and {left:,} more {what}</p>" if left else ""
    return f"<p>{title}</p><table>{head}<tbody>{''.join(shown)}</tbody></table>{more}"


def cut(text: str, length: int) -> str:
    """The text, shortened with an ellipsis if it is longer.

    >>> cut("embedding_gini", 10)
    'embedding…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def number(value: float | None, digits: int = 3) -> str:
    """A rate or statistic with so many decimals; a dash where there is none.

    >>> number(0.12345), number(None), number(float("inf"))
    ('0.123', '–', '∞')
    """
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """A share in whole per cent."""
    return "–" if value is None else f"{value:.0%}"


def steps(value: float | None) -> str:
    """A count of steps, with thousands separated."""
    return "–" if value is None else f"{value:,.0f}"


def p_value(value: float | None) -> str:
    """A p-value with three decimals, or that it is below .001."""
    if value is None:
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def yes_no(value: bool | None) -> str:
    """`yes`, `no`, or a dash."""
    return "–" if value is None else "yes" if value else "no"
