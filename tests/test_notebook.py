"""The notebook in examples/ runs in a kernel, and shows what it makes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"
LONGEST = 60  # seconds; 7 on a quiet machine


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells of code with their outputs, run in an empty folder."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        for place in ("CONFIG", "DATA", "RUNTIME"):
            patch.setenv(f"JUPYTER_{place}_DIR", str(tmp_path_factory.mktemp(place)))
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        began = time.monotonic()
        resources = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, timeout=LONGEST, resources=resources).execute()
        print(f"{time.monotonic() - began:.1f} s")
    assert not list(folder.iterdir()), "the notebook says that it needs no files"
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> dict[str, str]:
    """What a cell shows as its value, by MIME type."""
    (output,) = cell.outputs
    return dict(output["data"])


def test_it_is_kept_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


def test_logs_lock_and_results_are_short_tables(executed: list[Any]):
    begins = ("RunLog(100 runs", "Panel('sharpness', 100 runs", "Lock('synthetic", "Results('synth")
    for cell, text in zip(executed[:4], begins, strict=True):
        assert shown(cell)["text/plain"].startswith(text)
        page = shown(cell)["text/html"]
        assert "<table>" in page
        assert len(page) < 2_000


def test_the_score_that_rises_may_raise_an_alarm(executed: list[Any]):
    (said,) = executed[-1].outputs
    assert said["text"].startswith("May raise an alarm: it detects")
    assert "1 may raise an alarm" in shown(executed[3])["text/plain"]
    assert "SUPPORTED_FOR_ALARM" in shown(executed[-2])["text/html"]


def test_the_figure_is_a_picture_without_pyplot(executed: list[Any]):
    assert shown(executed[4])["image/png"].startswith("iVBOR")
