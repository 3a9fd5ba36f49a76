"""A monitor at work inside a training: what the Trainer's callback and Accelerate's hook share.

A fault of the monitor never stops the training that it watches, and never passes silently: it is
one warning, and from then on the watch abstains.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import torch

from gmb_hf.benchmark.results import Results
from gmb_hf.files import clear_os_errors, write_text
from gmb_hf.monitor.monitor import AlarmMonitor
from gmb_hf.monitor.observing import Extra, ModelObserver
from gmb_hf.monitor.parts import Parts
from gmb_hf.monitor.reading import Reading, State
from gmb_hf.monitor.state import read_state
from gmb_hf.preregistration.lock import Lock
from gmb_hf.validation import InputError, choose

Action = Literal["log", "checkpoint", "pause", "stop"]
ACTIONS: tuple[str, ...] = get_args(Action)
"""log: say it; checkpoint: save one, too; pause: save one and end, to be resumed; stop: end."""

_THEN = {
    "log": "",
    "checkpoint": "; a checkpoint is saved",
    "pause": "; a checkpoint is saved and the training ends: resume from it to go on",
    "stop": "; the training ends",
}
LOG_FILE = "gmb_monitor.jsonl"
PREVIOUS_LOG = "gmb_monitor.previous.jsonl"
STATE_FILE = "gmb_monitor.json"
_Made = TypeVar("_Made")
logger = logging.getLogger(__name__)


class RunWatch:
    """Measures a model at every checkpoint, reads the monitor, and says what is to be done.

    Args:
        lock, results, act, show, target, system: as in `AlarmMonitor`; by default nothing is
            shown that may not act, since measuring costs.
        action: what the first alarm does.
        heldout, train, parts, extra: as in `ModelObserver`.

    Attributes:
        last: the latest reading; None before the first.
        step: the latest checkpoint, on any process; None before the first.
        acted: the step of the alarm that was acted upon; None before.
        failed: why the monitor gave up; None while it works.

    Raises:
        InputError: the lock and the results do not let it act as asked, or an observable cannot be
            measured from what was given.
    """

    def __init__(
        self,
        lock: Lock | str | Path,
        results: Results | str | Path | None,
        *,
        action: Action = "log",
        heldout: Any = None,
        train: Any = None,
        parts: Parts | None = None,
        extra: Extra | None = None,
        act: Sequence[str] | None = None,
        show: Sequence[str] = (),
        target: float | None = None,
        system: Mapping[str, Any] | None = None,
    ) -> None:
        self.action = choose("action", action, ACTIONS)
        self.monitor = AlarmMonitor(lock, results, act=act, show=show, target=target, system=system)
        self._observer = ModelObserver(
            (*self.monitor.needs, *self.monitor.shown_needs),
            heldout=heldout,
            train=train,
            parts=parts,
            extra=extra,
        )
        self.last: Reading | None = None
        self.step: int | None = None
        self.acted: int | None = None
        self.failed: str | None = None
        self._log: Path | None = None
        self._told: State | None = None

    @property
    def state(self) -> State:
        """CLEAR, ALARM or ABSTAIN as of the latest checkpoint."""
        return "ABSTAIN" if self.failed or self.last is None else self.last.state

    def is_due(self, step: int) -> bool:
        """Whether a checkpoint is read after so many updates."""
        return step % self.monitor.cadence == 0

    def begin(self, folder: Path) -> None:
        """Say where the log of readings goes, and once what is not promised."""
        self._log = folder / LOG_FILE
        for note in self.monitor.notes:
            logger.warning("%s", note)

    def check(self, model: torch.nn.Module, step: int) -> bool:
        """Read the checkpoint after so many updates; whether its alarm is to be acted upon."""
        reading = self._attempt(step, lambda: self._read(model, step))
        if reading is None:
            return False
        self.last = reading
        acts = reading.state == "ALARM" and self.acted is None
        self._tell(reading, _THEN[self.action] if acts else "")
        self.acted = step if acts else self.acted
        return acts

    def remember(self, model: torch.nn.Module, step: int) -> None:
        """Keep what the next checkpoint needs of the weights before its last update."""
        if self._observer.remembers and self.is_due(step + 1):
            self._attempt(step, lambda: self._observer.remember(model))

    def keep(self, path: Path, step: int) -> None:
        """Write the state to a file."""
        state = self.state_dict()
        self._attempt(step, lambda: write_text(path, json.dumps(state, allow_nan=False) + "\n"))

    def resume(self, source: Path | Mapping[str, Any], step: int) -> None:
        """Go on from a state, or from the file that `keep` wrote.

        A watch that missed the beginning has no say: without the state it abstains.
        """

        def load() -> None:
            state = read_state(source) if isinstance(source, Path) else source
            self.load_state_dict(state, where=str(source) if isinstance(source, Path) else "state")

        self._attempt(step, load)

    def state_dict(self) -> dict[str, Any]:
        """All that the watch remembers of the run, as plain data that JSON can hold."""
        guessed = self._observer.predictions
        return {
            "monitor": self.monitor.state_dict(),
            "step": self.step,
            "acted": self.acted,
            "failed": self.failed,
            "predictions": None if guessed is None else guessed.tolist(),
        }

    def load_state_dict(self, state: Mapping[str, Any], *, where: str = "state") -> None:
        """Go on from what `state_dict` gave.

        Raises:
            InputError: it is of another lock or target, of other indicators, or no state.
        """
        if not {"monitor", "step", "acted", "failed", "predictions"} <= dict(state).keys():
            raise InputError(f"{where}: is not the state of a watched training")
        self.monitor.load_state_dict(state["monitor"], where=where)
        self.step, self.acted, self.failed = state["step"], state["acted"], state["failed"]
        guessed = state["predictions"]
        self._observer.predictions = None if guessed is None else torch.tensor(guessed)
        if self.failed is not None:
            logger.warning("the monitor had failed before, and abstains: %s", self.failed)

    def _read(self, model: torch.nn.Module, step: int) -> Reading:
        columns = self._observer.measure(model, step)
        reading = self.monitor.update(step=step, **columns)
        self._write(reading, columns)
        return reading

    def _write(self, reading: Reading, columns: Mapping[str, float]) -> None:
        numbers = {**columns, **{f"{one.name}.score": one.score for one in reading.rulers}}
        shown = {name: x if math.isfinite(x) else None for name, x in numbers.items()}
        if reading.step == 0 and self._log is not None and self._log.exists():
            self._log.replace(self._log.with_name(PREVIOUS_LOG))  # of another training
        self._append(
            {"step": reading.step, **shown, "state": reading.state, "reason": reading.reason}
        )

    def _append(self, row: Mapping[str, Any]) -> None:
        if self._log is None:
            return
        with clear_os_errors(self._log):
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def _tell(self, reading: Reading, then: str) -> None:
        if reading.state == self._told and not then:
            return
        level = logging.INFO if reading.state == "CLEAR" else logging.WARNING
        message = f"step {reading.step}: {reading.state}: {reading.reason}{then}"
        logger.log(level, "%s", message)
        self._told = reading.state

    def _attempt(self, step: int, work: Callable[[], _Made]) -> _Made | None:
        """Whatever goes wrong in it, the training goes on; nothing is tried once it has."""
        if self.failed is not None:
            return None
        try:
            return work()
        except Exception as error:
            self._give_up(error, step)
            return None

    def _give_up(self, error: Exception, step: int) -> None:
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        self.failed = kind + " ".join(str(error).split())
        unwritten = ""
        try:
            self._append({"step": step, "state": "ABSTAIN", "reason": self.failed})
        except Exception as second:  # the disk may be what failed
            unwritten = f"; nor can it be written: {second}"
        message = f"step {step}: the monitor failed and abstains from now on, the training goes on"
        logger.warning("%s: %s%s", message, self.failed, unwritten)
