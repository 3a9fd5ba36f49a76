"""Loops: against plain loops over the model's own layers, saved, padded, generating."""

from __future__ import annotations

import json
import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_builders import build, check_generation_without_cache, check_padding, tokens
from transformers import AutoConfig

from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.modeling.loops import halting_shares

EACH = [
    {"cycles": 1, "inner_steps": 1},
    {"cycles": 2, "inner_steps": 3},
    {"cycles": 3, "inner_steps": 2, "halting": True, "num_hidden_layers": 3},
    {"cycles": 2, "inner_steps": 2, "halting": True, "sort_window": 3, "blend_window": 2},
]


def looped(**fields):
    """A model of two looped layers in double precision; its halting unit has left its start."""
    model = build(dtype=torch.float64, **fields)
    if model.config.halting:
        with torch.no_grad():
            model.model.halting.weight.copy_(torch.linspace(-0.6, 0.8, 24))
            model.model.halting.bias.fill_(-0.3)
    return model


def layer_norm(states):
    centred = states - states.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


@torch.no_grad()
def by_loops(model, input_ids):
    """The logits of each row by itself: attention, halting and the two time scales written out."""
    config, decoder = model.config, model.model
    rows = []
    for row in input_ids:
        embedded = decoder.embed_tokens(row) + decoder.embed_positions.weight[: len(row)]
        causal = torch.full((len(row), len(row)), -torch.inf, dtype=torch.float64).triu(1)

        def apply(layers, states, mask=causal):
            for layer in layers:
                states = layer(states[None], attention_mask=mask)[0]
            return states

        fast, slow = torch.zeros_like(embedded), torch.zeros_like(embedded)
        left = torch.ones(len(row), 1)
        answer = torch.zeros_like(embedded)
        for cycle in range(1, config.cycles + 1):
            for _ in range(config.inner_steps):
                fast = layer_norm(apply(list(decoder.layers)[:-1], fast + slow + embedded))
            slow = layer_norm(apply([decoder.layers[-1]], fast + slow))
            if not config.halting:
                answer = slow
            elif cycle == config.cycles:
                answer = answer + left * slow
            else:
                unit = decoder.halting
                halts = torch.sigmoid((slow * unit.weight).sum(-1, keepdim=True) + unit.bias)
                answer, left = answer + left * halts * slow, left * (1 - halts)
        rows.append(model.lm_head(decoder.norm(answer)))
    return torch.stack(rows)


@pytest.mark.parametrize("fields", EACH[:3])
def test_the_model_is_its_loops_written_out(fields):
    model = looped(**fields)
    model.set_attn_implementation("eager")
    input_ids = tokens(3, 7)
    torch.testing.assert_close(
        model(input_ids).logits, by_loops(model, input_ids), rtol=1e-11, atol=1e-11
    )


def test_one_cycle_of_one_step_differs_from_the_dense_model_by_its_norms_alone():
    model, dense = looped(cycles=1, inner_steps=1), build(dtype=torch.float64)
    assert model.state_dict().keys() == dense.state_dict().keys()
    hooks = [
        layer.register_forward_hook(lambda _, __, out: layer_norm(out))
        for layer in dense.model.layers
    ]
    expected = dense(tokens(2, 6)).logits
    torch.testing.assert_close(model(tokens(2, 6)).logits, expected, rtol=1e-11, atol=1e-11)
    for hook in hooks:
        hook.remove()
    assert not torch.allclose(dense(tokens(2, 6)).logits, expected)


def test_shares_of_halting_by_hand():
    logits = [torch.tensor([0.0, math.log(3)]), torch.tensor([math.log(1 / 3), 50.0])]
    shares = torch.stack(halting_shares(logits))
    torch.testing.assert_close(
        shares, torch.tensor([[0.5, 0.75], [0.125, 0.25], [0.375, 0.0]]), rtol=1e-6, atol=1e-12
    )


