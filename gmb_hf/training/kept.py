"""Models that a training keeps, each as `save_pretrained` leaves it and with its own log.

    OUT/models/seed_7/config.json, model.safetensors   the model after its last step
    OUT/models/seed_7/log.parquet                      its run, and in its metadata what made it

A folder appears at once and whole, before the log of its group does.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from gmb_hf.files import clear_os_errors
from gmb_hf.modeling import GrokkingTransformerForCausalLM
from gmb_hf.runs import RunLog
from gmb_hf.training.quiet import quiet_models
from gmb_hf.validation import InputError, first_of

LOG = "log.parquet"


def model_folder(folder: Path, seed: int) -> Path:
    """Where the model of a seed is kept in the folder of a training."""
    return folder / "models" / f"seed_{seed}"


def keep_model(model: GrokkingTransformerForCausalLM, log: RunLog, folder: Path, seed: int) -> Path:
    """Save a trained model; one that an interrupted start has left is replaced.

    Args:
        model: after its last step.
        log: with its run.
        folder: of the training.
        seed: of the run.

    Raises:
        InputError: the folder cannot be written to.
    """
    place = model_folder(folder, seed)
    with whole_folder(place) as workshop:
        with quiet_models():
            model.save_pretrained(workshop)
        log.select([f"seed_{seed}"]).write(workshop / LOG)
    return place


@contextlib.contextmanager
def whole_folder(place: Path) -> Iterator[Path]:
    """Yield a folder to fill, which then takes its place at once; on an error nothing changes.

    Raises:
        InputError: the disk is full, or the place cannot be written to.
    """
    with clear_os_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        try:
            yield workshop
            workshop.chmod(place.parent.stat().st_mode)
            shutil.rmtree(place, ignore_errors=True)
            workshop.rename(place)
        finally:
            shutil.rmtree(workshop, ignore_errors=True)


def refuse_gone(folder: Path, keep: Iterable[int], finished: Iterable[int]) -> None:
    """Refuse to keep models of seeds whose training is over.

    Raises:
        InputError: a seed has its log, and its model was not kept.
    """
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
