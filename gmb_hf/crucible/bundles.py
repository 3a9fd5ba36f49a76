"""Files of bundles, and embeddings of their texts.

A bundle is one JSON object a line: `anchor`, `positive` and `negatives` as text or objects with
`text` (negatives also as a mapping of names), or `similarities` as a list with `positive_index`, or
as an object with `positive` and `negatives`; optionally `id` and `tier`.
"""

from __future__ import annotations

import hashlib
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.crucible.margins import OnEmpty, Similarities, check_names, listed
from gmb_hf.errors import InputError, nearest
from gmb_hf.files import check_file, parse_json
from gmb_hf.fingerprints import ContentHash, item_hash

_ROLES = ("anchor", "positive", "negatives")
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
    """The part of a line that identifies the item: all but the similarities, which are a model's.

    Where there is neither a text nor an id, the similarities identify the item.
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
        for key in _ROLES:
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
    guess = nearest(key, [name for name in data if name not in _ROLES])
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
        for name, item in _entries(value):
            yield _text(item, f"negatives[{name!r}]", where)
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
        if isinstance(rest, Mapping):
            rest = [entry for _, entry in _entries(rest)]
        if not isinstance(rest, list):
            raise InputError(
                f"{where}: the negatives' similarities must be a list of numbers, got "
                f"{reprlib.repr(rest)}"
            )
        return _numbers([given["positive"], *rest], where), 0
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


def _entries(mapping: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each value of a mapping with its name; a list holds several of one name."""
    for name, item in mapping.items():
        for entry in item if isinstance(item, list) else [item]:
            yield name, entry


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


