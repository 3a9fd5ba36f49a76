"""Scripts run as processes of their own, as their users run them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command from the project's root, with one thread and no terminal."""
    plain = {name: value for name, value in os.environ.items() if name != "WORLD_SIZE"}
    return subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**plain, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
