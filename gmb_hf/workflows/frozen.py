"""What was built once is frozen: a later version of a set holds every item of the earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gmb_hf.fingerprints import missing_items
from gmb_hf.hub.card_fingerprints import CARD, CardFingerprint, read_fingerprints, read_header
from gmb_hf.validation import InputError
from gmb_hf.workflows.building_card import shards_of
from gmb_hf.workflows.building_content import Content, read_content


def refuse_unfrozen(
    folder: Path, entries: Mapping[str, CardFingerprint], contents: Mapping[str, Content]
) -> None:
    """Refuse what would change or drop what `folder` has frozen.

    Args:
        folder: a dataset, or an empty folder, where nothing is frozen.
        entries: config -> what the new card will say of it.
        contents: config -> its items; of those with another content hash than in `folder`.

    Raises:
        InputError: a config is left out, an item of the earlier version is gone, or the version
            is not a later one.
    """
    if not (folder / CARD).exists():
        return
    header = read_header(folder / CARD)
    for name, old in read_fingerprints(header, where=str(folder / CARD)).items():
        new = entries.get(name)
        if new is None:
            raise InputError(
                f"{folder}: holds config {name!r} ({old.version}), which is left out now; keep it, "
                "or choose another place"
            )
        same = new.content_hash == old.content_hash
        if new.number < old.number or (new.number == old.number and not same):
            other = "" if same else f" with other items ({old.shown} there, {new.shown} now)"
            at_least = old.number + (not same)
            raise InputError(
                f"{folder}: config {name!r} is frozen as {old.version}{other}; give --version "
                f"v{at_least} and keep every {old.item} of it, or choose another place"
            )
        lost = 0 if same else _lost(folder, name, header, old, contents[name])
        if lost:
            raise InputError(
                f"{folder}: config {name!r}: {lost:,} of the {old.item_count:,} {old.item}s of "
                f"{old.version} are gone or changed in {new.version}; a frozen set may only grow, "
                "so keep them, or choose another place"
            )


def refuse_shrunk(folder: Path, previous: Path) -> None:
    """Refuse a dataset that does not hold all of an earlier one, or is no later version of it.

    Raises:
        InputError: as `refuse_unfrozen`; one of them has no card with fingerprints.
    """
    header = read_header(folder / CARD)
    entries = read_fingerprints(header, where=str(folder / CARD))
    before = read_fingerprints(read_header(previous / CARD), where=str(previous / CARD))
    contents = {
        name: read_content(shards_of(header, name, folder), entries[name].item)
        for name, old in before.items()
        if name in entries and entries[name].content_hash != old.content_hash
    }
    refuse_unfrozen(previous, entries, contents)


def _lost(
    folder: Path, name: str, header: Mapping[str, object], old: CardFingerprint, new: Content
) -> int:
    held = read_content(shards_of(header, name, folder), old.item)
    return missing_items(held.items.item_hashes(), new.items.item_hashes())
