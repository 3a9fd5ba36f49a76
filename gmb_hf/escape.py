"""Names and numbers as they are safe to read: other people's text never becomes markup."""

from __future__ import annotations

import math
import re
import unicodedata

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
