"""Texts to embeddings through sentence-transformers, an extra of this package."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.validation import InputError

INSTALL = "pip install 'gmb-hf[encoders]'"
_BATCH = 256
_PATIENCE = 5.0  # seconds for the Hub's first answer


class Encoder:
    """A sentence-transformers model, from the Hub or from a folder.

    Args:
        name: its name or path.

    Raises:
        InputError: sentence-transformers is not installed, there is no such model, or it is not at
            hand and the Hub cannot be reached.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        if find_spec("sentence_transformers") is None:
            raise InputError(
                f"--encoder needs sentence-transformers: {INSTALL}; or give --embeddings"
            )
        # Before the import, which takes seconds.
        place, without_hub = _place_of(name)
        from sentence_transformers import SentenceTransformer

        try:
            with _quiet_hub():
                self._model: Any = SentenceTransformer(place, local_files_only=without_hub)
        except Exception as error:  # unknown, gated, or no such model: each has its own
            raise InputError(
                f"encoder {name!r} cannot be found or loaded: {_first_line(error)}"
            ) from None

    def encode(
        self, texts: Sequence[str], on_done: Callable[[str], None] = lambda _: None
    ) -> NDArray[np.float64]:
        """One row per text, float64 [N, D]; each distinct text is encoded once.

        Args:
            texts: what to encode.
            on_done: called after every batch of 256 distinct texts.
        """
        place: dict[str, int] = {}
        for text in texts:
            place.setdefault(text, len(place))
        distinct = list(place)
        rows: list[NDArray[np.float64]] = []
        for start in range(0, len(distinct), _BATCH):
            batch = distinct[start : start + _BATCH]
            found = self._model.encode(batch, convert_to_numpy=True, show_progress_bar=False)
            rows.append(np.asarray(found, dtype=np.float64))
            on_done(f"{start + len(batch):,} of {len(distinct):,} texts")
        encoded: NDArray[np.float64] = np.concatenate(rows)[[place[text] for text in texts]]
        return encoded


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """Without the Hub's reports of each retry: what matters of them is in the error."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _place_of(name: str) -> tuple[str, bool]:
    """Where to load from, a folder or a name of the Hub, and whether to leave the Hub alone."""
    path = Path(os.path.expanduser(name))
    if name and path.is_dir():
        return str(path), True
    missing = f"encoder {name!r} cannot be found"
    if path.is_file():
        raise InputError(f"{missing}: this is a file; give the folder of a saved model")
    if not name.strip() or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"{missing}: there is no such folder")
    why = _obstacle()
    if why is None or _is_cached(name):
        return name, why is not None
    raise InputError(
        f"{missing}: there is no such folder, it was never downloaded, and the Hub cannot be "
        f"reached ({why})"
    )


def _obstacle() -> str | None:
    """What keeps us from the Hub, by one attempt; its client tries for a minute."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception as error:  # of httpx or httpx2, as the client has it; offline mode too
        return _first_line(error)
    return None


def _is_cached(name: str) -> bool:
    """Whether some revision was downloaded before; bare names are of the library's own models."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    for repository in (name, f"sentence-transformers/{name}"):
        with suppress(HFValidationError, LocalEntryNotFoundError):
            snapshot_download(repository, local_files_only=True)
            return True
    return False


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
