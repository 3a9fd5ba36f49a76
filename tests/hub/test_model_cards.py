"""Saved models: their cards by the Hub's own parsers, and pushes to the loopback protocol stub."""

from __future__ import annotations

import contextlib
import io
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from hub_client import Terminal
from hub_store import Hub
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import EvalResult
from transformers import AutoConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.evaluate import evaluate_runs
from gmb_hf.benchmark.results import Results
from gmb_hf.hub.cards import Card
from gmb_hf.hub.models import (
    SavedModel,
    evaluations,
    read_saved_model,
    write_cards,
    write_model_card,
)
from gmb_hf.runs.metadata import hub_entry
from gmb_hf.training.checkpoints import keep_model, load_model
from gmb_hf.training.config import RunConfig
from gmb_hf.training.folder import model_folder
from gmb_hf.training.presets import design_of, preset
from gmb_hf.training.seeds import train_stacked


def lines_of(card: str) -> str:
    """The first Python block of a card."""
    return card.split("```python\n")[1].split("\n```")[0]


def run_lines(card: str) -> str:
    """What they print."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(lines_of(card), {})
    return printed.getvalue().strip()


SOURCE = {"repo": "acme/tasks", "revision": "5" * 40, "config": "add_p19", "fingerprint": "a|1|2"}
STEPS = ["training.steps=160", "training.compile=never"]


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return preset("smoke").changed(STEPS)


@pytest.fixture(scope="module")
def trained(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight runs, the model of one of them saved."""
    from gmb_hf.training.seeds import Callbacks

    folder = tmp_path_factory.mktemp("trained")
    train_stacked(
        config, range(8), folder, keep=[5], callbacks=Callbacks(about=hub_entry("data", [SOURCE]))
    )
    return folder


@pytest.fixture(scope="module")
def saved(trained: Path) -> SavedModel:
    return read_saved_model(model_folder(trained, 5))


@pytest.fixture(scope="module")
def results(config: RunConfig, trained: Path) -> Results:
    from gmb_hf.runs.runlog import RunLog

    log = RunLog.read(trained / "logs")
    design = design_of(config, log)
    few = design.model_copy(update={"candidates": design.candidates[:3]})
    return evaluate_runs(few, log).results


def test_what_is_measured_is_what_was_logged(saved: SavedModel) -> None:
    last = {name: saved.log.panel(name).values[0, -1] for name in ("test_acc", "test_loss")}
    assert saved.seed == 5
    assert saved.held_out.accuracy == pytest.approx(last["test_acc"], abs=1e-6)
    assert saved.held_out.loss == pytest.approx(last["test_loss"], rel=1e-4)
    assert saved.fingerprints["data"].item_count == 19 * 19
    assert saved.fingerprints["data"].seed == 5


def test_the_hubs_parsers_read_the_card_back(
    saved: SavedModel, results: Results, tmp_path: Path
) -> None:
    card, *pictures = write_model_card(saved, tmp_path, results=results, place="acme/small")
    assert [path.name for path in pictures] == ["training.png", "verdicts.png"]
    read = ModelCard.load(card)
    assert read.data.model_name == "small"
    assert read.data.eval_results == evaluations(saved, results)
    assert read.data.license == "apache-2.0"
    assert read.data.datasets == ["acme/tasks"]
    assert Card.read(tmp_path).entries == saved.fingerprints
    accuracy, loss, *verdicts = read.data.eval_results
    assert accuracy.metric_value == saved.held_out.accuracy
    assert (loss.metric_type, loss.metric_value) == ("loss", saved.held_out.loss)
    assert accuracy.dataset_revision == SOURCE["revision"]
    assert {one.metric_name: one.metric_value for one in verdicts} == {
        f"scores labelled {label}": sum(item.label == label for item in results.indicators)
        for label in (
            "SUPPORTED_FOR_ALARM",
            "SCOPE_LIMITED",
            "INCONCLUSIVE",
            "ESTIMATOR_UNSTABLE",
            "RANK_ONLY",
        )
    }
    text = read.text
    for item in results.indicators:
        assert f"| {item.name} | {item.label} |" in text
    for entry in saved.fingerprints.values():
        assert entry.content_hash in text
    assert '"prime": 19' in text
    for picture in pictures:
        assert f"]({picture.name})" in text


