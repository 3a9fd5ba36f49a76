"""Texts to embeddings through sentence-transformers, an extra of this package."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.validation import InputError

INSTALL = "pip install 'gmb-hf[encoders]'"
_BATCH = 256


class Encoder:
    """A sentence-transformers model, from the Hub or from a folder.

    Args:
        name: its name or path.

    Raises:
        InputError: sentence-transformers is not installed, or there is no such model.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise InputError(
                f"--encoder needs sentence-transformers: {INSTALL}; or give --embeddings"
            ) from None
        looks_like_path = name.startswith((".", "/", "~")) or name.count("/") > 1
        if looks_like_path and not Path(name).expanduser().is_dir():
            raise InputError(f"encoder {name!r} cannot be found: there is no such folder")
        try:
            with _quiet_hub():
                self._model: Any = SentenceTransformer(str(Path(name).expanduser()))
        except Exception as error:  # offline, unknown, gated, or no such model: each has its own
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(f"encoder {name!r} cannot be found or loaded: {reason}") from None

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
