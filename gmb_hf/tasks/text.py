"""Text in pieces: documents of any length, streamed, with their bytes counted on the way.

A file of many documents has a separator between them, `<|endoftext|>` as in the TinyStories files.
Line breaks on either side of a separator belong to it, and so do not count as text; a document
without text is none. A file without a separator is one document. Nothing is normalised: what is
read are the bytes that the file holds.
"""

from __future__ import annotations

import codecs
import hashlib
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.base.documents import Many, Section, load_yaml
from gmb_hf.base.errors import InputError, choose, first_line, repeated, right_call, unknown
from gmb_hf.base.files import STREAMED, check_file, open_file
from gmb_hf.base.fingerprints import fingerprint

SEPARATOR = "<|endoftext|>"
PIECE = 1 << 16
"""Characters of a document that are held at once, more or less."""

_CHUNK = 1 << 16
_EMPTY = "is empty; a text file with at least one document is needed"
_BREAKS = "\r\n"
_WORD_END = re.compile(r"(?<=\S)(?=\s)")
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a document: its characters, and whether the document ends here."""

    text: str
    ends_document: bool


def file_pieces(path: str | Path, separator: str | None = SEPARATOR) -> Iterator[Piece]:
    """The documents of a UTF-8 text file in pieces, in constant memory.

    Raises:
        InputError: the file is missing, empty, holds nothing but separators, or is in another
            encoding.
    """
    piece = None
    for piece in pieces(_decoded(Path(path)), separator):
        yield piece
    if piece is None:
        raise InputError(f"{path}: {_EMPTY}")


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
    ends = (match.start() for match in _WORD_END.finditer(text, limit // 2, limit))
    return max(ends, default=limit)


def _decoded(path: Path) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    read = 0

    def another_encoding(place: int, guess: str) -> InputError:
        hint = f"convert it, e.g. iconv -f {guess} -t UTF-8 {path}"
        return InputError(f"{path}: is not UTF-8 text (byte {place}); {hint}")

    with open_file(path, most=STREAMED) as file:
        while True:
            block = file.read(_CHUNK)
            begin = read - len(decoder.getstate()[0])
            read += len(block)
            if not begin and block.startswith(_MARKS):
                raise another_encoding(0, "UTF-16")
            if not begin:
                block = block.removeprefix(codecs.BOM_UTF8)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                raise another_encoding(begin + error.start, "LATIN1") from None
            if "\0" in text:  # as in UTF-16 without its mark, or in a file that is no text
                raise another_encoding(begin + text.encode().index(0), "UTF-16")
            if text:
                yield text
            if not block:
                return


class Tally:
    """Counts what passes through it: documents that have ended, and their bytes.

    `n_bytes` are those of UTF-8, separators apart; `byte_counts` of each byte, int64 [256].
    """

    def __init__(self) -> None:
        self.n_bytes = self.documents = 0
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
        found = {"bytes": self.n_bytes, "documents": self.documents}
        return found | {"content_hash": self.content_hash, "byte_counts": self.byte_counts.tolist()}


@dataclass(frozen=True)
class TextFile:
    """A local file under a name; its `source` is the path as it was given."""

    name: str
    path: Path
    separator: str | None = SEPARATOR

    @property
    def source(self) -> str:
        return str(self.path)

    def pieces(self) -> Iterator[Piece]:
        """As `file_pieces`."""
        return file_pieces(self.path, self.separator)


class HubText(Section):
    """Splits of a dataset of the Hub, one after the other; `name` is what tables show.

    `splits` are those to read: those to train on, unless `read_sources` puts the `held_out` ones.
    A dataset of one configuration names none. Unless `rows_are_documents`, the rows of a split are
    one document, cut into lines. The text is in the rows' `column`; `row_ending` is put after each
    row that does not bring its own line break.
    """

    name: str
    repository: str
    config: str | None = None
    splits: Many[str]
    held_out: Many[str]
    rows_are_documents: bool = True
    column: str = "text"
    row_ending: str = ""

    @property
    def source(self) -> str:
        """Repository, config and splits."""
        return ":".join(part for part in (self.repository, self.config, *self.splits) if part)

    def pieces(self) -> Iterator[Piece]:
        """The documents, streamed.

        Raises:
            InputError: the Hub cannot be reached, or the dataset is not as expected.
        """
        for split in self.splits:
            rows = self._rows(split)
            for document in ([row] for row in rows) if self.rows_are_documents else [rows]:
                yield from pieces(document, None)

    def _rows(self, split: str) -> Iterator[str]:
        try:
            from datasets import load_dataset

            load = partial(load_dataset, self.repository, self.config, split=split, streaming=True)
            try:
                rows: Any = load()
            except RuntimeError as error:
                if "scripts are no longer supported" not in str(error):
                    raise
                # The branch on which the Hub keeps what the script of an old dataset gave.
                rows = load(revision="refs/convert/parquet")
            for row in rows:
                yield row[self.column] + self.row_ending
        except Exception as error:  # of the network, the Hub's client or the reader: many kinds
            reason = first_line(error)
            what = f"{self.source}: could not be read from the Hub ({reason})"
            raise InputError(f"{what}; give a local file: {self.name}=FILE") from None


Text = TextFile | HubText
"""Documents under a `name`, that `pieces` reads, more than once, from `source`."""

_DOMAINS_FILE = Path(__file__).with_name("domains.yaml")
DOMAINS = {
    name: HubText.parse({"name": name, **entry}, where=f"{_DOMAINS_FILE}: {name}")
    for name, entry in load_yaml(_DOMAINS_FILE).items()
}
"""Known without a file."""


def read_sources(
    given: Sequence[str],
    *,
    option: str = "--text",
    separator: str | None = SEPARATOR,
    held_out: bool = True,
) -> tuple[Text, ...]:
    """Texts from `NAME=FILE` and known names, as typed after `option`.

    Args:
        separator: between the documents of a file.
        held_out: of a known set take the held-out splits, else those to train on.

    Raises:
        InputError: nothing given, an unknown name without a file, a name given twice, a file that
            is missing or empty.
    """
    if not given:
        raise InputError(f"{option}: no text is given; write NAME=FILE, or {', '.join(DOMAINS)}")
    found = tuple(_read_source(word, option, separator, held_out) for word in given)
    if (twice := repeated(text.name for text in found)) is not None:
        raise InputError(f"{option}: the name {twice!r} is given twice; name the texts apart")
    return found


def _read_source(word: str, option: str, separator: str | None, held_out: bool) -> Text:
    name, equals, place = word.partition("=")
    if not equals and name in DOMAINS:
        text = DOMAINS[name]
        if not held_out and not text.splits:
            raise InputError(f"{option} {name}: is for evaluation only, it has no training split")
        return text.model_copy(update={"splits": text.held_out}) if held_out else text
    if not equals and Path(word).exists():
        raise InputError(f"{option} {word}: give the file a name, e.g. {Path(word).stem}={word}")
    if not equals:
        error = unknown("text", name, DOMAINS, where=option)
        raise InputError(f"{error} Any other text is given by its file: {name}=FILE")
    if not name.strip() or not place:
        raise InputError(f"{option} {word!r}: write it as NAME=FILE")
    path = Path(place)
    check_file(path, most=STREAMED)
    if not path.stat().st_size:
        raise InputError(f"{path}: {_EMPTY}")
    return TextFile(name.strip(), path, separator)


def described(texts: Sequence[Text]) -> list[dict[str, Any]]:
    """Name and source of each, as plain data."""
    return [{"name": text.name, "source": text.source} for text in texts]


@dataclass(frozen=True)
class TextScore:
    """The prediction of some text: `nats` is the summed loss, -sum of ln p(token | before it).

    Among the predicted tokens are those that close documents; `n_bytes` are of UTF-8.
    """

    nats: float
    tokens: int
    n_bytes: int
    documents: int

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """exp(loss); infinite where that is too large for a float."""
        return math.exp(self.loss) if self.loss < math.log(np.finfo(float).max) else math.inf

    @property
    def bits_per_byte(self) -> float:
        """loss x tokens / (bytes x ln 2)."""
        return self.nats / (self.n_bytes * math.log(2))

    def to_dict(self) -> dict[str, Any]:
        """The three numbers and the three counts as plain data."""
        rates = ("loss", "perplexity", "bits_per_byte")
        counts = {"tokens": self.tokens, "bytes": self.n_bytes, "documents": self.documents}
        return {name: getattr(self, name) for name in rates} | counts


def unigram_score(train_counts: ArrayLike, counts: ArrayLike, documents: int) -> TextScore:
    """Text predicted byte by byte from how often each byte occurs in the training text.

    The least that a model of text must beat. Every byte is counted once more than it occurs
    (Laplace), so that none is impossible; the ends of documents are not predicted.

    Counts are of each byte in the training text and in the text to predict, [256].
    """
    seen = np.asarray(train_counts, dtype=np.float64) + 1
    nats = float(-(np.asarray(counts) * np.log(seen / seen.sum())).sum())
    total = int(np.sum(counts))
    return TextScore(nats, total, total, documents)


def heldout_perplexity(predictions: Any, references: Any, **settings: Any) -> dict[str, Any]:
    """Loss, perplexity and bits per byte of documents, from the log-probabilities of their tokens.

    Args:
        predictions: ln p of each token that was predicted, a list per document.
        references: size of each document in bytes.
        settings: `return_per_document` adds `loss_per_document` and `bits_per_byte_per_document`.

    Raises:
        InputError: a log-probability that is missing, infinite or above 0, a document without
            tokens, or a size that is no whole number of at least 1; the document is named.
    """
    call = "predictions=[[-0.7, -1.2], ...], references=[9, ...]"
    with right_call("heldout_perplexity", call):
        check_settings(settings)
        if predictions is None or references is None:
            raise InputError(f"{'predictions' if predictions is None else 'references'} is missing")
        n, sizes = len(predictions), len(references)
        if n != sizes:
            what = f"{n} documents in predictions, {sizes} sizes in references"
            raise InputError(f"{what}; give one for each")
        if not n:
            raise InputError("there is no document")
        each = list(map(_score, predictions, references, range(n)))
        nats = math.fsum(one.nats for one in each)
        counts = (sum(one.tokens for one in each), sum(one.n_bytes for one in each))
        found = TextScore(nats, *counts, n).to_dict()
        if settings.get("return_per_document"):
            for name in ("loss", "bits_per_byte"):
                found[f"{name}_per_document"] = [getattr(one, name) for one in each]
        return found


def check_settings(settings: dict[str, Any]) -> None:
    """Refuse keywords that the metric does not have."""
    for name in settings:
        choose("argument", name, ("return_per_document",))


def _score(row: Sequence[float], size: Any, number: int) -> TextScore:
    where = f"predictions[{number}]"
    try:
        logs: NDArray[np.float64] = np.asarray(row, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{where} must be a list of numbers") from None
    if logs.ndim != 1 or not logs.size:
        raise InputError(f"{where} must be a list of at least one log-probability")
    wrong = np.flatnonzero(~(np.isfinite(logs) & (logs <= 0)))
    if wrong.size:
        hint = "a log-probability is a number of at most 0 (a loss with its sign changed)"
        raise InputError(f"{where}[{wrong[0]}] is {logs[wrong[0]]:g}; {hint}")
    good = isinstance(size, (int, float, np.number)) and not isinstance(size, bool)
    if not good or not math.isfinite(size) or size < 1 or size != int(size):
        hint = "the size of a document is a whole number of bytes"
        raise InputError(f"references[{number}] is {size!r}; {hint}")
    return TextScore(float(-logs.sum()), int(logs.size), int(size), 1)


def disagreement(samples: Sequence[Sequence[Hashable]]) -> float:
    """1 - (share of the most frequent sample), the mean over prompts; in [0, 1 - 1/K].

    Args:
        samples: of each prompt its K samples, K at least 2 and the same for all: with fewer
            samples the most frequent one has a larger share by itself.

    Raises:
        InputError: no prompts, fewer than 2 samples, or another number of them.

    >>> disagreement([["a", "a", "b", "a"], ["a", "b", "c", "d"]])
    0.5
    """
    counts = [len(row) for row in samples]
    k, most = min(counts, default=0), max(counts, default=0)
    if k < 2:
        raise InputError("self-consistency needs prompts with at least 2 samples each")
    if k < most:
        what = "self-consistency needs equally many samples of every prompt"
        raise InputError(f"{what}, got {k} to {most}")
    agreeing = sum(Counter(row).most_common(1)[0][1] for row in samples)
    return 1 - agreeing / (k * len(samples))
