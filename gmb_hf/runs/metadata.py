"""What a run log says about itself: a JSON object that survives writing, reading and joining."""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from gmb_hf.errors import InputError


METADATA_KEY = b"gmb"
DROPPED_KEY = b"gmb_dropped_duplicates"
DIFFERS = "differs"
JOINED = "joined"
"""Column -> what made it (family, source, made_by), of columns that were joined to a log."""

EXTERNAL = "external"
"""The family of a column that somebody else made."""

JUDGE = "judge"
"""The family of a column that a judge made."""

COLUMN_FAMILIES = (EXTERNAL, JUDGE)


def to_json(metadata: dict[str, Any], where: str) -> bytes:
    """Canonical JSON (sorted keys, no spaces); the same metadata gives the same bytes.

    Raises:
        InputError: a value that JSON cannot hold.
    """
    try:
        text = json.dumps(metadata, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: metadata cannot be written as JSON: {error}") from error
    return text.encode("utf-8")


def from_json(raw: bytes | None, where: str) -> dict[str, Any]:
    """The JSON object in `raw`, or an empty one where there is none."""
    if raw is None:
        return {}
    try:
        found = json.loads(raw)
    except ValueError as error:
        raise InputError(f"{where}: its metadata is not JSON; write the file again") from error
    if not isinstance(found, dict):
        raise InputError(f"{where}: its metadata is not a JSON object; write the file again")
    return found


def column_family(metadata: Mapping[str, Any], column: str) -> str:
    """The family of a column that is no indicator: "judge" where the metadata say so."""
    held = metadata.get(JOINED)
    entry = held.get(column) if isinstance(held, dict) else None
    family = entry.get("family") if isinstance(entry, dict) else None
    return JUDGE if family == JUDGE else EXTERNAL


def merge(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What several logs agree on, and under "differs" each dotted key with its values in order.

    A key that one of them lacks differs, too, with null in its place. Merging merged metadata
    again keeps both lists whole.
    """
    differs: dict[str, list[Any]] = {}
    for part in parts:
        for key, values in part.get(DIFFERS, {}).items():
            _add(differs, key, values)
    plain = [{k: v for k, v in part.items() if k != DIFFERS} for part in parts]
    merged = _merge_level(plain, "", differs)
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
    held.extend(v for i, v in enumerate(values) if v not in held and v not in values[:i])


# The columns of a looped model that count at a level: their levels, and their names.


LEVELS = (5, 10, 20, 50)
"""Per cent of the length of a state."""


def at_level(column: str, level: int) -> str:
    """The name of a column that counts at a level, e.g. `reset_share_at_10`."""
    return f"{column}_at_{level}"
