"""A wheel, built and installed into an empty folder, brings metrics and cards along."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hub_client import environment
from hub_stub import loopback_hub

import gmb_hf.metrics
from gmb_hf.hub.datasets import write_data
from gmb_hf.training.presets import preset

ROOT = Path(gmb_hf.metrics.__file__).parents[1]
SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "gmb_hf", "metrics", "cards")

LOAD_ALL = """
import sys
import gmb_hf.metrics
print(gmb_hf.metrics.__file__)
for name in gmb_hf.metrics.names():
    print(gmb_hf.metrics.load(name).name, gmb_hf.metrics.module(name).script)
"""

WRITE_A_CARD = """
from pathlib import Path
from gmb_hf.hub import cards
from gmb_hf.training.presets import preset
from gmb_hf.hub.datasets import write_data
print(cards.folder())
print(write_data(preset("quick"), Path("data"))[0])
"""

PUSH_ALL = """
from gmb_hf.cli import main

def gmb(*words):
    assert main(list(words)) == 0, words

small = ["--preset=smoke", "--set=training.steps=20", "--set=training.compile=never"]
gmb("train", *small, "--seeds=0:2", "--save-models=1", "--out=run")
gmb("data", "build", "modular", "--task=add_p7", "--out=tasks")
gmb("data", "push", "tasks", "acme/tasks")
gmb("runs", "push", "all=run/logs", "acme/runs")
gmb("model", "push", "run/models/seed_1", "acme/small")
gmb("metrics", "push", "--org=acme", "--name=gmb_verdict")
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
    for name in gmb_hf.metrics.names():
        for path in gmb_hf.metrics.module(name).folder.iterdir():
            if path.is_file():
                assert f"gmb_hf/metric_modules/{name}/{path.name}" in held
    assert not [path for path in held if "__pycache__" in path]
    assert {path.split("/")[0] for path in held if not path.startswith("gmb_hf-")} == {"gmb_hf"}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--target", target, wheel)
    return target


def run_elsewhere(code: str, installed: Path, folder: Path, offline: dict[str, str]) -> list[str]:
    """The lines that code prints in another folder, with what is installed."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**offline, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_is_installed_loads_each_metric(
    installed: Path, tmp_path: Path, offline: dict[str, str]
) -> None:
    where, *lines = run_elsewhere(LOAD_ALL, installed, tmp_path / "elsewhere", offline)
    assert Path(where).is_relative_to(installed)
    loaded = dict(line.split(maxsplit=1) for line in lines)
    assert tuple(loaded) == gmb_hf.metrics.names()
    assert all(Path(script).is_relative_to(installed) for script in loaded.values())


def test_what_is_installed_writes_a_data_card(
    installed: Path, tmp_path: Path, offline: dict[str, str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    templates, card = run_elsewhere(WRITE_A_CARD, installed, elsewhere, offline)
    assert Path(templates) == installed / "gmb_hf" / "card_templates"
    ours = write_data(preset("quick"), tmp_path / "ours")[0]
    assert (elsewhere / card).read_bytes() == ours.read_bytes()


def test_loopback_protocol_stub_is_pushed_to_by_what_is_installed(
    installed: Path, tmp_path: Path
) -> None:
    with loopback_hub() as hub:
        variables = environment(hub, tmp_path)
        run_elsewhere(PUSH_ALL, installed, tmp_path / "elsewhere", variables)
    assert hub.repositories.keys() == {
        "dataset:acme/tasks",
        "dataset:acme/runs",
        "model:acme/small",
        "space:acme/gmb_verdict",
    }
    for repository in hub.repositories.values():
        assert len(repository.commits) == 2
        assert b"\n# " in repository.files["README.md"]
