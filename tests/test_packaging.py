"""What a wheel holds: every folder of the package and every file that it reads."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from gmb_hf.errors import InputError
from gmb_hf.files import shipped

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
    from_the_top = {"gmb_hf.metric_modules", "gmb_hf.card_templates"}
    assert packages_of_setup_cfg() - from_the_top == folders


def test_every_data_file_matches_a_pattern_of_setup_cfg() -> None:
    shipped = (".py", ".j2", ".css", ".js", ".json")  # `py.typed` is named there
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


def test_every_card_template_matches_a_pattern_of_setup_cfg() -> None:
    assert {path.suffix for path in (ROOT / "cards").iterdir()} == {".j2"}


def test_a_folder_that_an_installation_lacks_is_named() -> None:
    assert shipped("card_templates", "cards", holding="dataset.md.j2") == ROOT / "cards"
    with pytest.raises(InputError, match="cards/ is missing from this installation; install it"):
        shipped("card_templates", "cards", holding="nothing")
