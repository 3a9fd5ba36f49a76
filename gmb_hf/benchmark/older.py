"""Results files of earlier schemas: where they keep their checksum, and today's names of fields.

Each schema before today's has one function, which turns its content into that of the next. It is
given whatever a file holds, ours or not, and passes over what it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from gmb_hf.base.checksums import Checksums
from gmb_hf.base.schemas import Schema, dated

_checksums = partial(
    Checksums,
    code="results_edited",
    since="gmb evaluate wrote it",
    hint="evaluate again with gmb evaluate",
)

# Schema 1 -> 2.

_MARKS = ("x_yaml_sha256", "x_json_sha256")  # of results.json, a copy of results.yaml


RENAMED_1 = {"x_seal": "x_checksum"}


def _upgrade_1(content: dict[str, Any]) -> dict[str, Any]:
    """Of schema 1, whose checksum was called x_seal."""
    named = {RENAMED_1.get(key, key): value for key, value in content.items()}
    return dated(named, 2)


SCHEMA = Schema("results file", (_upgrade_1,))
"""Of what `gmb evaluate` writes."""

_OPENED = ("meta", "boundary", "event", "summary", "indicators")
CHECKSUMS = {1: _checksums("x_seal"), 2: _checksums("x_checksum", "x_checksums", _OPENED)}
"""Where a file keeps its checksums, by its schema."""


def without_marks(content: Mapping[str, Any]) -> dict[str, Any]:
    """A results file without the checksums of the copy that results.json once was."""
    return {key: value for key, value in content.items() if key not in _MARKS}


def is_copy(text: str) -> bool:
    """Whether the beginning of a JSON file is that of such a copy."""
    return text.startswith(f'{{"{_MARKS[0]}":')
