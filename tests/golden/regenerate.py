"""Write the expected files with the current code: `python tests/golden/regenerate.py`."""

from __future__ import annotations

import shutil

from golden_cases import ALONE, EXPECTED, played, scenarios


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
    print(f"{len(texts)} files in {EXPECTED}")


if __name__ == "__main__":
    regenerate()
