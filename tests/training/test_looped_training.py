"""The stacked forward of looped models, against each model's own forward; variants; log and run."""

from __future__ import annotations

import re

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
    small_config,
    stacked,
    train_together,
)

from gmb_hf.base.errors import InputError
from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training import seeds as engine
from gmb_hf.training.config import ModelSettings, RunConfig
from gmb_hf.training.rows import RowForward, row_tree
from gmb_hf.training.stacked import SeedStack, StackedModel
from gmb_hf.training.variants import parse_variant

VARIANTS = [
    "loops-1x1",
    "loops-1x3",
    "loops-2x2",
    "loops-3x1-halting",
    "loops-2x3-halting",
    "banded-4+loops-2x2",
    "blend-3+sort-4+loops-2x2-halting",
    "hebbian-3@0.1+loops-2x1",
]
SEEDS = (0, 17)


def looped_config(text, **sections) -> RunConfig:
    model = {"layers": 2, **sections.pop("model", {}), **parse_variant(text).fields}
    return small_config(model=model, **sections)


def assert_same_and_halting(config, seeds, dtype):
    """What `assert_variants_same` says, and a halting unit that learns, where there is one."""
    for gradients in assert_variants_same(config, seeds, dtype):
        halting = [own for name, own in gradients.items() if "halting" in name]
        assert all(own.abs().max() > 0 for own in halting)


