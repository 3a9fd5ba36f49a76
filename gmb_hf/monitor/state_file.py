"""The file in which a monitor's state lies: written atomically, and one living monitor's alone."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmb_hf.files import clear_os_errors, write_text
from gmb_hf.validation import InputError


class StateFile:
    """A claim on a file.

    It is a lock of the operating system on a file beside it, which ends with the process, however
    that ends.

    Raises:
        InputError: another monitor has claimed it, or the place cannot be written to.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with clear_os_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._claim = self.path.with_name(f".{self.path.name}.claim").open("a")
        try:
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._claim.close()
            raise InputError(
                f"{self.path}: another monitor saves its state here; give each run a file of its "
                "own, or end that monitor first"
            ) from None

    def write(self, state: Mapping[str, Any]) -> Path:
        """Replace what the file holds."""
        return write_text(self.path, json.dumps(state, allow_nan=False) + "\n")

    def close(self) -> None:
        """Let another monitor have it."""
        self._claim.close()
