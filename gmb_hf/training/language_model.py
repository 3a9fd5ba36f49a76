"""The model of a language config, and its optimizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.modeling.mixers import own_parameter_names
from gmb_hf.training.ensemble import shape_fields
from gmb_hf.training.language_checkpoints import HASH
from gmb_hf.training.language_settings import LanguageConfig
from gmb_hf.training.language_tokens import tokenizer_hash
from gmb_hf.training.optimizer import MIXER_LR
from gmb_hf.validation import InputError


def model_shape(config: LanguageConfig, tokenizer: Any) -> GrokkingTransformerConfig:
    """The model's config: sizes of the settings, vocabulary and special tokens of the tokenizer.

    Raises:
        InputError: a variant that a model of this size cannot have.
    """
    end, padding = tokenizer.eos_token_id, tokenizer.pad_token_id
    try:
        return GrokkingTransformerConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=config.text.block,
            bos_token_id=end,
            eos_token_id=end,
            pad_token_id=end if padding is None else padding,
            **{HASH: tokenizer_hash(tokenizer)},
            **shape_fields(config.model),
        )
    except ValueError as error:
        raise InputError(f"model: {error}") from None


def make_optimizer(
    model: GrokkingTransformerForCausalLM, config: LanguageConfig
) -> torch.optim.AdamW:
    """AdamW: decay on matrices and embeddings, none on biases and norms; mixers learn faster.

    Each group's `scale` is what the rate of a step is multiplied by.
    """
    training = config.training
    own = set(own_parameter_names(model))
    groups: dict[str, list[Tensor]] = {"matrices": [], "others": [], "mixers": []}
    for name, value in model.named_parameters():
        kind = "mixers" if name in own else "matrices" if value.ndim > 1 else "others"
        groups[kind].append(value)
    return torch.optim.AdamW(
        [
            {
                "params": values,
                "weight_decay": training.weight_decay if kind == "matrices" else 0.0,
                "scale": MIXER_LR if kind == "mixers" else 1.0,
            }
            for kind, values in groups.items()
            if values
        ],
        lr=training.lr,
        betas=(training.beta1, training.beta2),
        eps=training.eps,
    )
