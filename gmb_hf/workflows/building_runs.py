"""Run logs as a dataset, so that anybody may judge them again without training anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from gmb_hf.runs import RunLog
from gmb_hf.runs.metadata import DIFFERS, DROPPED_KEY
from gmb_hf.validation import InputError
from gmb_hf.workflows.building import About, Config
from gmb_hf.workflows.building_licenses import Licenses
from gmb_hf.workflows.building_tasks import LICENSE

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
    return [_config(name, source, said) for name, source in sources]


def _config(name: str, source: str, licenses: Licenses) -> Config:
    log = RunLog.read(source)
    columns = f", {len(log.observables)} observables" if log.observables else ""
    return Config(
        name,
        {"full": partial(_tables, log)},
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


def _tables(log: RunLog) -> Iterator[pa.Table]:
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
