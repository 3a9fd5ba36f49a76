"""`gmb audit`: PT-MSS per run, of published signals and of our own run logs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from command_line import gmb, refused
from synthetic import synthetic_runlog

SIGNALS = ("d_force", "d_info", "d_constraint", "d_force_alt", "d_info_alt", "d_constraint_alt")


def published(path: Path, **columns: Any) -> Path:
    """A run of a hundred checkpoints whose signals peak together at step 500, alone at 900."""
    steps = columns.pop("step", 10 * np.arange(100))
    data: dict[str, Any] = {"step": steps}
    for place, name in enumerate(SIGNALS):
        values = np.zeros(len(steps))
        values[50 % len(steps)] = 1.0
        values[(90 - place) % len(steps)] = 1.0
        data[name] = values
    data.update(columns)
    pyarrow.csv.write_csv(pa.table(data), path)
    return path


def read(path: str = "audit.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


class TestPublishedRuns:
    """The command as it is typed for the reference's runs."""

    @pytest.mark.parametrize("quantile", ["0.98", "0.99", "0.995"])
    def test_label_time_and_order_per_run(self, reference_runs: Path, quantile: str):
        runs = str(reference_runs / "*.csv")
        done = gmb("audit", "--runs", runs, "--quantile", quantile, "--radius=20", "--out=a.json")
        assert done.code == 0, done
        expected = json.loads((reference_runs / "expected.json").read_text())
        found = read("a.json")
        assert found["runs"].keys() == expected.keys()
        for run, item in found["runs"].items():
            assert {"label": item["label"], "t": item["t"]} == expected[run]["ptmss"][quantile]
            at_once = None if item["t"] is None else ["force", "info", "constraint"]
            assert item["order"] == at_once
        assert found["counts"] == Counter(item["label"] for item in found["runs"].values())
        assert "radius 20 is below the 500 steps between checkpoints" in " ".join(done.out.split())

    def test_an_unquoted_glob_is_all_its_files(self, reference_runs: Path):
        files = sorted(reference_runs.glob("seed_14*.csv"))
        assert gmb("audit", "--runs", *files, "--out=audit.json").code == 0
        assert len(read()["runs"]) == 10


