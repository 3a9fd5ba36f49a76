"""Folders that become Spaces of the Hub, one commit each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gmb_hf.validation import InputError

_REQUIREMENTS = "requirements.txt"


@dataclass(frozen=True)
class Pushed:
    """A Space that now holds a folder: its repository, the commit and its address."""

    repo_id: str
    commit: str
    url: str


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
        InputError: nobody is logged in, the organisation is not theirs, or the Hub cannot be
            reached.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    operations = [
        CommitOperationAdd(path.name, content) for path, content in _files(folder, requirement)
    ]
    api = HfApi(library_name="gmb-hf")
    try:
        api.create_repo(
            repo_id, repo_type="space", space_sdk="gradio", private=private, exist_ok=True
        )
        done = api.create_commit(
            repo_id,
            operations,
            repo_type="space",
            commit_message=f"Update {folder.name}",
        )
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        raise InputError(f"{repo_id}: the Hub refused{_advice(status, repo_id)}") from error
    except HFValidationError as error:
        raise InputError(_first_line(error)) from None
    except Exception as error:
        if not _lost(error):
            raise
        raise InputError(f"{repo_id}: the Hub cannot be reached: {_first_line(error)}") from error
    return Pushed(repo_id, done.oid, f"{api.endpoint}/spaces/{repo_id}")


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


def _advice(status: int | None, repo_id: str) -> str:
    if status == 401:
        return ": nobody is logged in; run `hf auth login`, or set HF_TOKEN to a token that writes"
    if status == 403:
        org = repo_id.split("/")[0]
        return f": this token may not write to {org}; choose another --org, or another token"
    return f" (status {status})"


def _lost(error: Exception) -> bool:
    """Whether the way to the Hub is the trouble: offline mode, no route, no answer.

    The client's own errors come from httpx or httpx2, as the version of huggingface_hub has it.
    """
    return isinstance(error, OSError) or type(error).__module__.split(".")[0].startswith("httpx")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
