"""What a config's Parquet files hold, read back in memory that does not grow with them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gmb_hf.fingerprints import ContentHash, source_hash
from gmb_hf.hub.card_fingerprints import Item
from gmb_hf.runs.fingerprint import RunItems
from gmb_hf.validation import InputError

SHARD = "{split}-{number:05d}-of-{total:05d}.parquet"
_SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.parquet")
_BATCH = 4096  # rows that are held at a time
_BUFFER = 2**16  # bytes of each column that are read ahead


@dataclass(frozen=True)
class Content:
    """The items of one config.

    Attributes:
        items: their hashes.
        item_count: how many there are.
        rows: split -> number of rows.
        nbytes: split -> bytes in memory.
        stored: bytes of all files.
        schema: of every split.
    """

    items: ContentHash
    item_count: int
    rows: dict[str, int]
    nbytes: dict[str, int]
    stored: int
    schema: pa.Schema


def read_content(files: Mapping[str, Sequence[Path]], item: Item) -> Content:
    """Hash every item of a config.

    Args:
        files: split -> its shards in order, at least one.
        item: "row": each row is an item, with the name of its split. "run": each run is one, as
            in `RunLog.fingerprint`; its rows stand together.

    Raises:
        InputError: a file is missing, is no Parquet or a damaged one, or has other columns than
            the first.
    """
    rows: dict[str, int] = {}
    nbytes: dict[str, int] = {}
    items = ContentHash()
    runs = RunItems()
    schema: pa.Schema | None = None
    count = 0
    for split, shards in files.items():
        rows[split] = nbytes[split] = 0
        for shard in shards:
            for batch in _batches(shard):
                schema = _same_columns(schema, batch.schema, shard)
                rows[split] += batch.num_rows
                nbytes[split] += batch.nbytes
                if item == "run":
                    runs.add(batch, where=str(shard))
                    continue
                for row in batch.to_pylist():
                    items.add({"split": split, "row": row}, where=str(shard))
                    count += 1
    if item == "run":
        for digest in runs.finish():
            items.add_hash(digest)
            count += 1
    if schema is None:
        first = next(shard for shards in files.values() for shard in shards)
        raise InputError(f"{first}: has no rows, nor has a file beside it; fetch or build it again")
    stored = sum(shard.stat().st_size for shards in files.values() for shard in shards)
    return Content(items, count, rows, nbytes, stored, schema)


def bytes_hash(files: Mapping[str, Sequence[Path]]) -> str:
    """SHA-256 over the names and the SHA-256 of a config's files, 64 hex digits."""
    total = hashlib.sha256()
    for shards in files.values():
        for shard in shards:
            total.update(f"{shard.name} {source_hash(shard)}\n".encode())
    return total.hexdigest()


def missing_shards(shards: Sequence[Path]) -> list[str]:
    """The names of the shards that should stand beside these, by what their names promise."""
    found = {match["number"]: match for path in shards if (match := _SHARD.fullmatch(path.name))}
    if not found:
        return []
    totals = {match["total"]: match["split"] for match in found.values()}
    total, split = max(totals.items())
    wanted = {
        SHARD.format(split=split, number=number, total=int(total)) for number in range(int(total))
    }
    return sorted(wanted - {path.name for path in shards})


def _batches(shard: Path) -> Iterator[pa.RecordBatch]:
    try:
        # By default pyarrow keeps a whole file's bytes while it is read.
        with pq.ParquetFile(
            shard, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
        ) as file:
            yield from file.iter_batches(batch_size=_BATCH, use_threads=False)
    except FileNotFoundError:
        raise InputError(f"{shard}: there is no such file") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{shard}: damaged, or not a Parquet file: {reason}; fetch or build it again"
        ) from None


def _same_columns(first: pa.Schema | None, schema: pa.Schema, shard: Path) -> pa.Schema:
    if first is not None and not first.equals(schema):
        raise InputError(f"{shard}: has other columns than the files before it")
    return schema if first is None else first
