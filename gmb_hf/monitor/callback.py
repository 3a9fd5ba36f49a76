"""The alarm inside a training: a callback of transformers' Trainer, and a hook for Accelerate.

    trainer.add_callback(GMBCallback("lock.yaml", "results.yaml", action="pause", heldout=rows))

    watched = watch(accelerator, model, "lock.yaml", "results.yaml", action="stop", heldout=rows)
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

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, extract_model_from_parallel
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from gmb_hf.monitor.reading import Reading
from gmb_hf.monitor.run_watch import STATE_FILE, RunWatch

_SAVES = ("checkpoint", "pause")
_ENDS = ("pause", "stop")


class GMBCallback(TrainerCallback):  # type: ignore[misc]
    """Watches the model that a Trainer trains.

    Every checkpoint's observables, scores and state go to `gmb_monitor.jsonl` in the output folder;
    each of the Trainer's own checkpoints holds the state of the monitor, so that a resumed training
    is watched on.

    Args:
        lock: the lock, or its file.
        results: the held-out verdicts by it, or their file.
        options: as in `RunWatch`: action, heldout, train, parts, extra, act, show, target, system.

    Attributes:
        watch: the monitor at work, with its `state`, its `last` reading and the step at which it
            `acted`.

    Raises:
        InputError: the lock and the results do not let it act as asked, or an observable cannot be
            measured from what was given (held-out rows are missing).
    """

    def __init__(self, lock: Any, results: Any, **options: Any) -> None:
        self.watch = RunWatch(lock, results, **options)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **given: Any,
    ) -> TrainerControl:
        """Read the checkpoint at step 0, or go on where a resumed training stands."""
        step = state.global_step
        if state.is_world_process_zero:
            self.watch.begin(Path(args.output_dir))
            if step:
                self.watch.resume(_state_path(args, step), step)
        if not step:
            self._check(state, control, given["model"])
        return control

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **given: Any,
    ) -> TrainerControl:
        """Read the checkpoint, where there is one after this update."""
        if self.watch.is_due(state.global_step):
            self._check(state, control, given["model"])
        if state.is_world_process_zero:
            self.watch.remember(given["model"], state.global_step)
        return control

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Put the state of the monitor beside that of the training."""
        if state.is_world_process_zero:
            self.watch.keep(_state_path(args, state.global_step), state.global_step)

    def _check(self, state: TrainerState, control: TrainerControl, model: Any) -> None:
        if not _agreed(self.watch, model, state.global_step, main=state.is_world_process_zero):
            return
        control.should_save |= self.watch.action in _SAVES
        control.should_training_stop |= self.watch.action in _ENDS


class AcceleratedWatch:
    """Watches a training loop under Accelerate; `watch` makes it.

    Its state is among what `accelerator.save_state` and `load_state` keep.

    Attributes:
        watch: the monitor at work, with its `state`, its `last` reading and the step at which it
            `acted`.
        should_stop: whether the loop is to end now; the same on all processes.
    """

    def __init__(
        self, accelerator: Accelerator, model: torch.nn.Module, run: RunWatch, folder: Path
    ) -> None:
        self.watch = run
        self.should_stop = False
        self._accelerator = accelerator
        self._model = accelerator.unwrap_model(model)
        self._folder = folder
        if accelerator.is_main_process:
            run.begin(folder)
        accelerator.register_for_checkpointing(self)

    def step(self, step: int) -> Reading | None:
        """After so many updates of the optimizer; the reading on the main process, if there is one.

        Call it with 0 before the first. The same step again, as between the batches of one
        update, does nothing.
        """
        accelerator = self._accelerator
        main = accelerator.is_main_process
        due = self.watch.is_due(step) and step != self.watch.step
        if due and _agreed(self.watch, self._model, step, main=main):
            self.should_stop = self.watch.action in _ENDS
            if self.watch.action in _SAVES:
                accelerator.save_state(str(self._folder / f"alarm-{step}"))
        if main:
            self.watch.remember(self._model, step)
        return self.watch.last if due and main else None

    def state_dict(self) -> dict[str, Any]:
        """For `accelerator.save_state`."""
        return self.watch.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """For `accelerator.load_state`."""
        self.watch.resume(state, self._accelerator.step)


def watch(
    accelerator: Accelerator,
    model: torch.nn.Module,
    lock: Any,
    results: Any,
    *,
    folder: str | Path = ".",
    **options: Any,
) -> AcceleratedWatch:
    """Watch a training loop under Accelerate.

    Args:
        accelerator: of the loop.
        model: a PreTrainedModel, before or after `accelerator.prepare`.
        lock, results: as in `GMBCallback`.
        folder: for `gmb_monitor.jsonl`, and for the state that an alarm saves (`alarm-STEP`).
        options: as in `RunWatch`.

    Raises:
        InputError: as `GMBCallback`.
    """
    return AcceleratedWatch(accelerator, model, RunWatch(lock, results, **options), Path(folder))


def _state_path(args: TrainingArguments, step: int) -> Path:
    """In the folder of the Trainer's checkpoint after so many updates."""
    return Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{step}" / STATE_FILE


def _agreed(run: RunWatch, model: Any, step: int, *, main: bool) -> bool:
    """Whether this checkpoint's alarm is to be acted upon; the main process tells the others."""
    run.step = step
    acts = [run.check(extract_model_from_parallel(model), step) if main else False]
    return bool(broadcast_object_list(acts)[0])
