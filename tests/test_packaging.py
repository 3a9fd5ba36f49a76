"""What a wheel holds: every folder of the package and every file that it reads."""

from __future__ import annotations

import configparser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def packages_of_setup_cfg() -> set[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return {
        line
        for line in config["options"]["packages"].splitlines()
        if line and not line.startswith("#")
    }


def test_every_folder_with_code_is_a_package_of_setup_cfg() -> None:
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "gmb_hf").rglob("*.py")
    }
    assert packages_of_setup_cfg() - {"gmb_hf.metric_modules"} == folders


def test_every_data_file_matches_a_pattern_of_setup_cfg() -> None:
    shipped = (".py", ".j2", ".json")  # `py.typed` is named there
    others = [
        path.relative_to(ROOT)
        for path in (ROOT / "gmb_hf").rglob("*")
        if path.is_file() and path.suffix not in (*shipped, ".pyc") and path.name != "py.typed"
    ]
    assert others == []


def test_every_file_of_a_metric_matches_a_pattern_of_setup_cfg() -> None:
    files = [path for path in (ROOT / "metrics").glob("*/*") if path.name != "__pycache__"]
    assert files
    assert {path.suffix for path in files} <= {".py", ".md", ".txt"}
