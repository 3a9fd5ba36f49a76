"""What run logs say of the data that was learned and held out, held against each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gmb_hf.fingerprints import SHOWN, FingerprintMismatchError
from gmb_hf.runs import RunLog
from gmb_hf.runs.metadata import DIFFERS

# A loss is per token, so the tokenizer belongs to the data.
_STATED = {
    "task_fingerprint": "task",
    "config.texts.train_content_hash": "training text",
    "config.texts.test_content_hash": "held-out text",
    "config.texts.tokenizer_hash": "tokenizer",
}


def learned_data(log: RunLog) -> dict[str, set[str]]:
    """The fingerprints of each kind of data that the parts of a log name.

    Metadata is anybody's JSON: what has another form says nothing here.
    """
    found = {}
    for key, what in _STATED.items():
        said = {one for one in _stated(log.metadata, key) if isinstance(one, str)}
        if said:
            found[what] = said
    return found


def mismatches(data: Mapping[str, Mapping[str, set[str]]], baseline: str) -> list[str]:
    """Each kind of data that differs between a variant and the baseline, or within a variant.

    Args:
        data: variant -> what its logs say, as `learned_data` gives it.
        baseline: one of the variants.
    """
    found = []
    for name, said in data.items():
        for what, own in said.items():
            others = data[baseline].get(what, own)
            if own != others or len(own) > 1:
                shown, beside = (" and ".join(h[:SHOWN] for h in sorted(s)) for s in (own, others))
                rest = "" if name == baseline else f", {beside} of {baseline}"
                found.append(f"{what}: fingerprint {shown} of {name}{rest}")
    return found


def refuse_mismatches(found: list[str], *, allowed: bool) -> list[str]:
    """The remarks that tables carry where different data are compared all the same.

    Raises:
        FingerprintMismatchError: it is not allowed.
    """
    if found and not allowed:
        raise FingerprintMismatchError(
            f"{found[0]}; only equal data compare (--allow-fingerprint-mismatch compares them all "
            "the same)"
        )
    return [f"NOT COMPARABLE: {one}" for one in found]


def _stated(metadata: Mapping[str, Any], key: str) -> Iterator[Any]:
    """The value at a dotted key, or those of the parts that were joined."""
    differs = metadata.get(DIFFERS)
    parts = differs.get(key) if isinstance(differs, dict) else None
    if isinstance(parts, list):
        yield from parts
        return
    held: Any = metadata
    for name in key.split("."):
        held = held.get(name) if isinstance(held, dict) else None
    yield held
