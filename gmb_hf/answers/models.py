"""Models and tokenizers of a source, loaded whole or refused with one line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gmb_hf.answers.files import LARGEST, check_text, shown
from gmb_hf.errors import InputError
from gmb_hf.fingerprints import content_hash, source_hash
from gmb_hf.language.checkpoints import check_together
from gmb_hf.runs.columns import natural_key
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.launch import chosen_device, quiet_models

_OWN = ("grokking_transformer",)  # their code comes with this package
_CONFIGS = ("config.json", "tokenizer_config.json")
_FILES = (
    *_CONFIGS,
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "*.model",
)
_CODE = "*.py"
FLAG = "--trust-remote-code"


@dataclass(frozen=True)
class Source:
    """Where a model lies, and by what it is known.

    Attributes:
        place: as it was named.
        folder: that holds its files.
        identity: for a repository of the Hub `ORG/NAME@COMMIT`; for a folder `sha256:` and the hash
            of its config, weights and tokenizer.
        code: whether code that comes with it is run.
    """

    place: str
    folder: Path
    identity: str
    code: bool = False

    def config(self) -> dict[str, Any]:
        """What `config.json` holds."""
        return _json(self.folder / "config.json", self.place)


def find_model(
    place: str, *, revision: str | None = None, trust_remote_code: bool = False
) -> Source:
    """The files of a model, fetched where they are not here.

    Args:
        place: a folder, or a repository of the Hub.
        revision: branch, tag or commit of a repository.
        trust_remote_code: let code that comes with the model run.

    Raises:
        InputError: there is no such folder or repository, it holds no model, its weights are not
            safetensors, or it brings code and nobody asked for that.
    """
    folder = Path(place).expanduser()
    if folder.exists():
        if revision is not None:
            raise InputError(f"--revision {revision}: {place} is a folder, which has none")
        if not (folder / "config.json").is_file():
            raise InputError(
                f"{place}: holds no model (no config.json); save_pretrained writes one"
            )
        _refuse_code(folder, place, trust_remote_code)
        _require_safetensors(folder, place)
        return _source(place, folder, f"sha256:{_hash_of(folder)}", trust_remote_code)
    if not place.strip() or place.startswith((".", "/", "~")) or place.count("/") > 1:
        raise InputError(f"{place}: there is no such folder")
    return _pulled(place, revision or "main", trust_remote_code)


def _pulled(name: str, revision: str, trusted: bool) -> Source:
    from gmb_hf.hub.client import Address, pull

    address = Address(name, revision)
    first = pull(address, _CONFIGS, repo_type="model")
    if not (first.folder / "config.json").is_file():
        raise InputError(f"{name}: the Hub has it, but it holds no model (no config.json)")
    _refuse_code(first.folder, name, trusted)
    patterns = (*_FILES, *((_CODE,) if trusted else ()))
    # The same commit, whatever the branch stands for by now.
    whole = pull(Address(name, first.commit), patterns, repo_type="model")
    _require_safetensors(whole.folder, name)
    return _source(name, whole.folder, f"{name}@{first.commit}", trusted)


def _source(place: str, folder: Path, identity: str, trusted: bool) -> Source:
    found = Source(place, folder, identity)
    own = found.config().get("model_type") in _OWN
    return replace(found, code=trusted and not own)


def _refuse_code(folder: Path, place: str, trusted: bool) -> None:
    if trusted:
        return
    for name in _CONFIGS:
        path = folder / name
        held = _json(path, place) if path.is_file() else {}
        if held.get("auto_map") and held.get("model_type") not in _OWN:
            raise InputError(
                f"{place}: brings code of its own ({name} has auto_map), which would run here; "
                f"read it, and give {FLAG} if you trust it"
            )


def _require_safetensors(folder: Path, place: str) -> None:
    if not any(folder.glob("*.safetensors")):
        raise InputError(
            f"{place}: holds no weights as safetensors, and pickles are not loaded; save it again "
            "with save_pretrained"
        )


def _hash_of(folder: Path) -> str:
    return content_hash([path.name, source_hash(path)] for path in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_file() and any(fnmatch(path.name, pattern) for pattern in (*_FILES, _CODE)):
            yield path


def _json(path: Path, place: str) -> dict[str, Any]:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{place}: {path.name} could not be read: {reason}") from None
    if not isinstance(held, dict):
        raise InputError(f"{place}: {path.name} holds no JSON object")
    return held


# Batches of equally long rows, which need no padding: a row is computed as it would be alone.


def equally_long(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """The places of rows, in groups of one length and of at most `most`, the shortest first.

    >>> list(equally_long([3, 1, 3, 3], 2))
    [[1], [0, 2], [3]]
    """
    by_length: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        by_length.setdefault(length, []).append(place)
    for length in sorted(by_length):
        places = by_length[length]
        for start in range(0, len(places), most):
            yield places[start : start + most]


Head = Literal["causal", "classifier"]

_ENDINGS: dict[Head, tuple[str, ...]] = {
    "causal": ("ForCausalLM", "LMHeadModel"),
    "classifier": ("ForSequenceClassification",),
}
_BOUNDLESS = 1 << 40  # tokenizers that know no limit say 10^30
_WHAT = {"causal": "causal language model", "classifier": "text classifier"}


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to be asked.

    Attributes:
        source: where it came from.
        model: in evaluation mode, float32.
        tokenizer: of its vocabulary.
        device: on which it computes.
    """

    source: Source
    model: Any
    tokenizer: Any
    device: str

    @property
    def place(self) -> str:
        """As it was named."""
        return self.source.place

    @property
    def longest(self) -> int | None:
        """The most tokens that it takes; None where neither model nor tokenizer says."""
        said = (
            getattr(self.model.config, "max_position_embeddings", None),
            getattr(self.tokenizer, "model_max_length", None),
            *(
                # RoBERTa's kind counts places from the one after its padding's.
                module.num_embeddings - module.padding_idx - 1
                for name, module in self.model.named_modules()
                if name.endswith("position_embeddings")
                and getattr(module, "padding_idx", None) is not None
            ),
        )
        known = [int(most) for most in said if most is not None and most < _BOUNDLESS]
        return min(known, default=None)

    @property
    def start(self) -> list[int]:
        """What a text begins with: the token of the beginning, else that of the end, else none.

        The trainer of this package and GPT-2 put the end of a document before the next one.
        """
        first = self.tokenizer.bos_token_id
        if first is None:
            first = self.tokenizer.eos_token_id
        return [] if first is None else [int(first)]

    def ids(self, text: str, *, framed: bool = False) -> list[int]:
        """The tokens of a text; what looks like a special token in it is text.

        Args:
            text: any.
            framed: with the special tokens that a classifier expects around it.
        """
        held = self.tokenizer(
            text, add_special_tokens=framed, split_special_tokens=True, verbose=False
        )
        return list(held["input_ids"])

    def ids_after(self, text: str, begun: list[int], more: str) -> list[int]:
        """The tokens of more text after a text; those of both together, where they go on from it.

        Some tokenizers (SentencePiece's) put a space before whatever they read, so that the same
        words have other tokens alone than after a text.

        Args:
            text: what stands before.
            begun: its tokens.
            more: what follows at once.
        """
        whole = self.ids(text + more)
        return whole[len(begun) :] if whole[: len(begun)] == begun else self.ids(more)

    def text_after(self, begun: list[int], more: list[int]) -> str:
        """The text that tokens add to those before them; their own text where that cannot be told.

        Some tokenizers drop the space with which a text begins: alone, an answer would lose it.
        """
        before, whole = self._text(begun), self._text(begun + more)
        return whole[len(before) :] if whole.startswith(before) else self._text(more)

    def _text(self, ids: list[int]) -> str:
        found: str = self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return found

    def tensor(self, rows: list[list[int]]) -> torch.Tensor:
        """Equally long rows on the model's device, int64 [n, T]."""
        return torch.tensor(rows, dtype=torch.int64, device=self.device)

    def require_begun(self, sizes: Sequence[int], prompts: Sequence[str]) -> None:
        """Refuse a prompt without a token: there is nothing to go on from.

        Args:
            sizes: how many tokens stand before what the model is to say.
            prompts: the texts, for the message.
        """
        for size, prompt in zip(sizes, prompts, strict=True):
            if not size:
                raise InputError(
                    f"{self.place}: the prompt {shown(prompt)} has no token, and this tokenizer no "
                    "token for the beginning of a text"
                )

    def require_room(self, sizes: Sequence[int], prompts: Sequence[str], advice: str) -> None:
        """Refuse a text that is longer than the model takes.

        Args:
            sizes: tokens of each text.
            prompts: with which they begin, for the message.
            advice: what to do.
        """
        most, prompt = max(zip(sizes, prompts, strict=True), default=(0, ""))
        if self.longest is not None and most > self.longest:
            raise InputError(
                f"{self.place}: takes {self.longest} tokens, and with the prompt {shown(prompt)} "
                f"there are {most}; nothing is cut off: {advice}"
            )

    def finite(self, values: torch.Tensor) -> NDArray[np.float64]:
        """Values as an array.

        Raises:
            InputError: one is NaN or infinite.
        """
        found: NDArray[np.float64] = values.cpu().numpy()
        wrong = found[~np.isfinite(found)]
        if wrong.size:
            raise InputError(f"{self.place}: gives {wrong[0]}; a judge must give finite numbers")
        return found


