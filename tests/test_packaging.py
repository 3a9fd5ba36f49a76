"""What a wheel would hold: every folder of the package and every file that it reads."""

from __future__ import annotations

from pathlib import Path

from setuptools import find_packages

ROOT = Path(__file__).resolve().parents[1]


def test_every_folder_with_code_is_a_package() -> None:
    found = set(find_packages(str(ROOT), include=["gmb_hf*"]))
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "gmb_hf").rglob("*.py")
    }
    assert folders == found


def test_every_data_file_matches_a_pattern_of_setup_cfg() -> None:
    shipped = (".py", ".j2", ".json")  # `py.typed` is named there
    others = [
        path.relative_to(ROOT)
        for path in (ROOT / "gmb_hf").rglob("*")
        if path.is_file() and path.suffix not in (*shipped, ".pyc") and path.name != "py.typed"
    ]
    assert others == []
