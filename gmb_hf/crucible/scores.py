"""Scores of items: bundles are read, embedded where they hold no similarities, and scored.

The scores are one Parquet row an item: `id`, `margin`, the three ranks, the number of negatives,
`tier` where there is one, and the hash of the item. The metadata of the file say which model scored
which items.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from gmb_hf.base import extras
from gmb_hf.base.documents import Section
from gmb_hf.base.errors import InputError, first_line, nearest, repeated
from gmb_hf.base.files import (
    atomic_path,
    check_file,
    check_not_read,
    check_table,
    parse_json,
    read_jsonl,
    write_jsonl,
)
from gmb_hf.base.fingerprints import item_hash
from gmb_hf.base.pretrained import ModelSource, find_encoder
from gmb_hf.crucible import margins
from gmb_hf.crucible.bundles import (
    BundleFile,
    Vectors,
    check_only_grown,
    item_content,
    read_bundles,
    read_vectors,
    similarities_of,
)

_KEY = b"gmb_crucible"
_HASH = re.compile("[0-9a-f]{64}")
_LIBRARY = "sentence_transformers"
_RANKS = {
    "rank": pa.int64(),
    "rank_realistic": pa.float64(),
    "rank_pessimistic": pa.int64(),
    "n_negatives": pa.int64(),
}
_TYPES = {"id": pa.string(), "margin": pa.float64(), **_RANKS, "item_hash": pa.string()}


class Origin(Section):
    """Which items were scored, and by which model."""

    encoder: Annotated[str, Field(min_length=1)] = Field(description="what made the similarities")
    bundles: str = Field(description="the file of the items")
    source_hash: str = Field(description="SHA-256 of its bytes")
    content_hash: str = Field(description="hash of its items")
    n_skipped: Annotated[int, Field(ge=0)] = Field(
        0, description="items left out because they had no negatives"
    )
    identity: str | None = Field(
        None, description="of the encoder: ORG/NAME@COMMIT, or a hash of its files"
    )

    @property
    def known_as(self) -> str:
        """The encoder by its commit or hash; by its name where there is neither."""
        return self.identity or self.encoder


@dataclass(frozen=True, eq=False)
class ItemScores:
    """Margins (float64 [N]) and ranks of N items, where they come from, and their tiers, if any.

    `item_hashes` are 64 hex digits each.
    """

    origin: Origin
    ids: tuple[str, ...]
    margin: margins.Floats
    ranks: margins.Ranks
    item_hashes: tuple[str, ...]
    tiers: tuple[str, ...] | None

    @classmethod
    def of(
        cls,
        file: BundleFile,
        similarities: margins.Similarities,
        encoder: str,
        identity: str | None = None,
    ) -> Self:
        """Score the bundles of a file by their similarities, where these were not skipped."""
        named = {bundle.id: bundle for bundle in file.bundles}
        items = [named[name] for name in similarities.names()]
        origin = Origin(
            encoder=encoder,
            bundles=str(file.path),
            source_hash=file.source_hash,
            content_hash=file.content_hash,
            n_skipped=similarities.n_skipped,
            identity=identity,
        )
        hashes = tuple(item.item_hash for item in items)
        tiers = None if file.tiers is None else tuple(item.tier or "" for item in items)
        found = margins.margins(similarities), margins.ranks(similarities)
        return cls(origin, similarities.names(), *found, hashes, tiers)

    @property
    def n(self) -> int:
        """How many items there are."""
        return len(self.ids)

    @property
    def danger(self) -> margins.Floats:
        """Minus the margin, float64 [N]."""
        return 0.0 - self.margin  # never -0.0

    def summaries(self) -> tuple[margins.MarginStats, margins.RankStats]:
        """Statistics of the margins and of the ranks."""
        n_skipped = self.origin.n_skipped
        of_margins = margins.margin_stats(self.margin, n_skipped=n_skipped)
        return of_margins, margins.rank_stats(self.ranks, n_skipped=n_skipped)

    def rows_of(self, other: Self) -> NDArray[np.int64]:
        """The row in this table of each item of `other`, int64 [N of other].

        Raises:
            InputError: the two do not hold the same items; some that differ are named.
        """
        row = {name: number for number, name in enumerate(self.ids)}
        absent = [name for name in other.ids if name not in row]
        absent += sorted(row.keys() - set(other.ids))
        if absent:
            raise InputError(f"{margins.listed(absent)}: scored in one of the two files only")
        return np.array([row[name] for name in other.ids], dtype=np.int64)

    def write(self, path: str | Path) -> Path:
        """Write as Parquet, atomically."""
        if Path(path).suffix != ".parquet":
            raise InputError(f"{path}: scores are written as .parquet; give such a name")
        ranked = vars(self.ranks).values()
        values = [list(self.ids), self.margin, *ranked, list(self.item_hashes)]
        columns: dict[str, Any] = dict(zip(_TYPES, values, strict=True))
        if self.tiers is not None:
            columns["tier"] = list(self.tiers)
        schema = pa.schema({name: _TYPES.get(name, pa.string()) for name in columns})
        origin = json.dumps(self.origin.model_dump(), ensure_ascii=False).encode()
        with atomic_path(path) as temporary:
            table = pa.table(columns, schema=schema.with_metadata({_KEY: origin}))
            pq.write_table(table, temporary, write_page_checksum=True)
        return Path(path)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read what `write` left.

        Raises:
            InputError: no such file, no such table, or an id that occurs twice.
        """
        check_file(path)
        try:
            about = pq.read_metadata(path)
            check_table(path, rows=about.num_rows, columns=about.num_columns)
            table = pq.read_table(path, page_checksum_verification=True)
            table.validate(full=True)  # the reader does not check that strings are UTF-8
        except (pa.ArrowException, OSError):
            message = f"{path}: is no Parquet file, or a damaged one; gmb crucible score writes one"
            raise InputError(message) from None
        metadata = table.schema.metadata or {}
        if _KEY not in metadata:
            raise InputError(f"{path}: holds no item scores; gmb crucible score writes them")
        for name, kind in _TYPES.items():
            if name not in table.column_names:
                guess = nearest(name, table.column_names)
                hint = f"; did you mean {guess!r}?" if guess else ""
                raise InputError(f"{path}: column {name!r} is missing{hint}")
            if table[name].type != kind or table[name].null_count:
                raise InputError(f"{path}: column {name!r} must hold {kind}, without gaps")
        origin = parse_json(metadata[_KEY].decode("utf-8", "replace"), where=str(path))
        ids = table["id"].to_pylist()
        if not ids:
            raise InputError(f"{path}: holds no item; score bundles that have negatives")
        twice = repeated(ids)
        if twice is not None:
            raise InputError(f"{path}: id {twice!r} occurs more than once")
        hashes = table["item_hash"].to_pylist()
        if not all(map(_HASH.fullmatch, hashes)):
            raise InputError(f"{path}: column 'item_hash' must hold 64 hex digits each")
        tiers = tuple(table["tier"].to_pylist()) if "tier" in table.column_names else None
        margins.check_names(sorted(set(map(str, tiers or ()))), where=str(path))
        margin = table["margin"].to_numpy()
        ranks = margins.Ranks(*(table[name].to_numpy() for name in _RANKS))
        wrong = np.flatnonzero(~margins.possible(margin, ranks))
        if len(wrong):
            named = margins.listed([ids[place] for place in wrong.tolist()])
            what = "margin and ranks cannot be of one item"
            raise InputError(f"{path}: {named}: {what}; score the bundles again")
        return cls(
            origin=Origin.parse(origin, where=str(path)),
            ids=tuple(ids),
            margin=margin,
            ranks=ranks,
            item_hashes=tuple(hashes),
            tiers=tiers,
        )


