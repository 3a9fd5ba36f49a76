"""Datasets to the Hub: verified here, held against what is there, in one commit, read back."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gmb_hf.hub.addresses import Address
from gmb_hf.hub.card_fingerprints import CARD, KEY, read_fingerprints, read_header
from gmb_hf.hub.cards import HERE
from gmb_hf.hub.publish import Pushed, has_repository, publish
from gmb_hf.hub.pull import pull
from gmb_hf.validation import InputError
from gmb_hf.workflows.building import build
from gmb_hf.workflows.building_card import shards_of
from gmb_hf.workflows.building_runs import RUNS, runs_configs
from gmb_hf.workflows.frozen import refuse_shrunk
from gmb_hf.workflows.pulling import patterns_of_all
from gmb_hf.workflows.verifying import verify


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
