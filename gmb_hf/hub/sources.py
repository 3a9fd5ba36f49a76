"""Datasets of the Hub, verified against their card; and which runs of a log a command may use."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gmb_hf.base.errors import InputError, choose, first_of
from gmb_hf.base.repositories import Address, Pushed, has_repository, publish, pull
from gmb_hf.design.design import Design
from gmb_hf.hub.cards import CARD, HERE, KEY, Card, CardFingerprint, refuse_unfrozen, verify
from gmb_hf.hub.panels import HELD_OUT, PREFIX, FrozenPanel, panel_of
from gmb_hf.runs.metadata import DIFFERS, hub_entry, with_hub_runs
from gmb_hf.runs.runlog import RunLog

if TYPE_CHECKING:
    from gmb_hf.training.config import TaskSettings

logger = logging.getLogger(__name__)

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


def read_runs(sources: str | Path | Sequence[str | Path], **options: Any) -> RunLog:
    """`RunLog.read` of files, folders, globs, `panel:NAME`, `hf://datasets/ORG/NAME@REV[/CONFIG]`.

    What came from the Hub, or is a panel, is noted in the log's metadata, with its fingerprint.
    The options are those of `RunLog.read`.

    Raises:
        InputError: as `RunLog.read`, `FrozenPanel.find` and `pull_configs`, or a config that holds
            no run logs.
    """
    given = [sources] if isinstance(sources, (str, Path)) else list(sources)
    places: list[str | Path] = []
    pulled: list[dict[str, str]] = []
    panels: list[FrozenPanel] = []
    for source in given:
        if str(source).startswith(PREFIX):
            panel = FrozenPanel.find(str(source).removeprefix(PREFIX))
            panel.check()
            places += panel.parts.values()
            pulled.append(panel.source)
            panels.append(panel)
            continue
        if not str(source).startswith("hf://"):
            places.append(source)
            continue
        for config in pull_configs(Address.parse(str(source), option="--runs")):
            if config.entry.item != "run":
                raise InputError(
                    f"--runs {source}: config {config.name!r} holds {config.entry.item}s, not "
                    "run logs; `gmb data build runs` makes a dataset of those"
                )
            places += [path for paths in config.files.values() for path in paths]
            pulled.append(config.source)
    log = RunLog.read(places if pulled else sources, **options)
    if pulled:
        log.metadata = with_hub_runs(log.metadata, pulled)
    if len(panels) == 1 and HELD_OUT in panels[0].parts:
        log.looks = panels[0]
    logger.info(
        "read %d runs, %d rows from %s", len(log.runs), log.table.num_rows, first_of(given, 3)
    )
    return log


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
    from gmb_hf.hub.datasets import RUNS, build, runs_configs

    place = Path(source)
    if (place / CARD).is_file() and KEY in Card.read(place).header:
        return push_dataset(source, repo_id, private=private)
    with tempfile.TemporaryDirectory() as workshop:
        configs = runs_configs([source], [license] if license else [])
        build(configs, workshop, RUNS, version=version)
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


def design_for(
    log: RunLog,
    prereg_path: str | Path | None,
    preset_name: str | None,
    fields: Mapping[str, Any] = MappingProxyType({}),
) -> Design:
    """The preregistration or preset that was given, or the design that the log was trained for.

    The log is of explore runs; `fields` of the design are to be different from what those say.

    Raises:
        InputError: both were given, or neither and the log does not say which one.
    """
    if prereg_path is not None and preset_name is not None:
        raise InputError("--prereg and --preset are two designs; give one of them")
    if prereg_path is not None:
        return Design.read(prereg_path).replace(**fields)
    panel = panel_of(log)
    if panel is not None and preset_name is None:
        return panel.design().replace(**fields)
    from gmb_hf.training.config import RunConfig
    from gmb_hf.training.presets import design_of, preset

    if preset_name is not None:
        return design_of(preset(preset_name), log, fields)
    differing = [key for key in log.metadata.get(DIFFERS, {}) if key.startswith("design.")]
    design = log.metadata.get("design")
    if differing or not isinstance(design, dict):
        why = f"the logs were trained for different ones ({differing[0]})" if differing else ""
        raise InputError(
            f"no design{': ' * bool(why)}{why}; pass --prereg FILE (gmb prereg init writes one to "
            "fill in), or --preset NAME"
        )
    name = log.metadata.get("preset", "custom")
    return design_of(RunConfig.from_dict({"preset": name, **design}), log, fields)


def part_of(
    log: RunLog, design: Design, part: Literal["explore", "held-out"]
) -> tuple[RunLog, int]:
    """The runs that are explored, or held out, and how many others were set aside.

    Raises:
        InputError: none of the declared seeds of that part is in the log.
    """
    chosen, unwanted = set(design.seeds_explore), set(design.seeds_eval)
    if part == "held-out":
        chosen, unwanted = unwanted, chosen
    rows = list(zip(log.runs, log.seeds, strict=True))
    kept = [run for run, seed in rows if (seed in chosen if chosen else seed not in unwanted)]
    if not kept:
        field = "boundary.seeds_explore" if part == "explore" else "boundary.seeds_eval"
        raise InputError(
            f"none of the {len(log.runs)} runs is a declared {part} run ({field}); check --runs, "
            "or the seeds"
        )
    return (log if len(kept) == len(rows) else log.select(kept)), len(rows) - len(kept)
