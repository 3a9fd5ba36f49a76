"""Atomic writes, and what killed processes leave of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gmb_hf.base import files
from gmb_hf.base.errors import InputError
from gmb_hf.base.files import remove_strays, whole_folder, write_text
from gmb_hf.training.folder import check_config

KILLED = """
import os, signal
from gmb_hf.base.files import atomic_path
with atomic_path("out/figures/a.png") as path:
    path.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "_swept", set())


def left() -> list[Path]:
    return [path for path in Path("out").rglob("*") if not path.is_dir()]


@pytest.fixture
def stray() -> Path:
    killed = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert killed.returncode == -signal.SIGKILL
    path, hold = sorted(left())
    assert path.name.startswith(".a.png.gmb-")
    assert hold.name == f"{path.name}.held"
    return path


def test_the_next_write_removes_what_a_killed_process_left(stray: Path):
    write_text("out/figures/b.svg", "whole")
    assert left() == [Path("out/figures/b.svg")]


def test_the_next_start_removes_files_and_folders_below_it(stray: Path):
    Path("out/models/.seed_7.gmb-abc/inner").mkdir(parents=True)
    check_config(Path("out"), {"a": 1})
    assert left() == [Path("out/config.yaml")]
    assert not list(Path("out/models").iterdir())


def test_what_a_living_process_writes_and_other_hidden_files_stay(stray: Path):
    other = write_text("out/.notes", "mine")
    with whole_folder(Path("out/models")) as folder, files.atomic_path("out/a.csv") as path:
        write_text(folder / "weights", "1")
        remove_strays(Path("out"))
        assert not stray.exists()
        path.write_text("a")
    assert set(left()) == {other, Path("out/a.csv"), Path("out/models/weights")}
    assert os.listdir("out/models") == ["weights"]


def test_a_lock_that_is_swept_away_while_it_is_taken_is_taken_anew(monkeypatch: pytest.MonkeyPatch):
    lock_on, swept = files._lock_on, []

    def beside_a_sweeper(path: Path):
        if not swept:
            swept.append(path)
            path.parent.mkdir(exist_ok=True)
            path.touch()  # as it is between its making and its locking
            remove_strays(path.parent)
        return lock_on(path)

    monkeypatch.setattr(files, "_lock_on", beside_a_sweeper)
    with files.temporary_beside(Path("out/a.csv")) as path:
        remove_strays(Path("out"))
        assert path.exists()
    assert not left()


def test_a_claim_is_for_one_and_leaves_as_it_should():
    with files.claimed("out/looks.yaml", "looked at by another"):
        with pytest.raises(InputError, match=r"^out/looks.yaml: looked at by another$"):
            files.claim("out/looks.yaml", "looked at by another")
        assert left() == [Path("out/.looks.yaml.claim")]
    assert not left()
    held = files.claim("out/state.json", "watched by another")
    held.close()
    files.claim("out/state.json", "watched by another").close()


def test_no_module_needs_one_operating_system():
    """Windows has neither: `filelock` and `psutil` are what stands for them."""
    only_unix = re.compile(r"\b(fcntl|resource|os\.fork|os\.kill|os\.O_NOFOLLOW|signal\.SIGKILL)\b")
    package = Path(files.__file__).parents[1]
    faults = [
        f"{path}: {found.group()}"
        for path in package.rglob("*.py")
        if (found := only_unix.search(path.read_text(encoding="utf-8")))
    ]
    assert not faults
