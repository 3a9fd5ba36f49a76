"""Rows of text logs, line by line: what reads a whole file and what follows a growing one.

Bytes become lines (`Lines`), also those of a `.gz`, and lines become rows (`CsvRows`, `JsonRows`).
What is wrong with a row is handed over in its place, as a `RowFault`: who reads a file raises it,
who follows a log says it and goes on.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from gmb_hf.base.errors import InputError, repeated
from gmb_hf.base.files import MOST_BYTES, open_file, parse_json, read_bytes

_GZ = ".gz"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 24  # bytes
# Text of which a .gz may hold more than a thousand times its size, as one of equal bytes does.
_MOST_TEXT = 1 << 28
_MOST_RATIO = 300
_PART = 1 << 16  # compressed bytes that are decompressed at once
# Lines after which a quoted cell without an end is a stray quote: no more rows are lost by one.
_MOST_LINES = 200


@dataclass(frozen=True)
class LogLine:
    """One complete line, `number` in its file from 1; bytes that are no UTF-8 are kept as they are.

    `begins` tells the first line of a file that was cut, replaced or new.
    """

    number: int
    text: str
    begins: bool = False


class LogRow(NamedTuple):
    """The cells of a row by column, and the number of its first line."""

    line: int
    cells: dict[str, Any]


class RowFault(InputError):
    """What is wrong with one row of a log; those after it can be read."""


class TextRows(Protocol):
    """Makes rows of the lines of one file."""

    def feed(self, line: LogLine) -> list[LogRow | RowFault]:
        """The rows that this line completes.

        Raises:
            InputError: the file as a whole cannot be read.
        """

    def finish(self) -> list[LogRow | RowFault]:
        """The row that waits for more lines, where no more will come."""


def plain_name(name: str) -> str:
    """The name of a file without the ending of its compression."""
    return name[: -len(_GZ)] if name.lower().endswith(_GZ) else name


class _Gunzip:
    """Decompresses a file as it comes, also one that was appended to; others stay as they are."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken = self._given = 0  # bytes
        self._stream = zlib.decompressobj(wbits=31) if plain_name(path.name) != path.name else None

    def feed(self, content: bytes) -> bytes:
        """What is known of the text by these bytes.

        Raises:
            InputError: they are not compressed by gzip, or damaged.
        """
        if self._stream is None:
            return content
        parts = (content[at : at + _PART] for at in range(0, len(content), _PART))
        return b"".join(text for part in parts for text in self._decompressed(part))

    def _decompressed(self, content: bytes) -> Iterator[bytes]:
        self._taken += len(content)
        while self._stream and content:
            if self._stream.eof:  # another part, or the zeros of a tape's block
                content = content.lstrip(b"\0")
                if not content:
                    break
                self._stream = zlib.decompressobj(wbits=31)
            try:
                text = self._stream.decompress(content)
            except zlib.error as error:
                hint = "copy it again, or name it without .gz if it is not compressed"
                what = f"not a gzip file, or a damaged one ({error}); {hint}"
                raise InputError.at(self._path, "not_gzip", what) from None
            self._given += len(text)
            most = max(_MOST_TEXT, _MOST_RATIO * self._taken)
            if self._given > min(most, MOST_BYTES):
                hint = "decompress it, and look at what it holds"
                what = f"decompresses to more than {self._given >> 20:,} MB of text; {hint}"
                raise InputError.at(self._path, "too_large", what)
            yield text
            content = self._stream.unused_data

    def finish(self) -> None:
        """Refuse a file that ends too soon."""
        if self._stream and not self._stream.eof:
            what = "cut short: its compressed data has no end; copy it again"
            raise InputError.at(self._path, "cut_short", what)


def content_of(path: Path) -> bytes:
    """The text of a file, decompressed.

    Raises:
        InputError: it is named .gz and is no gzip file, or a damaged one, or one that was cut.
    """
    stream = _Gunzip(path)
    content = stream.feed(read_bytes(path))
    stream.finish()
    return content


class Lines:
    """The lines of a text file, from its bytes as they come.

    Attributes:
        number: how many were complete so far.
    """

    def __init__(self, path: Path) -> None:
        self.number = 0
        self._path = path
        self._stream = _Gunzip(path)
        self._rest = b""

    def feed(self, content: bytes) -> list[LogLine]:
        """The lines that these bytes complete; `InputError` where a .gz cannot be decompressed."""
        content = self._rest + self._stream.feed(content)
        # At the end of what is there, CR may be the first half of a line's end.
        held = content[-1:] if content.endswith(b"\r") else b""
        *whole, rest = _LINE_END.split(content.removesuffix(held))
        self._rest = rest + held
        if len(self._rest) > _LONGEST_LINE:
            what = f"is longer than {_LONGEST_LINE >> 20} MB, or this is no text"
            place = f"line {self.number + len(whole) + 1}"
            raise InputError.at(self._path, "too_large", f"{place} {what}", place=place)
        lines = []
        for line in whole:
            lines.append(self._line(line))
            self.number += 1
        return lines

    @property
    def unfinished(self) -> list[LogLine]:
        """What stands after the last complete line: a line, or none."""
        return [self._line(self._rest)] if self._rest.strip(b"\0 \r") else []

    def finish(self) -> list[LogLine]:
        """The last line, where no end follows it; `InputError` where a .gz ends too soon."""
        self._stream.finish()
        return self.unfinished

    def _line(self, line: bytes) -> LogLine:
        # A writer that keeps its place while the file is cut leaves a hole of zero bytes.
        text = line.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
        return LogLine(self.number + 1, text.decode("utf-8", "surrogateescape"), self.number == 0)


