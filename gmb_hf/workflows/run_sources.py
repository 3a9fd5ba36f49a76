"""Run logs that a user names: files, folders, globs, and datasets of the Hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gmb_hf.hub.addresses import Address, is_address
from gmb_hf.runs import RunLog
from gmb_hf.validation import InputError
from gmb_hf.workflows.hub_sources import add_runs


def read_runs(sources: str | Path | Sequence[str | Path], **options: Any) -> RunLog:
    """`RunLog.read` of files, folders, globs and `hf://datasets/ORG/NAME@REV[/CONFIG]`.

    What came from the Hub is noted in the log's metadata, with its commit and fingerprint.

    Raises:
        InputError: as `RunLog.read` and `pull_configs`, or a config that holds no run logs.
    """
    given = [sources] if isinstance(sources, (str, Path)) else list(sources)
    if not any(map(is_address, given)):
        return RunLog.read(sources, **options)
    from gmb_hf.workflows.pulling import pull_configs

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
    add_runs(log, pulled)
    return log
