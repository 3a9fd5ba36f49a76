"""`evaluate.load("gmb_operationality")` from an empty folder, offline, and the cards' examples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gmb_hf.metrics
from gmb_hf.cli import main

# Every example of every script and card, run as its reader would.
EXAMPLES = """
import doctest, pathlib, sys
import evaluate

parser, flags = doctest.DocTestParser(), doctest.NORMALIZE_WHITESPACE
runner = doctest.DocTestRunner(optionflags=flags)
for name, card in zip(sys.argv[1::2], sys.argv[2::2]):
    for where, text in (
        (name, evaluate.load(name).inputs_description),
        (card, pathlib.Path(card).read_text(encoding="utf-8")),
    ):
        test = parser.get_doctest(text, {}, where, where, 0)
        loads = sum("evaluate.load" in example.source for example in test.examples)
        asked = sum(bool(example.want) for example in test.examples)
        assert loads and asked >= 2, f"{where}: two examples that load the module are wanted"
        runner.run(test)
print(runner.summarize(verbose=False))
sys.exit(runner.failures > 0)
"""


# Names that nothing has installed, then the way that needs no installing.
NOT_INSTALLED = """
import evaluate, gmb_hf
try:
    evaluate.load("gmb_operationality")
except FileNotFoundError as error:
    print(error)
print(gmb_hf.metrics.load("gmb_operationality").name)
"""


def run(folder: Path, env: dict[str, str], *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def test_the_literal_call_in_every_example(
    empty: Path, offline: dict[str, str], own_caches: None, capsys: pytest.CaptureFixture[str]
) -> None:
    from evaluate import config

    assert main(["metrics", "install"]) == 0
    printed = capsys.readouterr().out.splitlines()
    wrote = [Path(line.split(maxsplit=1)[1]) for line in printed if line.startswith("wrote")]
    assert wrote
    assert all(path.is_relative_to(config.HF_MODULES_CACHE) for path in wrote)

    pairs = [
        part
        for name in gmb_hf.metrics.names()
        for part in (name, gmb_hf.metrics.folder() / name / "README.md")
    ]
    env = {**offline, "HF_MODULES_CACHE": str(config.HF_MODULES_CACHE)}
    run(empty, env, "-c", EXAMPLES, *pairs)
    assert list(empty.iterdir()) == []


def test_without_installing_the_plain_name_is_unknown(empty: Path, offline: dict[str, str]) -> None:
    unknown, name = run(empty, offline, "-c", NOT_INSTALLED).splitlines()
    assert "Couldn't find a module script" in unknown
    assert name == "gmb_operationality"
