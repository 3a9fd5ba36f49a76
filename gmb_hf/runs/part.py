"""Ordered rows with what is known of them: what a run log is made of, and made from.

A file becomes a part when its columns are typed and its rows are ordered; parts with distinct runs
are joined into one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gmb_hf.runs import metadata as meta
from gmb_hf.runs.columns import check_seeds, typed_columns
from gmb_hf.runs.order import OnDuplicate, order_rows
from gmb_hf.runs.pieces import join_pieces
from gmb_hf.runs.raw import RawTable, Wanted, find_step
from gmb_hf.validation import choose


@dataclasses.dataclass(frozen=True)
class Part:
    """Rows in order: runs by name, steps increasing.

    Attributes:
        table: columns `run` (string), `step` (int64), `seed` (int64, if known), then float64.
        runs: R run names in natural order.
        lengths: rows of each run, int64 [R].
        origin: where the rows came from, for messages.
        metadata: a JSON object about the runs.
        dropped: run -> rows dropped because a restart logged their step again.
        aside: column -> why it is no observable.
        notes: what to know of how the files were read.
    """

    table: pa.Table
    runs: tuple[str, ...]
    lengths: NDArray[np.int64]
    origin: str
    metadata: Mapping[str, Any]
    dropped: Mapping[str, int]
    aside: Mapping[str, str]
    notes: tuple[str, ...]

    def with_rows(self, table: pa.Table, *, note: str = "") -> Part:
        """The part with only some of its rows, in their order."""
        runs, lengths = _lengths(table)
        return dataclasses.replace(
            self,
            table=table,
            runs=runs,
            lengths=lengths,
            dropped={run: count for run, count in self.dropped.items() if run in runs},
            notes=(*self.notes, note) if note else self.notes,
        )


def order_raw(
    raw: RawTable, wanted: Wanted, *, run_name: str | None, on_duplicate: OnDuplicate
) -> Part:
    """Type the columns of a raw table, put pieces of rows together, and order the rows.

    Raises:
        InputError: a missing column, a wrong cell, steps out of order, or a run with two seeds.
    """
    choose("on_duplicate", on_duplicate, ("last", "keep", "sort"))
    table, aside = typed_columns(raw, wanted, run_name=run_name)
    if on_duplicate == "last":
        table = join_pieces(table)
    encoded = pc.dictionary_encode(table["run"].combine_chunks())
    codes = np.asarray(encoded.indices, dtype=np.int64)
    names = encoded.dictionary.to_pylist()
    check_seeds(table, codes, names, raw.where)
    steps = np.asarray(table["step"])
    order = order_rows(codes, names, steps, on_duplicate=on_duplicate, where=raw.where)
    held = raw.table.schema.metadata or {}
    step = find_step(raw.names, wanted.step, raw.where)
    guessed = () if step == wanted.step else (f"The steps are the column {step!r}.",)
    return Part(
        table if order.rows is None else table.take(pa.array(order.rows)),
        order.runs,
        order.lengths,
        raw.where,
        meta.from_json(held.get(meta.METADATA_KEY), raw.where),
        _sum([meta.from_json(held.get(meta.DROPPED_KEY), raw.where), order.dropped]),
        aside,
        (*raw.notes, *guessed),
    )


def join_parts(parts: Sequence[Part], origin: str) -> Part:
    """One part from several with distinct runs.

    What the metadata of all of them agree on is kept, what differs is listed under "differs". A
    column that some lack is empty in their runs; one that is set aside in some is set aside.
    """
    if len(parts) == 1:
        return parts[0]
    aside = {name: why for part in parts for name, why in part.aside.items()}
    table = pa.concat_tables([part.table for part in parts], promote_options="default")
    table = table.drop_columns([name for name in table.column_names if name in aside])
    names = [run for part in parts for run in part.runs]
    lengths = np.concatenate([part.lengths for part in parts])
    codes = np.repeat(np.arange(len(names)), lengths)
    # Each part has been through the rule of repeated steps already.
    steps = np.asarray(table["step"])
    order = order_rows(codes, names, steps, on_duplicate="sort", where=origin)
    return Part(
        table if order.rows is None else table.take(pa.array(order.rows)),
        order.runs,
        order.lengths,
        origin,
        meta.merge([dict(part.metadata) for part in parts]),
        _sum(part.dropped for part in parts),
        aside,
        tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _lengths(table: pa.Table) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The runs of ordered rows, and how many rows each has."""
    encoded = pc.dictionary_encode(table["run"].combine_chunks())
    codes = np.asarray(encoded.indices, dtype=np.int64)
    return tuple(encoded.dictionary.to_pylist()), np.bincount(codes).astype(np.int64)


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for run, count in part.items():
            total[run] = total.get(run, 0) + count
    return total
