"""Who hears of a sequential training: the progress bar, trackers, or several at once."""

from __future__ import annotations

import math
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from accelerate import Accelerator
from numpy.typing import NDArray
from rich.console import Console

from gmb_hf.errors import InputError, choose, positive_int, repeated
from gmb_hf.sequential.config import SequentialConfig
from gmb_hf.sequential.config import preset as named
from gmb_hf.sequential.folder import SequentialFolder
from gmb_hf.sequential.train import Phases
from gmb_hf.training import checkpoints as state
from gmb_hf.training.checkpoints import group_name, whole_folder
from gmb_hf.training.launch import keep_freed_memory, quiet_models
from gmb_hf.training.progress import TrainingBar
from gmb_hf.training.variants import Variant, parse_variant

if TYPE_CHECKING:
    from gmb_hf.sequential.summary import RetentionSummary


class Listener(Protocol):
    """Whoever wants to hear of a sequential training's progress."""

    def began(self, phases: Phases, seed_steps: int) -> None:
        """A group of seeds begins, or goes on after so many seeds x steps."""

    def advanced(self, seed_steps: int) -> None:
        """So many seeds x steps were made, or need not be made, since the last call."""

    def measured(self, phases: Phases, found: dict[str, NDArray[np.float64]]) -> None:
        """A checkpoint's losses and accuracies, each [S], of the task that is trained."""

    def evaluated(self, phases: Phases) -> None:
        """Every task was evaluated; the last entry of `phases.matrix` has the numbers."""

    def ended(self, phases: Phases) -> None:
        """The group has come to the end of its last phase."""


class Silent:
    """Hears and says nothing; a base for those that hear some of it."""

    def began(self, phases: Phases, seed_steps: int) -> None:
        """Ignore."""

    def advanced(self, seed_steps: int) -> None:
        """Ignore."""

    def measured(self, phases: Phases, found: dict[str, NDArray[np.float64]]) -> None:
        """Ignore."""

    def evaluated(self, phases: Phases) -> None:
        """Ignore."""

    def ended(self, phases: Phases) -> None:
        """Ignore."""


class Together:
    """Tells several listeners, in their order."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = tuple(listeners)

    def began(self, phases: Phases, seed_steps: int) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.began(phases, seed_steps)

    def advanced(self, seed_steps: int) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.advanced(seed_steps)

    def measured(self, phases: Phases, found: dict[str, NDArray[np.float64]]) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.measured(phases, found)

    def evaluated(self, phases: Phases) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.evaluated(phases)

    def ended(self, phases: Phases) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.ended(phases)


class Places(Silent):
    """Says where a training is, the variant and the task; a base for those that show it."""

    def at(self, place: str) -> None:
        """Show this line."""

    def began(self, phases: Phases, seed_steps: int) -> None:
        """Count what an earlier start has done, and name the variant."""
        self.advanced(seed_steps)
        self._name(phases)

    def measured(self, phases: Phases, found: dict[str, NDArray[np.float64]]) -> None:
        """Show the mean held-out loss of the task that is trained."""
        self._name(phases, f" {np.mean(found['test_loss']):.2f}")

    def evaluated(self, phases: Phases) -> None:
        """Name the task that comes next."""
        self._name(phases)

    def _name(self, phases: Phases, more: str = "") -> None:
        tasks = phases.config.suite.tasks
        if phases.phase < len(tasks):
            place = f"{phases.phase + 1}/{len(tasks)} {phases.task}"
            self.at(f"{phases.variant.name} {place}{more}"[:32])


class PhaseBar(TrainingBar, Places):
    """Of seeds x steps over all variants, with the variant and the task that are under way.

    Args:
        total, done, console: as in `TrainingBar`.
    """

    def __init__(self, total: int, done: int = 0, console: Console | None = None) -> None:
        super().__init__("seed steps", "{task.fields[at]}", total, done, console, at="beginning")

    def at(self, place: str) -> None:
        """Show this line beside the bar."""
        self._show(at=place)


# Learning curves and matrices to the trackers of Accelerate: tensorboard, trackio, wandb.


TRACKERS = ("tensorboard", "trackio", "wandb")
PROJECT = "gmb-sequential"


def installed(trackers: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of the trackers that this Python has, and a line on each that it has not.

    Raises:
        InputError: a tracker that is not known; the nearest is named.
    """
    present, notes = [], []
    for name in dict.fromkeys(trackers):
        choose("tracker", name, TRACKERS, where="--track")
        if find_spec(name) is None:
            notes.append(f"--track {name}: {name} is not installed; training goes on without it")
        else:
            present.append(name)
    return present, notes


