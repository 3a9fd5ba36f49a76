"""Whether a dataset is what its card says: every item hashed anew, in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from gmb_hf.errors import InputError, choose, first_of
from gmb_hf.hub.cards import CARD, KEY, CardFingerprint, read_fingerprints, read_header
from gmb_hf.hub.datasets import Content, bytes_hash, missing_shards, read_content, shards_of

_AGAIN = "fetch or build it again"
_EDITED = "the card was edited by hand; build the data again"


@dataclass(frozen=True)
class VerifiedConfig:
    """One config of a dataset.

    Attributes:
        name: of the config.
        entry: what the card says of it.
        faults: one line each; empty where the config is what the card says.
        facts: what needs no action.
    """

    name: str
    entry: CardFingerprint
    faults: tuple[str, ...]
    facts: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """A dataset compared with its card.

    Attributes:
        folder: of the card.
        configs: that have a fingerprint.
        without: configs of the card that have none, as those that somebody pushed beside them.
    """

    folder: Path
    configs: tuple[VerifiedConfig, ...]
    without: tuple[str, ...] = ()

    @property
    def faults(self) -> list[str]:
        """Of all configs, one line each; empty where everything is as the card says."""
        return [fault for config in self.configs for fault in config.faults]


def verify(
    folder: str | Path,
    config: str | None = None,
    *,
    on_done: Callable[[str], None] | None = None,
) -> Report:
    """Hash every item of a dataset anew and compare with its card.

    Args:
        folder: as `building.build` wrote it, or as it was fetched from the Hub.
        config: only this one.
        on_done: called with each config's name when it has been read.

    Raises:
        InputError: there is no such folder or config, or no card with fingerprints.
    """
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place}: there is no such folder; name one that holds {CARD}")
    card = place / CARD
    header = read_header(card)
    entries = read_fingerprints(header, where=str(card))
    without = tuple(name for name in _listed(header) if name not in entries)
    if config is not None:
        entries = {config: entries[choose("config", config, list(entries), where=str(card))]}
    verified = []
    for name, entry in entries.items():
        faults, facts = _compared(place, header, name, entry)
        verified.append(VerifiedConfig(name, entry, tuple(faults), tuple(facts)))
        if on_done is not None:
            on_done(name)
    return Report(place, tuple(verified), without if config is None else ())


def _listed(header: Mapping[str, Any]) -> list[str]:
    configs = header.get("configs")
    listed = configs if isinstance(configs, list) else []
    return [str(entry.get("config_name")) for entry in listed if isinstance(entry, dict)]


def _compared(
    folder: Path, header: Mapping[str, Any], name: str, entry: CardFingerprint
) -> tuple[list[str], list[str]]:
    """Faults and facts of one config."""
    card = folder / CARD
    faults = []
    if not entry.consistent:
        faults.append(
            f"{card}: {KEY}.{name}.fingerprint is {entry.fingerprint}, which is not what "
            f"content_hash, seed and item_count beside it give; {_EDITED}"
        )
    try:
        shards = shards_of(header, name, folder)
        lost = _lost(folder, name, shards)
        if lost:
            return [*faults, *lost], []
        content = read_content(shards, entry.item)
        same_bytes = entry.source_hash in (None, bytes_hash(shards))
    except InputError as error:
        return [*faults, str(error)], []
    faults += _items(card, name, entry, content, same_bytes=same_bytes)
    faults += _counts(card, header, name, content)
    if faults or same_bytes:
        return faults, []
    anew = [split for split, paths in shards.items() if any(map(_written_by_datasets, paths))]
    if anew:
        which = "its files were" if len(anew) == len(shards) else f"{first_of(anew)} was"
        return [], [f"{name}: {which} written anew by `datasets`; the items are the same"]
    return [
        f"{folder / name}: the bytes of its files are not those that were built, though every "
        f"{entry.item} is; {_AGAIN}"
    ], []


def _lost(folder: Path, name: str, shards: Mapping[str, list[Path]]) -> list[str]:
    empty = [split for split, paths in shards.items() if not paths]
    faults = [f"{folder / name}: no file of split {split!r} is here; {_AGAIN}" for split in empty]
    for paths in shards.values():
        faults += [f"{folder / name / lost}: missing; {_AGAIN}" for lost in missing_shards(paths)]
    return faults


def _items(
    card: Path, name: str, entry: CardFingerprint, content: Content, *, same_bytes: bool
) -> list[str]:
    found = content.items.hexdigest()
    counts = content.item_count, entry.item_count
    if found == entry.content_hash:
        wrong = f"{card}: {name} has {counts[0]:,} {entry.item}s, the card says {counts[1]:,}"
        return [f"{wrong}; {_EDITED}"] if counts[0] != counts[1] else []
    if same_bytes and entry.source_hash is not None:
        return [
            f"{card}: the content hash of {name} is {found}, the card says {entry.content_hash}, "
            f"and the files are as they were built; {_EDITED}"
        ]
    if counts[0] != counts[1]:
        return [
            f"{card.parent / name}: holds {counts[0]:,} {entry.item}s, the card says "
            f"{counts[1]:,}; {_AGAIN}"
        ]
    return [
        f"{card.parent / name}: other data than the card says, content hash {found}, not "
        f"{entry.content_hash}; {_AGAIN}"
    ]


def _counts(card: Path, header: Mapping[str, Any], name: str, content: Content) -> list[str]:
    """Splits whose number of rows is not what `load_dataset` will expect."""
    infos = header.get("dataset_info") or []
    for info in [infos] if isinstance(infos, dict) else infos:
        if info.get("config_name", name) != name:
            continue
        said = {split.get("name"): split.get("num_examples") for split in info.get("splits") or []}
        return [
            f"{card}: split {split!r} of {name} has {rows:,} rows, dataset_info says {said[split]}"
            f"; {_EDITED}"
            for split, rows in content.rows.items()
            if split in said and said[split] != rows
        ]
    return []


def _written_by_datasets(shard: Path) -> bool:
    return b"huggingface" in (pq.read_schema(shard).metadata or {})
