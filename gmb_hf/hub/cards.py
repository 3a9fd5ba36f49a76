"""Cards: the README of what is published, and whether the data beside it are what it says.

A card is a YAML header and Markdown, from a template in cards/. `gmb_fingerprint:` in its header
names the data of a dataset, config by config, or of a model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pydantic import Field

from gmb_hf._version import __version__
from gmb_hf.base import escape, fingerprints
from gmb_hf.base.documents import Section, front_matter
from gmb_hf.base.errors import InputError, choose, first_of
from gmb_hf.base.files import STREAMED, check_file, lies_inside, read_text, shipped
from gmb_hf.base.fingerprints import HASH_LENGTH, SHOWN, ContentHash, fingerprint
from gmb_hf.runs.runlog import RunItems

if TYPE_CHECKING:
    from jinja2 import Template

CARD = "README.md"
KEY = "gmb_fingerprint"
HERE = "path/to/this/folder"
"""How a card's example calls the folder that it lies in; once pushed, it is the repository."""
Item = Literal["row", "run", "tensor"]
VERSION = r"^v[1-9][0-9]{0,8}$"
SHARD = "{split}-{number:05d}-of-{total:05d}.parquet"
_SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.parquet")
_HASH = rf"^[0-9a-f]{{{HASH_LENGTH}}}$"
_BATCH = 4096  # rows that are held at a time
_BUFFER = 2**16  # bytes of each column that are read ahead
_AGAIN = "fetch or build it again"
_EDITED = "the card was edited by hand; build the data again"


def folder() -> Path:
    """Where the templates lie: inside an installed package, or beside it in a checkout."""
    return shipped("card_templates", "cards", holding="dataset.md.j2")


@cache  # it takes longer to compile than to fill in
def _template(kind: str) -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown; what others named goes through the filter
    )
    environment.filters["plain"] = escape.markdown
    return environment.get_template(f"{kind}.md.j2")


def render_card(kind: str, header: Mapping[str, Any], **values: Any) -> str:
    """The text of a README.md by the template of its kind: `dataset` for `dataset.md.j2`.

    The header is the YAML that the Hub reads, in the order in which it shall stand; a value that
    the template lacks is a `jinja2.UndefinedError`.

    Raises:
        InputError: the templates are missing from this installation.
    """
    return _template(kind).render(
        header=yaml.safe_dump(dict(header), sort_keys=False),
        version=__version__,
        here=HERE,
        **values,
    )


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
    def of(cls, items: ContentHash, *, seed: int | None = None, **fields: Any) -> Self:
        """The entry for these items; `fields` are those above that they do not say."""
        found = items.hexdigest()
        short = fingerprint(found, seed, items.count)
        return cls(
            content_hash=found, item_count=items.count, seed=seed, fingerprint=short, **fields
        )

    def entry(self) -> dict[str, Any]:
        """As it stands in the card; a seed that is not there is null."""
        return self.model_dump(exclude={"source_hash"} if self.source_hash is None else set())

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


@dataclass(frozen=True)
class Card:
    """The card of a folder: its path, the YAML at its head, and what messages call it."""

    path: Path
    header: dict[str, Any]
    where: str

    @classmethod
    def read(cls, folder: Path, *, where: str | None = None) -> Self:
        """The card that lies in a folder.

        Raises:
            InputError: there is no card, it is not UTF-8, or has no YAML between `---` at its head.
        """
        card = folder / CARD
        if not card.exists():
            raise InputError(f"{card}: there is no card; is this folder a dataset?")
        return cls(card, front_matter(read_text(card), where=str(card)), where or str(card))

    @cached_property
    def entries(self) -> dict[str, CardFingerprint]:
        """What it says of each config of a dataset, or of the data and the weights of a model."""
        entries = self.header.get(KEY)
        if not isinstance(entries, dict) or not entries:
            hint = "only what `gmb data build` wrote can be verified"
            raise InputError(f"{self.where}: has no {KEY}; {hint}")
        place, parse = f"{self.where}: {KEY}", CardFingerprint.parse
        return {str(name): parse(one, where=f"{place}.{name}") for name, one in entries.items()}

    def patterns(self, config: str) -> dict[str, list[str]]:
        """Where the files of a config lie, by `configs:`: split -> patterns of paths."""
        try:
            configs = {str(one["config_name"]): one["data_files"] for one in self.header["configs"]}
            paths = {str(one["split"]): one["path"] for one in configs.get(config, ())}
            found = {
                split: [path] if isinstance(path, str) else [*map(str, path)]
                for split, path in paths.items()
            }
            every = [pattern for patterns in found.values() for pattern in patterns]
            if not all(every) or any("\0" in pattern for pattern in every):
                raise ValueError
        except (KeyError, TypeError, ValueError):
            raise InputError(
                f"{self.where}: `configs:` is not a list of config_name and data_files with split "
                "and path; write the card anew with `gmb data build`"
            ) from None
        choose("config", config, list(configs), where=self.where)
        self._refuse_outside(config, every)
        return found

    def shards(self, config: str) -> dict[str, list[Path]]:
        """The Parquet files of a config: split -> files in order; an `InputError` as above."""
        folder = self.path.parent
        known = self.patterns(config).items()
        try:
            found = {
                split: [path for one in patterns for path in sorted(folder.glob(one))]
                for split, patterns in known
            }
        except ValueError as error:
            what = f"config {config!r}: a path of `configs:` is no pattern of files: {error}"
            raise InputError(f"{self.where}: {what}") from None
        every = (path for paths in found.values() for path in paths)
        self._refuse_outside(config, (path.relative_to(folder).as_posix() for path in every))
        return found

    def _refuse_outside(self, config: str, paths: Iterable[str]) -> None:
        """Refuse paths of a config that are empty or lie outside the dataset."""
        for path in paths:
            if not path.strip("./") or not lies_inside(self.path.parent, path):
                raise InputError(
                    f"{self.where}: config {config!r} names {path!r}, which is no file inside the "
                    "dataset; nothing is read there"
                )

    def content(self, config: str) -> Content:
        """What those files hold."""
        return read_content(self.shards(config), self.entries[config].item)


