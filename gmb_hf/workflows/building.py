"""Datasets as folders that `load_dataset` takes, from here or from the Hub: Parquet and a card.

out/README.md                              the card: configs, licences, fingerprints
out/add_p97/full-00000-of-00001.parquet    each split of each config in shards
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gmb_hf.files import clear_os_errors, write_text
from gmb_hf.hub.card_fingerprints import CARD, VERSION, CardFingerprint, Item
from gmb_hf.validation import InputError, repeated
from gmb_hf.workflows.building_card import card_text
from gmb_hf.workflows.building_content import SHARD, bytes_hash, read_content
from gmb_hf.workflows.frozen import refuse_unfrozen

SHARD_BYTES = 2**28
"""A split is cut into shards of about so many bytes in memory."""

_NAME = re.compile(r"[\w][\w.-]*")


@dataclass(frozen=True)
class Config:
    """One config of a dataset: what `load_dataset(folder, name)` gives.

    Attributes:
        name: letters, digits, `_`, `-` and `.`; also its folder.
        splits: split -> what yields its tables, all of one schema, each small enough for memory.
        license: as the Hub names it, e.g. `apache-2.0`.
        summary: what a row is, a sentence for the card.
        seed: by which the items were drawn, None where nothing was.
        item: what the fingerprint counts, a row or a run.
    """

    name: str
    splits: Mapping[str, Callable[[], Iterable[pa.Table]]]
    license: str
    summary: str
    seed: int | None = None
    item: Item = "row"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(
                f"config {self.name!r}: a name has letters, digits, _, - and . only; name it anew"
            )


@dataclass(frozen=True)
class About:
    """What a card says of the whole dataset.

    Attributes:
        title: its heading.
        summary: a paragraph, Markdown.
        tags: by which the Hub finds it.
    """

    title: str
    summary: str
    tags: tuple[str, ...] = ("gmb", "grokking")


def build(configs: Sequence[Config], out: str | Path, about: About, *, version: str = "v1") -> Path:
    """Write a dataset, atomically file by file, the card last; the same configs, the same bytes.

    A set that was built is frozen: in the same folder the same version may only be built with the
    same items, and a later version only with all of them and more.

    Args:
        configs: at least one; the first is the default.
        out: the folder.
        about: for the card.
        version: `v1`, `v2`, ...

    Returns:
        The card.

    Raises:
        InputError: two configs of one name, a split without rows, a version that is not frozen
            as above, or a folder that cannot be written to.
    """
    folder = Path(out)
    if not re.match(VERSION, version):
        raise InputError(f"--version {version!r}: write v1, v2 and so on")
    twice = repeated(config.name for config in configs)
    if twice is not None or not configs:
        raise InputError(f"config {twice!r} is named twice" if configs else "no configs to build")
    with clear_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(prefix=".building-", dir=folder))
    try:
        shards = {config.name: _write(config, workshop) for config in configs}
        contents = {
            config.name: read_content(shards[config.name], config.item) for config in configs
        }
        entries = {
            config.name: CardFingerprint.of(
                contents[config.name].items.hexdigest(),
                contents[config.name].item_count,
                seed=config.seed,
                version=version,
                item=config.item,
                source_hash=bytes_hash(shards[config.name]),
            )
            for config in configs
        }
        refuse_unfrozen(folder, entries, contents)
        text = card_text(configs, about, contents, entries)
        for config in configs:
            _move(shards[config.name], folder / config.name)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return write_text(folder / CARD, text)


def _write(config: Config, folder: Path) -> dict[str, list[Path]]:
    """Each split's shards, in order."""
    found = {
        split: _write_split(tables(), folder / config.name, split)
        for split, tables in config.splits.items()
    }
    for split, shards in found.items():
        if not shards:
            raise InputError(f"config {config.name!r}: split {split!r} has no rows")
    return found


def _write_split(tables: Iterable[pa.Table], folder: Path, split: str) -> list[Path]:
    folder.mkdir(exist_ok=True)
    parts: list[Path] = []
    for pieces in _sharded(tables):
        parts.append(folder / f"{split}-{len(parts)}")
        with (
            clear_os_errors(folder.parent),
            pq.ParquetWriter(
                parts[-1], pieces[0].schema, compression="zstd", write_page_checksum=True
            ) as writer,
        ):
            for piece in pieces:
                writer.write_table(piece)
    names = [
        SHARD.format(split=split, number=number, total=len(parts)) for number in range(len(parts))
    ]
    return [part.rename(folder / name) for part, name in zip(parts, names, strict=True)]


def _sharded(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        if not table.num_rows:
            continue
        if held and size + table.nbytes > SHARD_BYTES:
            yield held
            held, size = [], 0
        held.append(table)
        size += table.nbytes
    if held:
        yield held


def _move(shards: Mapping[str, Sequence[Path]], folder: Path) -> None:
    """Put new shards in place, and take away those that an earlier build left there."""
    with clear_os_errors(folder):
        folder.mkdir(exist_ok=True)
        kept = {path.name for paths in shards.values() for path in paths}
        for path in (path for paths in shards.values() for path in paths):
            path.replace(folder / path.name)
        for path in folder.glob("*.parquet"):
            if path.name not in kept:
                path.unlink()
