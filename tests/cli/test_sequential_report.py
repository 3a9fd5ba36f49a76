"""`gmb sequential report`, as a user types it, on folders as a run leaves them."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command_line import Outcome, gmb, refused

from gmb_hf.protocol.sequential.config import preset
from gmb_hf.protocol.sequential.matrix import RetentionMatrix, write_matrix
from gmb_hf.protocol.sequential.report import sequential_report
from gmb_hf.runs.runlog import RunLog

NAMES = ("retention_by_task", "retention_summary", "matrix_accuracy", "matrix_full", "matrix_loss")


def folder(
    path: Path,
    *,
    variants: Sequence[str] = ("dense", "sort-4"),
    seeds: Sequence[int] = range(4),
    changes: Sequence[str] = (),
    suite: str = "modular",
    logs: bool = True,
) -> Path:
    """What `gmb sequential run` leaves, with numbers that were made up."""
    config = preset("quick", suite).changed(
        ["suite.prime=7", "training.steps=3000", *changes] if suite == "modular" else changes
    )
    design = {
        "design": config.design(),
        "fingerprints": config.suite.fingerprints(),
        "preset": "quick",
    }
    path.mkdir(parents=True)
    (path / "sequential.yaml").write_text(yaml.safe_dump(design))
    tasks = config.suite.tasks
    rng = np.random.default_rng(len(variants))
    matrices = {}
    for place, variant in enumerate(variants):
        loss = rng.uniform(3, 4, (len(seeds), len(tasks) + 1, len(tasks)))
        for k in range(len(tasks)):
            loss[:, k + 1, k] = rng.uniform(0.01, 0.1, len(seeds))
            loss[:, k + 2 :, k] -= 2 * place
        matrices[variant] = RetentionMatrix(
            variant, tuple(seeds), tasks, tasks, loss, np.exp(-loss)
        )
        for phase, task in enumerate(tasks if logs else (), start=1):
            steps = np.arange(0, 301, 50)
            losses = {name: rng.uniform(0.1, 3, (len(seeds), len(steps))) for name in
                      ("train_loss", "test_loss")}  # fmt: skip
            names = [f"{variant}-{phase}-{seed}" for seed in seeds]
            log = RunLog.from_arrays(names, steps, losses, seeds=list(seeds))
            log.metadata = {"variant": variant, "phase": phase, "task": task}
            log.write(path / "logs" / variant / f"phase-{phase}-{task}-seeds-0.parquet")
    write_matrix(path / "matrix.csv", matrices)
    return path


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A run that is reported in its own folder, and what the command said."""
    run = folder(tmp_path_factory.mktemp("reported") / "run")
    done = gmb("sequential", "report", run, figures=True)
    assert done.code == 0, done
    return run, done


