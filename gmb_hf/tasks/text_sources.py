"""Where text comes from: local files by name, and the sets of the evaluation protocol on the Hub.

    tinystories=stories.txt    a UTF-8 file, under the name that tables show
    wikitext2                  a set that is known here, streamed from the Hub

| name        | on the Hub                                      | licence          |
|-------------|-------------------------------------------------|------------------|
| tinystories | roneneldan/TinyStories                          | CDLA-Sharing-1.0 |
| shakespeare | karpathy/tiny_shakespeare                       | public domain    |
| wikitext2   | Salesforce/wikitext, wikitext-2-raw-v1          | CC BY-SA 3.0     |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from gmb_hf.files import check_file
from gmb_hf.tasks.text import SEPARATOR, Piece, file_pieces, pieces
from gmb_hf.validation import InputError, repeated, unknown

_AS_PARQUET = "refs/convert/parquet"
"""The branch on which the Hub keeps what the script of an old dataset gave."""


class Text(Protocol):
    """Documents under a name, that can be read more than once."""

    @property
    def name(self) -> str:
        """As tables show it."""

    @property
    def source(self) -> str:
        """Where it is read from."""

    def pieces(self) -> Iterator[Piece]:
        """The documents in pieces."""


@dataclass(frozen=True)
class TextFile:
    """A local file."""

    name: str
    path: Path
    separator: str | None = SEPARATOR

    @property
    def source(self) -> str:
        """The path as it was given."""
        return str(self.path)

    def pieces(self) -> Iterator[Piece]:
        """As `file_pieces`."""
        return file_pieces(self.path, self.separator)


@dataclass(frozen=True)
class HubText:
    """Splits of a dataset of the Hub, one after the other.

    Attributes:
        name: as tables show it.
        repository: on the Hub.
        config: of the dataset; None where it has one only.
        splits: to read.
        rows_are_documents: else the rows of a split are one document, cut into lines.
    """

    name: str
    repository: str
    config: str | None
    splits: tuple[str, ...]
    rows_are_documents: bool

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
            if self.rows_are_documents:
                for row in rows:
                    yield from pieces([row], None)
            else:
                yield from pieces(rows, None)

    def _rows(self, split: str) -> Iterator[str]:
        try:
            for row in self._stream(split):
                yield row["text"]
        except Exception as error:  # of the network, the Hub's client or the reader: many kinds
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(
                f"{self.source}: could not be read from the Hub ({reason}); give a local file: "
                f"{self.name}=FILE"
            ) from None

    def _stream(self, split: str) -> Iterable[Any]:
        from datasets import load_dataset

        load = partial(load_dataset, self.repository, self.config, split=split, streaming=True)
        try:
            return cast("Iterable[Any]", load())
        except RuntimeError as error:
            if "scripts are no longer supported" not in str(error):
                raise
            return cast("Iterable[Any]", load(revision=_AS_PARQUET))


@dataclass(frozen=True)
class _Domain:
    repository: str
    config: str | None
    train: tuple[str, ...]
    held_out: tuple[str, ...]
    rows_are_documents: bool


_SPLITS = ("train", "validation", "test")
DOMAINS = {
    "tinystories": _Domain(
        "roneneldan/TinyStories", None, ("train",), ("validation",), rows_are_documents=True
    ),
    # The protocol's held-out text is the whole of it.
    "shakespeare": _Domain(
        "karpathy/tiny_shakespeare", None, _SPLITS[:1], _SPLITS, rows_are_documents=True
    ),
    "wikitext2": _Domain(
        "Salesforce/wikitext", "wikitext-2-raw-v1", ("train",), ("test",), rows_are_documents=False
    ),
}
"""Known without a file."""


def read_sources(
    given: Sequence[str],
    *,
    option: str = "--text",
    separator: str | None = SEPARATOR,
    held_out: bool = True,
) -> tuple[Text, ...]:
    """Texts from `NAME=FILE` and known names.

    Args:
        given: as typed.
        option: by which they were given, for messages.
        separator: between the documents of a file.
        held_out: of a known set take the held-out splits, else those to train on.

    Raises:
        InputError: nothing given, an unknown name without a file, a name given twice, a file that
            is missing or empty.
    """
    if not given:
        raise InputError(f"{option}: no text is given; write NAME=FILE, or {', '.join(DOMAINS)}")
    found = tuple(_read_source(word, option, separator, held_out) for word in given)
    twice = repeated(text.name for text in found)
    if twice is not None:
        raise InputError(f"{option}: the name {twice!r} is given twice; name the texts apart")
    return found


def _read_source(word: str, option: str, separator: str | None, held_out: bool) -> Text:
    name, equals, place = word.partition("=")
    if not equals and name in DOMAINS:
        known = DOMAINS[name]
        splits = known.held_out if held_out else known.train
        return HubText(name, known.repository, known.config, splits, known.rows_are_documents)
    if not equals and Path(word).exists():
        raise InputError(f"{option} {word}: give the file a name, e.g. {Path(word).stem}={word}")
    if not equals:
        error = unknown("text", name, DOMAINS, where=option)
        raise InputError(f"{error} Any other text is given by its file: {name}=FILE")
    if not name.strip() or not place:
        raise InputError(f"{option} {word!r}: write it as NAME=FILE")
    path = Path(place)
    check_file(path)
    if not path.stat().st_size:
        raise InputError(f"{path}: is empty; a text file with at least one document is needed")
    return TextFile(name.strip(), path, separator)


def described(texts: Sequence[Text]) -> list[dict[str, Any]]:
    """Name and source of each, as plain data."""
    return [{"name": text.name, "source": text.source} for text in texts]
