"""One mistake through each way in: how it speaks. What it finds is tested where it is found."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from synthetic import synthetic_runlog

import gmb_hf
import gmb_hf.jobs.metrics
from gmb_hf.cli import main

GAP = "safe_gap 50 must be larger than horizon 100"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_runlog(6, 41).write(tmp_path_factory.mktemp("logs") / "runs.parquet")


def typed(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `gmb`."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


class TestAFileThatIsNotThere:
    @pytest.fixture(autouse=True)
    def _nothing_is_near(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)

    def test_in_a_notebook(self):
        with pytest.raises(gmb_hf.InputError) as caught:
            gmb_hf.RunLog.read("gone.csv")
        assert str(caught.value) == "gone.csv: no such file or folder"
        assert isinstance(caught.value, ValueError)
        assert caught.value.location["where"] == "gone.csv"

    def test_on_the_command_line(self):
        code, out, err = typed("runs", "verify", "--runs", "gone.csv")
        assert (code, out, err) == (2, "", "error: gone.csv: no such file or folder\n")


class TestADesignThatCannotBe:
    """Each way in names the two lengths by the words in which they were given to it."""

    def test_in_a_notebook(self, logs: Path):
        design = gmb_hf.Design.minimal(
            horizon=100, safe_gap=50, candidates=[{"name": "embedding_gini", "family": "external"}]
        )
        with pytest.raises(gmb_hf.InputError) as caught:
            gmb_hf.evaluate_runs(design, gmb_hf.RunLog.read(logs))
        assert "\n" not in str(caught.value)
        assert re.search(r"50 must be larger than .*100", str(caught.value))

    def test_on_the_command_line(self, logs: Path, tmp_path: Path):
        code, out, err = typed(
            *("evaluate", "--runs", logs, "--score=embedding_gini", "--horizon=100"),
            *("--safe-gap=50", "--out", tmp_path / "results"),
        )
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert "--safe-gap 50 must be larger than --horizon 100" in err
        assert not (tmp_path / "results").exists()

    def test_through_evaluate(self):
        metric = gmb_hf.jobs.metrics.load("gmb_verdict")
        series = {"predictions": [[1.0, 2.0] * 20] * 2, "references": [35.0, 28.0]}
        with pytest.raises(gmb_hf.InputError) as caught:
            metric.compute(**series, horizon=100, safe_gap=50)
        assert str(caught.value).startswith(f"gmb_verdict: {GAP}")
        assert "Right call: gmb_verdict.compute(predictions=" in str(caught.value)
        assert "\n" not in str(caught.value)
