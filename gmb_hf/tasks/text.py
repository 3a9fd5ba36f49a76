"""Text in pieces: documents of any length, streamed, with their bytes counted on the way.

A file of many documents has a separator between them, `<|endoftext|>` as in the TinyStories files.
Line breaks on either side of a separator belong to it, and so do not count as text; a document
without text is none. A file without a separator is one document. Nothing is normalised: what is
read are the bytes that the file holds.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.files import check_file
from gmb_hf.fingerprints import fingerprint
from gmb_hf.validation import InputError

SEPARATOR = "<|endoftext|>"
PIECE = 1 << 16
"""Characters of a document that are held at once, more or less."""

_CHUNK = 1 << 16
_BREAKS = "\r\n"
_WORD_END = re.compile(r"(?<=\S)(?=\s)")
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a document.

    Attributes:
        text: its characters.
        ends_document: whether the document ends here.
    """

    text: str
    ends_document: bool


def file_pieces(
    path: str | Path, separator: str | None = SEPARATOR, *, limit: int = PIECE
) -> Iterator[Piece]:
    """The documents of a UTF-8 text file in pieces, in constant memory.

    Raises:
        InputError: the file is missing, empty, holds nothing but separators, or is in another
            encoding.
    """
    found = False
    for piece in pieces(_decoded(Path(path)), separator, limit=limit):
        found = True
        yield piece
    if not found:
        raise InputError(f"{path}: is empty; a text file with at least one document is needed")


def pieces(
    chunks: Iterable[str], separator: str | None = SEPARATOR, *, limit: int = PIECE
) -> Iterator[Piece]:
    """The documents of a stream of characters in pieces.

    A document longer than twice the limit is cut, before white space where there is some, so that
    byte-level tokenizers and those of GPT-2's kind give the tokens of the whole.

    Args:
        chunks: the text, cut anywhere.
        separator: what stands between documents; None: the stream is one document.
        limit: characters of a piece, at most.
    """
    if separator == "":
        raise InputError("the separator of documents is empty; leave it out for one document")
    buffer, begun, at_start = "", False, True
    for chunk in chunks:
        buffer += chunk
        while True:
            if not begun and not at_start:
                buffer = buffer.lstrip(_BREAKS)
            end = buffer.find(separator) if separator is not None else -1
            if end >= 0 and separator is not None:
                document = buffer[:end].rstrip(_BREAKS)
                buffer = buffer[end + len(separator) :]
                if begun or document:
                    yield from _cut(document, limit)
                begun, at_start = False, False
            elif len(buffer) > 2 * limit + len(separator or ""):
                place = _place(buffer, limit)
                yield Piece(buffer[:place], False)
                buffer, begun = buffer[place:], True
            else:
                break
    if begun or buffer:
        yield from _cut(buffer, limit)


def _cut(rest: str, limit: int) -> Iterator[Piece]:
    """The end of a document in pieces, the last of which says so."""
    while len(rest) > 2 * limit:
        place = _place(rest, limit)
        yield Piece(rest[:place], False)
        rest = rest[place:]
    yield Piece(rest, True)


def _place(text: str, limit: int) -> int:
    """Where to cut: at the end of the last word before the limit."""
    ends = [match.start() for match in _WORD_END.finditer(text, limit // 2, limit)]
    return ends[-1] if ends else limit


def _decoded(path: Path) -> Iterator[str]:
    check_file(path)
    decoder = codecs.getincrementaldecoder("utf-8")()
    read = 0
    with path.open("rb") as file:
        while True:
            block = file.read(_CHUNK)
            begin = read - len(decoder.getstate()[0])
            read += len(block)
            if not begin and block.startswith(_MARKS):
                raise _another_encoding(path, 0, "UTF-16")
            if not begin:
                block = block.removeprefix(codecs.BOM_UTF8)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                raise _another_encoding(path, begin + error.start, "LATIN1") from None
            if "\0" in text:  # as in UTF-16 without its mark, or in a file that is no text
                raise _another_encoding(path, begin + text.encode().index(0), "UTF-16")
            if text:
                yield text
            if not block:
                return


def _another_encoding(path: Path, place: int, guess: str) -> InputError:
    return InputError(
        f"{path}: is not UTF-8 text (byte {place}); convert it, e.g. "
        f"iconv -f {guess} -t UTF-8 {path}"
    )


class Tally:
    """Counts what passes through it.

    Attributes:
        n_bytes: of the documents in UTF-8, separators apart.
        documents: that have ended.
        byte_counts: how often each byte occurs, int64 [256].
    """

    def __init__(self) -> None:
        self.n_bytes = 0
        self.documents = 0
        self.byte_counts: NDArray[np.int64] = np.zeros(256, dtype=np.int64)
        self._digest = hashlib.sha256()

    def through(self, stream: Iterable[Piece]) -> Iterator[Piece]:
        """The same pieces, counted."""
        for piece in stream:
            content = piece.text.encode("utf-8")
            self.n_bytes += len(content)
            self.byte_counts += np.bincount(np.frombuffer(content, dtype=np.uint8), minlength=256)
            self._digest.update(content)
            if piece.ends_document:
                self.documents += 1
                self._digest.update(b"\0")  # no document holds it
            yield piece

    @property
    def content_hash(self) -> str:
        """SHA-256 (64 hex digits) of the documents in their order, however they were cut."""
        return self._digest.hexdigest()

    @property
    def fingerprint(self) -> str:
        """`content_hash|null|documents`: nothing was drawn."""
        return fingerprint(self.content_hash, None, self.documents)

    def to_dict(self) -> dict[str, Any]:
        """Counts and hash as plain data."""
        return {
            "bytes": self.n_bytes,
            "documents": self.documents,
            "content_hash": self.content_hash,
            "byte_counts": self.byte_counts.tolist(),
        }
