"""Checksums of documents, over the content as it stands in the file.

Never over a model that was parsed with today's defaults: a field that is added later, with a
default, changes no checksum of a file that was written before. Beside the checksum of all the rest
a document keeps one of each of its parts, by which a change can be named. They show accidents, not
forgery: whoever changes a document can compute them anew.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gmb_hf.base.documents import plain_data
from gmb_hf.base.errors import InputError, first_of

SHOWN = 16
"""Hexadecimal digits that a message shows of a hash, and that are kept of each part's."""
_NAMED = 4  # parts that a message names


def canonical_hash(data: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of plain data.

    Keys are sorted, there is no white space, floats are written by `repr`; an infinity is the
    string ".inf" and NaN is refused, since JSON has neither.

    Raises:
        InputError: a value is NaN.
    """
    plain = plain_data(data, number=_finite)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _finite(value: float) -> float | str:
    if math.isnan(value):
        raise InputError("a document holds NaN where a number or .inf is needed", code="bad_value")
    return value if math.isfinite(value) else ".inf" if value > 0 else "-.inf"


@dataclass(frozen=True)
class Checksums:
    """Where the documents of one kind keep their checksums.

    Attributes:
        place: dotted path of the checksum of all the rest.
        parts: dotted path of the checksums of its parts; "" where a schema has none.
        opened: paths of sections whose entries are parts of their own.
        code: of the error where the checksum does not match.
        since: after what the document was edited, e.g. "it was locked".
        hint: what to do then.
    """

    place: str
    parts: str = ""
    opened: tuple[str, ...] = ()
    code: str = "edited"
    since: str = "it was written"
    hint: str = "restore the file"

    def of(self, content: Mapping[str, Any]) -> str:
        """The checksum of a document without its checksum."""
        return canonical_hash(_changed(content, self.place))

    def added_to(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The document with its checksums."""
        if self.parts:
            content = _changed(content, self.parts, self._of_parts(content))
        return _changed(content, self.place, self.of(content))

    def check(
        self,
        content: Mapping[str, Any],
        where: str,
        *,
        typed: Callable[[], Mapping[str, Any]] | None = None,
        copy: Callable[[], Any] = lambda: None,
    ) -> None:
        """Raise `InputError` unless the checksum is that of the content, as it was read.

        `where` opens the message, which names the parts that changed, where the document has
        checksums of its parts. `typed` gives the same content with typed fields, by which 50 and
        50.0 are one; `copy` what a copy of the document says, if there is one: where it still has
        the checksum, it tells what was changed.
        """
        recorded, actual = _at(content, self.place), self.of(content)
        if recorded != actual and typed is not None:
            content = _as_typed(content, typed())
            actual = self.of(content)
        if recorded == actual:
            return
        reason = (
            f"was edited after {self.since}: its checksum {str(recorded)[:SHOWN]} does not match "
            f"its content, {actual[:SHOWN]}; {self._what_changed(content, copy())}; {self.hint}"
        )
        raise InputError.at(where, self.code, reason)

    def _of_parts(self, content: Mapping[str, Any]) -> dict[str, str]:
        bare = _changed(_changed(content, self.parts), self.place)
        return {path: canonical_hash(item)[:SHOWN] for path, item in self._split(bare)}

    def _split(self, section: Any, path: str = "") -> Iterator[tuple[str, Any]]:
        listed = isinstance(section, list)
        for key, item in enumerate(section) if listed else section.items():
            place = f"{path}[{key}]" if listed else f"{path}.{key}" if path else str(key)
            if place in self.opened and isinstance(item, (dict, list)) and item:
                yield from self._split(item, place)
            else:
                yield place, item

    def _what_changed(self, content: Mapping[str, Any], copy: Any) -> str:
        recorded = _at(content, self.place)
        if isinstance(copy, Mapping) and _at(copy, self.place) == recorded == self.of(copy):
            pairs = leaves(content, copy)
            differ = [path for path, here, there in pairs if here is not there and here != there]
            return f"changed: {first_of(differ, _NAMED)}"
        before = _at(content, self.parts) if self.parts else None
        if not isinstance(before, Mapping):
            return "which field changed cannot be known, it has no checksums of its parts"
        now = self._of_parts(content)
        changed = [path for path in {**before, **now} if before.get(path) != now.get(path)]
        return f"changed: {first_of(changed or [self.parts], _NAMED)}"


def _at(content: Any, place: str) -> Any:
    for key in place.split("."):
        content = content.get(key) if isinstance(content, Mapping) else None
    return content


def _changed(content: Mapping[str, Any], place: str, value: Any = None) -> dict[str, Any]:
    """A copy with another value at a dotted path; without any where it is None."""
    key, _, rest = place.partition(".")
    copy = dict(content)
    if rest:
        copy[key] = _changed(copy.get(key) or {}, rest, value)
    elif value is None:
        copy.pop(key, None)
    else:
        copy[key] = value
    return copy


ABSENT: Any = object()
"""What stands on a side of `leaves` that has nothing there."""


def leaves(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each value of either of two documents with its path, and what the other has there."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in {**one, **other}:
            inner = f"{path}.{key}" if path else str(key)
            yield from leaves(one.get(key, ABSENT), other.get(key, ABSENT), inner)
    elif _is_list(one) and _is_list(other) and len(one) == len(other):
        for place, pair in enumerate(zip(one, other, strict=True)):
            yield from leaves(*pair, f"{path}[{place}]")
    else:
        yield path, one, other


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _as_typed(content: Any, parsed: Any) -> Any:
    """The file's content with its numbers as the fields' types have them: 50 and 50.0 are one."""
    if isinstance(content, Mapping) and isinstance(parsed, Mapping):
        return {key: _as_typed(item, parsed.get(key)) for key, item in content.items()}
    if isinstance(content, list) and isinstance(parsed, list) and len(content) == len(parsed):
        return [_as_typed(item, other) for item, other in zip(content, parsed, strict=True)]
    same = isinstance(parsed, float) and type(content) is int and content == parsed
    return parsed if same else content


@dataclass(frozen=True, eq=False)
class Stored:
    """What a file says as it stands there, and the objects that were read from it."""

    content: Mapping[str, Any]
    read: tuple[Any, ...]

    def of(self, *objects: Any) -> Mapping[str, Any] | None:
        """The content, where these are the very objects that were read; None after a change."""
        same = (one is other for one, other in zip(objects, self.read, strict=True))
        return self.content if all(same) else None
