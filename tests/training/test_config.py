"""The config: changed by assignments, written and read, and every mistake with its message."""

import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gmb_hf.base.errors import InputError
from gmb_hf.training.config import (
    DesignSettings,
    ModelSettings,
    RunConfig,
    SeedSettings,
    TaskSettings,
    TrainingSettings,
)
from gmb_hf.training.presets import PRESETS, preset
from gmb_hf.training.settings import first_difference
from gmb_hf.training.variants import LOOP_SIZES, SIZES


def changed(*assignments):
    return preset("quick").changed(assignments)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("training.lr=3e-3", 0.003),
        ("training.lr=1", 1.0),
        ("training.steps=500", 500),
        (" training.steps = 500 ", 500),
        ("task.train_rows=400", 400),
        ("task.train_rows=none", None),
        ("task.data_seed=42", 42),
        ("task.data_seed=null", None),
        ("task.operation=x2_xy_y2", "x2_xy_y2"),
        ("model.tied=true", True),
        ("model.tied=no", False),
        ("benchmark.event_floor=none", None),
        ("benchmark.event_floor=0.85", 0.85),
        ("benchmark.window_sweep=60, 80,100", (60, 80, 100)),
        ("seeds.explore=0:4,9", "0:4,9"),
    ],
)
def test_an_assignment_is_read_as_the_type_of_its_field(assignment, expected):
    section, name = assignment.partition("=")[0].strip().split(".")
    value = changed(assignment).to_dict()[section][name]
    assert value == expected
    assert type(value) is type(expected)


def test_only_the_named_fields_change_and_the_config_itself_stays():
    before = preset("quick")
    after = before.changed(["training.lr=1e-4", "model.width=64"])
    assert before == preset("quick")
    expected = before.to_dict()
    expected["training"]["lr"], expected["model"]["width"] = 1e-4, 64
    assert after.to_dict() == expected


def test_no_assignment_changes_nothing():
    assert changed() == preset("quick")


def test_the_last_of_two_assignments_to_a_field_counts():
    assert changed("training.lr=1", "training.lr=2").training.lr == 2.0


def test_fields_that_are_right_only_together_may_change_together():
    config = changed("training.steps=21", "training.checkpoint_every=7")
    assert (config.training.steps, config.training.checkpoint_every) == (21, 7)
    config = changed("benchmark.horizon=900", "benchmark.safe_gap=1000")
    design = config.benchmark.design()
    assert (design.horizon, design.safe_gap) == (900, 1000)


