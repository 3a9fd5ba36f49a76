"""The alarm inside a training: a callback of transformers' Trainer, and a hook for Accelerate.

    trainer.add_callback(GMBCallback("lock.yaml", "results.yaml", system=task, heldout=rows))

    watched = watch(accelerator, model, "lock.yaml", "results.yaml", system=task, heldout=rows)
    watched.step(0)
    for step, batch in enumerate(loader, start=1):
        ...
        optimizer.step()
        watched.step(step)
        if watched.should_stop:
            break

A step is an update of the optimizer, however many batches it is made of. With several processes the
main one measures and decides, and all of them stop together.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_args

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, extract_model_from_parallel
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from gmb_hf.base.errors import InputError, choose
from gmb_hf.base.files import clear_os_errors
from gmb_hf.benchmark.results import Results
from gmb_hf.design.lock import Lock
from gmb_hf.monitor.monitor import Accept, AlarmMonitor, read_state, write_state
from gmb_hf.monitor.observe import Extra, ModelObserver, Parts, seen_system
from gmb_hf.monitor.reading import Reading, State, Unit
from gmb_hf.training.tracking import Tracking, installed

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
Track = Callable[[dict[str, float], int], object]
"""Adds numbers at a step to a tracker."""
_Made = TypeVar("_Made")
logger = logging.getLogger(__name__)


class MonitorOptions(TypedDict, total=False):
    """What `AlarmMonitor` can be given beside lock and results, and what to show."""

    act: Sequence[str] | None
    unit: Unit
    budget: float | None
    target: float | None
    accept: Accept
    system: Mapping[str, Any] | Literal["as locked"] | None


class WatchOptions(MonitorOptions, total=False):
    """What `RunWatch` can be given."""

    action: Action
    heldout: Any
    train: Any
    parts: Parts | None
    extra: Extra | None
    show: Sequence[str]
    on_alarm: Callable[[Reading], object] | None


class RunWatch:
    """Measures a model at every checkpoint, reads the monitor, and says what is to be done.

    Args:
        lock, results: as in `AlarmMonitor`.
        action: what the first alarm does.
        heldout, train, parts, extra: as in `ModelObserver`.
        show: others to read along; by default nothing that may not act, since measuring costs.
        on_alarm: called once, with the reading that raises the alarm.
        options: act, unit, budget, target, accept, system, as in `AlarmMonitor`.

    Attributes:
        last: the latest reading; None before the first.
        step: the latest checkpoint, on any process; None before the first.
        acted: the step of the alarm that was acted upon; None before.
        failed: why the monitor gave up; None while it works.
        track: what is told every reading as numbers, with its step; None: nothing.

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
        show: Sequence[str] = (),
        on_alarm: Callable[[Reading], object] | None = None,
        **options: Unpack[MonitorOptions],
    ) -> None:
        self.action = choose("action", action, ACTIONS)
        self._on_alarm = on_alarm
        self.monitor = AlarmMonitor(lock, results, show=show, **options)
        self.monitor.see({})  # what there is to see comes with each checkpoint
        needs = (*self.monitor.needs, *self.monitor.shown_needs)
        given = {"heldout": heldout, "train": train, "parts": parts, "extra": extra}
        self._observer = ModelObserver(needs, **given)
        self.last: Reading | None = None
        self.step: int | None = None
        self.acted: int | None = None
        self.failed: str | None = None
        self._log: Path | None = None
        self._told: State | None = None
        self.track: Track | None = None

    @property
    def state(self) -> State:
        """CLEAR, ALARM or ABSTAIN as of the latest checkpoint; a raised alarm stands."""
        if self.acted is not None and self.monitor.rule.unit == "run":
            return "ALARM"
        return "ABSTAIN" if self.failed or self.last is None else self.last.state

    def is_due(self, step: int) -> bool:
        """Whether a checkpoint is read after so many updates."""
        return step % self.monitor.cadence == 0

    def begin(self, folder: Path) -> None:
        """Say where the log of readings goes, and once what is not promised."""
        self._log = folder / LOG_FILE
        logger.info("%s", self.monitor.rule.promise)
        for note in self.monitor.notes:
            logger.warning("%s", note)

    def check(self, model: torch.nn.Module, step: int, optimizer: Any = None) -> bool:
        """Read the checkpoint after so many updates; whether its alarm is to be acted upon."""
        reading = self._attempt(step, lambda: self._read(model, step, optimizer))
        if reading is None:
            return False
        self.last = reading
        acts = reading.state == "ALARM" and self.acted is None
        if acts or reading.state != self._told:
            level = logging.INFO if reading.state == "CLEAR" else logging.WARNING
            then = _THEN[self.action] if acts else ""
            logger.log(level, "step %s: %s: %s%s", step, reading.state, reading.reason, then)
            self._told = reading.state
        self.acted = step if acts else self.acted
        if acts and (call := self._on_alarm) is not None:
            self._attempt(step, lambda: call(reading))
        return acts

    def remember(self, model: torch.nn.Module, step: int) -> None:
        """Keep what the next checkpoint needs of the weights before its last update."""
        if self._observer.remembers and self.is_due(step + 1):
            self._attempt(step, lambda: self._observer.remember(model))

    def keep(self, path: Path, step: int) -> None:
        """Write the state to a file."""
        self._attempt(step, lambda: write_state(path, self.state_dict()))

    def resume(self, source: Path | Mapping[str, Any], step: int) -> None:
        """Go on from a state, or from the file that `keep` wrote.

        A watch that missed the beginning has no say: without the state it abstains.
        """
        if isinstance(source, Path):
            self._attempt(step, lambda: self.load_state_dict(read_state(source), where=str(source)))
        else:
            self._attempt(step, lambda: self.load_state_dict(source))

    def state_dict(self) -> dict[str, Any]:
        """All that the watch remembers of the run, as plain data that JSON can hold.

        Of a watch that has failed it is why.
        """
        guessed = self._observer.predictions
        monitor = self._attempt(self.step or 0, self.monitor.state_dict)
        return {
            "monitor": monitor,
            "step": self.step,
            "acted": self.acted,
            "failed": self.failed,
            "predictions": None if guessed is None else guessed.tolist(),
        }

    def load_state_dict(self, state: Mapping[str, Any], *, where: str = "state") -> None:
        """Go on from what `state_dict` gave; `InputError` as `AlarmMonitor.load_state_dict`."""
        if not {"monitor", "step", "acted", "failed", "predictions"} <= dict(state).keys():
            raise InputError(f"{where}: is not the state of a watched training")
        self.step, self.acted, self.failed = state["step"], state["acted"], state["failed"]
        if self.failed is None:
            self.monitor.load_state_dict(state["monitor"], where=where)
        guessed = state["predictions"]
        self._observer.predictions = None if guessed is None else torch.tensor(guessed)
        if self.failed is not None:
            logger.warning("the monitor had failed before, and abstains: %s", self.failed)

    def _read(self, model: torch.nn.Module, step: int, optimizer: Any) -> Reading:
        self.monitor.see(seen_system(model, optimizer))
        columns = self._observer.measure(model, step)
        reading = self.monitor.update(step=step, **columns)
        numbers = {**columns, **{f"{one.name}.score": one.score for one in reading.indicators}}
        shown = {name: x if math.isfinite(x) else None for name, x in numbers.items()}
        if step == 0 and self._log is not None and self._log.exists():
            self._log.replace(self._log.with_name(PREVIOUS_LOG))  # of another training
        row = {"step": step, **shown, "state": reading.state, "reason": reading.reason}
        self._append(row | ({"basis": "shown"} if self.monitor.transferred else {}))
        self._tell(reading, numbers)
        return reading

    def _tell(self, reading: Reading, numbers: Mapping[str, float]) -> None:
        """Show a tracker the state, the scores and their thresholds, as far as they are finite.

        A tracker that fails is told no more; the monitor works on.
        """
        if self.track is None:
            return
        told: dict[str, float] = {
            **numbers,
            **{f"{one.name}.threshold": one.threshold for one in reading.indicators},
            "alarm": reading.state == "ALARM",
            "abstain": reading.state == "ABSTAIN",
        }
        finite = {f"monitor/{name}": float(x) for name, x in told.items() if math.isfinite(x)}
        try:
            self.track(finite, reading.step)
        except Exception as error:  # of a tracker: many kinds
            self.track = None
            reason = " ".join(str(error).split()) or type(error).__name__
            logger.warning("the tracker failed, and is told no more: %s", reason)

    def _append(self, row: Mapping[str, Any]) -> None:
        if self._log is None:
            return
        with clear_os_errors(self._log):
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def _attempt(self, step: int, work: Callable[[], _Made]) -> _Made | None:
        """Whatever goes wrong in it, the training goes on; nothing is tried once it has.

        Ctrl-C and a launcher's signal to stop are of the training, and pass.
        """
        if self.failed is not None:
            return None
        try:
            return work()
        except (Exception, SystemExit) as error:  # a measurement may be a script's
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            self.failed = kind + " ".join(str(error).split())
        unwritten = ""
        try:
            self._append({"step": step, "state": "ABSTAIN", "reason": self.failed})
        except Exception as error:  # the disk may be what failed
            unwritten = f"; nor can it be written: {error}"
        message = f"step {step}: the monitor failed and abstains from now on, the training goes on"
        logger.warning("%s: %s%s", message, self.failed, unwritten)
        return None


