"""What a model scored on each item, in a table that later steps read.

One row an item in Parquet: `id`, `margin`, the three ranks, the number of negatives, `tier` where
there is one, and the hash of the item. What the model is and what it was scored on stands in the
file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from gmb_hf.crucible.bundles import BundleFile
from gmb_hf.crucible.margins import Ranks, margins, ranks
from gmb_hf.crucible.similarities import Similarities, listed
from gmb_hf.crucible.tiers import check_names
from gmb_hf.documents import Section
from gmb_hf.errors import InputError, nearest, repeated
from gmb_hf.files import atomic_path, check_file, parse_json

_KEY = b"gmb_crucible"
_TYPES = {
    "id": pa.string(),
    "margin": pa.float64(),
    "rank": pa.int64(),
    "rank_realistic": pa.float64(),
    "rank_pessimistic": pa.int64(),
    "n_negatives": pa.int64(),
    "item_hash": pa.string(),
}


class Origin(Section):
    """What was scored, and by what."""

    encoder: str = Field(description="what made the similarities")
    bundles: str = Field(description="the file of the items")
    source_hash: str = Field(description="SHA-256 of its bytes")
    content_hash: str = Field(description="hash of its items")
    n_skipped: int = Field(0, description="items left out because they had no negatives")


@dataclass(frozen=True, eq=False)
class ItemScores:
    """Margins and ranks of N items.

    Attributes:
        origin: what was scored, and by what.
        ids: names of the items.
        margin: float64 [N].
        ranks: see `Ranks`.
        item_hashes: 64 hex digits each.
        tiers: tier of each item, or None.
    """

    origin: Origin
    ids: tuple[str, ...]
    margin: NDArray[np.float64]
    ranks: Ranks
    item_hashes: tuple[str, ...]
    tiers: tuple[str, ...] | None

    @classmethod
    def of(cls, file: BundleFile, similarities: Similarities, encoder: str) -> Self:
        """Score the bundles of a file.

        Args:
            file: the bundles.
            similarities: theirs, with their ids; some may have been skipped.
            encoder: what made the similarities.
        """
        place = {name: number for number, name in enumerate(file.ids)}
        kept = [place[name] for name in similarities.names()]
        tiers = file.tiers
        origin = Origin(
            encoder=encoder,
            bundles=str(file.path),
            source_hash=file.source_hash,
            content_hash=file.content_hash,
            n_skipped=similarities.n_skipped,
        )
        return cls(
            origin=origin,
            ids=similarities.names(),
            margin=margins(similarities),
            ranks=ranks(similarities),
            item_hashes=tuple(file.bundles[number].item_hash for number in kept),
            tiers=None if tiers is None else tuple(tiers[number] for number in kept),
        )

    @property
    def n(self) -> int:
        """How many items there are."""
        return len(self.ids)

    @property
    def danger(self) -> NDArray[np.float64]:
        """Minus the margin, float64 [N]."""
        return 0.0 - self.margin  # never -0.0

    def places_of(self, other: Self) -> NDArray[np.int64]:
        """Where each item of `other` is in this table, int64 [N of other].

        Raises:
            InputError: the two do not hold the same items; some that differ are named.
        """
        place = {name: number for number, name in enumerate(self.ids)}
        absent = [name for name in other.ids if name not in place]
        absent += sorted(place.keys() - set(other.ids))
        if absent:
            raise InputError(f"{listed(absent)}: scored in one of the two files only")
        return np.array([place[name] for name in other.ids], dtype=np.int64)

    def write(self, path: str | Path) -> Path:
        """Write as Parquet, atomically."""
        if Path(path).suffix != ".parquet":
            raise InputError(f"{path}: scores are written as .parquet; give such a name")
        columns: dict[str, Any] = {
            "id": list(self.ids),
            "margin": self.margin,
            "rank": self.ranks.strict,
            "rank_realistic": self.ranks.realistic,
            "rank_pessimistic": self.ranks.pessimistic,
            "n_negatives": self.ranks.n_negatives,
            "item_hash": list(self.item_hashes),
        }
        fields = dict(_TYPES)
        if self.tiers is not None:
            columns["tier"], fields["tier"] = list(self.tiers), pa.string()
        schema = pa.schema(fields).with_metadata(
            {_KEY: json.dumps(self.origin.model_dump(), ensure_ascii=False).encode()}
        )
        with atomic_path(path) as temporary:
            pq.write_table(pa.table(columns, schema=schema), temporary)
        return Path(path)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read what `write` left.

        Raises:
            InputError: no such file, no such table, or an id that occurs twice.
        """
        check_file(path)
        try:
            table = pq.read_table(path)
        except (pa.ArrowException, OSError):
            raise InputError(f"{path}: is no Parquet file; gmb crucible score writes one") from None
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
        return cls(
            origin=Origin.parse(origin, where=str(path)),
            ids=_once(table["id"].to_pylist(), path),
            margin=table["margin"].to_numpy(),
            ranks=Ranks(
                strict=table["rank"].to_numpy(),
                realistic=table["rank_realistic"].to_numpy(),
                pessimistic=table["rank_pessimistic"].to_numpy(),
                n_negatives=table["n_negatives"].to_numpy(),
            ),
            item_hashes=tuple(table["item_hash"].to_pylist()),
            tiers=_tiers(table, path),
        )


def _once(ids: Sequence[str], path: str | Path) -> tuple[str, ...]:
    twice = repeated(ids)
    if twice is not None:
        raise InputError(f"{path}: id {twice!r} occurs more than once")
    return tuple(ids)


def _tiers(table: pa.Table, path: str | Path) -> tuple[str, ...] | None:
    if "tier" not in table.column_names:
        return None
    tiers = table["tier"].to_pylist()
    check_names(sorted({str(name) for name in tiers}), where=str(path))
    return tuple(tiers)