class TestOutput:
    def test_the_file_the_table_and_the_next_command(self, tmp_path: Path):
        published(tmp_path / "a.csv")
        apart = np.zeros(100)
        apart[[10, 70]] = 1.0
        published(tmp_path / "b.csv", d_force=apart)
        published(tmp_path / "c.csv", d_force_alt=apart)
        published(tmp_path / "d.csv", d_info=np.ones(100))
        options = ("--quantile=0.985", "--radius=10", "--out=out/a.json")
        done = gmb("audit", "--runs", tmp_path / "*.csv", *options)
        assert done.code == 0, done
        found = read("out/a.json")
        order = ["force", "info", "constraint"]
        assert found["runs"] == {
            "a": {"label": "REGISTERED_TRANSITION", "t": 490, "order": order},
            "b": {"label": "NO_TRANSITION", "t": None, "order": None},
            "c": {"label": "ESTIMATOR_UNSTABLE", "t": 490, "order": order},
            # Every checkpoint is a member of info, t itself too.
            "d": {"label": "INCONCLUSIVE", "t": 490, "order": ["info", "force", "constraint"]},
        }
        assert found["counts"] == dict.fromkeys(
            ("REGISTERED_TRANSITION", "NO_TRANSITION", "ESTIMATOR_UNSTABLE", "INCONCLUSIVE"), 1
        )
        assert found["x_settings"] == {
            "quantile": 0.985,
            "radius": 10,
            "tolerance": 15,
            "columns": list(SIGNALS),
        }
        assert "REGISTERED_TRANSITION, 1 of 4 runs" in done.out
        assert "the alternates never move together" in done.out
        assert "info in 100.00% of checkpoints" in done.out
        assert "below the" not in done.out
        assert "wrote   out/a.json" in done.out
        assert done.next_command == (
            f"gmb runs verify --runs '{tmp_path}/*.csv' --event E_regime --quantile 0.985 "
            "--radius 10"
        )

    def test_many_runs_are_counted_and_not_all_listed(self, tmp_path: Path):
        for run in range(15):
            published(tmp_path / f"run_{run}.csv")
        done = gmb("audit", "--runs", tmp_path, "--quantile=0.985", "--out=audit.json")
        assert "REGISTERED_TRANSITION, 15 of 15 runs" in done.out
        assert "and 3 more in audit.json" in done.out
        assert len(read()["runs"]) == 15
        Path("audit.json").unlink()
        alone = gmb("audit", "--runs", tmp_path, "--quantile=0.985")
        assert "and 3 more; --out writes all" in alone.out
        assert "wrote" not in alone.out
        assert not Path("audit.json").exists(), "an answer is written only on request"

    def test_a_narrow_terminal(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("COLUMNS", "60")
        published(tmp_path / f"{'long_' * 20}.csv")
        done = gmb("audit", "--runs", tmp_path)
        table = done.out.partition("Signals")[0]
        assert all(len(line) <= 60 for line in table.splitlines())


class TestOwnLogs:
    def test_signals_are_derived_from_observables(self, tmp_path: Path):
        path = synthetic_runlog(6, corrupted=True).write(tmp_path / "runs.parquet")
        done = gmb("audit", "--runs", path, "--out=audit.json")
        assert done.code == 0, done
        found = read()
        columns = ["gradient_norm", "unembedding_entropy", "unembedding_rank", "correction_rate"]
        assert found["x_settings"]["columns"] == columns
        assert len(found["runs"]) == 6

    def test_the_margin_where_no_label_is_wrong(self, tmp_path: Path):
        path = synthetic_runlog(3).write(tmp_path / "runs.parquet")
        assert "test_margin_q50" in gmb("audit", "--runs", path).out

    def test_a_restarted_log_keeps_the_last_of_each_step(self, tmp_path: Path):
        log = synthetic_runlog(1)
        table = pa.concat_tables([log.table.slice(0, 80), log.table.slice(72)])
        pyarrow.csv.write_csv(table, tmp_path / "twice.csv")
        log.write(tmp_path / "once.parquet")
        assert gmb("audit", "--runs", tmp_path / "once.parquet", "--out=once.json").code == 0
        done = gmb("audit", "--runs", tmp_path / "twice.csv", "--out=twice.json")
        assert read("twice.json")["runs"] == read("once.json")["runs"]
        assert "8 rows of restarted logs" in done.out

    def test_other_columns_for_step_and_run(self, tmp_path: Path):
        table = synthetic_runlog(2).table.rename_columns({"step": "iteration", "run": "name"})
        pyarrow.csv.write_csv(table, tmp_path / "all.csv")
        options = ("--step-column=iteration", "--run-column=name")
        assert gmb("audit", "--runs", tmp_path / "all.csv", *options, "--out=audit.json").code == 0
        assert list(read()["runs"]) == ["seed_0", "seed_1"]


class TestOddRuns:
    def test_one_checkpoint(self, tmp_path: Path):
        published(tmp_path / "a.csv", step=np.array([7]))
        assert gmb("audit", "--runs", tmp_path, "--out=audit.json").code == 0
        assert read()["runs"]["a"]["label"] == "INCONCLUSIVE"

    def test_all_equal_signals(self, tmp_path: Path):
        published(tmp_path / "a.csv", **dict.fromkeys(SIGNALS, np.ones(100)))
        assert gmb("audit", "--runs", tmp_path, "--out=audit.json").code == 0
        assert read()["runs"]["a"] == {
            "label": "INCONCLUSIVE",
            "t": 0,
            "order": ["force", "info", "constraint"],
        }

    def test_published_rows_are_sorted_by_step_and_repeats_are_kept(self, tmp_path: Path):
        steps = 10 * np.arange(100)
        steps[1] = 0
        path = published(tmp_path / "a.csv", step=np.roll(steps, 3))
        assert gmb("audit", "--runs", path, "--quantile=0.985", "--out=audit.json").code == 0
        # The peak in the fifty-first row now belongs to step 470.
        assert read()["runs"]["a"]["t"] == 450

    def test_cells_without_a_value_are_counted(self, tmp_path: Path):
        force = np.zeros(100)
        force[[50, 90]] = 1.0
        force[3] = np.nan
        published(tmp_path / "a.csv", d_force=force)
        done = gmb("audit", "--runs", tmp_path, "--quantile=0.985", "--out=audit.json")
        assert "Cells without a value, which move with nothing: d_force (1)." in done.out
        assert read()["runs"]["a"]["label"] == "REGISTERED_TRANSITION"


class TestBadInput:
    """One line on standard error, exit code 2, nothing written."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--quantile=1",), r"--quantile must be a number in (0, 1), got 1.0"),
            (("--quantile=0",), r"--quantile must be a number in (0, 1), got 0.0"),
            (("--quantile=nan",), r"--quantile must be a number in (0, 1), got nan"),
            (("--radius=0",), "--radius must be a whole number of at least 1, got 0"),
            (("--radius=2.5",), "Invalid value for '--radius'"),
            (("--tolerance=-1",), "--tolerance must be a whole number of at least 0, got -1"),
        ],
    )
    def test_settings_out_of_range(self, tmp_path: Path, options: tuple[str, ...], message: str):
        published(tmp_path / "a.csv")
        assert message in refused("audit", "--runs", tmp_path, *options)
        assert not Path("audit.json").exists()

    def test_missing_columns_name_what_is_needed_and_the_nearest(self, small_csv: Path):
        message = refused("audit", "--runs", small_csv)
        assert message.startswith(f"error: {small_csv}: PT-MSS needs the columns gradient_norm, ")
        assert "missing: gradient_norm, unembedding_entropy, unembedding_rank, corr" in message

    def test_published_signals_without_alternates(self, tmp_path: Path):
        path = published(tmp_path / "a.csv")
        table = pyarrow.csv.read_csv(path).select(["step", *SIGNALS[:3], "d_force_alt"])
        pyarrow.csv.write_csv(table.rename_columns({"d_force_alt": "d_info_at"}), path)
        message = refused("audit", "--runs", path)
        assert "missing: d_force_alt, d_info_alt, d_constraint_alt; nearest to d_force" in message

    def test_a_signal_that_is_nan_throughout(self, tmp_path: Path):
        published(tmp_path / "a.csv", d_info=np.full(100, np.nan))
        assert "run 'a': metric 'd_info' is NaN at every step" in refused(
            "audit", "--runs", tmp_path
        )

    def test_a_wrong_cell_is_named_by_its_line(self, tmp_path: Path):
        path = published(tmp_path / "a.csv")
        lines = path.read_text().splitlines()
        lines[5] = lines[5].replace(",0,", ",oops,", 1)
        path.write_text("\n".join(lines) + "\n")
        assert "line 6" in refused("audit", "--runs", path)

    def test_no_runs_at_all(self, tmp_path: Path):
        assert "no run log" in refused("audit", "--runs", tmp_path / "*.csv")
        assert "Missing option '--runs'" in refused("audit")
