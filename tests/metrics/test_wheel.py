"""A wheel, built and installed into an empty folder, brings metrics and cards along."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hub_store import TOKEN, Hub, Repository
from launched import run_code

import gmb_hf.jobs.metrics
from gmb_hf.hub.datasets import write_data
from gmb_hf.training.presets import preset

ROOT = Path(gmb_hf.jobs.metrics.__file__).parents[2]
SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "gmb_hf", "metrics", "cards")

# What somebody does who has installed the wheel, in one process.
USE = """
import json
from pathlib import Path

from evaluate import config

config.HF_EVALUATE_OFFLINE = True
import gmb_hf.jobs.metrics
from gmb_hf.cli import main
from gmb_hf.hub import cards
from gmb_hf.hub.datasets import write_data
from gmb_hf.training.presets import preset

def gmb(*words):
    assert main(list(words)) == 0, words

names = gmb_hf.jobs.metrics.names()
found = {
    "package": gmb_hf.jobs.metrics.__file__,
    "names": [gmb_hf.jobs.metrics.load(name).name for name in names],
    "scripts": [str(gmb_hf.jobs.metrics.module(name).script) for name in names],
    "templates": str(cards.folder()),
    "card": str(write_data(preset("quick"), Path("data"))[0]),
}
small = ["--preset=smoke", "--set=training.steps=20", "--set=training.compile=never"]
gmb("train", *small, "--seeds=0:2", "--save-models=1", "--out=run")
gmb("data", "build", "modular", "--task=add_p7", "--out=tasks")
gmb("data", "push", "tasks", "acme/tasks")
gmb("runs", "push", "all=run/logs", "acme/runs")
gmb("model", "push", "run/models/seed_1", "acme/small")
gmb("metrics", "push", "--org=acme", "--name=gmb_verdict")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since a build leaves files beside what it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, source)
    (built,) = folder.glob("*.whl")
    return built


def pip(*arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_holds_each_file_of_each_metric(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    for name in gmb_hf.jobs.metrics.names():
        for path in gmb_hf.jobs.metrics.module(name).folder.iterdir():
            if path.is_file():
                assert f"gmb_hf/metric_modules/{name}/{path.name}" in held
    assert not [path for path in held if "__pycache__" in path]
    assert {path.split("/")[0] for path in held if not path.startswith("gmb_hf-")} == {"gmb_hf"}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--no-compile", "--target", target, wheel)
    return target


@dataclass(frozen=True)
class Used:
    """Where `USE` ran with what is installed, what it found and what the stub of the Hub holds."""

    folder: Path
    found: dict[str, Any]
    repositories: dict[str, Repository]


@pytest.fixture(scope="module")
def used(
    installed: Path, empty_hub: Callable[[], Hub], tmp_path_factory: pytest.TempPathFactory
) -> Used:
    folder = tmp_path_factory.mktemp("elsewhere")
    hub = empty_hub()
    done = run_code(USE, package=installed, folder=folder, HF_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    return Used(folder, json.loads(done.stdout.splitlines()[-1]), dict(hub.repositories))


def test_what_is_installed_loads_each_metric(installed: Path, used: Used) -> None:
    assert Path(used.found["package"]).is_relative_to(installed)
    assert tuple(used.found["names"]) == gmb_hf.jobs.metrics.names()
    assert all(Path(script).is_relative_to(installed) for script in used.found["scripts"])


def test_what_is_installed_writes_a_data_card(installed: Path, used: Used, tmp_path: Path) -> None:
    assert Path(used.found["templates"]) == installed / "gmb_hf" / "card_templates"
    ours = write_data(preset("quick"), tmp_path / "ours")[0]
    assert (used.folder / used.found["card"]).read_bytes() == ours.read_bytes()


def test_loopback_protocol_stub_is_pushed_to_by_what_is_installed(used: Used) -> None:
    assert used.repositories.keys() == {
        "dataset:acme/tasks",
        "dataset:acme/runs",
        "model:acme/small",
        "space:acme/gmb_verdict",
    }
    for repository in used.repositories.values():
        assert len(repository.commits) == 2
        assert b"\n# " in repository.files["README.md"]
