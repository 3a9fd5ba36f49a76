"""Which design a command means, and which runs of a log it may look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gmb_hf.design.design import Design
from gmb_hf.errors import InputError
from gmb_hf.hub.client import Address, is_address
from gmb_hf.runs.metadata import DIFFERS, hub_entry, with_hub_runs
from gmb_hf.runs.runlog import RunLog

if TYPE_CHECKING:
    from gmb_hf.training.config import TaskSettings


def read_runs(sources: str | Path | Sequence[str | Path], **options: Any) -> RunLog:
    """`RunLog.read` of files, folders, globs and `hf://datasets/ORG/NAME@REV[/CONFIG]`.

    What came from the Hub is noted in the log's metadata, with its commit and fingerprint.

    Raises:
        InputError: as `RunLog.read` and `pull_configs`, or a config that holds no run logs.
    """
    given = [sources] if isinstance(sources, (str, Path)) else list(sources)
    if not any(map(is_address, given)):
        return RunLog.read(sources, **options)
    from gmb_hf.hub.transfer import pull_configs

    places: list[str | Path] = []
    pulled: list[dict[str, str]] = []
    for source in given:
        if not is_address(source):
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
    log = RunLog.read(places, **options)
    log.metadata = with_hub_runs(log.metadata, pulled)
    return log


# The rows of a task, from a dataset of the Hub.


_SPLIT = "full"


def data_source(text: str, settings: TaskSettings) -> dict[str, Any]:
    """`pull_task` as the metadata of the logs that are trained on it have it."""
    return hub_entry("data", [pull_task(text, settings)])


def pull_task(text: str, settings: TaskSettings) -> dict[str, str]:
    """Fetch the rows of a task and hold them against those that are about to be trained on.

    A run draws its own split from the rows of `full`, by their places; they are the task's own, in
    its order, or the dataset is refused.

    Args:
        text: `ORG/NAME@REV`; the config is the one with the task's name, unless `/CONFIG` follows.
        settings: of the task.

    Returns:
        Where they came from: repository, commit, config, fingerprint.

    Raises:
        InputError: as `pull_configs`, or the rows are those of another task; both fingerprints are
            named.
    """
    from gmb_hf.hub.transfer import pull_configs

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
    return config.source


def design_for(
    log: RunLog,
    prereg_path: str | Path | None,
    preset_name: str | None,
    fields: Mapping[str, Any] = MappingProxyType({}),
) -> Design:
    """The preregistration or preset that was given, or the design that the log was trained for.

    Args:
        log: explore runs.
        prereg_path: a YAML file. preset_name: of a config instead.
        fields: of the design, by its names, that are to be different from what those say.

    Raises:
        InputError: both were given, or neither and the log does not say; or the log's parts were
            trained for different designs.
    """
    if prereg_path is not None and preset_name is not None:
        raise InputError("--prereg and --preset are two designs; give one of them")
    if prereg_path is not None:
        return Design.read(prereg_path).replace(**fields)
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


def explore_part(log: RunLog, design: Design) -> tuple[RunLog, int]:
    """The runs that may be explored, and how many held-out ones were set aside.

    Raises:
        InputError: none of the declared explore seeds is in the log.
    """
    return _part(log, design.seeds_explore, design.seeds_eval, "explore")


def held_out_part(log: RunLog, design: Design) -> tuple[RunLog, int]:
    """The runs that are held out, and how many explore runs were set aside.

    Raises:
        InputError: none of the declared held-out seeds is in the log.
    """
    return _part(log, design.seeds_eval, design.seeds_explore, "held-out")


def _part(
    log: RunLog, wanted: tuple[int, ...], others: tuple[int, ...], what: str
) -> tuple[RunLog, int]:
    rows = list(zip(log.runs, log.seeds, strict=True))
    chosen, unwanted = set(wanted), set(others)
    kept = [run for run, seed in rows if (seed in chosen if chosen else seed not in unwanted)]
    if not kept:
        raise InputError(
            f"none of the {len(log.runs)} runs is a declared {what} run (boundary.seeds_"
            f"{'explore' if what == 'explore' else 'eval'}); check --runs, or the seeds"
        )
    return (log if len(kept) == len(rows) else log.select(kept)), len(rows) - len(kept)