def score_bundles(
    path: str | Path,
    *,
    embeddings: str | Path | None = None,
    encoder: str | None = None,
    name: str | None = None,
    empty: margins.OnEmpty = "error",
    previous: str | Path | None = None,
    on_done: Callable[[str], None] = lambda _: None,
) -> ItemScores:
    """Score a file of bundles by the similarities in it, by embeddings, or by an encoder.

    Args:
        path: JSONL.
        embeddings: `.npy` or `.safetensors` with a row per text.
        encoder: name or path of a sentence-transformers model.
        name: what made the similarities; the encoder by default.
        empty: what to do with items without negatives.
        previous: an earlier version of the set, every item of which must be in this one.
        on_done: called after every batch of texts.

    Raises:
        InputError: nothing to score with, both ways at once, or bad input of either; items of the
            earlier version are gone or changed.
    """
    if name is not None and not name.strip():
        raise InputError("--name is empty; name what made the similarities, or leave it out")
    if embeddings is not None and encoder is not None:
        raise InputError("--embeddings and --encoder exclude each other; give one of them")
    file, identity = read_bundles(path), None
    if previous is not None:
        check_only_grown(read_bundles(previous), [one.item_hash for one in file.bundles], path)
    if embeddings is None and encoder is None:
        for bundle in file.bundles:
            if bundle.similarities is None and bundle.positive is not None:
                first = f" (first {extras.command(_LIBRARY)})"
                extra = "" if extras.present(_LIBRARY) else first
                lacks = f"item {bundle.id!r} has texts and no similarities"
                hint = f"give --encoder MODEL{extra}, or --embeddings FILE"
                where = f"{file.path}:{bundle.line}"
                raise InputError.at(where, "no_similarities", f"{lacks}; {hint}")
        similarities = file.similarities(empty=empty)
    else:
        file.check_texts()
        if embeddings is None:
            model = Encoder(encoder or "")
            vectors, identity = encode_bundles(file, model, on_done), model.identity
        else:
            vectors = read_vectors(embeddings, file)
        similarities = similarities_of(file, vectors, empty=empty)
    if not similarities.n:
        raise InputError(f"{path}: no item has negatives, so there is nothing to score")
    return ItemScores.of(file, similarities, name or encoder or "unnamed", identity)


