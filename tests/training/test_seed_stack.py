"""Stacked seeds: each is the run that it would be alone, and comes back as an ordinary model."""

import pytest
import torch
import transformers
from training_builders import (
    difference,
    equations,
    lively_model,
    own_loss,
    small_config,
    stacked,
    train_together,
)
from transformers import AutoModelForCausalLM

from gmb_hf.base.errors import InputError
from gmb_hf.modeling import GrokkingTransformerForCausalLM
from gmb_hf.training.stacked import SeedStack, initial_model, model_config, task_data

COMPANY = (5, 0, 9, 17, 3, 8, 11)
DEEP = {"layers": 2, "activation": "gelu_new", "tied": True}
EOS = 5 + 3  # of p = 5: no equation reads it, and with an untied head no loss does


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_initial_weights_are_those_of_transformers_after_set_seed(tied):
    config = small_config(model={"layers": 2, "tied": tied})
    stack = SeedStack(config, COMPANY)
    for index, seed in enumerate(COMPANY):
        transformers.set_seed(seed)
        model = GrokkingTransformerForCausalLM(model_config(config))
        named = dict(model.named_parameters())
        assert named.keys() == stack.weights.keys()
        for name, parameter in named.items():
            assert torch.equal(stack.weights[name][index], parameter), name


def test_making_an_ensemble_leaves_the_global_random_state_alone():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    SeedStack(small_config(), [3, 4])
    assert torch.equal(torch.get_rng_state(), before)


def test_different_seeds_start_and_split_differently():
    stack = SeedStack(small_config(), [0, 1])
    embedding = stack.weights["model.embed_tokens.weight"]
    assert not torch.equal(embedding[0], embedding[1])
    assert not torch.equal(stack.train.equations.pair[0], stack.train.equations.pair[1])
    assert stack.fingerprints[0] != stack.fingerprints[1]


# A sum in another order differs in its last bit, and Adam, which divides by the gradient's own
# size, turns the last bits of small gradients into whole steps: the difference grows as it trains.
@pytest.mark.parametrize(
    ("model", "dtype", "tolerance"),
    [({}, torch.float64, 1e-8), (DEEP, torch.float64, 1e-6), ({}, torch.float32, 2e-2)],
    ids=["float64", "deep-float64", "float32"],
)
def test_a_seed_is_the_same_run_alone_in_company_and_in_another_order(model, dtype, tolerance):
    config = small_config(task={"prime": 7}, model=model)
    together = train_together(SeedStack(config, COMPANY, dtype=dtype), 30)
    backwards = train_together(SeedStack(config, COMPANY[::-1], dtype=dtype), 30).flip(1)
    torch.testing.assert_close(backwards, together, rtol=tolerance, atol=0)
    for seed in (COMPANY[0], COMPANY[3]):
        alone = train_together(SeedStack(config, [seed], dtype=dtype), 30)
        column = COMPANY.index(seed)
        torch.testing.assert_close(alone[:, 0], together[:, column], rtol=tolerance, atol=0)
    assert (together[-1] < 0.9 * together[0]).all()  # it did train


def test_a_step_is_that_of_an_ordinary_adamw():
    config = small_config(model=DEEP, training={"eps": 1e-6, "beta1": 0.8, "weight_decay": 0.7})
    model = lively_model(config, 3)
    stack = stacked(config, {3: model})
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-2, betas=(0.8, 0.98), eps=1e-6, weight_decay=0.7
    )
    for _ in range(5):
        stack.gradients()
        stack.update()
        optimizer.zero_grad()
        own_loss(model, config, 3)[0].backward()
        optimizer.step()
    assert stack.step == 5
    for name, parameter in model.named_parameters():
        assert difference(stack.weights[name][0], parameter) <= 1e-6, name


