"""`gmb heldout`: checkpoints on files, the table, the figure, and what is refused."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from pathlib import Path

import pytest
import torch
from command_line import gmb, refused
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from gmb_hf.cli.options import spread
from gmb_hf.protocol.language.config import language_preset
from gmb_hf.protocol.language.data import load_tokenizer
from gmb_hf.protocol.language.train import model_shape, save_checkpoint
from gmb_hf.training.stacked import seeded_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints of the smoke preset, untrained, and two texts."""
    place = tmp_path_factory.mktemp("heldout")
    tokenizer = load_tokenizer("byte")
    counts = [0] * 256
    counts[97:123] = [10] * 26
    about = {"texts": [{"name": "letters", "source": "x"}], "bytes": 260, "byte_counts": counts}
    for name, seed in (("dense", 0), ("other", 1)):
        model = seeded_model(model_shape(language_preset("smoke"), tokenizer), seed)
        save_checkpoint(place / name, model, tokenizer, about)
    (place / "a.txt").write_text("once upon a time\n<|endoftext|>\nit was\n" * 20)
    (place / "b.txt").write_text("Größe. " * 50, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def compared(folder: Path) -> tuple[Path, str]:
    """The folder of a comparison, and what the command printed."""
    out = folder / "out"
    done = gmb(
        *("heldout", "--checkpoint", folder / "dense", f"wide={folder}/other"),
        *("--text", f"a={folder}/a.txt", f"b={folder}/b.txt", "--out", out),
        figures=True,
    )
    assert done.code == 0, done
    return out, done.out


def test_every_model_on_every_text(compared: tuple[Path, str]):
    out, printed = compared
    held = json.loads((out / "heldout.json").read_text())
    rows = {(row["text"], row["model"]): row for row in held["results"]}
    baseline = "byte frequencies of letters"
    assert list(rows) == [(text, model) for text in "ab" for model in ("dense", "wide", baseline)]
    for row in rows.values():
        bits = row["loss"] * row["tokens"] / (row["bytes"] * math.log(2))
        assert row["bits_per_byte"] == pytest.approx(bits)
        assert row["perplexity"] == pytest.approx(math.exp(row["loss"]))
    tale = rows["a", "dense"]
    # "it was" and the next "once" stand in one document.
    assert (tale["documents"], tale["bytes"]) == (21, 16 + 19 * 23 + 7)
    assert tale["tokens"] == tale["bytes"] + tale["documents"]
    assert rows["b", "dense"]["bytes"] == len("Größe. ".encode()) * 50
    assert rows["a", baseline]["is_baseline"]
    assert held["models"]["dense"]["stride"] == 16
    assert held["models"]["wide"]["checkpoint"].endswith("/other")
    assert held["texts"]["a"]["separator"] == "<|endoftext|>"
    about = held["texts"]["b"]
    assert len(about["content_hash"]) == 64
    assert about["fingerprint"] == f"{about['content_hash'][:16]}|null|{about['documents']}"
    assert "Windows: 32 tokens, stride 16." in printed
    assert "a (460 bytes, documents: 21)" in printed


def test_the_table_and_the_figure(compared: tuple[Path, str]):
    out, _ = compared
    with (out / "heldout.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    held = json.loads((out / "heldout.json").read_text())["results"]
    assert [float(row["loss"]) for row in rows] == [row["loss"] for row in held]
    assert (out / "heldout.md").read_text().startswith("| text | model | loss | perplexity |")
    assert r"\begin{tabular}{llrrrrrr}" in (out / "heldout.tex").read_text()
    assert (out / "heldout.png").stat().st_size > 10_000
    assert (out / "heldout.svg").exists()


def test_stride_block_and_batch_are_stated(folder: Path, tmp_path: Path):
    found = []
    for batch in (1, 7):
        done = gmb(
            *("heldout", "--checkpoint", folder / "dense", "--text", f"a={folder}/a.txt"),
            *("--block", 16, "--stride", 16, "--batch-size", batch, "--out", tmp_path / str(batch)),
        )
        assert "Windows: 16 tokens, stride 16." in done.out
        found.append(json.loads((tmp_path / str(batch) / "heldout.json").read_text()))
    assert found[0]["models"] == found[1]["models"]
    losses = [held["results"][0]["loss"] for held in found]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_several_values_after_one_option():
    words = ["--text", "a", "b", "--text=c", "--out", "d", "e"]
    assert spread(words, ["--text"]) == [
        *("--text", "a", "--text", "b", "--text=c", "--out", "d", "e")
    ]


def copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def other_tokenizer(folder: Path, words: int) -> None:
    """Put a tokenizer of so many words into the folder, in place of its own."""
    core = Tokenizer(models.WordLevel({f"w{n}": n for n in range(words)}, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=core, eos_token="w1").save_pretrained(folder)


def test_a_checkpoint_with_another_tokenizer_is_refused(folder: Path, tmp_path: Path):
    text = ("--text", f"a={folder}/a.txt", "--out", tmp_path / "out")
    # Of the same size: the hash in the model's config tells them apart.
    same = copied(folder / "dense", tmp_path / "same")
    other_tokenizer(same, 259)
    assert re.search(
        r"same: the tokenizer is another than the model was trained with .* save the right one",
        refused("heldout", "--checkpoint", same, *text),
    )
    foreign = tmp_path / "foreign"
    torch.manual_seed(0)
    shape = GPT2Config(vocab_size=100, n_positions=16, n_embd=8, n_layer=1, n_head=1)
    GPT2LMHeadModel(shape).save_pretrained(foreign)
    assert "holds a model but no tokenizer" in refused("heldout", "--checkpoint", foreign, *text)
    for words in (259, 50):
        other_tokenizer(foreign, words)
        assert f"the tokenizer has {words} tokens and the model 100" in refused(
            "heldout", "--checkpoint", foreign, *text
        )
    other_tokenizer(foreign, 96)  # a vocabulary that is padded to a round number
    assert gmb("heldout", "--checkpoint", foreign, *text).code == 0


def test_what_is_refused(folder: Path, tmp_path: Path):
    empty, latin = tmp_path / "empty.txt", tmp_path / "latin.txt"
    empty.touch()
    latin.write_bytes(b"Jos\xe9")
    model, text = folder / "dense", f"a={folder}/a.txt"
    broken = copied(model, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"none")
    pickled = copied(model, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    for checkpoint, given, message in [
        ([pickled], [text], "pickled: holds no weights as safetensors, and pickles are not loaded"),
        ([tmp_path / "none"], [text], "none: there is no such folder"),
        ([tmp_path], [text], "holds no model (no config.json)"),
        ([broken], [text], "broken: model.safetensors was damaged or changed after it was saved"),
        (["no/such/folder"], [text], "no/such/folder: there is no such folder"),
        ([model, model], [text], "--checkpoint: two are named 'dense'; name them apart"),
        ([f"={model}"], [text], "write it as FOLDER or NAME=FOLDER"),
        ([model], ["story"], "text 'story' is unknown; known: lambada, ptb, shakespeare"),
        ([model], [f"e={empty}"], "empty.txt: is empty"),
        ([model], [f"l={latin}"], "latin.txt: is not UTF-8 text (byte 3)"),
        ([model], [f"n={tmp_path}/n.txt"], "n.txt: there is no such file"),
        ([model], [text, "--stride", 33], "--stride 33 is longer than a block of 32"),
        ([model], [text, "--block", 64], "--block 64: the model takes at most 32 tokens"),
        ([model], [text, "--batch-size", 0], "--batch-size must be a whole number"),
        ([model], [text, "--separator", ""], "the separator of documents is empty"),
        ([model], [text, "--device", "gpu"], "device 'gpu' is unknown"),
    ]:
        line = refused(
            "heldout", "--checkpoint", *checkpoint, "--text", *given, "--out", tmp_path / "out"
        )
        assert message in line
    assert not (tmp_path / "out").exists()


def test_a_diverged_model_is_named(folder: Path, tmp_path: Path):
    model = seeded_model(model_shape(language_preset("smoke"), load_tokenizer("byte")), 0)
    with torch.no_grad():
        model.model.norm.weight.fill_(math.nan)
    place = save_checkpoint(
        tmp_path / "nan", model, load_tokenizer("byte"), {"byte_counts": [1] * 256}
    )
    line = refused(
        "heldout", "--checkpoint", place, "--text", f"a={folder}/a.txt", "--out", tmp_path / "o"
    )
    assert "its loss on a is no finite number; its training diverged" in line


def test_names_are_shown_as_they_are(folder: Path, tmp_path: Path):
    name = "a|b_$x$ <i>"
    done = gmb(
        *("heldout", "--checkpoint", f"{name}={folder}/dense", "--text", f"a={folder}/a.txt"),
        *("--out", tmp_path),
    )
    assert done.code == 0, done
    assert r"a\|b\_\$x\$ \<i\>" in (tmp_path / "heldout.md").read_text()
    assert r"a\textbar{}b\_\$x\$" in (tmp_path / "heldout.tex").read_text()
