"""Repositories of the Hub: fetched at one commit; what fails is one line of what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gmb_hf.errors import InputError, first_line
from gmb_hf.files import clear_os_errors

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
