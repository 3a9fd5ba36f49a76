"""The forward over a tree of prefixes, against the model's own over every token of every row."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from training_builders import difference

from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.tasks.registry import get_task
from gmb_hf.tasks.task import loss_positions
from gmb_hf.training.config import TrainingSettings
from gmb_hf.training.rows import RowForward, row_tree
from gmb_hf.training.stacked import StackedModel

TASKS = (
    *("add_p5", "sub_p5", "mul_p5", "sq_sum_p5"),
    *("parity_4", "copy_4", "reverse_4", "majority_5"),
)
VARIANTS = {
    "dense": {},
    "banded": {"band_fc1": 8, "band_fc2": 8},
    "sort": {"sort_window": 4},
    "blend": {"blend_window": 3},
    "hebbian": {"hebbian_window": 2},
    "sort and blend": {"sort_window": 2, "blend_window": 8},
}


def lively_models(count, vocab_size, **fields):
    """Models in evaluation mode whose every parameter matters, within the bands where there are."""
    shape = {"hidden_size": 8, "num_attention_heads": 2, "max_position_embeddings": 24, **fields}
    config = GrokkingTransformerConfig(vocab_size=vocab_size, **shape)
    models = []
    for seed in range(count):
        torch.manual_seed(seed)
        model = GrokkingTransformerForCausalLM(config).double().eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                banded = "mlp" in name and name.endswith("weight") and "band_fc1" in fields
                noise = 0.4 * torch.randn_like(parameter)
                parameter.add_(noise * (parameter != 0) if banded else noise)
        models.append(model)
    return models


def own_results(model, rows, positions):
    """Loss and accuracy by the model's own forward; the gradients are left in its parameters."""
    places = [position + 1 for position in positions]
    tokens = torch.from_numpy(rows)
    labels = torch.full_like(tokens, -100)
    labels[:, places] = tokens[:, places]
    out = model(input_ids=tokens, labels=labels)
    model.zero_grad()
    out.loss.backward()
    right = out.logits[:, list(positions)].argmax(-1) == tokens[:, places]
    return out.loss.detach(), right.double().mean()


def assert_same(models, rows, positions, tolerance=1e-10):
    """Losses, accuracies and all gradients agree; rows [n, T], or [S, n, T] for each its own."""
    config = models[0].config
    stacked = StackedModel(models, TrainingSettings(), dtype=torch.float64)
    tree = row_tree(rows, positions, vocab_size=config.vocab_size, dtype=torch.float64)
    forward = RowForward(config, tree, len(models))
    losses, _ = forward.losses(stacked.weights)
    stacked.backward(losses)
    judged, accuracy = forward.results(stacked.weights)
    for index, model in enumerate(models):
        own = rows if rows.ndim == 2 else rows[index]
        loss, right = own_results(model, own, positions)
        assert difference(losses[index].detach(), loss) <= tolerance
        assert difference(judged[index], loss) <= tolerance
        assert float(accuracy[index]) == pytest.approx(float(right), abs=1e-12)
        largest = max(float(parameter.grad.abs().max()) for parameter in model.parameters())
        for name, parameter in model.named_parameters():
            found = stacked.weights[name].grad[index]
            assert float((found - parameter.grad).abs().max()) <= tolerance * largest, name


# Every task by the plainest and by the fullest variant, every variant by one task of each kind.
PAIRS = [
    *((name, variant) for name in TASKS for variant in ("dense", "sort and blend")),
    *((name, variant) for name in ("sub_p5", "copy_4", "majority_5") for variant in VARIANTS),
]


@pytest.mark.parametrize("mode", ["answer", "all"])
@pytest.mark.parametrize(("name", "variant"), dict.fromkeys(PAIRS))
def test_every_task_and_variant_gives_the_models_own_loss_and_gradients(name, variant, mode):
    task = get_task(name)
    data = task.data()
    models = lively_models(2, task.vocab_size, **VARIANTS[variant])
    assert_same(models, data.input_ids[data.train_index], loss_positions(mode, data))


@pytest.mark.parametrize("mode", ["answer", "all"])
@pytest.mark.parametrize("name", ["sub_p5", "copy_4"])
def test_models_may_read_different_rows(name, mode):
    task = get_task(name)
    splits = [task.data(data_seed=seed) for seed in (1, 2, 3)]
    rows = np.stack([data.input_ids[data.train_index] for data in splits])
    models = lively_models(3, task.vocab_size, sort_window=3, blend_window=2)
    assert_same(models, rows, loss_positions(mode, splits[0]))


@pytest.mark.parametrize(
    "fields",
    [
        {"num_hidden_layers": 1},
        {"num_hidden_layers": 3, "hidden_act": "relu"},
        {"tie_word_embeddings": False},
        {"layer_norm": False},
        {"num_attention_heads": 1},
    ],
    ids=str,
)
def test_every_shape_of_model(fields):
    data = get_task("reverse_4").data()
    models = lively_models(2, 101, **fields)
    assert_same(models, data.input_ids[data.train_index], data.answer_positions)


@settings(max_examples=15, deadline=None)
@given(drawn=st.data())
def test_any_rows_and_positions(drawn):
    vocabulary = drawn.draw(st.integers(2, 6), label="vocabulary")
    length = drawn.draw(st.integers(2, 7), label="length")
    shape = drawn.draw(st.sampled_from([(1,), (4,), (9,), (2, 5)]), label="rows")
    generator = np.random.default_rng(drawn.draw(st.integers(0, 2**32 - 1), label="seed"))
    rows = generator.integers(0, vocabulary, (*shape, length))  # rows may occur twice
    positions = drawn.draw(st.sets(st.integers(0, length - 2), min_size=1), label="positions")
    fields = drawn.draw(st.sampled_from(list(VARIANTS.values())), label="variant")
    assert_same(lively_models(2, vocabulary, **fields), rows, tuple(sorted(positions)))


def test_single_precision_is_near():
    data = get_task("copy_4").data()
    models = [model.float() for model in lively_models(2, 101)]
    rows = data.input_ids[data.train_index]
    stacked = StackedModel(models, TrainingSettings())
    tree = row_tree(rows, data.answer_positions, vocab_size=101)
    losses, _ = RowForward(models[0].config, tree, 2).losses(stacked.weights)
    for index, model in enumerate(models):
        assert (
            difference(losses[index].detach(), own_results(model, rows, data.answer_positions)[0])
            <= 1e-5
        )


def test_a_tie_is_not_right():
    model = lively_models(1, 101)[0]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # all logits are 0
    stacked = StackedModel([model], TrainingSettings(), dtype=torch.float64)
    data = get_task("parity_4").data()
    tree = row_tree(data.input_ids, (5,), vocab_size=101, dtype=torch.float64)
    loss, accuracy = RowForward(model.config, tree, 1).results(stacked.weights)
    assert float(loss) == pytest.approx(np.log(101))
    assert float(accuracy) == 0
