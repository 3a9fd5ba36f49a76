"""A run watched from another process, by the log that it writes.

The log may not be there yet, may be cut to nothing and begun again, may be moved away and replaced
(logrotate does both), and its last line may be half written when it is read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self

import pyarrow as pa

from gmb_hf.base.errors import InputError, choose
from gmb_hf.base.files import open_file
from gmb_hf.monitor.monitor import AlarmMonitor, claim_state, read_state, write_state
from gmb_hf.monitor.reading import Reading
from gmb_hf.runs.columns import KEYS, RUN, SEED, STEP, STEP_NAMES, RawTable, Wanted, typed_columns
from gmb_hf.runs.readers import reader_of, table_of, text_rows
from gmb_hf.runs.rows import JsonRows, Lines, LogLine, LogRow, RowFault

ENDED_BY = {
    "alarm": "an alarm was raised",
    "until": "its last step was reached",
    "pid": "the process that trains has ended",
    "idle": "nothing more was written",
}
"""Why a watch ended."""
POLL_SECONDS = 0.5
_FIRST, _STEP, _MONITOR = "first_checkpoint", "step", "monitor"  # of the state file
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

    `rule`: unit, budget, target and accept, as in `AlarmMonitor`.
    """
    return AlarmMonitor(lock, results, act=act, **rule)


