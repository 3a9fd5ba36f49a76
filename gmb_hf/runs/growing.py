"""A log file that another process is writing: its lines as they are completed.

The file may not be there yet, may be cut to nothing and begun again, may be moved away and replaced
(logrotate does both), and its last line may be half written when it is read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

_HEAD = 512
"""Bytes from which a file that was cut and has grown again is told from the one before."""


@dataclass(frozen=True)
class Line:
    """One complete line.

    Attributes:
        number: in its file, from 1.
        text: without its end; bytes that are no UTF-8 are replaced.
        begins: whether it is the first line of a file that was cut, replaced or new.
    """

    number: int
    text: str
    begins: bool


class GrowingFile:
    """Reads on where it stopped; use it as a context manager.

    Args:
        path: of the file.
    """

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
            if self._was_cut(self._file):
                self._file.seek(0)
                self._forget()
            lines += self._new_lines(self._file)
            if not self._was_replaced(self._file):
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

    def _was_cut(self, file: BinaryIO) -> bool:
        if os.fstat(file.fileno()).st_size < file.tell():
            return True
        return os.pread(file.fileno(), len(self._head), 0) != self._head

    def _was_replaced(self, file: BinaryIO) -> bool:
        try:
            return not os.path.samestat(os.fstat(file.fileno()), self.path.stat())
        except FileNotFoundError:
            return False  # moved away; the new one is still to come

    def _new_lines(self, file: BinaryIO) -> list[Line]:
        content = file.read()
        self._head = (self._head + content)[:_HEAD]
        *whole, self._rest = (self._rest + content).split(b"\n")
        lines = []
        for line in whole:
            lines.append(self._line(line))
            self._number += 1
        return lines

    def _line(self, line: bytes) -> Line:
        # A writer that keeps its place while the file is cut leaves a hole of zero bytes.
        text = line.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
        return Line(self._number + 1, text.decode("utf-8", errors="replace"), self._number == 0)