def test_a_card_without_results_has_no_verdicts(saved: SavedModel, tmp_path: Path) -> None:
    card, *pictures = write_model_card(saved, tmp_path, place="acme/small")
    assert [path.name for path in pictures] == ["training.png"]
    read = ModelCard.load(card)
    found: list[EvalResult] = read.data.eval_results or []
    assert [one.metric_type for one in found] == ["accuracy", "loss"]
    assert "Which scores" not in read.text


def test_a_card_without_figures_shows_none(
    saved: SavedModel, results: Results, tmp_path: Path
) -> None:
    written = write_model_card(saved, tmp_path, results=results, place="acme/small", figures=False)
    assert [path.name for path in written] == ["README.md"]
    assert "![" not in written[0].read_text(encoding="utf-8")


def test_a_push_is_one_commit_and_loads(
    hub: Hub, commands: Terminal, saved: SavedModel, results: Results, tmp_path: Path
) -> None:
    judged = results.write(tmp_path / "results.yaml")
    own = {path.name: path.read_bytes() for path in saved.folder.iterdir()}
    (saved.folder / "notes.txt").write_text("for me alone")
    printed = commands.done("model", "push", saved.folder, "acme/small", "--results", judged)
    repository = hub.repositories["model:acme/small"]
    assert len(repository.commits) == 2
    assert f"pushed  {hub.url}/acme/small ({repository.sha})" in printed
    assert {"tokenizer.json", "tokenizer_config.json", "generation_config.json"} <= own.keys()
    cards = {"README.md", "training.png", "verdicts.png", "results.yaml"}
    assert repository.files.keys() == own.keys() | cards
    assert {name: repository.files[name] for name in own} == own
    assert repository.files["results.yaml"] == judged.read_bytes()
    assert b"[All verdicts](results.yaml)" in repository.files["README.md"]
    card = repository.files["README.md"].decode()
    assert run_lines(card) == lines_of(card).rsplit("  # ")[-1]
    header = yaml.safe_load(repository.files["README.md"].split(b"---")[1])
    assert header["model-index"][0]["name"] == "small"
    # By the code that travels with the model; test_pretrained.py shows that it needs no more.
    assert f"revision='{repository.sha}'" in printed.replace("'\"'\"'", "'")
    name = AutoConfig.from_pretrained("acme/small").auto_map["AutoModelForCausalLM"]
    code = get_class_from_dynamic_module(name, "acme/small")
    assert code.__module__.startswith("transformers_modules.acme.small.")
    rows = torch.tensor([[20, 3, 19, 4, 21]])
    assert torch.equal(
        code.from_pretrained("acme/small")(rows).logits, load_model(saved.folder)(rows).logits
    )


def test_the_cards_first_lines_run(saved: SavedModel, tmp_path: Path) -> None:
    card, *_ = write_model_card(saved, tmp_path, place=str(saved.folder), figures=False)
    text = card.read_text(encoding="utf-8")
    assert saved.example is not None
    assert text.index("```python") < text.index("A small transformer")
    assert lines_of(text).endswith(f"# {saved.example.answered}")
    assert run_lines(text) == saved.example.answered
    assert "It reads 0 to 18, + and =" in text.replace("\\", "")