class LogWatch:
    """One log under watch; use it as a context manager.

    Args:
        monitor: a new one; it goes on from what `state` holds.
        log: a JSONL or CSV file, also compressed (.gz); it may not be there yet.
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
            str(log),
            needs=monitor.needs,
            also=monitor.shown_needs,
            cadence=monitor.cadence,
            run=run,
            step_column=step_column,
        )
        self._unsaved = False
        self._first: dict[str, str] | None = None
        self._step: int | None = None  # up to where the run was seen
        self.state = state
        self._claim = claim_state(state)
        try:
            self._load(state)
        except InputError:
            self._claim.close()
            raise
        self._seen_to: int | None = self._step

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._claim.close()

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
                    checkpoints += self._rows.checkpoints(file.unfinished)
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
        self, checkpoints: Sequence[LoggedCheckpoint], viewer: Viewer, until: int | None
    ) -> str | None:
        """Read checkpoints up to the one that ends the watch; why it does, if one does."""
        ended = None
        before = self._step
        for checkpoint in checkpoints:
            if (reading := self._read(checkpoint)) is not None:
                viewer.reading(reading)
                ended = "alarm" if reading.state == "ALARM" else None
            if ended is None and until is not None and checkpoint.step >= until:
                ended = "until"
            if ended is not None:
                break
        if ended is None and self.monitor.alarm is not None:
            ended = "alarm"
        if self._step != before:
            held = {_FIRST: self._first, _STEP: self._step, _MONITOR: self.monitor.state_dict()}
            try:
                write_state(self.state, held)
            except InputError as error:  # a full disk is no reason to stop watching
                if not self._unsaved:
                    viewer.note(f"{error}; until then a monitor that is started again lacks this")
                self._unsaved = True
        for note in self._rows.notes:
            viewer.note(note)
        self._rows.notes.clear()
        return ended

    def _read(self, checkpoint: LoggedCheckpoint) -> Reading | None:
        """The answer at a checkpoint; None where it was seen before, or the alarm was raised.

        Another run than the one that is watched is refused: it tells itself by its first row.
        """
        needs = {name: checkpoint.columns.get(name) for name in self.monitor.needs}
        known = {name: str(value) for name, value in {"step": checkpoint.step, **needs}.items()}
        self._first = known if self._first is None else self._first
        if self._first.get("step") == known["step"] and self._first != known:
            raise InputError(
                f"{self._log}: line {checkpoint.line}: another run begins here than the one that "
                f"was watched; to watch it, delete {self.state} and start again"
            )
        if checkpoint.begins:
            self._seen_to = self._step
        if self._seen_to is not None and checkpoint.step <= self._seen_to:
            return None
        if self.monitor.alarm is not None:
            return None
        self._seen_to = None
        try:
            self.last = self.monitor.update(step=checkpoint.step, **checkpoint.columns)
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
    def unfinished(self) -> list[LogLine]:
        """What stands after the last complete line: a line, or none."""
        return self._lines.unfinished

    def poll(self) -> list[LogLine]:
        """The lines that were completed since the last call; none while there is no file."""
        lines: list[LogLine] = []
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
            self._file = open_file(self.path)
        except InputError as error:
            if error.code == "no_such_file":
                return lines
            raise
        self._forget()
        return lines + self._new_lines(self._file)

    def _forget(self) -> None:
        self._head = b""
        self._lines = Lines(self.path)

    def _new_lines(self, file: BinaryIO) -> list[LogLine]:
        content = file.read()
        self._head = (self._head + content)[:_HEAD]
        return self._lines.feed(content)


@dataclass(frozen=True)
class LoggedCheckpoint:
    """The numbers of one step by column; a cell without a number is not there.

    `line` is where its last row stands, `begins` whether the file began anew with it.
    """

    step: int
    columns: Mapping[str, float]
    line: int
    begins: bool


class GrowingRows:
    """Lines to checkpoints.

    A row is read as `RunLog.read` reads it, and what is wrong with it is said in the same words.

    Args:
        where: the file, whose name tells its format, for messages.
        needs: columns that make a checkpoint complete; with all of them it waits for no other row.
        also: further columns to read.
        cadence: steps between checkpoints; rows between them that have none of `needs` are other
            logging.
        run: which run to follow where the log holds several.
        step_column: its name.

    Attributes:
        notes: what was passed over since they were last looked at, a line each.

    Raises:
        InputError: the log is of a format that cannot be followed.
    """

    def __init__(
        self,
        where: str,
        *,
        needs: Sequence[str],
        also: Sequence[str] = (),
        cadence: int | None = None,
        run: str | None = None,
        step_column: str = STEP,
    ) -> None:
        self.notes: list[str] = []
        self._where = where
        self._rows = text_rows(Path(where))
        self._needs = frozenset(needs) - {STEP}
        self._columns = tuple(sorted({*needs, *also} - {STEP}))
        self._cadence = cadence or 1
        self._run = run
        self._run_given = run is not None
        self._seen_runs: set[str] = set()
        self._step_column = step_column
        self._keys: dict[str, None] = {}  # columns of runs and steps that rows had so far
        self._read_any = False
        self._begins = False
        self._pending: LoggedCheckpoint | None = None
        self._done: int | None = None  # the step that was handed over last

    def checkpoints(self, lines: Sequence[LogLine]) -> list[LoggedCheckpoint]:
        """The checkpoints that these lines complete.

        Raises:
            InputError: the file is no log of this kind, lacks the steps, or holds several runs.
        """
        found: list[LoggedCheckpoint] = []
        read: list[LogRow | RowFault] = []
        for line in lines:
            if line.begins:
                found += [*self._take(read), *self.rest()]
                read, self._rows = [], text_rows(Path(self._where))
                self._begins, self._done = True, None
                self._keys.clear()
            read += self._rows.feed(line)
        return found + self._take(read)

    def rest(self) -> list[LoggedCheckpoint]:
        """What waits for more: a row for its last line, and a checkpoint for rows of its step."""
        return [*self._take(self._rows.finish()), *self._handed_over()]

    def check_run(self) -> None:
        """Refuse a run that was asked for and is not in the log."""
        if self._run_given:
            choose("run", str(self._run), tuple(self._seen_runs), where=self._where)

    def _take(self, read: Sequence[LogRow | RowFault]) -> list[LoggedCheckpoint]:
        found: list[LoggedCheckpoint] = []
        rows: list[LogRow] = []
        for item in read:
            if isinstance(item, RowFault):
                found += self._of_rows(rows, self._columns)
                rows = []
                self._pass_over(item)
            else:
                rows.append(item)
        return found + self._of_rows(rows, self._columns)

    def _of_rows(self, rows: Sequence[LogRow], columns: Collection[str]) -> list[LoggedCheckpoint]:
        """The checkpoints that rows complete; where one is wrong each is read by itself."""
        if not rows:
            return []
        try:
            table = self._typed(rows, columns)
        except InputError as error:
            if len(rows) > 1:
                return [one for row in rows for one in self._of_rows([row], columns)]
            cell = error.location.get("column")
            if cell in columns and error.code in ("bad_cell", "not_numbers"):
                self.notes.append(f"{error}; passed over")
                return self._of_rows(rows, [name for name in columns if name != cell])
            self._pass_over(error, rows[0])
            return []
        self._read_any = True
        found = []
        for row, cells in zip(rows, table.to_pylist(), strict=True):
            if self._is_of_run(cells.pop(RUN)):
                numbers = {name: value for name, value in cells.items() if value is not None}
                found += self._add(numbers.pop(STEP), numbers, row.line)
        return found

    def _typed(self, rows: Sequence[LogRow], columns: Collection[str]) -> pa.Table:
        """The rows as a table of runs, steps and observables, by the rules of run logs."""
        cells = [{**self._keys, **row.cells} for row in rows]
        raw = RawTable(
            table_of(cells, self._where),
            self._where,
            lambda at: f"line {rows[at].line}",
            growing=True,
        )
        held = tuple(name for name in columns if name in raw.names)
        wanted = Wanted(self._step_column, columns=held)
        table, _ = typed_columns(raw, wanted, run_name="")
        keys = {self._step_column, *STEP_NAMES, *KEYS}
        self._keys |= dict.fromkeys(name for name in raw.names if name in keys)
        return table.select([name for name in table.column_names if name != SEED])

    def _pass_over(self, fault: InputError, row: LogRow | None = None) -> None:
        """Note what is wrong with a row; raise it where it is wrong with the file."""
        in_line = "place" in fault.location or isinstance(self._rows, JsonRows)
        if not (self._read_any and in_line):
            if fault.code == "not_json" and reader_of(Path(self._where)) is None:
                raise fault.reworded(f"{fault}; name a log of JSON lines, or a .csv file")
            raise fault
        what = str(fault).removeprefix(f"{self._where}: ")
        place = f"line {row.line}: " if row and "place" not in fault.location else ""
        self.notes.append(f"{self._where}: {place}{what}; passed over")

    def _handed_over(self) -> list[LoggedCheckpoint]:
        held, self._pending = self._pending, None
        self._done = self._done if held is None else held.step
        return [] if held is None else [held]

    def _add(self, step: int, columns: dict[str, float], line: int) -> list[LoggedCheckpoint]:
        other = step % self._cadence and not self._needs & columns.keys()
        if other or step == self._done:
            return []
        found = []
        if self._pending is not None and self._pending.step == step:
            columns = {**self._pending.columns, **columns}
        else:
            found = self._handed_over()
        self._pending = LoggedCheckpoint(step, columns, line, self._begins)
        self._begins = False
        return found + self._handed_over() if self._needs <= columns.keys() else found

    def _is_of_run(self, name: str) -> bool:
        if RUN not in self._keys:
            return True
        self._seen_runs.add(name)
        self._run = name if self._run is None else self._run
        if name != self._run and not self._run_given:
            what = f"holds several runs ({self._run}, {name}); say which with --run"
            raise InputError.at(self._where, "several_runs", what)
        return name == self._run
