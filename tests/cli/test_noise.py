"""Noise through `gmb evaluate`, with and without a lock: never eligible for an alarm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from command_line import gmb

from gmb_hf import Results

WINDOWS = ("--horizon=40", "--safe-gap=60", "--window=5", "--lead-min=5")
ASKED = ("--score=noise", "--runs=noise.csv", "--out=found")


@pytest.fixture
def _noise() -> None:
    rng = np.random.default_rng(1000)
    run, step = (part.ravel() for part in np.mgrid[0:40, 0:140])
    accuracy = (step >= rng.integers(90, 130, size=40)[run]) * 0.9
    table = {"run": run, "step": step, "test_acc": accuracy, "noise": rng.normal(size=len(run))}
    pyarrow.csv.write_csv(pa.table(table), "noise.csv")


@pytest.mark.usefixtures("_noise")
@pytest.mark.parametrize("protocol", ["strict", "v0.4", "compat"])
def test_without_a_lock(protocol):
    own = WINDOWS if protocol != "compat" else ("--horizon=40",)
    done = gmb("evaluate", *ASKED, f"--protocol={protocol}", *own, "--require-supported")
    assert done.code == 1, done
    assert "no score may raise an alarm; with" in done.err
    results = Results.read("found/results.yaml")
    assert not any(item.x_alarm_eligible for item in results.indicators)
    assert "Exploratory, without a lock" in " ".join(done.out.split())
    assert "Design and thresholds frozen before evaluation: no lock" in " ".join(done.out.split())
    assert "This evaluation is **exploratory**" in Path("found/report.md").read_text()
    if protocol == "v0.4":
        assert results.indicator("noise").label == "SUPPORTED_FOR_ALARM"
        table = Path("found/tables/gate_summary.csv").read_text()
        assert "exploratory: not locked; not judged by strict" in table
