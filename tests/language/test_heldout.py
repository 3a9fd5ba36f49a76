"""Held-out text: every token is scored once, and as transformers' own loss has it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.loss.loss_utils import ForCausalLMLoss

from gmb_hf.base.errors import InputError
from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.protocol.language.data import load_tokenizer
from gmb_hf.protocol.language.heldout import TokenWindows, score_text, windows
from gmb_hf.tasks.text import Piece, Tally
from gmb_hf.training.stacked import seeded_model

TALES = ["Once upon a time, a café had a needle. " * 6, "It was sharp.", "x" * 200]
DOCUMENTS = [Piece(text, True) for text in TALES]
BLOCK = 24


@pytest.fixture(scope="module")
def model() -> GrokkingTransformerForCausalLM:
    shape = GrokkingTransformerConfig(
        vocab_size=259,
        max_position_embeddings=BLOCK + 1,
        hidden_size=32,
        num_hidden_layers=2,
        initializer_range=0.3,  # so that predictions are far from uniform
    )
    return seeded_model(shape, 0).eval()


def stream() -> torch.Tensor:
    """The tokens, written down independently: bytes + 3, and 1 at every end."""
    ids = [1]
    for text in TALES:
        ids += [*(byte + 3 for byte in text.encode()), 1]
    return torch.tensor(ids)


@given(
    tokens=st.integers(1, 60),
    block=st.integers(1, 12),
    share=st.floats(0, 1),
    cuts=st.lists(st.integers(0, 60)),
)
def test_every_token_after_the_first_is_scored_once(
    tokens: int, block: int, share: float, cuts: list[int]
):
    ids = np.arange(tokens)
    cut = TokenWindows(block, max(1, round(share * block)))
    parts = np.split(ids, sorted(cut for cut in cuts if cut < tokens))
    found = list(windows(parts, cut))
    scored = [window.ids[len(window.ids) - window.scored :] for window in found]
    assert np.concatenate([np.empty(0), *scored]).tolist() == list(range(1, tokens))
    for number, window in enumerate(found):
        assert len(window.ids) <= block + 1
        assert (np.diff(window.ids) == 1).all()
        if len(window.ids):
            assert window.ids[0] == number * cut.stride
        if number:
            assert len(window.ids) - window.scored >= block + 1 - cut.stride


@pytest.mark.parametrize("stride", [BLOCK, BLOCK // 2, 5, 1])
def test_it_is_transformers_own_loss(model: Any, stride: int):
    """One window at a time, labels masked as in transformers' guide to perplexity."""
    ids, nats, count, reached = stream()[None], 0.0, 0, 1
    for begin in range(0, ids.shape[1] - 1, stride):
        end = min(begin + BLOCK + 1, ids.shape[1])
        if end <= reached:
            break
        part = ids[:, begin:end]
        labels = part.clone()
        labels[:, : reached - begin] = -100
        with torch.no_grad():
            logits = model(input_ids=part).logits
        scored = int((labels[:, 1:] != -100).sum())
        loss = ForCausalLMLoss(logits, labels, vocab_size=259)
        nats, count, reached = nats + float(loss) * scored, count + scored, end
    assert count == ids.shape[1] - 1

    found = score_text(model, load_tokenizer("byte"), DOCUMENTS, TokenWindows(BLOCK, stride))
    assert found.tokens == count
    assert found.loss == pytest.approx(nats / count, rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(nats / count), rel=1e-5)


@pytest.mark.parametrize("stride", [BLOCK, 7])
def test_the_batch_size_changes_nothing(model: Any, stride: int):
    tokenizer, cut = load_tokenizer("byte"), TokenWindows(BLOCK, stride)
    alone = score_text(model, tokenizer, DOCUMENTS, cut, batch=1)
    for batch in (2, 5, 64):
        together = score_text(model, tokenizer, DOCUMENTS, cut, batch=batch)
        assert together.loss == pytest.approx(alone.loss, rel=1e-6)
        assert together.tokens == alone.tokens


def test_more_context_predicts_a_repeated_text_better_once_trained():
    torch.manual_seed(0)
    shape = GPT2Config(vocab_size=259, n_positions=16, n_embd=32, n_layer=1, n_head=2)
    learner = GPT2LMHeadModel(shape)
    text = "abcdefghijklmnopqrstuvwxyz" * 20
    ids = torch.tensor([byte + 3 for byte in text.encode()]).unfold(0, 16, 3)
    optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        learner(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
    tokenizer, piece = load_tokenizer("byte"), [Piece(text, True)]
    found = score_text(learner.eval(), tokenizer, piece, TokenWindows(16, 8))
    assert found.loss < 1.0 < math.log(26)
    assert found.bits_per_byte == pytest.approx(
        found.loss * found.tokens / (len(text) * math.log(2)), rel=1e-12
    )


def test_counts_are_of_tokens_bytes_and_documents(model: Any):
    tally, heard = Tally(), []
    found = score_text(
        model,
        load_tokenizer("byte"),
        iter(DOCUMENTS),
        TokenWindows(BLOCK, BLOCK),
        tally=tally,
        batch=4,
        on_bytes=heard.append,
    )
    size = sum(len(text.encode()) for text in TALES)
    assert (found.n_bytes, found.documents) == (size, 3)
    assert found.tokens == size + 3  # the ends of documents are predicted too
    assert tally.n_bytes == size == heard[-1]


def test_windows_that_cannot_be():
    assert TokenWindows.of(256) == TokenWindows(256, 128)
    assert TokenWindows.of(256, block=64) == TokenWindows(64, 32)
    assert TokenWindows.of(1) == TokenWindows(1, 1)
    for arguments, message in [
        ((256, 512, None), "--block 512: the model takes at most 256 tokens"),
        ((256, None, 300), "--stride 300 is longer than a block of 256"),
        ((256, 0, None), "--block must be a whole number of at least 1"),
        ((256, None, 0), "--stride must be a whole number of at least 1"),
    ]:
        with pytest.raises(InputError, match=message):
            TokenWindows.of(*arguments)


def test_a_batch_of_nothing(model: Any, tmp_path: Path):
    with pytest.raises(InputError, match="--batch-size must be a whole number of at least 1"):
        score_text(model, load_tokenizer("byte"), DOCUMENTS, TokenWindows(8, 4), batch=0)