def load(source: Source, head: Head, *, tokenizer: Any = None, device: str = "auto") -> Loaded:
    """The model and its tokenizer.

    Args:
        source: as `find_model` gives it.
        head: which kind of model it must be.
        tokenizer: loaded already; the model's own where not given.
        device: auto, cpu or cuda.

    Raises:
        InputError: it is another kind of model, weights are missing, there is no tokenizer, or the
            tokenizer is another model's.
    """
    import transformers

    import gmb_hf.modeling  # noqa: F401 (makes its models known to the Auto classes)

    require_head(source, head)
    kinds = {
        "causal": transformers.AutoModelForCausalLM,
        "classifier": transformers.AutoModelForSequenceClassification,
    }
    where = chosen_device(device)
    with could_not("be loaded", source):
        model, about = kinds[head].from_pretrained(
            source.folder,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=source.code,
            output_loading_info=True,
        )
    # transformers would draw missing weights at random, and random scores look like scores.
    lacking = sorted({*about["missing_keys"], *(str(key) for key in about["mismatched_keys"])})
    if lacking:
        raise InputError(
            f"{source.place}: {len(lacking)} of its weights are missing or of another shape, e.g. "
            f"{lacking[0]}; it is no whole {_WHAT[head]}"
        )
    words = _tokenizer(source) if tokenizer is None else tokenizer
    check_together(source.place, model.config, words)
    return Loaded(source, model.eval().to(where), words, where)


