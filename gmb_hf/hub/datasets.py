"""Datasets as folders that `load_dataset` takes, from here or from the Hub: Parquet and a card."""

from __future__ import annotations

import re
import reprlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gmb_hf.base.documents import load_yaml
from gmb_hf.base.errors import InputError, choose, repeated
from gmb_hf.base.files import claimed, clear_os_errors, write_text
from gmb_hf.base.repositories import Address, Pushed, has_repository, publish, pull
from gmb_hf.hub import cards
from gmb_hf.hub.cards import (
    CARD,
    HERE,
    KEY,
    Card,
    CardFingerprint,
    Content,
    refuse_unfrozen,
    verify,
)
from gmb_hf.runs.metadata import DIFFERS, DROPPED_KEY, hub_entry
from gmb_hf.runs.runlog import RunLog
from gmb_hf.tasks.formal import FormalTask
from gmb_hf.tasks.groups import GroupTask
from gmb_hf.tasks.incontext import REAL, InContextTask, LinearReal
from gmb_hf.tasks.modular import ModularTask
from gmb_hf.tasks.registry import get_task, task_names
from gmb_hf.tasks.task import Task, train_rows
from gmb_hf.tasks.text import Text
from gmb_hf.training.config import RunConfig, TaskSettings

SHARD_BYTES = 2**28
"""A split is cut into shards of about so many bytes in memory."""
PUBLIC_DOMAIN = "public-domain"
"""The licence of a text that nobody owns; the Hub has no name for it."""
_OTHER = "other"
_NAME = re.compile(r"[\w][\w.-]*")
_WORKSHOP = ".building-"


@dataclass(frozen=True)
class DatasetConfig:
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
    item: cards.Item = "row"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(
                f"config {self.name!r}: a name has letters, digits, _, - and . only; name it anew"
            )


@dataclass(frozen=True)
class About:
    """What a card says of the whole dataset: heading, a paragraph of Markdown, tags of the Hub."""

    title: str
    summary: str
    tags: Sequence[str] = ("gmb", "grokking")


_KNOWN = load_yaml(Path(__file__).with_name("datasets.yaml"))
ABOUTS = {kind: About(**said) for kind, said in _KNOWN["cards"].items()}
"""By what `gmb data build` calls the dataset."""
LICENSES: dict[str, str] = _KNOWN["licenses"]
"""Those of known texts, which their copies carry on."""


def build(
    configs: Sequence[DatasetConfig], out: str | Path, about: About, *, version: str = "v1"
) -> Path:
    """Write a dataset, atomically file by file, the card last; the same configs, the same bytes.

    A set that was built is frozen: in the same folder the same version may only be built with the
    same items, and a later version only with all of them and more.

    Args:
        configs: one at least; the first is the default.
        out: the folder.
        about: what the card says of all of them: title, summary, tags.
        version: `v1`, `v2`, ...

    Returns:
        The card.

    Raises:
        InputError: two configs of one name, a split without rows, a version that is not frozen
            as above, a folder that cannot be written to, or in which another process builds.
    """
    folder = Path(out)
    if not re.fullmatch(cards.VERSION, version):
        raise InputError(f"--version {reprlib.repr(version)}: write v1, v2 and so on")
    twice = repeated(config.name for config in configs)
    if twice is not None or not configs:
        raise InputError(f"config {twice!r} is named twice" if configs else "no configs to build")
    taken = "another process builds a dataset here; wait for it, or choose another folder"
    with claimed(folder / cards.CARD, taken):
        for stray in folder.glob(f"{_WORKSHOP}*"):  # of a process that was killed
            shutil.rmtree(stray, ignore_errors=True)
        return _built(configs, folder, about, version)


def _built(configs: Sequence[DatasetConfig], folder: Path, about: About, version: str) -> Path:
    """Build in a folder that no other process builds in."""
    with clear_os_errors(folder):
        workshop = Path(tempfile.mkdtemp(prefix=_WORKSHOP, dir=folder))
    try:
        shards = {config.name: _write(config, workshop) for config in configs}
        contents, entries = {}, {}
        for config in configs:
            files = shards[config.name]
            contents[config.name] = found = cards.read_content(files, config.item)
            known: dict[str, Any] = {"version": version, "item": config.item, "seed": config.seed}
            known["source_hash"] = cards.bytes_hash(files)
            entries[config.name] = CardFingerprint.of(found.items, **known)
        if (folder / cards.CARD).exists():
            cards.refuse_unfrozen(Card.read(folder), entries, contents.__getitem__)
        text = _card_text(configs, about, contents, entries)
        for config in configs:
            made = {path.name: path for paths in shards[config.name].values() for path in paths}
            with clear_os_errors(folder / config.name):
                (folder / config.name).mkdir(exist_ok=True)
                for name, path in made.items():
                    path.replace(folder / config.name / name)
                # An earlier version may have had more shards.
                for path in (folder / config.name).glob("*.parquet"):
                    if path.name not in made:
                        path.unlink()
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return write_text(folder / cards.CARD, text)


