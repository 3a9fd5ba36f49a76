"""Variants as people write them, and what a config says of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_builders import small_config

from gmb_hf.base.errors import InputError
from gmb_hf.training.config import ModelSettings, RunConfig
from gmb_hf.training.presets import preset
from gmb_hf.training.seeds import train_stacked
from gmb_hf.training.settings import first_difference
from gmb_hf.training.variants import SIZES, Variant, parse_variant


@pytest.mark.parametrize(
    ("text", "name", "fields"),
    [
        ("dense", "dense", {}),
        ("banded-256", "banded-256", {"band_fc1": 256, "band_fc2": 256}),
        ("banded-256-128", "banded-256-128", {"band_fc1": 256, "band_fc2": 128}),
        ("banded-none-8", "banded-none-8", {"band_fc2": 8}),
        ("sort-4", "sort-4", {"sort_window": 4}),
        ("hebbian-4", "hebbian-4", {"hebbian_window": 4, "hebbian_rate": 0.001}),
        ("hebbian-4@1e-3", "hebbian-4", {"hebbian_window": 4, "hebbian_rate": 0.001}),
        (
            "hebbian-2@0.5 + blend-8",
            "blend-8+hebbian-2@0.5",
            {"blend_window": 8, "hebbian_window": 2, "hebbian_rate": 0.5},
        ),
    ],
)
def test_what_a_text_stands_for(text, name, fields):
    variant = parse_variant(text)
    assert variant.fields == fields
    assert variant.name == name
    assert ModelSettings(**fields).variant == variant


sizes = st.none() | st.integers(1, 512)


@given(fields=st.fixed_dictionaries(dict.fromkeys(SIZES, sizes)), rate=st.floats(1e-9, 9))
def test_a_name_is_read_as_the_variant_that_it_names(fields, rate):
    variant = Variant.of({**fields, "hebbian_rate": rate, "layers": 3})
    assert parse_variant(variant.name) == variant


MISTAKES = {
    "bandd-256": "variant 'bandd-256': kind 'bandd' is unknown; .*Did you mean 'banded'?",
    "": "variant '': kind '' is unknown; known: banded, blend, dense, hebbian, loops, sort.",
    "sort-4+": "kind '' is unknown",
    "sort": "sort takes its numbers as in sort-8",
    "sort-4-4": "sort takes its numbers as in sort-8",
    "banded-1-2-3": "banded takes its numbers as in banded-8 or banded-8-8",
    "sort-0": "sort_window must be a whole number of at least 1, got 0",
    "blend-few": "blend_window must be a whole number of at least 1, got 'few'",
    "sort-none": "sort_window must be a whole number of at least 1, got 'none'",
    "dense+sort-2": "dense stands alone and without numbers",
    "dense-2": "dense stands alone and without numbers",
    "sort-2+sort-3": "sort is given twice; give each kind once",
    "banded-none": "without any band it is the dense one; write dense",
    "hebbian-4@fast": "'fast' is no rate; write a number above 0, as in @0.001",
    "hebbian-4@inf": "'inf' is no rate; write a number above 0",
    "sort-4@0.1": "sort has no rate; only hebbian-H@RATE has",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_one_line(text):
    with pytest.raises(InputError, match=MISTAKES[text].replace("?", r"\?")) as caught:
        parse_variant(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", SIZES)
def test_the_config_refuses_what_is_no_size(name):
    message = f"model: {name} must be greater than or equal to 1, got 0"
    with pytest.raises(InputError, match=re.escape(message)):
        ModelSettings.of(**{name: 0})


def test_the_config_refuses_what_is_no_rate():
    with pytest.raises(InputError, match=r"hebbian_rate must be greater than 0, got 0.0"):
        ModelSettings.of(hebbian_rate=0.0)


def test_a_dense_config_is_the_one_that_it_was_before_there_were_variants():
    # Folders and locked designs hold this hash: a change of it would orphan them.
    expected = "45a5ba7d3afb17500cb220f544a599aef0345a1029c814ef28a4da7ec1a0f09d"
    law = (
        *(
            "task.train_fraction=.7",
            "model.width=32",
            "model.mlp_width=64",
            "model.layer_norm=true",
        ),
        *("model.initializer_range=.1", "training.steps=2500", "training.checkpoint_every=10"),
        *("training.lr=1.5e-3", "training.weight_decay=1.5", "training.stop_after=none"),
    )
    assert preset("quick").changed(law).training_hash() == expected
    model = preset("quick").training_identity()["model"]
    assert not {*SIZES, "hebbian_rate"} & set(model)
    # A rate without a window changes nothing.
    assert preset("quick").changed([*law, "model.hebbian_rate=0.5"]).training_hash() == expected


def test_a_variant_is_part_of_the_identity_and_of_the_name():
    dense, changed = small_config(), small_config(model={"sort_window": 4})
    assert changed.model.name == f"{dense.model.name}, sort-4"
    assert changed.training_hash() != dense.training_hash()
    found = first_difference(dense.training_identity(), changed.training_identity())
    assert found == "model.sort_window: None -> 4"
    assert RunConfig.from_dict(changed.training_identity()).model == changed.model


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sort_window": 9}, "model: sort_window=9 is longer than the longest input"),
        ({"blend_window": 9}, "model: blend_window=9 is longer than the longest input"),
        ({"hebbian_window": 9}, "model: hebbian_window=9 is longer than the longest input"),
        (
            {"band_fc1": 5, "mlp_width": 32},
            "model: band_fc1=5 leaves units of the MLP without .* is 6",
        ),
        (
            {"band_fc2": 5, "mlp_width": 32},
            "model: band_fc2=5 leaves units of the MLP without .* is 6",
        ),
    ],
)
def test_a_variant_that_the_model_cannot_have_is_refused_before_a_folder_is_touched(
    tmp_path, fields, message
):
    config = small_config(model=fields)
    with pytest.raises(InputError, match=message) as caught:
        train_stacked(config, [0], tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_variant_is_set_like_any_other_field():
    config = preset("quick").changed(["model.blend_window=8", "model.band_fc1=none"])
    assert config.model.variant.name == "blend-8"
