"""Mixers: against loops over tokens, in their place in the model, with padding, generating."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_builders import build, check_generation_without_cache, check_padding, tokens

from gmb_hf.modeling import Blend, Mixer, Sort, own_parameter_names
from gmb_hf.modeling.mixers import MIXERS

EACH = [{f"{kind.name}_window": 3} for kind in MIXERS] + [{"sort_window": 4, "blend_window": 2}]


def gate(alpha):
    return 1 / (1 + math.exp(-float(alpha)))


def softmax(values):
    exponents = [math.exp(value - max(values)) for value in values]
    return [exponent / sum(exponents) for exponent in exponents]


def sort_by_loops(states, weights, window, present):
    """One row [T, C]; each token over the present tokens of its window and itself."""
    a, mixed = gate(weights["alpha"]), []
    for i, state in enumerate(states):
        read = [j for j in range(max(0, i - window + 1), i + 1) if present[j] or j == i]
        scale = math.exp(-float(weights["tau"])) / math.sqrt(len(state))
        shares = softmax([float(state @ states[j]) * scale for j in read])
        average = sum(share * states[j] for share, j in zip(shares, read, strict=True))
        mixed.append((1 - a) * state + a * average)
    return torch.stack(mixed)


def blend_by_loops(states, weights, window, present):
    a, shares, mixed = gate(weights["alpha"]), softmax(weights["offsets"].tolist()), []
    for t, state in enumerate(states):
        total = (1 - a) * state
        for d in range(min(window - 1, t) + 1):
            if present[t - d] or d == 0:
                total = total + a * shares[d] * states[t - d]
        mixed.append(total)
    return torch.stack(mixed)


BY_LOOPS = {Sort: sort_by_loops, Blend: blend_by_loops}


def draw(kind, window, seed, length=6, width=5, models=()):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn((*models, *shape), dtype=torch.float64, generator=generator)

    weights = {name: normal(*value.shape) for name, value in kind(window).start().items()}
    return normal(3, length, width), weights, torch.rand(3, length, generator=generator) < 0.6


@pytest.mark.parametrize("kind", MIXERS)
@given(
    window=st.integers(1, 8),
    length=st.integers(1, 7),
    seed=st.integers(0, 999),
    padded=st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_a_mixer_is_its_loop_over_tokens(kind, window, length, seed, padded):
    states, weights, present = draw(kind, window, seed, length)
    found = kind(window).mix(states, weights, present if padded else None)
    for row, row_states in enumerate(states):
        seen = present[row] if padded else torch.ones(length)
        expected = BY_LOOPS[kind](row_states, weights, window, seen)
        torch.testing.assert_close(found[row], expected, rtol=1e-12, atol=1e-12)


def test_by_hand():
    states = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    half = torch.tensor(0.0)
    blended = Blend(2).mix(states, {"alpha": half, "offsets": torch.log(torch.tensor([3.0, 1.0]))})
    # Halves of the token itself and of 3/4 of itself and 1/4 of the token before, if there is one.
    expected = torch.tensor([[1.75, 0.0], [0.25, 2.625], [0.875, 1.25]])
    torch.testing.assert_close(blended, expected)
    tau = torch.tensor(-math.log(math.sqrt(2)))  # exp(-tau) undoes the square root of the width
    sorted_states = Sort(2).mix(states, {"alpha": half, "tau": tau})
    like, unlike = math.exp(2) / (math.exp(2) + math.exp(3)), 1 / (1 + math.exp(9))
    torch.testing.assert_close(sorted_states[0], states[0])
    second = torch.tensor([0.5 * unlike * 2, 1.5 + 0.5 * (1 - unlike) * 3])
    torch.testing.assert_close(sorted_states[1], second)
    third = 0.5 * states[2] + 0.5 * (like * states[2] + (1 - like) * states[1])
    torch.testing.assert_close(sorted_states[2], third)


@pytest.mark.parametrize("kind", MIXERS)
def test_many_models_at_once(kind):
    mixer = kind(3)
    states, weights, present = draw(kind, 3, seed=5, models=(4,))
    own = {name: value[2] for name, value in weights.items()}
    found = torch.vmap(mixer.mix)(states, weights)
    torch.testing.assert_close(found[2], mixer.mix(states[2], own))
    shared = torch.vmap(mixer.mix, in_dims=(0, 0, None))(states, weights, present[2])
    torch.testing.assert_close(shared[2], mixer.mix(states[2], own, present[2]))


@pytest.mark.parametrize("kind", MIXERS)
def test_the_module_mixes_by_its_own_parameters_and_they_learn(kind):
    mixer = kind(3).double()
    states, _, present = draw(kind, 3, seed=7)
    start = {name: value.double() for name, value in mixer.start().items()}
    output = mixer(states, present)
    assert torch.equal(output, mixer.mix(states, start, present))
    assert start["alpha"].item() == -2
    output.square().sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in mixer.parameters())


@pytest.mark.parametrize("kind", MIXERS)
def test_gradients(kind):
    states, weights, present = draw(kind, 3, seed=2, length=5, width=3)
    names = list(weights)
    inputs = [value.requires_grad_() for value in (states, *weights.values())]

    def mix(states, *values):
        return kind(3).mix(states, dict(zip(names, values, strict=True)), present)

    assert torch.autograd.gradcheck(mix, inputs)


def test_a_mixer_must_say_what_it_averages():
    with pytest.raises(TypeError, match=r"abstract.*average"):
        Mixer(2)


def stirred(**fields):
    """A model whose mixers have left their start."""
    model = build(dtype=torch.float64, **fields)
    with torch.no_grad():
        for name in own_parameter_names(model):
            value = model.get_parameter(name)
            value.copy_(torch.linspace(-0.4, 0.7, value.numel() + 1)[1:].view_as(value))
    return model


def test_each_mixer_stands_in_its_place():
    model = stirred(sort_window=3, blend_window=4)
    dense = build(dtype=torch.float64)
    report = dense.load_state_dict(model.state_dict(), strict=False)
    assert report.missing_keys == []
    assert report.unexpected_keys == own_parameter_names(model)
    input_ids, everyone = tokens(2, 7), torch.ones(7)

    def by_loops(kind, states, module):
        weights = dict(module.named_parameters())
        rows = [BY_LOOPS[kind](row, weights, module.window, everyone) for row in states]
        return torch.stack(rows)

    causal = torch.full((7, 7), -torch.inf, dtype=torch.float64).triu(1)
    dense.set_attn_implementation("eager")
    with torch.no_grad():
        states = dense.model.embed_tokens(input_ids) + dense.model.embed_positions.weight[:7]
        states = by_loops(Blend, states, model.model.blend)
        for plain, mixing in zip(dense.model.layers, model.model.layers, strict=True):
            states = by_loops(Sort, plain(states, attention_mask=causal), mixing.sort)
        expected = dense.lm_head(dense.model.norm(states))
        torch.testing.assert_close(model(input_ids).logits, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("fields", EACH)
def test_own_parameters(fields):
    blend = ["model.blend.alpha", "model.blend.offsets"]
    sort = [f"model.layers.{i}.sort.{name}" for i in (0, 1) for name in ("alpha", "tau")]
    model = build(**fields)
    names = own_parameter_names(model)
    assert names == blend * ("blend_window" in fields) + sort * ("sort_window" in fields)
    assert set(names) <= dict(model.named_parameters()).keys()
    assert own_parameter_names(build()) == []
    # The decoder and a mixer by themselves name them from where they stand.
    assert own_parameter_names(model.model) == [name.removeprefix("model.") for name in names]
    assert own_parameter_names(Sort(2)) == ["alpha", "tau"]


@pytest.mark.parametrize("fields", EACH)
def test_variants_of_one_seed_begin_alike(fields):
    dense, model = build(), build(scale=1.0, **fields)
    assert not torch.equal(dense.model.layers[0].mlp.up.weight, model.model.layers[0].mlp.up.weight)
    start = {**build(scale=1.0).state_dict()}
    for name, value in model.state_dict().items():
        if name not in own_parameter_names(model):
            assert torch.equal(value, start[name])


@pytest.mark.parametrize("fields", EACH)
def test_attention_implementations_agree(fields):
    model = stirred(**fields)
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[0, :3] = 0
    with torch.no_grad():
        found = model(tokens(2, 8), attention_mask=mask).logits
        model.set_attn_implementation("eager")
        expected = model(tokens(2, 8), attention_mask=mask).logits
    tokens_alone = mask.bool()  # what padding itself gives is nobody's business
    torch.testing.assert_close(found[tokens_alone], expected[tokens_alone], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fields", EACH)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_row_gives_what_it_gives_alone(side, fields):
    check_padding(stirred(**fields), side)


@pytest.mark.parametrize("fields", EACH)
def test_generation_reads_the_whole_input_again(fields):
    check_generation_without_cache(stirred(**fields).float())


def test_no_cache_is_made_or_taken():
    mixing, cache = build(sort_window=2, blend_window=2), build()(tokens(1, 3)).past_key_values
    assert mixing(tokens(1, 3)).past_key_values is None
    assert mixing(tokens(1, 3), use_cache=True).past_key_values is None
    message = r"with sort, blend reads states that no cache keeps.*without past_key_values"
    for given_cache in ({"past_key_values": cache}, {"past_key_values": cache, "use_cache": True}):
        with pytest.raises(ValueError, match=message):
            mixing(tokens(1, 1), **given_cache)
    with pytest.raises(ValueError, match=message):
        mixing.generate(tokens(1, 3), max_new_tokens=1, use_cache=True, pad_token_id=0)


def test_a_mask_that_does_not_tell_padding_is_refused():
    message = r"with sort takes an attention_mask \[batch, tokens\].*got one of 4 dimensions"
    with pytest.raises(ValueError, match=message):
        build(sort_window=2)(tokens(1, 3), attention_mask=torch.ones(1, 1, 3, 3))


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable` is deprecated:FutureWarning")
def test_gradient_checkpointing_gives_the_same_gradients():
    gradients = []
    for checkpointing in (False, True):
        model = stirred(sort_window=3, blend_window=3).train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        model(tokens(3, 8), labels=tokens(3, 8)).loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for plain, checkpointed in zip(*gradients, strict=True):
        assert torch.equal(plain, checkpointed)
