"""Packages load their names when they are first used: each name is there, no other, and typed."""

from __future__ import annotations

import configparser
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gmb_hf

LAZY = ("gmb_hf", "gmb_hf.protocol.answers", "gmb_hf.monitor", "gmb_hf.runs")
ROOT = Path(__file__).resolve().parents[1]


def test_every_name_is_where_the_package_says():
    assert dir(gmb_hf) == sorted(gmb_hf.__all__)
    missing = [name for name in gmb_hf.__all__ if not hasattr(gmb_hf, name)]
    assert not missing, f"gmb_hf has no {', '.join(missing)}"


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'gmb_hf' has no attribute 'Panelx'$"):
        _ = gmb_hf.Panelx


def test_all_lazy_packages_are_known():
    found = {
        ".".join(path.relative_to(ROOT).parent.parts)
        for path in (ROOT / "gmb_hf").rglob("__init__.py")
        if "lazy_names(" in path.read_text(encoding="utf-8")
    }
    assert found == {*LAZY}


@pytest.mark.parametrize("package", LAZY)
def test_a_type_checker_sees_the_names_that_there_are(package: str):
    module = importlib.import_module(package)
    assert module.__file__ is not None
    stub = Path(module.__file__).with_suffix(".pyi")
    seen: dict[str, object] = {}
    exec(compile(stub.read_text(encoding="utf-8"), stub, "exec"), seen)
    del seen["__builtins__"]
    assert seen == {name: getattr(module, name) for name in dir(module)}


# What a user's type checker says of the package: no name is Any.

SNIPPET = """\
import gmb_hf
from gmb_hf.monitor import GMBCallback

log = gmb_hf.RunLog.from_pandas(gmb_hf.RunLog.read("logs").to_pandas())
results = gmb_hf.Results.read("results.yaml")
reveal_type(gmb_hf.RunLog.read)  # Sequence[str] | None; -> RunLog
reveal_type(log.panel("test_acc").values)  # ndarray
reveal_type(gmb_hf.evaluate_runs)  # design: Design; -> Evaluation
reveal_type(gmb_hf.evaluate_lock("lock.yaml", log).results)  # Results
reveal_type(results.indicator("train_loss").x_first_alarm)  # FirstAlarmRecord | None
reveal_type(results.plot())  # Figure
reveal_type(gmb_hf.Prereg.minimal)  # Design
reveal_type(gmb_hf.get_task)  # -> Task
reveal_type(gmb_hf.preset("quick"))  # RunConfig
reveal_type(GMBCallback.__init__)  # lock: Lock | str | Path; Results | str | Path | None
GMBCallback("lock.yaml", "results.yaml", action="pausee")
gmb_hf.Panelx
"""
REVEALED = {
    number: re.findall(r"[^;]+", line.partition("  # ")[2])
    for number, line in enumerate(SNIPPET.splitlines(), start=1)
    if "reveal_type" in line
}
WRONG = {16: "pausee", 17: "Panelx"}
HEAVY = ("torch", "transformers", "accelerate", "sklearn", "scipy", "datasets", "evaluate")
UNSEEN = ("IPython", "rich", "jinja2", "typer", "tokenizers", "PIL", "pyparsing")
"""No type of theirs is in the snippet."""


def not_as_wanted(said: str) -> list[str]:
    """Lines of a type checker, `file:line[:column] ... text`, that are wrong or missing."""
    plain = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z]|ndarray)", "", said)  # modules before names
    lines = {int(found[1]): found[2] for found in re.finditer(r"(?m)\.py:(\d+):(.*)$", plain)}
    wanted = REVEALED | {number: ("error", text) for number, text in WRONG.items()}
    faults = []
    for number in sorted({*wanted, *lines}):
        line = lines.get(number, "nothing is said")
        untyped = number in REVEALED and re.search(r'type is "Any"|-> Any|is "Unknown"', line)
        known = all(text.strip() in line for text in wanted.get(number, ("no line of these",)))
        if untyped or not known:
            faults.append(f"{number}: {line}")
    return faults


@pytest.fixture
def snippet(tmp_path: Path) -> Path:
    (tmp_path / "user.py").write_text(SNIPPET)
    return tmp_path / "user.py"


@pytest.mark.slow
def test_mypy_sees_types(snippet: Path, request: pytest.FixtureRequest):
    config = configparser.ConfigParser()
    config["mypy"] = {"follow_imports": "silent", "ignore_missing_imports": "true"}
    heavy = ",".join(f"{name}.*" for name in (*HEAVY, *UNSEEN))
    # It takes minutes to read torch, and seconds for the stubs of scipy.
    config[f"mypy-{heavy}"] = {"follow_imports": "skip", "follow_imports_for_stubs": "true"}
    config["mypy-gmb_hf.*"] = {"ignore_errors": "true"}  # its signatures without its bodies
    with (snippet.parent / "mypy.ini").open("w") as file:
        config.write(file)
    kept = getattr(request.config, "cache", None)  # None under `-p no:cacheprovider`
    cache = kept.mkdir("mypy_of_a_user") if kept else snippet.parent / "mypy_cache"
    command = [sys.executable, "-m", "mypy", "--config-file", str(snippet.parent / "mypy.ini")]
    done = subprocess.run(
        [*command, "--cache-dir", str(cache), str(snippet)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert not_as_wanted(done.stdout) == []


@pytest.mark.slow
def test_pyright_sees_types(snippet: Path):
    # No dependency of the tests: its package on PyPI fetches node and itself when it first runs.
    program = shutil.which("pyright") or shutil.which("basedpyright")
    if program is None:
        pytest.skip("pyright is not installed")
    command = [program, "--pythonpath", sys.executable, str(snippet)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    kept = [line for line in done.stdout.splitlines() if " - warning: " not in line]
    assert not_as_wanted("\n".join(kept)) == []


def keywords(function: Callable[..., object]) -> set[str]:
    """The names of a function's keyword-only arguments."""
    parameters = inspect.signature(function).parameters.values()
    return {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}


def test_what_is_passed_on_is_typed_in_full():
    from gmb_hf.monitor.callback import AlarmMonitor, RunWatch, WatchOptions
    from gmb_hf.runs.runlog import ReadOptions, RunLog

    assert ReadOptions.__optional_keys__ == keywords(RunLog.read)
    assert WatchOptions.__optional_keys__ == keywords(RunWatch) | keywords(AlarmMonitor)
