"""Importing the package and asking for help load nothing heavy; what counts is sys.modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    *("torch", "transformers", "accelerate", "sklearn"),
    *("scipy", "datasets", "matplotlib", "pandas"),
)
COUNTED = (*HEAVY, "numpy", "pyarrow", "pydantic")
PARSER = {"pydantic"}  # the parser of the command line looks for it itself
LIGHT_COMMANDS = (["--help"], ["--version"], ["data", "--help"])


def loaded_after(code: str) -> set[str]:
    """Which of the counted libraries a fresh interpreter has loaded after running `code`."""
    probe = (
        f"import sys\n{code}\nprint(*(m for m in {COUNTED} if m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stderr.split())


def test_import_loads_nothing_heavy():
    assert loaded_after("import gmb_hf; dir(gmb_hf); gmb_hf.__version__") == set()


@pytest.mark.parametrize("command", LIGHT_COMMANDS, ids=" ".join)
def test_help_loads_nothing_heavy(command: list[str]):
    loaded = loaded_after(f"from gmb_hf.cli import main; main({command!r})")
    assert loaded <= PARSER


def test_the_tree_of_commands_loads_nothing_heavy():
    assert loaded_after("import gmb_hf.cli") == set()


def test_the_catalogue_needs_no_training_libraries():
    loaded = loaded_after("from gmb_hf.cli import main; main(['indicators'])")
    assert not loaded & set(HEAVY)


def test_an_evaluation_without_figures_needs_no_matplotlib():
    judging = "gmb_hf.benchmark.evaluate, gmb_hf.hub.locks, gmb_hf.hub.panels, gmb_hf.hub.sources"
    assert "matplotlib" not in loaded_after(f"import {judging}, gmb_hf.report.report")


def test_the_probe_sees_what_is_loaded():
    assert loaded_after("import scipy") == {"scipy", "numpy"}
