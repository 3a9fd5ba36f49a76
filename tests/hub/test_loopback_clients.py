"""The clients themselves against the loopback protocol stub: datasets and models there and back.

Their own code runs, their commits are looked at and what they pull is compared. Who may write, and
what the Hub checks, is not shown by this. Spaces and `evaluate` are in tests/metrics/test_push.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from hub_client import client
from hub_stub import loopback_hub

DATASETS = """
import json
from datasets import Dataset, DatasetDict, load_dataset
from huggingface_hub import DatasetCard

def rows(count):
    return Dataset.from_dict({"input_ids": [[i, i + 1] for i in range(count)]})

DatasetDict({"train": rows(3), "full": rows(5)}).push_to_hub("acme/tasks", "one", set_default=True)
rows(4).push_to_hub("acme/tasks", "two", split="full")
card = DatasetCard.load("acme/tasks")
card.data["gmb_fingerprint"] = {"one": {"item_count": 8}}
card.push_to_hub("acme/tasks")
first = load_dataset("acme/tasks", "two", split="full", revision="main")
rows(6).push_to_hub("acme/tasks", "two", split="full")

found = {
    "one": {name: split.num_rows for name, split in load_dataset("acme/tasks").items()},
    "two": [first.num_rows, load_dataset("acme/tasks", "two", split="full").num_rows],
    "streamed": list(load_dataset("acme/tasks", "two", split="full", streaming=True))[-1],
}
print(json.dumps(found))
"""

MODELS = """
import json
import torch
from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM as Model

torch.manual_seed(0)
model = Model(GrokkingTransformerConfig.grokking(prime=7)).eval()
model.push_to_hub("acme/small")
again = Model.from_pretrained("acme/small").eval()
ids = torch.arange(5)[None]
print(json.dumps(bool(torch.equal(model(ids).logits, again(ids).logits))))
"""

BUILT = """
from datasets import load_dataset
from gmb_hf.cli import main

def gmb(*words):
    assert main(list(words)) == 0, words

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
gmb("data", "verify", "acme/tasks")
"""


def test_loopback_protocol_stub_gives_what_was_built(tmp_path: Path) -> None:
    with loopback_hub() as hub:
        done = client(hub, tmp_path, BUILT)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("as its card says") == 2
        assert "written anew by `datasets`; the items are the same" in done.stdout
        assert hub.unknown == []


def test_loopback_protocol_stub_datasets(tmp_path: Path) -> None:
    with loopback_hub() as hub:
        done = client(hub, tmp_path, DATASETS)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout.splitlines()[-1]) == {
            "one": {"train": 3, "full": 5},
            "two": [4, 6],
            "streamed": {"input_ids": [5, 6]},
        }
        repository = hub.repositories["dataset:acme/tasks"]
        card = repository.files["README.md"].decode()
        header = yaml.safe_load(card.split("---")[1])
        # Keys at the top level survive the push of another config.
        assert header["gmb_fingerprint"] == {"one": {"item_count": 8}}
        assert [config["config_name"] for config in header["configs"]] == ["one", "two"]
        assert hub.unknown == []


def test_loopback_protocol_stub_models(tmp_path: Path) -> None:
    with loopback_hub() as hub:
        done = client(hub, tmp_path, MODELS)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout.splitlines()[-1]) is True
        assert {"config.json", "model.safetensors"} <= set(
            hub.repositories["model:acme/small"].files
        )
        assert hub.unknown == []
