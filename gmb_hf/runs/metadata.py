"""What a run log says about itself: a JSON object that survives writing, reading and joining."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import parse_json
from gmb_hf.base.fingerprints import SHOWN, FingerprintMismatchError

METADATA_KEY = b"gmb"
DROPPED_KEY = b"gmb_dropped_duplicates"
CHECKSUM_KEY = b"gmb_seal"  # the key in files, as the first version wrote it
"""Of a file: the hash of its rows and of what stands under the other two keys."""

DIFFERS = "differs"
JOINED = "joined"
"""Column -> what made it (family, source, made_by), of columns that were joined to a log."""

COLUMN_FAMILIES = EXTERNAL, JUDGE = "external", "judge"
"""The families of a column that somebody else made, and that a judge made."""


def to_json(metadata: dict[str, Any], where: str) -> bytes:
    """Canonical JSON (sorted keys, no spaces); the same metadata gives the same bytes.

    Raises:
        InputError: a value that JSON cannot hold.
    """
    try:
        text = json.dumps(metadata, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        what = f"metadata cannot be written as JSON: {error}"
        raise InputError.at(where, "bad_metadata", what) from error
    return text.encode("utf-8")


def from_json(raw: bytes | None, where: str) -> dict[str, Any]:
    """The JSON object in `raw`, or an empty one where there is none."""
    if raw is None:
        return {}
    try:
        found = parse_json(raw.decode("utf-8", "replace"), where="its metadata")
    except InputError as error:
        raise InputError.at(where, "bad_metadata", f"{error}; write the file again") from error
    if not isinstance(found, dict):
        what = "its metadata is not a JSON object; write the file again"
        raise InputError.at(where, "bad_metadata", what)
    return found


def with_entries(
    metadata: Mapping[str, Any], key: str, entries: Mapping[str, Any]
) -> dict[str, Any]:
    """The metadata with more entries in the object at a key."""
    held = metadata.get(key)
    return {**metadata, key: {**(held if isinstance(held, dict) else {}), **entries}}


def column_family(metadata: Mapping[str, Any], column: str) -> str:
    """The family of a column that is no indicator: "judge" where the metadata say so."""
    return JUDGE if JUDGE in _lookup(metadata, [JOINED, column, "family"]) else EXTERNAL


def merge(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What several logs agree on, and under "differs" each dotted key with its values in order.

    A key that one of them lacks differs, too, with null in its place. Merging merged metadata
    again keeps both lists whole.
    """
    differs: dict[str, list[Any]] = {}
    for part in parts:
        for key, values in part.get(DIFFERS, {}).items():
            _add(differs, key, values)
    own = [{k: v for k, v in part.items() if k != DIFFERS} for part in parts]
    merged = _merge_level(own, "", differs)
    return {**merged, DIFFERS: differs} if differs else merged


def _merge_level(
    parts: Sequence[dict[str, Any]], prefix: str, differs: dict[str, list[Any]]
) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key in dict.fromkeys(key for part in parts for key in part):
        values: list[Any] = [part.get(key) for part in parts]
        name = f"{prefix}{key}"
        if name in differs:
            _add(differs, name, [part[key] for part in parts if key in part])
        elif all(value == values[0] for value in values):
            merged[key] = values[0]
        elif all(isinstance(value, dict) for value in values):
            merged[key] = _merge_level(values, f"{name}.", differs)
        else:
            _add(differs, name, values)
    return merged


def _add(differs: dict[str, list[Any]], key: str, values: Sequence[Any]) -> None:
    held = differs.setdefault(key, [])
    for value in values:
        if value not in held:
            held.append(value)


def stated(metadata: Mapping[str, Any], key: str) -> list[Any]:
    """The values at a dotted key, of joined logs those of each part that states one.

    Metadata is anybody's JSON: what has another form states nothing.
    """
    names = key.split(".")
    found = _lookup(metadata, names)
    for depth in range(len(names), 0, -1):
        for values in _lookup(metadata, [DIFFERS, ".".join(names[:depth])]):
            for value in values if isinstance(values, list) else ():
                found += _lookup(value, names[depth:])
    return found


