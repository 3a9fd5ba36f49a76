"""The short forward, against the model's own forward over all eight tokens of every row."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from training_builders import (
    EQUALS,
    difference,
    equations,
    gradients_of_both,
    lively_model,
    own_loss,
    small_config,
    stacked,
)

from gmb_hf.tasks.modular import OPERATIONS

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
SEEDS = (0, 17, 4)


def assert_same(config, seeds, dtype):
    """Losses, answer logits and every parameter's gradient agree, relative to the largest."""
    for gradients in gradients_of_both(config, seeds, dtype, TOLERANCE[dtype]):
        for name, (found, own) in gradients.items():
            assert difference(found, own) <= TOLERANCE[dtype], name


SHAPES = [(1, torch.float64), (3, torch.float64), (2, torch.float32)]


@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize(("layers", "dtype"), SHAPES)
def test_every_shape_of_model_gives_the_models_own_loss_and_gradients(
    layers, tied, activation, dtype
):
    config = small_config(model={"layers": layers, "tied": tied, "activation": activation})
    assert_same(config, SEEDS, dtype)


@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
@pytest.mark.parametrize(("layers", "dtype"), [*SHAPES, (1, torch.float32)])
def test_a_model_without_norms_gives_its_own_loss_and_gradients(layers, activation, dtype):
    config = small_config(model={"layers": layers, "layer_norm": False, "activation": activation})
    assert_same(config, SEEDS, dtype)


@pytest.mark.parametrize(
    ("op_token", "dtype"),
    [("shared", torch.float64), ("shared", torch.float32), ("distinct", torch.float64)],
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_gives_the_models_own_loss_and_gradients(operation, op_token, dtype):
    task = {"operation": operation, "prime": 7, "op_token": op_token}
    assert_same(small_config(task=task, model={"layers": 2}), SEEDS, dtype)


def test_division_has_its_own_rows():
    config = small_config(task={"operation": "div", "prime": 7})
    stack = stacked(config, {0: lively_model(config, 0)})
    rows = stack.train.answers.shape[1] + stack.test.answers.shape[1]
    assert rows == 7 * 6
    for part in (stack.train.equations, stack.test.equations):
        assert (part.second != 0).all()  # nothing is divided by 0


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_shape_gives_the_models_own_loss_and_gradients(data):
    heads = data.draw(st.integers(1, 3), label="heads")
    prime = data.draw(st.sampled_from([2, 3, 5, 7]), label="prime")
    operation = data.draw(st.sampled_from(list(OPERATIONS)), label="operation")
    rows = prime * (prime - (operation == "div"))
    config = small_config(
        task={
            "operation": operation,
            "prime": prime,
            "op_token": data.draw(st.sampled_from(["shared", "distinct"])),
            "train_rows": data.draw(st.integers(1, rows - 1), label="train_rows"),
            "corruption_rate": data.draw(st.sampled_from([0.0, 0.5])),
            "data_seed": data.draw(st.sampled_from([None, 3])),
        },
        model={
            "heads": heads,
            "layers": data.draw(st.integers(1, 3), label="layers"),
            "width": heads * data.draw(st.integers(2, 4), label="head_dim"),
            "mlp_width": data.draw(st.integers(1, 9), label="mlp_width"),
            "tied": data.draw(st.booleans(), label="tied"),
            "layer_norm": data.draw(st.booleans(), label="layer_norm"),
            "activation": data.draw(st.sampled_from(["relu", "gelu_new"])),
        },
    )
    seeds = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=3, unique=True))
    models = {seed: lively_model(config, seed) for seed in seeds}
    stack = stacked(config, models)
    losses, logits = stack.gradients(keep_logits=True)
    for index, (seed, model) in enumerate(models.items()):
        loss, own_logits = own_loss(model, config, seed)
        loss.backward()
        assert difference(losses[index], loss) <= 1e-12
        assert difference(logits[index], own_logits) <= 1e-11
        # A tiny model may have a parameter whose gradient is nothing but rounding.
        largest = max(float(parameter.grad.abs().max()) for parameter in model.parameters())
        for name, parameter in model.named_parameters():
            found = stack.weights[name].grad[index]
            assert float((found - parameter.grad).abs().max()) <= 1e-11 * largest, name


@pytest.mark.parametrize("layer_norm", [True, False])
def test_held_out_logits_and_last_hidden_states_are_the_models_own(layer_norm):
    config = small_config(model={"layers": 2, "layer_norm": layer_norm})
    models = {seed: lively_model(config, seed) for seed in SEEDS}
    stack = stacked(config, models)
    logits, hidden = stack.test.logits(stack.weights)
    for index, (seed, model) in enumerate(models.items()):
        out = model(input_ids=equations(config, seed, "test")[0], output_hidden_states=True)
        assert difference(logits[index], out.logits[:, EQUALS]) <= 1e-12
        assert difference(hidden[index], out.hidden_states[-1][:, EQUALS]) <= 1e-12


