"""How the files in `v0.4/` were made. It belongs to the package of that day: do not run it again.

What it wrote is kept as it is, since tests/test_old_files.py asks whether later versions read it.
It calls the package by the API of version 0.1.0, at the commit that the README names.

    cd tests/data/old && PYTHONPATH=../..:../../.. python make.py
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from synthetic import SYNTHETIC_DESIGN, synthetic_runlog
from transformers import GPT2Config, GPT2LMHeadModel

from gmb_hf import Design, RunLog, preset
from gmb_hf.cli import main
from gmb_hf.hub import panels
from gmb_hf.monitor.callback import STATE_FILE, RunWatch
from gmb_hf.monitor.monitor import AlarmMonitor
from gmb_hf.monitor.observe import Parts

COLUMNS = ("test_acc", "train_acc", "embedding_gini", "embedding_norm", "unembedding_gini")
SYSTEM = {"task": "synthetic", "model": "made-up", "optimizer": "none", "schedule": "1200 steps"}
RUNS, MID_RUN = 40, 22
EXPLORE, HELD_OUT, WATCHED = 0, 200, 907  # the first seeds
HELD_OUT_LOGS = "panels/old-29/heldout.parquet"
GINI: dict[str, Any] = {"name": "embedding_gini", "family": "spectral"}
GAIN = "embedding_gini_gain"
SMALL: dict[str, Any] = {
    **SYNTHETIC_DESIGN,
    "w_event": 60,
    "burn_in": 160,
    "fpr_targets": [0.05, 0.1],
    "primary_fpr": 0.1,
    "min_targets_ok": 1,
    "run_budgets": [0.1, 0.2],
    "primary_run_budget": 0.1,
    "smoothing_sweep": [1, 3],
    "run_groups": 2,
    "window_sweep": [80, 120],
    "null_draws": 400,
    "bootstrap_draws": 200,
    "undeclared": [],
    "seeds_explore": list(range(EXPLORE, EXPLORE + RUNS)),
    "seeds_eval": list(range(HELD_OUT, HELD_OUT + RUNS)),
}
ALL_KINDS: dict[str, Any] = {
    "researcher": "tests",
    "date_locked": "2026-11-23",
    "strata": [{"name": "late", "where": "event_step > 700"}],
    "also_events": [
        {"type": "E_plateau", "x_plateau_checkpoints": 3, "x_plateau_threshold": 0.9},
    ],
    "candidates": [
        {"name": "embedding_norm", "family": "external", "x_sign": -1, "x_sees_test_labels": False},
        {"name": GAIN, "family": "spectral", "params": {"window": 80}},
        {"name": "both", "x_ensemble": {"members": [GINI, "embedding_norm_drop"]}},
        {
            "name": "trees",
            "x_ensemble": {
                "members": [GINI, "embedding_norm_drop"],
                "method": "boosted",
                "features": ["score", "change_2"],
                "leaves": [2],
                "trees": [5, 10],
            },
        },
    ],
}
EXPLORATORY = ("--horizon=100", "--safe-gap=200", "--jump=0.2", "--window=60", "--burn-in=160")
FEW = (
    "--fpr=0.05",
    "--run-budgets=0.05",
    "--null-draws=200",
    "--bootstrap-draws=100",
    "--smoothing-sweep=1,3",
    "--run-groups=2",
)


def gmb(*words: object, code: int = 0) -> None:
    """Type a command."""
    found = main([str(word) for word in words])
    assert found == code, (words, found)


def made(n_runs: int, first_seed: int) -> RunLog:
    """Runs of one system; three digits, so that the files are small."""
    log = synthetic_runlog(
        n_runs,
        n_checkpoints=61,
        cadence=20,
        seed=first_seed,
        first_seed=first_seed,
        share_with_event=1.0 if n_runs == 1 else 0.95,
    )
    values = {name: np.round(log.panel(name).values, 3) for name in COLUMNS}
    steps = log.panel("step").steps[0]
    return RunLog.from_arrays(log.runs, steps, values, seeds=log.seeds, metadata=SYSTEM)


def lock_and_results() -> None:
    """A preregistration, its lock, the look that it took, and what it found."""
    Path("locked").mkdir()
    gmb("prereg", "init", "--out", "locked/template.yaml")
    Design.minimal(**SMALL, **ALL_KINDS).write("locked/prereg.yaml")
    logs = ("--runs", "panels/old-29/explore.parquet")
    gmb("lock", "--prereg", "locked/prereg.yaml", *logs, "--out", "locked/lock.yaml")
    judging = ("--lock", "locked/lock.yaml", "--runs", HELD_OUT_LOGS)
    gmb("evaluate", *judging, "--out", "locked/results", "--no-figures")


def exploratory_results() -> None:
    """What no lock stands behind, by both protocols."""
    score = ("--score", "unembedding_gini", "--runs", HELD_OUT_LOGS, "--no-figures")
    for protocol in ("strict", "v0.4"):
        out = ("--protocol", protocol, "--out", f"exploratory/{protocol}")
        gmb("evaluate", *score, *EXPLORATORY, *FEW, *out)


def panel() -> None:
    """A panel, a look at it without a lock, and one by a lock."""
    parts = {panels.EXPLORE: made(RUNS, EXPLORE), panels.HELD_OUT: made(RUNS, HELD_OUT)}
    design = Design.minimal(**{**SMALL, **SYSTEM}, candidates=[GINI])
    recipe = panels.Recipe("old-29", "Are old panels read", lambda: preset("smoke"))
    panels.freeze(recipe, parts, design, Path("panels/old-29"), command="by hand")
    gmb("evaluate", "--runs=panel:old-29", "--score=embedding_gini", "--out=x", "--no-figures")
    Path("locked_on_panel").mkdir()
    lock = "locked_on_panel/lock.yaml"
    gmb("lock", "--runs=panel:old-29", "--out", lock)
    gmb("evaluate", "--runs=panel:old-29", "--lock", lock, "--out=x", "--force", "--no-figures")
    shutil.rmtree("x")


def submission() -> None:
    """A score of somebody on the panel: joined, locked, judged, submitted and checked."""
    log, joined = RunLog.read("panels/old-29/*.parquet"), "x/joined.parquet"
    values = {"my_score": np.round(2 * log.panel("embedding_gini").values, 3)}
    scores = RunLog.from_arrays(log.runs, log.panel("step").steps[0], values, seeds=log.seeds)
    Path("x").mkdir()
    scores.write("x/my_score.parquet")
    gmb("runs", "join", "--runs=panel:old-29", "--scores=x/my_score.parquet", "--out", joined)
    given = ("--runs", joined, "--score=my_score", "--no-test-labels")
    gmb("lock", *given, "--out=x/lock.yaml")
    gmb("evaluate", "--runs", joined, "--lock=x/lock.yaml", "--out=x/judged", "--no-figures")
    Path("x/my_score.py").write_text("def my_score(gini):\n    return 2 * gini\n")
    author = ("--author=A. Reader", "--claim=Twice the Gini", "--code=x/my_score.py")
    files = ("--lock=x/lock.yaml", "--results=x/judged")
    gmb("submit", "old_score", "--runs", joined, *files, *author)
    gmb("leaderboard", "check", "submissions/old_score")
    shutil.rmtree("x")


def watched_runs() -> None:
    """A run in the middle, one that has alarmed, and what a training leaves that is watched."""
    place = Path("watched")
    place.mkdir()
    table = made(1, WATCHED).table.drop_columns(["run", "seed"])
    rows = [{"step": row.pop("step"), **row} for row in table.to_pylist()]
    lines = [json.dumps(row) + "\n" for row in rows]
    (place / "whole.jsonl").write_text("".join(lines), encoding="utf-8")
    (place / "midrun.jsonl").write_text("".join(lines[:MID_RUN]))
    by = ("--lock", "locked/lock.yaml", "--results", "locked/results/results.yaml", "--act", GAIN)
    gmb("monitor", *by, "--follow", place / "midrun.jsonl", "--idle", 0)
    gmb("monitor", *by, "--follow", place / "whole.jsonl", "--idle", 0, code=3)
    judged = ("locked/lock.yaml", "locked/results/results.yaml")
    monitor = AlarmMonitor(*judged, act=["both"], system=SYSTEM)
    for row in rows[:MID_RUN]:
        monitor.update(**row)
    monitor.save(place / "saved.json")
    monitor.close()
    by_step = {row["step"]: row for row in rows}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=4, n_layer=1, n_head=1, n_positions=4))
    watch = RunWatch(
        *judged,
        act=[GAIN],
        system=SYSTEM,
        parts=Parts(residues=5),
        extra=lambda model, step: {"embedding_gini": by_step[step]["embedding_gini"]},
    )
    watch.begin(place / "training")
    for row in rows:
        watch.step = row["step"]
        watch.check(model, row["step"])
        if row["step"] == rows[MID_RUN]["step"] or watch.acted == row["step"]:
            folder = place / "training" / f"checkpoint-{row['step']}"
            folder.mkdir()
            watch.keep(folder / STATE_FILE, row["step"])


def everything() -> None:
    """All of it, in an empty folder."""
    place = Path("v0.4")
    place.mkdir()
    os.chdir(place)
    os.environ[panels.PLACE] = "panels"
    panel()
    lock_and_results()
    exploratory_results()
    submission()
    watched_runs()
    # Pages are made of results alone; of the other forms of one content one example is enough.
    left_out = ("report.html", "*.tex", "*.claim")
    patterns = [f"**/{one}" for one in left_out]
    patterns += ["exploratory/**/*.md", "exploratory/**/*.json"]
    for path in {path for pattern in patterns for path in Path().glob(pattern)}:
        path.unlink()


if __name__ == "__main__":
    everything()
