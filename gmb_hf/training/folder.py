"""What the folder of a training holds: its config, and what is finished. No torch is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from gmb_hf.base.documents import load_yaml
from gmb_hf.base.errors import InputError, first_of
from gmb_hf.base.files import remove_strays, write_text
from gmb_hf.runs.readers import reader_of
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.config import RunConfig
from gmb_hf.training.settings import Config, first_difference

Design = TypeVar("Design", bound=Config)


def check_config(
    folder: Path,
    identity: Mapping[str, Any],
    *,
    name: str = "config.yaml",
    noted: Mapping[str, Any] | None = None,
) -> None:
    """Note in a file of the folder what is trained there, or check that it is the same.

    Args:
        folder: of the logs.
        identity: plain data that decide the logs.
        name: of the file.
        noted: what else the file says when it is written first, under other keys; it may differ.

    Raises:
        InputError: the folder holds runs of another config; the first difference is named.
    """
    path, noted = folder / name, noted or {}
    remove_strays(folder)
    if not path.exists():
        write_text(path, yaml.safe_dump({**noted, **identity}, sort_keys=True))
        return
    held = {key: value for key, value in read_config_file(path).items() if key not in noted}
    difference = first_difference(held, identity)
    if difference:
        raise InputError(
            f"{path}: this folder holds runs of another config ({difference}); choose another "
            "--out, or give the config that it was begun with"
        )


def read_config_file(path: Path) -> dict[str, Any]:
    """What `check_config` wrote; empty where it is something else, `InputError` where no YAML."""
    if not path.exists():
        raise InputError(f"{path}: no such file; name the folder of a run")
    try:
        held = load_yaml(path)
    except InputError as error:
        raise error.reworded(f"{error}; choose another folder") from None
    return held if isinstance(held, dict) else {}


def read_design(kind: type[Design], path: Path) -> Design:
    """The config of which `check_config` noted preset and `design`; `InputError` where none is."""
    held = read_config_file(path)
    design = {"preset": held.get("preset", ""), **(held.get("design") or {})}
    return kind.from_dict(design, where=str(path))


def log_paths(folder: Path) -> list[Path]:
    """The logs of all finished groups, sorted."""
    return sorted((folder / "logs").glob("seeds-*.parquet"))


def finished_seeds(folder: Path) -> set[int]:
    """The seeds whose log is complete."""
    seeds: set[int] = set()
    for path in log_paths(folder):
        seeds.update(seed for seed in RunLog.read(path).seeds if seed is not None)
    return seeds


def model_folder(folder: Path, seed: int) -> Path:
    """Where the model of a seed is kept in the folder of a training."""
    return folder / "models" / f"seed_{seed}"


def refuse_gone(folder: Path, keep: Iterable[int], finished: Iterable[int]) -> None:
    """Raise `InputError` where a seed to keep has its log, and its model was not kept."""
    gone = [
        seed
        for seed in sorted({*keep} & {*finished})
        if not (model_folder(folder, seed) / "config.json").exists()
    ]
    if gone:
        raise InputError(
            f"{folder}: seeds {first_of(gone)} were trained here already and their models not "
            "kept; choose another --out, or other seeds for --save-models"
        )


def check_training(
    folder: Path, config: RunConfig, about: Mapping[str, Any] | None = None
) -> set[int]:
    """As `check_config`, also of the logs there; the seeds whose log is complete."""
    check_config(folder, {**config.training_identity(), **(about or {})})
    own, logs, seeds = log_paths(folder), folder / "logs", set[int]()
    for path in sorted(logs.iterdir()) if logs.is_dir() else ():
        if path.name[0] in "._" or reader_of(path) is None:
            continue
        log = RunLog.read(path) if path in own else None
        if log is None or log.metadata.get("config_hash") != config.training_hash():
            what = "was not trained here, by this config; move it out of this folder, or choose"
            raise InputError.at(path, "foreign_log", f"{what} another --out")
        seeds.update(seed for seed in log.seeds if seed is not None)
    return seeds


def finished_logs(
    config: RunConfig,
    seeds: Sequence[int],
    folder: Path,
    *,
    about: Mapping[str, Any] | None = None,
    keep: Sequence[int] = (),
) -> list[Path]:
    """The files of all logs where nothing of a training is left to do; else none.

    `InputError` where the folder belongs to another config, or a model to keep is gone.
    """
    if not (folder / "config.yaml").exists() or not {*keep} <= {*seeds}:
        return []
    done = check_training(folder, config, about)
    if not done.issuperset(seeds) or any(folder.glob("state/*")):
        return []
    refuse_gone(folder, keep, done)
    return log_paths(folder)
