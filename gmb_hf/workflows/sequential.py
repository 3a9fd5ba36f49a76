"""The sequential protocol from what a person types to matrix, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gmb_hf.protocols.sequential_presets import preset as named
from gmb_hf.protocols.sequential_settings import SequentialConfig
from gmb_hf.training.variants import Variant, parse_variant
from gmb_hf.validation import InputError, choose, positive_int, repeated

if TYPE_CHECKING:
    from accelerate import Accelerator

    from gmb_hf.continual.summary import RetentionSummary
    from gmb_hf.protocols.sequential_listeners import PhaseBar


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

    from gmb_hf.protocols.sequential import SAVE_MODELS, pending_groups
    from gmb_hf.protocols.sequential_folder import SequentialFolder
    from gmb_hf.protocols.sequential_listeners import PhaseBar
    from gmb_hf.protocols.shapes import model_shape
    from gmb_hf.protocols.side_by_side import Group, train_here, train_side_by_side
    from gmb_hf.protocols.tracking import installed
    from gmb_hf.training.devices import chosen_device
    from gmb_hf.training.processes import own_share
    from gmb_hf.workflows.sequential_reporting import sequential_report

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
