"""Datasets of the Hub: fetched at one commit, and held against their card before they are used."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gmb_hf.errors import InputError, choose
from gmb_hf.hub.cards import CARD, HERE, KEY, CardFingerprint, read_fingerprints, read_header
from gmb_hf.hub.client import Address, Pushed, Snapshot, has_repository, publish, pull
from gmb_hf.hub.datasets import RUNS, build, patterns_of, refuse_shrunk, runs_configs, shards_of
from gmb_hf.hub.verify import verify


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


# Datasets to the Hub: verified here, held against what is there, in one commit, read back.


def push_dataset(folder: str | Path, repo_id: str, *, private: bool = False) -> Pushed:
    """Publish a dataset that `gmb data build` wrote, if it is what its card says.

    Args:
        folder: with the card.
        repo_id: ORG/NAME; what it holds already may only grow, as in a folder.
        private: make a new repository private.

    Raises:
        InputError: as `verify` and `publish`; the folder is not what its card says, or would
            change what is frozen in the repository.
    """
    place = Path(folder)
    faults = verify(place).faults
    if faults:
        more = f" (and {len(faults) - 1} more faults)" if len(faults) > 1 else ""
        raise InputError(f"{place}: is not pushed: {faults[0]}{more}")
    _refuse_unfrozen(place, repo_id)
    header = read_header(place / CARD)
    names = list(read_fingerprints(header, where=str(place / CARD)))
    card = (place / CARD).read_text(encoding="utf-8").replace(HERE, repo_id)
    files: dict[str, Path | bytes] = {CARD: card.encode("utf-8")}
    for name in names:
        for paths in shards_of(header, name, place).values():
            files |= {path.relative_to(place).as_posix(): path for path in paths}
    return publish(
        files,
        repo_id,
        "dataset",
        message=f"{', '.join(names[:4])}{' ...' if len(names) > 4 else ''}",
        # An earlier version may have had more shards.
        replaces=lambda path: path.endswith(".parquet") and path.split("/")[0] in names,
        private=private,
    )


def push_runs(
    source: str,
    repo_id: str,
    *,
    license: str | None = None,
    version: str = "v1",
    private: bool = False,
) -> Pushed:
    """Publish run logs as a dataset; a folder that is one already is pushed as it is.

    Args:
        source: run logs as `--runs` takes them, or `NAME=SOURCE`.
        repo_id: ORG/NAME.
        license: of the logs, as in `runs_configs`.
        version: of the set; a later one may only add runs to what is there.
        private: make a new repository private.

    Raises:
        InputError: as `runs_configs`, `build` and `push_dataset`.
    """
    card = Path(source) / CARD
    if card.is_file() and KEY in read_header(card):
        return push_dataset(source, repo_id, private=private)
    with tempfile.TemporaryDirectory() as workshop:
        configs = runs_configs([source], [license] if license else [])
        build(configs, workshop, RUNS, version=version)
        return push_dataset(workshop, repo_id, private=private)


def _refuse_unfrozen(folder: Path, repo_id: str) -> None:
    """Refuse a push that would change or drop what an earlier one has frozen."""
    if not has_repository(repo_id, "dataset"):
        return
    there = pull(Address(repo_id), [CARD])
    if not (there.folder / CARD).is_file():
        return
    header = read_header(there.folder / CARD)
    if KEY not in header:
        raise InputError(
            f"{repo_id}: holds another dataset, whose card has no {KEY}; choose another repository"
        )
    own = read_header(folder / CARD)
    entries = read_fingerprints(own, where=str(folder / CARD))
    changed = [
        name
        for name, old in read_fingerprints(header, where=repo_id).items()
        if name in entries and entries[name].content_hash != old.content_hash
    ]
    if changed:
        patterns = patterns_of_all(header, changed, where=repo_id)
        there = pull(Address(repo_id, there.commit), [CARD, *patterns])
    try:
        refuse_shrunk(folder, there.folder)
    except InputError as error:
        raise InputError(str(error).replace(str(there.folder), repo_id)) from None
