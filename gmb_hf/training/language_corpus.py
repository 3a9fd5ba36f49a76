"""What a language model learns from: texts as streams of tokens that all processes read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from numpy.typing import NDArray

from gmb_hf.tasks.text_sources import Text, described
from gmb_hf.training.language_settings import LanguageConfig
from gmb_hf.training.language_tokens import (
    check_long_enough,
    load_tokenizer,
    tokenizer_hash,
    write_tokens,
)
from gmb_hf.training.processes import on_main


@dataclass(frozen=True)
class Corpus:
    """The tokens that a model learns from and those held out, and what they were made from.

    Attributes:
        train, test: streams of ids, [N].
        tokenizer: that made them.
        about: of the training text, as `Tally.to_dict`, with its sources.
        identity: plain data by which the text is known.
    """

    train: NDArray[Any]
    test: NDArray[Any]
    tokenizer: Any
    about: dict[str, Any]
    identity: dict[str, Any]


def prepare_corpus(
    config: LanguageConfig,
    folder: Path,
    texts: Sequence[Text],
    test_texts: Sequence[Text],
    accelerator: Accelerator,
) -> Corpus:
    """The texts as tokens: written by the main process, mapped from disk by all.

    Raises:
        InputError: a text cannot be read or is too short, or there is no such tokenizer.
    """
    tokenizer = load_tokenizer(config.text.tokenizer)

    def write(name: str, chosen: Sequence[Text]) -> Any:
        path = folder / "tokens" / f"{name}.bin"
        on_main(accelerator, lambda: write_tokens(path, chosen, tokenizer))
        return write_tokens(path, chosen, tokenizer)

    learned = write("train", texts)
    train_ids = learned.read()
    if test_texts:
        held_out = write("test", test_texts)
        test_ids, test_hash = held_out.read(), held_out.about["content_hash"]
    else:
        cut = round(len(train_ids) * (1 - config.text.test_share))
        train_ids, test_ids, test_hash = train_ids[:cut], train_ids[cut:], None
    for name, ids in (("training text", train_ids), ("held-out text", test_ids)):
        check_long_enough(name, len(ids), config.text.block)
    known = {name: learned.about[name] for name in ("bytes", "documents", "content_hash")}
    return Corpus(
        train=train_ids,
        test=test_ids,
        tokenizer=tokenizer,
        about={"texts": described(texts), **known, "byte_counts": learned.about["byte_counts"]},
        identity={
            "tokenizer_hash": tokenizer_hash(tokenizer),
            "train_content_hash": known["content_hash"],
            "test_content_hash": test_hash,
        },
    )
