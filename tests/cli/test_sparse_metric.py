"""A CSV whose metric stands in every second row is taken on every way to a verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
from command_line import COLUMNS, DESIGN, gmb
from synthetic import FEW_MEMBERS, SYNTHETIC_DESIGN, synthetic_runlog

from gmb_hf import Design, Results
from gmb_hf.design.lock import Lock

NOTE = "rows in which test_acc and embedding_gini and train_acc have a value."


def write_sparse(path: str, runs: int, first: int) -> None:
    """Runs with a checkpoint every 10 steps and the metric every 20."""
    table = synthetic_runlog(runs, seed=first, first_seed=first).table.select(COLUMNS)
    rows = zip(table["step"].to_pylist(), table["test_acc"].to_pylist(), strict=True)
    thinned = pa.array([value if step % 20 == 0 else None for step, value in rows], pa.float64())
    place = table.column_names.index("test_acc")
    pyarrow.csv.write_csv(table.set_column(place, "test_acc", thinned), path)


def test_every_command_takes_it_and_finds_the_same_events() -> None:
    write_sparse("explore.csv", 30, 0)
    write_sparse("heldout.csv", 40, 100)
    settings = {**SYNTHETIC_DESIGN, **FEW_MEMBERS, "w_event": 60}
    settings |= {"null_draws": 200, "bootstrap_draws": 100}
    score = {"name": "embedding_gini", "family": "external", "x_sees_test_labels": False}
    Design.minimal(**settings, candidates=[score]).write("prereg.yaml")

    explored = gmb("explore", "--runs=explore.csv", "--prereg=prereg.yaml", "--out=table.csv")
    assert explored.code == 0, explored
    assert f"note: Kept are the 1830 of 3630 {NOTE}" in explored.out
    locked = gmb("lock", "--runs=explore.csv", "--prereg=prereg.yaml", "--out=lock.yaml")
    assert locked.code == 0, locked
    assert f"note: Kept are the 1830 of 3630 {NOTE}" in locked.out
    assert Lock.read("lock.yaml").design.cadence == 20

    judged = gmb("evaluate", "--lock=lock.yaml", "--runs=heldout.csv", "--out=by_lock")
    assert judged.code == 0, judged
    options = ("--score=embedding_gini", "--no-test-labels", "--window=60", "--out=by_runs")
    alone = gmb("evaluate", "--runs=heldout.csv", "--explore-runs=explore.csv", *DESIGN, *options)
    assert alone.code == 0, alone
    by_lock, by_runs = (Results.read(f"{way}/results.yaml") for way in ("by_lock", "by_runs"))
    assert by_lock.event.t_event_by_seed == by_runs.event.t_event_by_seed
    assert all(step and step % 20 == 0 for step in by_lock.event.t_event_by_seed.values())
    assert any(note.endswith(NOTE) for note in by_lock.summary.x_notes)
    for one, other in zip(by_lock.indicators, by_runs.indicators, strict=True):
        assert one.layer_A == other.layer_A
        assert one.layer_C == other.layer_C
        # Budgets that a lock promises must be shown without one; all else is the same.
        assert one.layer_D.family_size == other.layer_D.family_size

    pilot = ("--pilot=heldout.csv", "--score=embedding_gini", "--horizon=100", "--safe-gap=200")
    event = ("--window=60", "--jump=0.2", "--burn-in=150")
    planned = gmb("plan", *pilot, *event, "--out=p.json")
    assert planned.code in (0, 1), planned
    assert "40 pilot runs with 40 events" in planned.out
    assert json.loads(Path("p.json").read_text(encoding="utf-8"))