def _lookup(value: Any, names: Sequence[str]) -> list[Any]:
    """The value at the end of these keys, of nested objects; nothing where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return [] if value is None else [value]


SYSTEM = "system"
"""The key of what can be seen of a system in training; see `gmb_hf.design.lock.LockedSystem`."""

# The datasets of the Hub from which the runs of a log, or the data that they learned, were pulled.
HUB = "hub"
PANEL = "panel:"
"""What the name of a panel follows, where a source is one."""
HubContent = Literal["data", "runs"]

_HUB_KEYS = ("repo", "revision", "config", "fingerprint")


def hub_entry(content: HubContent, sources: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The entry of metadata for these sources."""
    return {HUB: {content: [dict(source) for source in sources]}}


def with_hub_runs(
    metadata: Mapping[str, Any], sources: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """The metadata with a note of where the runs were pulled from."""
    return with_entries(metadata, HUB, hub_entry("runs", sources)[HUB])


def hub_sources(metadata: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each source once, as results have it: its entry, and `what` it is."""
    found: list[dict[str, str]] = []
    for what in get_args(HubContent):
        for entries in stated(metadata, f"{HUB}.{what}"):
            for source in entries if isinstance(entries, list) else ():
                values = [one for key in _HUB_KEYS for one in _lookup(source, [key])]
                entry = {"what": what, **dict(zip(_HUB_KEYS, values, strict=False))}
                whole = len(values) == len(_HUB_KEYS) and all(isinstance(v, str) for v in values)
                if whole and entry not in found:
                    found.append(entry)
    return found


# The fingerprints of the data that runs learned: only runs of equal data are compared.
# A loss is per token, so the tokenizer belongs to the data.
_DATA_KEYS = {
    "task_fingerprint": "task",
    "config.texts.train_content_hash": "training text",
    "config.texts.test_content_hash": "held-out text",
    "config.texts.tokenizer_hash": "tokenizer",
}


def learned_data(metadata: Mapping[str, Any]) -> dict[str, set[str]]:
    """Kind of data -> the fingerprints of it that the parts of a log state."""
    found = {
        kind: {value for value in stated(metadata, key) if isinstance(value, str)}
        for key, kind in _DATA_KEYS.items()
    }
    return {kind: fingerprints for kind, fingerprints in found.items() if fingerprints}


def mismatches(data: Mapping[str, Mapping[str, set[str]]], baseline: str) -> list[str]:
    """Each kind of data that differs between a variant and the baseline, or within a variant.

    `data` holds what `learned_data` gives, by variant; the baseline is one of these.
    """
    found = []
    for name, kinds in data.items():
        for kind, own in kinds.items():
            others = data[baseline].get(kind, own)
            if own != others or len(own) > 1:
                shown, other = (" and ".join(h[:SHOWN] for h in sorted(s)) for s in (own, others))
                rest = "" if name == baseline else f", {other} of {baseline}"
                found.append(f"{kind}: fingerprint {shown} of {name}{rest}")
    return found


def refuse_mismatches(found: list[str], *, allowed: bool) -> list[str]:
    """The remarks that tables carry where different data are compared all the same.

    Raises:
        FingerprintMismatchError: it is not allowed.
    """
    if found and not allowed:
        hint = "only equal data compare (--allow-fingerprint-mismatch compares them all the same)"
        raise FingerprintMismatchError(f"{found[0]}; {hint}")
    return [f"NOT COMPARABLE: {one}" for one in found]


LEVELS = (5, 10, 20, 50)
"""Per cent of the length of a state."""


def at_level(column: str, level: int) -> str:
    """The name of a column that counts at a level, e.g. `reset_share_at_10`."""
    return f"{column}_at_{level}"
