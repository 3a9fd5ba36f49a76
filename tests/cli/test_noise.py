"""Noise through `gmb evaluate`, with and without a lock: never eligible for an alarm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from command_line import FEW_DRAWS, gmb

from gmb_hf import Design, Results

WINDOWS = ("--horizon=40", "--safe-gap=60", "--window=5", "--lead-min=5", *FEW_DRAWS)
ASKED = ("--score=noise", "--runs=noise.csv", "--out=found")


@pytest.fixture
def _noise() -> None:
    for file, first in (("explore.csv", 0), ("noise.csv", 1000)):
        rng = np.random.default_rng(first)
        run, step = (part.ravel() for part in np.mgrid[0:40, 0:140])
        accuracy = (step >= rng.integers(90, 130, size=40)[run]) * 0.9
        scores = {"test_acc": accuracy, "noise": rng.normal(size=len(run))}
        table = {"run": [f"seed_{first + i}" for i in run], "step": step, **scores}
        pyarrow.csv.write_csv(pa.table(table), file)


@pytest.mark.usefixtures("_noise")
@pytest.mark.parametrize("protocol", ["strict", "v0.4", "compat"])
def test_without_a_lock(protocol):
    own = WINDOWS if protocol != "compat" else ("--horizon=40",)
    done = gmb("evaluate", *ASKED, f"--protocol={protocol}", *own, "--require-supported")
    assert done.code == 1, done
    assert "no score may raise an alarm; with" in done.err
    results = Results.read("found/results.yaml")
    assert not any(item.x_alarm_eligible for item in results.indicators)
    exploratory = "Exploratory: without a lock no score may raise an alarm."
    assert " ".join(done.out.split()).count(exploratory) == 1
    assert "Design and thresholds frozen before evaluation: no lock" in " ".join(done.out.split())
    assert "**Exploratory, without a lock:" in Path("found/report.md").read_text()
    if protocol == "v0.4":
        assert results.indicator("noise").label == "SUPPORTED_FOR_ALARM"
        table = Path("found/tables/gate_summary.csv").read_text()
        assert "exploratory: not locked; by the letter of v0.4, which pure noise can pass" in table


@pytest.mark.usefixtures("_noise")
@pytest.mark.parametrize("protocol", ["strict", "v0.4"])
def test_by_a_lock(protocol):
    Design.minimal(
        protocol=protocol,
        horizon=40,
        safe_gap=60,
        w_event=5,
        lead_time_median_min=5,
        window_sweep=[40],
        smoothing_sweep=[1],
        run_groups=2,
        bootstrap_draws=200,
        null_draws=200,
        candidates=[{"name": "noise", "x_sees_test_labels": False}],
        seeds_explore=list(range(40)),
        seeds_eval=list(range(1000, 1040)),
    ).write("prereg.yaml")
    typed = ("--prereg=prereg.yaml", "--runs=explore.csv")
    explored = gmb("explore", *typed)
    assert "nothing here is a claim" in " ".join(explored.out.split()), explored
    locked = gmb("lock", *typed, "--undeclared", "--out=lock.yaml")
    assert locked.code == 0, locked
    table = pyarrow.csv.read_csv("noise.csv")
    late = (np.asarray(table["step"]) >= 10) | (np.asarray(table["run"]) != "seed_1003")
    pyarrow.csv.write_csv(table.filter(pa.array(late)), "noise.csv")
    done = gmb("evaluate", *ASKED[1:], "--lock=lock.yaml", "--require-supported")
    said = " ".join(done.out.split())
    assert (
        "note: 1 of 40 runs begin late, at step 10, where other runs have begun by step 0" in said
    )
    assert done.code == 1, done
    assert done.err == "no: no score may raise an alarm\n"
    results = Results.read("found/results.yaml")
    assert {item.name for item in results.indicators} >= {"noise", "clock"}
    assert not any(item.x_alarm_eligible for item in results.indicators)
    assert results.x_protocol == protocol
    assert "Exploratory" not in done.out
