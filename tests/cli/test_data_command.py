"""`gmb data build` and `gmb data verify`, as a user types them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import DESIGN, gmb, refused
from synthetic import synthetic_runlog

from gmb_hf.benchmark.results import Results
from gmb_hf.runs.runlog import RunLog
from gmb_hf.tasks.shards import read_shard

ROOT = Path(__file__).resolve().parents[2]
JUDGING = ("--metric=test_acc", "--score=embedding_gini", *DESIGN)


def following(done) -> list[str]:
    """The next command, which must be one of `gmb`."""
    name, *arguments = shlex.split(done.next_command)
    assert name == "gmb"
    return arguments


def test_built_verified_and_what_to_type_next(tmp_path: Path):
    done = gmb("data", "build", "modular", "--task=add_p5", "--task=sub_p7", "--out", tmp_path)
    assert (done.code, done.err) == (0, "")
    assert f"wrote   {tmp_path / 'README.md'}" in done.out
    verified = gmb(*following(done))
    assert verified.code == 0
    assert verified.out.count("as its card says") == 2
    assert "load_dataset(" in verified.next_command


def test_a_fault_is_exit_code_1(tmp_path: Path):
    gmb("data", "build", "formal", "--task=parity_4", "--out", tmp_path)
    shard = tmp_path / "parity_4" / "full-00000-of-00001.parquet"
    shard.unlink()
    done = gmb("data", "verify", tmp_path)
    assert done.code == 1
    assert "config  parity_4 v1 " in done.out
    assert "|42|32 differs" in done.out
    assert f"fault   {tmp_path / 'parity_4'}: no file of split 'full' is here" in done.out
    assert "1 fault, named above" in done.err


def test_a_config_that_somebody_added_is_named(tmp_path: Path):
    gmb("data", "build", "formal", "--task=parity_4", "--out", tmp_path)
    card = tmp_path / "README.md"
    entry = "configs:\n- config_name: theirs\n  data_files:\n  - split: full\n    path: theirs/*\n"
    card.write_text(card.read_text().replace("configs:\n", entry, 1))
    done = gmb("data", "verify", tmp_path)
    assert done.code == 0
    assert "note: theirs: the card has no fingerprint of it; it was not verified" in done.out
    assert "theirs" not in gmb("data", "verify", tmp_path, "--config=parity_4").out


def test_everything_at_once(tmp_path: Path):
    text = tmp_path / "stories.txt"
    text.write_text("Once.<|endoftext|>Twice.")
    logs = synthetic_runlog(3).write(tmp_path / "mine" / "logs" / "a.parquet").parent
    out = tmp_path / "out"
    done = gmb(
        *("data", "build", "--all", "--out", out, "--runs", logs),
        *("--text", f"tinystories={text}", "--text", f"mine={text}", "--license", "mine=mit"),
        "--runs-license=mit",
    )
    assert done.code == 0, done.err
    kinds = [path.name for path in sorted(out.iterdir())]
    assert kinds == [
        "gmb-formal",
        "gmb-groups",
        "gmb-heldout",
        "gmb-icl",
        "gmb-modular",
        "gmb-runs",
    ]
    for kind in kinds:
        assert gmb("data", "verify", out / kind).code == 0
    assert (out / "gmb-runs" / "mine" / "full-00000-of-00001.parquet").exists()


def test_several_texts_after_one_option(tmp_path: Path):
    (tmp_path / "a.txt").write_text("A text.")
    given = [f"{name}={tmp_path / 'a.txt'}" for name in ("one", "two")]
    done = gmb("data", "build", "heldout", "--out", tmp_path, "--text", *given, "--license=mit")
    assert done.code == 0, done.err
    assert done.out.count("config  ") == 2


def test_runs_are_judged_from_a_dataset_as_from_their_logs(tmp_path: Path):
    path = synthetic_runlog(44).write(tmp_path / "logs.parquet")
    out = tmp_path / "data"
    assert gmb("data", "build", "runs", "--runs", path, "--license=mit", "--out", out).code == 0
    for name, source in (("logs", path), ("data", tmp_path / "data" / "logs")):
        done = gmb("evaluate", "--runs", source, *JUDGING, "--out", tmp_path / "judged" / name)
        assert done.code == 0, done.err
    from_logs, from_data = (
        Results.read(tmp_path / "judged" / name / "results.yaml") for name in ("logs", "data")
    )
    assert from_data == from_logs
    provenance = from_data.x_provenance
    assert provenance is not None
    assert provenance.evaluation_fingerprint == RunLog.read(path).fingerprint()
    assert provenance.evaluation_fingerprint in (tmp_path / "data" / "README.md").read_text()


def test_an_earlier_version_is_held(tmp_path: Path):
    log = synthetic_runlog(5)
    path = tmp_path / "logs.parquet"
    for count, version, out in ((3, "v1", "old"), (5, "v2", "new"), (4, "v1", "other")):
        log.select(log.runs[:count]).write(path)
        where = ("--runs", path, "--license=mit", "--out", tmp_path / out)
        assert gmb("data", "build", "runs", *where, "--version", version).code == 0
    done = gmb("data", "verify", tmp_path / "new", "--previous", tmp_path / "old")
    assert done.code == 0
    assert " ".join(done.out.split()).count(f"Everything in {tmp_path / 'old'} is in") == 1
    message = refused("data", "verify", tmp_path / "other", "--previous", tmp_path / "old")
    assert "config 'logs' is frozen as v1 with other items" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("build",), "say what to build: modular, groups, formal, icl, heldout, runs, or --all"),
        (("build", "modular", "--out=D", "--task=parity_8"), "is built by `gmb data build formal`"),
        (("build", "modular", "--out=D", "--task=add_p8"), "prime must be a prime number, got 8"),
        (("build", "modular", "--out=D", "--version=2"), "--version '2': write v1, v2 and so on"),
        (("build", "modular", "--out=D", f"--version=v{'9' * 5000}"), "write v1, v2 and so on"),
        (
            ("build", "icl", "--out=D", "--task=linear_p11_k100000"),
            "examples must be at most 4,096",
        ),
        (("build", "formal", "--out=D", "--fraction=2"), "fraction"),
        (("build", "heldout", "--out=D"), "--text: no text is given"),
        (("build", "heldout", "--out=D", "--text=x=none.txt"), "none.txt: there is no such file"),
        (("build", "heldout", "--out=D", "--text=x=a.txt", "--license=x="), "write LICENCE, or"),
        (("build", "heldout", "--out=D", "--text=x=a.txt"), "under which licence"),
        (("build", "heldout", "--out=D", "--text=tinystories=bad.txt"), "is not UTF-8 text"),
        (("build", "heldout", "--out=D", "--text=tinystories=empty.txt"), "empty.txt: is empty"),
        (("build", "runs", "--out=D"), "no run logs are given"),
        (("build", "runs", "--out=D", "--runs=none"), "none: no such file or folder"),
        (("build", "runs", "--out=D", "--runs=a b=a.txt"), "not a run log"),
        (("verify", "none"), "none: there is no such folder"),
        (
            ("tokenizer", "--text=a.txt", "--out=T", f"--vocabulary={10**12}"),
            "must be at most 1,048",
        ),
        (("export", "--text=a.txt", "--tokenizer=byte", "--prime=7", "--out=E"), "--prime is for"),
        (("verify", "."), "README.md: there is no card; is this folder a dataset?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("A text.")
    Path("bad.txt").write_bytes(b"gr\xfcn")
    Path("empty.txt").touch()
    assert message in refused("data", *arguments)


@pytest.mark.parametrize("kind", ["modular", "formal", "heldout", "runs"])
def test_a_script_for_each_kind(kind: str):
    script = ROOT / "dataset_scripts" / f"build_{kind}.py"
    shown = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert f"build {kind} [OPTIONS]" in shown


def test_held_out_text_as_shards(tmp_path: Path):
    text = tmp_path / "tales.txt"
    text.write_text("ab\n<|endoftext|>\ncde\n")
    words = ("data", "export", "--text", text, "--tokenizer", "byte", "--block", 2)
    done = gmb(*words, "--out", tmp_path / "out")
    assert done.code == 0, done
    shard = read_shard(tmp_path / "out" / "tales.bin")
    end = 1  # of ByT5's vocabulary, in which byte b is the token b + 3
    assert shard.tolist() == [end, *(b + 3 for b in b"ab"), end, *(b + 3 for b in b"cde\n"), end]
    note = json.loads((tmp_path / "out" / "tales.json").read_text())
    assert (note["tokens"], note["bytes"], note["documents"]) == (9, 6, 2)
    assert note["tokenizer"] == "byte"
    # the protocol's B = floor(9 / 2) - 1
    assert done.out.split("B\n")[1].split()[:6] == ["tales.bin", "9", "6", "2", "0.67", "3"]


def test_a_second_export_does_not_replace_the_first(tmp_path: Path):
    export = ("data", "export", "--prime=7", "--out=data")
    assert gmb(*export, "--task=modular_add").code == 0
    held = {path.name: path.read_bytes() for path in Path("data").iterdir()}
    message = refused(*export, "--task=modular_sub")
    assert message == (
        "error: data/train.bin: is there already and holds something else, which is not replaced; "
        "choose another folder with --out, or remove it"
    )
    assert gmb(*export, "--task=modular_add").code == 0  # the same bytes
    Path("train.txt").write_text("once upon a time")
    text = ("data", "export", "--text=train.txt", "--tokenizer=byte", "--out=data")
    assert "data/train.bin: is there already" in refused(*text)
    assert {path.name: path.read_bytes() for path in Path("data").iterdir()} == held
    Path("other/val.bin").mkdir(parents=True)
    to = (*export[:-1], "--out=other", "--task=modular_add")
    assert "other/val.bin: is there already" in refused(*to)
    assert not Path("other/train.bin").exists()


@pytest.mark.parametrize("pattern", ["a**b", '"a\\0b"'])
def test_a_card_whose_paths_are_none(tmp_path: Path, pattern: str):
    gmb("data", "build", "formal", "--task=parity_4", "--out", tmp_path)
    card = tmp_path / "README.md"
    card.write_text(card.read_text().replace("path: parity_4/full-*", f"path: {pattern}"))
    done = gmb("data", "verify", tmp_path)
    assert done.code == 1, done
    assert "fault   " in done.out


def test_a_tokenizer_of_the_text_at_hand(tmp_path: Path):
    from gmb_hf.protocol.language.data import load_tokenizer

    text = tmp_path / "tales.txt"
    text.write_text("once upon a time there was a cat\n" * 40, encoding="utf-8")
    for name in ("one", "two"):
        words = ("data", "tokenizer", "--text", text, "--vocabulary", 300)
        assert gmb(*words, "--out", tmp_path / name).code == 0
    held = [(tmp_path / name / "tokenizer.json").read_bytes() for name in ("one", "two")]
    assert held[0] == held[1]
    tokenizer = load_tokenizer(tmp_path / "one")
    assert 257 < len(tokenizer) <= 300
    for said in ("once upon a time", "Größe 東京 <|endoftext|>"):
        ids = tokenizer(said, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        assert tokenizer.decode(ids) == said
    assert "is there already" in refused(*words, "--out", tmp_path / "one")
    words = ("data", "tokenizer", "--text", text, "--vocabulary", 256, "--out", tmp_path / "no")
    assert "at least 257 tokens" in refused(*words)
    # the preset gpt2 with it: a new model of its vocabulary
    words = ("model", "create", "--preset", "gpt2", "--tokenizer", tmp_path / "one")
    assert gmb(*words, "--out", tmp_path / "model").code == 0
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["vocab_size"] == len(tokenizer)


def test_models_of_the_first_step(tmp_path: Path):
    sizes = {}
    for preset in ("grokking", "formal"):
        out = tmp_path / preset
        assert gmb("model", "create", "--preset", preset, "--out", out).code == 0
        sizes[preset] = json.loads((out / "config.json").read_text())
    for one, block in ((sizes["grokking"], 8), (sizes["formal"], 24)):
        assert (one["vocab_size"], one["max_position_embeddings"]) == (101, block)
        assert (one["num_hidden_layers"], one["hidden_size"]) == (2, 128)
    model = ("model", "create", "--out", tmp_path / "new")
    for words, message in [
        ((*model, "--preset", "groking"), "Did you mean 'grokking'?"),
        ((*model, "--preset", "formal", "--prime", 97), "--prime is of the preset grokking"),
        ((*model, "--preset", "grokking", "--tokenizer", "byte"), "--tokenizer is of the preset"),
        ((*model, "--preset", "grokking", "--prime", 8), "prime must be a prime number, got 8"),
        ((*model, "--preset", "grokking", "--variant", "bandet-4"), "banded"),
        (("model", "create", "--preset", "formal", "--out", out), "is there already"),
    ]:
        assert message in refused(*words)
    assert not (tmp_path / "new").exists()
    for words, message in [
        ((), "say what to export: --task NAME, or --text FILE"),
        (("--task", "parity_8", "--tokenizer", "byte"), "--tokenizer is for --text"),
        (("--text", "none=none.txt"), "none.txt: there is no such file"),
        (("--text", f"a/b={ROOT}/setup.cfg", "--tokenizer", "byte"), "'a/b' is no file name"),
        (("--text", "wikitext"), "Did you mean 'wikitext2'?"),
        (("--text", f"a={ROOT}/setup.cfg", "--block", 0), "--block must be a whole number"),
    ]:
        assert message in refused("data", "export", *words, "--out", tmp_path / "shards")