def require_head(source: Source, head: Head) -> None:
    """Refuse a model whose config says that it is of another kind."""
    if head_of(source) not in (head, None):
        name = source.config()["architectures"][0]
        raise InputError(f"{source.place}: is a {name}, no {_WHAT[head]}")


def head_of(source: Source) -> Head | None:
    """Which kind of model a source holds; None where its config does not say."""
    named = [str(name) for name in source.config().get("architectures") or []]
    found = [head for head, ends in _ENDINGS.items() for name in named if name.endswith(ends)]
    return found[0] if found else None


def _tokenizer(source: Source) -> Any:
    from transformers import AutoTokenizer

    if not (source.folder / "tokenizer_config.json").is_file():
        raise InputError(
            f"{source.place}: holds no tokenizer; save it beside the model "
            "(tokenizer.save_pretrained), or name one by --tokenizer"
        )
    with could_not("be loaded with its tokenizer", source):
        return AutoTokenizer.from_pretrained(
            source.folder, local_files_only=True, trust_remote_code=source.code
        )


@contextmanager
def could_not(what: str, source: Source) -> Iterator[None]:
    """Silence while something of a source is loaded, and one line where that fails."""
    try:
        with quiet_models():
            yield
    except Exception as error:  # of transformers, safetensors or the model's own code: many kinds
        reason = (" ".join(str(error).split()) or type(error).__name__)[:300]
        raise InputError(f"{source.place}: could not {what}: {reason}") from None


# A model that is loaded when it is first asked: scores that are known cost no loading.


@dataclass(frozen=True)
class Unloaded:
    """A model whose weights lie on disk.

    Attributes:
        source: where it is.
        head: which kind of model it must be.
        device: auto, cpu or cuda.

    Raises:
        InputError: its config says that it is another kind of model.
    """

    source: Source
    head: Head
    device: str = "auto"

    def __post_init__(self) -> None:
        require_head(self.source, self.head)

    @property
    def place(self) -> str:
        """As it was named."""
        return self.source.place

    @cached_property
    def config(self) -> Any:
        """Its config, which needs no weights.

        Raises:
            InputError: it cannot be read.
        """
        from transformers import AutoConfig

        import gmb_hf.modeling  # noqa: F401 (makes its models known to the Auto classes)

        with could_not("be loaded", self.source):
            return AutoConfig.from_pretrained(
                self.source.folder, local_files_only=True, trust_remote_code=self.source.code
            )

    @cached_property
    def loaded(self) -> Loaded:
        """The model itself, loaded now; once.

        Raises:
            InputError: as `load` says.
        """
        return load(self.source, self.head, device=self.device)


# Checkpoints that somebody names: which run each belongs to, and at which step it was saved.


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
