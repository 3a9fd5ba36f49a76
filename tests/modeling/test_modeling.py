"""The forward: against the formulas written out, its cache, padding, losses and gradients."""

import doctest
import math

import pytest
import torch
from model_builders import build, check_padding, generate_padded, tokens
from torch.nn import functional

import gmb_hf.modeling
from gmb_hf.modeling import (
    GrokkingTransformerConfig,
    GrokkingTransformerForCausalLM,
    GrokkingTransformerModel,
    modeling_grokking,
)


def by_hand(model, input_ids):
    """The logits from the state dict alone, one sequence and one head at a time."""
    config, w = model.config, model.state_dict()
    d, heads = config.hidden_size, config.num_attention_heads
    head_dim = d // heads

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        if not config.layer_norm:
            return x
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.pow(2).mean(-1, keepdim=True)
        return centred / (variance + 1e-5).sqrt() * w[f"{name}.weight"] + w[f"{name}.bias"]

    def act(x):
        if config.hidden_act == "relu":
            return x.clamp(min=0)
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    result = []
    for row in input_ids:
        x = w["model.embed_tokens.weight"][row] + w["model.embed_positions.weight"][: len(row)]
        for i in range(config.num_hidden_layers):
            layer = f"model.layers.{i}"
            qkv = linear(norm(x, f"{layer}.norm_1"), f"{layer}.attention.qkv")
            mixed = []
            for h in range(heads):
                part = slice(h * head_dim, (h + 1) * head_dim)
                q, k, v = qkv[:, :d][:, part], qkv[:, d : 2 * d][:, part], qkv[:, 2 * d :][:, part]
                scores = q @ k.T / math.sqrt(head_dim)
                hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
                mixed.append(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v)
            x = x + linear(torch.cat(mixed, -1), f"{layer}.attention.out")
            up = act(linear(norm(x, f"{layer}.norm_2"), f"{layer}.mlp.up"))
            x = x + linear(up, f"{layer}.mlp.down")
        result.append(norm(x, "model.norm") @ w["lm_head.weight"].T)
    return torch.stack(result)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("act", ["gelu_new", "relu"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("layer_norm", [True, False])
def test_the_forward_equals_the_formulas(attention, act, tied, layer_norm):
    fields = {"hidden_act": act, "tie_word_embeddings": tied, "layer_norm": layer_norm}
    model = build(dtype=torch.float64, **fields)
    model.set_attn_implementation(attention)
    input_ids = tokens(3, 9)
    with torch.no_grad():
        expected = by_hand(model, input_ids)
        found = model(input_ids).logits
    assert expected.abs().max() > 1
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_parameter_counts_of_the_presets():
    # 2 layers of 198,272, embeddings of 101 tokens and 8 or 24 positions, a final norm.
    grokking = GrokkingTransformerForCausalLM(GrokkingTransformerConfig.grokking())
    formal = GrokkingTransformerForCausalLM(GrokkingTransformerConfig.formal())
    untied = GrokkingTransformerForCausalLM(
        GrokkingTransformerConfig.grokking(tie_word_embeddings=False)
    )
    assert grokking.num_parameters() == 2 * 198_272 + 101 * 128 + 8 * 128 + 256 == 410_752
    assert formal.num_parameters() == 412_800
    assert untied.num_parameters() == 410_752 + 101 * 128


def test_names_and_shapes_of_the_parameters():
    model = build(num_hidden_layers=1, tie_word_embeddings=False)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == {
        "model.embed_tokens.weight": (17, 24),
        "model.embed_positions.weight": (9, 24),
        "model.layers.0.norm_1.weight": (24,),
        "model.layers.0.norm_1.bias": (24,),
        "model.layers.0.attention.qkv.weight": (72, 24),
        "model.layers.0.attention.qkv.bias": (72,),
        "model.layers.0.attention.out.weight": (24, 24),
        "model.layers.0.attention.out.bias": (24,),
        "model.layers.0.norm_2.weight": (24,),
        "model.layers.0.norm_2.bias": (24,),
        "model.layers.0.mlp.up.weight": (40, 24),
        "model.layers.0.mlp.up.bias": (40,),
        "model.layers.0.mlp.down.weight": (24, 40),
        "model.layers.0.mlp.down.bias": (24,),
        "model.norm.weight": (24,),
        "model.norm.bias": (24,),
        "lm_head.weight": (17, 24),
    }
    assert list(model.named_buffers()) == []
    bare = build(num_hidden_layers=1, tie_word_embeddings=False, layer_norm=False)
    names = [name for name, _ in model.named_parameters() if "norm" not in name]
    assert [name for name, _ in bare.named_parameters()] == names


def test_initialisation():
    torch.manual_seed(0)
    config = GrokkingTransformerConfig.grokking(num_hidden_layers=8, tie_word_embeddings=False)
    for name, parameter in GrokkingTransformerForCausalLM(config).named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            joins_the_stream = "attention.out" in name or "mlp.down" in name
            expected = 0.02 / 4 if joins_the_stream else 0.02  # sqrt(2 x 8 layers) = 4
            assert parameter.std().item() == pytest.approx(expected, rel=0.1), name
            assert abs(parameter.mean().item()) < 0.1 * expected, name


def test_no_token_sees_a_later_one():
    model = build()
    input_ids = tokens(1, 9)
    changed = input_ids.clone()
    changed[0, 5:] = (changed[0, 5:] + 1) % 17
    with torch.no_grad():
        before, after = model(input_ids).logits, model(changed).logits
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sdpa_and_eager_agree(dtype):
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    input_ids, labels = tokens(4, 8), tokens(4, 8, seed=2)
    results = []
    for attention in ("eager", "sdpa"):
        model = build(dtype=dtype, scale=4.0)
        model.set_attn_implementation(attention)
        output = model(input_ids, labels=labels)
        output.loss.backward()
        results.append([output.logits, *(p.grad for p in model.parameters())])
    for eager, sdpa in zip(*results, strict=True):
        torch.testing.assert_close(eager, sdpa, rtol=tolerance, atol=tolerance)


def test_the_loss_by_hand():
    model = build()
    input_ids = tokens(2, 5)
    labels = torch.tensor([[-100, -100, 3, -100, 4], [16, -100, -100, -100, 0]])
    output = model(input_ids, labels=labels)
    logs = output.logits.log_softmax(-1)
    # A label is predicted one position before it; the label at position 0 has no predictor.
    terms = torch.stack([logs[0, 1, 3], logs[0, 3, 4], logs[1, 3, 0]])
    torch.testing.assert_close(output.loss, -terms.mean())
    divided = model(input_ids, labels=labels, num_items_in_batch=torch.tensor(12)).loss
    torch.testing.assert_close(divided, -terms.sum() / 12)
    torch.testing.assert_close(model(input_ids, labels=labels, num_items_in_batch=12).loss, divided)


def test_the_loss_keeps_float64_and_raises_bfloat16_to_float32():
    input_ids = tokens(2, 5)
    for dtype, expected in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32)):
        output = build(dtype=dtype)(input_ids, labels=input_ids)
        assert output.logits.dtype == dtype
        assert output.loss.dtype == expected
    model = build(dtype=torch.float64)
    output = model(input_ids, labels=input_ids)
    reference = functional.cross_entropy(
        output.logits[:, :-1].reshape(-1, 17), input_ids[:, 1:].reshape(-1)
    )
    assert output.loss.item() == reference.item()


