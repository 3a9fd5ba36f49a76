"""transformers' `trainer_state.json`: the `log_history` that a Trainer writes with a checkpoint.

A run is the training's output folder, not the checkpoint in it. Of several checkpoints of a run the
one that trained longest holds the whole history.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gmb_hf.runs.raw import STEP, RawTable, Wanted
from gmb_hf.runs.readers.json_lines import columns_of
from gmb_hf.validation import InputError

FILE_NAME = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
# The entry with which a training ends: means over all of it, and no measurement of its last step.
_SUMMARY = "train_runtime"


def is_trainer_state(name: str) -> bool:
    """Whether a file of this name holds a Trainer's state."""
    return name == FILE_NAME


def output_folder(path: Path) -> Path:
    """The training's output folder, which names the run."""
    folder = path.absolute().parent
    return folder.parent if _CHECKPOINT.fullmatch(folder.name) else folder


def read_trainer_state(paths: Sequence[Path], wanted: Wanted) -> RawTable:
    """The history of one run, from the state that went furthest.

    Raises:
        InputError: a file is cut short or no Trainer's state, or nothing was logged.
    """
    # The state beside the checkpoints may be newer than the last of them, or older.
    beside = [path for path in paths if _checkpoint(path) < 0]
    states = {path: _state(path) for path in {max(paths, key=_checkpoint), *beside}}
    path = max(states, key=lambda each: (_reached(states[each]), _checkpoint(each) < 0))
    history = states[path]["log_history"]
    entries: list[tuple[int, dict[str, Any]]] = []
    summary: dict[str, str] = {}
    for number, entry in enumerate(history, start=1):
        if not isinstance(entry, dict):
            raise InputError(f"{path}: entry {number} of log_history is no object")
        if _SUMMARY in entry:
            summary = {name: _aside(path, name) for name in entry}
        else:
            entries.append((number, entry))
    if not entries:
        raise InputError(
            f"{path}: log_history is empty: no rows; is the training still starting, or is "
            "logging_steps larger than the training is long?"
        )
    table = columns_of([entry for _, entry in entries])
    names = tuple(table.column_names)
    return RawTable(
        table,
        str(path),
        lambda row: f"entry {entries[row][0]} of log_history",
        names,
        aside={name: reason for name, reason in summary.items() if name not in names},
    )


def _checkpoint(path: Path) -> int:
    """The number of the checkpoint that a state lies in, -1 beside the checkpoints."""
    found = _CHECKPOINT.fullmatch(path.absolute().parent.name)
    return int(found.group(1)) if found else -1


def _state(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8-sig")
    try:
        state = json.loads(text)
    except ValueError as error:
        raise InputError(
            f"{path}: cut short, or no JSON: {error}; copy the file again, or read an earlier "
            "checkpoint"
        ) from error
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise InputError(f"{path}: no Trainer's state: it has no list log_history")
    return state


def _reached(state: dict[str, Any]) -> float:
    steps = [
        entry[STEP]
        for entry in state["log_history"]
        if isinstance(entry, dict) and isinstance(entry.get(STEP), (int, float))
    ]
    return max(steps, default=-1.0)


def _aside(path: Path, name: str) -> str:
    return (
        f"{path}: column {name!r} is logged once, when a training ends, and is no measurement of "
        "that step"
    )
