"""Tasks that are no equations go through the same engine: exact, reproducible, chosen by name."""

import json

import numpy as np
import pytest
import torch
from training_builders import difference, equations, lively_model, small_config, stacked

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.formal import FormalTask
from gmb_hf.tasks.registry import TASKS
from gmb_hf.training.config import RunConfig, TaskSettings
from gmb_hf.training.equations import EquationForward
from gmb_hf.training.observables import Observer
from gmb_hf.training.presets import preset
from gmb_hf.training.rows import RowForward
from gmb_hf.training.seeds import recorders_of
from gmb_hf.training.stacked import SeedStack, model_config, wanted

SEEDS = (3, 5)


def formal_config(name, **sections):
    return small_config(task={"name": name, "train_fraction": 0.6}, **sections)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("parity_4", {"layers": 2}),
        ("reverse_3", {"tied": True}),
        ("copy_3", {"layers": 2, "cycles": 2, "inner_steps": 2, "halting": True}),
        ("majority_5", {"sort_window": 3, "blend_window": 2, "activation": "gelu_new"}),
    ],
)
def test_losses_logits_and_gradients_are_the_models_own(name, model):
    config = formal_config(name, model=model)
    models = {seed: lively_model(config, seed) for seed in SEEDS}
    stack = stacked(config, models)
    assert isinstance(stack.train, RowForward)
    losses, logits = stack.gradients(keep_logits=True)
    held_out, hidden = stack.test.logits(stack.weights)
    positions = list(config.task.build().answer_positions)
    for place, (seed, own) in enumerate(models.items()):
        rows, labels = equations(config, seed)
        out = own(input_ids=rows, labels=labels)
        out.loss.backward()
        assert difference(losses[place], out.loss) <= 1e-10
        assert difference(logits[place], out.logits[:, positions].flatten(0, 1)) <= 1e-10
        for parameter_name, parameter in own.named_parameters():
            found = stack.weights[parameter_name].grad[place]
            assert float((found - parameter.grad).abs().max()) <= 1e-10, parameter_name
        rows, labels = equations(config, seed, "test")
        assert torch.equal(stack.test.answers[place], labels[labels >= 0])
        with torch.no_grad():
            states = own.model(input_ids=rows).last_hidden_state[:, positions].flatten(0, 1)
            assert difference(hidden[place], states) <= 1e-10
            own_logits = own(input_ids=rows).logits[:, positions].flatten(0, 1)
            assert difference(held_out[place], own_logits) <= 1e-10


def test_a_group_is_trained_as_equations_are():
    config = small_config(
        task={"name": "dihedral_4", "keep_pairs_together": True, "train_fraction": 0.6},
        training={"observables": "published"},
    )
    assert config.task.title == "dihedral_4, 60% train, pairs together"
    assert config.task.identity()["keep_pairs_together"]
    models = {seed: lively_model(config, seed) for seed in SEEDS}
    stack = stacked(config, models)
    assert isinstance(stack.train, EquationForward)
    losses, logits = stack.gradients(keep_logits=True)
    for place, (seed, own) in enumerate(models.items()):
        rows, labels = equations(config, seed)
        out = own(input_ids=rows, labels=labels)
        out.loss.backward()
        assert difference(losses[place], out.loss) <= 1e-10
        for parameter_name, parameter in own.named_parameters():
            found = stack.weights[parameter_name].grad[place]
            assert float((found - parameter.grad).abs().max()) <= 1e-10, parameter_name
    found = Observer(stack, recorders_of(stack)).measure(losses, logits)
    assert not {"restricted_loss", "excluded_loss"} & set(found)  # of sums modulo a number
    assert {"test_acc", "weight_norm", "gradient_noise_scale", "agop_trace"} <= set(found)
    apart = config.changed(["task.keep_pairs_together=false"])
    assert "keep_pairs_together" not in apart.task.identity()
    assert apart.training_hash() != config.training_hash()


