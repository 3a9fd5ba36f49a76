"""The configuration: presets, what it saves, and values that are refused."""

import doctest
import json

import pytest
from transformers import AutoConfig

from gmb_hf.modeling import GrokkingTransformerConfig, configuration_grokking


def test_the_presets_of_the_protocol():
    grokking = GrokkingTransformerConfig.grokking()
    formal = GrokkingTransformerConfig.formal()
    for preset, block in ((grokking, 8), (formal, 24)):
        assert preset.max_position_embeddings == block
        assert preset.vocab_size == 101
        assert (preset.num_hidden_layers, preset.num_attention_heads) == (2, 4)
        assert (preset.hidden_size, preset.intermediate_size, preset.head_dim) == (128, 512, 32)
        assert preset.tie_word_embeddings
        assert (preset.bos_token_id, preset.eos_token_id, preset.pad_token_id) == (99, 100, 100)


def test_a_preset_takes_another_prime_and_any_field():
    config = GrokkingTransformerConfig.grokking(
        prime=29, vocab_size=36, tie_word_embeddings=False, hidden_size=32, num_hidden_layers=1
    )
    assert (config.vocab_size, config.bos_token_id, config.eos_token_id) == (36, 31, 32)
    assert config.intermediate_size == 128
    assert not config.tie_word_embeddings
    assert GrokkingTransformerConfig.formal(max_position_embeddings=40).vocab_size == 101


def test_what_is_saved_is_loaded(tmp_path):
    config = GrokkingTransformerConfig(hidden_size=24, hidden_act="relu", intermediate_size=40)
    config.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["model_type"] == "grokking_transformer"
    assert saved["intermediate_size"] == 40
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert type(loaded) is GrokkingTransformerConfig
    assert loaded.to_dict() | {"_name_or_path": ""} == config.to_dict() | {"_name_or_path": ""}


def test_mixers_need_the_whole_input():
    assert GrokkingTransformerConfig(hebbian_window=8, band_fc1=64).use_cache
    for fields in ({"sort_window": 8}, {"blend_window": 1}):
        assert not GrokkingTransformerConfig(use_cache=True, **fields).use_cache
    mixing = GrokkingTransformerConfig(sort_window=4, blend_window=8, hebbian_window=2)
    assert mixing.mixer_windows == {"sort": 4, "blend": 8}
    assert GrokkingTransformerConfig(hebbian_window=2).mixer_windows == {}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_attention_heads": 3}, "num_attention_heads=3 does not divide hidden_size=128"),
        ({"hidden_act": "gelu"}, r"hidden_act 'gelu' is unknown.*Did you mean 'gelu_new'"),
        ({"hidden_act": "Relu6"}, r"hidden_act 'Relu6' is unknown.*Did you mean 'relu'"),
        ({"hidden_act": "gelu_tanh"}, r"Did you mean 'gelu_new'"),
        ({"hidden_act": "swish"}, r"hidden_act 'swish' is unknown; known: gelu_new, relu\.$"),
        ({"hidden_act": None}, "hidden_act None is unknown"),
        ({"vocab_size": 0}, "vocab_size must be a whole number of at least 1, got 0"),
        ({"hidden_size": 128.0}, "hidden_size must be a whole number of at least 1, got 128.0"),
        ({"hidden_size": "128"}, "hidden_size must be a whole number of at least 1, got '128'"),
        ({"num_hidden_layers": -1}, "num_hidden_layers must be a whole number"),
        ({"num_attention_heads": True}, "num_attention_heads must be a whole number"),
        ({"max_position_embeddings": None}, "max_position_embeddings must be a whole number"),
        ({"intermediate_size": 0}, "intermediate_size must be a whole number"),
        ({"initializer_range": 0.0}, "initializer_range must be positive, got 0.0"),
        ({"initializer_range": float("nan")}, "initializer_range must be positive, got nan"),
        ({"layer_norm": 1}, "layer_norm must be True or False, got 1"),
        ({"sort_window": 9}, "sort_window=9 is longer than the longest input, max_pos.*=8 tokens"),
        ({"blend_window": 9}, "blend_window=9 is longer than .*; choose a shorter window"),
        ({"hebbian_window": 9}, "hebbian_window=9 is longer than the longest input"),
        ({"sort_window": 0}, "sort_window must be a whole number of at least 1, got 0"),
        ({"blend_window": "4"}, "blend_window must be a whole number of at least 1, got '4'"),
        ({"hebbian_window": 2.5}, "hebbian_window must be a whole number of at least 1, got 2.5"),
        ({"hebbian_rate": 0}, "hebbian_rate must be a positive number, got 0"),
        ({"hebbian_rate": float("inf")}, "hebbian_rate must be a positive number, got inf"),
        ({"hebbian_rate": float("nan")}, "hebbian_rate must be a positive number, got nan"),
        ({"hebbian_rate": "1e-3"}, "hebbian_rate must be a positive number, got '1e-3'"),
        ({"hebbian_rate": True}, "hebbian_rate must be a positive number, got True"),
        ({"hebbian_rate": None}, "hebbian_rate must be a positive number, got None"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ValueError, match=message):
        GrokkingTransformerConfig(**fields)


def test_examples_in_the_documentation():
    result = doctest.testmod(configuration_grokking)
    assert result.attempted > 0
    assert result.failed == 0
