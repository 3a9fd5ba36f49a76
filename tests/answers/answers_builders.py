"""Tiny models with random weights and tokenizers made here; answers, and files of them.

Their classes are imported where they are used: BERT alone takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from gmb_hf.protocol.answers.files import ModelAnswer
from gmb_hf.training.launch import silence_transformers

WORDS = (
    *("the", "a", "in", "on", "yes", "no", "good", "bad", "."),
    *("cat", "dog", "bird", "sat", "ran", "slept", "mat", "sun"),
)
LONGEST = 48


def save_causal(folder: Path, seed: int = 0) -> Path:
    """A GPT-2 over bytes."""
    tokenizer = transformers.ByT5Tokenizer(extra_ids=0)
    torch.manual_seed(seed)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=LONGEST,
            n_embd=16,
            n_layer=1,
            n_head=2,
            initializer_range=0.5,
            bos_token_id=1,
            eos_token_id=1,
        )
    )
    return save(folder, model, tokenizer)


def word_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Words and full stops, between [CLS] and [SEP]."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=LONGEST,
    )


def spaced_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Words that begin with their space, as SentencePiece does it: one is put before every text."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    pieces = ["<unk>", "</s>", "▁", *(f"▁{word}" for word in WORDS), *"abcdefghijklmnopqrstuvwxyz"]
    made = Tokenizer(models.Unigram([(piece, -len(pieces)) for piece in pieces], unk_id=0))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", eos_token="</s>"
    )


def save_spaced(folder: Path) -> Path:
    """A GPT-2 over words that begin with their space."""
    tokenizer = spaced_tokenizer()
    torch.manual_seed(3)
    shape = {"n_positions": LONGEST, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), eos_token_id=1, initializer_range=0.5, **shape
    )
    return save(folder, transformers.GPT2LMHeadModel(config), tokenizer)


def save_classifier(folder: Path, labels: Sequence[str] = ("bad", "good"), **more: Any) -> Path:
    """A BERT over words."""
    tokenizer = word_tokenizer()
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=LONGEST,
        initializer_range=0.5,
        id2label=dict(enumerate(labels)),
        label2id={label: place for place, label in enumerate(labels)},
        **more,
    )
    return save(folder, transformers.BertForSequenceClassification(config), tokenizer)


def save_causal_classifier(folder: Path) -> Path:
    """A GPT-2 with a classifier's head, which names no padding."""
    tokenizer = transformers.ByT5Tokenizer(extra_ids=0)
    torch.manual_seed(2)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=LONGEST, n_embd=16, n_layer=1, n_head=2, num_labels=1
    )
    return save(folder, transformers.GPT2ForSequenceClassification(config), tokenizer)


def save(folder: Path, model: Any, tokenizer: Any) -> Path:
    """Model and tokenizer in one folder."""
    with silence_transformers():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_answers(path: Path, answers: Iterable[ModelAnswer]) -> Path:
    """A file of answers."""
    path.write_text("".join(answer.to_json() + "\n" for answer in answers), encoding="utf-8")
    return path


def answer(
    run: str, step: int, prompt: str, sample: int, text: str, seed: int | None = None
) -> ModelAnswer:
    """One answer of a checkpoint."""
    return ModelAnswer(run=run, step=step, prompt=prompt, sample=sample, answer=text, seed=seed)


SAID = ("a cat sat .", "a dog ran on the mat .", "bird", "a cat sat .")


def answers(runs: int = 2, steps: Sequence[int] = (0, 10)) -> list[ModelAnswer]:
    """Two prompts with two samples each, at every checkpoint; some answers occur often."""
    return [
        answer(f"seed_{run}", step, prompt, sample, SAID[(run + step // 10 + 2 * p + sample) % 4])
        for run in range(runs)
        for step in steps
        for p, prompt in enumerate(("the ", "in the sun "))
        for sample in range(2)
    ]
