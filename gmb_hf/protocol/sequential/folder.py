"""Folders in which variants are trained; of a sequential run, its files by variant and seed.

    OUT/sequential.yaml                              the design; another one is refused
    OUT/logs/VARIANT/phase-2-sub-seeds-0-7-n8.parquet  learning curves of a phase
    OUT/matrix/VARIANT-seeds-0-7-n8.csv              every task after every phase, of finished seeds
    OUT/matrix.csv                                   all of them together
    OUT/diverged/VARIANT-seeds-0-7-n8.txt            seeds with a loss that is not finite
    OUT/models/VARIANT/seed_3/phase_4/               a checkpoint of transformers
    OUT/state/VARIANT/seeds-0-7-n8.safetensors       training state of unfinished seeds

Variants and seeds are no part of the design: the same command with others adds them.
"""

from __future__ import annotations

import glob
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gmb_hf.base.errors import InputError, repeated
from gmb_hf.base.files import write_text
from gmb_hf.protocol.sequential.config import SequentialConfig, smaller_than_protocol
from gmb_hf.protocol.sequential.matrix import RetentionMatrix, read_matrix, write_matrix
from gmb_hf.protocol.sequential.train import Phases
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training import launch
from gmb_hf.training.checkpoints import States, group_name
from gmb_hf.training.config import format_seeds, parse_seeds
from gmb_hf.training.folder import check_config
from gmb_hf.training.seeds import versions
from gmb_hf.training.settings import first_difference
from gmb_hf.training.variants import DENSE, Variant

DESIGN, MATRIX = "sequential.yaml", "matrix.csv"
SEQUENCE = "sequence.json"
"""Beside a saved model: what made it, and its results on every task."""


class VariantFolder(ABC):
    """The folder `path` of a run of several variants, and which of their seeds are finished."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @abstractmethod
    def finished_seeds(self, variant: str) -> set[int]:
        """The seeds of a variant that are trained to the end, those that diverged included."""

    def states(self, config: Any, variant: Variant) -> States:
        """The training states of a variant's unfinished seeds."""
        return States(self.path / "state" / variant.name, f"{config.hash()} {variant.name}")

    def pending_groups(
        self, config: Any, variant: Variant, seeds: Sequence[int]
    ) -> list[tuple[int, ...]]:
        """The seeds of a variant that are not finished, by groups, as `States.pending`."""
        done, at_once = self.finished_seeds(variant.name), config.training.seeds_at_once
        return self.states(config, variant).pending(seeds, done, at_once=at_once)

    def train(
        self,
        train_group: Callable[..., object],
        config: Any,
        variants: Sequence[Variant],
        seeds: Sequence[int],
        *,
        steps: int,
        jobs: int,
        bar: type[launch.TrainingBar] | None = launch.TrainingBar,
        **options: Any,
    ) -> None:
        """Train each variant's pending groups by `train_group`, which takes the options too.

        `steps` are those of one seed; `jobs` groups are trained at a time; `bar` shows it, if any.
        """
        finished = [self.finished_seeds(variant.name).intersection(seeds) for variant in variants]
        total, done = len(variants) * len(seeds) * steps, sum(map(len, finished)) * steps
        groups = [
            partial(train_group, config, variant, group, self, **options)
            for variant in variants
            for group in self.pending_groups(config, variant, seeds)
        ]
        with bar(total, done) if bar and done < total else nullcontext() as shown:
            launch.train_groups(groups, shown, jobs=jobs)


def refuse_repeated(folders: Sequence[str | Path], *, of: str) -> None:
    """`InputError` where no folder of this command is named, or one twice."""
    if not folders:
        raise InputError(f"no run given; name a folder of {of}")
    twice = repeated([Path(folder).resolve() for folder in folders])
    if twice is not None:
        raise InputError(f"{twice}: the folder is named twice; name each run once")


def distinct_names(folders: Sequence[Path]) -> list[str]:
    """The name of each folder; its whole path where two names are the same."""
    names = [folder.resolve().name for folder in folders]
    return names if repeated(names) is None else list(map(str, folders))


def differing_designs(folders: Sequence[Path], configs: Sequence[Any]) -> list[str]:
    """A note on each folder whose design is not that of the first one."""
    first, notes = configs[0].design(), []
    for folder, config in zip(folders[1:], configs[1:], strict=True):
        difference = first_difference(first, config.design())
        if difference:
            notes.append(f"designs of {folders[0]} and {folder} differ: {difference}")
    return notes


