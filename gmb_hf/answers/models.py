"""Models and tokenizers of a source, loaded whole or refused with one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gmb_hf.answers.answers_file import shown
from gmb_hf.answers.sources import Source
from gmb_hf.training.devices import chosen_device
from gmb_hf.training.language_checkpoints import check_together
from gmb_hf.training.quiet import quiet_models
from gmb_hf.validation import InputError

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
