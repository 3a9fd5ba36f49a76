"""Files of bundles: one JSON object a line (`bundle.py` says which forms are understood)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gmb_hf.crucible.bundle import Bundle, parse_bundle
from gmb_hf.crucible.similarities import OnEmpty, Similarities
from gmb_hf.files import check_file
from gmb_hf.fingerprints import ContentHash
from gmb_hf.jsonfile import parse_json
from gmb_hf.validation import InputError


@dataclass(frozen=True)
class BundleFile:
    """A file of bundles.

    Attributes:
        path: where it was read from.
        bundles: its items, in the order of the lines.
        source_hash: SHA-256 of the file's bytes.
        content_hash: hash of the items, without their similarities.
    """

    path: Path
    bundles: tuple[Bundle, ...] = field(repr=False)
    source_hash: str
    content_hash: str

    @property
    def ids(self) -> tuple[str, ...]:
        """The items' names."""
        return tuple(bundle.id for bundle in self.bundles)

    @property
    def has_similarities(self) -> bool:
        """Whether every item has similarities."""
        return all(bundle.similarities is not None for bundle in self.bundles)

    @property
    def tiers(self) -> tuple[str, ...] | None:
        """The tier of each item, None if no item has one.

        Raises:
            InputError: some have one, others not.
        """
        lacking = [bundle for bundle in self.bundles if bundle.tier is None]
        if len(lacking) == len(self.bundles):
            return None
        if lacking:
            raise InputError(
                f"{self.path}:{lacking[0].line}: item {lacking[0].id!r} has no tier, others have "
                "one; assign tiers to all (gmb crucible tiers assign)"
            )
        return tuple(bundle.tier or "" for bundle in self.bundles)

    def similarities(self, *, empty: OnEmpty = "error") -> Similarities:
        """The similarities that stand in the file.

        Raises:
            InputError: an item has none, no negatives, or an index out of range.
        """
        for bundle in self.bundles:
            if bundle.similarities is None:
                raise InputError(
                    f"{self.path}:{bundle.line}: item {bundle.id!r} has no similarities; add them, "
                    "or give embeddings or an encoder"
                )
        return Similarities.of_lists(
            [bundle.similarities or () for bundle in self.bundles],
            [bundle.positive_index or 0 for bundle in self.bundles],
            self.ids,
            empty=empty,
        )


def read_bundles(path: str | Path) -> BundleFile:
    """Read a JSONL file of bundles; blank lines are passed over.

    Raises:
        InputError: a line that is not understood (its number is in the message), an id that occurs
            twice, or a file without bundles.
    """
    source, content, bundles = hashlib.sha256(), ContentHash(), []
    lines: dict[str, int] = {}
    for number, line in _lines(Path(path), source):
        where = f"{path}:{number}"
        bundle = parse_bundle(parse_json(line, where=where), number, where=where)
        if bundle.id in lines:
            raise InputError(
                f"{where}: id {bundle.id!r} is that of line {lines[bundle.id]} already; ids must "
                "differ"
            )
        lines[bundle.id] = number
        content.add_hash(bytes.fromhex(bundle.item_hash))
        bundles.append(bundle)
    if not bundles:
        raise InputError(f"{path}: holds no bundles; a line is one JSON object")
    return BundleFile(Path(path), tuple(bundles), source.hexdigest(), content.hexdigest())


def _lines(path: Path, digest: Any) -> Iterator[tuple[int, str]]:
    """Number and text of every line that is not blank; their bytes go into `digest`."""
    check_file(path)
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            digest.update(raw)
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path}:{number}: is not UTF-8 text (byte {error.start} of the line)"
                ) from None
            if text.strip():
                yield number, text
