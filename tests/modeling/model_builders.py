"""Small models and inputs for the tests of this folder."""

import torch

from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM

SMALL = {"vocab_size": 17, "hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40}


def build(seed=0, dtype=torch.float32, scale=8.0, **fields):
    """A small model with weights large enough that every part of it matters."""
    torch.manual_seed(seed)
    config = GrokkingTransformerConfig(**{**SMALL, "max_position_embeddings": 9, **fields})
    model = GrokkingTransformerForCausalLM(config).to(dtype).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter.add_(0.3 * torch.randn_like(parameter))
            else:
                parameter.mul_(scale)
    return model


def tokens(*shape, seed=1, vocab_size=17):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab_size, shape, generator=generator)
