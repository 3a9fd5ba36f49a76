"""`evaluate.load("gmb_operationality")` from an empty folder, offline, and the cards' examples."""

from __future__ import annotations

import doctest
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import evaluate
import pytest

import gmb_hf.jobs.metrics
from gmb_hf.cli import main


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, which is the current one, in a process with empty caches."""
    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", tmp_path / "modules")
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path / "metrics")
    monkeypatch.setattr(evaluate.config, "HF_EVALUATE_OFFLINE", True)
    elsewhere = [path for path in sys.path if not (Path(path) / "evaluate_modules").is_dir()]
    monkeypatch.setattr(sys, "path", elsewhere)
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    before = forgotten()
    yield folder
    forgotten()
    sys.modules.update(before)


def forgotten() -> dict[str, ModuleType]:
    """The modules that `evaluate` has copied and imported, which are imported no longer."""
    names = [name for name in sys.modules if name.split(".")[0] == "evaluate_modules"]
    return {name: sys.modules.pop(name) for name in names}


def test_the_literal_call_in_every_example(
    empty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every example of every script and card, run as its reader would."""
    assert main(["metrics", "install"]) == 0
    printed = capsys.readouterr().out.splitlines()
    wrote = [Path(line.split(maxsplit=1)[1]) for line in printed if line.startswith("wrote")]
    assert wrote
    assert all(path.is_relative_to(tmp_path / "modules") for path in wrote)

    parser, runner = (
        doctest.DocTestParser(),
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE),
    )
    for name in gmb_hf.jobs.metrics.names():
        card = gmb_hf.jobs.metrics.folder() / name / "README.md"
        for where, text in (
            (name, evaluate.load(name).inputs_description),
            (str(card), card.read_text(encoding="utf-8")),
        ):
            test = parser.get_doctest(text, {}, where, where, 0)
            loads = sum("evaluate.load" in example.source for example in test.examples)
            expecting = sum(bool(example.want) for example in test.examples)
            assert loads, f"{where}: no example loads the module"
            assert expecting >= 2, f"{where}: two examples that say what comes out are wanted"
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out
    assert list(empty.iterdir()) == []


def test_without_installing_the_plain_name_is_unknown(empty: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Couldn't find a module script"):
        evaluate.load("gmb_operationality")
    assert gmb_hf.jobs.metrics.load("gmb_operationality").name == "gmb_operationality"
