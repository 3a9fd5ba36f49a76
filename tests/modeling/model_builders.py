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


def check_padding(model, side):
    """A row that is padded on this side gives what it gives alone, and so does its neighbour."""
    short = tokens(1, 4)
    kept = slice(3, None) if side == "left" else slice(0, 4)
    padded, mask = tokens(2, 7, seed=5), torch.ones(2, 7, dtype=torch.long)
    padded[0, kept] = short[0]
    mask[0] = 0
    mask[0, kept] = 1
    with torch.no_grad():
        found = model(padded, attention_mask=mask).logits
        torch.testing.assert_close(found[:1, kept], model(short).logits, rtol=1e-12, atol=1e-12)
        alone = model(padded[1:]).logits
    torch.testing.assert_close(found[1:], alone, rtol=1e-12, atol=1e-12)
    assert found.isfinite().all()


def generate_padded(model):
    """A prompt of two tokens and one of four, the options, and five tokens more of both at once.

    The shorter prompt is padded on the left, so that the new tokens are those from the fourth on.
    """
    short, long = tokens(1, 2, seed=3), tokens(1, 4, seed=4)
    batch = torch.cat([torch.cat([torch.zeros(1, 2, dtype=torch.long), short], 1), long])
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    return short, long, options, model.generate(batch, attention_mask=mask, **options)


def check_generation_without_cache(model):
    """What it generates in a padded batch is what it would choose token by token."""
    assert model.config.use_cache is False
    *prompts, _, together = generate_padded(model)
    for generated, greedy in zip(together, prompts, strict=True):
        for _ in range(5):
            with torch.no_grad():
                greedy = torch.cat([greedy, model(greedy).logits[:, -1:].argmax(-1)], 1)
        assert torch.equal(generated[4:], greedy[0, -5:])
