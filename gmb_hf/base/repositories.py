"""Repositories of the Hub: fetched at one commit, and pushed as one commit that is read back.

What fails is one line of what to do.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from gmb_hf.base.errors import InputError, first_line, first_of
from gmb_hf.base.files import clear_os_errors

if TYPE_CHECKING:
    from huggingface_hub import HfApi

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

        Raises:
            InputError: it is none of these; `option` says where it was typed.
        """
        found = _ADDRESS.fullmatch(text.removeprefix(DATASETS))
        if found is None:
            where = f"{option} {text!r}" if option else repr(text)
            form = "ORG/NAME@REV" if not text.startswith("hf://") else f"{DATASETS}ORG/NAME@REV"
            raise InputError(f"{where}: no dataset of the Hub; write {form}")
        return cls(found["repo"], found["revision"] or "main", found["config"])

    def __str__(self) -> str:
        return f"{self.repo_id}@{self.revision}"


def check_repo_id(repo_id: str) -> None:
    """Refuse a name that is no ORG/NAME."""
    if re.fullmatch(_REPO, repo_id) is None:
        raise InputError(f"{repo_id!r}: no repository of the Hub; write ORG/NAME")


@contextmanager
def clear_hub_errors(repo_id: str) -> Iterator[None]:
    """Turn what the client raises about a repository into an `InputError` that says what to do."""
    from huggingface_hub.errors import HFValidationError

    try:
        yield
    except InputError:
        raise
    except HFValidationError as error:
        raise InputError(first_line(error)) from None
    except Exception as error:
        # The client wraps what stops an upload or a download.
        chain: list[BaseException] = [error]
        while (cause := chain[-1].__cause__) is not None and cause not in chain:
            chain.append(cause)
        refused = next((one for one in chain if getattr(one, "response", None) is not None), None)
        if refused is not None:
            raise InputError(f"{repo_id}: the Hub refused{_advice(refused, repo_id)}") from error
        lost = next(filter(_lost, reversed(chain)), None)
        if lost is None:
            raise
        raise InputError(
            f"{repo_id}: the Hub cannot be reached: {first_line(lost)}; run the same command "
            "again when it can"
        ) from error


def _advice(error: BaseException, repo_id: str) -> str:
    from huggingface_hub import errors, get_token

    response: Any = getattr(error, "response", None)
    status = response.status_code
    if isinstance(error, errors.RevisionNotFoundError):
        return ": it has no such revision; name a branch, a tag or a whole commit hash"
    if isinstance(error, errors.EntryNotFoundError):
        return ": it has no such file"
    if status == 401 and get_token() is None:
        return ": nobody is logged in; run `hf auth login`, or set HF_TOKEN to a token that writes"
    if status == 401:
        return ": it does not know this token; run `hf auth login` anew, or mend HF_TOKEN"
    if isinstance(error, errors.RepositoryNotFoundError):
        return ": there is no such repository, or it is private and this token may not read it"
    if status == 403:
        org = repo_id.split("/")[0]
        return f": this token may not write to {org}; choose another organisation or token"
    if status == 412:
        return ": somebody else has committed meanwhile; run the same command again"
    if status == 429:
        return f": too many requests; wait {_wait(response.headers)} and run the same command again"
    return f" (status {status}): {first_line(error)}"


def _wait(headers: Any) -> str:
    """How long to wait after a 429, as the answer has it: `"api";r=0;t=120` is 120 s."""
    parts = str(headers.get("ratelimit") or "").replace(" ", "").split(";")
    reset = next((part[2:] for part in parts if part.startswith("t=")), "")
    seconds = str(headers.get("retry-after") or "").strip() or reset
    if not seconds:
        return "some minutes"
    return f"{seconds} s" if seconds.isdigit() else f"until {seconds}"


def _lost(error: BaseException) -> bool:
    """Whether there is no way to the Hub; the client's own errors are of httpx or httpx2."""
    return isinstance(error, OSError) or type(error).__module__.startswith("httpx")


def pull(
    address: Address,
    patterns: Sequence[str],
    *,
    repo_type: str = "dataset",
    cache_only: bool = False,
) -> Path:
    """Fetch the files that match, unless the cache has them; without a network, the cache alone.

    Args:
        address: its revision is resolved to a commit.
        patterns: of paths in the repository, e.g. `README.md` or `add_p97/*`.
        repo_type: "dataset" or "model".
        cache_only: take what was fetched before, without asking the Hub.

    Returns:
        Their folder in the cache of the Hub's client, whose name is the commit.

    Raises:
        InputError: as `clear_hub_errors` names it, or the cache cannot be written to.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE

    with clear_hub_errors(str(address)), clear_os_errors(HF_HUB_CACHE):
        folder = snapshot_download(
            address.repo_id,
            repo_type=repo_type,
            revision=address.revision,
            allow_patterns=list(patterns),
            library_name="gmb-hf",
            local_files_only=cache_only,
        )
    return Path(folder)


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