def rows_of(path: Path, rows: TextRows) -> Iterator[LogRow]:
    """The rows of a whole file.

    Raises:
        InputError: a row is wrong, or the file.
    """
    for row in _rows_of(path, rows):
        if isinstance(row, RowFault):
            raise row
        yield row


def _rows_of(path: Path, rows: TextRows) -> Iterator[LogRow | RowFault]:
    lines = Lines(path)
    with open_file(path) as file:
        while content := file.read(_CHUNK):
            for line in lines.feed(content):
                yield from rows.feed(line)
    for line in lines.finish():
        yield from rows.feed(line)
    yield from rows.finish()


def _fault(where: str, code: str, line: LogLine, what: str) -> RowFault:
    place = f"line {line.number}"
    return RowFault.at(where, code, f"{place}{what}", place=place)


def _checked(where: str, line: LogLine) -> RowFault | None:
    """The fault of a line that is no text, if it is none."""
    try:
        line.text.encode()
    except UnicodeEncodeError:
        return _fault(where, "not_utf8", line, ": not UTF-8 text; save the file as UTF-8")
    return None


class JsonRows:
    """Rows of JSON lines: an object {column: number} a line."""

    def __init__(self, where: str) -> None:
        self._where = where

    def feed(self, line: LogLine) -> list[LogRow | RowFault]:
        """The row of a line; none of a blank one."""
        if not line.text.strip():
            return []
        place = f"line {line.number}"
        if (wrong := _checked(self._where, line)) is not None:
            return [wrong]
        try:
            item = parse_json(line.text, where=place, foreign=True)
        except InputError as error:
            what = str(error).replace(": is not JSON", " is not JSON", 1)
            return [RowFault.at(self._where, error.code, what, place=place)]
        if isinstance(item, dict):
            return [LogRow(line.number, item)]
        return [_fault(self._where, "not_json", line, " is not a JSON object {column: number}")]

    def finish(self) -> list[LogRow | RowFault]:
        """None: a line is a row."""
        return []


class CsvRows:
    """Rows of a CSV file, whose first row names the columns.

    A cell in quotes may hold ends of lines.

    Attributes:
        header: the cells of the first row; [] before it came.
    """

    def __init__(self, where: str) -> None:
        self.header: list[str] = []
        self._where = where
        self._held: list[LogLine] = []  # of a row whose last cell has no end yet

    @property
    def names(self) -> list[str]:
        """The columns; a table that was written with its index begins with one without a name."""
        return self.header[1:] if self.header and not self.header[0] else self.header

    def feed(self, line: LogLine) -> list[LogRow | RowFault]:
        """The rows that this line completes; none of a blank one and of the header.

        Raises:
            InputError: the header is none of a log.
        """
        self._held.append(line)
        if not _is_open(self._held):
            return self.finish()
        if len(self._held) < _MOST_LINES:
            return []
        # A stray quote: its line stands alone, the others are read anew.
        (first, *others), self._held = self._held, []
        return [*self._rows([first]), *(row for other in others for row in self.feed(other))]

    def finish(self) -> list[LogRow | RowFault]:
        """The row whose last cell has no end."""
        held, self._held = self._held, []
        return self._rows(held) if held else []

    def _rows(self, lines: list[LogLine]) -> list[LogRow | RowFault]:
        first = lines[0]
        for line in lines:
            if (wrong := _checked(self._where, line)) is not None:
                return [wrong]
        try:
            cells = [cell.strip() for cell in next(csv.reader([_text(lines)]), [])]
        except csv.Error as error:
            return [_fault(self._where, "not_csv", first, f" is no line of a CSV file: {error}")]
        if not cells:
            return []
        if not self.header:
            self._take_header(cells)
            return []
        if len(cells) != len(self.header):
            what = f" has {len(cells)} cells where the header has {len(self.header)}"
            hint = "complete or delete the line (a log that was cut short ends so)"
            return [_fault(self._where, "cut_short", first, f"{what}; {hint}")]
        values = dict(zip(self.header, cells, strict=True))
        return [LogRow(first.number, {name: values[name] for name in self.names})]

    def _take_header(self, cells: list[str]) -> None:
        for separator, name in ((";", "semicolons"), ("\t", "tabs")):
            if len(cells) == 1 and separator in cells[0]:
                hint = "separate them by commas, and write numbers with a decimal point"
                what = f"columns are separated by {name}; {hint}"
                raise InputError.at(self._where, "other_separator", what)
        if (twice := repeated(cells)) is not None:
            what = f"column {twice!r} stands twice in the header"
            raise InputError.at(self._where, "repeated_column", what, column=twice)
        self.header = cells


def _text(lines: list[LogLine]) -> str:
    return "\n".join(line.text for line in lines)


def _is_open(lines: list[LogLine]) -> bool:
    """Whether the last cell of a row of CSV begins with a quote and has no end."""
    text = _text(lines)
    if '"' not in text:
        return False
    try:
        next(csv.reader([text], strict=True), None)
    except csv.Error as error:
        return "unexpected end of data" in str(error)
    return False
