"""Which reader reads which file, and which files make one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gmb_hf.runs.raw import RawTable, Wanted
from gmb_hf.runs.readers import tensorboard_events, trainer_state
from gmb_hf.runs.readers.csv_file import read_csv
from gmb_hf.runs.readers.json_lines import read_jsonl
from gmb_hf.runs.readers.parquet_file import read_parquet


@dataclass(frozen=True)
class Reader:
    """A format.

    Attributes:
        known_by: what its files' names end or begin with, for messages.
        claims: whether a file of this name is of the format.
        read: the files of one run, or one table, as a raw table.
        run_folder: the folder whose files make one run, which it names; None where each file
            stands alone and its stem is the run, unless it tells runs apart itself.
    """

    known_by: tuple[str, ...]
    claims: Callable[[str], bool]
    read: Callable[[Sequence[Path], Wanted], RawTable]
    run_folder: Callable[[Path], Path] | None = None


def _table(read: Callable[[Path, Wanted], RawTable], *suffixes: str) -> Reader:
    return Reader(
        suffixes,
        lambda name: name.lower().endswith(suffixes),
        lambda paths, wanted: read(paths[0], wanted),
    )


READERS = (
    _table(read_parquet, ".parquet"),
    _table(read_csv, ".csv"),
    _table(read_jsonl, ".jsonl", ".ndjson"),
    Reader(
        (trainer_state.FILE_NAME,),
        trainer_state.is_trainer_state,
        trainer_state.read_trainer_state,
        trainer_state.output_folder,
    ),
    Reader(
        ("events.out.tfevents.*",),
        tensorboard_events.is_event_file,
        tensorboard_events.read_event_files,
        tensorboard_events.run_folder,
    ),
)
KNOWN = ", ".join(ending for reader in READERS for ending in reader.known_by)


def reader_of(path: Path) -> Reader | None:
    """The reader of a file, by its name; None where no reader claims it."""
    return next((reader for reader in READERS if reader.claims(path.name)), None)