def test_one_run_is_reported_in_its_own_folder(reported: tuple[Path, Outcome]) -> None:
    run, done = reported
    said = " ".join(done.out.split())
    assert "quick is not the protocol: p = 7 (protocol: 97)" in said
    assert "3,000 steps a phase (protocol: 50,000)" in said
    assert "weight_decay 1.5 (protocol: 1)" in said
    assert done.next_command == f"cat {run}/tables/matrix_loss.md"
    for name in (*NAMES, "comparison"):
        for suffix in ("csv", "md", "tex"):
            text = (run / "tables" / f"{name}.{suffix}").read_text(encoding="utf-8")
            assert "not the protocol" in text, name
    for name in ("matrix_loss", "matrix_accuracy", "forgetting", "phases"):
        assert (run / "figures" / f"{name}.png").stat().st_size > 10_000
        assert (run / "figures" / f"{name}.svg").is_file()
    compared = (run / "tables" / "comparison.md").read_text(encoding="utf-8")
    assert "p: sign-flip permutation test on shared seeds" in compared
    data = json.loads((run / "retention.json").read_text())
    assert data["test"] in compared
    assert data["chance"]["mul"] == {"loss": math.log(7), "accuracy": 1 / 7}

    drawn = table(run / "tables" / "matrix_loss.csv")
    assert list(drawn[0])[:7] == [
        "Variant", "Phase", "Trained on", "val_add", "val_sub", "val_mul", "val_sq_sum",
    ]  # fmt: skip
    assert [drawn[0][f"val_{task}"] for task in ("sub", "mul", "sq_sum")] == ["-"] * 3
    cells = {(row["variant"], row["phase"], row["task"]): row for row in
             table(run / "tables" / "matrix_full.csv")}  # fmt: skip
    assert len(cells) == 2 * 5 * 4
    assert drawn[1]["val_add"] == cells["dense", "2", "add"]["loss_mean"]
    lines = (run / "tables" / "matrix_loss.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "| Variant | Phase | Trained on | val_add | val_sub | val_mul | val_sq_sum |"
    assert lines[2].endswith("| - | - | - |")
    assert " ± " in lines[2]


def test_the_same_files_give_the_same_report_elsewhere(
    reported: tuple[Path, Outcome], tmp_path: Path
) -> None:
    run, out = folder(tmp_path / "run"), tmp_path / "out"
    assert gmb("sequential", "report", run, f"--out={out}").code == 0
    for path in sorted(out.rglob("*.*")):
        if path.name == "report.html":  # the first one has its figures in it
            continue
        assert path.read_bytes() == (reported[0] / path.relative_to(out)).read_bytes(), path
    assert not (run / "retention.json").exists()


def test_a_formal_suite_in_the_size_of_the_protocol_needs_no_note(tmp_path: Path) -> None:
    shape = ["model.width=128", "model.mlp_width=512"]
    shape += ["training.steps=50000", "phases.steps=none", "phases.stop_loss=none"]
    shape += ["training.lr=1e-3", "training.weight_decay=1.0"]
    run = folder(tmp_path / "run", suite="formal", changes=shape, logs=False)
    made = sequential_report([run], run)
    assert made.summary.notes == ()
    assert "note" not in table(run / "tables" / "matrix_loss.csv")[0]
    assert not (run / "figures" / "phases.png").exists()  # no logs, no curves


def test_runs_of_other_times_stand_side_by_side(tmp_path: Path) -> None:
    first = folder(tmp_path / "first", logs=False)
    later = folder(tmp_path / "later", variants=("dense", "blend-8"), seeds=range(2, 6), logs=False)
    out = tmp_path / "both"
    sequential_report([first, later], out, figures=False)
    data = json.loads((out / "retention.json").read_text())
    assert list(data["variants"]) == [
        "dense (first)", "sort-4 (first)", "dense (later)", "blend-8 (later)",
    ]  # fmt: skip
    assert data["baseline"] == "dense (first)"
    pair = next(row for row in data["differences"] if row["variant"] == "blend-8 (later)")
    assert pair["seeds"] == [2, 3]
    assert pair["p_value"] is None


def test_names_that_no_other_run_has_stay_as_they_are(tmp_path: Path) -> None:
    first = folder(tmp_path / "first", logs=False)
    later = folder(tmp_path / "later", variants=("blend-8",), logs=False)
    out = tmp_path / "both"
    sequential_report([first, later], out, baseline="sort-4", figures=False)
    rows = table(out / "tables" / "comparison.csv")
    assert {row["variant"] for row in rows} == {"dense", "blend-8"}
    assert {row["baseline"] for row in rows} == {"sort-4"}


def test_other_data_are_refused_or_named_in_every_table(tmp_path: Path) -> None:
    first = folder(tmp_path / "first", logs=False)
    other = folder(tmp_path / "other", changes=["suite.op_token=shared"], logs=False)
    out = tmp_path / "both"
    error = refused("sequential", "report", first, other, f"--out={out}")
    prints = {
        place: yaml.safe_load((place / "sequential.yaml").read_text())["fingerprints"]["add"][:16]
        for place in (first, other)
    }
    assert "task 'add': fingerprint" in error
    assert all(one in error for one in prints.values())
    assert "--allow-fingerprint-mismatch" in error
    assert not out.exists()

    sequential_report([first, other], out, allow_fingerprint_mismatch=True, figures=False)
    for name in (*NAMES, "comparison"):
        for suffix in ("csv", "md", "tex"):
            text = (out / "tables" / f"{name}.{suffix}").read_text(encoding="utf-8")
            assert "NOT COMPARABLE: task" in text
            assert prints[other] in text


def test_fewer_than_three_seeds_are_said(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", seeds=(7,), logs=False)
    made = sequential_report([run], run, figures=False)
    few = "dense has 1 of at least 3 seeds: no interval, no test"
    assert few in made.summary.notes
    for name in (*NAMES, "comparison"):
        assert few in (run / "tables" / f"{name}.md").read_text(encoding="utf-8")
        assert "sign-flip" not in (run / "tables" / f"{name}.md").read_text(encoding="utf-8")
    row = table(run / "tables" / "retention_summary.csv")[0]
    assert (row["t_low"], row["bootstrap_high"], row["std"]) == ("", "", "")


def broken(run: Path, **changes: Any) -> Path:
    path = run / "sequential.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))
    return run


def test_each_bad_input_is_one_line(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", logs=False)
    other = folder(tmp_path / "other", logs=False)
    assert "nothere/sequential.yaml: no such file" in refused("sequential", "report", "nothere")
    assert "named twice" in refused("sequential", "report", run, run, f"--out={tmp_path}/x")
    assert "--out is missing" in refused("sequential", "report", run, other)
    assert "'dens' is unknown" in refused("sequential", "report", run, "--baseline=dens")
    order = ["suite.order=sub,add,mul,sq_sum"]
    swapped = folder(tmp_path / "swapped", changes=order, logs=False)
    error = refused("sequential", "report", run, swapped, f"--out={tmp_path}/x")
    assert "only equal ones compare" in error
    assert "no fingerprint for each of" in refused(
        "sequential", "report", broken(other, fingerprints={})
    )
    (run / "matrix.csv").unlink()
    assert "matrix.csv" in refused("sequential", "report", run)


@pytest.mark.parametrize("metadata", [{}, {"phase": "2"}])
def test_a_log_that_is_no_phase_is_refused(tmp_path: Path, metadata: dict[str, Any]) -> None:
    run = folder(tmp_path / "run")
    log = RunLog.from_arrays(
        ["x"], np.array([0]), {"train_loss": np.ones((1, 1)), "test_loss": np.ones((1, 1))}
    )
    log.metadata = metadata
    log.write(run / "logs" / "dense" / "mine.parquet")
    assert "mine.parquet: its metadata name no phase" in refused("sequential", "report", run)
