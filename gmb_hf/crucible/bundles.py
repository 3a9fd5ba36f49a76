"""Files of bundles, and embeddings of their texts.

A bundle is one JSON object a line: `anchor`, `positive` and `negatives` as text or objects with
`text` (negatives also as a mapping of names), or `similarities` as a list with `positive_index`, or
as an object with `positive` and `negatives`; optionally `id` and `tier`.
"""

from __future__ import annotations

import hashlib
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.base.errors import InputError, nearest
from gmb_hf.base.files import check_file, parse_json, read_lines
from gmb_hf.base.fingerprints import ContentHash, item_hash
from gmb_hf.crucible.margins import OnEmpty, Similarities, check_names, listed

_ROLES = ("anchor", "positive", "negatives")
CANDIDATE = _ROLES[:2]
"""What a candidate for mining needs, whose negatives come from a pool."""
_CHUNK = 1 << 16


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


def parse_bundle(data: Any, line: int, *, where: str, needs: Sequence[str] = _ROLES) -> Bundle:
    """A line's JSON as a bundle; the number of the line is its id where there is none.

    `needs` are the texts that it must have where it has no similarities.

    Raises:
        InputError: it is not understood; `where`, file and line, opens the message.
    """
    if not isinstance(data, dict):
        raise _wrong(where, "a bundle is a JSON object", data)
    name, tier, given = data.get("id", line), data.get("tier"), data.get("similarities")
    if isinstance(name, bool) or not isinstance(name, (str, int)) or name == "":
        raise _wrong(where, "id must be text or a whole number", name)
    if tier is not None:
        check_names([tier if isinstance(tier, str) else repr(tier)], where=where)
    missing = [key for key in needs if key not in data]
    if given is None and missing:
        guess = nearest(missing[0], [key for key in data if key not in _ROLES])
        hint = f" Is {guess!r} meant?" if guess else ""
        found = ", ".join(reprlib.repr(key) for key in list(data)[:8]) or "nothing"
        lacks = f"no {missing[0]!r}; a candidate needs anchor and positive"
        if needs == _ROLES:
            lacks = f"no {missing[0]!r}, and no 'similarities'; a bundle needs anchor, positive "
            lacks += "and negatives, or similarities"
        raise InputError(f"{where}: {lacks}; found: {found}.{hint}")
    anchor = positive = values = index = None
    negatives: tuple[str, ...] = ()
    if "anchor" in data:
        anchor, other = _text(data["anchor"], "anchor", where), data.get("positive")
        if given is None or not (other is None or _is_int(other)):
            positive = _text(other, "positive", where)
        negatives = tuple(_negatives(data.get("negatives", []), where))
    if given is not None:
        values, index = _similarities(data, given, where)
        n, others = len(values), len(negatives)
        if anchor is not None and "negatives" in data and n != 1 + others:
            what = f"{1 + others} candidates (the positive and {others} negatives)"
            raise InputError(f"{where}: {n} similarities for {what}")
    digest = item_hash(item_content(data), where=where).hex()
    return Bundle(str(name), line, anchor, positive, negatives, values, index, tier, digest)


