"""Every variant of the architecture, stacked, against the model's own forward and optimizer."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from training_builders import (
    EQUALS,
    assert_variants_same,
    difference,
    equations,
    lively_model,
    own_loss,
    small_config,
    stacked,
    train_together,
)

from gmb_hf.modeling.mixers import own_parameter_names
from gmb_hf.training.stacked import SeedStack, adamw
from gmb_hf.training.variants import parse_variant

VARIANTS = [
    "banded-4",
    "banded-none-6",
    "blend-1",
    "blend-2",
    "blend-8",
    "sort-1",
    "sort-2",
    "sort-3",
    "sort-8",
    "hebbian-1@0.1",
    "hebbian-7@0.1",
    "blend-3+sort-4",
    "banded-4+sort-4+blend-8+hebbian-4@0.1",
]
SEEDS = (0, 17)


def variant_config(text, *, task=None, training=None, **model):
    fields = dict(parse_variant(text).fields)
    return small_config(task=task, model={**model, **fields}, training=training)


@pytest.mark.parametrize(
    ("layers", "dtype"),
    [(1, torch.float64), (3, torch.float64), (2, torch.float32)],
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_gives_the_models_own_loss_and_gradients(variant, layers, dtype):
    assert_variants_same(variant_config(variant, layers=layers), SEEDS, dtype)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_variant_of_any_shape_gives_the_models_own_loss_and_gradients(data):
    window = st.none() | st.integers(1, 8)
    heads = data.draw(st.integers(1, 2), label="heads")
    config = small_config(
        task={
            "operation": data.draw(st.sampled_from(["sub", "div", "mul"])),
            "prime": data.draw(st.sampled_from([3, 5]), label="prime"),
            "train_rows": data.draw(st.integers(1, 5), label="train_rows"),
            "corruption_rate": data.draw(st.sampled_from([0.0, 0.5])),
        },
        model={
            "heads": heads,
            "layers": data.draw(st.integers(1, 2), label="layers"),
            "width": heads * data.draw(st.integers(2, 4), label="head_dim"),
            "tied": data.draw(st.booleans(), label="tied"),
            "layer_norm": data.draw(st.booleans(), label="layer_norm"),
            "activation": data.draw(st.sampled_from(["relu", "gelu_new"])),
            "band_fc1": data.draw(st.none() | st.integers(12, 20), label="band_fc1"),
            "band_fc2": data.draw(st.none() | st.integers(12, 20), label="band_fc2"),
            "sort_window": data.draw(window, label="sort_window"),
            "blend_window": data.draw(window, label="blend_window"),
            "hebbian_window": data.draw(window, label="hebbian_window"),
            "hebbian_rate": 0.05,
        },
    )
    assert_variants_same(config, (data.draw(st.integers(0, 99)),), torch.float64)


@pytest.mark.parametrize("variant", VARIANTS)
def test_held_out_logits_and_last_hidden_states_are_the_models_own(variant):
    config = variant_config(variant, layers=2)
    models = {seed: lively_model(config, seed).eval() for seed in SEEDS}
    stack = stacked(config, models)
    logits, hidden = stack.test.logits(stack.weights)
    for index, (seed, model) in enumerate(models.items()):
        out = model(input_ids=equations(config, seed, "test")[0], output_hidden_states=True)
        assert difference(logits[index], out.logits[:, EQUALS]) <= 1e-10
        assert difference(hidden[index], out.hidden_states[-1][:, EQUALS]) <= 1e-10


@pytest.mark.parametrize("variant", VARIANTS)
def test_steps_are_those_of_the_model_alone_with_the_same_optimizer(variant):
    config = variant_config(variant, training={"eps": 1e-4, "weight_decay": 0.7})
    models = {seed: lively_model(config, seed) for seed in SEEDS}
    stack = stacked(config, models)
    train_together(stack, 5)
    updates = stack.last_updates()
    for index, (seed, model) in enumerate(models.items()):
        named = dict(model.named_parameters())
        optimizer = adamw(named, own_parameter_names(model), config.training)
        for _ in range(5):
            optimizer.zero_grad()
            own_loss(model, config, seed)[0].backward()
            before = {name: value.detach().clone() for name, value in named.items()}
            optimizer.step()
        masks = dict(model.named_buffers())
        for name, parameter in named.items():
            # Weights outside a band count for nothing; here they did not begin at zero.
            inside = masks.get(name.replace(".weight", ".mask"), torch.ones(()))
            expected = (inside * parameter).detach()
            assert difference(stack.weights[name][index].detach(), expected) <= 1e-8, name
            moved = inside * (parameter.detach() - before[name])
            assert float((updates[name][index] - moved).abs().max()) <= 1e-8, name


def test_mixers_learn_ten_times_as_fast_and_do_not_decay():
    config = variant_config("sort-4+blend-8", training={"eps": 1e-15, "weight_decay": 0.7})
    stack = SeedStack(config, SEEDS, dtype=torch.float64)
    mixing = [name for name in stack.weights if ".sort." in name or ".blend." in name]
    assert sorted(mixing) == [
        "model.blend.alpha",
        "model.blend.offsets",
        "model.layers.0.sort.alpha",
        "model.layers.0.sort.tau",
    ]
    start = {name: stack.weights[name].detach().clone() for name in mixing}
    train_together(stack, 1)  # Adam's first step is the rate, 0.01, whatever the gradient
    for name in mixing:
        moved = (stack.weights[name].detach() - start[name]).abs()
        torch.testing.assert_close(moved, torch.full_like(moved, 0.1), rtol=1e-6, atol=0)


def test_weights_outside_a_band_are_zero_and_stay_zero():
    config = variant_config("banded-4", layers=2)
    stack = SeedStack(config, SEEDS)
    train_together(stack, 10)
    for index in range(2):
        for name, mask in stack.member(index).named_buffers():
            weight = stack.weights[name.replace(".mask", ".weight")][index]
            assert not mask.all()
            assert not weight[~mask].any()
            assert weight[mask].all()


def test_a_variant_without_numbers_of_its_own_begins_as_the_dense_model_of_its_seed():
    dense = SeedStack(variant_config("dense"), SEEDS)
    mixed = SeedStack(variant_config("blend-8+sort-4+hebbian-4"), SEEDS)
    for name, weight in dense.weights.items():
        assert torch.equal(mixed.weights[name], weight), name


@pytest.mark.parametrize("variant", ["hebbian-4@0.1", "sort-4+blend-8+banded-4+hebbian-2"])
def test_a_seed_is_the_same_run_alone_and_in_company(variant):
    config = variant_config(variant, task={"prime": 7})
    together = train_together(SeedStack(config, (5, 0, 9), dtype=torch.float64), 20)
    for column, seed in ((0, 5), (2, 9)):
        alone = train_together(SeedStack(config, [seed], dtype=torch.float64), 20)
        torch.testing.assert_close(alone[:, 0], together[:, column], rtol=1e-6, atol=0)


@pytest.mark.parametrize("variant", ["hebbian-4@0.1", "sort-4+blend-8+banded-4+hebbian-2"])
@pytest.mark.parametrize("measured", [False, True], ids=["after the update", "before it"])
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(variant, measured):
    config = variant_config(variant)
    stack = SeedStack(config, SEEDS)
    train_together(stack, 4)
    if measured:
        stack.gradients()
        stack.gradients()  # the neighbours pull once in a step, however often it is asked for
    held = {name: value.clone() for name, value in stack.state().items()}
    moved = stack.last_updates()
    again = SeedStack(config, SEEDS)
    again.load_state(held)
    for name, update in again.last_updates().items():
        assert torch.equal(update, moved[name]), name
    assert torch.equal(train_together(again, 6), train_together(stack, 6))
    for name, weight in stack.weights.items():
        assert torch.equal(again.weights[name], weight), name