MISTAKES = {
    "training.lr": "--set 'training.lr': write it as section.field=value, e.g. training.lr=3e-3",
    "lr=1": "--set 'lr=1': write it as section.field=value",
    "": "--set '': write it as section.field=value",
    "trainings.lr=1": "section 'trainings' is unknown; .* Did you mean 'training'?",
    "training.learning_rate=1": "--set training.learning_rate=1: field 'learning_rate' is unknown",
    "training.weight_deca=1": "Did you mean 'weight_decay'?",
    "training.lr=fast": "--set training.lr=fast: expected a number, got 'fast'",
    "training.steps=1e3": "expected a whole number, got '1e3'",
    "training.steps=": "expected a whole number, got ''",
    "training.steps=none": "expected a whole number, got 'none'",
    "model.tied=maybe": "expected true or false, got 'maybe'",
    "model.tied=1": "expected true or false, got '1'",
    "model.tied=[": "expected true or false",
    "benchmark.window_sweep=80,x": "write whole numbers with commas, e.g. 80,100,120",
    "benchmark.window_sweep=80,0": r"benchmark.window_sweep\[1\] must be greater than or",
    "task.operation=subtract": "task.operation: operation 'subtract' is unknown; .*mean 'sub'?",
    "task.op_token=share": "task.op_token: op_token 'share' is unknown; .*mean 'shared'?",
    "task.prime=28": "task: prime must be a prime number, got 28; 29 is one",
    "task.train_fraction=1": "--set: task.train_fraction must be less than 1, got 1.0",
    "task.train_fraction=0.001": "task: fraction 0.001 of 841 rows leaves 0 to train on",
    "task.train_rows=0": "task.train_rows must be greater than or equal to 1, got 0",
    "task.train_rows=841": "task: fraction 841 of 841 rows leaves 841 to train on and 0 held out",
    "task.corruption_rate=1.5": "corruption_rate must be less than or equal to 1, got 1.5",
    "task.data_seed=-1": r"task: data_seed must be a whole number in \[0, 2\*\*32\), got -1",
    "task.keep_pairs_together=true": "task: keep_pairs_together: sub does not commute",
    "model.layers=0": "model.layers must be greater than or equal to 1, got 0",
    "model.heads=5": "model: heads=5 does not divide width=48; choose a width that is",
    "model.activation=gelu": "model.activation: activation 'gelu' is unknown; .*mean 'gelu_new'?",
    "model.initializer_range=0": "model.initializer_range must be greater than 0, got 0.0",
    "training.steps=30": "training: steps=30 is no multiple of checkpoint_every=25; change",
    "training.seeds_at_once=0": "training.seeds_at_once must be greater than or equal to 1, got 0",
    "training.lr=-1": "training.lr must be greater than 0, got -1.0",
    "training.lr=nan": "training.lr must be a finite number, got nan",
    "training.lr=inf": "training.lr must be a finite number, got inf",
    "training.eps=0": "training.eps must be greater than 0, got 0.0",
    "training.weight_decay=-0.1": "weight_decay must be greater than or equal to 0, got -0.1",
    "training.beta1=1": "training.beta1 must be less than 1, got 1.0",
    "training.beta2=0": "training.beta2 must be greater than 0, got 0.0",
    "training.compile=alwaysx": "training.compile: compile 'alwaysx' is unknown; .*mean 'always'?",
    "benchmark.horizon=0": "benchmark.horizon must be greater than or equal to 1, got 0",
    "benchmark.horizon=800": "benchmark: horizon=800 must be less than safe_gap=800; else",
    "benchmark.jump_threshold=2": r"jump_threshold must be a number in \(0, 1\), got 2.0",
    "benchmark.event_floor=85": r"benchmark: event_floor must be a number in \[0, 1\], got 85.0",
    "benchmark.burn_in=-10": "benchmark.burn_in must be greater than or equal to 0, got -10",
    "benchmark.primary_fpr=0": "benchmark.primary_fpr must be greater than 0, got 0.0",
    "benchmark.coverage_min=1.1": "benchmark.coverage_min must be less than or equal to 1, got 1.1",
    "seeds.explore=a": "seeds 'a': 'a' is no seed; write a number, a range such as 0:32",
    "seeds.explore=10000:10002": r"overlap in \[10000, 10001\]; held-out seeds must be ones that",
}


@pytest.mark.parametrize("assignment", MISTAKES)
def test_a_mistake_is_one_line_that_says_what_to_do(assignment):
    with pytest.raises(InputError, match=MISTAKES[assignment].replace("?", r"\?")) as caught:
        changed(assignment)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "nearest"), [("detection_mn", "detection_min"), ("event_flor", "event_floor")]
)
def test_a_misspelled_keyword_of_the_design_suggests_the_nearest(name, nearest):
    message = rf"^benchmark: field '{name}' is unknown; known: alpha, .* Did you mean '{nearest}'\?"
    with pytest.raises(InputError, match=message):
        preset("quick").judged_by(**{name: 0.4})


@pytest.mark.parametrize("name", PRESETS)
def test_a_config_survives_json_and_yaml(name):
    config = preset(name)
    assert RunConfig.from_dict(config.to_dict()) == config
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    text = yaml.safe_dump(json.loads(json.dumps(config.to_dict())))
    assert RunConfig.from_dict(yaml.safe_load(text)) == config


