"""The model and its tokenizer, known to transformers' Auto classes once this package is imported.

    >>> from transformers import AutoConfig
    >>> from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
    >>> AutoConfig.for_model("grokking_transformer").hidden_size
    128

A saved model carries its own code, so that it loads with `trust_remote_code=True` where this
package is not installed; its tokenizer needs none.
"""

from gmb_hf.base.extras import needing

with needing("gmb_hf.modeling"):
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

    from gmb_hf.modeling.configuration_grokking import GrokkingTransformerConfig
    from gmb_hf.modeling.mixers import Blend, Mixer, Sort, own_parameter_names
    from gmb_hf.modeling.modeling_grokking import (
        GrokkingTransformerForCausalLM,
        GrokkingTransformerModel,
        GrokkingTransformerPreTrainedModel,
    )
    from gmb_hf.modeling.tokenization_grokking import GrokkingTokenizer, described_words

AutoConfig.register(GrokkingTransformerConfig.model_type, GrokkingTransformerConfig)
AutoModel.register(GrokkingTransformerConfig, GrokkingTransformerModel)
AutoModelForCausalLM.register(GrokkingTransformerConfig, GrokkingTransformerForCausalLM)
AutoTokenizer.register(GrokkingTransformerConfig, GrokkingTokenizer)

GrokkingTransformerConfig.register_for_auto_class()
GrokkingTransformerModel.register_for_auto_class("AutoModel")
GrokkingTransformerForCausalLM.register_for_auto_class("AutoModelForCausalLM")

__all__ = [
    "Blend",
    "GrokkingTokenizer",
    "GrokkingTransformerConfig",
    "GrokkingTransformerForCausalLM",
    "GrokkingTransformerModel",
    "GrokkingTransformerPreTrainedModel",
    "Mixer",
    "Sort",
    "described_words",
    "own_parameter_names",
]
