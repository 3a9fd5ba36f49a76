"""Checkpoints that somebody names: which run each belongs to, and at which step it was saved.

outputs/seed_3/checkpoint-400        run seed_3, step 400, as a Trainer leaves them
outputs/seed_3                       all of that run's
outputs                              all of all runs
runs/quick/models/seed_7             run seed_7, the last step of the log.parquet beside it
seed_7:2000=FOLDER                   any other folder
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gmb_hf.answers.answers_file import LARGEST, check_text
from gmb_hf.runs import RunLog
from gmb_hf.runs.order import natural_key
from gmb_hf.validation import InputError

_STEP = re.compile(r"(?:checkpoint|step)-(\d+)")
_NAMED = re.compile(r"(?P<run>[^=:]+):(?P<step>\d+)=(?P<place>.+)")
_LOG = "log.parquet"
_STATE = "trainer_state.json"
_DEPTHS = ("*", "*/*")


@dataclass(frozen=True)
class Saved:
    """A checkpoint: its run, step and folder."""

    run: str
    step: int
    folder: Path


def find_checkpoints(given: Sequence[str]) -> tuple[Saved, ...]:
    """Every checkpoint that is named, by run and step.

    Raises:
        InputError: nothing given, no such folder, no checkpoint in it, one whose step nobody says,
            two of one run and step, or a run or step that no file of answers could hold.
    """
    if not given:
        raise InputError("--checkpoints: no checkpoint is given; name a folder")
    found: dict[tuple[str, int], Saved] = {}
    for word in given:
        for saved in _read(word):
            _check_key(saved, word)
            other = found.setdefault((saved.run, saved.step), saved)
            if other.folder.resolve() != saved.folder.resolve():
                raise InputError(
                    f"--checkpoints: {saved.folder} and {other.folder} are both run "
                    f"{saved.run!r} at step {saved.step}; name them apart: RUN:STEP=FOLDER"
                )
    return tuple(sorted(found.values(), key=lambda saved: (natural_key(saved.run), saved.step)))


def _read(word: str) -> list[Saved]:
    named = _NAMED.fullmatch(word)
    if named and not Path(word).exists():
        folder = Path(named["place"]).expanduser()
        _require_model(folder)
        return [Saved(named["run"], int(named["step"]), folder)]
    folder = Path(word).expanduser()
    if not folder.is_dir():
        raise InputError(f"--checkpoints {word}: there is no such folder")
    if (folder / "config.json").is_file():
        return [_described(folder)]
    for depth in _DEPTHS:
        inside = sorted(path.parent for path in folder.glob(f"{depth}/config.json"))
        seen = [path for path in inside if not path.name.startswith(".")]
        if seen:
            return [_described(path) for path in seen]
    raise InputError(
        f"--checkpoints {word}: holds no model (config.json), nor do its folders; name a "
        "checkpoint, the folder of a run's checkpoints, or the folder of such folders"
    )


def _described(folder: Path) -> Saved:
    """Run and step by the names of the folders, or by what lies beside the model."""
    place = folder.resolve()
    match = _STEP.fullmatch(place.name)
    if match:
        return Saved(place.parent.name, int(match[1]), folder)
    if (folder / _LOG).is_file():
        log = RunLog.read(folder / _LOG)
        if len(log.runs) == 1:
            return Saved(log.runs[0], int(log.panel("step").last_step[0]), folder)
    step = _trainer_step(folder / _STATE)
    if step is not None:
        return Saved(place.name, step, folder)
    raise InputError(f"{folder}: nothing says at which step it was saved; write RUN:STEP={folder}")


def _check_key(saved: Saved, word: str) -> None:
    """Refuse a run or step that no file of answers could hold."""
    check_text(saved.run, f"--checkpoints: the run {saved.run!r}")
    if not saved.run.strip():
        raise InputError(f"--checkpoints {word}: the run has no name; write RUN:STEP=FOLDER")
    if saved.step > LARGEST:
        raise InputError(f"--checkpoints {word}: step {saved.step} is too large; at most 2^53")


def _trainer_step(path: Path) -> int | None:
    try:
        step = json.loads(path.read_text(encoding="utf-8"))["global_step"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) else None


def _require_model(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise InputError(f"--checkpoints: {folder} holds no model (no config.json)")
