"""From embeddings to similarities: the cosine of each candidate with its anchor, in float64.

Embedding files hold one row per text. `.npy` (and `embeddings` in `.safetensors`) has the rows in
the order of the bundles, each as anchor, positive, its negatives; a `.safetensors` file may hold
`anchor`, `positive` and `negatives` instead, the negatives of all bundles one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.crucible.bundles import BundleFile
from gmb_hf.crucible.similarities import OnEmpty, Similarities, listed
from gmb_hf.files import check_file
from gmb_hf.validation import InputError

_CHUNK = 1 << 16
_ROLES = ("anchor", "positive", "negatives")


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
