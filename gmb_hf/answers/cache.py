"""Scores that were paid for once, on disk: SHA-256 of what they depend on -> number.

An SQLite file: what is written is there whole or not at all, and several processes may share it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from gmb_hf.files import clear_os_errors
from gmb_hf.validation import InputError

_AT_ONCE = 500  # keys in one question
_PATIENCE = 60.0  # seconds for another process that is writing
_TABLE = "CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, score REAL) WITHOUT ROWID"


def default_cache() -> Path:
    """Where the scores of this user are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gmb-hf" / "judge.sqlite"


class ScoreCache:
    """The scores in a file, which is made where there is none.

    Args:
        path: the file.

    Raises:
        InputError: it is another kind of file, or cannot be written to.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        with clear_os_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._clear_errors():
            self._held = sqlite3.connect(self.path, timeout=_PATIENCE)
            with self._held:
                self._held.execute(_TABLE)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, float]:
        """Those of the keys that are known, with their scores; NaN for "has none"."""
        found: dict[bytes, float] = {}
        with self._clear_errors():
            for start in range(0, len(keys), _AT_ONCE):
                part = keys[start : start + _AT_ONCE]
                asked = f"SELECT key, score FROM scores WHERE key IN ({','.join('?' * len(part))})"
                for key, score in self._held.execute(asked, part):
                    found[key] = float("nan") if score is None else score
        return found

    def put(self, scores: Mapping[bytes, float]) -> None:
        """Keep these, all or none."""
        with self._clear_errors(), self._held:
            self._held.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", scores.items())

    def close(self) -> None:
        """Let go of the file."""
        self._held.close()

    def __enter__(self) -> ScoreCache:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise InputError(
                f"{self.path}: cannot be used as a cache of scores ({error}); remove it, or choose "
                "another --cache"
            ) from None