_SAVES = ("checkpoint", "pause")
_ENDS = ("pause", "stop")


class GMBCallback(TrainerCallback):  # type: ignore[misc]
    """Watches the model that a Trainer trains.

    Model and optimizer are compared with the lock's; `system` says what nobody can see, the task.

    Every checkpoint's observables, scores and state go to `gmb_monitor.jsonl` in the output folder;
    each of the Trainer's own checkpoints holds the state of the monitor, so that a resumed training
    is watched on.

    Args:
        lock, results: the lock and the held-out verdicts by it, or their files.
        options: as in `RunWatch`: action, on_alarm, heldout, train, parts, extra, act, show, unit,
            budget, target, system.
        track: tensorboard, trackio or wandb, to which state, scores and thresholds go as well:
            a run named `monitor` whose local files are in `trackers/` of the output folder.

    Attributes:
        watch: the monitor at work, with its `state`, its `last` reading and the step at which it
            `acted`.

    `InputError` as `RunWatch`.
    """

    def __init__(
        self,
        lock: Lock | str | Path,
        results: Results | str | Path | None,
        *,
        track: Sequence[str] = (),
        **options: Unpack[WatchOptions],
    ) -> None:
        self._trackers, notes = installed(track)
        for note in notes:
            logger.warning("%s", note)
        self._tracking: Tracking | None = None
        self.watch = RunWatch(lock, results, **options)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> TrainerControl:
        """Read the checkpoint at step 0, or go on where a resumed training stands."""
        step = state.global_step
        if state.is_world_process_zero:
            self.watch.begin(Path(args.output_dir))
            if self._trackers:
                self._track(Path(args.output_dir))
            if step:
                self.watch.resume(_state_path(args, step), step)
        if not step:
            self._check(state, control, given)
        return control

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> TrainerControl:
        """Read the checkpoint, where there is one after this update."""
        if self.watch.is_due(state.global_step):
            self._check(state, control, given)
        if state.is_world_process_zero:
            self.watch.remember(given["model"], state.global_step)
        return control

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Put the state of the monitor beside that of the training."""
        if state.is_world_process_zero:
            self.watch.keep(_state_path(args, state.global_step), state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Close the trackers."""
        if self._tracking is not None:
            self._tracking.close()

    def _track(self, folder: Path) -> None:
        design = {"lock": self.watch.monitor.lock.hash}
        tracking = Tracking(self._trackers, folder, project="gmb-monitor", config=design)
        self._tracking = tracking
        self.watch.track = lambda row, step: tracking.log(tracking.group, "monitor", step, row)

    def _check(
        self, state: TrainerState, control: TrainerControl, given: Mapping[str, Any]
    ) -> None:
        trained = given["model"], given.get("optimizer")
        if _agreed(self.watch, *trained, state.global_step, main=state.is_world_process_zero):
            control.should_save |= self.watch.action in _SAVES
            control.should_training_stop |= self.watch.action in _ENDS