@given(st.lists(st.floats(-80, 80), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_shares_of_halting_add_up_to_one(logits):
    shares = torch.stack(halting_shares([torch.tensor(x, dtype=torch.float64) for x in logits]))
    assert (shares >= 0).all()
    assert float(shares.sum()) == pytest.approx(1, abs=1e-12)
    left = 1.0
    for share, logit in zip(shares, logits, strict=False):
        halts = 1 / (1 + math.exp(-logit))
        assert float(share) == pytest.approx(left * halts, abs=1e-12)
        left *= 1 - halts


def test_the_halting_unit_learns_from_the_task_alone():
    model = build(cycles=3, inner_steps=1, halting=True)
    model(tokens(4, 8), labels=tokens(4, 8)).loss.backward()
    assert model.model.halting.weight.grad.abs().max() > 0
    assert model.model.halting.bias.grad.abs() > 0


@pytest.mark.parametrize("fields", EACH)
def test_every_weight_has_the_gradient_of_finite_differences(fields):
    model = looped(scale=2.0, **fields)
    input_ids = tokens(2, 5)
    model(input_ids, labels=input_ids).loss.backward()
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        toward = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        losses = []
        with torch.no_grad():
            for sign in (1, -2, 1):
                parameter.add_(toward, alpha=sign * 1e-5)
                losses.append(float(model(input_ids, labels=input_ids).loss))
        slope = (losses[0] - losses[1]) / 2e-5
        assert float((parameter.grad * toward).sum()) == pytest.approx(slope, rel=2e-4, abs=1e-7), (
            name
        )


@pytest.mark.parametrize("fields", EACH)
def test_variants_of_one_seed_begin_alike(fields):
    layers = {"num_hidden_layers": fields.get("num_hidden_layers", 2)}
    dense, model = build(scale=1.0, **layers), build(scale=1.0, **fields)
    start = dense.state_dict()
    own = set(model.state_dict()) - set(start)
    assert {name for name in own if ".halting." in name} == (
        {"model.halting.weight", "model.halting.bias"} if fields.get("halting") else set()
    )
    torch.manual_seed(5)
    fresh = GrokkingTransformerForCausalLM(model.config).state_dict()
    torch.manual_seed(5)
    plain = GrokkingTransformerForCausalLM(dense.config).state_dict()
    assert all(torch.equal(fresh[name], value) for name, value in plain.items())
    assert not any(fresh[name].any() for name in own if ".halting." in name)


@pytest.mark.parametrize("fields", EACH)
def test_saved_and_loaded_bit_equal(fields, tmp_path):
    model = looped(**fields).float()
    model.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert (saved["cycles"], saved["inner_steps"]) == (fields["cycles"], fields["inner_steps"])
    assert (tmp_path / "loops.py").exists()
    again, report = GrokkingTransformerForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(report.values())
    with torch.no_grad():
        assert torch.equal(again(tokens(2, 7)).logits, model(tokens(2, 7)).logits)
    assert AutoConfig.from_pretrained(tmp_path).halting == fields.get("halting", False)


@pytest.mark.parametrize("fields", EACH)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_row_gives_what_it_gives_alone(side, fields):
    check_padding(looped(**fields), side)


@pytest.mark.parametrize("fields", EACH)
def test_generation_reads_the_whole_input_again(fields):
    check_generation_without_cache(looped(**fields).float())


def test_no_cache_is_made_or_taken():
    model, cache = build(cycles=2, inner_steps=1), build()(tokens(1, 3)).past_key_values
    assert model(tokens(1, 3), use_cache=True).past_key_values is None
    with pytest.raises(ValueError, match=r"a model with cycles reads states that no cache keeps"):
        model(tokens(1, 1), past_key_values=cache)


def test_no_token_reads_a_later_one():
    model = looped(**EACH[2])
    with torch.no_grad():
        whole, cut = model(tokens(2, 8)).logits, model(tokens(2, 8)[:, :5]).logits
    torch.testing.assert_close(cut, whole[:, :5], rtol=1e-11, atol=1e-11)


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable` is deprecated:FutureWarning")
def test_gradient_checkpointing_gives_the_same_gradients():
    gradients = []
    for checkpointing in (False, True):
        model = looped(**EACH[2]).train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        model(tokens(3, 8), labels=tokens(3, 8)).loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for plain, checkpointed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, checkpointed, rtol=1e-12, atol=1e-12)


LOOPS = {"cycles": 2, "inner_steps": 3}
WRONG = [
    ({"cycles": 2}, "cycles=2 needs inner_steps, how often the layers before the last"),
    ({"inner_steps": 3}, "inner_steps=3 needs cycles; set cycles too"),
    ({"halting": True}, "halting=True needs cycles; set cycles too"),
    ({**LOOPS, "num_hidden_layers": 1}, "needs at least 2 layers, .* got num_hidden_layers=1"),
    ({**LOOPS, "cycles": 0}, "cycles must be a whole number of at least 1, got 0"),
    ({**LOOPS, "cycles": 2.0}, "cycles must be a whole number of at least 1, got 2.0"),
    ({**LOOPS, "cycles": True}, "cycles must be a whole number of at least 1, got True"),
    ({**LOOPS, "inner_steps": 0}, "inner_steps must be a whole number of at least 1, got 0"),
    ({"inner_steps": 0}, "inner_steps=0 needs cycles; set cycles too"),
    ({**LOOPS, "halting": 1}, "halting must be True or False, got 1"),
    (
        {"cycles": 1, "inner_steps": 3, "halting": True},
        "halting chooses among cycles; with cycles=1 there is no choice",
    ),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_what_makes_no_loops_is_one_line(fields, message):
    with pytest.raises(ValueError, match=re.compile(message)) as caught:
        GrokkingTransformerConfig(**fields)
    assert "\n" not in str(caught.value)
