"""What a config's Parquet files hold, read back in memory that does not grow with them."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from gmb_hf.documents import parse_yaml
from gmb_hf.errors import InputError, choose, repeated
from gmb_hf.files import clear_os_errors, write_text
from gmb_hf.fingerprints import ContentHash, missing_items, source_hash
from gmb_hf.hub.cards import (
    CARD,
    KEY,
    VERSION,
    CardFingerprint,
    Item,
    read_fingerprints,
    read_header,
    render_card,
)
from gmb_hf.runs.metadata import DIFFERS, DROPPED_KEY
from gmb_hf.runs.runlog import RunItems, RunLog
from gmb_hf.tasks.formal import FormalTask
from gmb_hf.tasks.modular import ModularTask
from gmb_hf.tasks.registry import get_task, task_names
from gmb_hf.tasks.task import Task
from gmb_hf.tasks.text import Piece, Text
from gmb_hf.training.config import RunConfig

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


# The card of a dataset: what `load_dataset` and the Hub read in it, and a table for people.


PUBLIC_DOMAIN = "public-domain"
"""The licence of a text that nobody owns; the Hub has no name for it."""

_OTHER = "other"


def card_text(
    configs: Sequence[Config],
    about: About,
    contents: Mapping[str, Content],
    entries: Mapping[str, CardFingerprint],
) -> str:
    """The README.md of a dataset."""
    licenses = [config.license for config in configs]
    known = list(dict.fromkeys(_OTHER if name == PUBLIC_DOMAIN else name for name in licenses))
    header = {
        "pretty_name": about.title,
        "license": known[0] if len(known) == 1 else known,
        **({"license_name": PUBLIC_DOMAIN} if _OTHER in known else {}),
        "tags": list(about.tags),
        "configs": [
            {
                "config_name": config.name,
                **({"default": True} if number == 0 else {}),
                "data_files": [
                    {"split": split, "path": f"{config.name}/{split}-*"} for split in config.splits
                ],
            }
            for number, config in enumerate(configs)
        ],
        "dataset_info": [_info(config.name, contents[config.name]) for config in configs],
        "gmb_license": {config.name: config.license for config in configs},
        KEY: {name: entry.entry() for name, entry in entries.items()},
    }
    first = configs[0]
    return render_card(
        "dataset",
        header,
        title=about.title,
        summary=about.summary,
        configs=[
            {
                "name": config.name,
                "splits": ", ".join(
                    f"{split} {rows:,}" for split, rows in contents[config.name].rows.items()
                ),
                "license": config.license,
                "hash": entries[config.name].shown,
                "summary": config.summary,
            }
            for config in configs
        ],
        example={"name": first.name, "split": list(first.splits)[-1]},
        data_version=entries[first.name].version,
        item=first.item,
    )


def patterns_of(header: Mapping[str, Any], config: str, *, where: str) -> dict[str, list[str]]:
    """Where a config's files lie, by the card's header: split -> patterns of paths.

    Raises:
        InputError: the card does not know the config, or its `configs:` are of another form.
    """
    try:
        known = {str(entry["config_name"]): entry["data_files"] for entry in header["configs"]}
        choose("config", config, list(known), where=where)
        return {str(files["split"]): _listed(files["path"]) for files in known[config]}
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{where}: `configs:` is not a list of config_name and data_files with split and "
            "path; write the card anew with `gmb data build`"
        ) from None


def shards_of(header: Mapping[str, Any], config: str, folder: Path) -> dict[str, list[Path]]:
    """The Parquet files of a config in a folder, by the card's header: split -> files in order.

    Raises:
        InputError: as `patterns_of`.
    """
    return {
        split: [path for pattern in patterns for path in sorted(folder.glob(pattern))]
        for split, patterns in patterns_of(header, config, where=str(folder / CARD)).items()
    }


def _listed(patterns: Any) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _info(name: str, content: Content) -> dict[str, Any]:
    """What `load_dataset` checks: columns and rows of each split."""
    from datasets import DatasetInfo, Features, SplitDict, SplitInfo
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCardData

    splits = SplitDict()
    for split, rows in content.rows.items():
        splits.add(SplitInfo(split, num_bytes=content.nbytes[split], num_examples=rows))
    # Without its sizes `datasets` cannot push a split of this config again.
    info = DatasetInfo(
        features=Features.from_arrow_schema(content.schema),
        splits=splits,
        download_size=content.stored,
        dataset_size=sum(content.nbytes.values()),
    )
    data = DatasetCardData()
    DatasetInfosDict({name: info}).to_dataset_card_data(data)
    found = parse_yaml(data.to_yaml(), where=name)["dataset_info"]
    return {"config_name": name, **found}


# What was built once is frozen: a later version of a set holds every item of the earlier one.


def refuse_unfrozen(
    folder: Path, entries: Mapping[str, CardFingerprint], contents: Mapping[str, Content]
) -> None:
    """Refuse what would change or drop what `folder` has frozen.

    Args:
        folder: a dataset, or an empty folder, where nothing is frozen.
        entries: config -> what the new card will say of it.
        contents: config -> its items; of those with another content hash than in `folder`.

    Raises:
        InputError: a config is left out, an item of the earlier version is gone, or the version
            is not a later one.
    """
    if not (folder / CARD).exists():
        return
    header = read_header(folder / CARD)
    for name, old in read_fingerprints(header, where=str(folder / CARD)).items():
        new = entries.get(name)
        if new is None:
            raise InputError(
                f"{folder}: holds config {name!r} ({old.version}), which is left out now; keep it, "
                "or choose another place"
            )
        same = new.content_hash == old.content_hash
        if new.number < old.number or (new.number == old.number and not same):
            other = "" if same else f" with other items ({old.shown} there, {new.shown} now)"
            at_least = old.number + (not same)
            raise InputError(
                f"{folder}: config {name!r} is frozen as {old.version}{other}; give --version "
                f"v{at_least} and keep every {old.item} of it, or choose another place"
            )
        lost = 0 if same else _lost(folder, name, header, old, contents[name])
        if lost:
            raise InputError(
                f"{folder}: config {name!r}: {lost:,} of the {old.item_count:,} {old.item}s of "
                f"{old.version} are gone or changed in {new.version}; a frozen set may only grow, "
                "so keep them, or choose another place"
            )


def refuse_shrunk(folder: Path, previous: Path) -> None:
    """Refuse a dataset that does not hold all of an earlier one, or is no later version of it.

    Raises:
        InputError: as `refuse_unfrozen`; one of them has no card with fingerprints.
    """
    header = read_header(folder / CARD)
    entries = read_fingerprints(header, where=str(folder / CARD))
    before = read_fingerprints(read_header(previous / CARD), where=str(previous / CARD))
    contents = {
        name: read_content(shards_of(header, name, folder), entries[name].item)
        for name, old in before.items()
        if name in entries and entries[name].content_hash != old.content_hash
    }
    refuse_unfrozen(previous, entries, contents)


def _lost(
    folder: Path, name: str, header: Mapping[str, object], old: CardFingerprint, new: Content
) -> int:
    held = read_content(shards_of(header, name, folder), old.item)
    return missing_items(held.items.item_hashes(), new.items.item_hashes())


# Datasets as folders that `load_dataset` takes, from here or from the Hub: Parquet and a card.


SHARD_BYTES = 2**28
"""A split is cut into shards of about so many bytes in memory."""

_NAME = re.compile(r"[\w][\w.-]*")


@dataclass(frozen=True)
class Config:
    """One config of a dataset: what `load_dataset(folder, name)` gives.

    Attributes:
        name: letters, digits, `_`, `-` and `.`; also its folder.
        splits: split -> what yields its tables, all of one schema, each small enough for memory.
        license: as the Hub names it, e.g. `apache-2.0`.
        summary: what a row is, a sentence for the card.
        seed: by which the items were drawn, None where nothing was.
        item: what the fingerprint counts, a row or a run.
    """

    name: str
    splits: Mapping[str, Callable[[], Iterable[pa.Table]]]
    license: str
    summary: str
    seed: int | None = None
    item: Item = "row"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(
                f"config {self.name!r}: a name has letters, digits, _, - and . only; name it anew"
            )


@dataclass(frozen=True)
class About:
    """What a card says of the whole dataset.

    Attributes:
        title: its heading.
        summary: a paragraph, Markdown.
        tags: by which the Hub finds it.
    """

    title: str
    summary: str
    tags: tuple[str, ...] = ("gmb", "grokking")


def build(configs: Sequence[Config], out: str | Path, about: About, *, version: str = "v1") -> Path:
    """Write a dataset, atomically file by file, the card last; the same configs, the same bytes.

    A set that was built is frozen: in the same folder the same version may only be built with the
    same items, and a later version only with all of them and more.

    Args:
        configs: at least one; the first is the default.
        out: the folder.
        about: for the card.
        version: `v1`, `v2`, ...

    Returns:
        The card.

    Raises:
        InputError: two configs of one name, a split without rows, a version that is not frozen
            as above, or a folder that cannot be written to.
    """
    folder = Path(out)
    if not re.match(VERSION, version):
        raise InputError(f"--version {version!r}: write v1, v2 and so on")
    twice = repeated(config.name for config in configs)
    if twice is not None or not configs:
        raise InputError(f"config {twice!r} is named twice" if configs else "no configs to build")
    with clear_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(prefix=".building-", dir=folder))
    try:
        shards = {config.name: _write(config, workshop) for config in configs}
        contents = {
            config.name: read_content(shards[config.name], config.item) for config in configs
        }
        entries = {
            config.name: CardFingerprint.of(
                contents[config.name].items.hexdigest(),
                contents[config.name].item_count,
                seed=config.seed,
                version=version,
                item=config.item,
                source_hash=bytes_hash(shards[config.name]),
            )
            for config in configs
        }
        refuse_unfrozen(folder, entries, contents)
        text = card_text(configs, about, contents, entries)
        for config in configs:
            _move(shards[config.name], folder / config.name)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return write_text(folder / CARD, text)


def _write(config: Config, folder: Path) -> dict[str, list[Path]]:
    """Each split's shards, in order."""
    found = {
        split: _write_split(tables(), folder / config.name, split)
        for split, tables in config.splits.items()
    }
    for split, shards in found.items():
        if not shards:
            raise InputError(f"config {config.name!r}: split {split!r} has no rows")
    return found


