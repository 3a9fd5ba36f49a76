"""Run logs as a dataset, so that anybody may judge them again without training anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from gmb_hf.runs import RunLog
from gmb_hf.runs.metadata import DROPPED_KEY
from gmb_hf.validation import InputError
from gmb_hf.workflows.building import About, Config

RUNS = About(
    "Run logs",
    "A row for each run and checkpoint, a column for each observable; every run stands in one\n"
    "file. `gmb evaluate --runs` on the folder of a config judges a score on them.",
    ("gmb", "grokking", "training-dynamics"),
)
_LOGS = "logs"  # where a run keeps them in its folder
_GROUP = 2**24  # bytes in memory that are written at a time


def runs_configs(given: Sequence[str], *, license: str) -> list[Config]:
    """A config for each source of run logs.

    Args:
        given: `NAME=SOURCE`, or a source alone, which gives its own name; a file, folder or glob.
        license: of the logs.

    Raises:
        InputError: nothing given, no run log there, or one that is wrong.
    """
    if not given:
        raise InputError("--runs: no run logs are given; name a folder of logs, or NAME=FOLDER")
    return [_config(*_named(word), license) for word in given]


def _config(name: str, source: str, license: str) -> Config:
    log = RunLog.read(source)
    seeds = f", {len(log.observables)} observables" if log.observables else ""
    return Config(
        name,
        {"full": partial(_tables, log)},
        license,
        f"{len(log.runs):,} runs{seeds}",
        item="run",
    )


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