@dataclass(frozen=True)
class Content:
    """What the files of one config hold: its items by their hashes, and the schema of all splits.

    `rows` and `nbytes` are those of each split, in memory; `stored` the bytes of all files.
    """

    items: ContentHash
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
        InputError: a file is missing, is no Parquet or a damaged one, or has other columns.
    """
    rows, nbytes = dict.fromkeys(files, 0), dict.fromkeys(files, 0)
    items, runs = ContentHash(), RunItems()
    schema: pa.Schema | None = None
    every = [(split, shard) for split, shards in files.items() for shard in shards]
    for split, shard in every:
        for batch in _batches(shard):
            if schema is not None and not schema.equals(batch.schema):
                raise InputError(f"{shard}: has other columns than the files before it")
            schema = batch.schema
            rows[split] += batch.num_rows
            nbytes[split] += batch.nbytes
            if item == "run":
                runs.add(batch, where=str(shard))
                continue
            for row in batch.to_pylist():
                items.add({"split": split, "row": row}, where=str(shard))
    for digest in runs.finish() if item == "run" else ():
        items.add_hash(digest)
    if schema is None:
        raise InputError(f"{every[0][1]}: has no rows, nor has a file beside it; {_AGAIN}")
    return Content(items, rows, nbytes, sum(shard.stat().st_size for _, shard in every), schema)


def bytes_hash(files: Mapping[str, Sequence[Path]]) -> str:
    """SHA-256 over the names and the SHA-256 of a config's files, 64 hex digits."""
    total = hashlib.sha256()
    for shards in files.values():
        for shard in shards:
            total.update(f"{shard.name} {fingerprints.source_hash(shard)}\n".encode())
    return total.hexdigest()


