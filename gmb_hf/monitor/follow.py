"""A run watched from another process, by the log that it writes.

The log may not be there yet, may be cut to nothing and begun again, may be moved away and replaced
(logrotate does both), and its last line may be half written when it is read.
"""

from __future__ import annotations

import csv
import os
import re
import reprlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self

from gmb_hf.base.errors import InputError, choose, repeated
from gmb_hf.base.escape import one_line
from gmb_hf.base.files import as_float, json_fault, parse_json
from gmb_hf.monitor.monitor import AlarmMonitor, StateFile, read_state
from gmb_hf.monitor.reading import Reading
from gmb_hf.runs.columns import KEYS, RUN, STEP, find_step

ENDED_BY = {
    "alarm": "an alarm was raised",
    "until": "its last step was reached",
    "pid": "the process that trains has ended",
    "idle": "nothing more was written",
}
"""Why a watch ended."""
POLL_SECONDS = 0.5
_FIRST, _STEP, _MONITOR = "first_checkpoint", "step", "monitor"  # of the state file
_LINE_END = re.compile(rb"\r\n|\n|\r")
_HEAD = 512
"""Bytes from which a file that was cut and has grown again is told from the one before."""


@dataclass(frozen=True)
class Ending:
    """When a run counts as ended, whichever comes first.

    At its step `until`, with the process `pid` that trains, or `idle` seconds without a new line.
    """

    until: int | None = None
    pid: int | None = None
    idle: float | None = None

    def __post_init__(self) -> None:
        if self.idle is not None and not self.idle >= 0:
            raise InputError(f"--idle {self.idle:g}: give seconds, 0 or more")
        if self.until is not None and self.until < 0:
            raise InputError(f"--until {self.until}: give a step, 0 or more")
        if self.pid is not None and not is_running(self.pid):
            hint = "is the run over? --idle 0 reads what its log holds"
            raise InputError(f"--pid {self.pid}: there is no such process; {hint}")


def ending_of(monitor: AlarmMonitor, ending: Ending) -> Ending:
    """Where nothing is said of it, a run ends where the longest explore run of the lock did."""
    health = monitor.lock.x_lock.x_health
    return Ending(until=health.last_step) if ending == Ending() and health else ending


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    import psutil

    return bool(psutil.pid_exists(pid))


class Viewer(Protocol):
    """What shows a watch to a person."""

    def reading(self, reading: Reading) -> None:
        """The answer at a checkpoint."""

    def note(self, text: str) -> None:
        """What was passed over, and why."""

    def waiting(self, seconds: float) -> None:
        """Nothing was written for so long."""


def begin_monitor(
    lock: Path, results: Path | None, *, act: Sequence[str] | None = None, **rule: Any
) -> AlarmMonitor:
    """A monitor by a lock and its results; those beside the lock where none are named.

    `rule`: unit, budget and target, as in `AlarmMonitor`.
    """
    usual = lock.parent / "results.yaml"
    if results is None and usual.exists():
        results = usual
    return AlarmMonitor(lock, results, act=act, **rule)