@pytest.mark.parametrize(("layers", "dtype"), [(3, torch.float64), (2, torch.float32)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_gives_the_models_own_loss_and_gradients(variant, layers, dtype):
    assert_same_and_halting(looped_config(variant, model={"layers": layers}), SEEDS, dtype)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_loops_of_any_shape_give_the_models_own_loss_and_gradients(data):
    heads = data.draw(st.integers(1, 2), label="heads")
    cycles = data.draw(st.integers(1, 3), label="cycles")
    config = small_config(
        task={
            "operation": data.draw(st.sampled_from(["sub", "div", "mul"])),
            "prime": data.draw(st.sampled_from([3, 5]), label="prime"),
            "train_rows": data.draw(st.integers(1, 5), label="train_rows"),
        },
        model={
            "heads": heads,
            "layers": data.draw(st.integers(2, 3), label="layers"),
            "width": heads * data.draw(st.integers(2, 4), label="head_dim"),
            "tied": data.draw(st.booleans(), label="tied"),
            "layer_norm": data.draw(st.booleans(), label="layer_norm"),
            "activation": data.draw(st.sampled_from(["relu", "gelu_new"])),
            "cycles": cycles,
            "inner_steps": data.draw(st.integers(1, 3), label="inner_steps"),
            "halting": cycles > 1 and data.draw(st.booleans(), label="halting"),
            "sort_window": data.draw(st.none() | st.integers(1, 5), label="sort_window"),
            "blend_window": data.draw(st.none() | st.integers(1, 5), label="blend_window"),
        },
    )
    assert_same_and_halting(config, (data.draw(st.integers(0, 99)),), torch.float64)


@pytest.mark.parametrize("variant", VARIANTS)
def test_held_out_logits_and_last_hidden_states_are_the_models_own(variant):
    config = looped_config(variant)
    models = {seed: lively_model(config, seed).eval() for seed in SEEDS}
    stack = stacked(config, models)
    logits, hidden = stack.test.logits(stack.weights)
    for index, (seed, model) in enumerate(models.items()):
        out = model(input_ids=equations(config, seed, "test")[0], output_hidden_states=True)
        assert difference(logits[index], out.logits[:, EQUALS]) <= 1e-10
        assert difference(hidden[index], out.hidden_states[-1][:, EQUALS]) <= 1e-10


@pytest.mark.parametrize("variant", ["loops-2x2", "sort-3+loops-2x2-halting"])
def test_rows_of_any_tokens_give_the_models_own_loss_and_gradients(variant):
    """The forward over prefix trees, which sequential training takes for languages."""
    shape = GrokkingTransformerConfig(
        vocab_size=5,
        hidden_size=8,
        intermediate_size=12,
        num_attention_heads=2,
        max_position_embeddings=6,
        **parse_variant(variant).fields,
    )
    models = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = GrokkingTransformerForCausalLM(shape).double()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                noise = 0.4 * torch.randn_like(parameter)
                parameter.copy_(noise + float("norm" in name and name.endswith("weight")))
        models.append(model)
    together = StackedModel(models, small_config().training, dtype=torch.float64)
    table = torch.randint(5, (7, 6), generator=torch.Generator().manual_seed(2))
    asked = (1, 3, 4)
    tree = row_tree(table.numpy(), asked, vocab_size=5, dtype=torch.float64)
    forward = RowForward(shape, tree, len(models))
    losses, _ = forward.losses(together.weights)
    together.backward(losses)
    found, _ = forward.results(together.weights)
    for index, model in enumerate(models):
        logits = model(table).logits[:, asked, :]
        targets = table[:, [position + 1 for position in asked]]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        assert difference(losses[index], loss) <= 1e-12
        assert difference(found[index], loss) <= 1e-12
        for name, parameter in model.named_parameters():
            gradient = together.weights[name].grad[index]
            assert float((gradient - parameter.grad).abs().max()) <= 1e-10, name


@pytest.mark.parametrize("variant", ["loops-2x2", "loops-3x1-halting"])
def test_a_looped_model_learns_alone_as_in_company_and_goes_on_where_it_stopped(variant):
    config = looped_config(variant, task={"prime": 7})
    stack = SeedStack(config, (5, 0, 9), dtype=torch.float64)
    together = train_together(stack, 10)
    assert (together[-1] < together[0]).all()
    alone = train_together(SeedStack(config, [9], dtype=torch.float64), 10)
    torch.testing.assert_close(alone[:, 0], together[:, 2], rtol=1e-6, atol=0)
    held = {name: value.clone() for name, value in stack.state().items()}
    again = SeedStack(config, (5, 0, 9), dtype=torch.float64)
    again.load_state(held)
    assert torch.equal(train_together(again, 3), train_together(stack, 3))


@pytest.mark.parametrize(
    ("text", "name", "fields"),
    [
        ("loops-2x3", "loops-2x3", {"cycles": 2, "inner_steps": 3}),
        (
            "loops-2x2-halting",
            "loops-2x2-halting",
            {"cycles": 2, "inner_steps": 2, "halting": True},
        ),
        (
            "loops-4x1 + sort-2",
            "sort-2+loops-4x1",
            {"sort_window": 2, "cycles": 4, "inner_steps": 1},
        ),
        (
            "loops-2x2+hebbian-2@0.5",
            "hebbian-2@0.5+loops-2x2",
            {"hebbian_window": 2, "hebbian_rate": 0.5, "cycles": 2, "inner_steps": 2},
        ),
    ],
)
def test_what_a_text_stands_for(text, name, fields):
    variant = parse_variant(text)
    assert variant.fields == fields
    assert variant.name == name
    assert parse_variant(name) == variant
    config = looped_config(text)
    assert config.model.variant == variant
    assert config.model.name == f"transformer-2x2x8, {name}"
    assert RunConfig.from_dict(config.training_identity()).model == config.model


FORM = "loops is written as in loops-2x3 or loops-2x3-halting"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loops", FORM),
        ("loops-2", FORM),
        ("loops-2-3", FORM),
        ("loops-2x3x4", FORM),
        ("loops-2x3-halt", FORM),
        ("loops-2x3-halting-2", FORM),
        ("loops-0x3", "cycles must be a whole number of at least 1, got 0"),
        ("loops-2x", "inner_steps must be a whole number of at least 1, got ''"),
        ("loops-2x3+loops-2x3", "loops is given twice; give each kind once"),
        ("loops-2x3@0.1", "loops has no rate; only hebbian-H@RATE has"),
    ],
)
def test_a_mistake_is_one_line(text, message):
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        parse_variant(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cycles": 2}, "model: cycles=2 needs inner_steps"),
        ({"inner_steps": 2}, "model: inner_steps=2 needs cycles"),
        ({"halting": True}, "model: halting=True needs cycles"),
        ({"cycles": 2, "inner_steps": 2, "layers": 1}, "model: cycles=2 needs at least 2 layers"),
        ({"cycles": 1, "inner_steps": 2, "halting": True}, "model: halting chooses among cycles"),
    ],
)
def test_what_makes_no_loops_is_refused_before_a_folder_is_touched(tmp_path, fields, message):
    config = small_config(model={"layers": 2, **fields})
    with pytest.raises(InputError, match=message) as caught:
        engine.train_stacked(config, [0], tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["cycles", "inner_steps"])
def test_the_settings_refuse_what_is_no_number_of_times(name):
    with pytest.raises(InputError, match=f"{name} must be greater than or equal to 1, got 0"):
        ModelSettings.of(layers=2, **{"cycles": 2, "inner_steps": 2, name: 0})


def test_a_run_log_says_how_states_were_sampled(tmp_path):
    config = looped_config("loops-2x2-halting", training={"steps": 5}, model={"layers": 3})
    (path,) = engine.train_stacked(config, SEEDS, tmp_path)
    log = RunLog.read(path)
    assert log.metadata["model"] == "transformer-3x2x8, loops-2x2-halting"
    about = log.metadata["loops"]
    assert (about["fast_block"], about["slow_block"]) == ("layers 1 to 2", "layer 3")
    assert (about["projection"], about["levels_percent"]) == ("identity", [5, 10, 20, 50])
    assert {"fast_update_2_2", "slow_update_2", "halting_steps"} <= set(log.observables)
    (dense,) = engine.train_stacked(small_config(training={"steps": 5}), SEEDS, tmp_path / "dense")
    assert "loops" not in RunLog.read(dense).metadata
    assert not {"fast_update_1_1", "reset_spike"} & set(RunLog.read(dense).observables)