@dataclass(frozen=True)
class BundleFile:
    """A file of bundles.

    Attributes:
        path: where it was read from.
        bundles: its items, in the order of the lines.
        source_hash: SHA-256 of the file's bytes.
        content_hash: hash of the items, without their similarities.
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
    def has_similarities(self) -> bool:
        """Whether every item has similarities."""
        return all(bundle.similarities is not None for bundle in self.bundles)

    @property
    def tiers(self) -> tuple[str, ...] | None:
        """The tier of each item, None if no item has one.

        Raises:
            InputError: some have one, others not.
        """
        lacking = [bundle for bundle in self.bundles if bundle.tier is None]
        if len(lacking) == len(self.bundles):
            return None
        if lacking:
            raise InputError(
                f"{self.path}:{lacking[0].line}: item {lacking[0].id!r} has no tier, others have "
                "one; assign tiers to all (gmb crucible tiers assign)"
            )
        return tuple(bundle.tier or "" for bundle in self.bundles)

    def similarities(self, *, empty: OnEmpty = "error") -> Similarities:
        """The similarities in the file.

        Raises:
            InputError: an item has none, no negatives, or an index out of range.
        """
        for bundle in self.bundles:
            if bundle.similarities is None:
                raise InputError(
                    f"{self.path}:{bundle.line}: item {bundle.id!r} has no similarities; add them, "
                    "or give embeddings or an encoder"
                )
        return Similarities.of_lists(
            [bundle.similarities or () for bundle in self.bundles],
            [bundle.positive_index or 0 for bundle in self.bundles],
            self.ids,
            empty=empty,
        )


def read_bundles(path: str | Path) -> BundleFile:
    """Read a JSONL file of bundles; blank lines are passed over.

    Raises:
        InputError: a line that is not understood (its number is in the message), an id that occurs
            twice, or a file without bundles.
    """
    source, content, bundles = hashlib.sha256(), ContentHash(), []
    lines: dict[str, int] = {}
    for number, line in _lines(Path(path), source):
        where = f"{path}:{number}"
        bundle = parse_bundle(parse_json(line, where=where), number, where=where)
        if bundle.id in lines:
            raise InputError(
                f"{where}: id {bundle.id!r} is that of line {lines[bundle.id]} already; ids must "
                "differ"
            )
        lines[bundle.id] = number
        content.add_hash(bytes.fromhex(bundle.item_hash))
        bundles.append(bundle)
    if not bundles:
        raise InputError(f"{path}: holds no bundles; a line is one JSON object")
    return BundleFile(Path(path), tuple(bundles), source.hexdigest(), content.hexdigest())


def _lines(path: Path, digest: Any) -> Iterator[tuple[int, str]]:
    """Number and text of every line that is not blank; their bytes go into `digest`."""
    check_file(path)
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            digest.update(raw)
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path}:{number}: is not UTF-8 text (byte {error.start} of the line)"
                ) from None
            if text.strip():
                yield number, text


# From embeddings to similarities: the cosine of each candidate with its anchor, in float64.


@dataclass(frozen=True, eq=False)
class Vectors:
    """Embeddings of bundles, [rows, D] each.

    Attributes:
        anchor, positive: a row per bundle, [N, D].
        negatives: of all bundles, one after another, [sum of K, D].
    """

    anchor: NDArray[np.floating]
    positive: NDArray[np.floating]
    negatives: NDArray[np.floating]


def similarities_of(
    file: BundleFile, vectors: Vectors, *, empty: OnEmpty = "error"
) -> Similarities:
    """Cosine similarities of a file's bundles; the positive is each item's first candidate.

    Raises:
        InputError: the rows do not fit the bundles, or a vector is zero or not finite.
    """
    counts = np.array([len(bundle.negatives) for bundle in file.bundles], dtype=np.int64)
    n = len(counts)
    wanted = {"anchor": n, "positive": n, "negatives": int(counts.sum())}
    for role, rows in wanted.items():
        found = getattr(vectors, role).shape
        if len(found) != 2 or found[0] != rows:
            raise InputError(
                f"{file.path} needs {rows} {role} embeddings, got an array of shape {found}"
            )
    offsets = np.concatenate([[0], np.cumsum(counts + 1)])
    values = np.empty(offsets[-1])
    first = offsets[:-1]
    owner = np.repeat(np.arange(n), counts)
    rest = np.ones(len(values), dtype=bool)
    rest[first] = False
    values[first] = cosine(vectors.anchor, vectors.positive, np.arange(n), file.ids)
    values[rest] = cosine(vectors.anchor, vectors.negatives, owner, file.ids)
    return Similarities.of_flat(values, offsets, np.zeros(n, dtype=np.int64), file.ids, empty=empty)


def cosine(
    anchors: NDArray[np.floating],
    candidates: NDArray[np.floating],
    owner: NDArray[np.int64],
    ids: Sequence[str],
) -> NDArray[np.float64]:
    """Cosine of each candidate with its anchor, float64 [C].

    Args:
        anchors: [N, D].
        candidates: [C, D].
        owner: whose candidate each is, int [C].
        ids: names of the anchors, for messages.
    """
    if anchors.shape[1] != candidates.shape[1]:
        raise InputError(
            f"embeddings differ in width: anchors {anchors.shape[1]}, candidates "
            f"{candidates.shape[1]}"
        )
    found = np.empty(len(candidates))
    for start in range(0, len(candidates), _CHUNK):
        part = slice(start, start + _CHUNK)
        names = [ids[place] for place in owner[part].tolist()]
        one = unit_rows(anchors[owner[part]], names)
        other = unit_rows(candidates[part], names)
        found[part] = np.einsum("ij,ij->i", one, other)
    return found


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
    unit: NDArray[np.float64] = scaled / np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    return unit


def read_vectors(path: str | Path, file: BundleFile) -> Vectors:
    """The embeddings of a file's bundles from `.npy` or `.safetensors`.

    Raises:
        InputError: no such file, no such format, other arrays than these, or too few rows.
    """
    arrays = read_arrays(path)
    if set(arrays) == set(_ROLES):
        return Vectors(*(arrays[role] for role in _ROLES))
    if set(arrays) != {"embeddings"}:
        raise InputError(
            f"{path}: holds {', '.join(sorted(arrays)) or 'nothing'}; expected anchor, positive "
            "and negatives, or embeddings"
        )
    rows = arrays["embeddings"]
    counts = np.array([2 + len(bundle.negatives) for bundle in file.bundles], dtype=np.int64)
    if rows.ndim != 2 or len(rows) != counts.sum():
        raise InputError(
            f"{path}: {file.path} needs {counts.sum()} rows (anchor, positive and negatives of "
            f"each bundle), got an array of shape {rows.shape}"
        )
    starts = np.cumsum(counts) - counts
    rest = np.ones(len(rows), dtype=bool)
    rest[starts] = rest[starts + 1] = False
    return Vectors(rows[starts], rows[starts + 1], rows[rest])


def read_rows(path: str | Path, n: int, what: str) -> NDArray[np.floating]:
    """One array of `n` embeddings from `.npy`, or `embeddings` from `.safetensors`."""
    arrays = read_arrays(path)
    if set(arrays) != {"embeddings"}:
        raise InputError(f"{path}: holds {', '.join(sorted(arrays))}; expected embeddings")
    rows = arrays["embeddings"]
    if rows.ndim != 2 or len(rows) != n:
        raise InputError(f"{path}: {what} needs {n} rows, got an array of shape {rows.shape}")
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
