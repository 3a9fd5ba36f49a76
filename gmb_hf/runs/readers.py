"""Readers of run logs: which files they are, and each format as a raw table.

Formats are an open set, `READERS`: CSV, JSON lines, Parquet, a Trainer's state, TensorBoard's event
files, and what other packages register under the entry point group `gmb_hf.readers`:

    def read_dat(paths: Sequence[Path], wanted: Wanted) -> RawTable: ...

    DAT = Reader((".dat",), read_dat)
"""

from __future__ import annotations

import glob
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gmb_hf.base import extras
from gmb_hf.base.errors import InputError, nearest, repeated
from gmb_hf.base.escape import one_line
from gmb_hf.base.files import (
    DEEPEST,
    as_float,
    check_file,
    check_table,
    json_fault,
    parse_json,
    read_bytes,
    read_text,
)
from gmb_hf.base.plugins import load_plugins
from gmb_hf.runs import metadata as meta
from gmb_hf.runs.columns import (
    KEYS,
    RUN,
    RUN_NAMES,
    SEED,
    STEP,
    STEP_NAMES,
    RawTable,
    Wanted,
    find_step,
    natural_key,
    set_aside_broken_text,
)
from gmb_hf.runs.rows import CsvRows, JsonRows, RowFault, TextRows, content_of, plain_name, rows_of

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Reader:
    """A format of run logs.

    Attributes:
        known_by: what its files' names end in, or how else they are known, for messages.
        read: the files of one run, or one table, as a raw table.
        claims: whether a file of this name is of the format; None: one that ends in `known_by`.
        run_folder: the folder whose files make one run, which it names; None where each file
            stands alone and its stem is the run, unless it tells runs apart itself.
        rows: of a format of text, what makes rows of its lines, given the file's name for
            messages; None where the lines of a growing file cannot be followed.
    """

    known_by: tuple[str, ...]
    read: Callable[[Sequence[Path], Wanted], RawTable]
    claims: Callable[[str], bool] | None = None
    run_folder: Callable[[Path], Path] | None = None
    rows: Callable[[str], TextRows] | None = None

    def reads(self, name: str) -> bool:
        """Whether a file of this name is of the format; text may be compressed (.gz)."""
        if self.claims is not None:
            return self.claims(name)
        return (plain_name(name) if self.rows else name).lower().endswith(self.known_by)


def read_parquet(paths: Sequence[Path], wanted: Wanted) -> RawTable:
    """Read one Parquet file, of a wide one only the columns that are wanted.

    Raises:
        InputError: it is no Parquet file, only the beginning of one, or damaged.
    """
    (path,) = paths
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            names = file.schema_arrow.names
            rows, columns = file.metadata.num_rows, file.metadata.num_columns
            check_table(path, rows=0, columns=columns)
            kept = names if export_adapter(names) else wanted.keeps(names, str(path))
            check_table(path, rows=rows, columns=columns, kept=len(kept))
            # A column that stands twice cannot be asked for by its name; it is refused later.
            twice = len(set(names)) != len(names)
            table = pa.table({}) if twice else file.read(columns=kept)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, InputError) or getattr(error, "errno", None):
            raise
        what = f"not a Parquet file, or a truncated or damaged one: {one_line(str(error))}"
        raise InputError.at(path, "not_parquet", f"{what}; copy it again") from error
    raw = RawTable(table, str(path), names=tuple(names))
    return adapt_export(set_aside_broken_text(raw), wanted)


