"""What `gmb_hf.core` is: arrays in, arrays out, readable in one go, importable on its own."""

from __future__ import annotations

import ast
import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import gmb_hf.core

FOLDER = Path(gmb_hf.core.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
MODULES = [f"gmb_hf.core.{path.stem}" for path in FILES if path.stem != "__init__"]
ALLOWED = {"numpy", "scipy", *sys.stdlib_module_names}
OURS = ("gmb_hf.core", "gmb_hf.base")


def imported(path: Path) -> list[str]:
    """Every module that a file imports, inside functions and under TYPE_CHECKING as well."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name}: relative import"
            found.append(node.module or "")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_imports_numpy_scipy_and_the_base_alone(path: Path) -> None:
    for module in imported(path):
        ours = any(module == one or module.startswith(f"{one}.") for one in OURS)
        assert ours or module.split(".")[0] in ALLOWED, f"{path.name} imports {module}"


def test_importing_it_loads_no_files_models_or_tables() -> None:
    code = "import gmb_hf.core, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "numpy" in loaded
    assert not loaded & {"torch", "transformers", "sklearn", "pyarrow", "pydantic", "pandas"}
    rooms = {name.split(".")[1] for name in done.stdout.split() if name.startswith("gmb_hf.")}
    assert rooms <= {"core", "base", "_version", "_lazy"}


def test_it_can_be_read_as_a_whole() -> None:
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES) <= 2500


@pytest.mark.parametrize("name", MODULES)
def test_its_examples_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_its_names_are_documented() -> None:
    """Every public function and class of the package says what it is."""
    public = [name for name in vars(gmb_hf.core) if not name.startswith("_")]
    assert {"label_windows", "run_threshold", "first_alarms", "run_maxima"} <= set(public)
    for name in public:
        one = getattr(gmb_hf.core, name)
        if callable(one):
            assert one.__doc__, name
