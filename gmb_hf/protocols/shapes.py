"""The model of a suite: its vocabulary and block, the settings' shape, a variant's parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gmb_hf.modeling import GrokkingTransformerConfig
from gmb_hf.protocols.sequential_settings import SequentialConfig
from gmb_hf.protocols.suites import FORMAL
from gmb_hf.training.ensemble import shape_fields
from gmb_hf.training.variants import Variant
from gmb_hf.validation import InputError


def model_shape(config: SequentialConfig, variant: Variant) -> GrokkingTransformerConfig:
    """The config of the model that is trained on all tasks of the suite.

    Raises:
        InputError: the variant does not fit: a window larger than the block, a band that leaves a
            unit without connection.
    """
    suite = config.suite
    settings: dict[str, Any] = dict(variant.fields)
    fields = shape_fields(replace(config.model, **settings))
    try:
        if suite.name == FORMAL:
            return GrokkingTransformerConfig.formal(vocab_size=suite.vocab_size, **fields)
        assert suite.prime is not None
        return GrokkingTransformerConfig.grokking(
            prime=suite.prime, vocab_size=suite.vocab_size, **fields
        )
    except ValueError as error:
        raise InputError(f"variant {variant.name!r}: {error}") from None
