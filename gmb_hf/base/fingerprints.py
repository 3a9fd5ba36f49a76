"""Content fingerprints of data, so that only results of equal data are compared.

`source_hash` is the SHA-256 of a file's bytes (Crucible spec, "Eval Fingerprinting"); any
reformatting changes it. `content_hash` is a SHA-256 over the sorted SHA-256 hashes of the items'
canonical JSON: it survives another order of items or of keys and other white space. Item hashes
are sorted on disk where there are many, so that memory does not grow with the set, and they
prove that a set was only appended to.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import STREAMED, open_file

HASH_LENGTH = 64
SHOWN = 16
_SIZE = 32
_BLOCK = 1 << 20


class FingerprintMismatchError(InputError):
    """Two results were made of different data, or under different conditions."""

    code = "fingerprint_mismatch"


class ContentHash:
    """Collects items one by one (`count`); the order in which they come does not matter.

    `in_memory` item hashes are kept in memory before they are sorted to disk.

    >>> one, other = ContentHash(), ContentHash()
    >>> one.extend([{"a": 1, "b": 2}, {"a": 3}])
    >>> other.extend([{"a": 3}, {"b": 2, "a": 1}])
    >>> one.hexdigest() == other.hexdigest()
    True
    """

    def __init__(self, *, in_memory: int = _BLOCK) -> None:
        self.count = 0
        self._in_memory = in_memory
        self._held: list[bytes] = []
        self._sorted: list[IO[bytes]] = []

    def add(self, item: Any, *, where: str = "item") -> bytes:
        """Add one item (plain JSON data) and return its hash, 32 bytes.

        Raises:
            InputError: the item is no JSON: NaN, an infinity, or another type.
        """
        digest = item_hash(item, where=where)
        self.add_hash(digest)
        return digest

    def add_hash(self, digest: bytes) -> None:
        """Add an item by its hash, 32 bytes."""
        self.count += 1
        self._held.append(digest)
        if len(self._held) >= self._in_memory:
            file = tempfile.TemporaryFile()  # noqa: SIM115 (closed when this object goes)
            file.write(b"".join(sorted(self._held)))
            self._sorted.append(file)
            self._held = []

    def extend(self, items: Iterable[Any]) -> None:
        """Add items."""
        for number, item in enumerate(items):
            self.add(item, where=f"item {number}")

    def item_hashes(self) -> Iterator[bytes]:
        """The hashes of all items, 32 bytes each, in rising order."""
        return heapq.merge(sorted(self._held), *map(_blocks, self._sorted))

    def hexdigest(self) -> str:
        """The content hash, 64 hex digits."""
        total = hashlib.sha256()
        for digest in self.item_hashes():
            total.update(digest)
        return total.hexdigest()


def content_hash(items: Iterable[Any]) -> str:
    """The content hash of items, 64 hex digits; they are read one at a time."""
    found = ContentHash()
    found.extend(items)
    return found.hexdigest()


def item_hash(item: Any, *, where: str = "item") -> bytes:
    """SHA-256 of an item's canonical JSON: keys sorted, no white space, UTF-8, floats by repr.

    Raises:
        InputError: the item is no JSON; `where` opens the message.
    """
    try:
        text = json.dumps(
            item, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        return hashlib.sha256(text.encode("utf-8")).digest()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: has no canonical JSON: {error}") from None


def source_hash(path: str | Path) -> str:
    """SHA-256 of a file's bytes, 64 hex digits."""
    with open_file(path, most=STREAMED) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def missing_items(old: Iterable[bytes], new: Iterable[bytes]) -> int:
    """How many items of the old set the new one lacks; 0 proves that it was only appended to.

    Both are item hashes in rising order (`ContentHash.item_hashes`); an item that occurs twice in
    the old set must occur twice in the new one.
    """
    missing, rest = 0, iter(new)
    current = next(rest, None)
    for digest in old:
        while current is not None and current < digest:
            current = next(rest, None)
        if current == digest:
            current = next(rest, None)
        else:
            missing += 1
    return missing


def fingerprint(source: str, seed: int | None, item_count: int) -> str:
    """`source_hash|seed|item_count`, with the first 16 digits of the hash.

    `seed` is the one by which the items were drawn; data that nothing was drawn for have `null`.

    >>> fingerprint("a1b2c3d4e5f6g7h8", 42, 3786)
    'a1b2c3d4e5f6g7h8|42|3786'
    """
    return f"{source[:SHOWN]}|{'null' if seed is None else seed}|{item_count}"


def fingerprint_line(source: str, seed: int, item_count: int) -> str:
    """The line that logs carry (spec, "Fingerprint String Format").

    >>> fingerprint_line("a1b2c3d4e5f6g7h8", 42, 3786)
    'EVAL_FINGERPRINT: a1b2c3d4e5f6g7h8|42|3786'
    """
    return f"EVAL_FINGERPRINT: {fingerprint(source, seed, item_count)}"


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    # Several readers may be under way: each keeps its own place.
    place = 0
    while True:
        file.seek(place)
        block = file.read(_SIZE * 4096)
        if not block:
            return
        place += len(block)
        for start in range(0, len(block), _SIZE):
            yield block[start : start + _SIZE]
