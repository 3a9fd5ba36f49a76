"""Datasets of the Hub: fetched at one commit, and held against their card before they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gmb_hf.hub.addresses import Address
from gmb_hf.hub.card_fingerprints import CARD, CardFingerprint, read_fingerprints, read_header
from gmb_hf.hub.pull import Snapshot, pull
from gmb_hf.validation import InputError, choose
from gmb_hf.workflows.building_card import patterns_of, shards_of
from gmb_hf.workflows.verifying import verify


@dataclass(frozen=True)
class PulledConfig:
    """A config of a dataset of the Hub, whose items are those that its card says.

    Attributes:
        name: of the config.
        files: split -> its Parquet files, in the cache.
        entry: what the card says of it.
        source: repository, commit, config and fingerprint, as logs and results record them.
    """

    name: str
    files: dict[str, list[Path]]
    entry: CardFingerprint
    source: dict[str, str]


def pull_dataset(address: Address) -> tuple[Snapshot, list[str]]:
    """Fetch a dataset, or the one config that the address names, to the usual cache.

    Returns:
        The folder, and the configs that were fetched.

    Raises:
        InputError: as `pull`; there is no card with fingerprints, or no such config.
    """
    first = pull(address, [CARD])
    card = first.folder / CARD
    where = f"{address.repo_id}@{first.commit[:12]}"
    if not card.is_file():
        raise InputError(f"{where}: has no {CARD}; only what `gmb data push` pushed can be used")
    header = read_header(card)
    names = list(read_fingerprints(header, where=where))
    if address.config is not None:
        names = [choose("config", address.config, names, where=where)]
    at_commit = replace(address, revision=first.commit)
    return pull(at_commit, [CARD, *patterns_of_all(header, names, where=where)]), names


def patterns_of_all(header: Mapping[str, Any], configs: Sequence[str], *, where: str) -> list[str]:
    """Where the files of several configs lie in a dataset, by its card's header.

    Raises:
        InputError: as `patterns_of`.
    """
    return [
        pattern
        for config in configs
        for patterns in patterns_of(header, config, where=where).values()
        for pattern in patterns
    ]


def dataset_folder(text: str) -> tuple[Path, str | None]:
    """The folder of a dataset, here or fetched from the Hub, and the one config that was named.

    Raises:
        InputError: it is no folder here, and nothing that `pull_dataset` can fetch.
    """
    here = Path(text)
    try:
        address = None if here.exists() else Address.parse(text)
    except InputError:
        address = None
    if address is None:
        return here, None
    try:
        return pull_dataset(address)[0].folder, address.config
    except InputError as error:
        raise InputError(f"{text}: is no folder here, and as a dataset: {error}") from error


def pull_configs(address: Address) -> list[PulledConfig]:
    """Fetch configs of a dataset and verify each.

    Raises:
        InputError: as `pull_dataset`, or what came is not what the card says; both fingerprints
            are named.
    """
    snapshot, names = pull_dataset(address)
    folder, where = snapshot.folder, f"{snapshot.repo_id}@{snapshot.commit[:12]}"
    header = read_header(folder / CARD)
    pulled = []
    for name in names:
        (found,) = verify(folder, name).configs
        if found.faults:
            raise InputError(found.faults[0].replace(str(folder), where))
        source = {
            "repo": snapshot.repo_id,
            "revision": snapshot.commit,
            "config": name,
            "fingerprint": found.entry.fingerprint,
        }
        pulled.append(PulledConfig(name, shards_of(header, name, folder), found.entry, source))
    return pulled
