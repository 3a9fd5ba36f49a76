"""The tokenizer of a model of tasks: a question as people write it, one token a word.

    >>> from gmb_hf.modeling import GrokkingTokenizer
    >>> from gmb_hf.tasks.registry import get_task
    >>> tokenizer = GrokkingTokenizer.of_tasks([get_task("add_p97")])
    >>> tokenizer("5 + 7 =").input_ids  # BOS 5 + 7 =
    [99, 5, 97, 7, 98]
    >>> tokenizer.decode([12])
    ' 12'

The ids are those of the datasets. It is a plain `tokenizer.json`, which transformers reads without
this package too; only the message about an unknown word is then a worse one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.task import Task

SHARED = "op"
"""The word of a token that several operations share; each one's own word is read as it."""

_POWERS = {  # a^2 + b^2, a^2 + a * b + b^2
    "sq_sum": r"\b\d+\K\s*\^\s*2\s*\+\s*(?=\d+\s*\^\s*2)",
    "x2_xy_y2": r"\b(\d+)\K\s*\^\s*2\s*\+\s*\1\s*\*\s*(\d+)\s*\+\s*(?=\2\s*\^\s*2)",
}
"""Operations of powers: what is written between the first operand and the last one."""


class GrokkingTokenizer(PreTrainedTokenizerFast):  # type: ignore[misc]
    """One token a word; the post-processor puts BOS before a text.

    There is no unknown word: a text with one is refused by an `InputError` that names it.
    """

    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012

    @classmethod
    def of_tasks(cls, tasks: Sequence[Task], **options: Any) -> Self:
        """The tokenizer of a model that learns these tasks, of one vocabulary.

        Token ids without a word are `[unused3]` and alike, so that its length is the vocabulary's.
        Where tasks share a token, e.g. of all operations, its word is `op`.

        Args:
            tasks: one, or those of a sequence.
            options: further arguments of the tokenizer, e.g. `model_max_length`.

        Raises:
            InputError: no task, or other special tokens than the first one's.
        """
        if not tasks:
            raise InputError("a tokenizer needs the tasks whose words it shall know; give one")
        first, size = tasks[0], max(task.vocab_size for task in tasks)
        words: dict[int, str] = {}
        shared: dict[str, int] = {}
        for task in tasks:
            own, usual = task.vocabulary, first.vocabulary
            if (own.bos, own.eos) != (usual.bos, usual.eos):
                raise InputError(f"{task.name} and {first.name} have other special tokens")
            for word, number in task.words().items():
                if words.setdefault(number, word) != word:
                    shared |= {words[number]: number, word: number}
        words |= dict.fromkeys(shared.values(), SHARED)
        shared.pop(SHARED, None)
        known = {words.get(number, f"[unused{number}]"): number for number in range(size)}
        core = Tokenizer(models.WordLevel(known))
        core.normalizer = _normalizer([*shared, *words.values()], shared)
        core.pre_tokenizer = _pre_tokenizer([*shared, *words.values()])
        word_of = {number: word for word, number in known.items()}
        begin, end = word_of[first.vocabulary.bos], word_of[first.vocabulary.eos]
        if first.begins_with_bos:
            core.post_processor = processors.TemplateProcessing(
                single=f"{begin} $A", special_tokens=[(begin, first.vocabulary.bos)]
            )
        # A space before each word: generated words follow the prompt as they are.
        core.decoder = decoders.Sequence([decoders.Replace(Regex("^"), " "), decoders.Fuse()])
        special = {"bos_token": begin, "eos_token": end, "pad_token": end}
        return cls(tokenizer_object=core, padding_side="left", **special, **options)

    def _encode_plus(self, text: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return super()._encode_plus(text, *args, **kwargs)
        except Exception as error:  # tokenizers raises it as it is
            if "WordLevel" not in str(error):
                raise
            raise InputError(self._unknown_word(text)) from None

    def _unknown_word(self, text: Any) -> str:
        """Which word of a text, or of texts, is not known, and which are."""
        core, known = self.backend_tokenizer, self.get_vocab()
        texts = [text] if isinstance(text, str) else text
        pieces = (
            word
            for one in texts
            for word, _ in core.pre_tokenizer.pre_tokenize_str(
                core.normalizer.normalize_str(one if isinstance(one, str) else " ".join(one))
            )
        )
        unknown = next((word for word in pieces if word not in known), "?")
        return f"{unknown!r} is no word of this model; it knows {described_words(known)}"


def described_words(known: Mapping[str, int]) -> str:
    """The words that a question may hold, in few words: `0 to 96, + and =`."""
    numbers = sorted(int(word) for word in known if word.isdecimal())
    others = sorted(
        (word for word in known if not word.isdecimal() and not word.startswith("[")),
        key=lambda word: (word == "=", known[word]),
    )
    whole = numbers == list(range(len(numbers))) and len(numbers) > 2
    shown = [f"{numbers[0]} to {numbers[-1]}"] if whole else [str(number) for number in numbers]
    every = [*shown, *others]
    return " and ".join(part for part in (", ".join(every[:-1]), every[-1]) if part)


def _normalizer(words: Sequence[str], shared: Mapping[str, int]) -> normalizers.Normalizer:
    """Powers written out become the operation's word; words that share a token become `op`."""
    rules: list[normalizers.Normalizer] = []
    for name, between in _POWERS.items():
        if name in words:
            rules.append(normalizers.Replace(Regex(between), f" {name} "))
            rules.append(normalizers.Replace(Regex(rf"\b{name}\s+\d+\K\s*\^\s*2\b"), ""))
    for word in sorted(shared, key=len, reverse=True):
        edge = r"\b" if word.isidentifier() else ""
        rules.append(normalizers.Replace(Regex(f"{edge}{_quoted(word)}{edge}"), f" {SHARED} "))
    return normalizers.Sequence([*rules, normalizers.Strip()])


def _pre_tokenizer(words: Sequence[str]) -> pre_tokenizers.PreTokenizer:
    """At spaces and around signs, so that `5+7=` is read as well; bits need no space either."""
    signs = sorted({word for word in words if not re.search(r"[\w\[]", word)}, key=len)
    parts: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.WhitespaceSplit()]
    if signs:
        pattern = "|".join(map(_quoted, reversed(signs)))
        parts.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    if {len(word) for word in words if word.isdecimal()} == {1}:
        parts.append(pre_tokenizers.Split(Regex(r"\d"), "isolated"))
    return pre_tokenizers.Sequence(parts)


def _quoted(word: str) -> str:
    return "".join(letter if letter.isalnum() else rf"\{letter}" for letter in word)
