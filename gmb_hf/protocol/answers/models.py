"""Models by folder or repository, and checkpoints of runs; loaded whole or refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import read_json
from gmb_hf.base.pretrained import ModelSource
from gmb_hf.base.pretrained import find_model as find_model
from gmb_hf.protocol.answers.files import LARGEST, check_text, shown
from gmb_hf.protocol.language.data import check_together, load_network, read_pretrained
from gmb_hf.runs.columns import natural_key
from gmb_hf.runs.runlog import RunLog


def equally_long(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """The places of rows, in groups of one length and of at most `most`, the shortest first.

    Equally long rows need no padding: a row is computed as it would be alone.

    >>> list(equally_long([3, 1, 3, 3], 2))
    [[1], [0, 2], [3]]
    """
    by_length: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        by_length.setdefault(length, []).append(place)
    for _, places in sorted(by_length.items()):
        for start in range(0, len(places), most):
            yield places[start : start + most]


Head = Literal["causal", "classifier"]

_ENDINGS: dict[Head, tuple[str, ...]] = {
    "causal": ("ForCausalLM", "LMHeadModel"),
    "classifier": ("ForSequenceClassification",),
}
_BOUNDLESS = 1 << 40  # tokenizers that know no limit say 10^30
_WHAT = {"causal": "causal language model", "classifier": "text classifier"}
_CLASS = {"causal": "AutoModelForCausalLM", "classifier": "AutoModelForSequenceClassification"}


@dataclass(frozen=True)
class Model:
    """A model and its tokenizer, whose weights are loaded when they are first needed.

    Attributes:
        source: as `find_model` gives it.
        head: which kind of model it must be.
        given_tokenizer: one that is loaded already; None for the model's own.
        device: cpu or cuda.

    Raises:
        InputError: its config says that it is another kind of model. When it is loaded: weights are
            missing, there is no tokenizer, or the tokenizer is another model's.
    """

    source: ModelSource
    head: Head
    given_tokenizer: Any = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if head_of(self.source) not in (self.head, None):
            name = self.source.config()["architectures"][0]
            raise InputError(f"{self.place}: is a {name}, no {_WHAT[self.head]}")

    @property
    def place(self) -> str:
        """As it was named."""
        return self.source.place

    @cached_property
    def config(self) -> Any:
        """Its config, which needs no weights; an `InputError` where it cannot be read."""
        return read_pretrained(self.source, "AutoConfig")

    @property
    def network(self) -> Any:
        """The model of transformers, in evaluation mode, float32."""
        return self._loaded[0]

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of its vocabulary."""
        return self._loaded[1]

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        network = load_network(self.source, _CLASS[self.head], _WHAT[self.head])
        tokenizer = self.given_tokenizer
        if tokenizer is None:
            if not (self.source.folder / "tokenizer_config.json").is_file():
                save = "save it beside the model (tokenizer.save_pretrained)"
                raise InputError(
                    f"{self.place}: holds no tokenizer; {save}, or name one by --tokenizer"
                )
            what = "loaded with its tokenizer"
            tokenizer = read_pretrained(self.source, "AutoTokenizer", what=what)
        check_together(self.place, network.config, tokenizer)
        return network.eval().to(self.device), tokenizer

    @property
    def longest(self) -> int | None:
        """The most tokens that it takes; None where neither model nor tokenizer says."""
        limits = [getattr(self.network.config, "max_position_embeddings", None)]
        limits.append(getattr(self.tokenizer, "model_max_length", None))
        for name, module in self.network.named_modules():
            padding = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and padding is not None:
                # RoBERTa's kind counts places from the one after its padding's.
                limits.append(module.num_embeddings - padding - 1)
        known = [int(most) for most in limits if most is not None and most < _BOUNDLESS]
        return min(known, default=None)

    @property
    def start(self) -> list[int]:
        """The token with which a text begins: that of the beginning, else of the end, else none."""
        ends = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        return [int(token) for token in ends if token is not None][:1]

    def ids(self, text: str, *, framed: bool = False) -> list[int]:
        """The tokens of a text; what looks like a special token in it is text.

        `framed` adds the special tokens that a classifier expects around it.
        """
        held = self.tokenizer(
            text, add_special_tokens=framed, split_special_tokens=True, verbose=False
        )
        return list(held["input_ids"])

    def ids_after(self, text: str, before: list[int], more: str) -> list[int]:
        """The tokens of more text after a text whose tokens are `before`.

        They are those of both together, where those go on from `before`. Some tokenizers
        (SentencePiece's) put a space before whatever they read, so that the same words have other
        tokens alone than after a text.
        """
        whole = self.ids(text + more)
        return whole[len(before) :] if whole[: len(before)] == before else self.ids(more)

    def text_after(self, before: list[int], more: list[int]) -> str:
        """The text that tokens add to those before them; their own text where that cannot be told.

        Some tokenizers drop the space with which a text begins: alone, an answer would lose it.
        """

        def decode(ids: list[int]) -> str:
            options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
            return str(self.tokenizer.decode(ids, **options))

        text, whole = decode(before), decode(before + more)
        return whole[len(text) :] if whole.startswith(text) else decode(more)

    def tensor(self, rows: list[list[int]]) -> torch.Tensor:
        """Equally long rows on the model's device, int64 [n, T]."""
        return torch.tensor(rows, dtype=torch.int64, device=self.device)

    def require_tokens(self, sizes: Sequence[int], prompts: Sequence[str]) -> None:
        """Refuse a prompt with no token before what the model is to say."""
        for size, prompt in zip(sizes, prompts, strict=True):
            if not size:
                what = "has no token, and this tokenizer no token for the beginning of a text"
                raise InputError(f"{self.place}: the prompt {shown(prompt)} {what}")

    def require_room(self, sizes: Sequence[int], prompts: Sequence[str], advice: str) -> None:
        """Refuse a text, by its tokens and its prompt, that is longer than the model takes.

        `advice` says what to do then.
        """
        most, prompt = max(zip(sizes, prompts, strict=True), default=(0, ""))
        if self.longest is not None and most > self.longest:
            what = f"with the prompt {shown(prompt)} there are {most}; nothing is cut off: {advice}"
            raise InputError(f"{self.place}: takes {self.longest} tokens, and {what}")

    def finite(self, values: torch.Tensor) -> NDArray[np.float64]:
        """Values as an array; an `InputError` where one is NaN or infinite."""
        found: NDArray[np.float64] = values.cpu().numpy()
        wrong = found[~np.isfinite(found)]
        if wrong.size:
            raise InputError(f"{self.place}: gives {wrong[0]}; a judge must give finite numbers")
        return found


