"""TensorBoard event files: the scalars of a run, a tag a column. A run is a folder.

An event file is a sequence of records: length (uint64), its checksum, that many bytes, theirs. The
bytes are a message that TensorBoard's own library takes apart. The framing is read here, since the
library passes over an incomplete record in silence, and a log that was cut must not look whole.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gmb_hf.runs import metadata as meta
from gmb_hf.runs.raw import STEP, RawTable, Wanted
from gmb_hf.validation import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER = struct.Struct("<Q4x")
_CHECKSUM_BYTES = 4
_TRAINER_FOLDER = re.compile(r"[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_")
_SCALARS = "scalars"  # the plugin of add_scalar and tf.summary.scalar


def is_event_file(name: str) -> bool:
    """Whether a file of this name holds events."""
    return ".tfevents." in name


def run_folder(path: Path) -> Path:
    """The folder that names the run: that of the file, of a Trainer's event files its output's.

    A Trainer writes `OUTPUT/runs/Nov21_03-11-44_host/`, another such folder after each restart.
    """
    folder = path.absolute().parent
    if folder.parent.name == "runs" and _TRAINER_FOLDER.match(folder.name):
        return folder.parent.parent
    return folder


def read_event_files(paths: Sequence[Path], wanted: Wanted) -> RawTable:
    """The scalars of one run from all its event files, a row per step.

    What a restarted training logged again replaces what it had logged before.

    Raises:
        InputError: TensorBoard's library is not installed, a file is cut short or no event file,
            a step is negative, or there are no scalars.
    """
    rows: dict[int, dict[str, float]] = {}
    repeats: dict[str, int] = {}
    folder = run_folder(paths[0])
    # A file is named by the time at which it was begun.
    for path in sorted(paths, key=lambda each: each.name):
        for step, tag, value in _scalars(path):
            row = rows.setdefault(step, {})
            # A Trainer logs the epoch twice in a step; only another value is another logging.
            other = tag in row and row[tag] != value and not (isnan(row[tag]) and isnan(value))
            repeats[tag] = repeats.get(tag, 0) + other
            row[tag] = value
    if not rows:
        raise InputError(f"{folder}: the event files hold no scalars: no rows")
    steps = sorted(rows)
    if steps[0] < 0:
        raise InputError(f"{folder}: step {steps[0]} is negative; a step is 0 or more")
    tags = sorted(repeats)
    if STEP in tags:
        raise InputError(f"{folder}: the tag 'step' has the name of the steps; rename it")
    columns = {tag: pa.array([rows[step].get(tag) for step in steps], pa.float64()) for tag in tags}
    table = pa.table({STEP: pa.array(steps, pa.int64()), **columns})
    dropped = max(repeats.values())
    if dropped:
        counted = meta.to_json({folder.name: dropped}, str(folder))
        table = table.replace_schema_metadata({meta.DROPPED_KEY: counted})
    where = str(paths[0] if len(paths) == 1 else folder)
    return RawTable(table, where, lambda row: f"step {steps[row]}", tuple(table.column_names))


def _scalars(path: Path) -> Iterator[tuple[int, str, float]]:
    try:
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError as error:
        raise InputError(
            f"{path}: event files are read by TensorBoard's library, which is not installed: "
            "pip install 'gmb-hf[tensorboard]'"
        ) from error
    plugin: dict[str, str] = {}  # named by the first value of a tag only
    for number, record in enumerate(_records(path), start=1):
        try:
            event = Event.FromString(record)
        except DecodeError as error:
            raise InputError(f"{path}: record {number} is no event; copy the file again") from error
        for value in event.summary.value:
            kind = value.metadata.plugin_data.plugin_name
            if kind:
                plugin.setdefault(value.tag, kind)
            if value.HasField("simple_value"):
                yield event.step, value.tag, value.simple_value
            elif value.HasField("tensor") and plugin.get(value.tag) == _SCALARS:
                array: NDArray[Any] = make_ndarray(value.tensor)
                yield event.step, value.tag, float(array.reshape(-1)[0])


def _records(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        left = path.stat().st_size
        number = 0
        while left:
            number += 1
            header = file.read(_HEADER.size)
            size = _HEADER.unpack(header)[0] if len(header) == _HEADER.size else left
            left -= _HEADER.size + size + _CHECKSUM_BYTES
            if left < 0:
                raise InputError(
                    f"{path}: cut short in record {number}, or no event file; copy it again, or "
                    "leave this run out"
                )
            record = file.read(size)
            file.read(_CHECKSUM_BYTES)
            yield record
