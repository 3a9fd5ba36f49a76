"""The sequential protocol (phases 2a and 2b): every variant through all tasks of a suite.

Seeds are trained in groups, one group after the other or several at a time in processes of their
own; a bar shows the progress, and trackers hear of it. A saved model can be evaluated by itself.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accelerate import Accelerator

from gmb_hf.base.errors import InputError, choose, repeated
from gmb_hf.base.files import whole_folder, write_json
from gmb_hf.protocol.sequential.config import SequentialConfig
from gmb_hf.protocol.sequential.config import preset as named
from gmb_hf.protocol.sequential.folder import DESIGN, SEQUENCE, SequentialFolder
from gmb_hf.protocol.sequential.report import SequentialReport, sequential_report
from gmb_hf.protocol.sequential.train import (
    Phases,
    TaskResult,
    check_fits,
    evaluate_model,
    model_shape,
)
from gmb_hf.training import launch
from gmb_hf.training.checkpoints import load_model, save_model
from gmb_hf.training.folder import read_design
from gmb_hf.training.tracking import Tracking, installed
from gmb_hf.training.variants import Variant, parse_variant

SAVE_EVERY_SECONDS = 15.0
SAVE_MODELS = ("last", "all", "none")


class PhaseBar(launch.TrainingBar):
    """A progress bar of seeds x steps over all variants, with the current variant and task."""

    shown = "beginning"


def train_group(
    config: SequentialConfig,
    variant: Variant,
    seeds: Sequence[int],
    folder: SequentialFolder,
    *,
    device: str = "cpu",
    save_models: str = "last",
    trackers: Sequence[str] = (),
    tell: launch.Tell,
) -> None:
    """Train one of the pending groups of a folder through all phases, or from where it stopped.

    Args:
        config, variant, seeds: what is trained, seeds together.
        folder: of the run; it must have been claimed for the config.
        device: "cpu" or "cuda".
        save_models: keep a model after the "last" phase, after "all" of them, or "none".
        trackers: installed ones to log to.
        tell: a progress bar's methods.

    `InputError` where the variant does not fit the model, or the folder cannot be written to.
    """
    phases = Phases(config, variant, seeds, device=device)
    tasks = [config.suite.build(task) for task in config.suite.tasks]
    count, last = len(seeds), len(tasks)

    def show(more: str = "") -> None:
        if phases.phase < last:
            place = f"{phases.phase + 1}/{last} {phases.task}"
            tell("show", f"{variant.name} {place}{more}"[:32])

    states = folder.states(config, variant)
    saved = states.load(seeds)
    if saved is not None:
        phases.load_state(saved[0], saved[2])
    else:
        phases.matrix.append(phases.evaluate())
    done = sum(config.steps[: phases.phase]) + (phases.step if phases.phase < last else 0)
    tell("advanced", done * count)
    show()
    design = {"variant": variant.name, **config.design()}
    saved_at = time.monotonic()
    with Tracking(trackers, folder.path, project="gmb-sequential", config=design) as tracking:
        while phases.phase < last:
            if phases.step % config.training.checkpoint_every == 0 and not phases.measured:
                found = phases.measure()
                show(f" {np.mean(found['test_loss']):.2f}")
                tracking.log_each(_runs(phases), phases.model.step, found)
                if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                    states.save(seeds, phases.state(), phases.rows)
                    saved_at = time.monotonic()
            if not phases.finished:
                phases.advance()
                tell("advanced", count)
                continue
            unused = config.steps[phases.phase] - phases.step
            folder.write_log(phases)
            runs = _runs(phases)
            phases.end_phase()
            show()
            row = {
                f"matrix_{name}/{task}": column
                for name, values in zip(("loss", "accuracy"), phases.matrix[-1], strict=True)
                for column, task in zip(values.T, config.suite.tasks, strict=True)
            }
            tracking.log_each(runs, phases.model.step, row)
            for run in runs:
                tracking.close(*run)
            tell("advanced", unused * count)
            if save_models == "all" or (save_models == "last" and phases.phase == last):
                for place, seed in enumerate(seeds):
                    target = folder.model(variant.name, seed, phases.phase)
                    with whole_folder(target) as unfinished:
                        save_model(phases.model.member(place), unfinished, tasks)
                        write_json(unfinished / SEQUENCE, phases.about(place))
            states.save(seeds, phases.state(), phases.rows)
            saved_at = time.monotonic()
    folder.write_results(phases)
    states.drop(seeds)


def _runs(phases: Phases) -> list[tuple[str, str]]:
    """Group and run, for trackers, of the phase under way of each seed; runs as in the logs."""
    name, phase = phases.variant.name, f"phase-{phases.phase + 1}-{phases.task}"
    return [(f"{name}-seed_{seed}", f"{name}-{phase}-seed_{seed}") for seed in phases.seeds]


_SUITE = ("order", "prime", "op_token", "loss_positions", "data_seed", "compat_batch")
_PHASES = ("stop_early", "stop_loss", "carry_optimizer")
SHORT = {name: f"suite.{name}" for name in _SUITE} | {name: f"phases.{name}" for name in _PHASES}
"""Option -> the field that it sets."""


def sequential_config(
    suite: str, preset: str, options: Mapping[str, object], changes: Sequence[str] = ()
) -> SequentialConfig:
    """The config that the options of a command name; `InputError` for a bad name or value.

    Args:
        suite, preset: names.
        options: value by name, as on the command line; None and False are not given, and other
            names are not read. `steps` is a number for all phases, or one for each with commas.
        changes: assignments `section.field=value`, which come last.
    """
    given = [
        f"{SHORT[name]}={value}"
        for name, value in options.items()
        if name in SHORT and value is not None and value is not False
    ]
    if steps := str(options.get("steps") or ""):
        given.append(f"{'phases' if ',' in steps else 'training'}.steps={steps}")
    return named(preset, suite).changed([*given, *changes])


def parse_variants(text: str) -> list[Variant]:
    """Variants with commas between them, e.g. `dense,sort-4`; `InputError` for one given twice."""
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
    figures: bool = True,
) -> SequentialReport | None:
    """Train what is missing in `out`, put the matrices together and report on them.

    Args:
        config: the design.
        variants: the architectures, each trained on all seeds.
        seeds: that the folder shall hold at the end.
        out: the folder; see `sequential.folder`.
        device: "auto", "cpu" or "cuda".
        save_models: after the "last" phase, after "all", or "none".
        track: "tensorboard", "trackio", "wandb"; those that are not installed are left out.
        jobs: how many groups of seeds are trained at a time, in as many processes; None for one a
            core, and 1 for this process alone, as under Accelerate and on a GPU.
        accelerator: of several processes, which share the seeds; `device` is then its own. The main
            one returns what was left, the others None.
        figures: whether the report draws figures/.

    `InputError` where a variant does not fit the model, for another design in the folder, no such
    device, or a folder that cannot be written to.
    """
    choose("save-models", save_models, SAVE_MODELS, where="--save-models")
    for variant in variants:
        model_shape(config, variant)  # what does not fit is said before anything is trained
    trackers, notes = installed(track)
    main_process = accelerator is None or accelerator.is_main_process
    place = launch.chosen_device(device) if accelerator is None else accelerator.device.type
    own = list(seeds) if accelerator is None else list(launch.own_share(list(seeds), accelerator))
    # From all groups, not from those that are left: a run that is resumed has the same threads.
    count = len(variants) * math.ceil(len(own) / config.training.seeds_at_once)
    jobs = launch.parallel_jobs(1 if accelerator is not None else jobs, count, place)
    folder = SequentialFolder(out)
    if main_process:
        folder.claim(config)
    if accelerator is not None:
        accelerator.wait_for_everyone()
    options: Any = {"save_models": save_models, "trackers": trackers if main_process else []}
    options |= {"device": place, "bar": PhaseBar if main_process else None}
    steps = sum(config.steps)
    folder.train(train_group, config, variants, own, steps=steps, jobs=jobs, **options)
    if accelerator is not None:
        accelerator.wait_for_everyone()
    if not main_process:
        return None
    matrix = folder.merge()
    for variant in variants:
        diverged = ", ".join(map(str, folder.diverged_seeds(variant.name)))
        if diverged:
            notes.append(
                f"{variant.name}: seeds {diverged} diverged (a loss is no number) and are not in "
                "the matrix"
            )
    made = sequential_report([folder.path], folder.path, figures=figures)
    checkpoint = folder.model(variants[0].name, seeds[0], len(config.suite.tasks))
    following = ["gmb", "sequential", "report", str(folder.path)]
    if checkpoint.exists():
        following[2:] = ["eval", "--checkpoint", str(checkpoint), "--suite", config.suite.name]
    files, said = (matrix, *made.files), (*notes, *made.notes)
    return made._replace(files=files, notes=said, following=shlex.join(following))


class Evaluated(NamedTuple):
    """Results of a checkpoint on every task of the suite, and the file they were written to.

    `design` is the run's that the suite was taken from; None where preset and options said.
    """

    results: list[TaskResult]
    design: Path | None
    path: Path | None


def evaluate_checkpoint(
    checkpoint: str | Path,
    suite: str,
    out: str | Path | None = None,
    *,
    preset: str | None = None,
    options: Mapping[str, object] | None = None,
    changes: Sequence[str] = (),
    device: str = "auto",
) -> Evaluated:
    """Evaluate a saved model on every task of a suite.

    Args:
        checkpoint: a folder that `save_pretrained` left.
        suite: "modular" or "formal".
        out: the JSON file to write.
        preset: whose prime, tokens and split are taken. Without it they are those of the run that
            the checkpoint lies in, if there is one of this suite; else of `quick`.
        options, changes: as in `sequential_config`; any of them, too, takes a preset.
        device: "auto", "cpu" or "cuda".

    `InputError` for no whole model, one of another vocabulary or too short a block, or bad options.
    """
    given = {name: value for name, value in (options or {}).items() if value is not None}
    config, design = sequential_config(suite, preset or "quick", given, changes), None
    if preset is None and not given and not changes:
        paths = (parent / DESIGN for parent in Path(checkpoint).resolve().parents)
        runs = ((path, read_design(SequentialConfig, path)) for path in paths if path.is_file())
        same = ((own, path) for path, own in runs if own.suite.name == config.suite.name)
        config, design = next(same, (config, None))
    model = load_model(checkpoint)
    check_fits(model, config.suite, str(checkpoint))
    model.to(launch.chosen_device(device))
    results = evaluate_model(model, config.suite)
    content = {
        "checkpoint": str(checkpoint),
        "suite": config.design()["suite"],
        "fingerprints": config.suite.fingerprints(),
        "tasks": [result.to_dict() for result in results],
    }
    return Evaluated(results, design, None if out is None else write_json(out, content))
