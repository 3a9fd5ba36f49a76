"""The file of answers is read strictly: every fault is one line with its number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from answers_builders import answer, answers, write_answers

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.answers.files import (
    by_checkpoint,
    read_answers,
    require_same_prompts,
)

GOOD = {"run": "a", "step": 4, "prompt": "p", "sample": 0, "answer": "x"}


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    odd = answer("ü", 0, "line\nbreak \u2028", 0, "\x00\x1c", seed=7)
    given = [*answers(), odd]
    path = write_answers(tmp_path / "a.jsonl", given)
    assert list(read_answers(path)) == given


def test_blank_lines_and_further_keys_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\ufeff\n" + json.dumps({**GOOD, "model": "x", "seed": None}))
    (answer,) = read_answers(path)
    assert (answer.run, answer.seed) == ("a", None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": 3}, "a.jsonl:2: run must be text .put it in quotes., got 3"),
        ({"run": " "}, "a.jsonl:2: run: is empty; name the run that"),
        ({"step": 1.0}, "a.jsonl:2: step must be a whole number, got 1.0"),
        ({"step": True}, "step must be a whole number, got True"),
        ({"sample": -1}, "sample must be greater than or equal to 0, got -1"),
        ({"answer": None}, "answer must be text .*, got None"),
        ({"prompt": ["p"]}, r"prompt must be text .*, got \['p'\]"),
        ({"answer": "\ud800"}, "a.jsonl:2: holds half of a surrogate pair"),
        ({"step": 10**30}, "a.jsonl:2: the integer 10+ does not fit 64 bits"),
        ({"seed": 2**53 + 1}, "seed must be less than or equal to 9007199254740992, got 9007"),
        ({"seed": "3"}, "seed must be a whole number, got '3'"),
        ({}, "a.jsonl:2: run 'a', step 4, sample 0 of this prompt stands in line 1 already"),
        ({"sample": 1, "seed": 5}, "a.jsonl:2: run 'a' has the seed 5 here and None before"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = written(tmp_path / "a.jsonl", GOOD, {**GOOD, **change})
    with pytest.raises(InputError, match=message):
        read_answers(path)


@pytest.mark.parametrize("key", GOOD)
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    rest = {name: value for name, value in GOOD.items() if name != key}
    path = written(tmp_path / "a.jsonl", rest)
    with pytest.raises(InputError, match=f"a.jsonl:1: {key} is required; add it"):
        read_answers(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.jsonl: holds no answers; a line is one JSON object {run, step, prompt"),
        ("\n \n", "a.jsonl: holds no answers"),
        (json.dumps(GOOD) + "\n" + json.dumps(GOOD)[:20], "a.jsonl:2: ends in the middle of a l"),
        ("[1]\n", "a.jsonl:1: is no JSON object {run, step"),
        ('{"run": "a", "run": "b"}\n', "a.jsonl:1: .*'run' .*twice"),
        ("run,step\n", "a.jsonl:1: is not JSON"),
    ],
)
def test_what_is_no_file_of_answers(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_answers(path)


def test_other_bytes_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n\xff\xfe\n")
    with pytest.raises(InputError, match=r"a.jsonl:2: is not UTF-8 text \(byte 0 of the line\)"):
        read_answers(path)
    with pytest.raises(InputError, match="there is no such file"):
        read_answers(tmp_path / "b.jsonl")


def test_checkpoints_must_have_been_asked_the_same() -> None:
    grouped = by_checkpoint(answers())
    assert list(grouped) == [("seed_0", 0), ("seed_0", 10), ("seed_1", 0), ("seed_1", 10)]
    require_same_prompts(grouped)
    lacking = by_checkpoint([*answers(), answer("seed_0", 10, "more", 0, "x")])
    with pytest.raises(InputError, match="step 0: no answer to the prompt 'more', which run 'seed"):
        require_same_prompts(lacking)