def test_member_is_a_checkpoint_that_transformers_loads(tmp_path):
    config = small_config(task={"prime": 7}, model={"layers": 2, "tied": True})
    stack = SeedStack(config, (4, 9))
    train_together(stack, 10)
    losses, logits = stack.gradients(keep_logits=True)
    for index, seed in enumerate(stack.seeds):
        stack.member(index).save_pretrained(tmp_path / str(seed))
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / str(seed))
        assert type(loaded) is GrokkingTransformerForCausalLM
        loss, own_logits = own_loss(loaded, config, seed)
        assert float(loss.detach()) == pytest.approx(float(losses[index]), rel=1e-5)
        torch.testing.assert_close(own_logits, logits[index], rtol=1e-4, atol=1e-5)


def test_member_does_not_share_memory_with_the_ensemble():
    stack = SeedStack(small_config(), [0])
    model = stack.member(0)
    before = model.model.norm.weight.detach().clone()
    train_together(stack, 1)
    assert torch.equal(model.model.norm.weight, before)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_load_member_takes_a_model_in_and_member_gives_it_back(tied):
    config = small_config(model={"tied": tied})
    stack = SeedStack(config, [0, 1, 2])
    neighbours = {name: weight[[0, 2]].clone() for name, weight in stack.weights.items()}
    model = lively_model(config, 1, torch.float32)
    stack.load_member(1, model)
    for name, value in stack.member(1).state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name
    for name, weight in stack.weights.items():
        assert torch.equal(weight[[0, 2]], neighbours[name]), name


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_last_updates_is_the_true_difference(dtype, tolerance):
    config = small_config(model={"layers": 2}, training={"eps": 1e-5, "weight_decay": 0.3})
    stack = SeedStack(config, [0, 1], dtype=dtype)
    assert all(not update.any() for update in stack.last_updates().values())
    for _ in range(4):
        before = {name: weight.detach().clone() for name, weight in stack.weights.items()}
        train_together(stack, 1)
        found = stack.last_updates()
        for name, weight in stack.weights.items():
            true = weight.detach() - before[name]
            # A step is about lr = 0.01; the weights that it is a difference of are up to 1.
            assert float((found[name] - true).abs().max()) <= tolerance * 0.01, name


def test_parameters_that_no_loss_reaches_still_decay():
    config = small_config(training={"weight_decay": 0.5, "lr": 1e-2})
    stack = SeedStack(config, [0, 1], dtype=torch.float64)
    tokens, positions = "model.embed_tokens.weight", "model.embed_positions.weight"
    start = {name: stack.weights[name].detach().clone() for name in (tokens, positions)}
    stack.gradients()
    assert not stack.weights[tokens].grad[:, EOS].any()
    assert not stack.weights[positions].grad[:, 5:].any()
    assert stack.weights[tokens].grad[:, :5].any(dim=2).all()
    train_together(stack, 7)
    kept = (1 - 1e-2 * 0.5) ** 7
    for name, place in ((tokens, slice(EOS, EOS + 1)), (positions, slice(5, 8))):
        expected = start[name][:, place] * kept
        torch.testing.assert_close(stack.weights[name][:, place].detach(), expected)


def test_a_parameter_that_the_forward_never_reads_has_a_gradient_of_zeros():
    stack = SeedStack(small_config(), [0])
    extra = torch.ones(1, 3, requires_grad=True)
    stack.weights["unused.weight"] = extra
    stack.optimizer.add_param_group({"params": [extra]})
    train_together(stack, 3)
    assert torch.equal(extra.grad, torch.zeros(1, 3))
    torch.testing.assert_close(extra.detach(), torch.full((1, 3), (1 - 1e-2 * 0.5) ** 3))


def test_the_split_is_drawn_from_the_runs_seed_or_from_a_fixed_one():
    tied, fixed = small_config(), small_config(task={"data_seed": 42})
    assert not (task_data(tied.task, 1).train_index == task_data(tied.task, 2).train_index).all()
    assert (task_data(fixed.task, 1).train_index == task_data(fixed.task, 2).train_index).all()
    assert (task_data(fixed.task, 1).train_index == task_data(tied.task, 42).train_index).all()
    stack = SeedStack(fixed, [1, 2])
    assert torch.equal(stack.train.equations.pair[0], stack.train.equations.pair[1])
    embedding = stack.weights["model.embed_tokens.weight"]
    assert not torch.equal(embedding[0], embedding[1])  # the model still has its own seed


