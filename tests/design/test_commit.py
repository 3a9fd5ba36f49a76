"""The commit of the code that a design was locked with: git's, or honestly none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gmb_hf.design.design import Design
from gmb_hf.design.lint import filled_in, git_commit, is_placeholder, lint

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "train.py").write_text("1\n")
    git(tmp_path, "add", "train.py")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    git(tmp_path, "tag", "v1")
    return tmp_path


@needs_git
def test_a_clean_tree_is_its_commit_also_from_below_and_with_tags(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    (repository / "runs").mkdir()
    assert git_commit(repository) == head
    assert git_commit(repository / "runs") == head
    assert len(head) == 40


@needs_git
def test_a_changed_tree_says_so(repository: Path) -> None:
    (repository / "notes.txt").write_text("not tracked: no part of the code")
    assert not str(git_commit(repository)).endswith("-dirty")
    (repository / "train.py").write_text("2\n")
    assert git_commit(repository) == git(repository, "rev-parse", "HEAD") + "-dirty"


@needs_git
def test_a_repository_without_a_commit_has_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert git_commit(tmp_path) is None


def test_no_repository_and_no_git_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_commit(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(tmp_path) is None
    assert git_commit(tmp_path / "gone") is None


def test_only_what_was_left_open_is_filled_in() -> None:
    design = Design.minimal(horizon=1, safe_gap=2)
    written = design.replace(commit_hash="abc", date_locked="2026-01-27", researcher="A. R.")
    assert filled_in(written, date="2030-01-01", commit="def") == written
    template = design.replace(commit_hash="<git commit>", date_locked="YYYY-MM-DD")
    assert filled_in(template, date="2030-01-01", commit="def") == design.replace(
        commit_hash="def", date_locked="2030-01-01"
    )
    assert filled_in(template, date="2030-01-01", commit=None).commit_hash is None
    assert filled_in(design, date="2030-01-01", commit="def").commit_hash == "def"


@pytest.mark.parametrize("text", [None, "", " ", "<arch>", "<git commit>", "YYYY-MM-DD"])
def test_placeholders(text: str | None) -> None:
    assert is_placeholder(text)
    assert not is_placeholder("x < 3")


def test_the_linter_names_what_is_still_a_placeholder_but_what_the_lock_fills_in() -> None:
    design = Design.parse(
        {
            "meta": {"commit_hash": "<git commit>", "date_locked": "YYYY-MM-DD"},
            "boundary": {"task": "<task name>", "model": "<arch>", "optimizer": "AdamW"},
            "labels": {
                "positive_window": {"horizon_steps": 200},
                "negative_window": {"safe_gap_steps": 400},
            },
        },
        where="test",
    )
    message = next(item.message for item in lint(design) if item.code == "left_to_fill_in")
    assert message.startswith("boundary.task, boundary.model still as the template has it")
