"""What W&B and trackio export, in the forms that their exports have."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    """A CSV with every cell in quotes, as W&B writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def chart(path: Path, metric: str, runs: dict[str, dict[int, float]], *, spread: float = 0) -> Path:
    """A chart's export: a row per step, three columns per run, and three of its step counter."""
    header, steps = ["Step"], sorted({step for values in runs.values() for step in values})
    rows: list[list[Any]] = [[step] for step in steps]
    for run, values in runs.items():
        for name in ("_step", metric):
            header += [f"{run} - {name}{end}" for end in ("", "__MIN", "__MAX")]
        for row, step in zip(rows, steps, strict=True):
            value = values.get(step)
            counter = [""] * 3 if value is None else [step] * 3
            row += counter
            row += [""] * 3 if value is None else [value, value - spread, value + spread]
    return write(path, header, rows)


class TestChart:
    def test_a_row_per_run_and_step(self, tmp_path: Path) -> None:
        values = {"brave-sun-2": {0: 0.5, 10: 0.25, 20: 0.125}, "a - b": {10: 1.0, 20: 2.0}}
        log = RunLog.read(chart(tmp_path / "export.csv", "train/loss", values))
        assert log.runs == ("a - b", "brave-sun-2")
        assert log.observables == ("train/loss",)
        panel = log.panel("train/loss")
        np.testing.assert_array_equal(panel.values, [[1, 2, np.nan], [0.5, 0.25, 0.125]])
        np.testing.assert_array_equal(panel.steps, [[10, 20, 0], [0, 10, 20]])
        assert log.notes == ("The steps are the column 'Step'.",)

    def test_charts_of_the_same_runs_are_columns_of_one_log(self, tmp_path: Path) -> None:
        loss = {run: {step: step / 8 for step in range(0, 50, 10)} for run in "ab"}
        accuracy = {run: {step: step / 64 for step in (0, 20, 40)} for run in "ab"}
        chart(tmp_path / "loss.csv", "loss", loss)
        chart(tmp_path / "acc.csv", "acc", accuracy)
        log = RunLog.read(tmp_path)
        assert (log.runs, sorted(log.observables)) == (("a", "b"), ["acc", "loss"])
        np.testing.assert_array_equal(log.panel("loss").values, [[0, 1.25, 2.5, 3.75, 5]] * 2)
        both = log.complete(["acc", "loss"])
        np.testing.assert_array_equal(both.panel("acc").values, [[0, 20 / 64, 40 / 64]] * 2)
        asked = RunLog.read(tmp_path, columns=["acc", "loss"])
        assert asked.fingerprint() == log.fingerprint()
        with pytest.raises(InputError, match=r"column 'los' missing; found: .*Did you mean 'loss'"):
            RunLog.read(tmp_path, columns=["los"])

    def test_one_column_of_one_run_in_two_files(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            chart(tmp_path / f"{name}.csv", "loss", {"a": {0: 1.0, 10: 2.0}})
        with pytest.raises(InputError, match=r"run 'a' is in two files with column 'loss', .*one"):
            RunLog.read(tmp_path)

    def test_averages_are_said(self, tmp_path: Path) -> None:
        values = {"a": {0: 0.5, 10: 0.25}}
        log = RunLog.read(chart(tmp_path / "export.csv", "loss", values, spread=0.125))
        assert "W&B averaged several values in 2 cells of this chart" in log.notes[0]

    def test_a_bad_cell_is_named_by_its_line(self, tmp_path: Path) -> None:
        path = chart(tmp_path / "e.csv", "loss", {"a": {0: 1, 10: 2, 20: 3}, "b": {20: 5, 30: 6}})
        path.write_text(path.read_text().replace('"5","5","5"', '"five","5","5"'))
        with pytest.raises(InputError, match=r"e\.csv: line 4: column 'loss' holds 'five'"):
            RunLog.read(path)

    def test_without_steps(self, tmp_path: Path) -> None:
        path = chart(tmp_path / "e.csv", "loss", {"a": {0: 1, 10: 2}})
        path.write_text(path.read_text().replace('"Step"', '"Relative Time (Process)"'))
        match = r"no column 'step' and no 'Step'; .*first column is 'Relative Time \(Process\)'"
        with pytest.raises(InputError, match=match):
            RunLog.read(path)
        path.write_text(path.read_text().replace("Relative Time (Process)", "trainer/global_step"))
        assert RunLog.read(path).panel("step").last_step.tolist() == [10]

    def test_no_rows_and_no_values(self, tmp_path: Path) -> None:
        path = chart(tmp_path / "e.csv", "loss", {"a": {}})
        with pytest.raises(InputError, match="no rows"):
            RunLog.read(path)
        write(path, ["Step", "a - x", "a - x__MIN", "a - x__MAX"], [[1, "", "", ""]])
        with pytest.raises(InputError, match="run 'a' has no value; leave it out of the chart"):
            RunLog.read(path)


class TestHistory:
    HEADER = ("", "loss", "_step", "_runtime", "_timestamp")

    def test_the_clocks_of_wandb_are_no_observables(self, tmp_path: Path) -> None:
        rows = [[i, 1 / (i + 1), 10 * i, 0.5 * i, 1.7e9 + i] for i in range(3)]
        log = RunLog.read(write(tmp_path / "seed_1.csv", self.HEADER, rows))
        assert (log.runs, log.observables) == (("seed_1",), ("loss",))
        assert log.notes == ("The steps are the column '_step'.",)
        with pytest.raises(InputError, match="column '_runtime' is W&B's own clock"):
            log.panel("_runtime")

    def test_two_counters_are_not_guessed_between(self, tmp_path: Path) -> None:
        header = ("_step", "_runtime", "_timestamp", "train/global_step", "loss", "eval/acc")
        rows = [
            [0, 1, 2, 10, 0.5, ""],
            [1, 2, 3, 10, "", 0.25],
            [2, 3, 4, 20, 0.25, ""],
        ]
        path = write(tmp_path / "seed_1.csv", header, rows)
        match = "'_step' and 'train/global_step' may all be the steps; say which"
        with pytest.raises(InputError, match=match):
            RunLog.read(path)
        log = RunLog.read(path, step_column="train/global_step")
        np.testing.assert_array_equal(log.panel("step").values, [[10, 20]])
        np.testing.assert_array_equal(log.panel("loss").values, [[0.5, 0.25]])
        np.testing.assert_array_equal(log.panel("eval/acc").values, [[0.25, np.nan]])

    def test_without_steps(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", ("_runtime", "_timestamp", "loss"), [[1, 2, 3]])
        with pytest.raises(InputError, match="this W&B export has no column 'step' and no '_step'"):
            RunLog.read(path)


class TestTrackio:
    """The columns are those that trackio 0.43 writes."""

    @staticmethod
    def project(path: Path, runs: Sequence[tuple[str, str]] = (("1f", "a"), ("2e", "b"))) -> Path:
        """A project's Parquet: a row per call of `log`, two calls at every other step."""
        rows: list[dict[str, Any]] = []
        for run_id, name in runs:
            for step in range(0, 50, 10):
                base = {"run_id": run_id, "run_name": name, "step": step, "space_id": None}
                base |= {"timestamp": "2026-11-21T02:47:01.581399+00:00"}
                rows.append({**base, "id": len(rows), "log_id": f"{len(rows):x}", "loss": step / 8})
                if step % 20 == 0:
                    rows.append({**base, "id": len(rows), "log_id": "ff", "acc": step / 64})
        names = dict.fromkeys(name for row in rows for name in row)
        pq.write_table(pa.table({n: [row.get(n) for row in rows] for n in names}), path)
        return path

    def test_a_project(self, tmp_path: Path) -> None:
        log = RunLog.read(self.project(tmp_path / "my_project.parquet"))
        assert (log.runs, log.observables) == (("a", "b"), ("loss", "acc"))
        np.testing.assert_array_equal(log.panel("loss").values, [[0, 1.25, 2.5, 3.75, 5]] * 2)
        assert log.dropped_duplicates == {}
        both = log.complete(["acc", "loss"])
        np.testing.assert_array_equal(both.panel("step").values, [[0, 20, 40]] * 2)

    def test_two_runs_of_one_name(self, tmp_path: Path) -> None:
        path = self.project(tmp_path / "p.parquet", [("1f", "a"), ("2e", "a")])
        with pytest.raises(InputError, match=r"2 runs have the name 'a'; .*--run-column run_id"):
            RunLog.read(path)
        assert RunLog.read(path, run_column="run_id").runs == ("1f", "2e")

    def test_csvs_of_its_dashboard(self, tmp_path: Path) -> None:
        header = ["timestamp", "step", "train/loss", "run", "run_id", "series_key"]
        for metric, every in (("train/loss", 10), ("eval/acc", 20)):
            header[2] = metric
            rows = [
                ["2026-11-21T02:47:01", step, step / 8, run, f"{run}1f", f"{run}1f"]
                for run in ("a", "b")
                for step in range(0, 50, every)
            ]
            write(tmp_path / f"{metric.replace('/', '_')}.csv", header, rows)
        log = RunLog.read(tmp_path)
        assert (log.runs, sorted(log.observables)) == (("a", "b"), ["eval/acc", "train/loss"])
        np.testing.assert_array_equal(log.panel("step").lengths, [5, 5])