def _write(config: DatasetConfig, workshop: Path) -> dict[str, list[Path]]:
    """Each split's shards, in order."""
    folder = workshop / config.name
    folder.mkdir(exist_ok=True)
    found: dict[str, list[Path]] = {}
    for split, tables in config.splits.items():
        parts: list[Path] = []
        for pieces in _sharded(tables()):
            parts.append(folder / f"{split}-{len(parts)}")
            options = {"compression": "zstd", "write_page_checksum": True}
            with (
                clear_os_errors(workshop),
                pq.ParquetWriter(parts[-1], pieces[0].schema, **options) as writer,
            ):
                for piece in pieces:
                    writer.write_table(piece)
        if not parts:
            raise InputError(f"config {config.name!r}: split {split!r} has no rows")
        found[split] = [
            part.rename(folder / cards.SHARD.format(split=split, number=n, total=len(parts)))
            for n, part in enumerate(parts)
        ]
    return found


def _sharded(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    held: list[pa.Table] = []
    size = 0
    for table in (one for one in tables if one.num_rows):
        if held and size + table.nbytes > SHARD_BYTES:
            yield held
            held, size = [], 0
        held.append(table)
        size += table.nbytes
    if held:
        yield held


def _card_text(
    configs: Sequence[DatasetConfig],
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
        cards.KEY: {name: entry.entry() for name, entry in entries.items()},
    }
    return cards.render_card(
        "dataset", header, about=about, configs=configs, contents=contents, entries=entries
    )


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
    return {"config_name": name, **data["dataset_info"]}


def _said_licenses(words: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """What `--license` said: config -> its licence; "" -> that of the configs that are not named.

    Raises:
        InputError: a name of no config, or one given twice.
    """
    pairs = [word.rpartition("=")[::2] for word in words]
    if repeated(name for name, _ in pairs) is not None or not all(said for _, said in pairs):
        raise InputError("--license: write LICENCE, or NAME=LICENCE for one config, each name once")
    for name, _ in pairs:
        if name:
            choose("config", name, names, where="--license")
    return dict(pairs)


def _license(
    said: Mapping[str, str], name: str, *, own: str | None = None, usual: str | None = None
) -> str:
    """The licence of a config by what `--license` said; an `InputError` where nobody has said.

    `own` is what its source is known to stand under, which only its name overrides; `usual` holds
    where nothing was said.
    """
    found = said.get(name) or own or said.get("") or usual
    if found is None:
        hint = f"Say so: --license {name}=cc-by-4.0"
        raise InputError(f"config {name!r}: under which licence? {hint}")
    return found


LICENSE = "apache-2.0"
REAL_ROWS = 2048
_KINDS_OF_TASK: dict[type[Task], str] = {
    ModularTask: "modular",
    GroupTask: "groups",
    FormalTask: "formal",
    InContextTask: "icl",
}
"""What `gmb data build` calls them."""


def task_configs(
    kind: type[Task],
    names: Sequence[str] = (),
    *,
    data_seed: int = 42,
    fraction: float = 0.5,
    **options: Any,
) -> list[DatasetConfig]:
    """A config for each task of a kind; none named, those of the protocol (`add_p97`, `parity_8`).

    Args:
        kind: `ModularTask`, `GroupTask`, `FormalTask` or `InContextTask`.
        names: of the tasks.
        data_seed, fraction: of the splits `train` and `test`.
        options: of the tasks, such as `op_token` (see `get_task`).

    Raises:
        InputError: an unknown task, one of the other kind, or a bad split.
    """
    configs = []
    for name in names or task_names():
        task = get_task(name)
        if not isinstance(task, kind):
            if not names:
                continue
            other = next(name for of, name in _KINDS_OF_TASK.items() if isinstance(task, of))
            raise InputError(f"task {task.name!r} is built by `gmb data build {other}`")
        task = get_task(task.name, **options)
        tables = {**task.split_tables(fraction, data_seed), "full": task.full_table()}
        splits: Any = {split: partial(list, [table]) for split, table in tables.items()}
        summary = (
            f"{task.vocab_size} token ids, {task.sequence_length} a row; {fraction:g} of the rows "
            f"to train on, drawn by seed {data_seed}"
        )
        configs.append(DatasetConfig(task.name, splits, LICENSE, summary, data_seed))
    return configs


modular_configs = partial(task_configs, ModularTask)
group_configs = partial(task_configs, GroupTask)
formal_configs = partial(task_configs, FormalTask)


def in_context_configs(
    names: Sequence[str] = (), *, data_seed: int = 42, fraction: float = 0.5
) -> list[DatasetConfig]:
    """As `task_configs` of in-context tasks, `linear_real` among them."""
    tokens = [name for name in names if name != REAL]
    configs: list[DatasetConfig] = []
    if tokens or not names:
        given: Any = {"data_seed": data_seed, "fraction": fraction}
        configs = task_configs(InContextTask, tokens, **given)
    if REAL in names or not names:
        task, rows = LinearReal(), train_rows(REAL_ROWS, fraction)
        table = task.table(data_seed, REAL_ROWS)
        sides = {"train": table.slice(0, rows), "test": table.slice(rows), "full": table}
        splits: Any = {split: partial(list, [side]) for split, side in sides.items()}
        summary = (
            f"{task.examples} examples and a question of dimension {task.dimension}, drawn by "
            f"seed {data_seed}"
        )
        configs.append(DatasetConfig(task.name, splits, LICENSE, summary, data_seed))
    return configs


def write_data(config: RunConfig, folder: Path) -> list[Path]:
    """Write every row of the task, unsplit, and a card with its fingerprint; returns both paths.

    Each run draws the split from its own seed, so it is no part of the data. The same config
    gives the same bytes.
    """
    task, seed = config.task.build(), config.task.data_seed
    if isinstance(task, ModularTask):
        rows = f"equations `BOS a OP b EQ c EOS EOS` of {task.operation} modulo {task.prime}"
    else:
        rows = f"rows of {task.name}, {task.sequence_length} tokens each"
    kind = ABOUTS.get(_KINDS_OF_TASK.get(type(task), ""))
    source = "each run's seed" if seed is None else f"seed {seed}"
    drawn = f"Runs train on {config.task.share:g} of them, drawn from {source}."
    summary = f"All {len(task.rows())} {rows}.\n{drawn}"
    about = About(task.name, summary, kind.tags if kind else About.tags)
    full = DatasetConfig(
        task.name, {"full": lambda: [task.full_table()]}, LICENSE, "every row, unsplit"
    )
    card = build([full], folder, about)
    return [card, *sorted((folder / task.name).glob("*.parquet"))]


_KINDS = (pa.int64(), pa.int64(), pa.string(), pa.bool_())
_SCHEMA = pa.schema(list(zip(("document", "piece", "text", "ends_document"), _KINDS, strict=True)))
_CHARACTERS = 2**22  # that are held at a time


def heldout_configs(texts: Sequence[Text], licenses: Sequence[str] = ()) -> list[DatasetConfig]:
    """A config for each text, with the split `test`.

    Texts are as `read_sources` gives them; licences are `NAME=LICENCE`, or `LICENCE` for the texts
    whose licence is not known.

    Raises:
        InputError: a text whose licence nobody has said, or a licence of no text.
    """
    said, configs = _said_licenses(licenses, [text.name for text in texts]), []
    for text in texts:
        license = _license(said, text.name, own=LICENSES.get(text.name))
        splits = {"test": partial(_tables, text)}
        configs.append(DatasetConfig(text.name, splits, license, "documents in pieces"))
    return configs


def _tables(text: Text) -> Iterator[pa.Table]:
    held: list[dict[str, Any]] = []
    document = number = size = 0
    for piece in text.pieces():
        values = (document, number, piece.text, piece.ends_document)
        held.append(dict(zip(_SCHEMA.names, values, strict=True)))
        size += len(piece.text)
        document, number = (document + 1, 0) if piece.ends_document else (document, number + 1)
        if size >= _CHARACTERS:
            yield pa.Table.from_pylist(held, schema=_SCHEMA)
            held, size = [], 0
    if held:
        yield pa.Table.from_pylist(held, schema=_SCHEMA)


_LOGS = "logs"  # where a run keeps them in its folder
_GROUP = 2**24  # bytes in memory that are written at a time


def runs_configs(given: Sequence[str], licenses: Sequence[str] = ()) -> list[DatasetConfig]:
    """A config for each source of run logs.

    Args:
        given: `NAME=SOURCE`, or a source alone, which gives its own name; a file, folder or glob.
        licenses: `NAME=LICENCE`, or `LICENCE` for all others; what this package trained is
            Apache-2.0 where nothing is said.

    Raises:
        InputError: nothing given, no run log there, or one that is wrong or without a licence.
    """
    if not given:
        raise InputError("--runs: no run logs are given; name a folder of logs, or NAME=FOLDER")
    sources = [_named(word) for word in given]
    said = _said_licenses(licenses, [name for name, _ in sources])
    configs = []
    for name, source in sources:
        log = RunLog.read(source)
        columns = f", {len(log.observables)} observables" if log.observables else ""
        license = _license(said, name, usual=LICENSE if _made_here(log) else None)
        summary = f"{len(log.runs):,} runs{columns}"
        splits = {"full": partial(_tables_of_log, log)}
        configs.append(DatasetConfig(name, splits, license, summary, item="run"))
    return configs


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
            said = table.schema.metadata.items()
            table = table.replace_schema_metadata({k: v for k, v in said if k != DROPPED_KEY})


# Datasets of the Hub, verified against their card.

_SPLIT = "full"


@dataclass(frozen=True)
class PulledConfig:
    """A config of a dataset of the Hub, whose items are those that its card says (`entry`).

    The Parquet files of each split are in the cache; `source` has repository, commit, config and
    fingerprint, as logs and results record them.
    """

    name: str
    files: dict[str, list[Path]]
    entry: CardFingerprint
    source: dict[str, str]


def pull_dataset(address: Address) -> tuple[Card, list[str]]:
    """Fetch a dataset, or the one config that the address names, to the usual cache.

    Returns:
        The card, which messages call `ORG/NAME@COMMIT`, and the configs that were fetched.

    Raises:
        InputError: as `pull`; there is no card with fingerprints, or no such config.
    """
    folder = pull(address, [CARD])
    where = f"{address.repo_id}@{folder.name[:12]}"
    if not (folder / CARD).is_file():
        raise InputError(f"{where}: has no {CARD}; only what `gmb data push` pushed can be used")
    card = Card.read(folder, where=where)
    names = list(card.entries)
    if address.config is not None:
        names = [choose("config", address.config, names, where=where)]
    pull(replace(address, revision=folder.name), [CARD, *_patterns(card, names)])
    return card, names


def _patterns(card: Card, configs: Sequence[str]) -> list[str]:
    """Where the files of several configs lie in a dataset."""
    found = [patterns for name in configs for patterns in card.patterns(name).values()]
    return [pattern for patterns in found for pattern in patterns]


def dataset_folder(text: str) -> tuple[Path, str | None]:
    """The folder of a dataset, here or fetched from the Hub, and the one config that was named.

    Raises:
        InputError: it is no folder here, and nothing that `pull_dataset` can fetch.
    """
    here = Path(text)
    if here.exists():
        return here, None
    try:
        address = Address.parse(text)
    except InputError:
        return here, None
    try:
        return pull_dataset(address)[0].path.parent, address.config
    except InputError as error:
        raise InputError(f"{text}: is no folder here, and as a dataset: {error}") from error


def pull_configs(address: Address) -> list[PulledConfig]:
    """Fetch configs of a dataset and verify each.

    Raises:
        InputError: as `pull_dataset`, or what came is not what the card says; both fingerprints
            are named.
    """
    card, names = pull_dataset(address)
    folder = card.path.parent
    pulled = []
    for name in names:
        (found,) = verify(folder, name).configs
        if found.faults:
            raise InputError(found.faults[0].replace(str(folder), card.where))
        source = {"repo": address.repo_id, "revision": folder.name, "config": name}
        source["fingerprint"] = found.entry.fingerprint
        pulled.append(PulledConfig(name, card.shards(name), found.entry, source))
    return pulled


def pull_runs(source: str) -> list[PulledConfig]:
    """The configs of `hf://datasets/ORG/NAME@REV[/CONFIG]`, all of them run logs.

    Raises:
        InputError: as `pull_configs`, or a config that holds no run logs.
    """
    found = pull_configs(Address.parse(source, option="--runs"))
    for config in found:
        if config.entry.item != "run":
            raise InputError(
                f"--runs {source}: config {config.name!r} holds {config.entry.item}s, not "
                "run logs; `gmb data build runs` makes a dataset of those"
            )
    return found


def data_source(text: str, settings: TaskSettings) -> dict[str, Any]:
    """Fetch the rows of a task and hold them against those that are about to be trained on.

    A run draws its own split from the rows of `full`, by their places; they are the task's own, in
    its order, or the dataset is refused. The text is `ORG/NAME@REV`; the config is the one with the
    task's name, unless `/CONFIG` follows. Returns where the rows came from, as metadata of the logs
    that are trained on them.

    Raises:
        InputError: as `pull_configs`, or the rows are those of another task.
    """
    task = settings.build()
    address = Address.parse(text, option="--data")
    (config,) = pull_configs(replace(address, config=address.config or task.name))
    where = f"--data {address}: config {config.name!r}"
    if _SPLIT not in config.files:
        raise InputError(f"{where} has no split {_SPLIT!r}, from which runs draw their own")
    table = pa.concat_tables(
        pq.read_table(path, columns=["input_ids"]) for path in config.files[_SPLIT]
    )
    try:
        rows = np.array(table["input_ids"].to_pylist(), dtype=np.int64)
    except ValueError:
        raise InputError(f"{where} has rows of several lengths; it is another task") from None
    found, own = task.fingerprint_of(rows), task.fingerprint()
    if found != own:
        rule = "" if settings.name else f"build it with --op-token {settings.op_token}, or "
        raise InputError(
            f"{where} is another task than {settings.title}: its rows have the fingerprint "
            f"{found}, that task's {own}; {rule}change --set"
        )
    return hub_entry("data", [config.source])


def push_dataset(folder: str | Path, repo_id: str, *, private: bool = False) -> Pushed:
    """Publish a dataset that `gmb data build` wrote, if it is what its card says.

    What the repository holds already may only grow, as in a folder.

    Args:
        folder: of the dataset.
        repo_id: ORG/NAME; made where it is not there.
        private: whether a new repository is.

    Returns:
        The commit and its files, each read back by its hash.

    Raises:
        InputError: as `verify` and `publish`; the folder is not what its card says, or would
            change what is frozen in the repository.
    """
    place = Path(folder)
    faults = verify(place).faults
    if faults:
        more = f" (and {len(faults) - 1} more faults)" if len(faults) > 1 else ""
        raise InputError(f"{place}: is not pushed: {faults[0]}{more}")
    if has_repository(repo_id, "dataset"):
        _refuse_unfrozen(place, repo_id)
    card = Card.read(place)
    names = list(card.entries)
    text = card.path.read_text(encoding="utf-8").replace(HERE, repo_id)
    files: dict[str, Path | bytes] = {CARD: text.encode("utf-8")}
    for name in names:
        for paths in card.shards(name).values():
            files |= {path.relative_to(place).as_posix(): path for path in paths}
    return publish(
        files,
        repo_id,
        "dataset",
        message=", ".join(names[:4]) + " ..." * (len(names) > 4),
        # An earlier version may have had more shards.
        replaces=lambda path: path.endswith(".parquet") and path.split("/")[0] in names,
        private=private,
    )


def push_runs(
    source: str,
    repo_id: str,
    *,
    license: str | None = None,
    version: str = "v1",
    private: bool = False,
) -> Pushed:
    """Publish run logs as a dataset; a folder that is one already is pushed as it is.

    The source is run logs as `--runs` takes them, or `NAME=SOURCE`; `license` and `version` are as
    in `runs_configs` and `build`, `repo_id` and `private` as in `push_dataset`.

    Raises:
        InputError: as `runs_configs`, `build` and `push_dataset`.
    """
    place = Path(source)
    if (place / CARD).is_file() and KEY in Card.read(place).header:
        return push_dataset(source, repo_id, private=private)
    with tempfile.TemporaryDirectory() as workshop:
        configs = runs_configs([source], [license] if license else [])
        build(configs, workshop, ABOUTS["runs"], version=version)
        return push_dataset(workshop, repo_id, private=private)


def _refuse_unfrozen(folder: Path, repo_id: str) -> None:
    """Refuse a push that would change or drop what an earlier one has frozen."""
    there = pull(Address(repo_id), [CARD])
    if not (there / CARD).is_file():
        return
    own, frozen = Card.read(folder), Card.read(there, where=repo_id)
    if KEY not in frozen.header:
        raise InputError(
            f"{repo_id}: holds another dataset, whose card has no {KEY}; choose another repository"
        )
    changed = [
        name
        for name, old in frozen.entries.items()
        if name in own.entries and own.entries[name].content_hash != old.content_hash
    ]
    if changed:
        pull(Address(repo_id, there.name), [CARD, *_patterns(frozen, changed)])
    try:
        refuse_unfrozen(frozen, own.entries, own.content)
    except InputError as error:
        raise InputError(str(error).replace(str(there), repo_id)) from None
