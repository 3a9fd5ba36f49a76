"""A bundle: an anchor with its positive and its negatives, as a line of JSON.

    {"id": "q1", "anchor": "2 + 2", "positive": "four", "negatives": ["five", "three"]}

A text may also be an object with `text`; `negatives` may be a list or a mapping of names to texts,
or to lists of texts. What a model made of an item can stand in the line as well:

    "similarities": {"positive": 0.9, "negatives": [0.4, 0.7]}
    "similarities": [0.4, 0.9, 0.7], "positive_index": 1

A line may do without texts if it has similarities; a list without `positive_index` then takes it
from `positive`, if that is a whole number, and otherwise holds the positive first. Any other field
is part of the content hash and not looked at.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gmb_hf.crucible.tiers import check_names
from gmb_hf.fingerprints import item_hash
from gmb_hf.validation import InputError, nearest

_TEXTS = ("anchor", "positive", "negatives")


@dataclass(frozen=True)
class Bundle:
    """One item.

    Attributes:
        id: its name; the number of its line where the file gives none.
        line: its line in the file, from 1.
        anchor, positive: their texts; None where the line has only similarities.
        negatives: texts.
        similarities: of all candidates, or None.
        positive_index: place of the positive among `similarities`, or None.
        tier: where the file says so.
        item_hash: hash of its content, 64 hex digits (`item_content`).
    """

    id: str
    line: int
    anchor: str | None
    positive: str | None
    negatives: tuple[str, ...]
    similarities: tuple[float, ...] | None
    positive_index: int | None
    tier: str | None
    item_hash: str = field(repr=False)

    @property
    def has_texts(self) -> bool:
        """Whether an encoder can look at it."""
        return self.anchor is not None and self.positive is not None


def parse_bundle(data: Any, line: int, *, where: str) -> Bundle:
    """A line's JSON as a bundle.

    Args:
        data: plain JSON data.
        line: its number, which is the bundle's id where there is none.
        where: file and line, which open the message of an error.

    Raises:
        InputError: it is not understood.
    """
    if not isinstance(data, dict):
        raise InputError(f"{where}: a bundle is a JSON object, got {reprlib.repr(data)}")
    name, tier = _id(data, line, where), data.get("tier")
    if tier is not None:
        check_names([tier if isinstance(tier, str) else repr(tier)], where=where)
    given = data.get("similarities")
    anchor, positive, negatives = _texts(data, required=given is None, where=where)
    values: tuple[float, ...] | None = None
    index: int | None = None
    if given is not None:
        values, index = _similarities(data, given, where)
        texts = 1 + len(negatives)
        if anchor is not None and "negatives" in data and len(values) != texts:
            raise InputError(
                f"{where}: {len(values)} similarities for {texts} candidates (the positive and "
                f"{texts - 1} negatives)"
            )
    digest = item_hash(item_content(data), where=where).hex()
    return Bundle(name, line, anchor, positive, negatives, values, index, tier, digest)


def item_content(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What of a line is data: all of it but the similarities, which are a model's answer.

    Where there is neither a text nor an id, the similarities are all that the item is known by.
    """
    if "id" in data or isinstance(data.get("anchor"), (str, Mapping)):
        return {key: value for key, value in data.items() if key != "similarities"}
    return data


def _id(data: Mapping[str, Any], line: int, where: str) -> str:
    name = data.get("id", line)
    if isinstance(name, bool) or not isinstance(name, (str, int)) or name == "":
        raise InputError(f"{where}: id must be text or a whole number, got {reprlib.repr(name)}")
    return str(name)


def _texts(
    data: Mapping[str, Any], *, required: bool, where: str
) -> tuple[str | None, str | None, tuple[str, ...]]:
    if not required and "anchor" not in data:
        return None, None, ()
    if required:
        for key in _TEXTS:
            if key not in data:
                raise _missing(key, data, where)
    positive = data.get("positive")
    by_index = not required and (positive is None or _is_int(positive))
    return (
        _text(data["anchor"], "anchor", where),
        None if by_index else _text(positive, "positive", where),
        tuple(_negatives(data.get("negatives", []), where)),
    )


def _missing(key: str, data: Mapping[str, Any], where: str) -> InputError:
    guess = nearest(key, [name for name in data if name not in _TEXTS])
    hint = f" Is {guess!r} meant?" if guess else ""
    found = ", ".join(reprlib.repr(name) for name in list(data)[:8]) or "nothing"
    return InputError(
        f"{where}: no {key!r}, and no 'similarities'; a bundle needs anchor, positive and "
        f"negatives, or similarities; found: {found}.{hint}"
    )


def _text(value: Any, what: str, where: str) -> str:
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        value = value["text"]
    if isinstance(value, str):
        return value
    raise InputError(
        f"{where}: {what} must be text or an object with 'text', got {reprlib.repr(value)}"
    )


def _negatives(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield _text(item, f"negatives[{place}]", where)
    elif isinstance(value, Mapping) and not isinstance(value.get("text"), str):
        for name, item in value.items():
            for entry in item if isinstance(item, list) else [item]:
                yield _text(entry, f"negatives[{name!r}]", where)
    else:
        raise InputError(
            f"{where}: negatives must be a list of texts or a mapping of names to texts, got "
            f"{reprlib.repr(value)}"
        )


def _similarities(
    data: Mapping[str, Any], given: Any, where: str
) -> tuple[tuple[float, ...], int | None]:
    if isinstance(given, Mapping):
        if "positive" not in given or "negatives" not in given:
            raise InputError(
                f"{where}: similarities as an object need 'positive' and 'negatives', got "
                f"{reprlib.repr(dict(given))}"
            )
        rest, texts = given["negatives"], data.get("negatives")
        if isinstance(rest, Mapping) and isinstance(texts, Mapping) and rest.keys() != texts.keys():
            wrong = sorted(map(repr, rest.keys() ^ texts.keys()))
            raise InputError(
                f"{where}: negatives and their similarities name others: {', '.join(wrong[:5])} in "
                "one of the two only"
            )
        return _numbers([given["positive"], *_flat(rest, where)], where), 0
    if not isinstance(given, list):
        raise InputError(
            f"{where}: similarities must be a list of numbers or an object with 'positive' and "
            f"'negatives', got {reprlib.repr(given)}"
        )
    values = _numbers(given, where)
    positive = data.get("positive")
    index = data.get("positive_index", positive if _is_int(positive) else 0)
    if not _is_int(index):
        raise InputError(
            f"{where}: positive_index must be a whole number, got {reprlib.repr(index)}"
        )
    if values and not 0 <= index < len(values):
        raise InputError(
            f"{where}: the positive is said to be at {index}, but there are {len(values)} "
            "similarities (it counts from 0)"
        )
    return values, index


def _flat(value: Any, where: str) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        return [
            entry
            for item in value.values()
            for entry in (item if isinstance(item, list) else [item])
        ]
    raise InputError(
        f"{where}: the negatives' similarities must be a list of numbers, got {reprlib.repr(value)}"
    )


def _numbers(values: list[Any], where: str) -> tuple[float, ...]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(f"{where}: a similarity must be a number, got {reprlib.repr(value)}")
    try:
        return tuple(map(float, values))
    except OverflowError:
        raise InputError(f"{where}: a similarity is too large for a number of 64 bits") from None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
