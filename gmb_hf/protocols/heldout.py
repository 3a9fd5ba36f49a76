"""Text held out: how well a language model predicts documents, in strided windows.

The documents are one stream EOS d1 EOS d2 EOS, as in training; every token after the first is
predicted once, the end of each document too. A window is `block` tokens of context; each further
one begins `stride` tokens later and scores only the tokens that the one before it did not reach, so
that all but the first window's have at least `block - stride + 1` tokens before them.

Spec: Evaluation Protocol, phase 1a, which has a stride of a whole block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gmb_hf.tasks.text import Piece, Tally
from gmb_hf.tasks.text_scores import TextScore
from gmb_hf.training.language_tokens import encoded
from gmb_hf.validation import InputError, positive_int

BATCH = 16


@dataclass(frozen=True)
class Windows:
    """How a stream is cut.

    Attributes:
        block: tokens of context, at most.
        stride: from the beginning of a window to that of the next.
    """

    block: int
    stride: int

    @classmethod
    def of(cls, longest: int, block: int | None = None, stride: int | None = None) -> Windows:
        """Windows for a model, with what is not given: its longest input, and half of a block.

        Raises:
            InputError: a block longer than the model's, or a stride longer than the block.
        """
        size = longest if block is None else positive_int("--block", block)
        if size > longest:
            raise InputError(f"--block {size}: the model takes at most {longest} tokens")
        step = max(1, size // 2) if stride is None else positive_int("--stride", stride)
        if step > size:
            raise InputError(
                f"--stride {step} is longer than a block of {size}: tokens between the windows "
                "would not be scored"
            )
        return cls(size, step)


@dataclass(frozen=True)
class Window:
    """Tokens and which of them to score.

    Attributes:
        ids: context and, shifted by one, the tokens predicted from it: [n + 1], n <= block.
        scored: how many of the last tokens this window scores.
    """

    ids: NDArray[np.int64]
    scored: int


def windows(stream: Iterable[NDArray[np.int64]], cut: Windows) -> Iterator[Window]:
    """The windows of a stream of tokens, in memory that does not grow with it."""
    held: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    seen = 1  # tokens from the beginning of `held` that are scored; the first is context only
    for ids in stream:
        held = np.concatenate([held, ids])
        while len(held) > cut.block:
            yield Window(held[: cut.block + 1], cut.block + 1 - seen)
            held = held[cut.stride :]
            seen = cut.block + 1 - cut.stride
    if len(held) > seen:
        yield Window(held, len(held) - seen)


def score_text(
    model: nn.Module,
    tokenizer: Any,
    stream: Iterable[Piece],
    cut: Windows,
    *,
    batch: int = BATCH,
    tally: Tally | None = None,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> TextScore:
    """The prediction of documents by a model; the same, up to rounding, whatever the batch.

    Args:
        model: a causal language model of transformers, in evaluation mode.
        tokenizer: its tokenizer.
        stream: the documents in pieces.
        cut: the windows.
        batch: windows that are computed at once.
        tally: counts what passes; one is made where none is given.
        on_bytes: hears of the bytes read so far.

    Raises:
        InputError: the stream cannot be read.
    """
    tally = tally or Tally()
    nats, tokens = [], 0
    positive_int("--batch-size", batch)
    found = windows(encoded(tokenizer, tally.through(stream)), cut)
    while group := list(islice(found, batch)):
        nats.append(_nats(model, group, tokenizer.eos_token_id))
        tokens += sum(window.scored for window in group)
        on_bytes(tally.n_bytes)
    return TextScore(math.fsum(nats), tokens, tally.n_bytes, tally.documents)


@torch.inference_mode()
def _nats(model: nn.Module, group: Sequence[Window], filler: int) -> float:
    """The loss of the scored tokens of some windows, summed in float64."""
    longest = max(len(window.ids) for window in group)
    # Filled up on the right, where a causal model does not look from the left.
    ids = np.full((len(group), longest), filler, dtype=np.int64)
    scored = np.zeros((len(group), longest - 1), dtype=bool)
    for row, window in enumerate(group):
        end = len(window.ids)
        ids[row, :end] = window.ids
        scored[row, end - 1 - window.scored : end - 1] = True
    device = next(model.parameters()).device
    rows, wanted = torch.from_numpy(ids).to(device), torch.from_numpy(scored).to(device)
    logits = model(input_ids=rows[:, :-1], use_cache=False).logits[wanted]  # [scored, V]
    losses = nn.functional.cross_entropy(logits.float(), rows[:, 1:][wanted], reduction="none")
    return float(losses.double().sum())
