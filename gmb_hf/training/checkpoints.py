"""States of interrupted trainings, and saved models."""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import GenerationConfig

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import parse_json, whole_folder, write_bytes
from gmb_hf.base.fingerprints import HASH_LENGTH
from gmb_hf.base.pretrained import find_model, write_hashes
from gmb_hf.modeling import GrokkingTokenizer, GrokkingTransformerForCausalLM
from gmb_hf.runs.runlog import RunLog
from gmb_hf.tasks.task import Task
from gmb_hf.training.config import HELD, TrainingSettings, format_seeds
from gmb_hf.training.folder import model_folder
from gmb_hf.training.launch import silence_transformers

_PREDICTIONS = "predictions"
_ROW = "row."
LOG = "log.parquet"
"""Of a saved model, beside its weights."""


@dataclass
class Rows:
    """The log of S seeds so far: the steps measured, and one [T, S] stack per observable.

    A training of one seed alone may keep plain numbers.
    """

    steps: list[int] = field(default_factory=list)
    values: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The step of the last row; -1 where there is none."""
        return self.steps[-1] if self.steps else -1

    def add(self, step: int, found: Mapping[str, Any]) -> None:
        """Append the observables [S] of one checkpoint.

        A column is kept if all checkpoints have it: a version that measured less, or more, may
        have begun the log.
        """
        if not self.steps:
            self.values = {name: [] for name in found}
        for name in self.values.keys() - found.keys():
            del self.values[name]
        self.steps.append(step)
        # In one array: a hundred small ones at each checkpoint, kept for hours, leave holes in the
        # memory between the large ones that come and go.
        block = np.array([found[name] for name in self.values], dtype=np.float64)
        for values, row in zip(self.values.values(), block, strict=True):
            values.append(row)

    def of(self, places: Sequence[int], until: int | None = None) -> Rows:
        """The rows of the seeds at some places, up to a step."""
        count = len(self.steps) if until is None else bisect.bisect_right(self.steps, until)
        index = np.asarray(places)
        values = {
            name: [np.atleast_1d(row)[index] for row in rows[:count]]
            for name, rows in self.values.items()
        }
        return Rows(self.steps[:count], values)

    def ends(self, training: TrainingSettings) -> NDArray[np.int64]:
        """The step at which the run of each seed ends, as far as the rows tell: int64 [S].

        `training.stop_after` steps after the first checkpoint at which held-out accuracy has been
        `training.stop_at` for five in a row; without it, or before, the last step of all. A run
        that diverges ends at the checkpoint before the one at which its training loss is not
        finite.
        """
        accuracy = np.stack(self.values["test_acc"])  # [T, S]
        ends = np.full(accuracy.shape[1], training.steps)
        diverged = ~np.isfinite(np.stack(self.values["train_loss"]))
        before = np.asarray(self.steps)[diverged.argmax(0) - 1]
        ends = np.where(diverged.any(0), before, ends)
        if training.stop_after is None or len(accuracy) < HELD:
            return ends
        every = training.checkpoint_every
        longer = math.ceil(training.stop_after / every) * every
        held = sliding_window_view(accuracy >= training.stop_at, HELD, axis=0).all(-1)
        first = np.asarray(self.steps)[HELD - 1 + held.argmax(0)] + longer
        return np.where(held.any(0), np.minimum(first, ends), ends)

    def log(self, seeds: Sequence[int], metadata: Mapping[str, Any]) -> RunLog:
        """The rows as a run log of these seeds, which are sorted."""
        order = np.argsort(seeds)
        ordered = [seeds[place] for place in order]
        return RunLog.from_arrays(
            [f"seed_{seed}" for seed in ordered],
            np.asarray(self.steps),
            {
                name: np.reshape(values, (len(self.steps), len(seeds))).T[order]
                for name, values in self.values.items()
            },
            seeds=ordered,
            metadata=dict(metadata),
        )


def group_name(seeds: Sequence[int]) -> str:
    """A file name for a group of seeds, e.g. `seeds-0-35-n36`; with gaps also a hash of them."""
    first, last, count = min(seeds), max(seeds), len(seeds)
    name = f"seeds-{first}-{last}-n{count}"
    if last - first + 1 == count:
        return name
    return f"{name}-{hashlib.sha256(format_seeds(seeds).encode()).hexdigest()[:8]}"


_LAYOUT = 2
"""Of saved states: another one where recorders keep other tensors, or name them otherwise."""


@dataclass(frozen=True)
class States:
    """The states of interrupted groups of seeds, one safetensors file each, written atomically.

    They lie in `folder`; one of a config with another `identity` is refused with an `InputError`.
    """

    folder: Path
    identity: str

    def path(self, seeds: Sequence[int]) -> Path:
        """Where the state of these seeds is."""
        return self.folder / f"{group_name(seeds)}.safetensors"

    def save(
        self,
        seeds: Sequence[int],
        tensors: Mapping[str, Tensor],
        rows: Rows,
        predictions: Tensor | None = None,
    ) -> None:
        """Write the state of a group, whole or not at all; `InputError` as `write_checked`."""
        content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        if predictions is not None:
            content[_PREDICTIONS] = predictions.cpu().contiguous()
        for name, values in rows.values.items():
            content[_ROW + name] = torch.from_numpy(np.stack(values))
        about = {
            "seeds": json.dumps(list(seeds)),
            "layout": json.dumps(_LAYOUT),
            "identity": self.identity,
            "steps": json.dumps(rows.steps),
            "columns": json.dumps(list(rows.values)),  # tensors are stored in an order of their own
        }
        write_checked(self.path(seeds), content, about)

    def load(self, seeds: Sequence[int]) -> tuple[dict[str, Tensor], Tensor | None, Rows] | None:
        """Tensors, last predictions and rows as `save` wrote them; None without a state.

        `InputError` where the file is no state that this package wrote, or of another config.
        """
        path = self.path(seeds)
        if not path.exists():
            return None
        about, whole = self._read(path)
        content = safetensors.torch.load(whole)
        values = {name: list(content.pop(_ROW + name).numpy()) for name in about["columns"]}
        return content, content.pop(_PREDICTIONS, None), Rows(about["steps"], values)

    def drop(self, seeds: Sequence[int]) -> None:
        """Remove the state of a group that has finished."""
        self.path(seeds).unlink(missing_ok=True)

    def waiting(self, finished: Collection[int]) -> list[tuple[int, ...]]:
        """The interrupted groups, sorted; states of seeds that have all finished are removed.

        `InputError` where a file there is no state, or of another config.
        """
        groups = []
        for path in self.folder.glob("seeds-*.safetensors"):
            # Another process may just have finished its group.
            with contextlib.suppress(FileNotFoundError):
                groups.append(tuple(self._read(path)[0]["seeds"]))
        # A process that dies between writing its results and dropping its state leaves both.
        for group in [group for group in groups if set(finished).issuperset(group)]:
            groups.remove(group)
            self.drop(group)
        return sorted(groups)

    def pending(
        self, seeds: Sequence[int], finished: Collection[int], *, at_once: int
    ) -> list[tuple[int, ...]]:
        """The groups still to train: interrupted ones first, the rest cut into even groups.

        All of `seeds` shall be finished at the end, and some are; `at_once` of them are trained
        together at most. `InputError` as `waiting`.
        """
        missing = {*seeds}.difference(finished)
        groups = []
        # A group that was halved may have left its own state beside that of the half.
        for group in sorted(self.waiting(finished), key=len, reverse=True):
            if missing.issuperset(group):
                groups.append(group)
                missing.difference_update(group)
        rest = [seed for seed in seeds if seed in missing]
        if not rest:
            return groups
        parts = np.array_split(np.asarray(rest), math.ceil(len(rest) / at_once))
        return groups + [tuple(part.tolist()) for part in parts]

    def _read(self, path: Path) -> tuple[dict[str, Any], bytes]:
        """Seeds, steps and columns of a state of this config, and the content of the file."""
        try:
            whole = path.read_bytes()
            with safe_open(path, framework="pt") as file:
                held = dict(file.metadata() or {})
            about = {key: parse_json(held[key], where=key) for key in ("seeds", "steps", "columns")}
            if held["hash"] != _hash_without(whole, held["hash"]):
                raise ValueError("its hash differs: it was damaged or changed")
        except FileNotFoundError:
            raise
        except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
            raise InputError(
                f"{path}: not a state of an interrupted training ({error}); delete it to train "
                "its seeds again"
            ) from error
        if held.get("layout") != json.dumps(_LAYOUT):
            raise InputError(
                f"{path}: was saved by an earlier version of gmb-hf, which this one cannot go on "
                "with; finish it with that version, or delete it to train its seeds again"
            )
        if held.get("identity") != self.identity:
            raise InputError(
                f"{path}: the interrupted training of another config; choose another --out, or "
                "delete it"
            )
        return about, whole


_NO_HASH = "0" * HASH_LENGTH


def write_checked(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write a safetensors file whose metadata has its own hash: of the file with zeros there.

    `InputError` where the disk is full, or the place cannot be written to.
    """
    # Through bytes: safetensors' own writer does not say readably that a disk is full.
    whole = safetensors.torch.save(dict(tensors), metadata={**about, "hash": _NO_HASH})
    digest = hashlib.sha256(whole).hexdigest()
    write_bytes(path, whole.replace(_NO_HASH.encode(), digest.encode(), 1))


