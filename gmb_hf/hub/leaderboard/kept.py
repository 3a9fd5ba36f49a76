"""What was recomputed before: kept by the hash of all that decides it, and not computed again.

A file is named by that hash, so that a change of a panel, of a submission, of the published numbers
or of the code that judges finds none. It lies in the cache of whoever builds the site, which no
submission can write to, and may be removed at any time.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from gmb_hf.base.checksums import canonical_hash
from gmb_hf.base.documents import Section, plain_data
from gmb_hf.base.errors import InputError
from gmb_hf.base.files import json_text, read_json, write_text

PLACE = "GMB_CACHE"
"""An environment variable: where gmb keeps what it can compute again."""
_JUDGES = (
    *("base", "benchmark", "core", "design", "indicators", "runs"),
    *("hub/panels.py", "hub/sources.py", "jobs/trial.py", "report/answer.py", "report/words.yaml"),
    *(f"hub/leaderboard/{name}" for name in ("check.py", "passed_over.yaml", "published.py")),
    *(f"hub/leaderboard/{name}.py" for name in ("rounds", "round_entries", "round_judging")),
    "hub/leaderboard/submission.py",
)
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow")

Kept = TypeVar("Kept", bound=Section)


@dataclass(frozen=True)
class Cache:
    """A folder of what was recomputed.

    Attributes:
        folder: where it lies.
    """

    folder: Path

    @classmethod
    def at(cls, folder: str | Path | None = None) -> Cache:
        """The cache of a folder, or of this user: $GMB_CACHE, else the user's cache folder.

        Raises:
            InputError: it is a file.
        """
        from platformdirs import user_cache_path

        home = Path(os.environ.get(PLACE) or user_cache_path("gmb-hf", appauthor=False))
        place = Path(folder) if folder is not None else home / "leaderboard"
        if place.exists() and not place.is_dir():
            raise InputError(f"{place}: is a file; what was recomputed is kept in a folder")
        return cls(place)

    def get(self, key: str, kind: type[Kept]) -> Kept | None:
        """What is kept under a key; None where nothing is, or where it cannot be read."""
        path = self.folder / f"{key}.json"
        if not path.is_file():
            return None
        try:
            return kind.parse(read_json(path), where=str(path))
        except InputError:  # cut short, or of another version
            return None

    def put(self, key: str, found: Section) -> None:
        """Keep what was found, at once and whole: a build that is interrupted resumes here."""
        write_text(self.folder / f"{key}.json", whole_json(found))


def whole_json(found: Section) -> str:
    """A section as JSON that reads back as it is: fields that are None stand there."""
    return json_text(plain_data(found.model_dump(), number=float)) + "\n"


def key_of(**decides: Any) -> str:
    """The hash of what decides a result, and of the code that computes it."""
    return canonical_hash({**decides, "code": code_hash()})


@cache
def code_hash() -> str:
    """SHA-256 (hex) over the files of this package that judge, and over what they compute with."""
    package, digest = Path(__file__).parents[2], hashlib.sha256()
    for name in _JUDGES:
        place = package / name
        for path in sorted(place.rglob("*")) if place.is_dir() else (place,):
            if path.suffix in (".py", ".yaml"):
                digest.update(f"{path.relative_to(package)}\0".encode())
                digest.update(path.read_bytes())
    for name in _PACKAGES:
        digest.update(f"{name} {version(name)}\0".encode())
    return digest.hexdigest()
