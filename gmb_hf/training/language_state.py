"""The half-finished training of a language model: Accelerate's state, and the log so far.

`state/seed_S/step-N/` holds what `accelerator.save_state` writes and `progress.json`. A state gets
its name when every process has written its part, and the one before it goes only then.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from gmb_hf.files import clear_os_errors, write_text
from gmb_hf.training.quiet import quiet_models
from gmb_hf.validation import InputError

_PROGRESS = "progress.json"
_UNFINISHED = "unfinished"


@dataclass
class LossLog:
    """The rows of a run's log so far, by column; `step` is one of them."""

    columns: dict[str, list[float]] = field(default_factory=dict)

    def add(self, **row: float) -> None:
        """Append the row of one checkpoint."""
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)

    @property
    def step(self) -> int:
        """Of the last row; -1 where there is none."""
        return int(self.columns["step"][-1]) if self.columns else -1


def save_state(accelerator: Accelerator, folder: Path, log: LossLog, identity: str) -> None:
    """Save what is needed to go on from here; every process must call it.

    Raises:
        InputError: the disk is full, or the place cannot be written to.
    """
    unfinished = folder / _UNFINISHED
    if accelerator.is_main_process:
        shutil.rmtree(unfinished, ignore_errors=True)
        with clear_os_errors(unfinished):
            unfinished.mkdir(parents=True)
    accelerator.wait_for_everyone()
    with clear_os_errors(unfinished), quiet_models():
        accelerator.save_state(str(unfinished))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        progress = {"identity": identity, "columns": log.columns}
        write_text(unfinished / _PROGRESS, json.dumps(progress) + "\n")
        new = folder / f"step-{log.step}"
        shutil.rmtree(new, ignore_errors=True)
        unfinished.replace(new)
        for old in _states(folder):
            if old != new:
                shutil.rmtree(old)
    accelerator.wait_for_everyone()


def load_state(accelerator: Accelerator, folder: Path, identity: str) -> LossLog:
    """Go on from the last saved state: the log so far, empty where there is none.

    Raises:
        InputError: the state is not whole, or of another training.
    """
    states = _states(folder)
    if not states:
        return LossLog()
    place = states[-1]
    try:
        held: dict[str, Any] = json.loads((place / _PROGRESS).read_text(encoding="utf-8"))
        columns = held["columns"]
        same = held["identity"] == identity
        if same:
            accelerator.load_state(str(place))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{place}: not a state of an interrupted training ({reason}); delete it to train "
            "this seed again"
        ) from error
    if not same:
        raise InputError(f"{place}: the interrupted training of another config; delete it")
    return LossLog(columns)


def drop_state(folder: Path) -> None:
    """Remove the states of a finished training."""
    shutil.rmtree(folder, ignore_errors=True)


def _states(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("step-*") if re.fullmatch(r"step-\d+", path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))
