"""Pretrained scores on the Hub: a model repository with one score.yaml.

push_score("label_free", "org/name"), pull_score("hf://org/name")
"""

from __future__ import annotations

from pathlib import Path

from gmb_hf.base.documents import dump_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.base.repositories import Address, Pushed, publish, pull
from gmb_hf.design.pretrained import PretrainedScore

FILE = "score.yaml"
HUB = "hf://"


def push_score(score: str | Path, repo_id: str, *, private: bool = False) -> Pushed:
    """Commit a score, by its name or file, to a model repository ORG/NAME.

    Raises:
        InputError: it is no pretrained score, or the Hub refuses.
    """
    found = PretrainedScore.find(score)
    files: dict[str, Path | bytes] = {FILE: dump_yaml(found.plain()).encode("utf-8")}
    message = f"Pretrained score {found.name} {found.hash[:16]}"
    return publish(files, repo_id, "model", message=message, private=private)


def pull_score(address: str) -> Path:
    """The file of a score at hf://ORG/NAME, or hf://ORG/NAME@REVISION, in the user's cache.

    Raises:
        InputError: the Hub has no such repository, or it holds no score.
    """
    repo, _, revision = address.removeprefix(HUB).partition("@")
    path = pull(Address(repo, revision or "main"), [FILE], repo_type="model") / FILE
    if not path.is_file():
        raise InputError(f"{address}: holds no {FILE}; gmb score push puts one there")
    return path
