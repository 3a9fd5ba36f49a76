"""Atomic writes, and what killed processes leave of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gmb_hf import files
from gmb_hf.files import remove_strays, whole_folder, write_text
from gmb_hf.training.folder import check_config

KILLED = """
import os, signal
from gmb_hf.files import atomic_path
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
    (path,) = left()
    assert path.name.startswith(".a.png.gmb-")
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


def test_a_temporary_file_that_was_removed_before_it_was_held_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
):
    opened, first = os.open, []

    def gone(path: Path, *flags: int) -> int:
        if not first and flags == (os.O_RDONLY,) and ".gmb-" in Path(path).name:
            first.append(path)
            os.unlink(path)
        return opened(path, *flags)

    with monkeypatch.context() as patched:
        patched.setattr("os.open", gone)
        with files.temporary_beside(Path("out/a.csv")) as path:
            assert path != first[0]
            assert path.exists()
    assert not left()