def _batches(shard: Path) -> Iterator[pa.RecordBatch]:
    check_file(shard, most=STREAMED)
    try:
        # By default pyarrow keeps a whole file's bytes while it is read.
        with pq.ParquetFile(
            shard, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
        ) as file:
            yield from file.iter_batches(batch_size=_BATCH, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{shard}: damaged, or not a Parquet file: {reason}; {_AGAIN}") from None


@dataclass(frozen=True)
class VerifiedConfig:
    """One config of a dataset, what the card says of it, and its faults, one line each.

    There are none where the config is what the card says; `facts` need no action.
    """

    name: str
    entry: CardFingerprint
    faults: tuple[str, ...]
    facts: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """A dataset compared with its card: the configs that have a fingerprint there.

    `without` names those that have none, e.g. because somebody pushed them beside these.
    """

    configs: tuple[VerifiedConfig, ...]
    without: tuple[str, ...] = ()

    @property
    def faults(self) -> list[str]:
        """Of all configs, one line each."""
        return [fault for config in self.configs for fault in config.faults]


def verify(
    folder: str | Path,
    config: str | None = None,
    *,
    on_done: Callable[[str], None] = lambda _: None,
) -> Report:
    """Hash every item of a dataset anew and compare with its card.

    Args:
        folder: as `datasets.build` wrote it, or as it was fetched from the Hub.
        config: only this one.
        on_done: called with each config's name when it has been read.

    Raises:
        InputError: there is no such folder or config, or no card with fingerprints.
    """
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: there is no such folder; name one that holds {CARD}")
    card = Card.read(Path(folder))
    names = list(card.entries)
    listed = card.header.get("configs")
    known = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    without = [name for one in known if (name := str(one.get("config_name"))) not in names]
    if config is not None:
        names, without = [choose("config", config, names, where=card.where)], []
    verified = []
    for name in names:
        faults, facts = _compared(card, name)
        verified.append(VerifiedConfig(name, card.entries[name], tuple(faults), tuple(facts)))
        on_done(name)
    return Report(tuple(verified), tuple(without))


def _compared(card: Card, name: str) -> tuple[list[str], list[str]]:
    """Faults and facts of one config."""
    entry, place = card.entries[name], card.path.parent / name
    faults = []
    if not entry.consistent:
        faults.append(
            f"{card.path}: {KEY}.{name}.fingerprint is {entry.fingerprint}, which is not what "
            f"content_hash, seed and item_count beside it give; {_EDITED}"
        )
    try:
        shards = card.shards(name)
        empty = [split for split, paths in shards.items() if not paths]
        lost = [f"{place}: no file of split {split!r} is here; {_AGAIN}" for split in empty]
        missing = (path for paths in shards.values() for path in _missing_shards(paths))
        lost += [f"{place / path}: missing; {_AGAIN}" for path in missing]
        if lost:
            return [*faults, *lost], []
        content = read_content(shards, entry.item)
        same_bytes = entry.source_hash in (None, bytes_hash(shards))
    except InputError as error:
        return [*faults, str(error)], []
    faults += _other_items(card, name, content, same_bytes and entry.source_hash is not None)
    faults += _other_counts(card, name, content)
    if faults or same_bytes:
        return faults, []
    anew = [
        split
        for split, paths in shards.items()
        if any(b"huggingface" in (pq.read_schema(path).metadata or {}) for path in paths)
    ]
    if anew:
        which = "its files were" if len(anew) == len(shards) else f"{first_of(anew)} was"
        return [], [f"{name}: {which} written anew by `datasets`; the items are the same"]
    built = f"not those that were built, though every {entry.item} is"
    return [f"{place}: the bytes of its files are {built}; {_AGAIN}"], []


def _missing_shards(shards: Sequence[Path]) -> list[str]:
    """The names of the shards that should stand beside these, by what their names promise."""
    named = [match for path in shards if (match := _SHARD.fullmatch(path.name))]
    if not named:
        return []
    total, split = max((int(match["total"]), match["split"]) for match in named)
    wanted = {SHARD.format(split=split, number=number, total=total) for number in range(total)}
    return sorted(wanted - {path.name for path in shards})


def _other_items(card: Card, name: str, content: Content, files_as_built: bool) -> list[str]:
    entry, found, count = card.entries[name], content.items.hexdigest(), content.items.count
    place = card.path.parent / name
    counts = f"{count:,} {entry.item}s, the card says {entry.item_count:,}"
    if found == entry.content_hash:
        fault = f"{card.path}: {name} has {counts}; {_EDITED}"
        return [fault] if count != entry.item_count else []
    if files_as_built:
        said = (
            f"is {found}, the card says {entry.content_hash}, and the files are as they were built"
        )
        return [f"{card.path}: the content hash of {name} {said}; {_EDITED}"]
    if count != entry.item_count:
        return [f"{place}: holds {counts}; {_AGAIN}"]
    other = f"content hash {found}, not {entry.content_hash}"
    return [f"{place}: other data than the card says, {other}; {_AGAIN}"]


def _other_counts(card: Card, name: str, content: Content) -> list[str]:
    """Splits whose number of rows is not what `load_dataset` will expect."""
    infos = card.header.get("dataset_info") or []
    for info in [infos] if isinstance(infos, dict) else infos:
        if info.get("config_name", name) == name:
            splits = info.get("splits") or []
            said = {split.get("name"): split.get("num_examples") for split in splits}
            return [
                f"{card.path}: split {split!r} of {name} has {rows:,} rows, dataset_info says "
                f"{said[split]}; {_EDITED}"
                for split, rows in content.rows.items()
                if split in said and said[split] != rows
            ]
    return []


def refuse_unfrozen(
    frozen: Card, entries: Mapping[str, CardFingerprint], content: Callable[[str], Content]
) -> None:
    """Refuse a dataset that changes or drops what the card of an earlier version has frozen.

    `entries` are what the new card will say of each config, whose items `content` reads.

    Raises:
        InputError: a config or an item of it is gone, or the version is not a later one.
    """
    folder = frozen.path.parent
    for name, old in frozen.entries.items():
        new = entries.get(name)
        if new is None:
            raise InputError(
                f"{folder}: holds config {name!r} ({old.version}), which is left out now; keep it, "
                "or choose another place"
            )
        same = new.content_hash == old.content_hash
        if new.number < old.number or (new.number == old.number and not same):
            other = "" if same else f" with other items ({old.shown} there, {new.shown} now)"
            raise InputError(
                f"{folder}: config {name!r} is frozen as {old.version}{other}; give --version "
                f"v{old.number + (not same)} and keep every {old.item} of it, or choose another "
                "place"
            )
        if same:
            continue
        kept = frozen.content(name).items.item_hashes()
        lost = fingerprints.missing_items(kept, content(name).items.item_hashes())
        if lost:
            raise InputError(
                f"{folder}: config {name!r}: {lost:,} of the {old.item_count:,} {old.item}s of "
                f"{old.version} are gone or changed in {new.version}; a frozen set may only grow, "
                "so keep them, or choose another place"
            )


def refuse_shrunk(folder: Path, previous: Path) -> None:
    """Refuse a dataset that is no later version of an earlier one, by both cards, and all of it."""
    card = Card.read(folder)
    refuse_unfrozen(Card.read(previous), card.entries, card.content)