def _hash_without(whole: bytes, digest: str) -> str:
    """What the hash in a file must be: of the file with zeros in its place."""
    blank = whole.replace(digest.encode(), _NO_HASH.encode(), 1)
    return hashlib.sha256(blank).hexdigest()


def save_model(model: GrokkingTransformerForCausalLM, folder: Path, tasks: Sequence[Task]) -> None:
    """Save a model that learned these tasks, with the tokenizer that reads their questions.

    By default it generates as many tokens as the longest answer has, the likeliest at each place.
    """
    special = tasks[0].vocabulary
    model.generation_config = GenerationConfig(
        max_new_tokens=max(task.answer_length for task in tasks),
        do_sample=False,
        bos_token_id=special.bos,
        eos_token_id=special.eos,
        pad_token_id=special.eos,
    )
    longest = model.config.max_position_embeddings
    tokenizer = GrokkingTokenizer.of_tasks(tasks, model_max_length=longest)
    with silence_transformers():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    write_hashes(folder)


def keep_model(
    model: GrokkingTransformerForCausalLM, log: RunLog, folder: Path, seed: int, task: Task
) -> Path:
    """Save a model that learned a task, in place of what an interrupted start left.

    As `whole_folder`; the run's log lies beside the weights.
    """
    place = model_folder(folder, seed)
    with whole_folder(place) as workshop:
        save_model(model, workshop, [task])
        log.select([f"seed_{seed}"]).write(workshop / LOG)
    return place


def load_model(folder: str | Path) -> GrokkingTransformerForCausalLM:
    """A folder's model; `InputError` where there is none, or weights are missing or others."""
    if not Path(folder).exists():
        raise InputError(f"{folder}: holds no model (no config.json); save_pretrained writes one")
    source = find_model(str(folder), trust_remote_code=None)
    try:
        with silence_transformers():
            model, about = GrokkingTransformerForCausalLM.from_pretrained(
                source.folder, output_loading_info=True, use_safetensors=True
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{folder}: could not be loaded as a grokking model: {reason}") from None
    # transformers would draw missing weights at random.
    wrong = sorted({*about["missing_keys"], *about["unexpected_keys"]})
    if wrong:
        raise InputError(
            f"{folder}: is no whole grokking model; {len(wrong)} of its weights are missing or "
            f"unknown, e.g. {wrong[0]}"
        )
    loaded: GrokkingTransformerForCausalLM = model.eval()
    return loaded