def test_a_dictionary_may_leave_out_what_is_the_default():
    config = RunConfig.from_dict({"training": {"lr": 0.1}})
    assert config == RunConfig(preset="custom", training=TrainingSettings(lr=0.1))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"trainings": {}}, "mine.yaml: trainings is unknown; did you mean training?"),
        ({"training": {"lrr": 1}}, "mine.yaml: training.lrr is unknown; did you mean lr?"),
        ({"training": 3}, "mine.yaml: training must be a mapping of keys to values, got 3"),
        ({"training": {"steps": "20"}}, "training.steps must be a whole number, got '20'"),
        ({"training": {"lr": "fast"}}, "training.lr must be a number, got 'fast'"),
        ({"training": {"lr": None}}, "training.lr must be a number, got None"),
        ({"task": {"prime": 29.0}}, "task.prime must be a whole number, got 29.0"),
    ],
)
def test_a_dictionary_with_a_mistake(data, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        RunConfig.from_dict(data, where="mine.yaml")


def test_the_identity_is_what_decides_a_log():
    config = preset("quick")
    same = [
        "training.seeds_at_once=1",
        "training.compile=never",
        "training.dear_every=3",  # nothing is costly unless "all" is recorded
        "benchmark.horizon=100",
        "seeds.explore=0:5",
    ]
    for assignment in same:
        assert config.changed([assignment]).training_hash() == config.training_hash(), assignment
    different = [
        *("training.lr=1e-4", "training.eps=1e-7", "task.data_seed=1", "model.width=64"),
        *("training.observables=published", "training.observables=all"),
        "model.layer_norm=true",
        "training.stop_after=none",
        "draws.no_decay=.5",
    ]
    hashes = {config.changed([assignment]).training_hash() for assignment in different}
    assert len(hashes - {config.training_hash()}) == len(different)
    assert re.fullmatch("[0-9a-f]{64}", config.training_hash())


def test_every_field_is_in_the_identity_or_the_design():
    sizes = [f"model.{size}=8" for size in (*SIZES, *LOOP_SIZES)]
    drawn = "draws.no_decay=.5"
    config = preset("quick").changed([*sizes, "model.halting=true", drawn])
    held = {**config.training_identity(), **config.design()}
    speed = {"seeds_at_once": 32, "compile": "auto"}
    recorded = {"observables": "usual", "dear_every": 10, "stop_at": 0.9}
    held["training"] = {**held["training"], **speed, **recorded}
    held["task"] = {"name": None, **held["task"]}
    assert held == {key: value for key, value in config.to_dict().items() if key != "preset"}


def test_a_model_without_norms_says_so_and_one_with_norms_has_the_identity_it_had():
    config = preset("smoke")
    assert "layer_norm" not in config.training_identity()["model"]
    assert config.changed(["model.layer_norm=false"]).model.name.endswith(", no layer norm")


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ({}, {}, None),
        ({"a": 1}, {"a": 1.0}, None),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, "a.c: 2 -> 3"),
        ({"a": {"b": 1}}, {}, "a: {'b': 1} -> None"),
        ({"b": 1, "a": "x"}, {"b": 2, "a": "y"}, "a: 'x' -> 'y'"),
    ],
)
def test_the_first_difference(old, new, difference):
    assert first_difference(old, new) == difference


def test_settings_cannot_be_changed_in_place():
    for settings in (TaskSettings(), ModelSettings(), TrainingSettings(), DesignSettings()):
        name = next(iter(type(settings).model_fields))
        with pytest.raises(ValidationError, match="frozen"):
            setattr(settings, name, 1)


def test_a_task_knows_its_rows_and_seeds():
    assert TaskSettings(train_fraction=0.5).share == 0.5
    assert TaskSettings(train_rows=100).share == 100
    assert TaskSettings().data_seed_of(7) == 7
    assert TaskSettings(data_seed=0).data_seed_of(7) == 0
    task = TaskSettings(operation="add", prime=7, op_token="distinct", corruption_rate=0.5)
    assert task.build().name == "add_p7"
    assert task.title == "add_p7, 60% train, distinct tokens, 50% wrong labels"
    assert (task.build().op_token, task.build().corruption_rate) == ("distinct", 0.5)


@pytest.mark.parametrize(
    "other",
    [
        {"prime": 7},
        {"operation": "add"},
        {"train_fraction": 0.7},
        {"train_rows": 500},
        {"op_token": "distinct"},
        {"corruption_rate": 0.1},
        {"operation": "add", "keep_pairs_together": True},
        {"data_seed": 0},
    ],
)
def test_another_task_has_another_name(other):
    plain = TaskSettings(operation=other["operation"]) if len(other) > 1 else TaskSettings()
    assert TaskSettings(**other).title != plain.title


def test_a_model_names_its_shape():
    assert ModelSettings(layers=2, heads=4, width=128).name == "transformer-2x4x128"


@given(st.sets(st.integers(0, 50), min_size=1), st.sets(st.integers(0, 50), min_size=1))
def test_explore_and_held_out_seeds_may_not_overlap(explore, evaluate):
    first, second = (",".join(map(str, seeds)) for seeds in (explore, evaluate))
    if explore & evaluate:
        with pytest.raises(InputError, match=r"seeds: explore and evaluate overlap in"):
            SeedSettings.of(explore=first, evaluate=second)
    else:
        assert SeedSettings(explore=first, evaluate=second).explore == first
