"""The file in which a monitor's state lies: written atomically, and one living monitor's alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmb_hf.files import claim, write_text


class StateFile:
    """A claim on a file, as `gmb_hf.files.claim` makes it.

    Raises:
        InputError: another monitor has claimed it, or the place cannot be written to.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._claim = claim(
            self.path,
            "another monitor saves its state here; give each run a file of its own, or end that "
            "monitor first",
        )

    def write(self, state: Mapping[str, Any]) -> Path:
        """Replace what the file holds."""
        return write_text(self.path, json.dumps(state, allow_nan=False) + "\n")

    def close(self) -> None:
        """Let another monitor have it."""
        self._claim.close()