class AcceleratedWatch:
    """Watches a training loop under Accelerate; `watch` is its short name.

    Its state is among what `accelerator.save_state` and `load_state` keep, and goes to the trackers
    that `accelerator.init_trackers` has begun, under `monitor/`.

    Args:
        accelerator: of the loop.
        model: a PreTrainedModel, before or after `accelerator.prepare`.
        lock, results: as in `GMBCallback`.
        folder: for `gmb_monitor.jsonl`, and for the state that an alarm saves (`alarm-STEP`).
        options: as in `RunWatch`, which raises `InputError`.

    Attributes:
        watch: as in `GMBCallback`.
        should_stop: whether the loop is to end now; the same on all processes.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        model: torch.nn.Module,
        lock: Lock | str | Path,
        results: Results | str | Path | None,
        *,
        folder: str | Path = ".",
        **options: Unpack[WatchOptions],
    ) -> None:
        self.watch = RunWatch(lock, results, **options)
        self.should_stop = False
        self._accelerator = accelerator
        self._model = accelerator.unwrap_model(model)
        self._folder = Path(folder)
        self.watch.track = lambda row, step: accelerator.log(row, step=step)
        if accelerator.is_main_process:
            self.watch.begin(self._folder)
        accelerator.register_for_checkpointing(self)

    def step(self, step: int) -> Reading | None:
        """After so many updates of the optimizer; the reading on the main process, if there is one.

        Call it with 0 before the first. The same step again, as between the batches of one
        update, does nothing.
        """
        accelerator = self._accelerator
        main = accelerator.is_main_process
        due = self.watch.is_due(step) and step != self.watch.step
        if due and _agreed(self.watch, self._model, self._optimizer(), step, main=main):
            self.should_stop = self.watch.action in _ENDS
            if self.watch.action in _SAVES:
                accelerator.save_state(str(self._folder / f"alarm-{step}"))
        if main:
            self.watch.remember(self._model, step)
        return self.watch.last if due and main else None

    def _optimizer(self) -> Any:
        """The one that `accelerator.prepare` was given, None where there is none or several."""
        prepared: list[Any] = getattr(self._accelerator, "_optimizers", [])
        return prepared[0] if len(prepared) == 1 else None

    def state_dict(self) -> dict[str, Any]:
        """For `accelerator.save_state`."""
        return self.watch.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """For `accelerator.load_state`."""
        self.watch.resume(state, self._accelerator.step)


watch = AcceleratedWatch


def _state_path(args: TrainingArguments, step: int) -> Path:
    """In the folder of the Trainer's checkpoint after so many updates."""
    return Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{step}" / STATE_FILE


def _agreed(run: RunWatch, model: Any, optimizer: Any, step: int, *, main: bool) -> bool:
    """Whether this checkpoint's alarm is to be acted upon; the main process tells the others."""
    run.step = step
    acts = [run.check(extract_model_from_parallel(model), step, optimizer) if main else False]
    return bool(broadcast_object_list(acts)[0])
