"""What the Hub's client says when it fails, as one line of what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gmb_hf.validation import InputError

_LIMIT_RESET = "t="  # in the Hub's own header: "api";r=0;t=120


@contextmanager
def clear_hub_errors(repo_id: str) -> Iterator[None]:
    """Turn what the client raises about a repository into an `InputError` that says what to do.

    Raises:
        InputError: nobody is logged in, the token is wrong or may not do this, there is no such
            repository or revision, too much was asked, or the Hub cannot be reached.
    """
    from huggingface_hub.errors import HFValidationError

    try:
        yield
    except InputError:
        raise
    except HFValidationError as error:
        raise InputError(_first_line(error)) from None
    except Exception as error:
        chain = _chain(error)
        refused = next((one for one in chain if getattr(one, "response", None) is not None), None)
        if refused is not None:
            advice = _advice(refused, repo_id)
            raise InputError(f"{repo_id}: the Hub refused{advice}") from error
        lost = next((one for one in reversed(chain) if _lost(one)), None)
        if lost is None:
            raise
        raise InputError(
            f"{repo_id}: the Hub cannot be reached: {_first_line(lost)}; run the same command "
            "again when it can"
        ) from error


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what caused it: the client wraps what stops an upload or a download."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__
    return found


def _advice(error: BaseException, repo_id: str) -> str:
    from huggingface_hub import get_token
    from huggingface_hub.errors import (
        EntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    response: Any = getattr(error, "response", None)
    status = response.status_code
    if isinstance(error, RevisionNotFoundError):
        return ": it has no such revision; name a branch, a tag or a whole commit hash"
    if isinstance(error, EntryNotFoundError):
        return ": it has no such file"
    if status == 401 and get_token() is None:
        return ": nobody is logged in; run `hf auth login`, or set HF_TOKEN to a token that writes"
    if status == 401:
        return ": it does not know this token; run `hf auth login` anew, or mend HF_TOKEN"
    if isinstance(error, RepositoryNotFoundError):
        return ": there is no such repository, or it is private and this token may not read it"
    if status == 403:
        org = repo_id.split("/")[0]
        return f": this token may not write to {org}; choose another organisation or token"
    if status == 412:
        return ": somebody else has committed meanwhile; run the same command again"
    if status == 429:
        return f": too many requests; wait {_wait(response.headers)} and run the same command again"
    return f" (status {status}): {_first_line(error)}"


def _wait(headers: Any) -> str:
    """How long to wait after a 429, as the answer has it."""
    said = str(headers.get("retry-after") or "").strip()
    parts = str(headers.get("ratelimit") or "").replace(" ", "").split(";")
    reset = next((part[2:] for part in parts if part.startswith(_LIMIT_RESET)), "")
    seconds = said or reset
    if not seconds:
        return "some minutes"
    return f"{seconds} s" if seconds.isdigit() else f"until {seconds}"


def _lost(error: BaseException) -> bool:
    """Whether the way to the Hub is the trouble: offline mode, no route, no answer.

    The client's own errors come from httpx or httpx2, as the version of huggingface_hub has it.
    """
    return isinstance(error, OSError) or type(error).__module__.split(".")[0].startswith("httpx")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
