"""What is pushed to the Hub: one commit, read back; what fails is one line of what to do."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gmb_hf.errors import InputError, first_of
from gmb_hf.repositories import check_repo_id, clear_hub_errors

if TYPE_CHECKING:
    from huggingface_hub import HfApi

Kind = Literal["dataset", "model", "space"]
_PLACE = {"dataset": "datasets/", "model": "", "space": "spaces/"}
_BLOCK = 1 << 20
_REQUIREMENTS = "requirements.txt"


@dataclass(frozen=True)
class Pushed:
    """A repository that now holds what was pushed: its name, the commit and its address."""

    repo_id: str
    commit: str
    url: str


def publish(
    files: Mapping[str, Path | bytes],
    repo_id: str,
    kind: Kind,
    *,
    message: str,
    replaces: Callable[[str], bool] = lambda path: False,
    private: bool = False,
) -> Pushed:
    """Commit files to a repository, which is made where it is not there yet.

    It is one commit, there whole or not at all, and the same call goes on where the connection
    broke. Afterwards the Hub is asked for the hash of each file.

    Args:
        files: path in the repository -> a file here, or its content.
        repo_id, kind: ORG/NAME, and what it is; a Space is one of Gradio.
        message: of the commit.
        replaces: which files that lie there already, and are not among `files`, go away.
        private: make a new repository private.

    Raises:
        InputError: as `clear_hub_errors`, or a file does not read back as it was sent.
    """
    check_repo_id(repo_id)
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    api = HfApi(library_name="gmb-hf")
    with clear_hub_errors(repo_id):
        api.create_repo(
            repo_id,
            repo_type=kind,
            space_sdk="gradio" if kind == "space" else None,
            private=private,
            exist_ok=True,
        )
        head = api.repo_info(repo_id, repo_type=kind).sha
        gone = [path for path in hashes(api, repo_id, kind, head) if replaces(path)]
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            CommitOperationAdd(path, str(held) if isinstance(held, Path) else held)
            for path, held in files.items()
        ]
        operations += [CommitOperationDelete(path) for path in gone if path not in files]
        done = api.create_commit(
            repo_id, operations, repo_type=kind, commit_message=message, parent_commit=head
        )
        there = hashes(api, repo_id, kind, done.oid)
    wrong = [path for path, held in files.items() if there.get(path) not in _hashes_of(held)]
    if wrong:
        raise InputError(
            f"{repo_id}: reads back differently at {done.oid} than it was sent "
            f"({first_of(wrong, 3)}); push it again"
        )
    return Pushed(repo_id, done.oid, f"{api.endpoint}/{_PLACE[kind]}{repo_id}")


def has_repository(repo_id: str, kind: Kind) -> bool:
    """Whether a repository is there, as far as this token may see."""
    check_repo_id(repo_id)
    from huggingface_hub import HfApi

    with clear_hub_errors(repo_id):
        return HfApi(library_name="gmb-hf").repo_exists(repo_id, repo_type=kind)


def hashes(api: HfApi, repo_id: str, kind: Kind, revision: str | None) -> dict[str, str]:
    """Each file of a revision with its hash: SHA-256 of a large one, git's of a small one."""
    from huggingface_hub.hf_api import RepoFile

    tree = api.list_repo_tree(repo_id, repo_type=kind, revision=revision, recursive=True)
    return {
        item.path: item.lfs.sha256 if item.lfs else item.blob_id
        for item in tree
        if isinstance(item, RepoFile)
    }


def _hashes_of(held: Path | bytes) -> tuple[str, str]:
    """Both hashes that a file may have on the Hub."""
    size = held.stat().st_size if isinstance(held, Path) else len(held)
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with held.open("rb") if isinstance(held, Path) else io.BytesIO(held) as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
            git.update(block)
    return sha256.hexdigest(), git.hexdigest()


def push_space(
    folder: Path, repo_id: str, *, requirement: str | None = None, private: bool = False
) -> Pushed:
    """Publish a folder as a Gradio Space, which is made where it is not there yet.

    Args:
        folder: with README.md, app.py and what else the Space needs, without subfolders.
        requirement: how the Space shall install this package (a version, or an address of a wheel
            or a repository), in place of its line in requirements.txt.
    """
    files: dict[str, Path | bytes] = {
        path.name: path
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix != ".pyc"
    }
    if requirement is not None and _REQUIREMENTS in files:
        lines = (folder / _REQUIREMENTS).read_text(encoding="utf-8").splitlines()
        others = [line for line in lines if not line.startswith("gmb-hf")]
        files[_REQUIREMENTS] = "\n".join([requirement, *others, ""]).encode("utf-8")
    return publish(files, repo_id, "space", message=f"Update {folder.name}", private=private)
