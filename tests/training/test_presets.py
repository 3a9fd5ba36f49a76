"""The presets: each is a sound config, and what they promise of one another holds."""

import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.training.config import parse_seeds
from gmb_hf.training.presets import PRESETS, preset
from gmb_hf.training.stacked import SeedStack, initial_model


def test_the_names():
    names = ["smoke", "quick", "standard", "hierarchical", "formal", "icl", "paper", "reference"]
    assert list(PRESETS) == names


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_builds_its_task_and_its_model(name):
    config = preset(name)
    assert config.preset == name
    assert config == preset(name)
    model = initial_model(config, 0)
    assert model.config.vocab_size == config.task.build().vocab_size
    assert model.config.num_hidden_layers == config.model.layers


@pytest.mark.parametrize("name", ["smoke", "quick", "hierarchical", "formal"])
def test_a_small_preset_trains(name):
    config = preset(name).changed(["training.steps=10", "training.checkpoint_every=10"])
    stack = SeedStack(config, [0, 1])
    first = stack.gradients()[0]
    for _ in range(10):
        stack.gradients()
        stack.update()
    assert (stack.gradients()[0] < first).all()


@pytest.mark.parametrize("name", PRESETS)
def test_explore_and_held_out_seeds_are_apart(name):
    seeds = preset(name).seeds
    assert not set(parse_seeds(seeds.explore)) & set(parse_seeds(seeds.evaluate))


@pytest.mark.parametrize("name", PRESETS)
def test_windows_fit_the_cadence(name):
    """An event, a horizon or a window between two checkpoints would be undefined."""
    config = preset(name)
    cadence, design = config.training.checkpoint_every, config.benchmark.design()
    for steps in (design.w_event, design.horizon, design.safe_gap, *design.window_sweep):
        assert steps % cadence == 0
    assert design.burn_in < config.training.steps
    assert design.lead_target <= design.horizon


def test_quick_and_standard_train_the_same():
    quick, standard = preset("quick"), preset("standard")
    assert quick.training_identity() == standard.training_identity()
    assert quick.training_hash() == standard.training_hash()


def test_seeds_are_enough_for_what_the_presets_promise():
    def count(part, name):
        return len(parse_seeds(getattr(preset(name).seeds, part)))

    counts = {name: (count("explore", name), count("evaluate", name)) for name in PRESETS}
    assert counts["quick"][0] >= 32
    assert counts["quick"][1] >= 40
    assert counts["standard"] == (384, 256)
    for name, (explore, _) in counts.items():
        f = preset(name).benchmark.design().primary_fpr
        assert explore >= 1 / f - 1, name  # the conformal rule's least number of runs


def test_no_seed_that_quick_judges_is_judged_by_standard():
    quick, standard = (set(parse_seeds(preset(n).seeds.evaluate)) for n in ("quick", "standard"))
    assert not quick & standard
    assert not quick & set(parse_seeds(preset("standard").seeds.explore))


def test_paper_is_the_protocols_hyperparameters():
    config = preset("paper")
    task, model, training = config.task, config.model, config.training
    assert (task.operation, task.prime, task.train_fraction) == ("add", 97, 0.5)
    assert (model.layers, model.heads, model.width, model.mlp_width) == (2, 4, 128, 512)
    assert (model.activation, model.tied) == ("gelu_new", True)
    assert (training.lr, training.weight_decay) == (1e-3, 1.0)
    assert (training.beta1, training.beta2) == (0.9, 0.98)
    assert (training.steps, task.data_seed, task.op_token) == (50_000, 42, "shared")
    parameters = sum(p.numel() for p in initial_model(config, 0).parameters())
    assert 405_000 < parameters < 415_000  # "about 411k"


def test_reference_has_wrong_labels_and_little_decay():
    config = preset("reference")
    assert (config.task.train_rows, config.task.corruption_rate) == (4000, 0.1)
    assert config.training.weight_decay == 0.01


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(InputError, match=r"preset 'quickk' is unknown; .* Did you mean 'quick'\?"):
        preset("quickk")
