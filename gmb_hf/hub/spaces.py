"""Folders that become Spaces of the Hub, one commit each."""

from __future__ import annotations

from pathlib import Path

from gmb_hf.hub.publish import Pushed, publish

_REQUIREMENTS = "requirements.txt"


def push_space(
    folder: Path, repo_id: str, *, requirement: str | None = None, private: bool = False
) -> Pushed:
    """Publish a folder as a Gradio Space, which is made where it is not there yet.

    Args:
        folder: with README.md, app.py and what else the Space needs, without subfolders.
        repo_id: ORG/NAME.
        requirement: how the Space shall install this package, in place of the line in
            requirements.txt that asks for it: a version, or an address of a wheel or a repository.
        private: make a new Space private.

    Raises:
        InputError: as `publish`.
    """
    files = {path.name: content for path, content in _files(folder, requirement)}
    return publish(files, repo_id, "space", message=f"Update {folder.name}", private=private)


def _files(folder: Path, requirement: str | None) -> list[tuple[Path, bytes]]:
    found = []
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.suffix == ".pyc":
            continue
        content = path.read_bytes()
        if path.name == _REQUIREMENTS and requirement is not None:
            lines = content.decode("utf-8").splitlines()
            others = [line for line in lines if not line.startswith("gmb-hf")]
            content = "\n".join([requirement, *others, ""]).encode("utf-8")
        found.append((path, content))
    return found