class Tracking(Silent):
    """Tells trackers what this process measures.

    Args:
        trackers: installed ones.
        folder: of the run; local trackers write to `trackers/` in it.
        cpu: as the Accelerator of the training.
    """

    def __init__(self, trackers: Sequence[str], folder: Path, *, cpu: bool) -> None:
        self._trackers, self._folder, self._cpu = list(trackers), folder, cpu
        self._accelerator: Accelerator | None = None

    def began(self, phases: Phases, seed_steps: int) -> None:
        """Open the group's run."""
        name = f"{phases.variant.name}-{group_name(phases.seeds)}"
        self._accelerator = Accelerator(
            cpu=self._cpu, log_with=self._trackers, project_dir=self._folder / "trackers"
        )
        self._accelerator.init_trackers(
            name if self._trackers == ["tensorboard"] else PROJECT,
            config=_flat(
                {"variant": phases.variant.name, **phases.config.design()},
            ),
            init_kwargs={"wandb": {"name": name}, "trackio": {"name": name}},
        )

    def measured(self, phases: Phases, found: dict[str, NDArray[np.float64]]) -> None:
        """Log the curves of every seed."""
        self._log(
            {
                f"{column}/seed_{seed}": float(values[place])
                for column, values in found.items()
                for place, seed in enumerate(phases.seeds)
            },
            phases.model.step,
        )

    def evaluated(self, phases: Phases) -> None:
        """Log the row of the matrix, means over the seeds and every seed's."""
        for name, values in zip(("loss", "accuracy"), phases.matrix[-1], strict=True):
            for column, task in enumerate(phases.config.suite.tasks):
                own = {
                    f"matrix_{name}/{task}/seed_{seed}": float(values[place, column])
                    for place, seed in enumerate(phases.seeds)
                }
                mean = {f"matrix_{name}/{task}/mean": float(values[:, column].mean())}
                self._log({**mean, **own}, phases.model.step)

    def ended(self, phases: Phases) -> None:
        """Close the group's run."""
        if self._accelerator is not None:
            self._accelerator.end_training()
            self._accelerator = None

    def _log(self, values: Mapping[str, float], step: int) -> None:
        if self._accelerator is not None:
            self._accelerator.log(dict(values), step=step)


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, int | float | str | bool]:
    """Nested plain data as one level of `a.b: value`; tensorboard takes numbers and text alone."""
    flat: dict[str, int | float | str | bool] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            plain = isinstance(value, (int, float, str))
            flat[f"{prefix}{key}"] = value if plain else str(value)
    return flat


# The sequential protocol (phases 2a and 2b): one checkpoint through all tasks of a suite.


SAVE_EVERY_SECONDS = 15.0
SAVE_MODELS = ("last", "all", "none")


def pending_groups(
    config: SequentialConfig, variant: Variant, seeds: Sequence[int], folder: SequentialFolder
) -> list[tuple[int, ...]]:
    """The seeds of a variant that the folder does not hold yet, as they are trained together.

    Raises:
        InputError: a state in the folder is of another design.
    """
    states, identity = folder.states(variant.name), _identity(config, variant)
    done = folder.finished_seeds(variant.name)
    # A process that dies between writing a matrix and dropping its state leaves both.
    for group in state.waiting_groups(states, identity):
        if done.issuperset(group):
            state.state_path(states, group).unlink(missing_ok=True)
    missing = [seed for seed in seeds if seed not in done]
    return state.pending_groups(states, identity, missing, at_once=config.training.seeds_at_once)