def fit_to_scores(
    scores: ItemScores,
    *,
    thresholds: tuple[float, float] = margins.THRESHOLDS,
    method: str = "inverted_cdf",
) -> margins.Tiers:
    """Tiers of scored items, as `fit_tiers`."""
    return margins.fit_tiers(
        scores.danger,
        encoder=scores.origin.known_as,
        corpus_hash=scores.origin.content_hash,
        thresholds=thresholds,
        method=cast("margins.Method", method),  # which refuses another word
    )


class TieredFile(NamedTuple):
    """A file of bundles with tiers, how many items each tier holds, and how many had no score."""

    path: Path
    counts: dict[str, int]
    left_out: int


def assign_to_file(
    tiers: margins.Tiers, scores: ItemScores, bundles: str | Path, out: str | Path
) -> TieredFile:
    """Write bundles with their tiers: the evaluation set that later models are scored on.

    Args:
        tiers, scores: of one encoder; the scores are those of the bundles.
        bundles: JSONL.
        out: the new JSONL; items without a score are not in it.

    Raises:
        InputError: scores of other bundles or by another encoder, or the output is the input; a set
            is in `out` already, and the new one would not only add to it.
    """
    check_not_read(out, bundles)
    file = read_bundles(bundles)
    if file.content_hash != scores.origin.content_hash:
        scored = scores.origin.bundles
        raise InputError(f"{bundles}: is not what was scored ({scored}); score it again")
    encoder = scores.origin.known_as
    labels = margins.assign_tiers(tiers, scores.danger, encoder=encoder).tolist()
    tier = dict(zip(scores.ids, labels, strict=True))
    lines = zip(file.ids, read_jsonl(bundles), strict=True)
    tiered = [{**line, "tier": tier[name]} for name, (_, line) in lines if name in tier]
    if Path(out).exists():
        hashes = [item_hash(item_content(line)).hex() for line in tiered]
        check_only_grown(read_bundles(out), hashes, out)
    counts = {name: labels.count(name) for name in margins.TIERS}
    return TieredFile(write_jsonl(out, tiered), counts, len(file.bundles) - len(tiered))


