"""Held-out text as a dataset: documents in pieces, streamed, each set under its own licence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from gmb_hf.tasks.text import Piece
from gmb_hf.tasks.text_sources import Text
from gmb_hf.workflows.building import About, Config
from gmb_hf.workflows.building_card import PUBLIC_DOMAIN
from gmb_hf.workflows.building_licenses import Licenses

HELD_OUT = About(
    "Held-out text",
    "Documents in pieces: a long one goes on over several rows, `ends_document` says where it\n"
    "ends, and the pieces of a document put together are its text, unchanged.",
    ("gmb", "language-modeling", "perplexity"),
)
LICENSES = {
    "tinystories": "cdla-sharing-1.0",
    "shakespeare": PUBLIC_DOMAIN,
    "wikitext2": "cc-by-sa-3.0",
}
"""Those of the protocol's sets, which their copies carry on."""

_SCHEMA = pa.schema(
    [
        ("document", pa.int64()),
        ("piece", pa.int64()),
        ("text", pa.string()),
        ("ends_document", pa.bool_()),
    ]
)
_CHARACTERS = 2**22  # that are held at a time


def heldout_configs(texts: Sequence[Text], licenses: Sequence[str] = ()) -> list[Config]:
    """A config for each text, with the split `test`.

    Args:
        texts: as `read_sources` gives them.
        licenses: `NAME=LICENCE`, or `LICENCE` for the texts that are none of the protocol's sets.

    Raises:
        InputError: a text whose licence nobody has said, or a licence of no text.
    """
    said = Licenses.parse(licenses, [text.name for text in texts])
    return [
        Config(
            text.name,
            {"test": partial(_tables, text)},
            said.of(text.name, own=LICENSES.get(text.name)),
            "documents in pieces",
        )
        for text in texts
    ]


def _tables(text: Text) -> Iterator[pa.Table]:
    held: list[tuple[int, int, Piece]] = []
    document = piece = size = 0
    for part in text.pieces():
        held.append((document, piece, part))
        size += len(part.text)
        document, piece = (document + 1, 0) if part.ends_document else (document, piece + 1)
        if size >= _CHARACTERS:
            yield _table(held)
            held, size = [], 0
    if held:
        yield _table(held)


def _table(held: Sequence[tuple[int, int, Piece]]) -> pa.Table:
    columns = zip(
        *((document, piece, part.text, part.ends_document) for document, piece, part in held),
        strict=True,
    )
    return pa.table([pa.array(column) for column in columns], schema=_SCHEMA)