def _write_split(tables: Iterable[pa.Table], folder: Path, split: str) -> list[Path]:
    folder.mkdir(exist_ok=True)
    parts: list[Path] = []
    for pieces in _sharded(tables):
        parts.append(folder / f"{split}-{len(parts)}")
        with (
            clear_os_errors(folder.parent),
            pq.ParquetWriter(
                parts[-1], pieces[0].schema, compression="zstd", write_page_checksum=True
            ) as writer,
        ):
            for piece in pieces:
                writer.write_table(piece)
    names = [
        SHARD.format(split=split, number=number, total=len(parts)) for number in range(len(parts))
    ]
    return [part.rename(folder / name) for part, name in zip(parts, names, strict=True)]


def _sharded(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        if not table.num_rows:
            continue
        if held and size + table.nbytes > SHARD_BYTES:
            yield held
            held, size = [], 0
        held.append(table)
        size += table.nbytes
    if held:
        yield held


def _move(shards: Mapping[str, Sequence[Path]], folder: Path) -> None:
    """Put new shards in place, and take away those that an earlier build left there."""
    with clear_os_errors(folder):
        folder.mkdir(exist_ok=True)
        kept = {path.name for paths in shards.values() for path in paths}
        for path in (path for paths in shards.values() for path in paths):
            path.replace(folder / path.name)
        for path in folder.glob("*.parquet"):
            if path.name not in kept:
                path.unlink()


# Under which licence each config of a dataset stands.


@dataclass(frozen=True)
class Licenses:
    """What `--license` said.

    Attributes:
        named: config -> its licence.
        others: of the configs that are not named and have none of their own.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    others: str | None = None

    @classmethod
    def parse(cls, words: Sequence[str], names: Iterable[str]) -> Self:
        """Read `NAME=LICENCE` and `LICENCE`.

        Args:
            words: as typed.
            names: of the configs.

        Raises:
            InputError: a name of no config, a config named twice, or two licences for the others.
        """
        known = list(names)
        pairs = [word.rpartition("=")[::2] for word in words]
        twice = repeated(name for name, _ in pairs)
        if twice is not None or not all(license for _, license in pairs):
            raise InputError(
                "--license: write LICENCE, or NAME=LICENCE for one config, each name once"
            )
        for name, _ in pairs:
            if name:
                choose("config", name, known, where="--license")
        named = dict(pairs)
        others = named.pop("", None)
        return cls(named, others)

    def of(self, name: str, *, own: str | None = None, usual: str | None = None) -> str:
        """The licence of a config.

        Args:
            name: of the config.
            own: what its source is known to stand under; only its name overrides that.
            usual: where nothing was said.

        Raises:
            InputError: nobody has said.
        """
        found = self.named.get(name) or own or self.others or usual
        if found is None:
            raise InputError(
                f"config {name!r}: under which licence? Say so: --license {name}=cc-by-4.0"
            )
        return found


# Tasks as datasets: one config each, split as the protocol splits them, and unsplit.


LICENSE = "apache-2.0"
MODULAR = About(
    "Modular arithmetic",
    "Every pair of residues once: `BOS a OP b EQ c EOS EOS`. `labels` are -100 off the answer.\n"
    "`full` is every row, from which a run draws its own split.",
    ("gmb", "grokking", "modular-arithmetic"),
)
FORMAL = About(
    "Formal languages over bits",
    "Every input of a length once: parity, copy, reverse, majority, padded with EOS. `labels`\n"
    "are -100 off the answer. `full` is every row, from which a run draws its own split.",
    ("gmb", "grokking", "formal-languages"),
)


def modular_configs(
    tasks: Sequence[str] = (),
    *,
    data_seed: int = 42,
    fraction: float = 0.5,
    op_token: str = "distinct",
) -> list[Config]:
    """A config for each modular task; none named, those of every operation modulo 97.

    Args:
        tasks: names such as `add_p97`.
        data_seed, fraction: of the splits `train` and `test`.
        op_token: "distinct": each operation has its own token; "shared": all have one.

    Raises:
        InputError: an unknown task, one that is no modular task, or a bad split.
    """
    names = tasks or _names_of(ModularTask)
    chosen = [_of_kind(get_task(name), ModularTask) for name in names]
    return [_config(get_task(task.name, op_token=op_token), data_seed, fraction) for task in chosen]


def formal_configs(
    tasks: Sequence[str] = (), *, data_seed: int = 42, fraction: float = 0.5
) -> list[Config]:
    """A config for each formal task; none named, those of the protocol, `parity_8` and so on.

    Raises:
        InputError: an unknown task, one that is no formal task, or a bad split.
    """
    names = tasks or _names_of(FormalTask)
    chosen = [_of_kind(get_task(name), FormalTask) for name in names]
    return [_config(task, data_seed, fraction) for task in chosen]


def unsplit_config(task: Task) -> Config:
    """A task whose runs draw their own splits: `full` alone."""
    return Config(task.name, {"full": lambda: [task.full_table()]}, LICENSE, "every row, unsplit")


def _names_of(kind: type[Task]) -> list[str]:
    return [name for name in task_names() if isinstance(get_task(name), kind)]


def _of_kind(task: Task, kind: type[Task]) -> Task:
    if not isinstance(task, kind):
        other = "modular" if isinstance(task, ModularTask) else "formal"
        raise InputError(f"task {task.name!r} is built by `gmb data build {other}`")
    return task


def _config(task: Task, data_seed: int, fraction: float) -> Config:
    tables = {**task.split_tables(fraction, data_seed), "full": task.full_table()}
    return Config(
        task.name,
        {split: partial(list, [table]) for split, table in tables.items()},
        LICENSE,
        f"{task.vocab_size} token ids, {task.sequence_length} a row; {fraction:g} of the rows to "
        f"train on, drawn by seed {data_seed}",
        data_seed,
    )


# Held-out text as a dataset: documents in pieces, streamed, each set under its own licence.


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


# Run logs as a dataset, so that anybody may judge them again without training anything.


RUNS = About(
    "Run logs",
    "A row for each run and checkpoint, a column for each observable; every run stands in one\n"
    "file. `gmb evaluate --runs` on the folder of a config judges a score on them.",
    ("gmb", "grokking", "training-dynamics"),
)
_LOGS = "logs"  # where a run keeps them in its folder
_GROUP = 2**24  # bytes in memory that are written at a time


def runs_configs(given: Sequence[str], licenses: Sequence[str] = ()) -> list[Config]:
    """A config for each source of run logs.

    Args:
        given: `NAME=SOURCE`, or a source alone, which gives its own name; a file, folder or glob.
        licenses: `NAME=LICENCE`, or `LICENCE` for all others; what this package trained is
            Apache-2.0 where nothing is said.

    Raises:
        InputError: nothing given, no run log there, one that is wrong, or logs of somebody else's
            whose licence nobody has said.
    """
    if not given:
        raise InputError("--runs: no run logs are given; name a folder of logs, or NAME=FOLDER")
    sources = [_named(word) for word in given]
    said = Licenses.parse(licenses, [name for name, _ in sources])
    return [_config_of_log(name, source, said) for name, source in sources]


def _config_of_log(name: str, source: str, licenses: Licenses) -> Config:
    log = RunLog.read(source)
    columns = f", {len(log.observables)} observables" if log.observables else ""
    return Config(
        name,
        {"full": partial(_tables_of_log, log)},
        licenses.of(name, usual=LICENSE if _made_here(log) else None),
        f"{len(log.runs):,} runs{columns}",
        item="run",
    )


def _made_here(log: RunLog) -> bool:
    """Whether this package trained every part of a log, of whatever version of it."""
    versions, differs = log.metadata.get("versions"), log.metadata.get(DIFFERS)
    said = [versions.get("gmb_hf")] if isinstance(versions, dict) else []
    parts = differs.get("versions.gmb_hf") if isinstance(differs, dict) else None
    return all(parts) if isinstance(parts, list) else any(said)


def _named(word: str) -> tuple[str, str]:
    name, equals, source = word.partition("=")
    if equals and name and source:
        return name, source
    path = Path(word)
    own = path.resolve().parent if path.name == _LOGS else path
    return (own.name if path.is_dir() else own.stem), word


def _tables_of_log(log: RunLog) -> Iterator[pa.Table]:
    """The log in pieces of whole runs; what was dropped is noted once, since readers add it up."""
    table = log.stored_table()
    lengths = log.panel("step").lengths
    start = stop = 0
    for length in lengths.tolist():
        stop += length
        if stop == table.num_rows or table.slice(start, stop - start).nbytes >= _GROUP:
            yield table.slice(start, stop - start)
            start = stop
            kept = {
                key: value for key, value in table.schema.metadata.items() if key != DROPPED_KEY
            }
            table = table.replace_schema_metadata(kept)


# The data of a run as a folder that `datasets.load_dataset` takes: Parquet and a card.


def write_data(config: RunConfig, folder: Path) -> list[Path]:
    """Write every row of the task, unsplit, and a card with its fingerprint.

    The split is drawn by each run from its own seed, so it is no part of the data.

    Returns:
        The card and the Parquet file. The same config gives the same bytes.
    """
    task = config.task.build()
    share = config.task.share
    drawn_from = (
        f"seed {config.task.data_seed}" if config.task.data_seed is not None else "each run's seed"
    )
    if isinstance(task, ModularTask):
        rows = f"equations `BOS a OP b EQ c EOS EOS` of {task.operation} modulo {task.prime}"
    else:
        rows = f"rows of {task.name}, {task.sequence_length} tokens each"
    kind = {ModularTask: MODULAR, FormalTask: FORMAL}.get(type(task))
    about = About(
        task.name,
        f"All {len(task.rows())} {rows}.\n"
        f"Runs train on {share:g} of them, drawn from {drawn_from}.",
        kind.tags if kind else About.tags,
    )
    card = build([unsplit_config(task)], folder, about)
    return [card, *sorted((folder / task.name).glob("*.parquet"))]