def test_the_equations_are_the_rows_of_the_task():
    config = small_config(task={"operation": "mul", "prime": 7, "train_rows": 10})
    stack = SeedStack(config, [6, 2])
    for part, split, rows in ((stack.train, "train", 10), (stack.test, "test", 39)):
        assert part.answers.shape == (2, rows)
        for index, seed in enumerate((6, 2)):
            tokens, _ = equations(config, seed, split)
            assert torch.equal(part.equations.first[index], tokens[:, 1])
            assert torch.equal(part.equations.second[index], tokens[:, 3])
            assert torch.equal(part.equations.pair[index], tokens[:, 3] * 7 + tokens[:, 1])
            assert torch.equal(part.answers[index], tokens[:, 5])
            assert torch.equal(part.answers[index], tokens[:, 1] * tokens[:, 3] % 7)


def test_corrupted_labels_are_trained_on_and_the_truth_kept_beside():
    config = small_config(task={"prime": 7, "train_rows": 20, "corruption_rate": 0.25})
    stack = SeedStack(config, [0, 1])
    first, second = (
        stack.train.equations.first,
        stack.train.equations.second,
    )
    assert torch.equal(stack.truth, (first - second) % 7)
    assert torch.equal(stack.train.answers != stack.truth, stack.corrupted)
    assert stack.corrupted.sum(1).tolist() == [5, 5]
    held_out = (stack.test.equations.first - stack.test.equations.second) % 7
    assert torch.equal(stack.test.answers, held_out)


def test_without_corruption_nothing_is_marked():
    stack = SeedStack(small_config(), [0])
    assert not stack.corrupted.any()
    assert torch.equal(stack.truth, stack.train.answers)


@pytest.mark.parametrize("steps", [0, 1, 9])
def test_state_is_all_that_it_takes_to_go_on(steps):
    config = small_config(model={"layers": 2})
    stack = SeedStack(config, [0, 1])
    train_together(stack, steps)
    held = {name: value.clone() for name, value in stack.state().items()}
    expected = train_together(stack, 8)
    again = SeedStack(config, [0, 1])
    again.load_state(held)
    assert again.step == steps
    assert torch.equal(train_together(again, 8), expected)
    for name, weight in stack.weights.items():
        assert torch.equal(again.weights[name], weight), name


def test_loading_a_state_leaves_the_state_itself_alone():
    stack = SeedStack(small_config(), [0])
    train_together(stack, 2)
    held = {name: value.clone() for name, value in stack.state().items()}
    kept = {name: value.clone() for name, value in held.items()}
    again = SeedStack(small_config(), [0])
    again.load_state(held)
    train_together(again, 2)
    assert all(torch.equal(held[name], kept[name]) for name in held)


def test_losses_at_other_weights():
    config = small_config()
    models = {seed: lively_model(config, seed) for seed in (0, 1)}
    stack = stacked(config, models)
    doubled = {name: 2 * weight for name, weight in stack.weights.items()}
    losses = stack.losses_at(doubled)
    assert not losses.requires_grad
    for index, (seed, model) in enumerate(models.items()):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2)
        assert difference(losses[index], own_loss(model, config, seed)[0]) <= 1e-12


def test_initial_model_is_bit_equal_however_often_it_is_made():
    config = small_config()
    first, second = (initial_model(config, 5).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_no_seeds():
    with pytest.raises(InputError, match="no seeds to train; give at least one"):
        SeedStack(small_config(), [])


def test_a_seed_that_no_split_can_be_drawn_from():
    with pytest.raises(InputError, match=r"data_seed must be a whole number in \[0, 2\*\*32\)"):
        SeedStack(small_config(), [2**32])