# Texts to embeddings through sentence-transformers, an extra of this package.

_BATCH = 256
_TIMEOUT = 5.0  # seconds for the Hub's first answer


class Encoder:
    """A sentence-transformers model, by its name on the Hub or the path of a folder.

    Raises:
        InputError: sentence-transformers is not installed, there is no such model, or it is not
            downloaded and the Hub cannot be reached.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        if not extras.present(_LIBRARY):
            raise extras.missing("--encoder", _LIBRARY, otherwise="give --embeddings")
        source = _model_source(name)  # before the import, which takes seconds
        self.identity = source.identity
        from sentence_transformers import SentenceTransformer

        try:
            self._model: Any = SentenceTransformer(str(source.folder), local_files_only=True)
        except Exception as error:  # unknown, gated, or no such model: each has its own
            why = first_line(error)
            raise InputError(f"encoder {name!r} cannot be found or loaded: {why}") from None

    def encode(
        self, texts: Sequence[str], on_done: Callable[[str], None] = lambda _: None
    ) -> margins.Floats:
        """One row per text, float64 [N, D]; each distinct text is encoded once, 256 at a time."""
        distinct = list(dict.fromkeys(texts))
        row = {text: number for number, text in enumerate(distinct)}
        rows: list[margins.Floats] = []
        for start in range(0, len(distinct), _BATCH):
            batch = distinct[start : start + _BATCH]
            found = self._model.encode(batch, convert_to_numpy=True, show_progress_bar=False)
            rows.append(np.asarray(found, dtype=np.float64))
            on_done(f"{start + len(batch):,} of {len(distinct):,} texts")
        return np.asarray(np.concatenate(rows)[[row[text] for text in texts]])


def encode_bundles(
    file: BundleFile, encoder: Encoder, on_done: Callable[[str], None] = lambda _: None
) -> Vectors:
    """Embeddings of the texts of a file's bundles."""
    anchors = [bundle.anchor or "" for bundle in file.bundles]
    candidates = [
        text for bundle in file.bundles for text in (bundle.positive or "", *bundle.negatives)
    ]
    rows, n = encoder.encode([*anchors, *candidates], on_done), len(anchors)
    counts = np.array([1 + len(bundle.negatives) for bundle in file.bundles], dtype=np.int64)
    return Vectors(rows[:n], rows[n:], counts)


def _model_source(name: str) -> ModelSource:
    """The files of a model, in a folder or of the Hub; bare names are the library's own first."""
    path = Path(os.path.expanduser(name))
    missing = f"encoder {name!r} cannot be found"
    if path.is_file():
        raise InputError(f"{missing}: this is a file; give the folder of a saved model")
    if name and path.is_dir():
        return find_encoder(name)
    if not name.strip() or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"{missing}: there is no such folder")
    why = _hub_obstacle()
    for repository in (name,) if "/" in name else (f"sentence-transformers/{name}", name):
        try:
            return find_encoder(repository, cache_only=why is not None)
        except InputError as error:
            reason = error
    if why is None:
        raise InputError(f"{missing} or loaded: {reason}")
    what = "there is no such folder, it was never downloaded"
    raise InputError(f"{missing}: {what}, and the Hub cannot be reached ({why})")


def _hub_obstacle() -> str | None:
    """Why the Hub cannot be reached, by one attempt; its client would retry for a minute."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_TIMEOUT)
    except Exception as error:  # of httpx or httpx2, as the client has it; offline mode too
        return first_line(error)
    return None
