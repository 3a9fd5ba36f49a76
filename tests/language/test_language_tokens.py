"""Tokens of text: bytes and pairs of bytes, on disk and in blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.language.data import (
    TokenBlocks,
    blocks_in,
    check_long_enough,
    encoded,
    load_tokenizer,
    spaced_blocks,
    tokenizer_hash,
    write_tokens,
)
from gmb_hf.tasks.text import Piece, TextFile, pieces

STORY = "Once upon a time, there was a needle.\n\nIt was sharp; it's  lost now. " * 12


def pairs_of_bytes() -> Any:
    """A small tokenizer of GPT-2's kind, trained here."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet
    )
    core.train_from_iterator([STORY], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|endoftext|>")


def ids_of(tokenizer: Any, stream: Any) -> list[int]:
    return np.concatenate(list(encoded(tokenizer, stream))).tolist()


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_bytes_come_back_as_they_went(text: str):
    tokenizer = load_tokenizer("byte")
    ids = ids_of(tokenizer, [Piece(text, True)])
    assert ids[0] == ids[-1] == tokenizer.eos_token_id
    assert bytes(token - 3 for token in ids[1:-1]) == text.encode()


def test_the_byte_tokenizer_saves_and_loads(tmp_path: Path):
    tokenizer = load_tokenizer("byte")
    assert len(tokenizer) == 259
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    text = "Größe — 🙂\n\n a </s> <pad>"
    assert ids_of(again, [Piece(text, True)]) == ids_of(tokenizer, [Piece(text, True)])
    assert tokenizer_hash(again) == tokenizer_hash(tokenizer)
    assert tokenizer_hash(pairs_of_bytes()) != tokenizer_hash(tokenizer)


@pytest.mark.parametrize("make", [lambda: load_tokenizer("byte"), pairs_of_bytes])
def test_tokens_do_not_depend_on_how_a_document_was_cut(make: Any):
    tokenizer = make()
    whole = ids_of(tokenizer, [Piece(STORY, True)])
    cut = list(pieces([STORY], limit=40))
    assert len(cut) > 10
    assert ids_of(tokenizer, cut) == whole


def test_special_tokens_in_a_text_are_text():
    tokenizer = pairs_of_bytes()
    ids = ids_of(tokenizer, [Piece("a<|endoftext|>b", True)])
    assert ids.count(tokenizer.eos_token_id) == 2
    assert tokenizer.decode(ids[1:-1]) == "a<|endoftext|>b"


def test_a_tokenizer_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match=r"tokenizer .*none' cannot be found .*'byte' needs no"):
        load_tokenizer(tmp_path / "none")
    endless = pairs_of_bytes()
    endless.eos_token = None
    endless.save_pretrained(tmp_path / "endless")
    with pytest.raises(InputError, match="has no end-of-document token"):
        load_tokenizer(tmp_path / "endless")


def test_code_that_comes_with_a_tokenizer_is_not_run_nor_offered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "code.py").write_text("raise SystemExit('it runs')\n")
    held = {"tokenizer_class": "Theirs", "auto_map": {"AutoTokenizer": ["code.Theirs", None]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(held))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "theirs"}))
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("asked at the terminal"))
    with pytest.raises(InputError, match=r"cannot be found or loaded .*auto_map.*is not run"):
        load_tokenizer(tmp_path)


def test_a_stream_on_disk(tmp_path: Path):
    story = tmp_path / "story.txt"
    story.write_text("ab<|endoftext|>c", encoding="utf-8")
    tokenizer = load_tokenizer("byte")
    texts = [TextFile("story", story), TextFile("again", story)]
    made = write_tokens(tmp_path / "train.bin", texts, tokenizer)
    assert made.read().tolist() == [1, 100, 101, 1, 102, 1, 100, 101, 1, 102, 1]
    assert made.about["dtype"] == "<u2"
    assert (made.about["tokens"], made.about["bytes"], made.about["documents"]) == (11, 6, 4)

    before = made.path.stat().st_mtime_ns
    assert write_tokens(made.path, texts, tokenizer) == made
    assert made.path.stat().st_mtime_ns == before, "encoded again without need"
    story.write_text("other", encoding="utf-8")
    changed = write_tokens(made.path, texts, tokenizer)
    assert changed.about["content_hash"] != made.about["content_hash"]
    assert len(changed.read()) == 13


def test_nothing_is_left_of_a_text_that_cannot_be_read(tmp_path: Path):
    story = tmp_path / "story.txt"
    story.write_bytes(b"good " * 20000 + b"\xff")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        write_tokens(tmp_path / "t" / "train.bin", [TextFile("s", story)], load_tokenizer("byte"))
    assert list((tmp_path / "t").iterdir()) == []


@given(tokens=st.integers(8, 60), block=st.integers(2, 4), seed=st.integers(0, 3))
def test_an_epoch_sees_every_block_once(tokens: int, block: int, seed: int):
    ids = np.arange(tokens)
    n = blocks_in(tokens, block)
    blocks = TokenBlocks(ids, block, seed)
    for epoch in (0, 1):
        rows = blocks.rows(range(epoch * n, (epoch + 1) * n))
        assert rows.shape == (n, block + 1)
        assert (np.diff(rows) == 1).all()
        starts = np.sort(rows[:, 0])
        assert (np.diff(starts) == block).all()
        assert starts[0] < block
    # Any order of asking gives the same.
    assert (TokenBlocks(ids, block, seed).rows([2 * n - 1, 0])[1] == blocks.rows([0])[0]).all()


def test_blocks_to_measure_are_spread_over_the_stream():
    rows = spaced_blocks(np.arange(100), 10, 3)
    assert rows[:, 0].tolist() == [0, 40, 80]
    assert len(spaced_blocks(np.arange(100), 10, 50)) == 9


def test_a_text_that_is_too_short():
    check_long_enough("text", 20, 10)
    with pytest.raises(InputError, match=r"story: only 19 tokens; at least 20 are needed .* of 10"):
        check_long_enough("story", 19, 10)
