"""What the loopback stub of the Hub holds: repositories in memory, their commits, large files."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

PREFIX = {"model": "", "dataset": "datasets/", "space": "spaces/"}
LARGE = (".parquet", ".safetensors", ".bin", ".arrow", ".png")
"""Endings of files that go to the store of large files (git LFS)."""

TOKEN = "hf_of_somebody"


@dataclass
class Commit:
    """The files after a commit."""

    sha: str
    message: str
    files: dict[str, bytes]


@dataclass
class Repository:
    """Its settings as it was made, and its commits; branches other than main there are none."""

    settings: dict[str, Any]
    commits: list[Commit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.commit("initial commit", {})

    @property
    def files(self) -> dict[str, bytes]:
        """Those of the last commit."""
        return self.commits[-1].files

    @property
    def sha(self) -> str:
        """Of the last commit."""
        return self.commits[-1].sha

    def commit(self, message: str, files: dict[str, bytes]) -> str:
        """Add a commit that leaves these files; its hash."""
        parent = self.commits[-1].sha if self.commits else ""
        content = [[path, hashlib.sha1(data).hexdigest()] for path, data in sorted(files.items())]
        text = json.dumps([parent, message, len(self.commits), content])
        sha = hashlib.sha1(text.encode()).hexdigest()
        self.commits.append(Commit(sha, message, files))
        return sha

    def at(self, revision: str) -> Commit | None:
        """The commit of a branch, of a reference or of a hash."""
        if revision in ("main", "refs/heads/main"):
            return self.commits[-1]
        return next((commit for commit in self.commits if commit.sha == revision), None)


@dataclass
class Fault:
    """What goes wrong with the next requests.

    Attributes:
        where: a pattern that is looked for in "METHOD /path".
        status: what they are answered; None cuts the connection in the middle of their bodies.
        times: how often.
        headers: of the answer.
    """

    where: str
    status: int | None = None
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Hub:
    """Repositories by "space:ORG/NAME", large files by SHA-256, and what was asked.

    Attributes:
        url: where the stub listens.
        repositories, large: what it holds.
        requests: "METHOD /path" of each that came; `unknown`: those that it has no answer to.
        orgs: where TOKEN may write; no other token is one, and reading needs none.
        faults: what shall go wrong.
        spoils: a file that is committed with this in its path loses its last byte.
    """

    url: str
    repositories: dict[str, Repository] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    orgs: set[str] = field(default_factory=lambda: {"acme"})
    faults: list[Fault] = field(default_factory=list)
    spoils: str | None = None

    def kept(self, path: str, content: bytes) -> bytes:
        """A file as it is kept."""
        return content[:-1] if self.spoils and self.spoils in path else content

    def fault(self, request: str) -> Fault | None:
        """The fault that this request meets, which is then used up by one."""
        for fault in self.faults:
            if fault.times and re.search(fault.where, request):
                fault.times -= 1
                return fault
        return None


def entry(path: str, content: bytes) -> dict[str, Any]:
    """A file as listings have it: git's hash, and that of the store of large files."""
    oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    found: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": oid}
    if path.endswith(LARGE):
        sha256 = hashlib.sha256(content).hexdigest()
        found["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 130}
    return found


def listing(files: dict[str, bytes], folder: str, *, recursive: bool) -> list[dict[str, Any]]:
    """The files and folders in a folder ("" for all), and those below it where asked."""
    base = f"{folder.rstrip('/')}/" if folder else ""
    folders: dict[str, None] = {}
    found = []
    for path, content in sorted(files.items()):
        if not path.startswith(base):
            continue
        parts = path.removeprefix(base).split("/")
        depth = len(parts) - 1 if recursive else min(len(parts) - 1, 1)
        folders.update(dict.fromkeys(base + "/".join(parts[: i + 1]) for i in range(depth)))
        if recursive or len(parts) == 1:
            found.append(entry(path, content))
    return [folder_entry(path) for path in folders] + found


def folder_entry(path: str) -> dict[str, Any]:
    """A folder as listings have it."""
    return {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}