def read_csv(paths: Sequence[Path], wanted: Wanted) -> RawTable:
    """Read one CSV file, fast by Arrow; where a cell or a line is wrong, again for its place.

    Raises:
        InputError: no header, or a line with too few or too many cells; its number is given.
    """
    (path,) = paths
    rows = CsvRows(str(path))
    next(rows_of(path, rows), None)
    header, names = rows.header, rows.names
    if not header:
        what = "no header; the first line of a CSV names its columns"
        raise InputError.at(path, "no_header", what)
    check_table(path, rows=0, columns=len(names))
    kept = names if export_adapter(names) else wanted.keeps(names, str(path))
    kinds = dict.fromkeys(kept, pa.float64())
    kinds |= {find_step(names, wanted.step, str(path)): pa.int64(), SEED: pa.int64()}
    runs = RUN_NAMES if wanted.run == RUN and RUN not in names else ()
    kinds |= dict.fromkeys((wanted.run, *runs), pa.string())
    source = path if plain_name(path.name) == path.name else content_of(path)

    def parsed(kinds: Mapping[str, pa.DataType]) -> pa.Table:
        return pacsv.read_csv(
            source if isinstance(source, Path) else pa.BufferReader(source),
            read_options=pacsv.ReadOptions(column_names=header, skip_rows_after_names=1),
            parse_options=pacsv.ParseOptions(newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types=kinds,
                # An empty list would mean all columns, not none.
                include_columns=kept or header[:1],
                null_values=[""],
                strings_can_be_null=False,
            ),
        )

    try:
        table = parsed(kinds)
    except pa.ArrowInvalid:
        # Some cell is no number: take the cells as text and let the columns be told apart.
        try:
            table = parsed(dict.fromkeys(kept, pa.string()))
        except pa.ArrowInvalid as error:
            for _ in rows_of(path, CsvRows(str(path))):
                pass
            raise InputError.at(path, "not_csv", f"not a CSV file: {error}") from error
    place = partial(_line, path, CsvRows)
    return adapt_export(RawTable(table, str(path), place, tuple(names)), wanted)


def _line(path: Path, rows: type[CsvRows | JsonRows], row: int) -> str:
    """The place of a row in a file of text, counted from 0."""
    found = next(islice(rows_of(path, rows(str(path))), row, None), None)
    return f"row {row + 1}" if found is None else f"line {found.line}"


_BLOCK = 2**20  # bytes that Arrow parses at once
_SAMPLED = 20_000  # lines whose keys are counted
_KEY = re.compile(rb'"([^"\\]*)"\s*:')


