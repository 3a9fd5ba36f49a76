"""A log file that another process is writing: its lines as they are completed.

The file may not be there yet, may be cut to nothing and begun again, may be moved away and replaced
(logrotate does both), and its last line may be half written when it is read.
"""

from __future__ import annotations

import csv
import os
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from gmb_hf.errors import InputError, choose, repeated
from gmb_hf.escape import one_line
from gmb_hf.files import as_float, json_fault, parse_json
from gmb_hf.runs.columns import KEYS, RUN, STEP, find_step

_LINE_END = re.compile(rb"\r\n|\n|\r")
_HEAD = 512
"""Bytes from which a file that was cut and has grown again is told from the one before."""


@dataclass(frozen=True)
class Line:
    """One complete line, `number` in its file from 1; bytes that are no UTF-8 are replaced.

    `begins` tells the first line of a file that was cut, replaced or new.
    """

    number: int
    text: str
    begins: bool


class GrowingFile:
    """Reads on where it stopped; use it as a context manager."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: BinaryIO | None = None
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def unfinished(self) -> Line | None:
        """What stands after the last complete line, if anything."""
        return self._line(self._rest) if self._rest.strip(b"\0 \r") else None

    def poll(self) -> list[Line]:
        """The lines that were completed since the last call; none while there is no file."""
        lines: list[Line] = []
        if self._file is not None:
            number = self._file.fileno()
            cut = os.fstat(number).st_size < self._file.tell()
            if cut or os.pread(number, len(self._head), 0) != self._head:
                self._file.seek(0)
                self._forget()
            lines += self._new_lines(self._file)
            try:
                replaced = not os.path.samestat(os.fstat(number), self.path.stat())
            except FileNotFoundError:
                replaced = False  # moved away; the new one is still to come
            if not replaced:
                return lines
            # What was written between that reading and the replacement.
            lines += self._new_lines(self._file)
            self.close()
        try:
            self._file = self.path.open("rb")
        except FileNotFoundError:
            return lines
        self._forget()
        return lines + self._new_lines(self._file)

    def _forget(self) -> None:
        self._head = b""
        self._rest = b""
        self._number = 0

    def _new_lines(self, file: BinaryIO) -> list[Line]:
        content = file.read()
        self._head = (self._head + content)[:_HEAD]
        content = self._rest + content
        # At the end of what is there, CR may be the first half of a line's end.
        held = content[-1:] if content.endswith(b"\r") else b""
        *whole, rest = _LINE_END.split(content.removesuffix(held))
        self._rest = rest + held
        lines = []
        for line in whole:
            lines.append(self._line(line))
            self._number += 1
        return lines

    def _line(self, line: bytes) -> Line:
        # A writer that keeps its place while the file is cut leaves a hole of zero bytes.
        text = line.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
        return Line(self._number + 1, text.decode("utf-8", errors="replace"), self._number == 0)


@dataclass(frozen=True)
class Checkpoint:
    """The numbers of one step by column; a cell without a number is not there.

    `line` is where its last row stands, `begins` whether the file began anew with it.
    """

    step: int
    columns: Mapping[str, float]
    line: int
    begins: bool


class _NoRow(Exception):
    """Why a line holds no row of the log."""


class GrowingRows:
    """Lines to checkpoints.

    Args:
        where: the file, for messages.
        needs: columns that make a checkpoint complete; with all of them it waits for no other row.
        cadence: steps between checkpoints; rows between them that have none of `needs` are other
            logging.
        run: which run to follow where the log holds several.
        step_column: its name.

    Attributes:
        notes: what was passed over since they were last looked at, a line each.
    """

    def __init__(
        self,
        where: str,
        *,
        needs: Sequence[str],
        cadence: int | None = None,
        run: str | None = None,
        step_column: str = STEP,
    ) -> None:
        self.notes: list[str] = []
        self._where = where
        self._csv = where.endswith(".csv")
        self._needs = frozenset(needs) - {STEP}
        self._cadence = cadence or 1
        self._run = run
        self._run_given = run is not None
        self._seen_runs: set[str] = set()
        self._step_column = step_column
        self._header: list[str] = []
        self._read_any = False
        self._begins = False
        self._pending: Checkpoint | None = None
        self._done: int | None = None  # the step that was handed over last

    def checkpoints(self, lines: Sequence[Line]) -> list[Checkpoint]:
        """The checkpoints that these lines complete.

        Raises:
            InputError: the file is no log of this kind, lacks the steps, or holds several runs.
        """
        found = []
        for line in lines:
            if line.begins:
                found += self.rest()
                self._header, self._begins, self._done = [], True, None
            try:
                row = self._row(line)
                found += [] if row is None else self._add_row(row, line)
            except _NoRow as why:
                place = f"line {line.number}"
                if not self._read_any:
                    what = f"{place} {why}; name a log of JSON lines, or a .csv file"
                    raise InputError.at(self._where, "not_a_log", what, place=place) from None
                self.notes.append(f"{self._where}: {place} {why}; passed over")
        return found

    def rest(self) -> list[Checkpoint]:
        """The checkpoint that waits for more rows of its step, if one does."""
        held, self._pending = self._pending, None
        self._done = self._done if held is None else held.step
        return [] if held is None else [held]

    def check_run(self) -> None:
        """Refuse a run that was asked for and is not in the log."""
        if self._run_given:
            choose("run", str(self._run), tuple(self._seen_runs), where=self._where)

    def _row(self, line: Line) -> dict[str, Any] | None:
        if not line.text.strip():
            return None
        if self._csv:
            return self._cells(line.text)
        try:
            row = parse_json(line.text, where="it", foreign=True)
        except InputError as error:
            raise _NoRow(f"is not JSON ({one_line(json_fault(error))})") from None
        if not isinstance(row, dict):
            raise _NoRow("is not a JSON object {column: number}")
        return row

    def _cells(self, text: str) -> dict[str, Any] | None:
        try:
            cells = [cell.strip() for cell in next(csv.reader([text]))]
        except csv.Error as error:
            raise _NoRow(f"is no line of a CSV file ({error})") from None
        if self._header and len(cells) != len(self._header):
            raise _NoRow(f"has {len(cells)} cells where the header has {len(self._header)}")
        if self._header:
            return dict(zip(self._header, cells, strict=True))
        twice = repeated(cells)
        if twice is not None:
            what = f"column {twice!r} stands twice in the header"
            raise InputError.at(self._where, "repeated_column", what, column=twice)
        self._header = cells
        return None

    def _add_row(self, row: dict[str, Any], line: Line) -> list[Checkpoint]:
        if not self._is_of_run(row):
            return []
        step = self._step(row, line)
        self._read_any = True
        keys = {*KEYS, self._step_column}
        numbers = {name: _number(cell) for name, cell in row.items() if name not in keys}
        columns = {name: value for name, value in numbers.items() if value is not None}
        other = step is not None and step % self._cadence and not self._needs & columns.keys()
        if step is None or other or step == self._done:
            return []
        found = []
        if self._pending is not None and self._pending.step == step:
            columns = {**self._pending.columns, **columns}
        else:
            found = self.rest()
        self._pending = Checkpoint(step, columns, line.number, self._begins)
        self._begins = False
        return found + self.rest() if self._needs <= columns.keys() else found

    def _is_of_run(self, row: Mapping[str, Any]) -> bool:
        if RUN not in row:
            return True
        name = str(row[RUN])
        self._seen_runs.add(name)
        self._run = name if self._run is None else self._run
        if name != self._run and not self._run_given:
            what = f"holds several runs ({self._run}, {name}); say which with --run"
            raise InputError.at(self._where, "several_runs", what)
        return name == self._run

    def _step(self, row: Mapping[str, Any], line: Line) -> int | None:
        try:
            column = find_step(list(row), self._step_column, self._where)
        except InputError as error:
            if self._read_any:
                raise _NoRow(f"has {str(error).removeprefix(f'{self._where}: ')}") from None
            raise
        if column not in row:
            if self._read_any:
                return None  # a summary, a config: loggers write such rows too
            place, found = f"line {line.number}", ", ".join(row) or "none"
            what = f"{place}: column {column!r} missing; found: {found}"
            hint = "say which it is with --step-column"
            at = {"place": place, "column": column}
            raise InputError.at(self._where, "missing_column", f"{what}; {hint}", **at)
        value = None if isinstance(row[column], bool) else _number(row[column])
        if value is None or not 0 <= value < 2**53 or value != int(value):
            shown = reprlib.repr(row[column])
            raise _NoRow(f"has the step {shown}, no whole number from 0 on and below 2^53")
        return int(value)


def _number(cell: Any) -> float | None:
    try:
        return as_float(cell)
    except (TypeError, ValueError):
        return None