def train_group(
    config: SequentialConfig,
    variant: Variant,
    seeds: Sequence[int],
    folder: SequentialFolder,
    *,
    listener: Listener | None = None,
    device: str = "cpu",
    save_models: str = "last",
) -> None:
    """Train one of the `pending_groups` through all phases, or from where it stopped.

    Args:
        config: the design, which the folder must have been claimed for.
        variant: the architecture.
        seeds: of the group.
        folder: of the run.
        listener: hears of the progress.
        device: where to train, "cpu" or "cuda".
        save_models: keep a model after the "last" phase, after "all" of them, or "none".

    Raises:
        InputError: the variant does not fit the model, or the folder cannot be written to.
    """
    keep_freed_memory()
    phases = Phases(config, variant, seeds, device=device)
    listener = listener or Silent()
    count, last = len(seeds), len(config.suite.tasks)
    held = state.state_path(folder.states(variant.name), seeds)

    def save() -> None:
        state.save(
            held,
            seeds=seeds,
            identity=_identity(config, variant),
            tensors=phases.state(),
            predictions=None,
            rows=phases.rows,
        )

    if held.exists():
        saved = state.load(held, _identity(config, variant))
        phases.load_state(saved.tensors, saved.rows)
    else:
        phases.matrix.append(phases.evaluate())
    done = sum(config.steps[: phases.phase]) + (phases.step if phases.phase < last else 0)
    listener.began(phases, done * count)
    saved_at = time.monotonic()
    while phases.phase < last:
        if phases.step % config.training.checkpoint_every == 0 and not phases.measured:
            listener.measured(phases, phases.measure())
            if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                save()
                saved_at = time.monotonic()
        if not phases.finished:
            phases.advance()
            listener.advanced(count)
            continue
        left = config.steps[phases.phase] - phases.step
        phase = phases.phase + 1
        folder.write_log(config, variant.name, seeds, phase, phases.rows, phases.stopped)
        phases.end_phase()
        listener.evaluated(phases)
        listener.advanced(left * count)
        if save_models == "all" or (save_models == "last" and phase == last):
            _save_models(phases, folder)
        save()
        saved_at = time.monotonic()
    folder.write_results(phases)
    held.unlink(missing_ok=True)
    listener.ended(phases)


def _save_models(phases: Phases, folder: SequentialFolder) -> None:
    """Write each seed's model as it is now; a folder there is whole or not there at all."""
    for place, seed in enumerate(phases.seeds):
        target = folder.model(phases.variant.name, seed, phases.phase)
        with whole_folder(target) as workshop, quiet_models():
            phases.model.member(place).save_pretrained(workshop)


def _identity(config: SequentialConfig, variant: Variant) -> str:
    return f"{config.hash()} {variant.name}"


# Groups of seeds trained side by side in several processes.


_DONE, _REFUSED = "done", "refused"


@dataclass(frozen=True)
class Group:
    """Seeds of a variant that are trained together, and how.

    Attributes:
        config, variant, seeds: as in `sequential.train_group`.
        folder: of the run.
        device: where to train.
        save_models: after the "last" phase, after "all" of them, or "none".
        trackers: installed ones that hear of it.
    """

    config: SequentialConfig
    variant: Variant
    seeds: tuple[int, ...]
    folder: str
    device: str
    save_models: str
    trackers: tuple[str, ...] = ()


def train_here(groups: Sequence[Group], bar: PhaseBar | None) -> None:
    """Train the groups one after the other in this process.

    Raises:
        InputError: a variant does not fit the model, or the folder cannot be written to.
    """
    for group in groups:
        _train(group, [] if bar is None else [bar])


def train_side_by_side(
    groups: Sequence[Group], bar: PhaseBar | None, *, jobs: int, threads: int
) -> None:
    """Train the groups in `jobs` processes, with so many threads each; one after the other in each.

    Raises:
        InputError: as `train_here`, or a process was killed.
    """
    context = multiprocessing.get_context("spawn")  # a forked process may inherit held locks
    waiting, running = deque(groups), dict[Connection, BaseProcess]()
    try:
        for _ in range(min(jobs, len(groups))):
            here, there = context.Pipe()
            process: BaseProcess = context.Process(target=_work, args=(there, threads), daemon=True)
            process.start()
            there.close()
            running[here] = process
            here.send(waiting.popleft())
        while running:
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                said = _said(ready)
                if said is None:
                    _check_end(running.pop(ready), jobs)
                elif said[0] == _REFUSED:
                    raise InputError(said[1])
                elif said[0] == _DONE:
                    ready.send(waiting.popleft() if waiting else None)
                elif bar is not None:
                    getattr(bar, said[0])(said[1])
    finally:
        for process in running.values():
            process.terminate()


