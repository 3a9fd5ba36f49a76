"""Loss, perplexity and bits per byte, by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.text import TextScore, heldout_perplexity, unigram_score


def test_the_three_numbers_by_hand():
    score = TextScore(nats=6.0, tokens=3, n_bytes=12, documents=2)
    assert score.loss == 2.0
    assert score.perplexity == math.exp(2)
    # 2 nats x 3 tokens in bits, over 12 bytes.
    assert score.bits_per_byte == pytest.approx(6 / math.log(2) / 12)
    assert TextScore(1e9, 1, 1, 1).perplexity == math.inf


def test_bytes_from_their_frequencies_by_hand():
    train, asked = np.zeros(256), np.zeros(256)
    train[[97, 98]] = 3, 1  # with one more for each of 256 bytes: 4/260, 2/260, and 1/260
    asked[[97, 98, 99]] = 2, 1, 1
    score = unigram_score(train, asked, documents=1)
    expected = -(2 * math.log(4 / 260) + math.log(2 / 260) + math.log(1 / 260))
    assert score.nats == pytest.approx(expected)
    assert (score.tokens, score.n_bytes) == (4, 4)
    assert unigram_score(np.zeros(256), asked, 1).bits_per_byte == pytest.approx(8)


def test_documents_are_weighed_by_their_tokens():
    found = heldout_perplexity([[-1.0, -3.0], [-5.0]], [4, 2], return_per_document=True)
    assert found == {
        "loss": 3.0,
        "perplexity": math.exp(3),
        "bits_per_byte": 9 / (6 * math.log(2)),
        "tokens": 3,
        "bytes": 6,
        "documents": 2,
        "loss_per_document": [2.0, 5.0],
        "bits_per_byte_per_document": [4 / (4 * math.log(2)), 5 / (2 * math.log(2))],
    }


@pytest.mark.parametrize(
    ("predictions", "references", "settings", "message"),
    [
        (None, [1], {}, "heldout_perplexity: predictions is missing. Right call"),
        ([[-1.0]], None, {}, "references is missing"),
        ([[-1.0]], [1, 2], {}, "1 documents in predictions, 2 sizes in references"),
        ([], [], {}, "there is no document"),
        ([[-1.0], []], [1, 1], {}, r"predictions\[1\] must be a list of at least one"),
        ([[[-1.0]]], [1], {}, r"predictions\[0\] must be a list of at least one"),
        ([["a"]], [1], {}, r"predictions\[0\] must be a list of numbers"),
        ([[-1.0, 0.5]], [1], {}, r"predictions\[0\]\[1\] is 0.5; a log-probability is .*at most 0"),
        ([[-1.0, None]], [1], {}, r"predictions\[0\]\[1\] is nan"),
        ([[-math.inf]], [1], {}, r"predictions\[0\]\[0\] is -inf"),
        ([[-1.0]], [0], {}, r"references\[0\] is 0; the size of a document"),
        ([[-1.0]], [1.5], {}, r"references\[0\] is 1.5"),
        ([[-1.0]], [math.inf], {}, r"references\[0\] is inf"),
        ([[-1.0]], [math.nan], {}, r"references\[0\] is nan"),
        ([[-1.0]], ["one"], {}, r"references\[0\] is 'one'"),
        ([[-1.0]], [1], {"per_document": True}, "argument 'per_document' is unknown.*Did you mean"),
    ],
)
def test_what_is_wrong_is_named(
    predictions: Any, references: Any, settings: dict[str, Any], message: str
):
    with pytest.raises(InputError, match=message):
        heldout_perplexity(predictions, references, **settings)