def item_content(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a line that identifies the item: all but the similarities, which are a model's.

    Where there is neither a text nor an id, the similarities identify the item.
    """
    if "id" in data or isinstance(data.get("anchor"), (str, Mapping)):
        return {key: value for key, value in data.items() if key != "similarities"}
    return data


def _wrong(where: str, what: str, value: Any) -> InputError:
    return InputError(f"{where}: {what}, got {reprlib.repr(value)}")


def _text(value: Any, what: str, where: str) -> str:
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        value = value["text"]
    if isinstance(value, str):
        return value
    raise _wrong(where, f"{what} must be text or an object with 'text'", value)


def _negatives(value: Any, where: str) -> Iterator[str]:
    named = isinstance(value, Mapping) and not isinstance(value.get("text"), str)
    if not named and not isinstance(value, list):
        what = "negatives must be a list of texts or a mapping of names to texts"
        raise _wrong(where, what, value)
    for name, item in _entries(value) if named else enumerate(value):
        yield _text(item, f"negatives[{name!r}]", where)


def _similarities(
    data: Mapping[str, Any], given: Any, where: str
) -> tuple[tuple[float, ...], int | None]:
    if isinstance(given, Mapping):
        if "positive" not in given or "negatives" not in given:
            what = "similarities as an object need 'positive' and 'negatives'"
            raise _wrong(where, what, dict(given))
        rest, texts = given["negatives"], data.get("negatives")
        if isinstance(rest, Mapping) and isinstance(texts, Mapping) and rest.keys() != texts.keys():
            wrong = ", ".join(sorted(map(repr, rest.keys() ^ texts.keys()))[:5])
            what = "negatives and their similarities name others"
            raise InputError(f"{where}: {what}: {wrong} in one of the two only")
        if isinstance(rest, Mapping):
            rest = [entry for _, entry in _entries(rest)]
        if not isinstance(rest, list):
            raise _wrong(where, "the negatives' similarities must be a list of numbers", rest)
        return _numbers([given["positive"], *rest], where), 0
    if not isinstance(given, list):
        what = "similarities must be a list of numbers or an object with 'positive' and 'negatives'"
        raise _wrong(where, what, given)
    values, positive = _numbers(given, where), data.get("positive")
    index = data.get("positive_index", positive if _is_int(positive) else 0)
    if not _is_int(index):
        raise _wrong(where, "positive_index must be a whole number", index)
    if values and not 0 <= index < len(values):
        found = f"there are {len(values)} similarities (it counts from 0)"
        raise InputError(f"{where}: the positive is said to be at {index}, but {found}")
    return values, index


def _entries(mapping: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each value of a mapping with its name; a list holds several of one name."""
    for name, item in mapping.items():
        for entry in item if isinstance(item, list) else [item]:
            yield name, entry


def _numbers(values: list[Any], where: str) -> tuple[float, ...]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _wrong(where, "a similarity must be a number", value)
    try:
        return tuple(map(float, values))
    except OverflowError:
        raise InputError(f"{where}: a similarity is too large for a number of 64 bits") from None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class BundleFile:
    """A file of bundles, in the order of its lines.

    `source_hash` is the SHA-256 of its bytes, `content_hash` that of the items, without their
    similarities.
    """

    path: Path
    bundles: tuple[Bundle, ...] = field(repr=False)
    source_hash: str
    content_hash: str

    @property
    def ids(self) -> tuple[str, ...]:
        """The items' names."""
        return tuple(bundle.id for bundle in self.bundles)

    @property
    def tiers(self) -> tuple[str, ...] | None:
        """The tier of each item, None if no item has one.

        Raises:
            InputError: some have one, others not.
        """
        tiers = tuple(bundle.tier for bundle in self.bundles if bundle.tier is not None)
        if 0 < len(tiers) < len(self.bundles):
            first = next(bundle for bundle in self.bundles if bundle.tier is None)
            hint = "assign tiers to all (gmb crucible tiers assign)"
            raise self._lacks(first, f"has no tier, others have one; {hint}")
        return tiers or None

    def check_texts(self, needs: Sequence[str] = _ROLES) -> None:
        """Refuse an item that no encoder can look at, because it has only similarities."""
        for bundle in self.bundles:
            if bundle.anchor is None or bundle.positive is None:
                hint = f"it needs {', '.join(needs[:-1])} and {needs[-1]}"
                raise self._lacks(bundle, f"has no texts to embed; {hint}")

    def similarities(self, *, empty: OnEmpty = "error") -> Similarities:
        """The similarities in the file.

        Raises:
            InputError: an item has none, no negatives, or an index out of range.
        """
        for bundle in self.bundles:
            if bundle.similarities is None:
                hint = "add them, or give embeddings or an encoder"
                raise self._lacks(bundle, f"has no similarities; {hint}")
        values = [bundle.similarities or () for bundle in self.bundles]
        positive = [bundle.positive_index or 0 for bundle in self.bundles]
        return Similarities.of_lists(values, positive, self.ids, empty=empty)

    def _lacks(self, bundle: Bundle, what: str) -> InputError:
        return InputError(f"{self.path}:{bundle.line}: item {bundle.id!r} {what}")


def check_only_grown(previous: BundleFile, hashes: Sequence[str], where: str | Path) -> None:
    """Refuse a set of items that is no later version of an earlier one (spec: append-only).

    The new set, in messages `where`, is known by the hashes of its items, as `Bundle.item_hash`.

    Raises:
        InputError: items of the earlier set are gone or were changed; some are named.
    """
    lost = lost_items(((one.id, one.item_hash) for one in previous.bundles), hashes)
    if lost:
        raise InputError(
            f"{where}: {len(lost):,} of the {len(previous.bundles):,} items of {previous.path} are "
            f"gone or changed ({listed(lost)}); an evaluation set may only grow, so keep them, or "
            "write another set",
            code="not_append_only",
            where=str(where),
        )


def lost_items(previous: Iterable[tuple[str, str]], hashes: Iterable[str]) -> list[str]:
    """The ids of earlier items, given as (id, hash), that are not among the hashes of a set."""
    left = Counter(hashes)
    lost = []
    for name, digest in previous:
        left[digest] -= 1
        if left[digest] < 0:
            lost.append(name)
    return lost


def read_bundles(path: str | Path, *, needs: Sequence[str] = _ROLES) -> BundleFile:
    """Read a JSONL file of bundles; blank lines are passed over.

    `needs` are the texts of an item without similarities; `CANDIDATE` those of one for mining.

    Raises:
        InputError: a line that is not understood (its number is in the message), an id that occurs
            twice, or a file without bundles.
    """
    source, content, bundles = hashlib.sha256(), ContentHash(), []
    lines: dict[str, int] = {}
    for number, line in read_lines(path, source):
        where = f"{path}:{number}"
        bundle = parse_bundle(parse_json(line, where=where), number, where=where, needs=needs)
        first = lines.setdefault(bundle.id, number)
        if first != number:
            what = f"id {bundle.id!r} is that of line {first} already; ids must differ"
            raise InputError(f"{where}: {what}")
        content.add_hash(bytes.fromhex(bundle.item_hash))
        bundles.append(bundle)
    if not bundles:
        raise InputError(f"{path}: holds no bundles; a line is one JSON object")
    return BundleFile(Path(path), tuple(bundles), source.hexdigest(), content.hexdigest())


# From embeddings to similarities: the cosine of each candidate with its anchor, in float64.


class Vectors(NamedTuple):
    """Embeddings of N bundles: anchors [N, D] and candidates [sum of (1 + K), D].

    The candidates of all bundles stand one after another, the positive of each first; `counts` are
    1 + K, the candidates of each, int64 [N].
    """

    anchors: NDArray[np.floating]
    candidates: NDArray[np.floating]
    counts: NDArray[np.int64]

    @property
    def positives(self) -> NDArray[np.floating]:
        """[N, D]."""
        return np.asarray(self.candidates[np.cumsum(self.counts) - self.counts])


def similarities_of(
    file: BundleFile, vectors: Vectors, *, empty: OnEmpty = "error"
) -> Similarities:
    """Cosine similarities of a file's bundles; the positive is each item's first candidate.

    Raises:
        InputError: an item without negatives, or a vector that is zero or not finite.
    """
    anchors, candidates, counts = vectors
    ids, owner = file.ids, np.repeat(np.arange(len(counts)), counts)
    values = np.empty(len(candidates))
    for start in range(0, len(candidates), _CHUNK):
        part = slice(start, start + _CHUNK)
        names = [ids[place] for place in owner[part].tolist()]
        pair = unit_rows(anchors[owner[part]], names), unit_rows(candidates[part], names)
        values[part] = np.einsum("ij,ij->i", *pair)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Similarities.of_flat(values, offsets, np.zeros_like(counts), ids, empty=empty)


def unit_rows(rows: ArrayLike, ids: Sequence[str]) -> NDArray[np.float64]:
    """Each row divided by its length, float64.

    Raises:
        InputError: a row is zero or not finite; its items are named.
    """
    array = np.asarray(rows, dtype=np.float64)
    # Divided by its largest number first, no row is too long or too short to be squared.
    largest = np.abs(array).max(axis=1, initial=0.0)
    bad = np.flatnonzero(~((largest > 0) & np.isfinite(largest)))
    if len(bad):
        names = list(dict.fromkeys(ids[place] for place in bad.tolist()))
        raise InputError(f"{listed(names)}: an embedding is zero or not finite")
    scaled = array / largest[:, None]
    return np.asarray(scaled / np.sqrt((scaled**2).sum(axis=1, keepdims=True)))


def read_vectors(path: str | Path, file: BundleFile) -> Vectors:
    """The embeddings of a file's bundles from `.npy` or `.safetensors`.

    Raises:
        InputError: no such file, no such format, other arrays than these, or too few rows.
    """
    arrays = read_arrays(path)
    counts = np.array([1 + len(bundle.negatives) for bundle in file.bundles], dtype=np.int64)
    n, total = len(counts), int(counts.sum())
    if total == n and set(arrays) == set(CANDIDATE):  # no item has negatives
        arrays = {**arrays, "negatives": arrays["positive"][:0]}
    if set(arrays) == set(_ROLES):
        for role, needed in zip(_ROLES, (n, n, total - n), strict=True):
            shape = arrays[role].shape
            if len(shape) != 2 or shape[0] != needed:
                what = f"needs {needed} {role} embeddings, got an array of shape {shape}"
                raise InputError(f"{file.path} {what}")
            width = arrays["anchor"].shape[1]
            if shape[1] != width:
                widths = f"anchors {width}, candidates {shape[1]}"
                raise InputError(f"embeddings differ in width: {widths}")
        kind = np.result_type(*arrays.values())
        anchors, positives, negatives = (arrays[role].astype(kind, copy=False) for role in _ROLES)
        begins = np.cumsum(counts - 1) - (counts - 1)
        return Vectors(anchors, np.insert(negatives, begins, positives, axis=0), counts)
    wanted = f"{file.path} needs {n + total} rows (anchor, positive and negatives of each bundle)"
    kinds = "anchor, positive and negatives, or embeddings"
    rows = _only(arrays, path, n + total, wanted, kinds)
    begins = np.cumsum(counts + 1) - (counts + 1)
    return Vectors(rows[begins], np.delete(rows, begins, axis=0), counts)


def read_rows(path: str | Path, n: int, what: str) -> NDArray[np.floating]:
    """One array of `n` embeddings from `.npy`, or `embeddings` from `.safetensors`."""
    return _only(read_arrays(path), path, n, f"{what} needs {n} rows", "embeddings")


def _only(
    arrays: Mapping[str, NDArray[np.floating]], path: str | Path, n: int, needed: str, kinds: str
) -> NDArray[np.floating]:
    if set(arrays) != {"embeddings"}:
        found = ", ".join(sorted(arrays)) or "nothing"
        raise InputError(f"{path}: holds {found}; expected {kinds}")
    rows = arrays["embeddings"]
    if rows.ndim != 2 or len(rows) != n:
        raise InputError(f"{path}: {needed}, got an array of shape {rows.shape}")
    return rows


def read_arrays(path: str | Path) -> Mapping[str, NDArray[np.floating]]:
    """The arrays of numbers in a file, by name; the one of a `.npy` is called `embeddings`."""
    check_file(path)
    suffix = Path(path).suffix
    if suffix not in (".npy", ".safetensors"):
        raise InputError(f"{path}: embeddings come as .npy or .safetensors")
    try:
        if suffix == ".npy":
            arrays = {"embeddings": np.load(path, allow_pickle=False)}
        else:
            from safetensors.numpy import load_file

            arrays = load_file(path)
    except Exception as error:  # each format has errors of its own
        raise InputError(f"{path}: could not be read as {suffix}: {error}") from None
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise InputError(f"{path}: {name} holds {array.dtype}, not numbers")
    return arrays
