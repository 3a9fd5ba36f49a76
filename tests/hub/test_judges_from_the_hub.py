"""Judges of the Hub against the loopback protocol stub: one commit, and no code unless asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hub_client import Terminal
from hub_store import Hub, Repository
from transformers import ByT5Tokenizer, GPT2Config, GPT2LMHeadModel

from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.launch import silence_transformers

CODE = """
from transformers import GPT2Config, GPT2LMHeadModel
print("CODE OF THE HUB RUNS")
class TheirConfig(GPT2Config):
    model_type = "theirs"
class TheirModel(GPT2LMHeadModel):
    config_class = TheirConfig
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Those of a tiny causal model."""
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    shape = {"n_positions": 32, "n_embd": 8, "n_layer": 1, "n_head": 1}
    with silence_transformers():
        GPT2LMHeadModel(GPT2Config(vocab_size=259, eos_token_id=1, **shape)).save_pretrained(folder)
    ByT5Tokenizer(extra_ids=0).save_pretrained(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    row = {"run": "a", "step": 5, "prompt": "p", "sample": 0, "answer": "x"}
    path.write_text(json.dumps(row) + "\n")
    return path


def rating(answers: Path, judge: str, *more: str) -> tuple[object, ...]:
    out, cache = answers.with_name("s.parquet"), answers.with_name("c.sqlite")
    return (
        "judge",
        "rate",
        answers,
        "--judge",
        judge,
        "--how=likelihood",
        "--cache",
        cache,
        "--out",
        out,
        *more,
    )


def published(hub: Hub, name: str, files: dict[str, bytes]) -> Repository:
    repository = hub.repositories.setdefault(f"model:{name}", Repository({}))
    repository.commit("a judge", files)
    return repository


def test_a_judge_is_known_by_its_commit(
    hub: Hub, commands: Terminal, files: dict[str, bytes], answers: Path
) -> None:
    repository = published(hub, "acme/judge", {**files, "pytorch_model.bin": b"a pickle"})
    first = repository.sha
    printed = commands.done(*rating(answers, "acme/judge"))
    assert "1 rated now" in printed
    assert not any("pytorch_model.bin" in request for request in hub.requests)
    made_by = RunLog.read(answers.with_name("s.parquet"))
    assert "made_by" in made_by.set_aside
    assert f"acme/judge@{first}" in printed.replace("\n", "")
    assert "0 rated now, 1 known" in commands.done(*rating(answers, "acme/judge"))

    other = {**files, "README.md": b"another commit"}
    published(hub, "acme/judge", other)
    assert "1 rated now" in commands.done(*rating(answers, "acme/judge"))
    pinned = rating(answers, "acme/judge", "--revision", first)
    assert "0 rated now, 1 known" in commands.done(*pinned)
    said = commands.refused(*rating(answers, "acme/judge", "--revision=v9"))
    assert said.startswith("acme/judge@v9: the Hub refused: it has no such revision")


def test_code_of_the_hub_runs_only_when_asked(
    hub: Hub, commands: Terminal, files: dict[str, bytes], answers: Path
) -> None:
    config = json.loads(files["config.json"])
    config |= {
        "model_type": "theirs",
        "architectures": ["TheirModel"],
        "auto_map": {"AutoConfig": "code.TheirConfig", "AutoModelForCausalLM": "code.TheirModel"},
    }
    theirs = {**files, "config.json": json.dumps(config).encode(), "code.py": CODE.encode()}
    published(hub, "acme/theirs", theirs)
    said = commands.refused(*rating(answers, "acme/theirs"))
    assert said == (
        "acme/theirs: brings code of its own (config.json has auto_map), which would run here; "
        "read it, and give --trust-remote-code if you trust it"
    )
    assert not any("safetensors" in request or ".py" in request for request in hub.requests)
    printed = commands.done(*rating(answers, "acme/theirs", "--trust-remote-code"))
    assert "CODE OF THE HUB RUNS" in printed


def test_what_the_hub_does_not_have(
    hub: Hub, commands: Terminal, files: dict[str, bytes], answers: Path
) -> None:
    said = commands.refused(*rating(answers, "acme/none"))
    assert said.startswith("acme/none@main: the Hub refused: there is no such repository")
    pickled = {name: held for name, held in files.items() if "safetensors" not in name}
    published(hub, "acme/pickled", {**pickled, "pytorch_model.bin": b"a pickle"})
    said = commands.refused(*rating(answers, "acme/pickled"))
    assert said.startswith("acme/pickled: holds no weights as safetensors, and pickles are not")
    published(hub, "acme/empty", {"README.md": b"nothing"})
    said = commands.refused(*rating(answers, "acme/empty"))
    assert "it holds no model (no config.json)" in said


def test_heldout_records_the_commit(
    hub: Hub, commands: Terminal, files: dict[str, bytes], tmp_path: Path
) -> None:
    first = published(hub, "acme/model", files).sha
    published(hub, "acme/model", {**files, "README.md": b"another commit"})
    (tmp_path / "a.txt").write_text("once upon a time\n")
    out, text = tmp_path / "out", f"a={tmp_path}/a.txt"
    heldout = ("heldout", "--text", text, "--no-figures", "--out", out, "--checkpoint")
    commands.done(*heldout, f"m=acme/model@{first}")
    (about,) = json.loads((out / "heldout.json").read_text())["models"].values()
    assert about["identity"] == f"acme/model@{first}"
    pickled = {name: held for name, held in files.items() if "safetensors" not in name}
    published(hub, "acme/pickled", {**pickled, "pytorch_model.bin": b"a pickle"})
    said = commands.refused(*heldout, "acme/pickled")
    assert said.startswith("acme/pickled: holds no weights as safetensors, and pickles are not")
    assert not any("pytorch_model.bin" in request for request in hub.requests)