def test_a_seed_gives_the_same_bits_alone_and_in_company():
    config = formal_config("reverse_4")
    together, alone = SeedStack(config, SEEDS), SeedStack(config, SEEDS[1:])
    for _ in range(5):
        losses = [stack.gradients()[0][-1] for stack in (together, alone)]
        assert torch.equal(*losses)
        together.update()
        alone.update()
    for name, weight in alone.weights.items():
        assert torch.equal(weight[0], together.weights[name][1]), name


def test_a_row_is_right_when_all_its_answers_are():
    config = formal_config("copy_3")
    stack = SeedStack(config, [0], dtype=torch.float64)
    losses, logits = stack.gradients(keep_logits=True)
    answers = stack.train.answers
    knowing = torch.nn.functional.one_hot(answers, logits.shape[-1]).double()
    knowing[0, 0] *= -1.0  # one token of the first row is wrong
    rows = answers.shape[1] // 3
    found = Observer(stack).measure(losses, knowing)
    assert found["train_acc"][0] == pytest.approx((rows - 1) / rows)
    assert not {"embedding_gini", "unembedding_gini", "restricted_loss"} & set(found)
    assert np.isfinite(list(found.values())).all()


def test_the_name_of_a_modular_task_is_the_operation_and_its_prime():
    named = preset("smoke").changed(["task.name=mul_p7"])
    said = preset("smoke").changed(["task.operation=mul", "task.prime=7"])
    assert named == said
    assert named.task.title == "mul_p7, 80% train, shared tokens"
    assert preset("smoke").changed(["task.name=modular_sub"]).task.prime == 19
    assert isinstance(SeedStack(small_config(), [0]).train, EquationForward)


def test_another_task_has_no_modulus_in_its_identity():
    config = preset("smoke").changed(["task.name=reverse_8"])
    identity = config.training_identity()
    assert identity["task"] == {
        "name": "reverse_8",
        "train_fraction": 0.8,
        "train_rows": None,
        "data_seed": None,
    }
    assert "name" not in preset("smoke").training_identity()["task"]
    assert config.task.title == "reverse_8, 80% train"
    assert RunConfig.from_dict(json.loads(json.dumps(identity))).task.build() == FormalTask(
        "reverse", 8
    )
    shape = model_config(config)
    assert (shape.vocab_size, shape.max_position_embeddings, shape.bos_token_id) == (101, 24, 99)
    assert not wanted(config.changed(["training.compile=always"]), 36)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["task.name=revers_8"], "task: name: task 'revers_8' is unknown.*mean 'reverse_8'"),
        (["task.name=reverse_8", "task.prime=31"], "--set task.prime: task.name already says"),
        (["task.name=add_p7", "task.operation=mul"], "--set task.operation: task.name already"),
        (
            ["task.name=parity_8", "task.corruption_rate=0.1"],
            "task: corruption_rate is for modular arithmetic, which parity_8 is not; set it to 0.0",
        ),
        (
            ["task.name=parity_8", "task.keep_pairs_together=true"],
            "task: keep_pairs_together is for modular arithmetic and groups, which parity_8 is not",
        ),
        (["task.name=dihedral_2"], "task: name: degree must be at least 3 of a dihedral group"),
        (["task.name=copy_9"], "task: name: copy_9 takes 21 tokens a row"),
    ],
)
def test_bad_names_are_one_clear_line(changes, message):
    with pytest.raises(InputError, match=message):
        preset("smoke").changed(changes)


def test_a_registered_task_is_trained(monkeypatch):
    monkeypatch.setitem(TASKS, "bits", lambda: FormalTask("reverse", 2, sequence_length=8))
    config = small_config(task={"name": "bits"})
    stack = SeedStack(config, [0, 1])
    first = stack.gradients()[0].detach()
    for _ in range(10):
        stack.update()
        last = stack.gradients()[0].detach()
    assert (last < first).all()
    with pytest.raises(InputError, match=r"task: name: task 'bit' is unknown.*mean 'bits'"):
        TaskSettings.of(name="bit")