def test_logits_to_keep():
    model = build()
    input_ids = tokens(2, 6)
    with torch.no_grad():
        full = model(input_ids).logits
        last = model(input_ids, logits_to_keep=2).logits
        some = model(input_ids, logits_to_keep=torch.tensor([0, 4])).logits
    torch.testing.assert_close(last, full[:, -2:], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(some, full[:, [0, 4]], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_token_by_token_with_the_cache_equals_the_whole(attention):
    model = build(dtype=torch.float64)
    model.set_attn_implementation(attention)
    input_ids = tokens(2, 9)
    with torch.no_grad():
        full = model(input_ids).logits
        cache, parts = None, []
        for chunk in input_ids.split([4, 1, 1, 3], dim=1):
            output = model(chunk, past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            parts.append(output.logits)
    torch.testing.assert_close(torch.cat(parts, 1), full, rtol=1e-12, atol=1e-12)
    assert cache.get_seq_length() == 9


def test_generate_is_the_same_with_and_without_the_cache():
    model = build()
    prompt = tokens(5, 3)
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    cached = model.generate(prompt, use_cache=True, **options)
    uncached = model.generate(prompt, use_cache=False, **options)
    assert torch.equal(cached, uncached)
    assert cached.shape == (5, 9)
    greedy = prompt
    for _ in range(6):
        with torch.no_grad():
            step = model(greedy, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)
        greedy = torch.cat([greedy, step], dim=1)
    assert torch.equal(cached, greedy)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(attention, side):
    model = build(dtype=torch.float64)
    model.set_attn_implementation(attention)
    check_padding(model, side)


def test_generate_with_left_padding_equals_each_prompt_alone():
    model = build()
    short, long, options, together = generate_padded(model)
    assert torch.equal(together[:1, 4:], model.generate(short, **options)[:, 2:])
    assert torch.equal(together[1:, 4:], model.generate(long, **options)[:, 4:])


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable` is deprecated:FutureWarning")
def test_gradient_checkpointing_gives_the_same_gradients():
    input_ids = tokens(3, 8)
    gradients, forwards = [], []
    for checkpointing in (False, True):
        model = build(dtype=torch.float64).train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        count = []
        layer = model.model.layers[0]
        layer.attention.register_forward_hook(lambda *_, count=count: count.append(1))
        model(input_ids, labels=input_ids).loss.backward()
        gradients.append([p.grad for p in model.parameters()])
        forwards.append(len(count))
    assert forwards == [1, 2]
    for plain, checkpointed in zip(*gradients, strict=True):
        assert torch.equal(plain, checkpointed)


def test_no_cache_is_kept_in_training_unless_one_is_given():
    model = build()
    assert model(tokens(1, 3)).past_key_values.get_seq_length() == 3
    assert model(tokens(1, 3), use_cache=False).past_key_values is None
    assert model.train()(tokens(1, 3)).past_key_values is None


def test_hidden_states_and_attentions():
    model = build(num_hidden_layers=3)
    input_ids = tokens(2, 5)
    with torch.no_grad():
        output = model(input_ids, output_hidden_states=True)
        assert [tuple(state.shape) for state in output.hidden_states] == [(2, 5, 24)] * 4
        assert output.attentions is None
        embedded = model.model.embed_tokens(input_ids) + model.model.embed_positions.weight[:5]
        assert torch.equal(output.hidden_states[0], embedded)
        assert torch.equal(model.lm_head(output.hidden_states[-1]), output.logits)
        model.set_attn_implementation("eager")
        weights = model(input_ids, output_attentions=True).attentions
    assert [tuple(weight.shape) for weight in weights] == [(2, 3, 5, 5)] * 3
    for weight in weights:
        torch.testing.assert_close(weight.sum(-1), torch.ones(2, 3, 5))
        assert (weight.triu(1) == 0).all()


def test_embeddings_and_positions_may_be_given():
    model = build()
    input_ids = tokens(2, 4)
    with torch.no_grad():
        expected = model(input_ids).logits
        embedded = model.get_input_embeddings()(input_ids)
        assert torch.equal(model(inputs_embeds=embedded).logits, expected)
        assert torch.equal(model(input_ids, position_ids=torch.arange(4)[None]).logits, expected)
        moved = model(input_ids, position_ids=torch.arange(2, 6)[None]).logits
    assert not torch.allclose(moved, expected)


def test_a_tuple_on_request_and_the_decoder_alone():
    model = build()
    input_ids = tokens(2, 4)
    with torch.no_grad():
        loss, logits = model(input_ids, labels=input_ids, use_cache=False, return_dict=False)
        state = model.model(input_ids).last_hidden_state
    assert loss.ndim == 0
    assert torch.equal(model.lm_head(state), logits)
    assert isinstance(model.base_model, GrokkingTransformerModel)


@pytest.mark.parametrize("tied", [True, False])
def test_resizing_the_vocabulary_keeps_the_old_tokens(tied):
    model = build(tie_word_embeddings=tied)
    input_ids = tokens(2, 4)
    with torch.no_grad():
        before = model(input_ids).logits
        model.resize_token_embeddings(20)
        after = model(input_ids).logits
    assert after.shape == (2, 4, 20)
    assert model.config.vocab_size == 20
    torch.testing.assert_close(after[..., :17], before)
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied
    assert model(input_ids, labels=input_ids).loss.isfinite()


def test_inputs_that_are_refused():
    model = build()
    with pytest.raises(ValueError, match=r"has 10 tokens, the model takes 9 \(max_position_emb"):
        model(tokens(1, 10))
    with pytest.raises(ValueError, match="has 10 tokens, the model takes 9"):
        model(tokens(1, 10), attention_mask=torch.ones(1, 10))
    with pytest.raises(ValueError, match="has 10 tokens, the model takes 9"):
        model(tokens(1, 2), position_ids=torch.tensor([[8, 9]]))
    cache = model(tokens(1, 8)).past_key_values
    with pytest.raises(ValueError, match="has 10 tokens, the model takes 9"):
        model(tokens(1, 2), past_key_values=cache)
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model()
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model(tokens(1, 2), inputs_embeds=torch.zeros(1, 2, 24))
    with pytest.raises(ValueError, match="labels need the logits of every position"):
        model(tokens(1, 2), labels=tokens(1, 2), logits_to_keep=1)


@pytest.mark.parametrize("module", [gmb_hf.modeling, modeling_grokking])
def test_examples_in_the_documentation(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
