"""`gmb judge` and `gmb runs join` as they are typed, up to the label of a judge's score."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
import torch
import yaml
from command_line import DESIGN, gmb, refused
from synthetic import synthetic_runlog
from transformers import ByT5Tokenizer, GPT2Config, GPT2LMHeadModel

from gmb_hf import Results, RunLog
from gmb_hf.design.design import Design
from gmb_hf.training.launch import silence_transformers


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints."""
    folder = tmp_path_factory.mktemp("outputs") / "seed_3"
    tokenizer = ByT5Tokenizer(extra_ids=0)
    shape = {"n_positions": 48, "n_embd": 8, "n_layer": 1, "n_head": 1, "initializer_range": 0.5}
    for step in (10, 20):
        torch.manual_seed(step)
        config = GPT2Config(vocab_size=259, bos_token_id=1, eos_token_id=1, **shape)
        with silence_transformers():
            GPT2LMHeadModel(config).save_pretrained(folder / f"checkpoint-{step}")
        tokenizer.save_pretrained(folder / f"checkpoint-{step}")
    return folder


@pytest.fixture
def answered(outputs: Path) -> Path:
    Path("prompts.txt").write_text("The cat\nA dog\n")
    done = gmb(
        *("judge", "answer", "--checkpoints", outputs / "checkpoint-10", outputs / "checkpoint-20"),
        *("--prompts", "prompts.txt", "--new-tokens", 5, "--samples", 3, "--out=answers.jsonl"),
    )
    assert done.code == 0, done
    assert "2 checkpoints of 1 runs, 2 prompts, 3 answers each; 2 checkpoints were" in done.out
    assert done.next_command == "gmb judge rate answers.jsonl --judge MODEL --out scores.parquet"
    return Path("answers.jsonl")