def read_jsonl(paths: Sequence[Path], wanted: Wanted) -> RawTable:
    """Read one JSONL file: an object {column: number} a line.

    Raises:
        InputError: a line is no JSON object, or names a key twice; its number is given.
    """
    (path,) = paths
    rows = partial(rows_of, path, JsonRows(str(path)))
    with suppress(RowFault):
        next(rows(), None)  # a file that is no text is refused before it is held as a whole
    content = content_of(path)
    try:
        # Arrow parses by recursion, whatever the depth, dies of a file that is just `null`, waits for
        # ever for a longer line, and holds a cell for each line and key, though each line may have
        # keys of its own.
        lines, keys = content.count(b"\n"), set[bytes]()
        for number, line in enumerate(io.BytesIO(content)):
            deep = line.count(b"{") + line.count(b"[") > DEEPEST
            null = line.lstrip(b"\xef\xbb\xbf \t\r").startswith(b"null")
            if deep or null or len(line) > _BLOCK:
                raise pa.ArrowInvalid
            if number % (1 + lines // _SAMPLED) == 0:
                keys.update(_KEY.findall(line))
        check_table(path, rows=lines, columns=len(keys))
        table = pajson.read_json(pa.BufferReader(content))
        table.validate(full=True)  # the reader does not check that strings are UTF-8
        cells = sum(len(column) - column.null_count for column in table.columns)
        if content.count(b":") != cells:
            # Texts with colons, objects, nulls, or a key that stands twice: Arrow keeps the last.
            for _ in rows():
                pass
    except pa.ArrowInvalid:
        # Arrow gives up on a column that changes its type; row by row the reason can be named.
        table = table_of([row.cells for row in rows()], path)
    return adapt_export(RawTable(table, str(path), partial(_line, path, JsonRows)), wanted)


def table_of(items: Sequence[Mapping[str, Any]], where: str | Path) -> pa.Table:
    """A table of objects {column: value}, empty where an object lacks the column.

    `InputError`, which begins with `where`, as `check_table`.
    """
    names = dict.fromkeys(name for item in items for name in item)
    check_table(where, rows=len(items), columns=len(names))
    return pa.table({name: _column(name, [item.get(name) for item in items]) for name in names})


def _column(name: str, values: list[Any]) -> pa.Array:
    """Numbers as float64, of keys whole ones as int64; a column with anything else as text."""
    kinds = {type(value) for value in values if value is not None}
    is_key = name in (*STEP_NAMES, *KEYS, *RUN_NAMES)
    if is_key and kinds == {int} and all(abs(value or 0) < 2**63 for value in values):
        return pa.array(values, pa.int64())
    # True is a value of 1, and no step.
    numbers = (int, float) if is_key else (int, float, bool)
    values = [as_float(value) if type(value) in numbers else value for value in values]
    if kinds <= {*numbers} and (kinds or name != RUN):
        return pa.array(values, pa.float64())
    plain = (str, type(None))
    texts = [value if isinstance(value, plain) else json.dumps(value) for value in values]
    return pa.array(texts, pa.string())


# transformers' `trainer_state.json`: the `log_history` that a Trainer writes with a checkpoint.
_STATE_FILE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
# The entry with which a training ends: means over all of it, and no measurement of its last step.
_SUMMARY = "train_runtime"


def output_folder(path: Path) -> Path:
    """The training's output folder, which names the run."""
    folder = path.absolute().parent
    return folder.parent if _CHECKPOINT.fullmatch(folder.name) else folder


def read_trainer_state(paths: Sequence[Path], wanted: Wanted) -> RawTable:
    """The history of one run, from the state that went furthest.

    Raises:
        InputError: a file is cut short or no Trainer's state, or nothing was logged.
    """
    # The state beside the checkpoints may be newer than the last of them, or older.
    beside = [path for path in paths if _checkpoint(path) < 0]
    histories = {path: _log_history(path) for path in {max(paths, key=_checkpoint), *beside}}
    path = max(histories, key=lambda each: (_reached(histories[each]), _checkpoint(each) < 0))
    history = dict(enumerate(histories[path], start=1))
    for number, entry in history.items():
        if not isinstance(entry, dict):
            what = f"entry {number} of log_history is no object"
            raise InputError.at(path, "bad_trainer_state", what)
    numbers = [number for number, entry in history.items() if _SUMMARY not in entry]
    if not numbers:
        why = "is the training still starting, or is logging_steps larger than the training is long"
        raise InputError.at(path, "no_rows", f"log_history is empty: no rows; {why}?")
    table = table_of([history[number] for number in numbers], path)
    summary: dict[str, Any] = next(
        (entry for entry in reversed(histories[path]) if _SUMMARY in entry), {}
    )
    what = "is logged once, when a training ends, and is no measurement of that step"
    only = [name for name in summary if name not in table.column_names]
    aside = {name: f"{path}: column {name!r} {what}" for name in only}
    place = "entry {} of log_history"
    return RawTable(table, str(path), lambda row: place.format(numbers[row]), aside=aside)


def _checkpoint(path: Path) -> int:
    """The number of the checkpoint that a state lies in, -1 beside the checkpoints."""
    found = _CHECKPOINT.fullmatch(path.absolute().parent.name)
    return int(found.group(1)) if found else -1


def _log_history(path: Path) -> list[Any]:
    text = read_text(path)
    try:
        state = parse_json(text, where="it", foreign=True)
    except InputError as error:
        code = "cut_short" if error.code == "not_json" else error.code
        hint = "copy the file again, or read an earlier checkpoint"
        what = f"cut short, or no JSON: {json_fault(error)}; {hint}"
        raise InputError.at(path, code, what) from error
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        what = "no Trainer's state: it has no list log_history"
        raise InputError.at(path, "bad_trainer_state", what)
    return history


def _reached(history: Sequence[Any]) -> float:
    steps = [entry.get(STEP) for entry in history if isinstance(entry, dict)]
    return max((step for step in steps if isinstance(step, (int, float))), default=-1.0)


# TensorBoard event files: the scalars of a run, a tag a column. A run is a folder.
_TRAINER_FOLDER = re.compile(r"[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_")
_SCALARS = "scalars"  # the plugin of add_scalar and tf.summary.scalar


def event_folder(path: Path) -> Path:
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
        InputError: TensorBoard's library is not installed, a file is damaged or no event file,
            a step is negative, or there are no scalars.
    """
    notes: list[str] = []
    rows: dict[int, dict[str, float]] = {}
    repeats: dict[str, int] = {}
    folder = event_folder(paths[0])
    # A file is named by the second at which it was begun, and numbered in its process.
    for path in sorted(paths, key=lambda each: natural_key(each.name)):
        for step, tag, value in _scalars(path, notes):
            row = rows.setdefault(step, {})
            # A Trainer logs the epoch twice in a step; only another value is another logging.
            other = tag in row and row[tag] != value and not (isnan(row[tag]) and isnan(value))
            repeats[tag] = repeats.get(tag, 0) + other
            row[tag] = value
    if not rows:
        raise InputError.at(folder, "no_rows", "the event files hold no scalars: no rows")
    steps = sorted(rows)
    if steps[0] < 0:
        what = f"step {steps[0]} is negative; a step is 0 or more"
        raise InputError.at(folder, "not_whole", what, step=steps[0])
    tags = sorted(repeats)
    if STEP in tags:
        what = "the tag 'step' has the name of the steps; rename it"
        raise InputError.at(folder, "repeated_column", what, column=STEP)
    columns = {tag: pa.array([rows[step].get(tag) for step in steps], pa.float64()) for tag in tags}
    table = pa.table({STEP: pa.array(steps, pa.int64()), **columns})
    if dropped := max(repeats.values()):
        counted = meta.to_json({folder.name: dropped}, str(folder))
        table = table.replace_schema_metadata({meta.DROPPED_KEY: counted})
    where = str(paths[0] if len(paths) == 1 else folder)
    return RawTable(table, where, lambda row: f"step {steps[row]}", notes=tuple(notes))


def _scalars(path: Path, notes: list[str]) -> Iterator[tuple[int, str, float]]:
    try:
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError as error:
        raise extras.missing(f"{path}: reading event files", "tensorboard") from error
    plugin: dict[str, str] = {}  # named by the first value of a tag only
    for number, record in enumerate(_records(path, notes), start=1):
        try:
            event = Event.FromString(record)
        except DecodeError as error:
            what = f"record {number} is no event; copy the file again"
            raise InputError.at(path, "cut_short", what) from error
        for value in event.summary.value:
            if kind := value.metadata.plugin_data.plugin_name:
                plugin.setdefault(value.tag, kind)
            if value.HasField("simple_value"):
                yield event.step, value.tag, value.simple_value
            elif value.HasField("tensor") and plugin.get(value.tag) == _SCALARS:
                array: NDArray[Any] = make_ndarray(value.tensor)
                yield event.step, value.tag, float(array.reshape(-1)[0])


def _records(path: Path, notes: list[str]) -> Iterator[bytes]:
    """The whole records of a file: length and its checksum, content and its checksum.

    A file that ends within a record was being written when its training died, which `notes` say.
    """
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    def is_sound(part: bytes) -> bool:
        return bool(masked_crc32c(part[:-4]) == int.from_bytes(part[-4:], "little"))

    content = read_bytes(path)
    at = number = 0
    while at < len(content):
        number += 1
        head = content[at : at + 12]
        known = len(head) == 12 and is_sound(head)
        size = int.from_bytes(head[:8], "little") if known else 0
        record = content[at + 12 : at + 12 + size + 4]
        # A file system that lost the end of a file may have left zeros.
        cut = len(head) < 12 or (known and len(record) < size + 4) or not any(content[at:])
        if cut and number > 1:
            what = f"cut short in record {number}, as by a crash; the {number - 1} whole ones"
            notes.append(f"{path}: {what} are read.")
            return
        if cut or not known or not is_sound(record):
            what = f"record {number} is damaged (its checksum is wrong), or this is no event file"
            what = "cut short in record 1, or no event file" if cut else what
            code, hint = "cut_short" if cut else "damaged", "copy it again, or leave this run out"
            raise InputError.at(path, code, f"{what}; {hint}")
        yield record[:-4]
        at += 12 + len(record)


# Weights & Biases: a chart's export is wide (`Step`, then for each run `NAME - METRIC`, and its
# __MIN and __MAX, which differ where the chart averaged several values). A run's history
# (`run.history()`, `run.scan_history()`) is long: `_step`, `_runtime`, `_timestamp`, the metrics.
_LOW, _HIGH = "__MIN", "__MAX"
_CLOCKS = ("_runtime", "_timestamp", "_step")


def from_wandb_history(raw: RawTable, wanted: Wanted) -> RawTable:
    """The metrics of a run, its clocks set aside."""
    step = _step(raw, wanted, "_step")
    own = [name for name in _CLOCKS if name in raw.names and name != step]
    what = "is W&B's own clock, no observable"
    aside = {name: f"{raw.where}: column {name!r} {what}" for name in own}
    return replace(raw, aside={**raw.aside, **aside})


def from_wandb_chart(raw: RawTable, wanted: Wanted) -> RawTable:
    """A row per run and step from a row per step; steps at which a run has nothing are left out."""
    step = _step(raw, wanted, "Step")
    series = _series(raw.names)
    if not raw.table.num_rows:
        empty = {RUN: pa.array([], pa.string()), STEP: pa.array([], pa.int64())}
        return replace(raw, table=pa.table(empty), names=(RUN, STEP))
    tables, origins, averaged = [], [], 0
    for run, metrics in series.items():
        columns = {metric: raw.table[column] for metric, column in metrics.items()}
        rows = np.flatnonzero(np.any([_filled(column) for column in columns.values()], axis=0))
        if not len(rows):
            what = f"run {run!r} has no value; leave it out of the chart"
            raise raw.error("no_value", what, run=run)
        own = pa.table({step: raw.table[step], **columns}).take(pa.array(rows))
        tables.append(own.add_column(0, RUN, pa.repeat(pa.scalar(run), len(rows))))
        origins.append(rows)
        for name in metrics.values():
            differ = pc.not_equal(raw.table[name + _LOW], raw.table[name + _HIGH])
            averaged += pc.sum(differ).as_py() or 0
    note = (
        f"{raw.where}: W&B averaged several values in {averaged} cells of this chart (their __MIN "
        "and __MAX differ); export each run's history for what was logged."
    )
    joined = pa.concat_tables(tables, promote_options="default")
    origin = np.concatenate(origins)
    return replace(
        raw,
        table=joined,
        names=tuple(joined.column_names),
        place=lambda row: raw.place(int(origin[row])),
        notes=(*raw.notes, note) if averaged else raw.notes,
        chart=True,
    )


def _series(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Run -> metric -> column, of the columns that have a minimum and a maximum beside them."""
    held = set(names)
    found: dict[str, dict[str, str]] = {}
    for name in names:
        run, between, metric = name.rpartition(" - ")
        if between and metric and {name + _LOW, name + _HIGH} <= held and metric not in _CLOCKS:
            found.setdefault(run, {})[metric] = name
    return found


def _step(raw: RawTable, wanted: Wanted, usual: str) -> str:
    step = find_step(raw.names, wanted.step, raw.where)
    if step not in raw.names:
        what = f"this W&B export has no column {step!r} and no {usual!r}"
        hint = "export it again over steps, or name its column of steps with --step-column"
        first = f"its first column is {raw.names[0]!r}"
        raise raw.error("missing_column", f"{what}; {hint}; {first}", column=step)
    return step


def _filled(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    filled = pc.is_valid(column)
    if pa.types.is_string(column.type):
        filled = pc.and_(filled, pc.not_equal(pc.utf8_trim_whitespace(column), ""))
    return np.asarray(filled, dtype=bool)


# trackio: the Parquet of a project, and the CSV that its dashboard saves beside a chart.
_SERIES = "series_key"  # of the dashboard alone
_RUN_NAME, _RUN_ID = "run_name", "run_id"
_TRACKIO_OWN = ("id", _RUN_ID, "log_id", "space_id", _SERIES, "data_type", "timestamp", "time")


def from_trackio(raw: RawTable, wanted: Wanted) -> RawTable:
    """A row per run and call of `log`, without trackio's own columns."""
    named = _RUN_NAME if _RUN_NAME in raw.names else RUN
    if wanted.run == RUN and _RUN_ID in raw.names:
        runs = raw.table.group_by([named, _RUN_ID]).aggregate([])[named].to_pylist()
        if (twice := repeated(runs)) is not None:
            what = f"{runs.count(twice)} runs have the name {twice!r}"
            hint = f"tell them apart by trackio's own number: --run-column {_RUN_ID}"
            raise raw.error("repeated_run", f"{what}; {hint}", run=twice)
    dropped = {*_TRACKIO_OWN, _RUN_NAME, RUN} - {named, wanted.run, wanted.step}
    kept = [name for name in raw.names if name not in dropped]
    names = [RUN if name == named and wanted.run == RUN else name for name in kept]
    table = raw.table.select(kept).rename_columns(names)
    return replace(raw, table=table, names=tuple(names), chart=_SERIES in raw.names)


def export_adapter(names: Sequence[str]) -> Callable[[RawTable, Wanted], RawTable] | None:
    """How a tracker's export with these columns becomes a table of runs and steps.

    None of any other table. All columns of an export must be read.
    """
    held = set(names)
    if _series(names):
        return from_wandb_chart
    if "_runtime" in held and held & {"_step", "_timestamp"}:
        return from_wandb_history
    if {_RUN_NAME, STEP, "timestamp"} <= held or {RUN, _RUN_ID, _SERIES, STEP} <= held:
        return from_trackio
    return None


def adapt_export(raw: RawTable, wanted: Wanted) -> RawTable:
    """The table of runs and steps behind an export; any other table as it is."""
    adapt = export_adapter(raw.names)
    return raw if adapt is None else adapt(raw, wanted)


READERS: dict[str, Reader] = {
    "parquet": Reader((".parquet",), read_parquet),
    "csv": Reader((".csv",), read_csv, rows=CsvRows),
    "jsonl": Reader((".jsonl", ".ndjson"), read_jsonl, rows=JsonRows),
    "trainer_state": Reader(
        (_STATE_FILE,),
        read_trainer_state,
        claims=lambda name: name == _STATE_FILE,
        run_folder=output_folder,
    ),
    "tensorboard": Reader(
        ("events.out.tfevents.*",),
        read_event_files,
        claims=lambda name: ".tfevents." in name,
        run_folder=event_folder,
    ),
}
"""Name -> reader; of two that claim a file the first one reads it."""


@cache
def readers() -> dict[str, Reader]:
    """`READERS`, those of other packages included."""

    def enter(name: str, reader: Any) -> None:
        if not isinstance(reader, Reader):
            raise InputError(f"it is no gmb_hf.runs.readers.Reader, but {type(reader).__name__}")
        if name in READERS:
            raise InputError(f"reader {name!r} is registered already; choose another name")
        READERS[name] = reader

    load_plugins("gmb_hf.readers", enter)
    return READERS


def reader_of(path: Path) -> Reader | None:
    """The reader of a file, by its name; None where no reader claims it."""
    return next((reader for reader in readers().values() if reader.reads(path.name)), None)


def text_rows(path: Path) -> TextRows:
    """What makes rows of the lines of a growing log; JSON lines where no reader claims its name.

    Raises:
        InputError: the file is of a format that has no lines to follow.
    """
    reader = reader_of(path)
    if reader is None:
        return JsonRows(str(path))
    if reader.rows is None:
        what = "a file of this format cannot be followed while it grows; write .jsonl or .csv"
        raise InputError.at(path, "not_followed", what)
    return reader.rows(str(path))


def known_endings() -> str:
    """What files of run logs are known by, for messages."""
    return ", ".join(
        f"{ending}(.gz)" if reader.rows else ending
        for reader in readers().values()
        for ending in reader.known_by
    )


Sources = str | Path | Sequence[str | Path]
"""What a user names: files, folders, globs."""


def find_files(sources: Sources) -> list[Path]:
    """Every run log file that `sources` name, in their order, each once.

    A folder stands for the run log files directly in it (hidden files are passed over); where it
    has none, for the logs of the trainings in its subfolders that left event files or a Trainer's
    state. A glob stands for what it matches, `**` included.

    Raises:
        InputError: no sources, or one that is no path, a missing file, a folder or glob without a
            run log file, or a file of another kind.
    """
    given: list[Any] = [sources]
    if isinstance(sources, Iterable) and not isinstance(sources, str):
        given = list(sources)
    for source in given:
        if not isinstance(source, (str, Path)):
            what = f"run logs are files, folders, globs or a DataFrame, not {type(source).__name__}"
            raise InputError(what, code="no_logs")
    if not given:
        raise InputError("no run logs given; name a file, a folder or a glob", code="no_logs")
    return list(dict.fromkeys(path for source in given for path in _files(source)))


def files_to_follow(sources: Sources) -> dict[str, Path]:
    """Run -> its file, of files that can be followed line by line and are named as their run is.

    What holds several runs, or names them in a column, is not among them by the name of a run.
    """
    try:
        files = find_files(sources)
    except InputError:  # of the Hub, or a panel
        return {}
    growing = [path for path in files if (one := reader_of(path)) is not None and one.rows]
    by_folder = _names_by_folder(growing)
    return {by_folder.get(path, Path(plain_name(path.name)).stem): path for path in growing}


def _files(source: str | Path) -> list[Path]:
    path = Path(source).expanduser()
    if path.is_dir():
        found = _logs_among(path.iterdir(), [path], of_runs=False)
        if not found:
            inside = ", ".join(sorted(each.name for each in path.iterdir() if each.is_dir())[:6])
            hint = f"; it has the folders {inside}" if inside else ""
            if deeper := _pattern_below(path):
                hint += f": for the logs in them give --runs '{deeper}'"
            what = f"no run log ({known_endings()}) in this folder{hint}"
            raise InputError.at(path, "no_logs", what)
        return found
    if path.exists():
        if reader_of(path) is None:
            what = f"not a run log; known endings: {known_endings()}"
            raise InputError.at(path, "not_a_log", what)
        return [path]
    if glob.has_magic(str(path)):
        seen = sorted(map(Path, glob.glob(str(path), recursive=True)))
        found = _logs_among(seen, [each for each in seen if each.is_dir()])
        if not found:
            other = f"; it matches {seen[0]}, which is no run log" if seen else ""
            what = f"no run log ({known_endings()}) matches this pattern{other}"
            hint = "check the folder and the quotes around it"
            raise InputError.at(path, "no_logs", f"{what}; {hint}")
        return found
    hint = f"; the folder {path.parent} does not exist either"
    if path.parent.is_dir():
        guess = nearest(path.name, [other.name for other in path.parent.iterdir()])
        hint = f". Did you mean {str(path.parent / guess)!r}?" if guess else ""
    raise InputError.at(path, "no_such_file", f"no such file or folder{hint}")


_DEEPEST = 4  # folders below one that was named, where a pattern is looked for


def _pattern_below(folder: Path) -> Path | None:
    """The pattern that fits most of the logs in folders below one; None where there are none."""
    for depth in range(1, _DEEPEST):
        below = folder.joinpath(*["*"] * depth)
        known = [ending for one in readers().values() if one.rows for ending in one.known_by]
        endings = [f"{ending}{gz}" for ending in known for gz in ("", ".gz")]
        counts = {
            below / f"*{ending}": len(glob.glob(str(below / f"*{ending}"))) for ending in endings
        }
        best = max(counts, key=lambda pattern: counts[pattern])
        if counts[best]:
            return best
    return None


def _logs_among(
    paths: Iterable[Path], folders: Sequence[Path], *, of_runs: bool | None = None
) -> list[Path]:
    """The logs among the paths and of trainings in the folders, else of those in subfolders."""
    found = _logs(paths, of_runs=of_runs)
    found += [file for folder in folders for file in _of_training(folder)]
    if not found:
        inside = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_dir()]
        found = [file for folder in inside for file in _of_training(folder)]
    return found


def _logs(paths: Iterable[Path], *, of_runs: bool | None = None) -> list[Path]:
    """The run log files among the paths; only those whose folder is the run, or that are not."""
    found = []
    for path in sorted(paths):
        reader = reader_of(path)
        if reader is None or path.name[0] in "._" or not path.is_file():
            continue
        if of_runs is None or of_runs == (reader.run_folder is not None):
            found.append(path)
    return found


def _of_training(folder: Path) -> list[Path]:
    """What a training left in its folder besides tables, which stand for themselves.

    Event files and a Trainer's state, those of its checkpoints included; where there are none, the
    event files where a Trainer puts them.
    """
    found = _logs(folder.iterdir(), of_runs=True)
    found += sorted(folder.glob("checkpoint-*/trainer_state.json"))
    return found or _logs(folder.glob("runs/*/*"))


def is_frame(sources: Any) -> TypeGuard[DataFrame]:
    """Whether it is a pandas DataFrame."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(sources, pandas.DataFrame)


def from_frame(frame: DataFrame, wanted: Wanted) -> RawTable:
    """The columns of a DataFrame, those that are named in its index first."""
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    if frame.empty:
        raise InputError.at("DataFrame", "no_rows", "it has no rows")
    columns = []
    for at in range(frame.shape[1]):
        cells = frame.iloc[:, at]
        try:
            columns.append(pa.array(cells, from_pandas=True))
        except (pa.ArrowException, OverflowError):  # numbers and text: judged cell by cell
            columns.append(pa.array(cells.map(str).where(cells.notna(), None), pa.string()))
    table = pa.Table.from_arrays(columns, names=[str(name) for name in frame.columns])
    return adapt_export(RawTable(table, "DataFrame"), wanted)


def read_sources(sources: Sources | DataFrame, wanted: Wanted) -> Iterator[tuple[str, RawTable]]:
    """For each file, or each run's files, the run's name where they do not say it, and the table.

    Raises:
        InputError: nothing to read, two logs of one run, or a file that is empty, unreadable, not
            UTF-8, or not of its format.
    """
    if is_frame(sources):
        yield RUN, from_frame(sources, wanted)
        return
    groups = _by_run(find_files(sources))
    by_folder = _names_by_folder([path for path, (one, _) in groups.items() if not one.run_folder])
    for place, (reader, files) in groups.items():
        try:
            for path in files:
                check_file(path)
                if not path.stat().st_size:
                    what = "the file is empty; is the training still starting?"
                    raise InputError.at(path, "empty_file", what)
            raw = reader.read(files, wanted)
            check_table(raw.where, rows=raw.table.num_rows, columns=raw.table.num_columns)
            if len(raw.names) > raw.table.num_columns:
                every = replace(wanted, columns=None)
                raw = replace(raw, reread=partial(reader.read, files, every))
        except UnicodeDecodeError as error:
            what = "not UTF-8 text; save the file as UTF-8"
            raise InputError.at(files[0], "not_utf8", what) from error
        except OSError as error:
            what = f"could not be read: {error.strerror or error}"
            raise InputError.at(files[0], "unreadable", what) from error
        stem = place.name if reader.run_folder else Path(plain_name(place.name)).stem
        yield by_folder.get(place, stem), raw


def _names_by_folder(files: Sequence[Path]) -> dict[Path, str]:
    """The runs of files that all have one name, such as `metrics.jsonl`, by their folders.

    It is the nearest folder that differs in every file. A name with a digit, such as `seed_1`, is
    that of a run, and two files of one name may be one run twice: both are left to be refused.
    """
    if len(files) < 3 or len({path.name for path in files}) > 1 or re.search(r"\d", files[0].stem):
        return {}
    for folders in zip(*(path.absolute().parents for path in files), strict=False):
        if len({folder.name for folder in folders}) == len(files):
            return {path: folder.name for path, folder in zip(files, folders, strict=True)}
    return {}


def _by_run(files: Sequence[Path]) -> dict[Path, tuple[Reader, list[Path]]]:
    """File, or folder of a run -> its reader and the files of the run that were named.

    Logs of two formats in a run's folder, which may be one training twice, are refused.
    """
    groups: dict[Path, tuple[Reader, list[Path]]] = {}
    for path in files:
        reader = reader_of(path)
        assert reader is not None  # find_files returns no others
        place = path if reader.run_folder is None else reader.run_folder(path)
        held, members = groups.setdefault(place, (reader, []))
        if held is not reader:
            raise _logged_twice(place, members[0], path)
        members.append(path)
    for reader, members in groups.values():
        for folder in members[0].absolute().parents:
            other, others = groups.get(folder, (reader, []))
            if other is not reader and other.run_folder:
                raise _logged_twice(folder, others[0], members[0])
    return groups


def _logged_twice(folder: Path, one: Path, other: Path) -> InputError:
    what = f"{one.name} and {other.name} may be two logs of one run"
    hint = "name the files of one format, e.g. by a glob in quotes"
    return InputError.at(folder, "logged_twice", f"{what}; {hint}")


def keep_last_rows(raw: RawTable, count: int, run_column: str) -> RawTable:
    """The last `count` rows of each run, in the order of the file.

    It comes before any sorting by step: a restarted training appends to its log, so that the end
    of the file is the training that went through. A file without `run_column` is one run.
    """
    n = raw.table.num_rows
    if run_column in raw.table.column_names:
        encoded = pc.dictionary_encode(raw.table[run_column].combine_chunks())
        run = np.asarray(pc.fill_null(encoded.indices, -1), dtype=np.int64)
    else:
        run = np.zeros(n, dtype=np.int64)
    by_run = np.argsort(run, kind="stable")
    ends = np.searchsorted(run[by_run], run[by_run], side="right")
    rows = np.sort(by_run[ends - np.arange(n) <= count])
    taken = pa.array(rows)
    return replace(
        raw,
        table=raw.table.take(taken),
        place=lambda row: raw.place(int(rows[row])),
        reread=lambda: replace(raw, table=raw.whole().take(taken)),
    )
