"""A citizen of transformers: Auto classes, files on disk, fresh processes, the Trainer."""

import json

import pytest
import torch
from launched import run_code
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from gmb_hf.modeling import (
    GrokkingTransformerConfig,
    GrokkingTransformerForCausalLM,
    GrokkingTransformerModel,
    own_parameter_names,
)
from gmb_hf.tasks.registry import get_task

BANDED = {"band_fc1": 30, "band_fc2": 12}
MIXED = {"sort_window": 3, "blend_window": 4}
HEBBIAN = {"hebbian_window": 2, "hebbian_rate": 0.125}
LOOPED = {"cycles": 2, "inner_steps": 2, "halting": True}
VARIANTS = {
    "dense": {},
    "banded": BANDED,
    "mixed": MIXED,
    "looped": LOOPED,
    "all": {**BANDED, **MIXED, **HEBBIAN, **LOOPED},
}


def small(**fields):
    torch.manual_seed(3)
    shape = {"hidden_size": 24, "num_attention_heads": 3, "initializer_range": 0.3}
    config = GrokkingTransformerConfig.grokking(prime=13, **{**shape, **fields})
    model = GrokkingTransformerForCausalLM(config).eval()
    with torch.no_grad():
        for name in own_parameter_names(model):
            model.get_parameter(name).add_(0.7)  # as trained: none of them is where it began
    return model


@pytest.fixture
def rows():
    return torch.from_numpy(get_task("add_p13").rows()[:20])


def test_auto_classes_know_the_model():
    config = AutoConfig.for_model("grokking_transformer", hidden_size=24, num_attention_heads=3)
    assert type(config) is GrokkingTransformerConfig
    assert type(AutoModelForCausalLM.from_config(config)) is GrokkingTransformerForCausalLM
    assert type(AutoModel.from_config(config)) is GrokkingTransformerModel


@pytest.mark.parametrize("tied", [True, False])
def test_saved_and_loaded_bit_equal(tied, tmp_path, rows):
    model = small(tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        *("config.json", "generation_config.json", "model.safetensors"),
        *("configuration_grokking.py", "modeling_grokking.py", "loops.py", "mixers.py"),
    }
    auto_map = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert auto_map == {
        "AutoConfig": "configuration_grokking.GrokkingTransformerConfig",
        "AutoModelForCausalLM": "modeling_grokking.GrokkingTransformerForCausalLM",
    }
    loaded, report = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert type(loaded) is GrokkingTransformerForCausalLM
    assert not any(report.values())
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) == tied
    with torch.no_grad():
        assert torch.equal(loaded(rows).logits, model(rows).logits)


def test_the_decoder_alone_loads_from_the_whole_model(tmp_path, rows):
    model = small()
    model.save_pretrained(tmp_path)
    decoder = AutoModel.from_pretrained(tmp_path).eval()
    assert type(decoder) is GrokkingTransformerModel
    with torch.no_grad():
        expected = model.model(rows).last_hidden_state
        assert torch.equal(decoder(rows).last_hidden_state, expected)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_saved_and_loaded_with_all_it_learned(variant, tmp_path, rows):
    model = small(**VARIANTS[variant])
    model.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert {name: saved[name] for name in VARIANTS[variant]} == VARIANTS[variant]
    loaded, report = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    assert loaded.config.use_cache == (not {"sort_window", "cycles"} & VARIANTS[variant].keys())
    for name in own_parameter_names(model):
        assert torch.equal(loaded.get_parameter(name), model.get_parameter(name))
        assert loaded.get_parameter(name).shape == model.get_parameter(name).shape
    # One training step, which every variant takes its own way, leads to the same place.
    stepped = []
    for one in (model, loaded):
        optimizer = torch.optim.AdamW(one.train().parameters(), lr=0.01)
        one(rows, labels=rows).loss.backward()
        optimizer.step()
        stepped.append(one.state_dict())
    for name, value in stepped[0].items():
        assert torch.equal(value, stepped[1][name]), name


FRESH = """
import sys
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, dynamic_module_utils
root, *variants = sys.argv[1:]
dynamic_module_utils.HF_MODULES_CACHE = root + "/empty_modules"
assert sys.modules["gmb_hf"] is None
assert "grokking_transformer" not in transformers.CONFIG_MAPPING
for variant in variants:
    folder = root + "/" + variant
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
    assert type(model).__module__.startswith("transformers_modules"), type(model).__module__
    assert type(AutoConfig.from_pretrained(folder, trust_remote_code=True)) is type(model.config)
    saved = torch.load(folder + "/expected.pt", weights_only=True)
    prompt = saved["rows"][:, :5]
    with torch.no_grad():
        assert torch.equal(model(saved["rows"]).logits, saved["logits"]), variant
    generated = model.generate(prompt, max_new_tokens=2, do_sample=False)
    assert torch.equal(generated, saved["generated"]), variant
    model.save_pretrained(folder + "/again")
print("equal to the bit")
"""


def test_a_process_without_the_package(tmp_path, rows):
    saved = {}
    for variant, fields in VARIANTS.items():
        model = small(**fields)
        model.save_pretrained(tmp_path / variant)
        with torch.no_grad():
            expected = {
                "rows": rows,
                "logits": model(rows).logits,
                "generated": model.generate(rows[:, :5], max_new_tokens=2, do_sample=False),
            }
        torch.save(expected, tmp_path / variant / "expected.pt")
        saved[variant] = expected["logits"]
    result = run_code(FRESH, tmp_path, *VARIANTS, package=None, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "equal to the bit" in result.stdout
    # Saved from there, the model still carries its code.
    for variant, logits in saved.items():
        again = tmp_path / variant / "again"
        assert {"configuration_grokking.py", "modeling_grokking.py", "mixers.py"} <= {
            path.name for path in again.iterdir()
        }
        reloaded = AutoModelForCausalLM.from_pretrained(again)
        with torch.no_grad():
            assert torch.equal(reloaded(rows).logits, logits)


def test_the_trainer_takes_two_steps(tmp_path):
    from transformers import Trainer, TrainingArguments

    model = small()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    splits = get_task("add_p13").to_dataset_dict(fraction=0.5, data_seed=1)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=2,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            learning_rate=1e-2,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=splits["train"],
        eval_dataset=splits["test"],
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 2
    assert all(0 < loss < 20 for loss in losses)
    assert any(not torch.equal(before[name], p) for name, p in model.state_dict().items())
    rows = torch.tensor(splits["test"]["input_ids"][:])
    labels = torch.tensor(splits["test"]["labels"][:])
    with torch.no_grad():
        expected = model.eval()(rows, labels=labels).loss.item()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5)
