"""Which commit of the user's code a design was locked with, if git knows."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from gmb_hf.preregistration.sections import Meta

_PATIENCE = 10.0  # seconds; a repository on a slow disk is no reason to hang
_TO_FILL_IN = re.compile(r"<.*>|YYYY-MM-DD|", re.DOTALL)


def is_placeholder(text: str | None) -> bool:
    """Whether a field was left as a template has it: unset, empty, `<git commit>`, `YYYY-MM-DD`."""
    return text is None or _TO_FILL_IN.fullmatch(text.strip()) is not None


def git_commit(folder: str | Path = ".") -> str | None:
    """The commit that is checked out around a folder, 40 hex digits.

    `-dirty` is added where tracked files differ from it. None where there is no repository, no
    commit or no git.
    """
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # to look is not to write
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def filled_in(meta: Meta, *, date: str, commit: str | None) -> Meta:
    """What nobody wrote down about a design, filled in; where git knows no commit it is None."""
    changes = {}
    if is_placeholder(meta.commit_hash):
        changes["commit_hash"] = commit
    if is_placeholder(meta.date_locked):
        changes["date_locked"] = date
    return meta.model_copy(update=changes)
