"""A wheel, built and installed into an empty folder, brings the metrics along."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import gmb_hf.metrics

ROOT = Path(gmb_hf.metrics.__file__).parents[1]
SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "gmb_hf", "metrics")

LOAD_ALL = """
import sys
import gmb_hf.metrics
print(gmb_hf.metrics.__file__)
for name in gmb_hf.metrics.names():
    print(gmb_hf.metrics.load(name).name, gmb_hf.metrics.module(name).script)
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


def test_what_is_installed_loads_each_metric(
    wheel: Path, tmp_path: Path, offline: dict[str, str]
) -> None:
    target, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip("install", "--no-deps", "--no-index", "--target", target, wheel)
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ALL],
        cwd=elsewhere,
        env={**offline, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where, *lines = done.stdout.splitlines()
    assert Path(where).is_relative_to(target)
    loaded = dict(line.split(maxsplit=1) for line in lines)
    assert tuple(loaded) == gmb_hf.metrics.names()
    assert all(Path(script).is_relative_to(target) for script in loaded.values())
