"""Packages load their names when they are first used: each name is there, and no other."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAZY = sorted(
    ".".join(path.relative_to(ROOT).parts[:-1])
    for path in (ROOT / "gmb_hf").rglob("__init__.py")
    if "load(__name__" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("package", LAZY)
def test_every_name_is_where_its_package_says(package: str):
    module = import_module(package)
    assert module.__dir__() == module.__all__
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert not missing, f"{package} has no {', '.join(missing)}"


def test_another_name_is_an_attribute_error():
    assert "gmb_hf.runs" in LAZY
    with pytest.raises(AttributeError, match=r"^module 'gmb_hf.runs' has no attribute 'Panelx'$"):
        _ = import_module("gmb_hf.runs").Panelx