def test_a_seed_has_the_same_loss_and_gradients_in_any_company():
    config = small_config(model={"layers": 2})
    models = {seed: lively_model(config, seed) for seed in (3, 8, 5)}
    together = stacked(config, models)
    losses = together.gradients()[0]
    for index, (seed, model) in enumerate(models.items()):
        alone = stacked(config, {seed: model})
        assert difference(losses[index : index + 1], alone.gradients()[0]) <= 1e-13
        for name, weight in alone.weights.items():
            assert difference(together.weights[name].grad[index], weight.grad[0]) <= 1e-12, name


def test_logits_on_request_do_not_change_the_loss():
    config = small_config()
    stack = stacked(config, {0: lively_model(config, 0)})
    bare, none = stack.train.losses(stack.weights)
    losses, logits = stack.train.losses(stack.weights, keep_logits=True)
    assert torch.equal(bare, losses)
    assert none.numel() == 0
    assert logits.shape == (1, 15, 9)  # S, n = 0.6 * 25, V = p + 4


# Attention with scores that lie far apart: the tables hold exponentials, which must not overflow.


@torch.no_grad()
def scores_at_equals(model, input_ids):
    """Scores of the first layer's and head's query at EQ, [n, 5]: BOS, a, OP, b, EQ."""
    layer = model.model.layers[0]
    embedded = model.model.embed_tokens(input_ids) + model.model.embed_positions(torch.arange(8))
    query, key, _ = layer.attention.qkv(layer.norm_1(embedded)).chunk(3, dim=-1)
    head_dim = model.config.head_dim
    scores = query[..., :head_dim] @ key[..., :head_dim].transpose(1, 2) / head_dim**0.5
    return scores[:, EQUALS, :5]


def gap_at_equals(model, input_ids):
    """How far the highest operand stands above BOS, OP and EQ, and how far the lowest below."""
    scores = scores_at_equals(model, input_ids)
    operands, others = scores[:, [1, 3]], scores[:, [0, 2, 4]]
    return float(operands.max() - others.max()), float(others.max() - operands.min())


@torch.no_grad()
def separate(model, input_ids, residue, gap):
    """Make the first head look at `residue`: an operand stands `gap` above BOS, OP and EQ."""
    layer = model.model.layers[0]
    width, head_dim = model.config.hidden_size, model.config.head_dim
    embedded = model.model.embed_tokens(input_ids) + model.model.embed_positions(torch.arange(8))
    normed = layer.norm_1(embedded)
    direction = normed[input_ids[:, 1] == residue][0, 1] - normed[0, [0, 2, 4]].mean(0)
    qkv, query = layer.attention.qkv, torch.linspace(1.0, 2.0, head_dim).to(normed)
    qkv.weight[:head_dim], qkv.bias[:head_dim] = 0.0, query
    qkv.weight[width : width + head_dim] = torch.outer(query, direction if gap > 0 else -direction)
    qkv.bias[width : width + head_dim] = 0.0
    above, below = gap_at_equals(model, input_ids)
    qkv.weight[width : width + head_dim] *= abs(gap) / (above if gap > 0 else below)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("gap", [30, 45, 60, 100, 140, -100, -300])
@pytest.mark.parametrize("layers", [1, 2])
def test_scores_that_lie_far_apart_stay_finite_and_right(layers, gap, dtype):
    config = small_config(model={"layers": layers})
    model = lively_model(config, 0)
    input_ids, _ = equations(config, 0)
    separate(model, input_ids, residue=2, gap=gap)
    above, below = gap_at_equals(model, input_ids)
    assert (above if gap > 0 else below) == pytest.approx(abs(gap))
    print(above, below)
    model = model.to(dtype)
    loss, logits = own_loss(model, config, 0)
    loss.backward()
    stack = stacked(config, {0: model}, dtype)
    losses, found_logits = stack.gradients(keep_logits=True)
    # A large score carries a large absolute rounding error, which the exponential turns into a
    # relative one: |score| units in the last place.
    tolerance = max(abs(gap), 100) * TOLERANCE[dtype]
    assert difference(losses[0], loss) <= tolerance
    assert difference(found_logits[0], logits) <= tolerance
    for name, parameter in model.named_parameters():
        assert stack.weights[name].grad.isfinite().all(), name
        assert difference(stack.weights[name].grad[0], parameter.grad) <= tolerance, name


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_sharp_attention_in_every_layer_stays_finite_and_right(layers):
    """Queries and keys ten times larger than usual in every layer: scores spread by hundreds."""
    config = small_config(model={"layers": layers})
    model = lively_model(config, 0)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.attention.qkv.weight[: 2 * config.model.width] *= 10
            layer.attention.qkv.bias[: 2 * config.model.width] *= 10
    scores = scores_at_equals(model, equations(config, 0)[0])
    assert float(scores.max() - scores.min()) > 100
    loss, _ = own_loss(model, config, 0)
    loss.backward()
    stack = stacked(config, {0: model})
    assert difference(stack.gradients()[0][0], loss) <= 1e-11
    for name, parameter in model.named_parameters():
        assert difference(stack.weights[name].grad[0], parameter.grad) <= 1e-10, name
    single = stacked(config, {0: model}, torch.float32)
    assert float((single.gradients()[0][0].double() - loss).abs().detach()) <= 1e-3
    assert all(weight.grad.isfinite().all() for weight in single.weights.values())
