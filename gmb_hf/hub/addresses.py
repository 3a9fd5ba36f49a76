"""Addresses of the Hub: `ORG/NAME@REV` and `hf://datasets/ORG/NAME@REV/CONFIG`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from gmb_hf.validation import InputError

DATASETS = "hf://datasets/"
_REPO = r"(?P<repo>[\w.-]+/[\w.-]+)"
_ADDRESS = re.compile(rf"{_REPO}(?:@(?P<revision>[^@/]+))?(?:/(?P<config>[\w.-]+))?")


@dataclass(frozen=True)
class Address:
    """A dataset of the Hub at a revision.

    Attributes:
        repo_id: ORG/NAME.
        revision: a branch, a tag or a commit hash.
        config: one config of it; None means all, or the one that the caller knows.
    """

    repo_id: str
    revision: str = "main"
    config: str | None = None

    @classmethod
    def parse(cls, text: str, *, option: str = "") -> Self:
        """Read `ORG/NAME`, `ORG/NAME@REV` or `ORG/NAME@REV/CONFIG`, with or without `hf://`.

        Args:
            text: what was typed.
            option: where, for the message.

        Raises:
            InputError: it is none of these.
        """
        found = _ADDRESS.fullmatch(text.removeprefix(DATASETS))
        if found is None:
            where = f"{option} {text!r}" if option else repr(text)
            form = "ORG/NAME@REV" if not text.startswith("hf://") else f"{DATASETS}ORG/NAME@REV"
            raise InputError(f"{where}: no dataset of the Hub; write {form}")
        return cls(found["repo"], found["revision"] or "main", found["config"])

    def __str__(self) -> str:
        return f"{self.repo_id}@{self.revision}"


def is_address(source: object) -> bool:
    """Whether a source of run logs names a dataset of the Hub."""
    return isinstance(source, str) and source.startswith("hf://")


def check_repo_id(repo_id: str) -> None:
    """Refuse a name that is no ORG/NAME.

    Raises:
        InputError: it has no organisation, or a character that no name has.
    """
    if re.fullmatch(_REPO, repo_id) is None:
        raise InputError(f"{repo_id!r}: no repository of the Hub; write ORG/NAME")
