"""A language model and its tokenizer in one folder, as transformers saves both.

Beside them lies `training_text.json`: what the model was trained on, with the counts of its bytes.
The model's config holds a hash of the tokenizer, so that the two cannot be mixed up.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from gmb_hf.errors import InputError
from gmb_hf.files import clear_os_errors, write_text
from gmb_hf.language.data import load_tokenizer, tokenizer_hash
from gmb_hf.training.checkpoints import Rows
from gmb_hf.training.launch import silence_transformers

TRAINING_TEXT = "training_text.json"
HASH = "tokenizer_hash"
"""Of the model's config."""

_MOST_UNUSED = 0.1  # share of the vocabulary: some models pad theirs to a round number


@dataclass(frozen=True)
class Checkpoint:
    """What a folder holds.

    Attributes:
        place: the folder, or a name on the Hub.
        model: a causal language model, in evaluation mode.
        tokenizer: of its vocabulary.
        training_text: what `training_text.json` says; None where there is none.
    """

    place: str
    model: torch.nn.Module
    tokenizer: Any
    training_text: Mapping[str, Any] | None

    @property
    def block(self) -> int:
        """The longest input, in tokens.

        Raises:
            InputError: the model's config does not say.
        """
        longest = getattr(self.model.config, "max_position_embeddings", None)
        if longest is None:
            raise InputError(f"{self.place}: its config has no max_position_embeddings")
        return int(longest)

    @property
    def parameters(self) -> int:
        """How many numbers the model learned, shared ones once."""
        return sum(parameter.numel() for parameter in self.model.parameters())


def save_checkpoint(
    folder: Path, model: Any, tokenizer: Any, training_text: Mapping[str, Any]
) -> Path:
    """Write a checkpoint; the folder appears whole or not at all.

    Args:
        folder: must not exist yet.
        model: a PreTrainedModel.
        tokenizer: its tokenizer.
        training_text: plain data.
    """
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    with silence_transformers():
        model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    write_text(unfinished / TRAINING_TEXT, json.dumps(dict(training_text)) + "\n")
    unfinished.replace(folder)
    return folder


def load_checkpoint(place: str) -> Checkpoint:
    """The model and the tokenizer of a folder, or of a repository of the Hub.

    Raises:
        InputError: there is no model, no tokenizer, or the tokenizer is another model's.
    """
    from transformers import AutoModelForCausalLM

    import gmb_hf.modeling  # noqa: F401 (makes its models known to the Auto classes)

    folder = Path(place)
    if folder.exists() and not (folder / "config.json").is_file():
        raise InputError(f"{place}: holds no model (no config.json); save_pretrained writes one")
    if folder.exists() and not (folder / "tokenizer_config.json").is_file():
        raise InputError(
            f"{place}: holds a model but no tokenizer; save it there too: "
            "tokenizer.save_pretrained(folder)"
        )
    if not folder.exists() and (place.startswith((".", "/", "~")) or place.count("/") > 1):
        raise InputError(f"{place}: there is no such folder")
    try:
        with silence_transformers():
            # Unsaid, transformers would ask at the terminal whether code may run.
            model = AutoModelForCausalLM.from_pretrained(
                place, dtype=torch.float32, trust_remote_code=False
            )
    except Exception as error:  # no such repository, no network, a broken file: many kinds
        reason = " ".join((str(error).strip() or type(error).__name__).split())
        here = "" if folder.exists() else "is no folder here, and as a model of the Hub "
        raise InputError(f"{place}: {here}could not be loaded: {reason}") from None
    tokenizer = load_tokenizer(place)
    check_together(place, model.config, tokenizer)
    note = folder / TRAINING_TEXT
    training_text = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else None
    return Checkpoint(place, model.eval(), tokenizer, training_text)


def check_together(place: str, config: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer that is not the model's.

    Raises:
        InputError: it is not the one that the model's config names by its hash, or the vocabularies
            differ in size.
    """
    expected = getattr(config, HASH, None)
    words, rows = len(tokenizer), config.vocab_size
    if expected is not None and expected != tokenizer_hash(tokenizer):
        raise InputError(
            f"{place}: the tokenizer is another than the model was trained with "
            f"(its hash is not {expected[:16]}); save the right one beside the model"
        )
    if not (1 - _MOST_UNUSED) * rows <= words <= rows:
        raise InputError(
            f"{place}: the tokenizer has {words:,} tokens and the model {rows:,}; save the "
            "model's own tokenizer beside it"
        )


# The half-finished training of a language model: Accelerate's state, and the log so far.


_PROGRESS = "progress.json"
_UNFINISHED = "unfinished"


def save_state(accelerator: Accelerator, folder: Path, rows: Rows, identity: str) -> None:
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
    with clear_os_errors(unfinished), silence_transformers():
        accelerator.save_state(str(unfinished))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        progress = {"identity": identity, "columns": {"step": rows.steps, **rows.values}}
        write_text(unfinished / _PROGRESS, json.dumps(progress) + "\n")
        new = folder / f"step-{rows.last}"
        shutil.rmtree(new, ignore_errors=True)
        unfinished.replace(new)
        for old in _states(folder):
            if old != new:
                shutil.rmtree(old)
    accelerator.wait_for_everyone()


def load_state(accelerator: Accelerator, folder: Path, identity: str) -> Rows:
    """Go on from the last saved state: the log so far, empty where there is none.

    Raises:
        InputError: the state is not whole, or of another training.
    """
    states = _states(folder)
    if not states:
        return Rows()
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
    return Rows(columns.pop("step"), columns)


def drop_state(folder: Path) -> None:
    """Remove the states of a finished training."""
    shutil.rmtree(folder, ignore_errors=True)


def _states(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("step-*") if re.fullmatch(r"step-\d+", path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))