class SequentialFolder(VariantFolder):
    """The folder `path` of a run, and its finished results."""

    def claim(self, config: SequentialConfig) -> None:
        """Write the design into the folder, or check that it is the same, as `check_config`."""
        identity = {"design": config.design(), "fingerprints": config.suite.fingerprints()}
        noted = {
            "suite": config.suite.name,
            "preset": config.preset,
            "note": smaller_than_protocol(config),
            "hash": config.hash(),
            "versions": versions(),
        }
        check_config(self.path, identity, name=DESIGN, noted=noted)

    def model(self, variant: str, seed: int, phase: int) -> Path:
        """Where the model of a seed after a phase is saved."""
        return self.path / "models" / variant / f"seed_{seed}" / f"phase_{phase}"

    def finished_seeds(self, variant: str) -> set[int]:
        """The seeds of a variant that have come to the end of the last phase."""
        found = {seed for matrix in self._groups().get(variant, []) for seed in matrix.seeds}
        return found.union(self.diverged_seeds(variant))

    def diverged_seeds(self, variant: str) -> tuple[int, ...]:
        """The finished seeds of a variant that are not in the matrix."""
        files = (self.path / "diverged").glob(f"{glob.escape(variant)}-seeds-*.txt")
        texts = [path.read_text(encoding="utf-8") for path in files]
        return tuple(sorted(seed for text in texts for seed in parse_seeds(text.strip())))

    def write_log(self, phases: Phases) -> Path:
        """Write the learning curves of the phase under way; a seed's end where it stopped."""
        config, variant, task = phases.config, phases.variant.name, phases.task
        phase, steps, logs = phases.phase + 1, np.asarray(phases.rows.steps), []
        columns = {name: np.stack(found) for name, found in phases.rows.values.items()}
        for place in np.argsort(phases.seeds).tolist():
            seed, last = phases.seeds[place], phases.stopped[place]
            trained = (steps <= last) | (last < 0)
            values = {name: column[None, trained, place] for name, column in columns.items()}
            run = f"{variant}-phase-{phase}-{task}-seed_{seed}"
            logs.append(RunLog.from_arrays([run], steps[trained], values, seeds=[seed]))
        log = RunLog.concat(logs)
        log.metadata = {
            "variant": variant,
            "phase": phase,
            "task": task,
            "suite": config.suite.name,
            "preset": config.preset,
            "begins_after_steps": sum(config.steps[: phase - 1]),
            "checkpoint_every_steps": config.training.checkpoint_every,
            "task_fingerprint": config.suite.data(task).fingerprint(),
            "design": config.design(),
            "design_hash": config.hash(),
            "versions": versions(),
        }
        name = f"phase-{phase}-{task}-{group_name(phases.seeds)}.parquet"
        return log.write(self.path / "logs" / variant / name)

    def write_results(self, phases: Phases) -> None:
        """Write the matrix of a group of seeds that has finished."""
        matrix, diverged = phases.retention()
        name = f"{phases.variant.name}-{group_name(phases.seeds)}"
        if diverged:
            write_text(self.path / "diverged" / f"{name}.txt", f"{format_seeds(diverged)}\n")
        if matrix is not None:
            write_matrix(self.path / "matrix" / f"{name}.csv", {matrix.variant: matrix})

    def merge(self) -> Path:
        """Write the matrices of all groups into one file, dense first; `InputError` without any."""
        merged, groups = {}, self._groups()
        for variant in sorted(groups, key=lambda name: (name != DENSE, name)):
            parts = groups[variant]
            seeds = [seed for part in parts for seed in part.seeds]
            order = np.argsort(seeds)
            merged[variant] = replace(
                parts[0],
                seeds=tuple(sorted(seeds)),
                loss=np.concatenate([part.loss for part in parts])[order],
                accuracy=np.concatenate([part.accuracy for part in parts])[order],
            )
        if not merged:
            raise InputError(
                f"{self.path}: every seed has diverged; take a smaller learning rate, as in "
                "--set training.lr=1e-3, and another --out"
            )
        return write_matrix(self.path / MATRIX, merged)

    def _groups(self) -> dict[str, list[RetentionMatrix]]:
        """Variant -> the matrix of each group of its seeds."""
        found: dict[str, list[RetentionMatrix]] = {}
        for path in sorted((self.path / "matrix").glob("*.csv")):
            for variant, matrix in read_matrix(path).items():
                found.setdefault(variant, []).append(matrix)
        return found
