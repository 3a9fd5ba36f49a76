"""Designs: presets, phases, changes by assignment, and what is refused."""

import json

import pytest
from sequential_builders import tiny

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.sequential.config import SequentialConfig, preset, smaller_than_protocol
from gmb_hf.training.presets import preset as run_preset


def test_replication_is_the_protocols():
    config = preset("replication", "modular")
    assert config.suite.op_token == "shared"
    assert config.suite.vocab_size == 101
    assert config.steps == (50_000,) * 4
    assert config.model.name == "transformer-2x4x128"
    assert (config.model.activation, config.model.tied) == ("gelu_new", True)
    training = config.training
    assert (training.lr, training.weight_decay) == (1e-3, 1.0)
    assert (training.beta1, training.beta2) == (0.9, 0.98)
    assert (config.model, training) == (run_preset("paper").model, run_preset("paper").training)
    assert smaller_than_protocol(config) == ""


@pytest.mark.parametrize("suite", ["modular", "formal"])
def test_quick_keeps_the_split_and_says_that_it_is_smaller(suite):
    config = preset("quick", suite)
    assert config.suite.train_fraction == 0.5
    assert config.suite.data_seed == 42
    assert "protocol" in smaller_than_protocol(config)


def test_a_design_is_plain_data_and_reads_back():
    config = tiny("modular", "phases.steps=5,10,15,20", "phases.stop_loss=0.5")
    design = json.loads(json.dumps(config.design()))
    read = SequentialConfig.from_dict(design, where="x")
    assert read.steps == (5, 10, 15, 20)
    assert read.hash() == config.hash()


def test_speed_is_no_part_of_a_design_and_steps_are():
    config = tiny("modular")
    assert config.changed(["training.seeds_at_once=3"]).hash() == config.hash()
    assert {"observables", "compile"}.isdisjoint(config.design()["training"])
    assert config.changed(["training.steps=15"]).hash() != config.hash()
    assert config.changed(["phases.steps=10,10,10,10"]).hash() == config.hash()


def test_a_stop_loss_holds_in_all_phases_or_in_those_named():
    everywhere = tiny("modular", "phases.stop_loss=0.5")
    assert [everywhere.stop_loss(phase) for phase in (1, 4)] == [0.5, 0.5]
    named = tiny("modular", "phases.stop_loss=0.5", "phases.stop_early=2,3")
    assert [named.stop_loss(phase) for phase in (1, 2, 3, 4)] == [None, 0.5, 0.5, None]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["phases.steps=5,10"], r"names 2 phases, the suite has 4 \(add, sub, mul, sq_sum\)"),
        (["phases.steps=5,10,12,5"], "phases.steps=12 is no multiple of training.checkpoint_every"),
        (["phases.stop_early=1"], "say at which held-out loss, as in --stop-loss 0.05"),
        (["phases.stop_early=5", "phases.stop_loss=1"], "phase 5 of only 4"),
        (["phases.stop_early=1,1", "phases.stop_loss=1"], "phase 1 is given twice"),
        (["phases.stop_loss=0"], "phases.stop_loss must be greater than 0, got 0.0"),
        (
            ["phases.stop_loss=1", "phases.carry_optimizer=true"],
            "moments of seeds that stop early are of another age",
        ),
        (["model.sort_window=4"], "sort-4 is a variant; name it in --variants"),
        (["training.observables=all"], "a sequential run measures retention alone; leave it out"),
        (["phase.steps=5"], "section 'phase' is unknown.*Did you mean 'phases'"),
    ],
)
def test_a_design_that_cannot_be_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        tiny("modular", *changes)


@pytest.mark.parametrize(
    ("name", "suite", "message"),
    [
        ("quik", "modular", "preset 'quik' is unknown.*Did you mean 'quick'"),
        ("quick", "forml", "suite 'forml' is unknown.*Did you mean 'formal'"),
    ],
)
def test_an_unknown_preset_or_suite_names_the_nearest(name, suite, message):
    with pytest.raises(InputError, match=message):
        preset(name, suite)


def test_steps_for_all_or_another_order_end_what_a_preset_says_of_single_phases():
    base = preset("quick", "formal").changed(["phases.steps=50,100,150,200"])
    assert base.changed(["training.steps=50"]).steps == (50, 50, 50, 50)
    two = base.changed(["suite.order=copy_8,parity_8"])
    assert two.steps == (two.training.steps,) * 2
    assert base.changed(["training.steps=50", "phases.steps=50,100,50,100"]).steps[1] == 100
    assert base.changed(["training.lr=1e-2"]).steps == (50, 100, 150, 200)