class LogWatch:
    """One log under watch; use it as a context manager.

    Args:
        monitor: a new one; it goes on from what `state` holds.
        log: a JSONL or CSV file; it may not be there yet.
        state: where the monitor is kept, so that a restarted one goes on; beside the log if None.
        run, step_column: as in `GrowingRows`.

    Attributes:
        last: the latest reading; None before the first.
        state: the file that it is kept in.

    Raises:
        InputError: the state is another monitor's or none, or another monitor is at work on it.
    """

    def __init__(
        self,
        monitor: AlarmMonitor,
        log: Path,
        state: Path | None = None,
        *,
        run: str | None = None,
        step_column: str = "step",
    ) -> None:
        if log.is_dir():
            raise InputError(f"{log}: this is a folder; name the log of one run in it")
        state = state or log.with_name(f"{log.name}.monitor.json")
        self.monitor = monitor
        self.last: Reading | None = None
        self._log = log
        self._rows = GrowingRows(
            str(log), needs=monitor.needs, cadence=monitor.cadence, run=run, step_column=step_column
        )
        self._unsaved = False
        self._first: dict[str, str] | None = None
        self._step: int | None = None  # up to where the run was seen
        self.state = state
        self._file = StateFile(state)
        try:
            self._load(state)
        except InputError:
            self._file.close()
            raise
        self._seen_to: int | None = self._step

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()

    def follow(
        self,
        ending: Ending,
        viewer: Viewer,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> str:
        """Watch until the first alarm, or until the run has ended; a key of `ENDED_BY`.

        Where the state holds a raised alarm it ends at once: no run has a second one.

        `InputError` where the file is no log of checkpoints, or its steps go backwards.
        """
        heard = clock()
        with GrowingFile(self._log) as file:
            while True:
                # Asked before the log is read: nothing that was written until then is missed.
                trains = ending.pid is None or is_running(ending.pid)
                try:
                    lines = file.poll()
                except OSError as error:
                    what = f"could not be read: {error.strerror or error}"
                    raise InputError.at(self._log, "unreadable", what) from error
                if lines:
                    heard = clock()
                silent = clock() - heard
                over = not trains or (ending.idle is not None and silent >= ending.idle)
                checkpoints = self._rows.checkpoints(lines)
                if over:  # nothing more will be written: the last row, whole or cut short
                    line = file.unfinished
                    checkpoints += self._rows.checkpoints([line] if line else [])
                    checkpoints += self._rows.rest()
                ended = self._read_all(checkpoints, viewer, ending.until)
                if over and ended is None:
                    ended = "idle" if trains else "pid"
                if ended is not None:
                    self._rows.check_run()
                    return ended
                if not lines:
                    viewer.waiting(silent)
                    sleep(POLL_SECONDS)

    def _read_all(
        self, checkpoints: Sequence[Checkpoint], viewer: Viewer, until: int | None
    ) -> str | None:
        """Read checkpoints up to the one that ends the watch; why it does, if one does."""
        ended = None
        before = self._step
        for checkpoint in checkpoints:
            reading = self._read(checkpoint)
            if reading is not None:
                viewer.reading(reading)
                ended = "alarm" if reading.state == "ALARM" else None
            if ended is None and until is not None and checkpoint.step >= until:
                ended = "until"
            if ended is not None:
                break
        if ended is None and self.monitor.alarm is not None:
            ended = "alarm"
        if self._step != before:
            state = self.monitor.state_dict()
            try:
                self._file.write({_FIRST: self._first, _STEP: self._step, _MONITOR: state})
            except InputError as error:  # a full disk is no reason to stop watching
                if not self._unsaved:
                    viewer.note(f"{error}; until then a monitor that is started again lacks this")
                self._unsaved = True
        for note in self._rows.notes:
            viewer.note(note)
        self._rows.notes.clear()
        return ended

    def _read(self, checkpoint: Checkpoint) -> Reading | None:
        """The answer at a checkpoint; None where it was seen before, or the alarm was raised.

        Another run than the one that is watched is refused: it tells itself by its first row.
        """
        needs = {name: checkpoint.columns.get(name) for name in self.monitor.needs}
        known = {name: str(value) for name, value in {"step": checkpoint.step, **needs}.items()}
        self._first = known if self._first is None else self._first
        if self._first.get("step") == known["step"] and self._first != known:
            raise InputError(
                f"{self._log}: line {checkpoint.line}: another run begins here than the one that "
                f"was watched; to watch it, delete {self._file.path} and start again"
            )
        if checkpoint.begins:
            self._seen_to = self._step
        if self._seen_to is not None and checkpoint.step <= self._seen_to:
            return None
        if self.monitor.alarm is not None:
            return None
        self._seen_to = None
        needed = {*self.monitor.needs, *self.monitor.shown_needs}
        columns = {name: value for name, value in checkpoint.columns.items() if name in needed}
        try:
            self.last = self.monitor.update(step=checkpoint.step, **columns)
        except InputError as error:
            raise InputError(f"{self._log}: line {checkpoint.line}: {error}") from None
        self._step = checkpoint.step
        return self.last

    def _load(self, path: Path) -> None:
        if not path.exists():
            return
        held = read_state(path)
        kinds = {_FIRST: dict, _STEP: int, _MONITOR: dict}
        if not all(isinstance(held.get(key), kind) for key, kind in kinds.items()):
            raise InputError(
                f"{path}: is not the state of a watched log; delete it, or name another --state"
            )
        self.monitor.load_state_dict(held[_MONITOR], where=str(path))
        self._first, self._step = held[_FIRST], held[_STEP]


# A log file that another process is writing: its lines as they are completed.


@dataclass(frozen=True)
class Line:
    """One complete line, `number` in its file from 1; bytes that are no UTF-8 are replaced.

    `begins` tells the first line of a file that was cut, replaced or new.
    """

    number: int
    text: str
    begins: bool


class GrowingFile:
    """Reads on where it stopped; use it as a context manager."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: BinaryIO | None = None
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def unfinished(self) -> Line | None:
        """What stands after the last complete line, if anything."""
        return self._line(self._rest) if self._rest.strip(b"\0 \r") else None

    def poll(self) -> list[Line]:
        """The lines that were completed since the last call; none while there is no file."""
        lines: list[Line] = []
        if self._file is not None:
            number = self._file.fileno()
            cut = os.fstat(number).st_size < self._file.tell()
            if cut or os.pread(number, len(self._head), 0) != self._head:
                self._file.seek(0)
                self._forget()
            lines += self._new_lines(self._file)
            try:
                replaced = not os.path.samestat(os.fstat(number), self.path.stat())
            except FileNotFoundError:
                replaced = False  # moved away; the new one is still to come
            if not replaced:
                return lines
            # What was written between that reading and the replacement.
            lines += self._new_lines(self._file)
            self.close()
        try:
            self._file = self.path.open("rb")
        except FileNotFoundError:
            return lines
        self._forget()
        return lines + self._new_lines(self._file)

    def _forget(self) -> None:
        self._head = b""
        self._rest = b""
        self._number = 0

    def _new_lines(self, file: BinaryIO) -> list[Line]:
        content = file.read()
        self._head = (self._head + content)[:_HEAD]
        content = self._rest + content
        # At the end of what is there, CR may be the first half of a line's end.
        held = content[-1:] if content.endswith(b"\r") else b""
        *whole, rest = _LINE_END.split(content.removesuffix(held))
        self._rest = rest + held
        lines = []
        for line in whole:
            lines.append(self._line(line))
            self._number += 1
        return lines

    def _line(self, line: bytes) -> Line:
        # A writer that keeps its place while the file is cut leaves a hole of zero bytes.
        text = line.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
        return Line(self._number + 1, text.decode("utf-8", errors="replace"), self._number == 0)


@dataclass(frozen=True)
class Checkpoint:
    """The numbers of one step by column; a cell without a number is not there.

    `line` is where its last row stands, `begins` whether the file began anew with it.
    """

    step: int
    columns: Mapping[str, float]
    line: int
    begins: bool


class _NoRow(Exception):
    """Why a line holds no row of the log."""


class GrowingRows:
    """Lines to checkpoints.

    Args:
        where: the file, for messages.
        needs: columns that make a checkpoint complete; with all of them it waits for no other row.
        cadence: steps between checkpoints; rows between them that have none of `needs` are other
            logging.
        run: which run to follow where the log holds several.
        step_column: its name.

    Attributes:
        notes: what was passed over since they were last looked at, a line each.
    """

    def __init__(
        self,
        where: str,
        *,
        needs: Sequence[str],
        cadence: int | None = None,
        run: str | None = None,
        step_column: str = STEP,
    ) -> None:
        self.notes: list[str] = []
        self._where = where
        self._csv = where.endswith(".csv")
        self._needs = frozenset(needs) - {STEP}
        self._cadence = cadence or 1
        self._run = run
        self._run_given = run is not None
        self._seen_runs: set[str] = set()
        self._step_column = step_column
        self._header: list[str] = []
        self._read_any = False
        self._begins = False
        self._pending: Checkpoint | None = None
        self._done: int | None = None  # the step that was handed over last

    def checkpoints(self, lines: Sequence[Line]) -> list[Checkpoint]:
        """The checkpoints that these lines complete.

        Raises:
            InputError: the file is no log of this kind, lacks the steps, or holds several runs.
        """
        found = []
        for line in lines:
            if line.begins:
                found += self.rest()
                self._header, self._begins, self._done = [], True, None
            try:
                row = self._row(line)
                found += [] if row is None else self._add_row(row, line)
            except _NoRow as why:
                place = f"line {line.number}"
                if not self._read_any:
                    what = f"{place} {why}; name a log of JSON lines, or a .csv file"
                    raise InputError.at(self._where, "not_a_log", what, place=place) from None
                self.notes.append(f"{self._where}: {place} {why}; passed over")
        return found

    def rest(self) -> list[Checkpoint]:
        """The checkpoint that waits for more rows of its step, if one does."""
        held, self._pending = self._pending, None
        self._done = self._done if held is None else held.step
        return [] if held is None else [held]

    def check_run(self) -> None:
        """Refuse a run that was asked for and is not in the log."""
        if self._run_given:
            choose("run", str(self._run), tuple(self._seen_runs), where=self._where)

    def _row(self, line: Line) -> dict[str, Any] | None:
        if not line.text.strip():
            return None
        if self._csv:
            return self._cells(line.text)
        try:
            row = parse_json(line.text, where="it", foreign=True)
        except InputError as error:
            raise _NoRow(f"is not JSON ({one_line(json_fault(error))})") from None
        if not isinstance(row, dict):
            raise _NoRow("is not a JSON object {column: number}")
        return row

    def _cells(self, text: str) -> dict[str, Any] | None:
        try:
            cells = [cell.strip() for cell in next(csv.reader([text]))]
        except csv.Error as error:
            raise _NoRow(f"is no line of a CSV file ({error})") from None
        if self._header and len(cells) != len(self._header):
            raise _NoRow(f"has {len(cells)} cells where the header has {len(self._header)}")
        if self._header:
            return dict(zip(self._header, cells, strict=True))
        twice = repeated(cells)
        if twice is not None:
            what = f"column {twice!r} stands twice in the header"
            raise InputError.at(self._where, "repeated_column", what, column=twice)
        self._header = cells
        return None

    def _add_row(self, row: dict[str, Any], line: Line) -> list[Checkpoint]:
        if not self._is_of_run(row):
            return []
        step = self._step(row, line)
        self._read_any = True
        keys = {*KEYS, self._step_column}
        numbers = {name: _number(cell) for name, cell in row.items() if name not in keys}
        columns = {name: value for name, value in numbers.items() if value is not None}
        other = step is not None and step % self._cadence and not self._needs & columns.keys()
        if step is None or other or step == self._done:
            return []
        found = []
        if self._pending is not None and self._pending.step == step:
            columns = {**self._pending.columns, **columns}
        else:
            found = self.rest()
        self._pending = Checkpoint(step, columns, line.number, self._begins)
        self._begins = False
        return found + self.rest() if self._needs <= columns.keys() else found

    def _is_of_run(self, row: Mapping[str, Any]) -> bool:
        if RUN not in row:
            return True
        name = str(row[RUN])
        self._seen_runs.add(name)
        self._run = name if self._run is None else self._run
        if name != self._run and not self._run_given:
            what = f"holds several runs ({self._run}, {name}); say which with --run"
            raise InputError.at(self._where, "several_runs", what)
        return name == self._run

    def _step(self, row: Mapping[str, Any], line: Line) -> int | None:
        try:
            column = find_step(list(row), self._step_column, self._where)
        except InputError as error:
            if self._read_any:
                raise _NoRow(f"has {str(error).removeprefix(f'{self._where}: ')}") from None
            raise
        if column not in row:
            if self._read_any:
                return None  # a summary, a config: loggers write such rows too
            place, found = f"line {line.number}", ", ".join(row) or "none"
            what = f"{place}: column {column!r} missing; found: {found}"
            hint = "say which it is with --step-column"
            at = {"place": place, "column": column}
            raise InputError.at(self._where, "missing_column", f"{what}; {hint}", **at)
        value = None if isinstance(row[column], bool) else _number(row[column])
        if value is None or not 0 <= value < 2**53 or value != int(value):
            shown = reprlib.repr(row[column])
            raise _NoRow(f"has the step {shown}, no whole number from 0 on and below 2^53")
        return int(value)


def _number(cell: Any) -> float | None:
    try:
        return as_float(cell)
    except (TypeError, ValueError):
        return None
