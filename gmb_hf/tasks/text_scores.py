"""How well text is predicted: loss, perplexity and bits per byte.

Loss is in nats per token and perplexity its exponential; both depend on what a token is. Bits per
byte = loss x tokens / (bytes x ln 2) does not, so it compares models of different tokenizers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.validation import InputError, choose, right_call

_NAME = "heldout_perplexity"
_CALL = "predictions=[[-0.7, -1.2], ...], references=[9, ...]"


@dataclass(frozen=True)
class TextScore:
    """The prediction of some text.

    Attributes:
        nats: summed loss, -sum of ln p(token | what precedes it).
        tokens: that were predicted; those that close documents are among them.
        n_bytes: of the documents in UTF-8.
        documents: their number.
    """

    nats: float
    tokens: int
    n_bytes: int
    documents: int

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """exp(loss); infinite where that is too large for a float."""
        return math.exp(self.loss) if self.loss < math.log(np.finfo(float).max) else math.inf

    @property
    def bits_per_byte(self) -> float:
        """loss x tokens / (bytes x ln 2)."""
        return self.nats / (self.n_bytes * math.log(2))

    def to_dict(self) -> dict[str, Any]:
        """The three numbers and the three counts as plain data."""
        return {
            "loss": self.loss,
            "perplexity": self.perplexity,
            "bits_per_byte": self.bits_per_byte,
            "tokens": self.tokens,
            "bytes": self.n_bytes,
            "documents": self.documents,
        }


def unigram_score(train_counts: ArrayLike, counts: ArrayLike, documents: int) -> TextScore:
    """Text predicted byte by byte from how often each byte occurs in the training text.

    The least that a model of text must beat. Every byte is counted once more than it occurs
    (Laplace), so that none is impossible; the ends of documents are not predicted.

    Args:
        train_counts: of each byte in the training text, [256].
        counts: of each byte in the text to predict, [256].
        documents: of the text to predict.
    """
    seen = np.asarray(train_counts, dtype=np.float64) + 1
    asked = np.asarray(counts, dtype=np.int64)
    nats = float(-(asked * np.log(seen / seen.sum())).sum())
    total = int(asked.sum())
    return TextScore(nats, total, total, documents)


def heldout_perplexity(predictions: Any, references: Any, **settings: Any) -> dict[str, Any]:
    """Loss, perplexity and bits per byte of documents, from the log-probabilities of their tokens.

    Args:
        predictions: ln p of each token that was predicted, a list per document.
        references: size of each document in bytes.
        settings: `return_per_document` adds `loss_per_document` and `bits_per_byte_per_document`.

    Raises:
        InputError: a log-probability that is missing, infinite or above 0, a document without
            tokens, or a size that is no whole number of at least 1; the document is named.
    """
    with right_call(_NAME, _CALL):
        check_settings(settings)
        for name, value in (("predictions", predictions), ("references", references)):
            if value is None:
                raise InputError(f"{name} is missing")
        if len(predictions) != len(references):
            raise InputError(
                f"{len(predictions)} documents in predictions, {len(references)} sizes in "
                "references; give one for each"
            )
        if not len(predictions):
            raise InputError("there is no document")
        each = [
            _score(row, size, number)
            for number, (row, size) in enumerate(zip(predictions, references, strict=True))
        ]
        whole = TextScore(
            math.fsum(score.nats for score in each),
            sum(score.tokens for score in each),
            sum(score.n_bytes for score in each),
            len(each),
        )
        found = whole.to_dict()
        if settings.get("return_per_document"):
            found["loss_per_document"] = [score.loss for score in each]
            found["bits_per_byte_per_document"] = [score.bits_per_byte for score in each]
        return found


def check_settings(settings: dict[str, Any]) -> None:
    """Refuse keywords that the metric does not have."""
    for name in settings:
        choose("argument", name, ("return_per_document",))


def _score(row: Sequence[float], size: Any, number: int) -> TextScore:
    where = f"predictions[{number}]"
    try:
        logs: NDArray[np.float64] = np.asarray(row, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{where} must be a list of numbers") from None
    if logs.ndim != 1 or not logs.size:
        raise InputError(f"{where} must be a list of at least one log-probability")
    wrong = np.flatnonzero(~(np.isfinite(logs) & (logs <= 0)))
    if wrong.size:
        raise InputError(
            f"{where}[{wrong[0]}] is {logs[wrong[0]]:g}; a log-probability is a number of at most "
            "0 (a loss with its sign changed)"
        )
    good = isinstance(size, (int, float, np.number)) and not isinstance(size, bool)
    if not good or not math.isfinite(size) or size < 1 or size != int(size):
        raise InputError(
            f"references[{number}] is {size!r}; the size of a document is a whole number of bytes"
        )
    return TextScore(float(-logs.sum()), int(logs.size), int(size), 1)
