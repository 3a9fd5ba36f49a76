"""Train the seeds of a config into a folder of run logs; resume where it stopped.

    OUT/config.yaml                       what is trained; another config is refused
    OUT/logs/seeds-0-35-n36.parquet       the finished log of a group of seeds
    OUT/models/seed_7/                    a model that was to be kept (`kept`)
    OUT/state/seeds-36-71-n36.safetensors a group that is under way

The same command goes on from what is there. A group's log appears at once and whole, and its
state disappears only then, so nothing is lost or done twice whenever the process dies.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from accelerate import Accelerator
from datasets import Dataset, concatenate_datasets
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from gmb_hf._version import __version__
from gmb_hf.base.errors import InputError, choose
from gmb_hf.modeling import GrokkingTransformerForCausalLM
from gmb_hf.modeling.mixers import own_parameter_names
from gmb_hf.runs.metadata import SYSTEM
from gmb_hf.runs.runlog import RunLog
from gmb_hf.tasks.task import IGNORED
from gmb_hf.training import checkpoints, gradients, launch
from gmb_hf.training.activations import CopyingHeads
from gmb_hf.training.config import ENGINES, RunConfig
from gmb_hf.training.folder import check_training, finished_seeds, log_paths, refuse_gone
from gmb_hf.training.observables import Observer, about_loops
from gmb_hf.training.recorders import Recorder, Seldom, under, within
from gmb_hf.training.representations import Representations
from gmb_hf.training.settings import config_hash
from gmb_hf.training.spectra import CostlySpectra, Spectra
from gmb_hf.training.stacked import SeedStack, adamw, initial_model, model_config, stackable, wanted
from gmb_hf.training.tracking import SeedTracking, Tracking, installed
from gmb_hf.training.units import Units

logger = logging.getLogger(__name__)

# The recorders of published signals; `training.observables` of a config says which it has.

CHEAP: tuple[type[Recorder], ...] = (Spectra, Representations, Units, gradients.Gradients)
"""Those of "published": each signal costs fewer than ten gradients at a checkpoint."""

DEAR: tuple[type[Recorder], ...] = (
    CostlySpectra,
    gradients.Hessian,
    gradients.TangentKernel,
    gradients.Perturbations,
    gradients.LearningCoefficient,
)
"""Those that "all" has too, at every `training.dear_every` checkpoints."""


def recorders_of(stack: SeedStack) -> list[Recorder]:
    """What the config of a stack asks for beside the usual observables, at step 0.

    In-context tasks always have the attention of heads that copy.
    """
    training = stack.config.training
    found: list[Recorder] = [CopyingHeads(stack)]
    if training.observables != "usual":
        found += [kind(stack) for kind in CHEAP]
    if training.observables == "all":
        found += [Seldom(kind(stack), training.dear_every) for kind in DEAR]
    return found


class TrainingCallback:
    """Records extra measurements while a stack of S seeds is trained. A base class: nothing."""

    def __init__(self, stack: SeedStack) -> None:
        """Begin with a stack at step 0."""

    def measure(self, train_acc: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """What a checkpoint adds to the run log, each [S]; accuracies on training rows, [S]."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """Everything needed to resume; called after `measure` only."""
        return {}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""

    def finish(self) -> None:
        """Write the results. The log is written afterwards, so this may be called a second time."""


@dataclass(frozen=True)
class Callbacks:
    """Callbacks that record extra measurements: `begin` makes one for a stack at step 0.

    `about` says what they do, as plain data: part of the folder's config and of the logs' metadata.
    """

    begin: Callable[[SeedStack], TrainingCallback] = TrainingCallback
    about: Mapping[str, Any] = field(default_factory=dict)


SAVE_EVERY_SECONDS = 15.0
WORTH_HALVING = 8  # seeds: a smaller group takes as long with half of them
_CALLBACK = "companion"  # before the names of its tensors in a saved state
_OBSERVER = "observer"


def train_stacked(
    config: RunConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    listener: launch.Listener | None = None,
    device: str = "cpu",
    callbacks: Callbacks | None = None,
    keep: Sequence[int] = (),
    jobs: int | None = 1,
) -> list[Path]:
    """Train every seed that has no log in `out` yet, and return the files of all logs.

    Args:
        config: what to train; `seeds_at_once` of it are stacked.
        seeds: which seeds the folder shall hold at the end.
        out: the folder, as described above.
        listener: hears of the progress.
        device: where to train, "cpu" or "cuda".
        callbacks: what else is measured, if anything.
        keep: seeds whose models are kept.
        jobs: how many groups are trained at a time, in as many processes; None for one a core on a
            CPU. More than one needs callbacks that can be pickled, and in a script of yours the
            guard `if __name__ == "__main__":`.

    `InputError` where the folder belongs to another config or cannot be written to, a model to keep
    is gone, or a process was killed.
    """
    training = config.training
    # From all groups, not from those that are left: a run that is resumed has the same threads.
    jobs = launch.parallel_jobs(jobs, math.ceil(len(seeds) / training.seeds_at_once), device)
    folder, callbacks = Path(out), callbacks or Callbacks()
    done = check_folder(folder, config, callbacks.about)
    refuse_gone(folder, keep, done)
    each: Any = {"device": device, "keep": keep, "callbacks": callbacks}
    each |= {"config": config, "folder": folder, "compiled": wanted(config, len(seeds))}
    pending = pending_groups(config, seeds, folder, done)
    while pending:  # a group that is halved leaves another one
        groups = [partial(train_group, seeds=group, **each) for group in pending]
        launch.train_groups(groups, listener, jobs=jobs)
        done = finished_seeds(folder)
        pending = pending_groups(config, seeds, folder, done) if training.stop_after else []
    # Groups may overlap; this removes the states of those whose seeds have all finished.
    saved_states(folder, config).waiting(done)
    return log_paths(folder)


def check_folder(
    folder: Path, config: RunConfig, about: Mapping[str, Any] | None = None
) -> set[int]:
    """Note in the folder what is trained and measured there, or check it, as `check_training`.

    `InputError` also where there is no model of this config; then the folder is not touched.
    """
    model_config(config)
    return check_training(folder, config, about)


def saved_states(folder: Path, config: RunConfig) -> checkpoints.States:
    """The states of the groups that are under way in a folder."""
    return checkpoints.States(folder / "state", config.training_hash())


def pending_groups(
    config: RunConfig, seeds: Sequence[int], folder: Path, finished: Collection[int]
) -> list[tuple[int, ...]]:
    """The groups still to train, as `States.pending` gives them of each task and shape."""
    states, at_once = saved_states(folder, config), config.training.seeds_at_once
    parts = [states.pending(part, finished, at_once=at_once) for part in stackable(config, seeds)]
    return [group for part in parts for group in part]


def train_group(
    config: RunConfig,
    seeds: Sequence[int],
    folder: Path,
    *,
    tell: launch.Tell,
    callbacks: Callbacks,
    device: str = "cpu",
    compiled: bool = False,
    keep: Sequence[int] = (),
) -> Path:
    """Train one group, from its saved state if there is one, and write the log of what has ended.

    Where runs end early (`training.stop_after`) and half of them have, the others are left as the
    state of a group of half the size, whose shape is then compiled for all groups. Where seeds draw
    their own settings one that diverges ends too: no setting is at fault for all of them. Returns
    the path of the log.
    """
    training = config.training
    stack = SeedStack(config, seeds, device=device, compiled=compiled)
    observer = Observer(stack, recorders_of(stack))
    callback = callbacks.begin(stack)
    rows, states = checkpoints.Rows(), saved_states(folder, config)
    drawn = config.draws.columns(seeds)
    metadata = {**log_metadata(config), **callbacks.about}
    saved = states.load(seeds)
    if saved is not None:
        tensors, observer.predictions, rows = saved
        stack.load_state(tensors)
        observer.load_state(within(_OBSERVER, tensors))
        callback.load_state(within(_CALLBACK, tensors))
        tell("advanced", stack.step * len(seeds))
    ends = rows.ends(training) if rows.steps else np.full(len(seeds), training.steps)
    saved_at, left = time.monotonic(), len(seeds) // 2 if len(seeds) >= WORTH_HALVING else 0

    def log_of(places: Sequence[int]) -> RunLog:
        parts = [
            rows.of([place], int(ends[place])).log([seeds[place]], metadata) for place in places
        ]
        early = training.stop_after or (ends < stack.step).any()
        return RunLog.concat(parts) if early else rows.log(seeds, metadata)

    def state() -> dict[str, Tensor]:
        others = under(_CALLBACK, callback.state()) | under(_OBSERVER, observer.state())
        return {**stack.state(), **others}

    while True:
        at_checkpoint = stack.step % training.checkpoint_every == 0
        if compiling := stack.compiles:
            tell("show", "compiling")
        losses, logits = stack.gradients(keep_logits=at_checkpoint)
        if compiling:
            tell("show", "")
        if at_checkpoint and rows.last < stack.step:
            may_diverge = config.draws.any and rows.steps
            diverged = torch.where(~losses.isfinite())[0].tolist() if may_diverge else []
            for place in diverged:  # its run is over; what stands in its place must not be NaN
                stack.restart_member(place, initial_model(config, seeds[place]))
            if diverged:
                losses, logits = stack.gradients(keep_logits=True)
            found = observer.measure(losses, logits)
            found["train_loss"][diverged] = np.nan
            rows.add(stack.step, {**found, **callback.measure(found["train_acc"]), **drawn})
            tell("measured", stack.seeds, found | {"step": np.full(len(seeds), stack.step)})
            ends = rows.ends(training)
            if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                states.save(seeds, state(), rows, observer.predictions)
                saved_at = time.monotonic()
        if at_checkpoint:
            for place in np.flatnonzero(ends == stack.step).tolist():
                if seeds[place] in keep:
                    task = config.of_seed(seeds[place]).task.build()
                    kept_log, model = log_of([place]), stack.member(place)
                    checkpoints.keep_model(model, kept_log, folder, seeds[place], task)
            if (ends > stack.step).sum() <= left:
                break
        if stack.step == training.steps:
            break
        stack.update()
        tell("advanced", len(seeds))
    # Those that go on, and as many that have ended as bring them to half the group.
    order = np.argsort(ends <= stack.step, kind="stable")
    going = np.sort(order[:left]).tolist() if (ends > stack.step).any() else []
    over = [place for place in range(len(seeds)) if place not in going]
    if going:
        rest = [seeds[place] for place in going]
        kept = {name: tensor[going] if tensor.ndim else tensor for name, tensor in state().items()}
        last = observer.predictions
        states.save(rest, kept, rows.of(going), None if last is None else last[going])
        tell("advanced", -stack.step * len(going))
    if stack.step < training.steps:
        tell("advanced", (training.steps - stack.step) * len(over))
    callback.finish()
    path = write_log(log_of(over), [seeds[place] for place in over], folder)
    states.drop(seeds)
    return path


def write_log(log: RunLog, seeds: Sequence[int], folder: Path) -> Path:
    """Write the log of a group of seeds into a folder of logs, as one Parquet file."""
    return log.write(folder / "logs" / f"{checkpoints.group_name(seeds)}.parquet")


def log_metadata(config: RunConfig) -> dict[str, Any]:
    """What made a run log: task, model, config, versions, and the content hash of the task."""
    training, shape = config.training, model_config(config)
    return {
        "preset": config.preset,
        "task": config.task.title + config.draws.words("task"),
        "model": config.model.name + config.draws.words("model"),
        "optimizer": f"AdamW(lr={training.lr:g}, weight_decay={training.weight_decay:g}, "
        f"betas=({training.beta1:g}, {training.beta2:g}), eps={training.eps:g})"
        f"{config.draws.words('training')}",
        "schedule": f"constant, full batch, {training.steps} steps",
        "checkpoint_every_steps": training.checkpoint_every,
        SYSTEM: system_shown(config),
        "config": config.training_identity(),
        "config_hash": config.training_hash(),
        "design": config.design(),
        "task_fingerprint": task_fingerprint(config),
        **({} if config.chance is None else {"chance": config.chance}),
        "versions": versions(),
        **({} if shape.cycles is None else {"loops": about_loops(shape)}),
    }


def system_shown(config: RunConfig) -> dict[str, Any]:
    """What a callback can see of the model and the optimizer, in the fields of `LockedSystem`.

    A field that differs between the seeds is left out.
    """
    training, draws = config.training, config.draws
    with torch.device("meta"):
        models = [
            GrokkingTransformerForCausalLM(model_config(config.replace(task=task)))
            for task in config.tasks
        ]
    sizes = {model.num_parameters() for model in models}
    found: dict[str, Any] = {
        "architecture": type(models[0]).__name__,
        "parameter_count": sizes.pop() if len(sizes) == 1 else None,
        "optimizer": "AdamW",
        "learning_rate": None if draws.lr else training.lr,
        "weight_decay": None if draws.weight_decay or draws.no_decay else training.weight_decay,
    }
    return {name: value for name, value in found.items() if value is not None}


def task_fingerprint(config: RunConfig) -> str:
    """The content hash of the task; of all operations together where seeds draw one."""
    found = [task.build().fingerprint() for task in config.tasks]
    return found[0] if len(found) == 1 else config_hash({"tasks": found})


def versions() -> dict[str, str]:
    """Those of the packages that decide what a training leaves."""
    return {
        "gmb_hf": __version__,
        "torch": str(torch.__version__),
        "transformers": transformers.__version__,
        "numpy": np.__version__,
    }


def train_single(
    config: RunConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    accelerator: Accelerator,
    listener: launch.Listener | None = None,
    about: Mapping[str, Any] | None = None,
    keep: Sequence[int] = (),
) -> list[Path]:
    """As `train_stacked`, the seeds one after the other; one that was interrupted starts anew.

    This is the plain loop that `accelerate launch` users know, all eight tokens of every row. It
    starts from the same weights, sees the same rows, and gives the same losses to rounding; a test
    holds them side by side. Use it to check the stacked engine, to try a change of the model, or to
    train on several devices at once.

    `accelerator` is of the processes that train together; `about` is as in `train_seeds`.
    """
    folder = Path(out)
    if accelerator.is_main_process:
        check_folder(folder, config, about)
    accelerator.wait_for_everyone()
    done = finished_seeds(folder)
    refuse_gone(folder, keep, done)
    given: Any = {"accelerator": accelerator, "listener": listener or launch.Listener()}
    for seed in [seed for seed in seeds if seed not in done]:
        rows, model = train_seed(config, seed, **given)
        if accelerator.is_main_process:
            log = rows.log([seed], {**log_metadata(config), **(about or {})})
            if seed in keep:
                task = config.of_seed(seed).task.build()
                checkpoints.keep_model(model.cpu(), log, folder, seed, task)
            write_log(log, [seed], folder)
        accelerator.wait_for_everyone()
    return log_paths(folder)


def training_rows(config: RunConfig, seed: int) -> Dataset:
    """The training rows of a seed: `input_ids` and `labels`, as tensors."""
    task = config.of_seed(seed).task
    splits = task.build().to_dataset_dict(task.share, task.data_seed_of(seed))
    return splits["train"].select_columns(["input_ids", "labels"]).with_format("torch")


def full_batches(dataset: Dataset, processes: int) -> DataLoader[dict[str, Tensor]]:
    """A loader whose only batch is the whole dataset, made divisible by `processes`.

    Accelerate gives each process equally many rows; those added for that are padding without
    labels, which an `attention_mask` then tells from the others.
    """
    missing = -len(dataset) % processes
    if missing:
        blank = dataset.select([0] * missing).map(partial(_masked, present=False))
        dataset = concatenate_datasets([dataset.map(_masked), blank])
    return DataLoader(dataset, batch_size=len(dataset))


def train_seed(
    config: RunConfig, seed: int, *, accelerator: Accelerator, listener: launch.Listener
) -> tuple[checkpoints.Rows, GrokkingTransformerForCausalLM]:
    """Train one seed; its log, and the model after the last step."""
    settings, drawn = config.of_seed(seed).training, config.draws.columns([seed])
    model = initial_model(config, seed)
    optimizer = adamw(dict(model.named_parameters()), own_parameter_names(model), settings)
    dataset = training_rows(config, seed)
    loader = full_batches(dataset, accelerator.num_processes)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    # A stack of one, whose observables are taken of the model.
    stack = SeedStack(config, [seed])
    observer = Observer(stack, recorders_of(stack))
    before = {name: weight[0].detach().clone() for name, weight in stack.weights.items()}
    rows, batches = checkpoints.Rows(), chain.from_iterable(repeat(loader))
    for step in range(settings.steps + 1):
        if step % settings.checkpoint_every == 0 and accelerator.is_main_process:
            stack.load_member(0, accelerator.unwrap_model(model))
            stack.step = step
            updates = {
                name: weight.detach() - before[name] for name, weight in stack.weights.items()
            }
            losses, logits = stack.gradients(keep_logits=True)
            if config.draws.any and rows.steps and not losses.isfinite().all():
                break  # it has diverged, with what it drew
            found = observer.measure(losses, logits, updates)
            rows.add(step, {**found, **drawn})
            listener.measured([seed], {**found, "step": np.array([step])})
        ended = bool(rows.steps) and step >= rows.ends(settings)[0]
        if step == settings.steps or ended:
            break
        # Each process sums over its rows; the gradients are then averaged over the processes.
        loss = model(**next(batches), num_items_in_batch=len(dataset)).loss
        optimizer.zero_grad()
        accelerator.backward(loss * accelerator.num_processes)
        if (step + 1) % settings.checkpoint_every == 0:
            parameters = accelerator.unwrap_model(model).named_parameters()
            before = {name: value.detach().cpu().clone() for name, value in parameters}
        optimizer.step()
        listener.advanced(1)
    trained: GrokkingTransformerForCausalLM = accelerator.unwrap_model(model)
    return rows, trained


def _masked(row: dict[str, Tensor], *, present: bool = True) -> dict[str, Tensor]:
    ids, labels = row["input_ids"], row["labels"]
    if present:
        return {"attention_mask": torch.ones_like(ids)}
    return {"attention_mask": torch.zeros_like(ids), "labels": torch.full_like(labels, IGNORED)}


def train_seeds(
    config: RunConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    engine: str = "stacked",
    device: str = "auto",
    callbacks: Callbacks | None = None,
    about: Mapping[str, Any] | None = None,
    keep: Sequence[int] = (),
    jobs: int | None = 1,
    track: Sequence[str] = (),
    accelerator: Accelerator | None = None,
) -> list[Path]:
    """Train what is missing in `out` and return the files of all logs; see `train_stacked`.

    Args:
        config, seeds, out, callbacks, jobs: as there.
        engine: "stacked" or "single".
        device: "auto", "cpu" or "cuda".
        about: what else decides the logs, e.g. where the data came from; it stands in their
            metadata and in the folder's config.
        keep: seeds whose models are kept.
        track: trackers to log to, as in `tracking`; those that are not installed are left out.
        accelerator: of the processes that a launcher started: the stacked engine gives each its
            share of the seeds, the single one trains each seed on all of them. `device` is then
            the accelerator's.

    Returns:
        The files of all logs; none in processes beside the main one.

    Raises:
        ValueError: the single engine takes no callbacks.
        InputError: no such engine or device, another config in the folder, it cannot be written
            to, or a model to keep is of no seed or gone.
    """
    for seed in keep:
        if seed not in seeds:
            raise InputError(f"--save-models: seed {seed} is not trained here; see --seeds")
    choose("engine", engine, ENGINES, where="--engine")
    chosen = launch.chosen_device(device) if accelerator is None else accelerator.device.type
    if engine == "single" and jobs not in (None, 1):
        raise InputError("--jobs: the single engine trains one model at a time; leave --jobs out")
    if callbacks is not None and engine == "single":
        raise ValueError("only the stacked engine measures something beside the observables")
    own = callbacks is not None and callbacks.begin is not TrainingCallback
    if own and config.training.stop_after is not None:
        raise InputError(
            "training.stop_after: what is measured here is measured until the last step; leave it "
            "out"
        )
    present, notes = installed(track)
    launch.parallel_jobs(jobs, 1, chosen)  # a bad number is refused before the folder is touched
    folder, steps = Path(out), config.training.steps
    callbacks = callbacks or Callbacks()
    callbacks = replace(callbacks, about={**callbacks.about, **(about or {})})
    alone, speaks = accelerator is None, accelerator is None or accelerator.is_main_process
    if accelerator is not None and engine == "stacked":
        seeds = launch.own_share(seeds, accelerator)
    # Of several processes each engine says which of them check the folder.
    finished = check_folder(folder, config, callbacks.about) if alone else finished_seeds(folder)
    done = len(finished.intersection(seeds))
    bar: Any = nullcontext(launch.Listener())
    if speaks and done < len(seeds):
        bar = launch.Bar(len(seeds) * steps, done * steps)
    for note in notes if speaks else ():
        logger.warning("%s", note)
    if engine == "single" and not speaks:
        present = []  # every process trains the same seeds
    about_runs: Any = {"project": "gmb-train", "config": config.training_identity()}
    with bar as shown, Tracking(present, folder, **about_runs) as tracking:
        listener = SeedTracking(tracking, shown) if present else shown
        given: Any = {"listener": listener, "keep": keep}
        if engine == "stacked":
            given |= {"device": chosen, "callbacks": callbacks, "jobs": jobs}
            train_stacked(config, seeds, folder, **given)
            if accelerator is not None:
                accelerator.wait_for_everyone()
        else:
            accelerator = accelerator or launch.make_accelerator(cpu=chosen == "cpu")
            given |= {"accelerator": accelerator, "about": callbacks.about}
            train_single(config, seeds, folder, **given)
    return log_paths(folder) if speaks else []
