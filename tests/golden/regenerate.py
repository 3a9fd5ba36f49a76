"""Write the expected files and the shipped schema of results, by the current code.

python tests/golden/regenerate.py
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # what all tests share

from golden_cases import ALONE, EXPECTED, played, scenarios

from gmb_hf import Results

SCHEMA = Path(__file__).parents[2] / "gmb_hf" / "benchmark" / "results_schema_v0.4.json"


def regenerate() -> None:
    """Write every expected file, and remove those that nothing makes any more."""
    texts = {name: make() for name, make in ALONE.items()}
    for name in scenarios():
        texts |= played(name)
    shutil.rmtree(EXPECTED, ignore_errors=True)
    for name, text in texts.items():
        path = EXPECTED / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    SCHEMA.write_text(json.dumps(Results.json_schema(), indent=2) + "\n", encoding="utf-8")
    print(f"{len(texts)} files in {EXPECTED}, and the schema of results in {SCHEMA.name}")


if __name__ == "__main__":
    regenerate()