def head_of(source: ModelSource) -> Head | None:
    """Which kind of model a source holds; None where its config does not say."""
    named = [str(name) for name in source.config().get("architectures") or []]
    found = [head for head, ends in _ENDINGS.items() for name in named if name.endswith(ends)]
    return found[0] if found else None


_STEP = re.compile(r"(?:checkpoint|step)-(\d+)")
_NAMED = re.compile(r"(?P<run>[^=:]+):(?P<step>\d+)=(?P<place>.+)")


@dataclass(frozen=True)
class Saved:
    """A checkpoint: its run, step and folder."""

    run: str
    step: int
    folder: Path


def find_checkpoints(given: Sequence[str]) -> tuple[Saved, ...]:
    """Every checkpoint that is named, by run and step.

    Raises:
        InputError: nothing given, no checkpoint there, one whose step nobody says, two of one run
            and step, or a run or step that no file of answers could hold.
    """
    if not given:
        raise InputError("--checkpoints: no checkpoint is given; name a folder")
    found: dict[tuple[str, int], Saved] = {}
    for word in given:
        for saved in _checkpoints_in(word):
            check_text(saved.run, f"--checkpoints: the run {saved.run!r}")
            where = f"--checkpoints {word}"
            if not saved.run.strip():
                raise InputError(f"{where}: the run has no name; write RUN:STEP=FOLDER")
            if saved.step > LARGEST:
                raise InputError(f"{where}: step {saved.step} is too large; at most 2^53")
            other = found.setdefault((saved.run, saved.step), saved)
            if other.folder.resolve() != saved.folder.resolve():
                at = f"are both run {saved.run!r} at step {saved.step}"
                hint = "name them apart: RUN:STEP=FOLDER"
                raise InputError(f"--checkpoints: {saved.folder} and {other.folder} {at}; {hint}")
    return tuple(sorted(found.values(), key=lambda saved: (natural_key(saved.run), saved.step)))


def _checkpoints_in(word: str) -> list[Saved]:
    named = _NAMED.fullmatch(word)
    if named and not Path(word).exists():
        folder = Path(named["place"]).expanduser()
        if not (folder / "config.json").is_file():
            raise InputError(f"--checkpoints: {folder} holds no model (no config.json)")
        return [Saved(named["run"], int(named["step"]), folder)]
    folder = Path(word).expanduser()
    if not folder.is_dir():
        raise InputError(f"--checkpoints {word}: there is no such folder")
    if (folder / "config.json").is_file():
        return [_checkpoint(folder)]
    for depth in ("*", "*/*"):
        inside = sorted(path.parent for path in folder.glob(f"{depth}/config.json"))
        seen = [path for path in inside if not path.name.startswith(".")]
        if seen:
            return [_checkpoint(path) for path in seen]
    raise InputError(
        f"--checkpoints {word}: holds no model (config.json), nor do its folders; name a "
        "checkpoint, the folder of a run's checkpoints, or the folder of such folders"
    )


def _checkpoint(folder: Path) -> Saved:
    """Run and step by the names of the folders, or by what lies beside the model."""
    place = folder.resolve()
    match = _STEP.fullmatch(place.name)
    if match:
        return Saved(place.parent.name, int(match[1]), folder)
    if (folder / "log.parquet").is_file():
        log = RunLog.read(folder / "log.parquet")
        if len(log.runs) == 1:
            return Saved(log.runs[0], int(log.panel("step").last_step[0]), folder)
    with suppress(OSError, ValueError, KeyError, TypeError):
        step = read_json(folder / "trainer_state.json", foreign=True)["global_step"]
        if isinstance(step, int):
            return Saved(place.name, step, folder)
    raise InputError(f"{folder}: nothing says at which step it was saved; write RUN:STEP={folder}")