def _said(connection: Connection) -> tuple[str, Any] | None:
    """What a process has to say; None once it has said all."""
    try:
        said: tuple[str, Any] = connection.recv()
    except EOFError:
        return None
    return said


def _check_end(process: BaseProcess, jobs: int) -> None:
    process.join()
    if process.exitcode:
        raise InputError(
            f"--jobs {jobs}: a training process ended with code {process.exitcode}, as it does "
            "where memory runs out; the same command with --jobs 1 goes on from the last saved "
            "state"
        )


class _Relay(Places):
    """Sends to the bar of the process that waits what this one would show."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def advanced(self, seed_steps: int) -> None:
        self._send("advanced", seed_steps)

    def at(self, place: str) -> None:
        self._send("at", place)

    def _send(self, name: str, value: Any) -> None:
        self._connection.send((name, value))


def _work(connection: Connection, threads: int) -> None:
    """Train one group after the other, as they come."""
    import torch

    # Ctrl-C reaches every process of a terminal; the one that waits ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        while (group := connection.recv()) is not None:
            _train(group, [_Relay(connection)])
            connection.send((_DONE, None))
    except InputError as error:
        connection.send((_REFUSED, str(error)))
    except (BrokenPipeError, EOFError):
        return  # nobody waits any more
    finally:
        connection.close()


def _train(group: Group, listeners: Sequence[Listener]) -> None:

    folder = SequentialFolder(group.folder)
    hearing = list(listeners)
    if group.trackers:
        hearing.append(Tracking(group.trackers, folder.path, cpu=group.device == "cpu"))
    train_group(
        group.config,
        group.variant,
        group.seeds,
        folder,
        listener=Together(hearing),
        device=group.device,
        save_models=group.save_models,
    )


# The sequential protocol from what a person types to matrix, tables and figures.


SHORT = {
    "order": "suite.order",
    "prime": "suite.prime",
    "op_token": "suite.op_token",
    "loss_positions": "suite.loss_positions",
    "data_seed": "suite.data_seed",
    "compat_batch": "suite.compat_batch",
    "stop_early": "phases.stop_early",
    "stop_loss": "phases.stop_loss",
    "carry_optimizer": "phases.carry_optimizer",
}
"""Options with a name of their own -> the field that they set."""


@dataclass(frozen=True)
class Finished:
    """What a sequential run left.

    Attributes:
        paths: the files to look at.
        summary: the numbers of `retention.json`.
        notes: what a reader should know: trackers that are missing, seeds that diverged.
        following: the command to type next.
    """

    paths: list[Path]
    summary: RetentionSummary
    notes: list[str]
    following: list[str]


def sequential_config(
    suite: str, preset: str, options: Mapping[str, object], changes: Sequence[str] = ()
) -> SequentialConfig:
    """The design that a person asks for.

    Args:
        suite, preset: names.
        options: value by name, as on the command line; None and False are not given, and other
            names are not read. `steps` is a number for all phases, or one for each with commas.
        changes: assignments `section.field=value`, which come last.

    Raises:
        InputError: an unknown name (the nearest is named), or a bad value.
    """
    given = [
        f"{SHORT[name]}={value}"
        for name, value in options.items()
        if name in SHORT and value is not None and value is not False
    ]
    steps = str(options.get("steps") or "")
    if "," in steps:
        given.append(f"phases.steps={steps}")
    elif steps:
        given.append(f"training.steps={steps}")
    return named(preset, suite).changed([*given, *changes])


def parse_variants(text: str) -> list[Variant]:
    """Variants with commas between them, e.g. `dense,sort-4`.

    Raises:
        InputError: one that is not known (the nearest is named), or one twice.
    """
    variants = [parse_variant(part.strip()) for part in text.split(",")]
    twice = repeated([variant.name for variant in variants])
    if twice is not None:
        raise InputError(f"--variants {text!r}: {twice} is given twice; give each variant once")
    return variants


def run_sequential(
    config: SequentialConfig,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    out: str | Path,
    *,
    device: str = "auto",
    save_models: str = "last",
    track: Sequence[str] = (),
    jobs: int | None = None,
    accelerator: Accelerator | None = None,
) -> Finished | None:
    """Train what is missing in `out`, put the matrices together and report on them.

    Args:
        config: the design.
        variants: the architectures, each trained on all seeds.
        seeds: that the folder shall hold at the end.
        out: the folder; see `protocols.sequential_folder`.
        device: "auto", "cpu" or "cuda".
        save_models: after the "last" phase, after "all", or "none".
        track: "tensorboard", "trackio", "wandb"; those that are not installed are left out.
        jobs: how many groups of seeds are trained at a time, in as many processes; None for one a
            core, and 1 for this process alone, as under Accelerate and on a GPU.
        accelerator: of several processes, which share the seeds; `device` is then its own.

    Returns:
        What was left, on the main process; None on the others.

    Raises:
        InputError: a variant does not fit the model, another design in the folder, no such device,
            or the folder cannot be written to.
    """
    import torch

    from gmb_hf.sequential.folder import SequentialFolder
    from gmb_hf.sequential.report import sequential_report
    from gmb_hf.sequential.train import model_shape
    from gmb_hf.training.launch import chosen_device, own_share

    choose("save-models", save_models, SAVE_MODELS, where="--save-models")
    if jobs is not None:
        positive_int("--jobs", jobs)
    for variant in variants:
        model_shape(config, variant)  # what does not fit is said before anything is trained
    trackers, notes = installed(track)
    main_process = accelerator is None or accelerator.is_main_process
    place = chosen_device(device) if accelerator is None else accelerator.device.type
    folder = SequentialFolder(out)
    if main_process:
        folder.claim(config)
    own = list(seeds)
    if accelerator is not None:
        accelerator.wait_for_everyone()
        own = list(own_share(own, accelerator))
    finished = {variant.name: folder.finished_seeds(variant.name) for variant in variants}
    steps = sum(config.steps)
    total = len(variants) * len(own) * steps
    done = sum(len(found.intersection(own)) for found in finished.values()) * steps
    shown: AbstractContextManager[PhaseBar | None] = nullcontext()
    if main_process and done < total:
        shown = PhaseBar(total, done)
    groups = [
        Group(
            config=config,
            variant=variant,
            seeds=group,
            folder=str(folder.path),
            device=place,
            save_models=save_models,
            trackers=tuple(trackers) if main_process else (),
        )
        for variant in variants
        for group in pending_groups(config, variant, own, folder)
    ]
    if jobs is None:
        jobs = torch.get_num_threads() if accelerator is None and place == "cpu" else 1
    # From all groups, not from those that are left: a run that is resumed has the same threads.
    jobs = min(jobs, len(variants) * math.ceil(len(own) / config.training.seeds_at_once))
    with shown as bar:
        if jobs > 1:
            threads = max(torch.get_num_threads() // jobs, 1)
            train_side_by_side(groups, bar, jobs=jobs, threads=threads)
        else:
            train_here(groups, bar)
    if accelerator is not None:
        accelerator.wait_for_everyone()
    if not main_process:
        return None
    matrix = folder.merge()
    for variant in variants:
        diverged = folder.diverged_seeds(variant.name)
        if diverged:
            notes.append(
                f"{variant.name}: seeds {', '.join(map(str, diverged))} diverged (a loss is no "
                "number) and are not in the matrix"
            )
    made = sequential_report([folder.path], folder.path)
    checkpoint = folder.model(variants[0].name, seeds[0], len(config.suite.tasks))
    following = ["eval", "--checkpoint", str(checkpoint), "--suite", config.suite.name]
    if not checkpoint.exists():
        following = ["report", str(folder.path)]
    return Finished(
        [matrix, *made.files],
        made.summary,
        [*notes, *made.summary.notes],
        ["gmb", "sequential", *following],
    )
