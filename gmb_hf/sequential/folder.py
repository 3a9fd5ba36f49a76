"""The folder of a sequential run: its design, and the files of each variant and seed.

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
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gmb_hf.errors import InputError
from gmb_hf.files import write_text
from gmb_hf.runs.runlog import RunLog
from gmb_hf.sequential.config import SequentialConfig, smaller_than_protocol
from gmb_hf.sequential.matrix import RetentionMatrix, read_matrix, write_matrix
from gmb_hf.sequential.train import Phases
from gmb_hf.training.checkpoints import Rows, check_config, group_name, read_config_file
from gmb_hf.training.config import format_seeds, parse_seeds
from gmb_hf.training.stacked import versions
from gmb_hf.training.variants import DENSE

DESIGN, MATRIX = "sequential.yaml", "matrix.csv"


class SequentialFolder:
    """Paths of a run, and its finished results.

    Attributes:
        path: of the folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def claim(self, config: SequentialConfig) -> None:
        """Write the design into the folder, or check that it is the same.

        Raises:
            InputError: the folder holds a run of another design; the first difference is named.
        """
        identity = {"design": config.design(), "fingerprints": config.suite.fingerprints()}
        noted = {
            "suite": config.suite.name,
            "preset": config.preset,
            "note": smaller_than_protocol(config),
            "hash": config.hash(),
            "versions": versions(),
        }
        check_config(self.path, identity, name=DESIGN, noted=noted)

    def states(self, variant: str) -> Path:
        """Where the training states of a variant's unfinished seeds are saved."""
        return self.path / "state" / variant

    def model(self, variant: str, seed: int, phase: int) -> Path:
        """Where the model of a seed after a phase is saved."""
        return self.path / "models" / variant / f"seed_{seed}" / f"phase_{phase}"

    def finished_seeds(self, variant: str) -> set[int]:
        """The seeds of a variant that have come to the end of the last phase."""
        found = {seed for matrix in self._shards(variant) for seed in matrix.seeds}
        return found.union(self.diverged_seeds(variant))

    def diverged_seeds(self, variant: str) -> tuple[int, ...]:
        """The finished seeds of a variant that are not in the matrix."""
        files = (self.path / "diverged").glob(f"{glob.escape(variant)}-seeds-*.txt")
        texts = [path.read_text(encoding="utf-8") for path in files]
        return tuple(sorted(seed for text in texts for seed in parse_seeds(text.strip())))

    def write_log(
        self,
        config: SequentialConfig,
        variant: str,
        seeds: Sequence[int],
        phase: int,
        rows: Rows,
        stopped: NDArray[np.int64],
    ) -> Path:
        """Write the learning curves of a phase as one run log; a seed's end where it stopped.

        Args:
            config, variant, seeds: what was trained.
            phase: counted from 1.
            rows: one for each checkpoint, of all seeds.
            stopped: the step at which each seed stopped early, [S]; a negative one if it did not.
        """
        task = config.suite.tasks[phase - 1]
        steps = np.asarray(rows.steps)
        logs = []
        for place in np.argsort(seeds).tolist():
            seed, last = seeds[place], stopped[place]
            trained = slice(None) if last < 0 else steps <= last
            values = {
                name: np.stack(found)[trained, place][None] for name, found in rows.values.items()
            }
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
        name = f"phase-{phase}-{task}-{group_name(seeds)}.parquet"
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
        """Write the matrices of all groups into one file: dense first, then by name.

        Raises:
            InputError: no seed of any variant has a matrix.
        """
        merged = {}
        names = {name for path in self._paths() for name in read_matrix(path)}
        for variant in sorted(names, key=lambda name: (name != DENSE, name)):
            parts = self._shards(variant)
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

    def _shards(self, variant: str) -> list[RetentionMatrix]:
        found = [read_matrix(path) for path in self._paths()]
        return [matrices[variant] for matrices in found if variant in matrices]

    def _paths(self) -> list[Path]:
        return sorted((self.path / "matrix").glob("*.csv"))


def read_design(path: str | Path) -> SequentialConfig:
    """The config in a run's `sequential.yaml`.

    Raises:
        InputError: the file is missing, or no such design.
    """
    design = read_config_file(Path(path)).get("design") or {}
    return SequentialConfig.from_dict(design, where=str(path))
