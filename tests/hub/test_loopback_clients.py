"""The clients themselves against the loopback protocol stub: datasets and models there and back.

Their own code runs, their commits are looked at and what they pull is compared. Who may write, and
what the Hub checks, is not shown by this. Spaces and `evaluate` are in tests/metrics/test_push.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml
from datasets import Dataset, DatasetDict, load_dataset
from hub_client import Terminal
from hub_store import Hub
from huggingface_hub import DatasetCard

from gmb_hf.cli import main
from gmb_hf.modeling import GrokkingTransformerConfig
from gmb_hf.modeling import GrokkingTransformerForCausalLM as Model


def gmb(*words: str) -> None:
    assert main(list(words)) == 0, words


def rows(count: int) -> Dataset:
    return Dataset.from_dict({"input_ids": [[i, i + 1] for i in range(count)]})


def test_loopback_protocol_stub_gives_what_was_built(
    hub: Hub, commands: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    gmb("data", "build", "modular", "--task=add_p7", "--task=sub_p5", "--out=tasks")
    gmb("data", "push", "tasks", "acme/tasks")
    for config in ("add_p7", "sub_p5"):
        here, there = (load_dataset(place, config) for place in ("./tasks", "acme/tasks"))
        assert {name: split.to_dict() for name, split in here.items()} == {
            name: split.to_dict() for name, split in there.items()
        }
    streamed = load_dataset("acme/tasks", "add_p7", split="full", streaming=True)
    assert list(streamed) == load_dataset("./tasks", "add_p7", split="full").to_list()
    # Another client writes the same rows anew: other bytes, the same items.
    load_dataset("./tasks", "sub_p5").push_to_hub("acme/tasks", "sub_p5")
    capsys.readouterr()
    gmb("data", "verify", "acme/tasks")
    printed = capsys.readouterr().out
    assert printed.count("as its card says") == 2
    assert "written anew by `datasets`; the items are the same" in printed
    assert hub.unknown == []


def test_loopback_protocol_stub_datasets(hub: Hub) -> None:
    both = DatasetDict({"train": rows(3), "full": rows(5)})
    both.push_to_hub("acme/tasks", "one", set_default=True)
    rows(4).push_to_hub("acme/tasks", "two", split="full")
    card = DatasetCard.load("acme/tasks")
    card.data["gmb_fingerprint"] = {"one": {"item_count": 8}}
    card.push_to_hub("acme/tasks")
    first = load_dataset("acme/tasks", "two", split="full", revision="main")
    assert first.num_rows == 4
    rows(6).push_to_hub("acme/tasks", "two", split="full")
    assert load_dataset("acme/tasks", "two", split="full").num_rows == 6
    one = load_dataset("acme/tasks")
    assert {name: split.num_rows for name, split in one.items()} == {"train": 3, "full": 5}
    streamed = load_dataset("acme/tasks", "two", split="full", streaming=True)
    assert list(streamed)[-1] == {"input_ids": [5, 6]}
    text = hub.repositories["dataset:acme/tasks"].files["README.md"].decode()
    header = yaml.safe_load(text.split("---")[1])
    # Keys at the top level survive the push of another config.
    assert header["gmb_fingerprint"] == {"one": {"item_count": 8}}
    assert [config["config_name"] for config in header["configs"]] == ["one", "two"]
    assert hub.unknown == []


def test_loopback_protocol_stub_held_out_domains(hub: Hub, commands: Terminal) -> None:
    from gmb_hf.protocol.language.config import language_preset
    from gmb_hf.protocol.language.data import load_tokenizer
    from gmb_hf.protocol.language.train import model_shape, save_checkpoint
    from gmb_hf.training.stacked import seeded_model

    words = load_tokenizer("byte")
    model = seeded_model(model_shape(language_preset("smoke"), words), 0)
    place = save_checkpoint(Path("model"), model, words, {"byte_counts": [1] * 256, "texts": []})
    sets = {
        "ptb": ("ptb-text-only/ptb_text_only", "penn_treebank", "sentence"),
        "wikitext103": ("Salesforce/wikitext", "wikitext-103-raw-v1", "text"),
        "lambada": ("EleutherAI/lambada_openai", "default", "text"),
    }
    hub.orgs |= {repository.split("/")[0] for repository, _, _ in sets.values()}
    for repository, config, column in sets.values():
        lines = Dataset.from_dict({column: ["once upon a time", "it was so"]})
        lines.push_to_hub(repository, config, split="test")
    gmb("heldout", "--checkpoint", str(place), "--domain", *sets, "--out", "out", "--no-figures")
    found = json.loads(Path("out/heldout.json").read_text())["texts"]
    assert {name: (one["documents"], one["bytes"]) for name, one in found.items()} == {
        "ptb": (1, 16 + 9 + 2),
        "wikitext103": (1, 16 + 9),
        "lambada": (2, 16 + 9),
    }
    table = Path("out/domains_perplexity.md").read_text().splitlines()
    assert table[0].startswith("| domain | model |")
    assert [line.split("|")[1].strip() for line in table[2:5]] == list(sets)


def test_loopback_protocol_stub_models(hub: Hub) -> None:
    torch.manual_seed(0)
    model = Model(GrokkingTransformerConfig.grokking(prime=7)).eval()
    model.push_to_hub("acme/small")
    again = Model.from_pretrained("acme/small").eval()
    ids = torch.arange(5)[None]
    assert torch.equal(model(ids).logits, again(ids).logits)
    pushed = hub.repositories["model:acme/small"].files
    assert {"config.json", "model.safetensors"} <= set(pushed)
    assert hub.unknown == []