def test_a_model_without_tokenizer_still_loads_and_has_a_card(
    saved: SavedModel, tmp_path: Path
) -> None:
    folder = shutil.copytree(saved.folder, tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    older = read_saved_model(folder)
    assert older.example is None
    assert older.fingerprints == saved.fingerprints
    card, *_ = write_model_card(older, tmp_path, place=str(folder), figures=False)
    text = card.read_text(encoding="utf-8")
    assert run_lines(text) == ""
    assert "AutoModelForCausalLM" in lines_of(text)
    assert "pipeline(" not in text


def test_another_tokenizer_is_not_published(saved: SavedModel, tmp_path: Path) -> None:
    from gmb_hf.modeling import GrokkingTokenizer
    from gmb_hf.tasks.registry import get_task

    folder = shutil.copytree(saved.folder, tmp_path / "model")
    GrokkingTokenizer.of_tasks([get_task("sub_p19")]).save_pretrained(folder)
    with pytest.raises(InputError, match=r"tokenizer\.json: is not the tokenizer of add_p19; del"):
        read_saved_model(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json: could not be read: .*; delete "):
        read_saved_model(folder)


def test_other_weights_than_the_logs_are_not_pushed(
    hub: Hub, commands: Terminal, saved: SavedModel, tmp_path: Path
) -> None:
    from gmb_hf.training.stacked import initial_model

    keep_model(initial_model(saved.config, 5), saved.log, tmp_path, 5, saved.config.task.build())
    place = model_folder(tmp_path, 5)
    said = commands.refused("model", "push", place, "acme/small")
    assert said.startswith(f"{place}: these weights are not those of its log: held-out accuracy")
    assert hub.requests == []


def test_a_model_whose_card_tells_of_another_is_refused(saved: SavedModel, tmp_path: Path) -> None:
    folder = shutil.copytree(saved.folder, tmp_path / "model")
    card, *_ = write_model_card(saved, folder, place="acme/small")
    assert read_saved_model(folder).fingerprints == saved.fingerprints
    own = saved.fingerprints["weights"].content_hash
    card.write_text(card.read_text().replace(own, "f" * 64))
    with pytest.raises(InputError, match=r"README.md: weights has the fingerprint .* this model"):
        read_saved_model(folder)


def test_what_is_no_kept_model_is_refused(
    saved: SavedModel, results: Results, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="holds no model"):
        read_saved_model(tmp_path)
    folder = shutil.copytree(saved.folder, tmp_path / "model")
    (folder / "log.parquet").unlink()
    with pytest.raises(InputError, match=r"no log\.parquet of .* as it is: hf upload ORG/NAME"):
        read_saved_model(folder)
    plain = results.plain()
    plain["boundary"]["task"] = "sub_p5"
    with pytest.raises(InputError, match="whose task is 'sub_p5', this model's is 'add_p19, 80%"):
        write_model_card(saved, tmp_path, results=Results.parse(plain, where="x"), place="a/b")


def test_models_that_cannot_be_kept_are_named(config: RunConfig, trained: Path) -> None:
    from gmb_hf.training.seeds import train_seeds

    sources = hub_entry("data", [SOURCE])
    with pytest.raises(InputError, match="--save-models: seed 9 is not trained here"):
        train_seeds(config, range(8), trained, about=sources, keep=[9])
    with pytest.raises(InputError, match="seeds 2 were trained here already and their models not"):
        train_seeds(config, range(8), trained, about=sources, keep=[2, 5])
    before = (trained / "models" / "seed_5" / "model.safetensors").stat().st_mtime_ns
    train_seeds(config, range(8), trained, about=sources, keep=[5])
    assert (trained / "models" / "seed_5" / "model.safetensors").stat().st_mtime_ns == before


def test_a_training_writes_the_cards_of_its_models(tmp_path: Path, commands: Terminal):
    out = tmp_path / "out"
    few = ["--set", "training.steps=25", "--seeds", "0:2", "--save-models", "0:2"]
    commands.done("train", "--preset", "quick", *few, "--out", out)
    for seed in (0, 1):
        card = Card.read(out / "models" / f"seed_{seed}")
        assert set(card.entries) == {"data", "weights"}
    assert write_cards(out) == ([], [])
    (out / "models" / "seed_0" / "README.md").unlink()
    (out / "models" / "seed_0" / "tokenizer.json").write_text("{}")
    cards, notes = write_cards(out)
    assert cards == []
    assert "seed_0 has no card: " in notes[0]