def test_answers_rated_and_joined(
    outputs: Path, answered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = ("--judge", outputs / "checkpoint-10", "--how=likelihood", "--cache=c.sqlite")
    done = gmb("judge", "rate", answered, *asking, "--out=s.csv", "--name=likely")
    assert done.code == 0, done
    assert "12 answers, 12 of them distinct: 12 rated now, 0 known from before" in done.out
    monkeypatch.delattr(
        "gmb_hf.protocol.answers.models.Model._loaded"
    )  # what is known needs no model
    again = gmb("judge", "rate", answered, *asking, "--out=t.csv", "--name=likely")
    assert "0 rated now, 12 known from before" in again.out
    assert Path("s.csv").read_bytes() == Path("t.csv").read_bytes()
    assert done.next_command == "gmb runs join --runs LOGS --scores s.csv --out joined.parquet"

    log = RunLog.from_arrays(["seed_3"], [0, 10, 20], {"test_acc": [[0, 0.1, 0.9]]})
    log.write("log.parquet")
    joined = gmb(
        "runs", "join", "--runs", "log.parquet", "--scores", "s.csv", "--out=joined.parquet"
    )
    assert joined.code == 0, joined
    assert "likely: 2 checkpoints of 1 runs have a score." in joined.out
    assert "Kept are the 2 of 3 rows of these runs that have a score." in joined.out
    assert shlex.split(joined.next_command)[:9] == [
        *("gmb", "evaluate", "--runs", "joined.parquet", "--no-test-labels"),
        *("--metric", "test_acc", "--score", "likely"),
    ]
    about = RunLog.read("joined.parquet").metadata["joined"]["likely"]
    assert about["family"] == "judge"
    assert about["made_by"].startswith(f"judge {outputs / 'checkpoint-10'} (sha256:")


def test_consistency_feeds_its_indicator(answered: Path) -> None:
    done = gmb("judge", "consistency", answered, "--first-words=1", "--any-case", "--out=c.jsonl")
    assert done.code == 0, done
    rows = [json.loads(line) for line in Path("c.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [10, 20]
    assert "disagreement of 3 samples, first 1 words, in any case" in rows[0]["made_by"]
    RunLog.from_arrays(["seed_3"], [10, 20], {"loss": [[1, 2]]}).write("log.parquet")
    assert (
        gmb("runs", "join", "--runs=log.parquet", "--scores=c.jsonl", "--out=joined.parquet").code
        == 0
    )
    assert "self_consistency_disagreement" in gmb("indicators", "--runs", "joined.parquet").out


def judged_logs(chain: Path) -> None:
    """The chain's logs with a column that a judge is said to have made."""
    for name, runs, first in (("explore", 30, 0), ("heldout", 60, 100)):
        log = synthetic_runlog(runs, seed=first, first_seed=first)
        table = log.table.select(["run", "step", "embedding_gini"])
        table = table.rename_columns(["run", "step", "kind"])
        said = pa.array(["judge acme/kind@1"] * len(table))
        Path(f"{name}.jsonl").write_text(
            "".join(
                json.dumps(row) + "\n" for row in table.append_column("made_by", said).to_pylist()
            )
        )
        done = gmb(
            "runs",
            "join",
            "--runs",
            chain / f"{name}.csv",
            "--scores",
            f"{name}.jsonl",
            "--out",
            f"{name}.parquet",
        )
        assert done.code == 0, done


def test_a_judge_passes_the_gates_of_all_others(chain: Path) -> None:
    judged_logs(chain)
    design = Design.read(chain / "prereg.yaml").replace(
        candidates=[
            {"name": "kind", "family": "judge", "x_sees_test_labels": False},
            {"name": "embedding_gini", "family": "external"},
        ]
    )
    design.write("prereg.yaml")
    done = gmb("lock", "--prereg=prereg.yaml", "--runs=explore.parquet", "--out=lock.yaml")
    assert done.code == 0, done
    done = gmb("evaluate", "--lock=lock.yaml", "--runs=heldout.parquet", "--out=results")
    assert done.code == 0, done
    found = {item.name: item for item in Results.read("results/results.yaml").indicators}
    assert (found["kind"].family, found["kind"].x_sees_test_labels) == ("judge", False)
    assert found["kind"].label == found["embedding_gini"].label
    assert yaml.safe_load(Path("lock.yaml").read_text())["candidates"][0]["family"] == "judge"

    own = gmb("evaluate", "--runs=heldout.parquet", "--score=kind", *DESIGN, "--out=own")
    assert own.code == 0, own
    (item,) = [one for one in Results.read("own/results.yaml").indicators if one.name == "kind"]
    assert (item.family, item.x_sees_test_labels) == ("judge", None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rate", "a.jsonl", "--judge=m", "--out=x.csv"), "error: a.jsonl: there is no such file"),
        (("rate", "a.jsonl", "--judge=m", "--out=x.txt"), "error: --out x.txt: scores are written"),
        (("consistency", "a.jsonl", "--out=x.txt"), "error: --out x.txt: scores are written as"),
        (
            ("answer", "--checkpoints", "no", "--prompts=p", "--out=x"),
            "error: --checkpoints no: there is no",
        ),
        (
            ("answer", "--checkpoints", "no", "--prompts=p", "--out=x", "--greedy", "--samples=3"),
            "error: --greedy gives one answer",
        ),
    ],
)
def test_one_line_for_each_mistake(words: tuple[str, ...], message: str) -> None:
    assert refused("judge", *words).startswith(message)


def test_answers_and_prompts_are_not_written_over() -> None:
    answer = {"run": "r", "step": 1, "prompt": "p", "sample": 0, "answer": "x"}
    lines = "".join(json.dumps({**answer, "sample": sample}) + "\n" for sample in range(2))
    Path("a.jsonl").write_text(lines)
    for command in (
        ("consistency", "a.jsonl", "--out=./a.jsonl"),
        ("rate", "a.jsonl", "--judge=x", "--out=a.jsonl"),
        ("answer", "--checkpoints=x", "--prompts=a.jsonl", "--out=a.jsonl"),
    ):
        assert "a.jsonl: is a file that is read; write to another one" in refused("judge", *command)
    assert Path("a.jsonl").read_text() == lines


def test_a_join_that_cannot_be_written() -> None:
    said = refused("runs", "join", "--runs=x", "--scores=y", "--out=z.csv")
    assert said == "error: --out z.csv: the table is written as Parquet; name it *.parquet"
