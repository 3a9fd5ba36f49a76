"""What a language model is trained from, and the presets.

| preset | for                                                                              |
|--------|----------------------------------------------------------------------------------|
| smoke  | tests: seconds, nothing to conclude                                              |
| byte   | a small model of bytes, minutes on two cores, nothing to download                |
| gpt2   | the evaluation protocol's published run: 7.3M parameters, tokens of GPT-2        |
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, ClassVar

from gmb_hf.base.documents import load_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.tasks.text import SEPARATOR
from gmb_hf.training.config import ModelSettings
from gmb_hf.training.settings import (
    Config,
    Fraction,
    NotNegative,
    Positive,
    SettingsSection,
    Size,
    Whole,
    one_of,
    preset_sections,
)

BYTES = "byte"
"""The tokenizer that needs no file: UTF-8 bytes, and an end of document."""

PRECISIONS = ("no", "bf16", "fp16")


class TextSettings(SettingsSection):
    """How text becomes tokens.

    Attributes:
        tokenizer: "byte", or a tokenizer's name on the Hub or folder.
        block: tokens that the model sees at once.
        separator: between the documents of a file.
        test_share: of the tokens, from the end, held out where no other text is.
    """

    kind: ClassVar[str] = "text"
    tokenizer: str = BYTES
    block: Size = 256
    separator: str = SEPARATOR
    test_share: Fraction = 0.05

    def check(self) -> None:
        for name in ("tokenizer", "separator"):
            if not getattr(self, name):
                raise InputError(f"{name} is empty")


class LanguageTraining(SettingsSection):
    """How the model is trained: AdamW, a linear warm-up, then a cosine to a tenth of the rate.

    Attributes:
        steps: updates.
        checkpoint_every: steps between two rows of the run log, and between two saved states.
        batch: blocks in an update, over all processes.
        accumulate: parts that an update's batch is computed in one by one, to save memory.
        lr, weight_decay, beta1, beta2, eps: of AdamW; decay acts on matrices and embeddings only.
        warmup: steps until the rate is reached.
        clip: largest norm of the gradient.
        precision: "no" (float32), "bf16" or "fp16", as Accelerate's mixed precision.
        measured_blocks: blocks, evenly spaced, that train_loss and test_loss are means over.
        keep_every: steps between two models that are kept, the last one included; 0 keeps the last
            one only.
    """

    kind: ClassVar[str] = "training"
    steps: Size = 800
    checkpoint_every: Size = 50
    batch: Size = 16
    accumulate: Size = 1
    lr: Positive = 2e-3
    weight_decay: NotNegative = 0.1
    beta1: Fraction = 0.9
    beta2: Fraction = 0.95
    eps: Positive = 1e-8
    warmup: Whole = 50
    clip: Positive = 1.0
    precision: Annotated[str, one_of("precision", PRECISIONS)] = "no"
    measured_blocks: Size = 64
    keep_every: Whole = 0

    def check(self) -> None:
        self.check_multiple("steps", "checkpoint_every")
        self.check_multiple("batch", "accumulate")
        if self.keep_every:
            self.check_multiple("keep_every", "checkpoint_every")
            self.check_multiple("steps", "keep_every")

    def rate(self, step: int) -> float:
        """The learning rate of the update after `step` others."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


class ConsistencySettings(SettingsSection):
    """Whether samples of the model agree with each other, measured at every checkpoint.

    Attributes:
        prompts: beginnings of held-out blocks, evenly spaced; 0 measures nothing.
        prompt_tokens: in each.
        samples: continuations of each prompt.
        new_tokens: of a continuation; two are the same when all of them are.
        temperature: of the sampling; 0.7 as in Wang et al. (2022).
    """

    kind: ClassVar[str] = "consistency"
    prompts: Whole = 0
    prompt_tokens: Size = 24
    samples: Size = 8
    new_tokens: Size = 4
    temperature: Positive = 0.7

    def check(self) -> None:
        if self.samples < 2:
            raise InputError("samples must be at least 2: one agrees with itself")


_SHAPE = ModelSettings(
    layers=4, heads=4, width=128, mlp_width=512, activation="gelu_new", tied=True
)


class LanguageConfig(Config):
    """Everything that a language model's training is made from, texts and seeds apart."""

    text: TextSettings = TextSettings()
    model: ModelSettings = _SHAPE
    training: LanguageTraining = LanguageTraining()
    consistency: ConsistencySettings = ConsistencySettings()

    def check(self) -> None:
        asked = self.consistency.prompt_tokens + self.consistency.new_tokens
        if self.consistency.prompts and asked > self.text.block:
            raise InputError(
                f"consistency: {asked} tokens of a prompt and its continuation are more than "
                f"text.block={self.text.block}"
            )

    def identity(self) -> dict[str, Any]:
        """The part that decides what a run leaves, texts and seed apart, as plain dictionaries.

        What is off is no part of it, so that folders of trainings that knew nothing of it go on.
        """
        whole: dict[str, Any] = {name: dict(part) for name, part in self if name != "preset"}
        if not self.consistency.prompts:
            del whole["consistency"]
        if not self.training.keep_every:
            del whole["training"]["keep_every"]
        if self.model.layer_norm:
            del whole["model"]["layer_norm"]
        return whole


PRESETS: dict[str, dict[str, Any]] = load_yaml(Path(__file__).with_name("presets.yaml"))


def language_preset(name: str) -> LanguageConfig:
    """The config of that name; an unknown one is an `InputError` that names the nearest."""
    return LanguageConfig.from_dict(preset_sections(PRESETS, name))
