"""Cards: the README of what is published, a YAML header and Markdown, from a template in cards/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field

from gmb_hf._version import __version__
from gmb_hf.documents import Section, parse_yaml
from gmb_hf.errors import InputError
from gmb_hf.files import shipped
from gmb_hf.fingerprints import HASH_LENGTH, SHOWN, fingerprint

HERE = "path/to/this/folder"
"""How a card's example calls the folder that it lies in; once pushed, it is the repository."""


def folder() -> Path:
    """Where the templates lie: inside an installed package, or beside it in a checkout.

    Raises:
        InputError: neither place has them.
    """
    return shipped("card_templates", "cards", holding="dataset.md.j2")


def render_card(kind: str, header: Mapping[str, Any], **values: Any) -> str:
    """The text of a README.md.

    Args:
        kind: of what, which names the template: `dataset` for `dataset.md.j2`.
        header: the YAML that the Hub reads, as plain data, in the order in which it shall stand.
        values: what the template shows; one that it asks for and is not here is an error.

    Raises:
        InputError: the templates are missing from this installation.
        jinja2.TemplateNotFound: there is no such template.
        jinja2.UndefinedError: a value is missing.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown, of values that this package made
    )
    return environment.get_template(f"{kind}.md.j2").render(
        header=yaml.safe_dump(dict(header), sort_keys=False),
        version=__version__,
        here=HERE,
        **values,
    )


# `gmb_fingerprint:` at the top level of a card: by what data the card knows itself.


CARD = "README.md"
KEY = "gmb_fingerprint"
Item = Literal["row", "run", "tensor"]
VERSION = r"^v[1-9][0-9]*$"
_HASH = rf"^[0-9a-f]{{{HASH_LENGTH}}}$"
_FENCE = "---"


class CardFingerprint(Section):
    """What a card says of one set of items.

    Attributes:
        content_hash: SHA-256 over the sorted SHA-256 of the items, 64 hex digits.
        item_count: how many items there are.
        seed: by which they were drawn, None where nothing was.
        fingerprint: `first 16 of content_hash|seed|item_count`.
        version: `v1`, `v2`, ...; a later one holds every item of an earlier one.
        item: what is counted: a row in canonical JSON, a run, or a tensor of a model.
        source_hash: over the bytes of the files as they were built, None where there are none.
    """

    content_hash: str = Field(pattern=_HASH)
    item_count: int = Field(ge=0)
    seed: int | None = None
    fingerprint: str
    version: str = Field(pattern=VERSION)
    item: Item = "row"
    source_hash: str | None = Field(default=None, pattern=_HASH)

    @classmethod
    def of(
        cls,
        content_hash: str,
        item_count: int,
        *,
        version: str,
        seed: int | None = None,
        item: Item = "row",
        source_hash: str | None = None,
    ) -> Self:
        """The entry for these items."""
        return cls(
            content_hash=content_hash,
            item_count=item_count,
            seed=seed,
            fingerprint=fingerprint(content_hash, seed, item_count),
            version=version,
            item=item,
            source_hash=source_hash,
        )

    def entry(self) -> dict[str, Any]:
        """As it stands in the card; a seed that is not there is null."""
        return {**self.model_dump(exclude={"source_hash"}), **self._source()}

    def _source(self) -> dict[str, str]:
        return {} if self.source_hash is None else {"source_hash": self.source_hash}

    @property
    def consistent(self) -> bool:
        """Whether `fingerprint` is that of the other keys."""
        return self.fingerprint == fingerprint(self.content_hash, self.seed, self.item_count)

    @property
    def number(self) -> int:
        """Of the version: 2 for `v2`."""
        return int(self.version[1:])

    @property
    def shown(self) -> str:
        """The beginning of the content hash."""
        return self.content_hash[:SHOWN]


def read_header(card: Path) -> dict[str, Any]:
    """The YAML at the head of a card.

    Raises:
        InputError: there is no card, it is not UTF-8, or has no YAML between `---` at its head.
    """
    try:
        text = card.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{card}: there is no card; is this folder a dataset?") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{card}: is not UTF-8 text (byte {error.start})") from None
    lines = text.splitlines()
    if not lines or lines[0] != _FENCE or _FENCE not in lines[1:]:
        raise InputError(f"{card}: has no YAML header between two lines of {_FENCE}")
    header = parse_yaml("\n".join(lines[1 : lines.index(_FENCE, 1)]), where=str(card))
    if not isinstance(header, dict):
        raise InputError(f"{card}: its header is no mapping of keys")
    return header


def read_fingerprints(header: Mapping[str, Any], *, where: str) -> dict[str, CardFingerprint]:
    """The entries of a card's header by name.

    Raises:
        InputError: there are none, or a key of one is missing, unknown or of another form.
    """
    entries = header.get(KEY)
    if not isinstance(entries, dict) or not entries:
        raise InputError(f"{where}: has no {KEY}; only what `gmb data build` wrote can be verified")
    return {
        str(name): CardFingerprint.parse(entry, where=f"{where}: {KEY}.{name}")
        for name, entry in entries.items()
    }
